"""Active power of each operational power state under a workload of the specification.

NVM Express Base 2.1, figure 313, bits 175:160, defines ACTP: "the largest average power consumed by the NVM subsystem over a 10 second
period in this power state with the workload indicated in the Active Power Workload field". Section 8.1.17.3 has the workloads:

- #1 is five minutes of idle, 32 random writes of 1 MiB, 30 s of idle
- #2 is 80 000 sequential writes of 128 KiB, several pending at all times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...measure.figure import Figure, absent
from ...measure.phase import measure
from ...measure.phases import Phase
from ...measure.point import Point
from ...measure.source import Source
from ...measure.steadiness import UNSTEADY
from ..jobs import JobSection
from ..kind import JsonScore, KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import note_settling
from ..session import StepBuilder
from ..suite import Test

PERIOD_S = 10.0
WORKLOADS = (1, 2)
LEAST_S = 1e-3
"""A scaled period is not shorter."""


@kind_of_test("active-power")
class ActivePowerTest(KindOfTest):
    """The workload in each operational state, with idle time around it: a workload may be shorter than the period."""

    place = ScoreSection.POWER_STATES

    def problem(self, test: Test) -> str | None:
        if test.workload in WORKLOADS and test.idle_s >= PERIOD_S:
            return None
        return f"a test of kind {self.name} needs `workload` 1 or 2, and `idle_s` of {PERIOD_S:g} at least"

    def steps(self, to: StepBuilder) -> None:
        job = to.job()
        for state in to.drive.operational:
            to.settle(state)
            to.add(f"-before#{state}", idle_s=to.idle_s, ps=state)
            to.add(f"#{state}", fio=job, ps=state)
            to.add(f"-after#{state}", idle_s=min(to.idle_s, max(LEAST_S, 3 * PERIOD_S * to.choice.scale)), ps=state)

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """One point a state: the largest average over the period, and over the workload alone."""
        out = Outcome()
        note_settling(out, source, test)
        period = max(LEAST_S, PERIOD_S * scale)
        around = {name: {n: p for n, _, p in source.numbered(f"{test.id}-{name}")} for name in ("before", "after")}
        short = []
        for number, _, phase in source.numbered(test.id):
            measured = measure(source, phase)
            out.add_measured(source, phase, measured)
            found = measured.point({})
            actp = _largest(source, phase, around["before"].get(number), around["after"].get(number), period)
            if UNSTEADY in actp.conditions:
                out.notes.append(f"ACTP of PS{number} is of {period:g} s that were {actp.conditions[UNSTEADY]}")
            row = {
                f"actp{test.workload}_w": actp,
                f"workload_{test.workload}_w": found["mean_w"],
                f"workload_{test.workload}_mb_per_s": found["mb_per_s"],
            }
            if source.seconds(phase.last_tick - phase.first_tick) < period:
                short.append(f"PS{number}")
            out.points.append(Point({"ps": number}, row))
        if short:
            text = f"the workload took less than {period:g} s in {', '.join(short)}: idle time is in the largest average over that period"
            out.notes.append(f"{text}, as the definition has it; the mean over the workload alone stands beside it")
        if out.points and period < PERIOD_S:
            out.notes.append(f"scaled: averages over {period:g} s, where ACTP is over {PERIOD_S:g} s")
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """Give no line: the test has a table of its own."""
        return []


def _largest(source: Source, phase: Phase, before: Phase | None, after: Phase | None, period_s: float) -> Figure:
    """The largest moving average over the period, from the idle time before the workload to the end of that after it."""
    if source.rail is None:
        return absent(source.no_rail or "no rail", "W")
    first = before.first_tick if before else phase.first_tick
    last = after.last_tick if after else phase.last_tick
    found = source.rail.largest_mean(first, last, period_s)
    lost = source.loss(phase).rail_samples
    doubtful = sum(source.doubtful_blocks(first, last).values())
    # That the power changes within the period is in the definition: it makes the largest mean no less certain, but is to be said.
    at = float(found.conditions.get("at_tick", first))
    held = source.steadiness([(at, at + period_s / source.tick_s)]) if found.value is not None else None
    marks = {} if held is None or held.steady else {UNSTEADY: held.words("W")}
    return Figure(found.value, None if doubtful else found.u, "W", found.lost + lost + doubtful, {**found.conditions, **marks})
