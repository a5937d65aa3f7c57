"""JLS version 2, the format of the Joulescope UI and of a capture's own ``rail.jls`` (library pyjls).

FSR signals ``current``, ``voltage`` and ``power`` of a source; NaN is a gap. A signal begins at its own sample (``sample_id_offset``), so
they are laid over each other first. With integers a gap holds whatever the library left there, and no scale is stored: they are refused.
pyjls repairs a file that was not closed by cutting it, in place: such a file is refused before the library opens it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyjls

from .. import door
from ..capture import jlsfaults  # noqa: F401 - keeps the library's messages off the terminal
from ..capture.rail import SOURCE_MODELS, SOURCE_VENDOR
from ..errors import CaptureError
from .fileformat import file_format
from .ranges import JOULESCOPE
from .text import Head
from .units import factor
from .waveform import F64, About, Utc, Waveform, WaveformOptions, WaveformPiece, choose_rail, no_volts, ticks, with_power

NAME, TITLE = "jls", "JLS v2"
TAKES = frozenset({"rail"})
_MAGIC = bytes.fromhex("6a6c73666d740d0a200a201a2020b21c")
_MAGIC_V1 = b"\xd3tagfmt"
_PIECE = 1 << 20
_EPOCH_NS = 1_514_764_800 * 1_000_000_000
"""JLS counts time from 2018-01-01 UTC in units of 2^-30 s."""
_ROLES = ("current", "voltage", "power")
_SLIP_S, _SLIP_SHARE = 0.5, 1e-3


def matches(head: Head) -> bool:
    """Whether it begins as JLS files of either version do."""
    return head.raw.startswith((_MAGIC, _MAGIC_V1))


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError."""
    (path,) = paths
    _refuse_unfinished(path)
    try:
        with pyjls.Reader(str(door.check(path, door.RECORDING))) as reader:
            sources = {key: source for key, source in reader.sources.items() if key}
            signals = [s for s in reader.signals.values() if s.source_id in sources and s.name.lower() in _ROLES and s.length]
            utc = {s.signal_id: _time_map(reader, s.signal_id) for s in signals}
    except (RuntimeError, OSError, ValueError) as error:
        raise CaptureError(f"{path} cannot be read ({error}).") from None
    rails: dict[str, dict[str, Any]] = {}
    for key, source in sources.items():
        found = {s.name.lower(): s for s in signals if s.source_id == key}
        if found:
            rails.setdefault(source.name or f"source {key}", found)
    if not rails:
        raise CaptureError(f"{path} has no signal named current, voltage or power; it is no recording of a supply.")
    chosen = rails[choose_rail(path, list(rails), options.rail)]
    return _waveform(path, chosen, sources[next(iter(chosen.values())).source_id], utc, options)


def _time_map(reader: Any, signal_id: int) -> npt.NDArray[Any] | None:
    """Return the times of day of a signal; None if they cannot be read."""
    try:
        return np.asarray(reader.time_map_get(signal_id))
    except (RuntimeError, OSError, ValueError):
        return None


def _without_odd_power(signals: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The signals without a power that does not go with the others, which tell it themselves; and a note of that."""
    current, power = signals.get("current"), signals.get("power")
    if current is None or power is None or "voltage" not in signals:
        return dict(signals), []
    integers = power.data_type & 0xFFFF != pyjls.DataType.F32 & 0xFFFF
    known = factor(str(power.units))
    if not integers and power.sample_rate == current.sample_rate and known is not None and known[0] == "power":
        return dict(signals), []
    why = "integers" if integers else f"in {power.units!r}" if known is None or known[0] != "power" else f"of {power.sample_rate} Hz"
    return {role: s for role, s in signals.items() if role != "power"}, [
        f"the signal power, {why}, is left out: it is voltage times current here"
    ]


def _refuse_unfinished(path: Path) -> None:
    try:
        size = path.stat().st_size
        with door.open_file(path, door.RECORDING) as file:
            begin = file.read(24)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    if begin.startswith(_MAGIC_V1):
        raise CaptureError(f"{path} is JLS version 1; open it in the Joulescope UI and export it as version 2.")
    if len(begin) < 24 or not begin.startswith(_MAGIC):
        raise CaptureError(f"{path} is no JLS file, or only the beginning of one.")
    (stated,) = struct.unpack_from("<Q", begin, 16)
    if stated != size:
        told = f"it says {stated} bytes and has {size}" if stated else "it was never closed"
        raise CaptureError(f"{path} is cut ({told}); copy it again, or open a copy in the Joulescope UI, which repairs it.")


def _waveform(
    path: Path, signals: Mapping[str, Any], source: Any, utc: Mapping[int, npt.NDArray[Any] | None], options: WaveformOptions
) -> Waveform:
    signals, notes = _without_odd_power(signals)
    for signal in signals.values():
        if signal.data_type & 0xFFFF != pyjls.DataType.F32 & 0xFFFF:
            raise CaptureError(f"{path}: {signal.name} is stored as integers, without scale and gaps; export it as f32.")
    rates = {signal.sample_rate for signal in signals.values()}
    if len(rates) > 1 or not min(rates) > 0:
        each = ", ".join(f"{s.name} {s.sample_rate} Hz" for s in signals.values())
        raise CaptureError(f"{path}: its signals differ in rate ({each}); export them with one.")
    units = {role: factor(str(s.units)) for role, s in signals.items()}
    for role, unit in units.items():
        if unit is None or unit[0] != role:
            raise CaptureError(f"{path}: the unit of {role} is {signals[role].units!r}, which is unknown.")
    if "current" not in signals and "power" not in signals:
        raise CaptureError(f"{path}: there is a voltage and neither current nor power.")
    volts = None if "voltage" in signals else options.volts
    if "voltage" not in signals and volts is None:
        raise no_volts(path, f"there is only {' and '.join(signals)}")
    origin = max(s.sample_id_offset for s in signals.values())
    span = min(s.sample_id_offset + s.length for s in signals.values()) - origin
    if span < 2:
        raise CaptureError(f"{path}: its signals have no time in common.")
    (rate,) = rates
    tick_ps, interval_ticks = ticks(1.0 / rate, span, path)
    scale = {role: unit[1] for role, unit in units.items() if unit}

    def read() -> Iterator[WaveformPiece]:
        try:
            with pyjls.Reader(str(door.check(path, door.RECORDING))) as reader:
                for first in range(0, span, _PIECE):
                    count = min(_PIECE, span - first)
                    got = {
                        role: np.asarray(reader.fsr(s.signal_id, first + origin - s.sample_id_offset, count), np.float64) * scale[role]
                        for role, s in signals.items()
                    }
                    yield _piece(first, got, volts.value if volts else None)
        except (RuntimeError, OSError, ValueError) as error:
            raise CaptureError(f"{path} is damaged ({error}).") from None

    if len(signals) == 3:
        notes.append("the current is the instrument's own power by its voltage")
    times, odd = _utc(signals, utc, origin, rate)
    notes += odd
    about = About(
        TITLE,
        " ".join(word for word in (source.vendor, source.model) if word) or "unknown",
        tick_ps,
        interval_ticks,
        span,
        serial=str(source.serial_number or ""),
        firmware=str(source.version or ""),
        volts=volts,
        utc=times,
        range_=JOULESCOPE,
        notes=tuple(notes),
        conditions=_stated(source),
    )
    return Waveform(about, read)


def _stated(source: Any) -> dict[str, object]:
    """Whether the rail was a model's, where Wattbell wrote it; nothing is known of one that says only "rig" in version 1."""
    if source.vendor != SOURCE_VENDOR:
        return {}
    known = {model: origin.stated for origin, model in SOURCE_MODELS.items()}
    return {"virtual": known.get(source.model) if source.version != "1" else None}


def _piece(first: int, got: Mapping[str, F64], volts: float | None) -> WaveformPiece:
    count = len(next(iter(got.values())))
    voltage = got["voltage"] if volts is None else np.full(count, volts)
    current = got.get("current")
    if current is None:
        current = np.zeros(count)
    if "power" in got:
        current = with_power(voltage, current, got["power"])
    return WaveformPiece(first + np.arange(count, dtype=np.int64), voltage.astype(np.float32), current.astype(np.float32))


def _utc(signals: Mapping[str, Any], maps: Mapping[int, npt.NDArray[Any] | None], origin: int, rate: int) -> tuple[Utc | None, list[str]]:
    """Return the time map of the first signal with a map that fits its samples, and notes on maps that do not.

    Such a map says that time passed without samples, or went back.
    """
    notes: list[str] = []
    for role, signal in signals.items():
        entries = maps[signal.signal_id]
        if entries is None:
            notes.append(f"the times of day of {role} cannot be read, and are left out")
            continue
        if len(entries) == 0:
            continue
        index = np.asarray(entries["sample_id"], np.int64) + signal.sample_id_offset - origin
        stamp = np.asarray(entries["timestamp"], np.int64)
        whole, part = stamp >> 30, stamp & ((1 << 30) - 1)
        ns = whole * 1_000_000_000 + ((part * 1_000_000_000) >> 30) + _EPOCH_NS
        slip = (ns - ns[0]) * 1e-9 - (index - index[0]) / rate
        limit = max(_SLIP_S, _SLIP_SHARE * abs(float(index[-1] - index[0])) / rate)
        if (np.diff(index) < 0).any():
            notes.append(f"the times of day of {role} are not in order, and {_LEFT_OUT.format(len(index))}")
            continue
        if float(slip.max() - slip.min()) > limit:
            at = int(np.argmax(np.abs(np.diff(slip))))
            notes.append(
                f"the times of day of {role} and its samples do not fit: {slip[at + 1] - slip[at]:.3g} s lie between samples "
                f"{index[at]} and {index[at + 1]} that {rate} Hz do not explain. {_LEFT_OUT.format(len(index)).capitalize()}; "
                "samples may be missing there"
            )
            continue
        return Utc(index, ns), notes
    return None, notes


_LEFT_OUT = "all {} of them are left out"
