"""sigrok session files (``.sr``, srzip version 2): rail as analog; sidebands, link state and strobes as logic; one time base.

The layout is a ZIP (sigrok.org, File format:Sigrok/v2):

- ``version``
- ``metadata``, an INI
- ``logic-1-<chunk>`` (``unitsize`` bytes per sample, bit i is probe i + 1)
- ``analog-1-<channel>-<chunk>`` (f32 little-endian; channel numbers continue after the probes)
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.columns import AGES
from wattbell_spec.wire import CommandFlag

from wattbell import durable
from wattbell.analysis.context import AER
from wattbell.capture import Capture
from wattbell.errors import CaptureError, UsageError
from wattbell.measure.depth import DepthSteps, depth_steps
from wattbell.measure.loss import HIDES_COMMANDS
from wattbell.measure.table import NONE, Commands
from wattbell.origin import origin_of_capture
from wattbell.probes import PROBES

from .formats import export_format
from .window import LEVELS, ExportWindow, Selection, of_ticks, resolve, track

Int64 = npt.NDArray[np.int64]

DECODERS = Path(__file__).parent / "decoders"
"""Value for SIGROKDECODE_DIR. Its decoders run in sigrok's own Python and import nothing of this package."""

_UNIT_BYTES = 2
ORIGIN_BITS = 6
CHANNELS = (*PROBES, "BUSY", *(f"ORIGIN{bit}" for bit in range(ORIGIN_BITS)))
"""Logic channels of a session. BUSY is high while a command is in flight.

ORIGIN is a number beside each CQE strobe that identifies the doorbell strobe of its command. Strobes have no identifier, and commands
overtake each other. A command in flight before the window has no doorbell in it.
"""
ORIGIN_BEFORE = 0
"""The commands that complete in this sample were in flight at the first sample."""
ORIGIN_UNKNOWN = (1 << ORIGIN_BITS) - 1
"""The doorbell is not known, has more strobes behind it than ORIGIN can count, or commands of several doorbells complete in this sample."""
ORIGINS = ORIGIN_UNKNOWN - 1
"""Else doorbell strobe n (from 0) of the session is ``n % ORIGINS + 1``, the latest one that has this number."""
ANALOG = ("voltage", "current", "power")
DEFAULT_RATE_HZ = 1_000_000
MAX_SAMPLES = 200_000_000
_CHUNK = 1 << 20
_AGES = tuple(instant.name for instant in AGES if instant.sign < 0)
"""Instants before the CQE, in wire order: bit i of ``saturated``."""
_DOUBTED = CommandFlag.GUESS | CommandFlag.NO_SQE | CommandFlag.LOSS | CommandFlag.CID_REUSED | CommandFlag.ABORTED


@dataclass(frozen=True)
class SigrokFile:
    """Result of an export: ``samples`` at ``samplerate_hz`` from ``start_s``.

    merged: strobes in a sample that already had one; they cannot be separated at this rate
    """

    path: Path
    samplerate_hz: int
    samples: int
    start_s: float
    merged: int


def rate_text(rate_hz: int) -> str:
    """Sample rate in sigrok's notation."""
    for unit, scale in (("GHz", 10**9), ("MHz", 10**6), ("kHz", 10**3)):
        if rate_hz % scale == 0:
            return f"{rate_hz // scale} {unit}"
    return f"{rate_hz} Hz"


def export_sigrok(
    capture: Capture,
    out: str | Path,
    *,
    start_s: float | None = None,
    stop_s: float | None = None,
    samplerate_hz: int = DEFAULT_RATE_HZ,
) -> SigrokFile:
    """Write the window to ``out``. Raises UsageError for a rate or a window that makes more than ``MAX_SAMPLES`` samples.

    Each sample has these values:

    - the last rail sample at or before it (NaN before the first and for missing samples)
    - the level of the sidebands, and the link state
    - a one-sample strobe for each doorbell, each command fetch and each CQE since the previous sample. An instant known only as a bound
      (saturated) has no strobe.
    - ORIGIN: the doorbell strobe of a command that completes
    - DATA: high while data of any command is between its first and last TLP (for one sample if both fall into it)
    - BUSY: high while a command is in flight, Asynchronous Event Requests not counted, and where command records are missing
    """
    if not 1 <= samplerate_hz <= 10**9:
        raise UsageError(f"A sample rate lies between 1 Hz and 1 GHz, not at {samplerate_hz}.")
    return sigrok_file(capture, resolve(capture, start_s, stop_s), Path(out), samplerate_hz)


@export_format("sr", "sigrok (.sr)", ".sr")
def write_sigrok(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """A sigrok session."""
    return sigrok_file(capture, of_ticks(capture, begin_tick, end_tick), path).path


def sigrok_file(capture: Capture, window: ExportWindow, path: Path, samplerate_hz: int = DEFAULT_RATE_HZ) -> SigrokFile:
    """Write the sigrok session of a window, as :func:`export_sigrok`."""
    selection = Selection(capture, window)
    ticks_a_second = round(1 / window.tick_s)
    # up to the sample that holds a strobe of the window's last tick
    samples = -(-(window.last_tick - 1 - window.first_tick) * samplerate_hz // ticks_a_second) + 1
    if samples > MAX_SAMPLES:
        raise UsageError(
            f"{window.seconds:.3g} s at {rate_text(samplerate_hz)} are {samples:,} samples, more than sigrok handles "
            f"well ({MAX_SAMPLES:,}): give a shorter window (--from, --to) or a lower rate."
        )
    logic = _Logic(selection, samplerate_hz)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.replacing(path) as made, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("version", "2")
            archive.writestr("metadata", _metadata(selection, samplerate_hz))
            for number, first in enumerate(range(0, samples, _CHUNK), start=1):
                ticks = logic.ticks(first, min(first + _CHUNK, samples))
                archive.writestr(f"logic-1-{number}", logic.levels(first, ticks).tobytes())
                for channel, values in enumerate(_rail(selection, ticks), start=len(CHANNELS) + 1):
                    archive.writestr(f"analog-1-{channel}-{number}", values.astype("<f4").tobytes())
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    start = (window.first_tick - window.zero_tick) * window.tick_s
    return SigrokFile(path, samplerate_hz, samples, start, logic.merged)


def _metadata(selection: Selection, rate_hz: int) -> str:
    lines = [
        "[global]",
        "sigrok version=0.5.2",
        f"origin={origin_of_capture(selection.capture.meta).value}",
        "",
        "[device 1]",
        "capturefile=logic-1",
        f"total probes={len(CHANNELS)}",
        f"samplerate={rate_text(rate_hz)}",
        f"total analog={len(ANALOG) if selection.rail else 0}",
    ]
    lines += [f"probe{i}={name}" for i, name in enumerate(CHANNELS, start=1)]
    if selection.rail:
        lines += [f"analog{i}={name}" for i, name in enumerate(ANALOG, start=len(CHANNELS) + 1)]
    return "\n".join([*lines, f"unitsize={_UNIT_BYTES}", ""])


class _Logic:
    """The probes at any sample."""

    def __init__(self, selection: Selection, rate_hz: int) -> None:
        window = self._window = selection.window
        self._rate = rate_hz
        self._ticks_a_second = round(1 / window.tick_s)
        self._levels = [(bit, track(selection.all_events, *level)) for bit, level in enumerate(LEVELS.values())]
        self._strobes: list[tuple[int, Int64]] = []
        self.merged = 0
        commands = selection.overlapping
        instants = {name: _known(commands, name) for name in _AGES} | {"cqe": commands.cqe_tick}
        for name in ("doorbell", "fetch", "cqe"):
            ticks = instants[name]
            if name == "cqe":  # an aborted command has none, only the tick of its end
                ticks = ticks[~commands.has(CommandFlag.ABORTED)]
            ticks = ticks[ticks != NONE]
            if name != "cqe":
                ticks = np.unique(ticks)  # one doorbell may announce several commands, one read fetch several
            indices = self._index(ticks[(ticks >= window.first_tick) & (ticks < window.last_tick)])
            kept = np.unique(indices)
            self.merged += len(indices) - len(kept)
            self._strobes.append((PROBES.index(name.upper()), kept))
        first, last = instants["first_data"], instants["last_data"]
        seen = (first != NONE) & (last != NONE) & (last >= window.first_tick) & (first < window.last_tick)
        self._data = (np.sort(self._index(first[seen])), np.sort(self._index(last[seen])))
        self._busy = _in_flight(selection, -(-self._ticks_a_second // rate_hz))
        self._origins = self._doorbells_of_completions(commands)

    def _doorbells_of_completions(self, commands: Commands) -> tuple[Int64, npt.NDArray[np.uint16]]:
        """(sample of each CQE strobe, its ORIGIN)."""
        first, bell = self._window.first_tick, commands.doorbell_tick
        cqe = np.where(commands.has(CommandFlag.ABORTED), NONE, commands.cqe_tick)
        doubt = (bell == NONE) | ((commands.flags & np.uint8(_DOUBTED)) != 0)
        bound = (commands.saturated & np.uint8(1)) != 0
        inside = (cqe >= first) & (cqe < self._window.last_tick)
        bell, cqe, doubt, bound = bell[inside], cqe[inside], doubt[inside], bound[inside]
        strobes = self._strobes[0][1]
        sample = self._index(cqe)
        number = np.searchsorted(strobes, self._index(np.maximum(bell, first)))
        behind = np.searchsorted(strobes, sample, side="right") - 1 - number
        code = np.where(behind < ORIGINS, number % ORIGINS + 1, ORIGIN_UNKNOWN)
        code[bound] = ORIGIN_UNKNOWN
        code[bell < first] = ORIGIN_BEFORE  # true of a bound, too
        code[doubt] = ORIGIN_UNKNOWN
        order = np.argsort(sample, kind="stable")
        sample, code = sample[order], code[order]
        if not len(sample):
            return sample, code.astype(np.uint16)
        groups = np.flatnonzero(np.append(True, sample[1:] != sample[:-1]))
        mixed = np.maximum.reduceat(code, groups) != np.minimum.reduceat(code, groups)
        return sample[groups], np.where(mixed, ORIGIN_UNKNOWN, code[groups]).astype(np.uint16)

    def _index(self, ticks: Int64) -> Int64:
        """The first sample at or after each tick."""
        # Split so that the product stays below 2^63 for windows of any length.
        seconds, rest = np.divmod(ticks - self._window.first_tick, self._ticks_a_second)
        index: Int64 = seconds * self._rate - (-rest * self._rate // self._ticks_a_second)
        return index

    def ticks(self, first: int, last: int) -> Int64:
        """Ticks of samples ``first`` .. ``last - 1``."""
        index = np.arange(first, last, dtype=np.int64)
        seconds, rest = index // self._rate, index % self._rate
        offset: Int64 = seconds * self._ticks_a_second + rest * self._ticks_a_second // self._rate
        return self._window.first_tick + offset

    def levels(self, first: int, ticks: Int64) -> npt.NDArray[np.uint16]:
        """One word per sample."""
        out = np.zeros(len(ticks), np.dtype("<u2"))
        for bit, (times, values) in self._levels:
            out |= values[np.searchsorted(times, ticks, side="right")] << np.uint16(bit)
        for bit, strobes in self._strobes:
            low, high = np.searchsorted(strobes, [first, first + len(ticks)])
            out[strobes[low:high] - first] |= np.uint16(1 << bit)
        where, code = self._origins
        low, high = np.searchsorted(where, [first, first + len(ticks)])
        out[where[low:high] - first] |= code[low:high] << np.uint16(CHANNELS.index("ORIGIN0"))
        samples = np.arange(first, first + len(ticks))
        begun, ended = self._data
        moving = np.searchsorted(begun, samples, side="right") > np.searchsorted(ended, samples, side="left")
        out |= moving.astype(np.uint16) << np.uint16(PROBES.index("DATA"))
        depth = np.append(self._busy.depth, 0)[np.searchsorted(self._busy.ticks, ticks, side="right") - 1]
        out |= (depth > 0).astype(np.uint16) << np.uint16(CHANNELS.index("BUSY"))
        return out


def _known(table: Commands, name: str) -> Int64:
    """Return the ticks of an instant; ``NONE`` also if it is only known to lie at or before a tick."""
    ticks: Int64 = np.where(table.saturated & np.uint8(1 << _AGES.index(name)), NONE, getattr(table, f"{name}_tick"))
    return ticks


def _in_flight(selection: Selection, sample_ticks: int) -> DepthSteps:
    """Return the number of commands in flight; where records are missing, one command may be in flight.

    A dubious record is extended by a sample to both sides, so that its strobes do not count as its start and end.
    """
    table = selection.overlapping
    counted = table.take(~((table.qid == 0) & (table.opcode == AER)))
    doubt = ((counted.flags & np.uint8(_DOUBTED)) != 0) * np.int64(sample_ticks)
    known = [np.where(ticks == NONE, counted.cqe_tick, ticks) for ticks in (getattr(counted, f"{name}_tick") for name in _AGES)]
    starts, ends = [np.minimum.reduce([*known, counted.cqe_tick]) - doubt], [counted.cqe_tick + doubt]
    gaps = selection.gaps.filter(pl.col("kind").is_in(HIDES_COMMANDS))
    starts.append(gaps["first_tick"].cast(pl.Int64).to_numpy())
    ends.append(np.maximum(gaps["last_tick"].cast(pl.Int64).to_numpy() + 1, starts[-1]))
    return depth_steps(np.concatenate(starts), np.concatenate(ends))


def _rail(selection: Selection, ticks: Int64) -> list[npt.NDArray[np.float32]]:
    """Voltage, current and power held at each tick; nothing without a rail."""
    rail = selection.rail
    if rail is None:
        return []
    index = (ticks - rail.first_tick) // rail.interval_ticks
    low, high = max(int(index[0]), 0), min(int(index[-1]), len(rail) - 1)
    outside = (index < 0) | (index >= len(rail))
    if high < low:
        return [np.full(len(ticks), np.nan, np.float32) for _ in ANALOG]
    part = rail.read(low, high + 1)
    where = np.clip(index - low, 0, high - low)
    out = []
    for values in (part.voltage, part.current, part.power):
        held = values[where]
        held[outside] = np.nan
        out.append(held)
    return out
