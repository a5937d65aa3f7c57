"""Idle power of each power state over the window of the specification.

IDLP is "the typical power consumed by the NVM subsystem over 30 seconds in this power state when idle"; "the measurement starts after
the NVM subsystem has been idle for 10 seconds" (NVM Express Base 2.1, figure 313, bits 143:128).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ...measure.figure import Figure
from ...measure.phases import Phase
from ...measure.point import Point
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import JsonScore, KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import note_settling
from ..session import StepBuilder
from ..suite import Test

SETTLE_S, LENGTH_S = 10.0, 30.0
"""Idle before the measurement, and how long that lasts."""
_SPARE = 0.98
"""Share of a shorter (scaled) idle time that the two windows fill."""


@kind_of_test("idle-power")
class IdlePowerTest(KindOfTest):
    """The drive is left alone in each of its power states: operational ones with the link in L0, the others with L1.2."""

    place = ScoreSection.POWER_STATES
    needs_jobs = False

    def problem(self, test: Test) -> str | None:
        least = SETTLE_S + LENGTH_S
        return None if test.idle_s > least else f"a test of kind {self.name} needs `idle_s` above {least:g}, the specification's window"

    def steps(self, to: StepBuilder) -> None:
        for state in (*to.drive.operational, *to.drive.non_operational):
            to.settle(state)
            to.add(f"#{state}", idle_s=to.idle_s, ps=state, aspm="off" if state in to.drive.operational else "l1.2")

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """One point a state, in the order of their numbers."""
        out = Outcome()
        note_settling(out, source, test)
        found: dict[int, Figure] = {}
        windows: dict[tuple[float, float], None] = {}
        for number, _, phase in source.numbered(test.id):
            out.add_loss(source, phase)
            quiet, others = _quiet_from(source, phase)
            settle, length = _window(source.seconds(phase.last_tick - quiet))
            first = quiet + round(settle / source.tick_s)
            last = first + round(length / source.tick_s)
            found[number] = source.energy(first, last, source.loss(phase).under_commands)[1]
            out.note_unsteady(f"IDLP of PS{number}: power", found[number])
            windows[settle, length] = None
            disturbed = sum(first - round(settle / source.tick_s) < tick < last for tick in others)
            if disturbed:
                out.notes.append(
                    f"PS{number} was not idle: {disturbed} commands came within the window, so this is not the power IDLP means"
                )
        out.points = [Point({"ps": number}, {"idlp_w": figure}) for number, figure in sorted(found.items())]
        for settle, length in windows:
            if length < LENGTH_S:
                out.notes.append(f"scaled: {length:.3g} s after {settle:.3g} s of idle, where IDLP is {LENGTH_S:g} s after {SETTLE_S:g} s")
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """Give no line: the test has a table of its own."""
        return []


def _quiet_from(source: Source, phase: Phase) -> tuple[int, list[int]]:
    """Return the completion of the start marker, after which the drive is left alone, and later completions that broke
    this rest, in ticks.
    """
    inside = pl.col("cqe_tick").is_between(phase.first_tick, phase.last_tick)
    ticks = sorted(int(t) for t in source.capture.commands.filter(inside).select("cqe_tick").collect()["cqe_tick"])
    return (ticks[0], ticks[1:]) if ticks else (phase.first_tick, [])


def _window(idle_s: float) -> tuple[float, float]:
    """(time to settle, length of the measurement) in s: the specification's where the idle time is long enough for them, else in the same
    proportion."""
    share = min(1.0, _SPARE * idle_s / (SETTLE_S + LENGTH_S)) if idle_s < SETTLE_S + LENGTH_S else 1.0
    return SETTLE_S * share, LENGTH_S * share
