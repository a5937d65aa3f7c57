"""One load of a capture, shared by every part of the analysis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.nvme import admin
from wattbell_spec.nvme import io as opcode_of
from wattbell_spec.wire import CommandFlag, EventType

from wattbell.capture import Capture
from wattbell.capture.marking import marking_of
from wattbell.measure.depth import DepthSteps, depth_of
from wattbell.measure.errormodel import error_model
from wattbell.measure.instruments import Instruments
from wattbell.measure.loss import LossBook
from wattbell.measure.phases import Phase, find_phases
from wattbell.measure.pieces import bursts
from wattbell.measure.rail import Rail, no_rail_reason
from wattbell.measure.seen import seen_by
from wattbell.measure.source import LONGEST_S, Source
from wattbell.measure.table import Commands, is_one_of, lba_sizes, load_apart

IDLE_MIN_S = 0.020
"""A time without any command in flight of at least this is idle."""
PUT_OFF = tuple(opcode_of(name) for name in ("write", "write_zeroes", "dsm", "flush"))
"""Commands that may leave the drive work for after their completion."""
AER = admin("async_event_request")


def in_flight(commands: Commands) -> npt.NDArray[np.bool_]:
    """Those that are known to have been at work in the drive: no event requests, which wait, and none without an SQE."""
    kept: npt.NDArray[np.bool_] = ~((commands.qid == 0) & (commands.opcode == AER)) & ~commands.has(CommandFlag.NO_SQE)
    return kept


def idle_times(tables: tuple[Commands, ...], last_tick: int, minimum_ticks: int) -> npt.NDArray[np.int64]:
    """Times without any command of ``tables``: shape (n, 2), [last CQE, next start]; the last runs to ``last_tick``.

    Admin commands and markers count: they wake a drive as any command does. Asynchronous Event Requests wait in the
    drive by design and do not count as commands in flight.
    """
    starts, ends = [], []
    for table in tables:
        for piece in table.pieces():
            kept = piece.take(in_flight(piece))
            # Commands without an idle time between them are as one; few of these are left of a piece.
            busy = bursts(kept.start_tick, np.maximum(kept.cqe_tick, kept.start_tick), minimum_ticks)
            starts.append(busy[:, 0])
            ends.append(busy[:, 1])
    begins, over = (np.concatenate(found) if found else np.empty(0, np.int64) for found in (starts, ends))
    if not len(begins):
        return np.empty((0, 2), np.int64)
    order = np.argsort(begins, kind="stable")
    begins, over = begins[order], np.maximum.accumulate(over[order])
    before = np.flatnonzero(begins[1:] - over[:-1] >= minimum_ticks)
    gaps = np.stack((over[before], begins[before + 1]), axis=1)
    if last_tick - int(over[-1]) >= minimum_ticks:
        gaps = np.concatenate((gaps, [[int(over[-1]), last_tick]]))
    return gaps


@dataclass(frozen=True, eq=False)
class Context(Instruments):
    """One load of each table, read by every part of the analysis."""

    commands: Commands
    """Without markers, sorted by start."""
    markers: Commands
    """The in-band markers: they belong to no figure, but they wake a drive as any command does."""
    gaps: npt.NDArray[np.int64]
    """Idle times, see :func:`idle_times`."""
    events: pl.DataFrame
    loss: LossBook
    phases: list[Phase]
    first_tick: int
    last_tick: int
    notes: list[str]

    @property
    def steps(self) -> DepthSteps:
        """Queue depth of the I/O commands; made when it is asked for, and as large as three columns of commands."""
        return depth_of(self.commands.take((self.commands.qid > 0) & ~self.commands.has(CommandFlag.NO_SQE)))

    @cached_property
    def first_put_off(self) -> float:
        """Start of the first command that may leave the drive work for later; infinite without any."""
        left = (self.commands.qid > 0) & is_one_of(self.commands.opcode, PUT_OFF)
        return float(self.commands.start_tick[int(np.argmax(left))]) if left.any() else float("inf")

    def next_start(self, tick: int) -> int:
        """Start of the first command, not a marker, at or after ``tick``; the capture's end if there is none."""
        at = int(np.searchsorted(self.commands.start_tick, tick))
        return int(self.commands.start_tick[at]) if at < len(self.commands) else self.last_tick


def _longest(commands: Commands) -> int:
    """Ticks of the longest command."""
    return max(int((piece.cqe_tick - piece.start_tick).max()) for piece in commands.pieces())


def load(capture: Capture) -> Context:
    """Read a capture for analysis."""
    meta = capture.meta
    tick_s = capture.tick_ps * 1e-12
    model, seen = seen_by(capture, error_model(meta))
    sizes, notes = lba_sizes(meta)
    commands, markers = load_apart(capture.commands, sizes, marking_of(meta))
    tables = [table for table in (commands, markers) if len(table)]
    edges = [tick for table in tables for tick in (int(table.start_tick[0]), int(table.cqe_tick.max()))]
    longest = max(map(_longest, tables), default=0)
    if not (commands.qid > 0).any():
        notes = []  # no I/O: the block size matters to nothing
    events = capture.events.collect().sort("tick", maintain_order=True)
    reason = no_rail_reason(capture)
    rail = Rail(capture, model) if reason is None else None
    if rail is not None:
        edges += [rail.first_tick, rail.last_tick]
    if len(events):
        edges += [int(events["tick"][0]), int(events["tick"][-1])]
    first, last = (min(edges), max(edges) + 1) if edges else (0, 0)
    return Context(
        capture=capture,
        model=model,
        tick_s=tick_s,
        commands=commands,
        markers=markers,
        gaps=idle_times((commands, markers), last, round(IDLE_MIN_S / tick_s)),
        events=events,
        rail=rail,
        no_rail=reason,
        loss=LossBook(capture.gaps.collect(), events, first, last, lambda: longest),
        phases=find_phases(events, meta.get("workload") or {}, last),
        first_tick=first,
        last_tick=last,
        notes=seen + notes,
    )


def load_window(source: Source, first_tick: int, last_tick: int, minimum_s: float = IDLE_MIN_S) -> Context:
    """Load the part of an open capture between two ticks, and the commands in flight at either end.

    An idle time of a suite is loaded in this way, since the commands of a whole suite do not fit in memory. ``gaps`` are the times of the
    window without a command that last at least ``minimum_s``.
    """
    meta = source.capture.meta
    sizes, _ = lba_sizes(meta)
    start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
    reach = round(LONGEST_S / source.tick_s)
    near = pl.col("cqe_tick").is_between(first_tick, last_tick + reach) & (start <= last_tick)
    asked = source.events.filter((pl.col("type") == int(EventType.POWER_STATE)) & (pl.col("tick") < first_tick))["tick"].max()
    if asked is not None:  # the first I/O after a request woke the drive
        io = source.capture.commands.filter((pl.col("qid") > 0) & start.is_between(asked, first_tick, closed="left"))
        woke = io.select(start.min()).collect().item()
        near |= (pl.col("qid") > 0) & (start == woke) if woke is not None else False
    commands, markers = load_apart(source.capture.commands.filter(near), sizes, marking_of(meta))
    return Context(
        capture=source.capture,
        model=source.model,
        tick_s=source.tick_s,
        commands=commands,
        markers=markers,
        gaps=_quiet((commands, markers), first_tick, last_tick, round(minimum_s / source.tick_s)),
        events=source.events,
        rail=source.rail,
        no_rail=source.no_rail,
        loss=source.losses,
        phases=list(source.phases.values()),
        first_tick=first_tick,
        last_tick=last_tick,
        notes=[],
    )


def _quiet(tables: tuple[Commands, ...], first_tick: int, last_tick: int, minimum_ticks: int) -> npt.NDArray[np.int64]:
    """The times of a window without a command in flight, as :func:`idle_times` has them."""
    starts = np.concatenate([table.start_tick[in_flight(table)] for table in tables])
    ends = np.concatenate([np.maximum(table.cqe_tick, table.start_tick)[in_flight(table)] for table in tables])
    order = np.argsort(starts, kind="stable")
    busy = bursts(starts[order], ends[order], minimum_ticks)
    edges: npt.NDArray[np.int64] = np.concatenate(([first_tick], busy.ravel(), [last_tick])).clip(first_tick, last_tick).reshape(-1, 2)
    return edges[edges[:, 1] - edges[:, 0] >= minimum_ticks]
