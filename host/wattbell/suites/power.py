"""Idle power and waking reads, shared by the kinds of tests that let a drive idle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from wattbell_spec.wire import EventType

from ..analysis.apst import descent, table_of
from ..analysis.reached import Reached, reached
from ..measure.figure import Figure, K, absent, mean
from ..measure.phases import Phase
from ..measure.source import Source
from ..measure.steadiness import UNSTEADY
from ..measure.table import NONE
from ..text import si
from .outcome import Outcome
from .suite import Test

LEAST_SHARE = 0.05
"""Least share of an idle time for which its last level must have been held."""
STAYED_SHARE = 0.5
"""Least share of the time since a drive first reached its last level that it must have stayed there at the end."""
_ALIKE = 0.1
STILL_CHANGING = "the power still changed at the end of the idle time"


@dataclass(frozen=True)
class Ended:
    """The end of an idle time.

    levels: levels that the drive reached, in order
    power: of the last level, in W; absent, with the reason, if the drive did not settle
    due: the state that APST's table leads to, and after how many seconds; None if unknown
    cut_s: time before the phase's end that the levels leave out
    """

    levels: Sequence[Reached]
    power: Figure
    due: tuple[int, float] | None = None
    cut_s: float = 0.0

    @property
    def why(self) -> str:
        """Why the drive did not settle; empty if it did."""
        return str(self.power.conditions.get("absent", ""))


def ended(source: Source, phase: Phase) -> Ended:
    """Return the levels of an idle time, and the power that it settled at.

    The marker at its end wakes the drive. If another clock than the rail's gives that edge, the time ends twice ``edge_u_s`` and two
    samples earlier, but keeps half of its length. So neither the power nor its possible error includes the waking.
    """
    sample_s = source.rail.interval_s if source.rail else 0.0
    length = phase.last_tick - phase.first_tick
    before = min(2 * (phase.edge_u_s + sample_s) / source.seconds(1), length / 2) if phase.edge_u_s else 0.0
    levels = reached(source, phase.first_tick, round(phase.last_tick - before), phase.edge_u_s)
    due, cut_s = _due(phase), source.seconds(before)
    lost = source.loss(phase).under_commands
    if source.rail is None:
        return Ended(levels, absent(source.no_rail or "no rail", "W", lost), due, cut_s)
    if not levels or not levels[-1].to_end:
        return Ended(levels, absent(f"not settled: {STILL_CHANGING}", "W", lost), due, cut_s)
    last, idle_s = levels[-1], source.seconds(length)
    if due is not None and last.state != due[0] and idle_s < due[1]:
        why = f"not settled: by APST's table PS{due[0]} follows after {si(due[1], 's', 3)}, and the idle time was {si(idle_s, 's', 3)}"
    elif last.held_s < LEAST_SHARE * idle_s:
        why = f"not settled: {last.name} was reached {si(last.held_s, 's', 2)} before the end"
    elif last.held_s < STAYED_SHARE * source.seconds(phase.last_tick - min(one.first_tick for one in levels if _same(one, last))):
        why = f"not settled: {last.name} was reached, left and reached again"
    elif UNSTEADY in last.power.conditions:
        why = f"not settled: {last.name} {last.power.conditions[UNSTEADY]}"
    else:
        return Ended(levels, last.power, due, cut_s)
    return Ended(levels, absent(why, "W", lost), due, cut_s)


def _same(a: Reached, b: Reached) -> bool:
    """Whether two are one level, seen twice."""
    return (a.name, a.link) == (b.name, b.link) and abs(a.power.known - b.power.known) <= _ALIKE * abs(b.power.known)


def one_level(figures: Sequence[Figure]) -> Figure:
    """Mean of a level seen several times: as uncertain as each is, and as far as they lie apart."""
    values = [figure.known for figure in figures]
    apart = K * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    found = mean(figures)
    return found if found.u is None else replace(found, u=math.hypot(found.u, apart))


def _due(phase: Phase) -> tuple[int, float] | None:
    """The last step of APST's table, by which a drive has gone as deep as it will."""
    rows = phase.described.get("apst_table") if phase.described.get("apst", True) else None
    steps = descent(table_of(rows), int(phase.described.get("ps") or 0)) if rows else []
    return steps[-1] if steps else None


def settled_power(source: Source, phase: Phase) -> Figure:
    """Power at which an idle time ended, in W: of its last level. Absent, with the reason, where the drive did not settle."""
    return ended(source, phase).power


def settling(source: Source, first_tick: int, last_tick: int) -> Reached | None:
    """Return the level that a drive, left alone between two ticks, reached and kept; None without one."""
    levels = reached(source, first_tick, last_tick)
    last = levels[-1] if levels and levels[-1].to_end else None
    if last is None or UNSTEADY in last.power.conditions or last.held_s < LEAST_SHARE * source.seconds(last_tick - first_tick):
        return None
    return last


def note_power_management(out: Outcome, source: Source, test: Test) -> None:
    """Note the power management that a test asked for and did not get (checked on real drives only)."""
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
class WakingRead:
    """One waking read. Ticks; ``clkreq`` is None if it was not seen asserted."""

    quiet_from: int
    doorbell: int
    cqe: int
    clkreq: int | None

    @property
    def begin(self) -> int:
        """Tick of the first sign of waking."""
        return self.doorbell if self.clkreq is None else min(self.clkreq, self.doorbell)


def find_wake(source: Source, phase: Phase) -> WakingRead | None:
    """Return the first I/O command of a phase of kind wake, and the events before it; None when its doorbell was not seen.

    CLKREQ# counts only where a tap sees the commands: a host's commands are on another clock.
    """
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
    clkreq = int(asserted["tick"][-1]) if len(asserted) and not source.by_host else None
    return WakingRead(quiet, doorbell, cqe, clkreq)


def declared_states(source: Source) -> dict[int, Mapping[str, Any]]:
    drive = source.capture.meta.get("drive") or {}
    return {int(s["state"]): s for s in drive.get("power_states") or []}
