"""From RAIL blocks to samples on one grid: where each block lies, and what is missing between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..wire import spec
from ..wire.decode import Gap
from ..wire.records import Rail
from .rail import F32, RailWriter

_VOLT = np.float32(spec.VOLTAGE_LSB_UV * 1e-6)
_AMPERE = np.float32(spec.CURRENT_LSB_NA * 1e-9)


class RailTrack:
    """Places blocks on the sample grid of the first one, ``first_tick + i * interval_ticks``.

    A block of another interval, or one that came after its place was passed, is not put into the waveform
    (``sample_id`` -1) and is a gap; its energy still counts, since the energy lies in the block.
    """

    def __init__(self, directory: Path, tick_ps: int, serial: str) -> None:
        self.first_tick: int | None = None
        self.interval_ticks = 0
        self.missing = 0
        """Samples of the grid that hold NaN."""
        self.flags = 0
        self._directory, self._tick_ps, self._serial = directory, tick_ps, serial
        self._writer: RailWriter | None = None

    @property
    def samples(self) -> int:
        """Samples on the grid so far, gaps included."""
        return self._writer.samples if self._writer else 0

    def begin(self, first_tick: int, interval_ticks: int) -> RailWriter:
        """Fix the grid."""
        self.first_tick, self.interval_ticks = first_tick, max(1, interval_ticks)
        self._writer = RailWriter(self._directory, self.interval_ticks, self._tick_ps, self._serial)
        return self._writer

    def add(self, rail: Rail, tick_offset: int) -> tuple[npt.NDArray[np.int64], list[Gap]]:
        """Write the samples of some blocks; returns the sample id of each block, and the gaps met."""
        first = rail.first_tick + tick_offset
        interval = rail.columns["interval_ticks"].astype(np.int64)
        count = rail.columns["count"].astype(np.int64)
        self.flags |= int(np.bitwise_or.reduce(rail.columns["flags"]))
        writer = self._writer or self.begin(int(first[0]), int(interval[0]))
        assert self.first_tick is not None
        step = self.interval_ticks
        ids = (first - self.first_tick + step // 2) // step
        voltage = rail.voltage.astype(np.float32) * _VOLT
        current = rail.current.astype(np.float32) * _AMPERE
        power = voltage * current
        ends = ids + count
        if ids[0] == writer.samples and (interval == step).all() and (ids[1:] == ends[:-1]).all():
            writer.write(writer.samples, voltage, current, power)
            return ids, []
        return ids, self._one_by_one(writer, rail, ids, interval, count, (voltage, current, power))

    def _one_by_one(
        self,
        writer: RailWriter,
        rail: Rail,
        ids: npt.NDArray[np.int64],
        interval: npt.NDArray[np.int64],
        count: npt.NDArray[np.int64],
        data: tuple[F32, F32, F32],
    ) -> list[Gap]:
        gaps: list[Gap] = []
        stop = 0
        for index, sample in enumerate(ids.tolist()):
            start, stop = stop, stop + int(count[index])
            if stop == start:
                continue
            overlap = writer.samples - sample
            if interval[index] != self.interval_ticks or overlap > 0:
                late = interval[index] == self.interval_ticks
                reason = "came too late for the waveform" if late else "sample interval changed during the capture"
                gaps.append(self._gap(sample, stop - start, reason))
                ids[index] = -1
                continue
            if overlap < 0:
                flags, dropped = int(rail.columns["flags"][index]), int(rail.dropped[index])
                reason = "blocks lost on the way to the host"
                if dropped:
                    reason = "dropped in the rig"
                elif flags & spec.RailFlag.RESTARTED:
                    reason = "the rig was not capturing"
                gaps.append(self._gap(writer.samples, -overlap, reason))
                self.missing -= overlap
            writer.write(sample, *(column[start:stop] for column in data))
        return gaps

    def _gap(self, sample: int, count: int, reason: str) -> Gap:
        assert self.first_tick is not None
        first = self.first_tick + sample * self.interval_ticks
        return Gap(spec.Kind.RAIL, first, first + (count - 1) * self.interval_ticks, count, reason)

    def write_samples(self, first_tick: int, interval_ticks: int, voltage: F32, current: F32) -> int:
        """Append samples in V and A (synthetic captures); returns the sample id of the first."""
        writer = self._writer or self.begin(first_tick, interval_ticks)
        assert self.first_tick is not None
        sample = (first_tick - self.first_tick) // self.interval_ticks
        self.missing += max(0, sample - writer.samples)
        writer.write(sample, voltage, current, voltage * current)
        return sample

    def close(self, utc_first_ns: int | None, utc_last_ns: int | None) -> None:
        """Finish ``rail.jls`` (a file with no samples when none came)."""
        writer = self._writer or RailWriter(self._directory, 1000, self._tick_ps, self._serial)
        writer.close(utc_first_ns, utc_last_ns)
