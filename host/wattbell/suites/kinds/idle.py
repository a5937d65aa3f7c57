"""Idle power."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...analysis.reached import Reached
from ...measure.figure import Figure
from ...measure.phases import Phase
from ...measure.point import Point
from ...measure.source import Source
from ...text import si
from ..jobs import JobSection
from ..kind import JsonScore, KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import Ended, ended, note_power_management, note_settling, one_level
from ..session import StepBuilder
from ..suite import Test

SETTLED = "settled"
"""Name of the score: power of the state that the drive came to and stayed in."""


@kind_of_test("idle")
class IdleTest(KindOfTest):
    """The drive is left alone."""

    place = ScoreSection.IDLE
    needs_jobs = False

    def steps(self, to: StepBuilder) -> None:
        to.settle()
        to.add(idle_s=to.idle_s)

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """A point for each state that the drive reached; the score is the power of the last one, if the drive settled in it."""
        out = Outcome()
        note_power_management(out, source, test)
        note_settling(out, source, test)
        for _, phase in source.named(test.id):
            out.add_loss(source, phase)
            found = ended(source, phase)
            out.score(SETTLED, "W", found.power)
            if found.why and source.rail is not None:
                out.notes.append(f"NO SCORE: {found.why}")
            visits: dict[tuple[str, str | None], list[Reached]] = {}
            for level in found.levels:
                visits.setdefault((level.name, level.link), []).append(level)
            out.points = [_point(members, found, phase.edge_u_s) for members in visits.values()]
            for level in found.levels:
                out.note_unsteady(level.name, level.power)
            out.notes += _of_the_table(phase, found)
            out.score("idle for", "s", Figure(source.seconds(phase.last_tick - phase.first_tick), 2 * phase.edge_u_s, "s"))
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """Give no line: the power says it all."""
        return []


def _point(visits: Sequence[Reached], found: Ended, edge_u_s: float) -> Point[Figure]:
    """Return the point of a state: its power, the time until it was first reached, the time it was held in all.

    edge_u_s: error of the phase's end against the rail, in s. The last state lasted until that end.
    """
    first = visits[0]
    x = {"state": first.name} | ({"link": first.link} if first.link else {})
    held_s, u_s = sum(one.held_s for one in visits), first.after.u or 0.0
    if visits[-1] is found.levels[-1] and visits[-1].to_end:
        held_s, u_s = held_s + found.cut_s, math.hypot(u_s, edge_u_s)
    held = Figure(held_s, u_s, "s")
    return Point(x, {"mean_w": one_level([one.power for one in visits]), "reached_s": first.after, "held_s": held})


def _of_the_table(phase: Phase, found: Ended) -> list[str]:
    """Return notes on the transitions that were due."""
    if phase.described.get("apst") is not True:
        return []
    if found.due is None:
        if phase.described.get("apst_table") is not None:
            return []  # a table that leads nowhere
        return ["APST was on, and its table is not known: whether a deeper state would have followed is not known"]
    seen = "" if any(level.state == found.due[0] for level in found.levels) else ": the drive was not seen in it"
    return [f"APST's table leads to PS{found.due[0]} after {si(found.due[1], 's', 3)} of idle time{seen}"]
