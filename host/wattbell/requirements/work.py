"""From requirements to the work that gives their figures: the tests of the suite ``conformance``, each once for all that need it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ..errors import UsageError
from ..suites.listing import CONFORMANCE, DATA
from ..suites.manifest import load_suite
from ..suites.suite import Suite, Test
from .measurands import EVENTS, OWN_HEALTH, OWN_LATENCY, OWN_METER
from .model import Requirement, RequirementFile

LOADS_BY_STATE, LOADS, DEPTH_1, IDLE, IDLE_BY_STATE, RESTARTS = "load-by-state", "load", "depth-1", "idle", "idle-power", "cold"
OPERATIONAL, NON_OPERATIONAL, TRANSITIONS = "operational", "non-operational", "transitions"
WINDOW_SAMPLES = 10
"""Samples in a window of a requirement that has no ``sampling_s``."""
LEAST_LOAD_S = 30.0
"""From this time on the five profiles give the highest mean of work, too: the loads of ``operational`` take as long."""

TestsByState = Mapping[str, tuple[str, ...]]
_LOADED: TestsByState = {
    "any": (LOADS,),
    "operational": (LOADS_BY_STATE,),
    "non-operational": (IDLE_BY_STATE,),
    "each": (LOADS_BY_STATE, IDLE_BY_STATE),
}
_AT_MOST: TestsByState = {"operational": (OPERATIONAL,), "non-operational": (NON_OPERATIONAL,)}


def _always(test: str) -> Callable[[Requirement], tuple[str, ...]]:
    return lambda _: (test,)


TESTS: Mapping[str, Callable[[Requirement], tuple[str, ...]]] = {
    "largest-mean-power": lambda one: _LOADED[one.states],
    "asleep-power": _always(IDLE_BY_STATE),
    "idle-power": _always(IDLE),
    "state-maximum-power": lambda one: _AT_MOST.get(one.states, (OPERATIONAL, NON_OPERATIONAL)),
    "state-idle-power": _always(IDLE_BY_STATE),
    "state-active-power": _always("active-power"),
    "state-entry-latency": _always(NON_OPERATIONAL),
    "state-exit-latency": _always(NON_OPERATIONAL),
    "state-transition-time": _always(TRANSITIONS),
    "apst-early": _always(IDLE),
    "apst-late": _always(IDLE),
    "admin-latency": _always(DEPTH_1),
    "io-latency": _always(DEPTH_1),
    "slow-io-per-hour": _always(DEPTH_1),
    "lowest-voltage": _always(LOADS),
    "highest-voltage": _always(LOADS),
    "warning-temperature": _always(IDLE),
    "critical-temperature": _always(IDLE),
    "enable-to-identify": _always(RESTARTS),
    "enable-to-io": _always(RESTARTS),
    "shutdown-time": _always(RESTARTS),
    **dict.fromkeys((*OWN_METER, "meter-generation", *OWN_LATENCY, *OWN_HEALTH, *EVENTS), lambda _: ()),
}
"""Tests that give a measurand, by its name; none where no test can."""
NO_TEST: Mapping[str, str] = {
    **dict.fromkeys(OWN_METER, "no suite starts the drive's own meter: `wattbell judge CAPTURE --power-log FILE` judges it"),
    "meter-generation": "no suite starts the drive's own meter: `wattbell judge CAPTURE --power-log FILE --power-log FILE` judges it",
    **dict.fromkeys(OWN_HEALTH, "no suite keeps the SMART log: `wattbell judge CAPTURE --health-log FILE --health-log FILE` judges it"),
    **dict.fromkeys(EVENTS, "no suite sets a power threshold: `wattbell judge CAPTURE` judges one that the host enabled (feature 24h)"),
    **dict.fromkeys(OWN_LATENCY, "no suite reads the drive's own latency monitor: `wattbell judge CAPTURE --latency-log FILE` judges it"),
}
"""Reasons why no test gives a measurand."""
_STAND_IN = {LOADS: LOADS_BY_STATE, OPERATIONAL: LOADS_BY_STATE}
"""Tests that a longer one includes."""


@dataclass(frozen=True)
class Need:
    """A requirement with the tests that give its figure.

    id : ``ocp/PCM-1``.
    tests : ids of tests; empty for a requirement that needs no work.
    why : the reason why it needs no work.
    """

    id: str
    requirement: Requirement
    tests: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class RequiredWork:
    """The work for some requirements. ``suite``: only the tests that they need, as long and as finely sampled as they ask."""

    suite: Suite
    needs: tuple[Need, ...]


def required_work(files: Sequence[RequirementFile], left_out: Mapping[str, str] | None = None) -> RequiredWork:
    """Return the work that the requirements of some files need, once for all of them.

    left_out : tests that this bench cannot run, each with the reason.

    Raises UsageError where none of the requirements needs work.
    """
    left_out = left_out or {}
    whole = load_suite(DATA / CONFORMANCE)
    asked: dict[str, list[Requirement]] = {}
    for one in _with_measurand(files):
        for test in TESTS[one.measurand](one):
            if test not in left_out:
                asked.setdefault(test, []).append(one)
    made = _included({name: _made(whole.test(name), ones) for name, ones in asked.items()})
    needs = tuple(_need(file.name, one, made, left_out) for file in files for one in file.requirement)
    if not made:
        names = ", ".join(file.name for file in files)
        raise UsageError(f"No requirement of {names} needs work; `wattbell requirements` says why.")
    tests = tuple(made[test.id] for test in whole.tests if test.id in made)
    digest = hashlib.sha256(f"{whole.digest} ".encode() + msgspec.json.encode(tests)).hexdigest()
    return RequiredWork(replace(whole, tests=tests, digest=f"sha256:{digest}", made_for=tuple(file.name for file in files)), needs)


def tests_for(one: Requirement, there: Collection[str]) -> tuple[str, ...]:
    """Return the tests among ``there`` that give a requirement's figure; empty without one."""
    if not one.measurand:
        return ()
    found = (name if name in there else _STAND_IN.get(name, name) for name in TESTS[one.measurand](one))
    return tuple(dict.fromkeys(name for name in found if name in there))


def _with_measurand(files: Iterable[RequirementFile]) -> Iterable[Requirement]:
    return (one for file in files for one in file.requirement if one.measurand)


def _made(test: Test, ones: Sequence[Requirement]) -> Test:
    """Return a test that is as long as the longest requirement on it asks, and sampled as finely as the finest."""
    interval_s = min([test.rail_interval_s, *(_sampling_s(one) for one in ones)])
    # what names no duration gets the suite's own
    longest_s = max(one.duration_s or 0.0 for one in ones)
    if not test.load_s:
        return msgspec.structs.replace(test, rail_interval_s=interval_s, idle_s=max(test.idle_s, longest_s))
    if any(one.duration_s is None for one in ones):
        longest_s = max(longest_s, test.load_s)
    return msgspec.structs.replace(test, rail_interval_s=interval_s, load_s=longest_s)


def _sampling_s(one: Requirement) -> float:
    """Return the longest interval of rail samples that a requirement allows, in whole microseconds if it is one at least."""
    if one.window_s is None:
        return one.sampling_s or 1.0
    interval_s = min(one.sampling_s or one.window_s / WINDOW_SAMPLES, one.window_s)
    return max(int(interval_s * 1e6 + 1e-6), 1) * 1e-6 if interval_s >= 1e-6 else interval_s


def _included(made: Mapping[str, Test]) -> dict[str, Test]:
    """Return the tests without those that another test of the work includes."""
    by_state = made.get(LOADS_BY_STATE)
    kept = dict(made)
    if by_state is None:
        return kept
    finest_s = by_state.rail_interval_s
    loads = made.get(LOADS)
    if loads is not None and loads.load_s <= by_state.load_s:
        del kept[LOADS]
        finest_s = min(finest_s, loads.rail_interval_s)
    if OPERATIONAL in made and by_state.load_s >= LEAST_LOAD_S:
        del kept[OPERATIONAL]
    kept[LOADS_BY_STATE] = msgspec.structs.replace(by_state, rail_interval_s=finest_s)
    return kept


def _need(file: str, one: Requirement, made: Mapping[str, Test], left_out: Mapping[str, str]) -> Need:
    name = f"{file}/{one.id}"
    if one.not_measured:
        return Need(name, one, (), one.not_measured)
    tests = tests_for(one, made)
    missing = [left_out[test] for test in TESTS[one.measurand](one) if test in left_out]
    return Need(name, one, tests, "" if tests else NO_TEST.get(one.measurand) or "; ".join(missing))
