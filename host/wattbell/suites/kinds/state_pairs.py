"""Transitions between all ordered pairs of power states, by Set Features 02h.

The host asks for one state after the other, on a path that takes each ordered pair once, and leaves the drive alone in each. The markers
of a step's phase follow at once on its request, so no marker ends a rest (:mod:`wattbell.analysis.statepairs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...analysis.context import load_window
from ...analysis.statepairs import PairFigures, by_pair, declared_latency, ordered_pairs, transitions_asked, words
from ...measure.figure import Figure
from ...measure.phases import Phase
from ...measure.point import Point
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import declared_states
from ..session import StepBuilder
from ..suite import Test

LATENCIES, SPARE_S = 8.0, 0.05
"""A rest lasts for as many of the slowest declared transitions, and this time more: late drives must come to rest, too."""


@kind_of_test("state-pairs")
class StatePairsTest(KindOfTest):
    """All ordered pairs of power states, once in each repetition."""

    place = ScoreSection.TRANSITIONS
    needs_jobs = False

    def problem(self, test: Test) -> str | None:
        return "a test of kind state-pairs needs apst = false: a drive must stay where the host put it" if test.apst else None

    def steps(self, to: StepBuilder) -> None:
        states = (*to.drive.operational, *to.drive.non_operational)
        rest_s = max(to.idle_s, LATENCIES * to.drive.slowest_transition_s + SPARE_S)
        to.settle()
        path = path_of(states)
        for k, state in enumerate([*path[:1], *path[1:] * to.repeats]):
            to.add(f"#{k}", idle_s=0.0, ps=state, rest_s=rest_s)

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Time and energy of each pair, against EXLAT of the old state and ENLAT of the new one."""
        out = Outcome()
        phases = [phase for _, _, phase in source.numbered(test.id)]
        declared = declared_states(source)
        if not phases or not declared:
            out.notes.append("NO TRANSITION: nobody saw Identify, or no phase of the test")
            return out
        for phase in phases:
            out.add_loss(source, phase)
        found = by_pair(transitions_asked(load_window(source, phases[0].first_tick, _end(source, phases[-1]))))
        latencies = {number: (one.get("entry_latency_s"), one.get("exit_latency_s")) for number, one in declared.items()}
        for pair in ordered_pairs(sorted(declared)):
            one = found.get(pair)
            if one is None or not one.measured:
                why = "not seen" if one is None else one.longest.conditions["absent"]
                out.notes.append(f"{words(*pair)}: NOT MEASURED: {why}")
            if one is not None:
                out.points.append(Point({"from_ps": pair[0], "to_ps": pair[1]}, _figures(one, declared_latency(latencies, *pair))))
        if len(declared) < 2:
            out.notes.append("the drive declares one power state: there is no transition")
        _note(out, found)
        _score(out, out.points)
        return out


def path_of(states: Sequence[int]) -> list[int]:
    """Return a closed path that takes each ordered pair of different states once; the state alone, of one."""
    first, left = states[0], {state: [other for other in states if other != state] for state in states}
    stack, path = [first], list[int]()
    while stack:  # Hierholzer: a side path where the way ends
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop(0))
        else:
            path.append(stack.pop())
    return path[::-1]


def _end(source: Source, phase: Phase) -> int:
    """Return the end of the rest behind the last phase."""
    return phase.last_tick + round(float(phase.described.get("idle_after_s") or 0.0) / source.tick_s)


def _figures(one: PairFigures, declared: Figure) -> dict[str, Figure]:
    figures = {
        "count": Figure(float(one.measured), 0.0, "1"),
        "declared_s": declared,
        "longest_s": one.longest,
        "p50_s": one.median,
        "p999_s": one.p999,
        "transition_j": one.energy,
        "by_rail": Figure(float(one.by_rail), 0.0, "1"),
    }
    return {name: figure for name, figure in figures.items() if figure.value is not None}


def _note(out: Outcome, found: Mapping[tuple[int, int], PairFigures]) -> None:
    """Note the limits of the figures."""
    if blind := [words(*pair) for pair, one in found.items() if one.measured and not one.by_rail]:
        out.notes.append(f"{', '.join(blind)}: the rail does not tell the states apart, so the time ends at the completion")
    if partly := [f"{words(*pair)} ({one.measured} of {one.seen})" for pair, one in found.items() if 0 < one.measured < one.seen]:
        out.notes.append(f"{', '.join(partly)}: some transitions have no time, as the drive was not at rest before or behind them")
    few = max((one.measured for one in found.values()), default=0)
    if why := next((one.p999.conditions["absent"] for one in found.values() if one.measured == few and one.p999.value is None), None):
        out.notes.append(f"no p99.9: it {why}")
    if any(not one.apst_known for one in found.values()):
        out.notes.append("nobody saw whether APST was off")


def _score(out: Outcome, points: Sequence[Point[Figure]]) -> None:
    """Add the longest transition, and the one that is slowest for its declaration."""

    def named(point: Point[Figure]) -> str:
        return words(int(point.x["from_ps"]), int(point.x["to_ps"]))

    timed = [point for point in points if "longest_s" in point.figures]
    if timed:
        slowest = max(timed, key=lambda point: point["longest_s"].known)
        out.score(f"longest transition: {named(slowest)}", "s", slowest["longest_s"])
    if judged := [point for point in timed if "declared_s" in point.figures]:
        worst = max(judged, key=lambda point: point["longest_s"].known / point["declared_s"].known)
        longest, limit = worst["longest_s"], worst["declared_s"].known
        share = Figure(longest.known / limit, None if longest.u is None else longest.u / limit, "1", longest.lost)
        out.score(f"longest, measured / declared: {named(worst)}", "1", share)
