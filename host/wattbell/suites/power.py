"""Idle power and waking reads, shared by the kinds of tests that let a drive idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from wattbell_spec.wire import EventType

from ..measure.figure import Figure
from ..measure.phases import Phase
from ..measure.source import Source
from ..measure.table import NONE
from ..text import si
from .outcome import Outcome
from .suite import Test

SETTLED_PART = 0.5
"""Fraction of an idle time, at its end, over which the settled power is averaged."""


def settled_power(source: Source, phase: Phase) -> Figure:
    """Mean power of the second half of a phase, in W.

    The marker at its end wakes the drive. Where that edge is known by another clock than the rail's, the average ends twice ``edge_u_s``
    and two samples before it (but keeps half of its length), so that nothing of the waking is in it, nor in what may be off.
    """
    length = (phase.last_tick - phase.first_tick) * SETTLED_PART
    middle = phase.last_tick - length
    sample_s = source.rail.interval_s if source.rail else 0.0
    before = min(2 * (phase.edge_u_s + sample_s) / source.seconds(1), length / 2) if phase.edge_u_s else 0.0
    return source.energy(middle, phase.last_tick - before, source.loss(phase).under_commands, phase.edge_u_s)[1]


def note_power_management(out: Outcome, source: Source, test: Test) -> None:
    """Note what of the power management that a test asks for was not in force (looked at on real drives only)."""
    wanted = {"aspm": (test.aspm, f"ASPM {test.aspm.upper()}"), "apst": (test.apst, "APST")}
    for phase in [*(p for _, p in source.named(test.id)), *(p for _, _, p in source.numbered(test.id))]:
        found: Mapping[str, Any] = phase.described.get("conditions") or {}
        for name, (asked, text) in wanted.items():
            if asked not in ("off", False) and name in found and found[name] != asked:
                note = f"{text} was asked for and not in force: {found[name]}"
                if note not in out.notes:
                    out.notes.append(note)


def note_settling(out: Outcome, source: Source, test: Test) -> None:
    """Note how the rail settled before the idle time (watched on real drives only)."""
    step = f"{test.id}-settle"
    for phase in [*(p for _, p in source.named(step)), *(p for _, _, p in source.numbered(step))]:
        seen = phase.described.get("settling")
        if seen is None:
            continue
        place = f" ({phase.name})" if "#" in phase.name else ""
        mean_w, range_w, window_s, after_s = (seen.get(key) for key in ("mean_w", "range_w", "window_s", "after_s"))
        if mean_w is None:
            out.notes.append(f"NOT KNOWN to be at rest before the idle time{place}: no whole seconds of the rail in {after_s:.0f} s")
            continue
        level = f"{si(mean_w, 'W')}, its seconds within {si(range_w, 'W', 2)} over {window_s:g} s"
        if seen.get("settled"):
            out.notes.append(f"at rest before the idle time{place}: {level}, after {after_s:.0f} s")
        else:
            out.notes.append(f"NOT AT REST before the idle time{place}: {level}, after {after_s:.0f} s of waiting")


@dataclass(frozen=True)
class Wake:
    """One waking read. Ticks; ``clkreq`` is None where it was not seen asserted."""

    quiet_from: int
    doorbell: int
    cqe: int
    clkreq: int | None

    @property
    def begin(self) -> int:
        """Tick of the first sign of waking."""
        return self.doorbell if self.clkreq is None else min(self.clkreq, self.doorbell)


def find_wake(source: Source, phase: Phase) -> Wake | None:
    """The first I/O command of a phase of kind wake, and what came before it; None when its doorbell was not seen."""
    commands = source.commands(phase)
    io = commands.take((commands.qid > 0) & (commands.doorbell_tick != NONE))
    if not len(io):
        return None
    doorbell, cqe = int(io.doorbell_tick[0]), int(io.cqe_tick[0])
    asserted = source.events.filter(
        (pl.col("type") == int(EventType.CLKREQ))
        & (pl.col("arg8") == 0)
        & (pl.col("tick") > phase.first_tick)
        & (pl.col("tick") <= doorbell)
    )
    before = source.capture.commands.filter(pl.col("cqe_tick").is_between(phase.first_tick, doorbell))
    last = before.select(pl.col("cqe_tick").max()).collect().item()
    quiet = int(last) if last is not None else phase.first_tick
    return Wake(quiet, doorbell, cqe, int(asserted["tick"][-1]) if len(asserted) else None)


def declared_states(source: Source) -> dict[int, Mapping[str, Any]]:
    drive = source.capture.meta.get("drive") or {}
    return {int(s["state"]): s for s in drive.get("power_states") or []}
