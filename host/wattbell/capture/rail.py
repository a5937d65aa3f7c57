"""The rail waveform in ``rail.jls``: f32 voltage, current and power on one sample grid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyjls

from ..errors import CaptureError

F32 = npt.NDArray[np.float32]
VOLTAGE, CURRENT, POWER = 1, 2, 3
SIGNALS = ((VOLTAGE, "voltage", "V"), (CURRENT, "current", "A"), (POWER, "power", "W"))
NAME = "rail.jls"
_FILL = 1 << 20
_UTC_EPOCH_NS = 1_514_764_800 * 1_000_000_000
"""JLS counts time from 2018-01-01 UTC in units of 2**-30 s."""


def jls_time(utc_ns: int) -> int:
    """JLS timestamp of a UTC in nanoseconds since 1970."""
    return ((utc_ns - _UTC_EPOCH_NS) << 30) // 1_000_000_000


@dataclass
class RailWaveform:
    """Samples ``start`` .. ``start + len - 1``: f32 arrays in V, A and W; NaN where nothing was received."""

    start: int
    voltage: F32
    current: F32
    power: F32

    def __len__(self) -> int:
        return len(self.voltage)


class RailWriter:
    """Writes samples in increasing order; a hole becomes NaN."""

    def __init__(self, directory: Path, interval_ticks: int, tick_ps: int, serial: str) -> None:
        self.samples = 0
        rate = max(1, round(1e12 / (interval_ticks * tick_ps)))
        self._jls = pyjls.Writer(str(directory / NAME))
        self._jls.source_def(1, "wattbell", vendor="Wattbell", model="rig", version="1", serial_number=serial)
        for signal, name, units in SIGNALS:
            self._jls.signal_def(
                signal,
                1,
                signal_type=pyjls.SignalType.FSR,
                data_type=pyjls.DataType.F32,
                sample_rate=rate,
                name=name,
                units=units,
            )

    def write(self, start: int, voltage: F32, current: F32, power: F32) -> None:
        """Append samples from `start` (>= the number written so far) on."""
        hole = start - self.samples
        if hole > 0:
            nan = np.full(min(hole, _FILL), np.nan, np.float32)
            while hole:
                part = nan[: min(hole, _FILL)]
                self._append(part, part, part)
                hole -= len(part)
        self._append(np.ascontiguousarray(voltage), np.ascontiguousarray(current), np.ascontiguousarray(power))

    def _append(self, voltage: F32, current: F32, power: F32) -> None:
        for signal, data in ((VOLTAGE, voltage), (CURRENT, current), (POWER, power)):
            self._jls.fsr_f32(signal, self.samples, data)
        self.samples += len(voltage)

    def close(self, utc_first_ns: int | None, utc_last_ns: int | None) -> None:
        """Finish the file; with the UTC of the first sample and of the one behind the last, time is mapped."""
        if utc_first_ns is not None and utc_last_ns is not None:
            for signal, _, _ in SIGNALS:
                self._jls.utc(signal, 0, jls_time(utc_first_ns))
                self._jls.utc(signal, self.samples, jls_time(utc_last_ns))
        self._jls.close()


class RailReader:
    """Random access to ``rail.jls``."""

    def __init__(self, directory: Path, first_tick: int, interval_ticks: int, tick_ps: int) -> None:
        self.first_tick = first_tick
        """Tick of sample 0."""
        self.interval_ticks = interval_ticks
        self.interval_s = interval_ticks * tick_ps * 1e-12
        try:
            self._jls = pyjls.Reader(str(directory / NAME))
        except (RuntimeError, OSError, ValueError) as error:
            raise CaptureError(f"{directory / NAME} cannot be read ({error}).") from None
        lengths = {s.name: int(s.length) for s in self._jls.signals.values()}
        self.samples = min((lengths.get(name, 0) for _, name, _ in SIGNALS), default=0)
        """Number of samples, gaps included."""

    def __len__(self) -> int:
        return self.samples

    def tick_of(self, sample: int) -> int:
        """Tick of a sample."""
        return self.first_tick + sample * self.interval_ticks

    def sample_at(self, tick: int) -> int:
        """Index of the first sample at or after `tick`, limited to 0 .. samples."""
        return min(max(-((self.first_tick - tick) // self.interval_ticks), 0), self.samples)

    def _read(self, signal: int, start: int, count: int) -> F32:
        if count <= 0:
            return np.empty(0, np.float32)
        return np.asarray(self._jls.fsr(signal, start, count), dtype=np.float32)

    def read(self, start: int = 0, stop: int | None = None) -> RailWaveform:
        """Samples ``start`` .. ``stop - 1`` (all by default), cut to what is there."""
        start = min(max(start, 0), self.samples)
        stop = self.samples if stop is None else min(max(stop, start), self.samples)
        parts = [self._read(signal, start, stop - start) for signal, _, _ in SIGNALS]
        return RailWaveform(start, *parts)

    def power(self, start: int = 0, stop: int | None = None) -> F32:
        """Power in W of samples ``start`` .. ``stop - 1``."""
        start = min(max(start, 0), self.samples)
        stop = self.samples if stop is None else min(max(stop, start), self.samples)
        return self._read(POWER, start, stop - start)

    def overview(self, signal: str, start: int, stop: int, points: int) -> npt.NDArray[np.float64]:
        """Statistics of `points` equal stretches: array (points, 4) of mean, std, min, max in SI units."""
        number = next(s for s, name, _ in SIGNALS if name == signal)
        increment = max(1, (stop - start) // points)
        count = max(1, (stop - start) // increment)
        return np.asarray(self._jls.fsr_statistics(number, start, increment, count), dtype=np.float64)

    def close(self) -> None:
        """Release the file."""
        self._jls.close()
