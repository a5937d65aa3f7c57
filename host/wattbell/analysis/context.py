"""One load of a capture, shared by every part of the analysis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.nvme import admin
from wattbell_spec.wire import CommandFlag

from wattbell.capture import Capture
from wattbell.capture.marking import marking_of
from wattbell.measure.depth import DepthSteps, depth_steps
from wattbell.measure.errormodel import error_model
from wattbell.measure.instruments import Instruments
from wattbell.measure.loss import LossBook
from wattbell.measure.phases import Phase, find_phases
from wattbell.measure.rail import Rail, no_rail_reason
from wattbell.measure.seen import seen_by
from wattbell.measure.table import Commands, is_marker, lba_sizes, load_commands

IDLE_MIN_S = 0.020
"""A time without any command in flight of at least this is idle."""
AER = admin("async_event_request")


def idle_times(tables: tuple[Commands, ...], last_tick: int, minimum_ticks: int) -> npt.NDArray[np.int64]:
    """Times without any command of ``tables``: shape (n, 2), [last CQE, next start]; the last runs to ``last_tick``.

    Admin commands and markers count: they wake a drive as any command does. Asynchronous Event Requests wait in the
    drive by design and do not count as commands in flight.
    """
    starts, ends = [], []
    for table in tables:
        kept = table.take(~((table.qid == 0) & (table.opcode == AER)) & ~table.has(CommandFlag.NO_SQE))
        starts.append(kept.start_tick)
        ends.append(np.maximum(kept.cqe_tick, kept.start_tick))
    begins, over = np.concatenate(starts), np.concatenate(ends)
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
    """What every part of the analysis reads: one load of each table."""

    commands: Commands
    """Without markers, sorted by start."""
    markers: Commands
    """The in-band markers: they belong to no figure, but they wake a drive as any command does."""
    steps: DepthSteps
    """Queue depth of the I/O commands."""
    gaps: npt.NDArray[np.int64]
    """Idle times, see :func:`idle_times`."""
    events: pl.DataFrame
    loss: LossBook
    phases: list[Phase]
    first_tick: int
    last_tick: int
    notes: list[str]

    def next_start(self, tick: int) -> int:
        """Start of the first command, not a marker, at or after ``tick``; the capture's end if there is none."""
        at = int(np.searchsorted(self.commands.start_tick, tick))
        return int(self.commands.start_tick[at]) if at < len(self.commands) else self.last_tick


def _longest(commands: Commands) -> int:
    """Ticks of the longest command."""
    return int((commands.cqe_tick - commands.start_tick).max()) if len(commands) else 0


def load(capture: Capture) -> Context:
    """Read a capture for analysis."""
    meta = capture.meta
    tick_s = capture.tick_ps * 1e-12
    model, seen = seen_by(capture, error_model(meta))
    sizes, notes = lba_sizes(meta)
    everything = load_commands(capture.commands, sizes)
    edges = [int(everything.start_tick[0]), int(everything.cqe_tick.max())] if len(everything) else []
    longest = _longest(everything)
    commands, markers = everything.apart(is_marker(everything, marking_of(meta)))
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
    io = commands.take((commands.qid > 0) & ~commands.has(CommandFlag.NO_SQE))
    return Context(
        capture=capture,
        model=model,
        tick_s=tick_s,
        commands=commands,
        markers=markers,
        steps=depth_steps(io.start_tick, np.maximum(io.cqe_tick, io.start_tick)),
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
