"""Observations of a suite's run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..measure.figure import Figure, absent
from ..measure.rail import window_text
from ..results import Run
from ..results.bystate import measured_of, quantities
from ..results.declared import power_states
from .measurands import EVENTS, OWN_HEALTH, OWN_LATENCY, OWN_METER, Observation, Subject, wanted_states
from .model import Requirement
from .pairs import PairTime, pair_observations
from .temperatures import TEMPERATURES, declared_temperature

_NAMES = {
    "state-maximum-power": "MP",
    "state-idle-power": "IDLP",
    "state-active-power": "ACTP",
    "state-entry-latency": "ENLAT",
    "state-exit-latency": "EXLAT",
}
"""Measurands of power states, and the names of :func:`..results.bystate.quantities`."""
NO_COMMANDS = "a suite's results keep no commands: judge its captures"
NO_VOLTAGE = "a suite's results keep no voltage: judge its captures"
NO_IDLE_TIMES = "a suite's results keep no idle time before each transition: judge its captures"
NO_LINK = "a suite's results do not say whether the link was in L1.2, and its power may be in the figure"
SCALED = "the run was scaled: time and span were shortened"
"""Doubt about the figures of a scaled run."""


def subject(run: Run) -> Subject:
    """Return a run as a subject."""
    return Subject(
        source=run.source or run.id,
        model=str(run.drive.get("model") or run.drive_name),
        serial=str(run.drive.get("serial") or ""),
        firmware=run.firmware,
        origin=run.origin,
        states=power_states(run),
        observe=lambda requirement: _BY_MEASURAND[requirement.measurand](run, requirement),
    )


def _of_states(run: Run, wanted: Requirement) -> list[Observation]:
    states, measured = power_states(run), measured_of([run])
    if not states:
        return [Observation("", absent("the run recorded no power states of the drive"))]
    out = []
    name = _NAMES[wanted.measurand]
    for one in wanted_states(wanted, states):
        found: Figure | None = None
        for what, _, one_measured, _ in quantities(one, measured.get(one.number, {})):
            workload = what.rpartition("#")[2] if what.startswith("ACTP") else ""
            if what.partition(",")[0] == name and workload in ("", str(one.workload)):
                found = one_measured or found
        reason = f"{run.suite} did not measure it" if measured.get(one.number) else f"{run.suite} did not measure this state"
        figure = absent(reason) if found is None else found
        doubt = SCALED if run.scaled and figure.value is not None else ""
        over = NO_LINK if wanted.measurand == "state-maximum-power" and not one.operational else ""
        out.append(Observation(f"PS{one.number}", figure, one, doubt=doubt, over=over))
    return out


def _transitions(run: Run, wanted: Requirement) -> list[Observation]:
    states = power_states(run)
    if not states:
        return [Observation("", absent("the run recorded no power states of the drive", "s"))]
    found: dict[tuple[int, int], PairTime] = {}
    for test in run.tests:
        for point in test.points:
            old, new = point.x.get("from_ps"), point.x.get("to_ps")
            if isinstance(old, float) and isinstance(new, float) and "longest_s" in point.figures:
                found[int(old), int(new)] = PairTime.stored(point.figures)
    if not found:
        return [Observation("", absent(f"{run.suite} did not measure it", "s"))]
    return [
        replace(one, doubt=SCALED if run.scaled and one.figure.value is not None else one.doubt) for one in pair_observations(states, found)
    ]


def _largest_mean_power(run: Run, wanted: Requirement) -> list[Observation]:
    assert wanted.window_s is not None
    if wanted.states != "any":
        why = "a suite's results keep no moving mean by power state: judge its captures"
        return [Observation(f"PS{one.number}", absent(why, "W"), one) for one in wanted_states(wanted, power_states(run))] or [
            Observation("", absent(why, "W"))
        ]
    window = window_text(wanted.window_s)
    found = [test.peaks[window] for test in run.tests if window in test.peaks]
    if not found:
        return [Observation("", absent(f"the run kept no mean over {window}: judge its captures", "W"))]
    best = max(found, key=lambda figure: figure.value)
    doubt = f"{len(run.tests) - len(found)} tests have no mean over {window}" if len(found) < len(run.tests) else ""
    return [Observation("", best, doubt="; ".join(filter(None, (doubt, SCALED if run.scaled else ""))))]


def _idle_power(run: Run, wanted: Requirement) -> list[Observation]:
    out = []
    for test in run.tests:
        score = test.score("W")
        if test.kind == "idle" and score is not None:
            out.append(Observation(test.name, score.value, doubt=SCALED if run.scaled else ""))
    return out or [Observation("", absent(f"{run.suite} has no test of idle power", "W"))]


def _no_commands(run: Run, wanted: Requirement) -> list[Observation]:
    return [Observation("", absent(NO_COMMANDS))]


_BY_MEASURAND: Mapping[str, Callable[[Run, Requirement], list[Observation]]] = {
    "largest-mean-power": _largest_mean_power,
    "idle-power": _idle_power,
    "state-transition-time": _transitions,
    **dict.fromkeys(TEMPERATURES, lambda run, one: declared_temperature(run.drive, one)),
    **dict.fromkeys(("lowest-voltage", "highest-voltage"), lambda _, one: [Observation("", absent(NO_VOLTAGE, one.unit))]),
    **dict.fromkeys(("asleep-power", "apst-early", "apst-late"), lambda _, one: [Observation("", absent(NO_IDLE_TIMES, one.unit))]),
    **dict.fromkeys(_NAMES, _of_states),
    **dict.fromkeys((*EVENTS, *OWN_METER, "meter-generation", *OWN_LATENCY, *OWN_HEALTH), _no_commands),
    **dict.fromkeys(("admin-latency", "io-latency", "slow-io-per-hour"), _no_commands),
    **dict.fromkeys(("enable-to-identify", "enable-to-io", "shutdown-time"), _no_commands),
}
