"""VCD (IEEE 1364, with GTKWave's strings), for GTKWave, Surfer and similar viewers.

It has levels, link state, the rail as reals, and the stage of each command in flight. Times are from the first tick of the capture.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from vcd import VCDWriter

from wattbell import durable
from wattbell.analysis.names import admin_name, io_name
from wattbell.capture import Capture
from wattbell.capture.eventtext import LINK_STATES
from wattbell.errors import CaptureError, UsageError
from wattbell.measure.loss import HIDES_COMMANDS
from wattbell.measure.table import NONE, SIZED_OPCODES, Commands
from wattbell.origin import origin_of_capture

from .formats import export_format
from .lanes import lanes
from .railrows import rail_rows, thinning
from .window import LEVELS, ExportWindow, Selection, of_ticks, resolve, track

Int64 = npt.NDArray[np.int64]
MOST_COMMANDS = 1_000_000
MOST_RAIL_ROWS = 500_000
"""Rows of the rail: of a longer window they are means of as many samples as it takes."""
SUBMITTED, FETCHED, DATA, DATA_OVER = "submitted", "fetched", "data", "data_over"
"""``state`` of a command: from the doorbell; from the fetch; from the first to the last data TLP; from there to the CQE."""
Change = tuple[int, str, Any]
"""(tick, variable, value)."""


def export_vcd(capture: Capture, out: str | Path, *, start_s: float | None = None, stop_s: float | None = None) -> Path:
    """Write the window to ``out``.

    ``rail``: voltage, current, power (real, NaN where samples are missing). ``pins``: CLKREQ#, PERST#, LINK0..2 (the bits of LinkState) and
    LINK_STATE (string). ``qN``: the commands of queue N, each in a slot: ``slotK_busy``, and as strings ``slotK_state`` (submitted,
    fetched, data, data_over) and ``slotK_command``. ``missing``: high where records or samples are missing. There are no
    vectors: sigrok (libsigrok 0.5.2) reads nothing behind the change of one. Raises UsageError for more than
    ``MOST_COMMANDS`` commands.
    """
    return vcd_file(capture, resolve(capture, start_s, stop_s), Path(out))


@export_format("vcd", "VCD", ".vcd")
def write_vcd(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """A VCD file."""
    return vcd_file(capture, of_ticks(capture, begin_tick, end_tick), path)


def vcd_file(capture: Capture, window: ExportWindow, path: Path) -> Path:
    """Write the VCD file of a window, as :func:`export_vcd`."""
    selection = Selection(capture, window)
    if (count := len(selection.overlapping)) > MOST_COMMANDS:
        raise UsageError(f"{count:,} commands are too many for a VCD file ({MOST_COMMANDS:,}): give a shorter window (--from, --to).")
    every = thinning(selection, MOST_RAIL_ROWS)
    comment = f"Rail: means of {every} samples." if every > 1 else "Rail: every sample."
    comment += f" Origin: {origin_of_capture(capture.meta).words}."
    anchor = capture.meta["clock"].get("utc_anchor")
    date = datetime.datetime.fromtimestamp(anchor["utc_ns"] / 1e9, datetime.UTC).isoformat() if anchor else ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.replacing(path) as made, open(made, "w", encoding="ascii", errors="replace") as out:
            scale, factor = _timescale(capture.tick_ps)
            writer = VCDWriter(out, timescale=scale, date=date, comment=comment, version="wattbell", init_timestamp=_time(window, factor))
            _Variables(writer, selection, every).write(window, factor)
            writer.close(_time(window, factor, window.last_tick))
    except OSError as error:
        raise CaptureError(f"{path} cannot be written ({error.strerror or error}); choose another place.") from None
    return path


def _timescale(tick_ps: int) -> tuple[str, int]:
    """(timescale, its units a tick)."""
    for unit, size in (("us", 1_000_000), ("ns", 1_000), ("ps", 1)):
        for number in (100, 10, 1):
            if tick_ps == number * size:
                return f"{number} {unit}", 1
    return "1 ps", tick_ps


def _time(window: ExportWindow, factor: int, tick: int | None = None) -> int:
    return ((window.first_tick if tick is None else tick) - window.zero_tick) * factor


class _Variables:
    """The variables of a file and their last values."""

    def __init__(self, writer: VCDWriter, selection: Selection, every: int) -> None:
        self._writer, self._selection, self._every = writer, selection, every
        self._variables: dict[str, Any] = {}
        self._changes: list[Change] = []

    def write(self, window: ExportWindow, factor: int) -> None:
        """Declare all, then write all changes in order of time."""
        self._missing()
        self._pins()
        self._commands()
        if self._selection.rail is not None:
            for name in ("voltage", "current", "power"):
                self._declare("rail", name, "real", math.nan)
        first, last = window.first_tick, window.last_tick
        self._changes.sort(key=lambda change: change[0])
        change = self._writer.change
        for tick, name, value in _merged(self._changes, self._rail()):
            if tick < last:
                change(self._variables[name], (max(tick, first) - window.zero_tick) * factor, value)

    def _declare(self, scope: str, name: str, kind: str, initial: Any, size: int | None = None) -> str:
        key = f"{scope}.{name}"
        self._variables[key] = self._writer.register_var(f"wattbell.{scope}", name, kind, size=size, init=initial)
        return key

    def _pins(self) -> None:
        events, first = self._selection.all_events, self._selection.window.first_tick
        for name, level in LEVELS.items():
            ticks, values = track(events, *level)
            at = int(np.searchsorted(ticks, first, side="right"))
            initial = int(values[at])
            rest = list(zip(ticks[at:].tolist(), values[at + 1 :].tolist(), strict=True))
            for bit, pin in enumerate(("LINK0", "LINK1", "LINK2") if name == "LINK" else (name,)):
                key = self._declare("pins", pin, "wire", initial >> bit & 1, 1)
                self._changes += [(tick, key, value >> bit & 1) for tick, value in rest]
            if name == "LINK":
                key = self._declare("pins", "LINK_STATE", "string", LINK_STATES.get(initial, str(initial)))
                self._changes += [(tick, key, LINK_STATES.get(value, str(value))) for tick, value in rest]

    def _missing(self) -> None:
        gaps, window = self._selection.gaps, self._selection.window
        of_commands = gaps["kind"].is_in(list(HIDES_COMMANDS))
        for name, rows in (("commands", gaps.filter(of_commands)), ("other", gaps.filter(~of_commands))):
            spans = sorted(zip(rows["first_tick"].to_list(), rows["last_tick"].to_list(), strict=True))
            name = self._declare("missing", name, "wire", int(any(a <= window.first_tick <= b for a, b in spans)), 1)
            until = window.first_tick
            for first, last in _joined(spans):
                if last < until:
                    continue
                self._changes += [(int(first), name, 1), (int(last) + 1, name, 0)]

    def _commands(self) -> None:
        table = self._selection.overlapping
        for qid in np.unique(table.qid).tolist():
            mine = table.take(table.qid == qid)
            end = np.maximum(mine.cqe_tick, mine.start_tick)
            # a slot is free for an instant between two commands, so that both are seen
            lane = lanes(mine.start_tick, end + 1)
            for number in range(int(lane.max()) + 1):
                busy = self._declare(f"q{qid}", f"slot{number}_busy", "wire", 0, 1)
                state = self._declare(f"q{qid}", f"slot{number}_state", "string", "")
                text = self._declare(f"q{qid}", f"slot{number}_command", "string", "")
                here = lane == number
                for at, stop, words in zip(_states(mine.take(here)), end[here].tolist(), _texts(mine.take(here)), strict=True):
                    self._changes += [(tick, state, value) for tick, value in at]
                    self._changes += [(at[0][0], busy, 1), (at[0][0], text, words), (stop, busy, 0), (stop, state, ""), (stop, text, "")]

    def _rail(self) -> Iterator[Change]:
        for rows in rail_rows(self._selection, self._every):
            columns = [values.tolist() for values in (rows.voltage, rows.current, rows.power)]
            for tick, voltage, current, power in zip(rows.tick.tolist(), *columns, strict=True):
                yield tick, "rail.voltage", voltage
                yield tick, "rail.current", current
                yield tick, "rail.power", power


def _states(table: Commands) -> Iterator[list[tuple[int, str]]]:
    """(tick, state) of each command, in order of time, up to its CQE."""
    columns = [getattr(table, f"{name}_tick").tolist() for name in ("start", "fetch", "first_data", "last_data")]
    for start, *instants in zip(*columns, strict=True):
        found = [(start, SUBMITTED)]
        for tick, state in zip(instants, (FETCHED, DATA, DATA_OVER), strict=True):
            if tick != NONE:
                found.append((max(tick, found[-1][0]), state))
        yield found


def _texts(table: Commands) -> Iterator[str]:
    columns = (table.qid.tolist(), table.opcode.tolist(), table.cid.tolist(), table.slba.tolist(), table.nbytes.tolist())
    for qid, opcode, cid, slba, nbytes in zip(*columns, strict=True):
        # a VCD string ends at a blank
        place = f"_lba_{slba}" if opcode in SIZED_OPCODES else ""
        yield f"{admin_name(opcode)}_cid_{cid}" if qid == 0 else f"{io_name(opcode)}_cid_{cid}{place}_{nbytes}_B"


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans [first, last] in order, with those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, last in spans:
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _merged(changes: list[Change], rail: Iterator[Change]) -> Iterator[Change]:
    """Merge both in order of time; at one tick in the order in which they are given, changes of pins and commands first."""
    at = 0
    for one in rail:
        while at < len(changes) and changes[at][0] <= one[0]:
            yield changes[at]
            at += 1
        yield one
    yield from changes[at:]
