"""From a suite to plans: the steps of each session, and which phase of the capture belongs to which test.

A **session** is a run of the drive from power-on: tests that share it run in order on the same drive. The plan's keys
are those of docs/ssd-model.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .drive import Drive
from .jobs import Section, scaled, sections
from .manifest import Fill, Suite, Test
from .traces import make_trace
from .units import size_bytes

SHORTEST_RAIL_INTERVAL_S = 1e-5
"""Scaling makes no shorter ones: a rail sample each 10 us is 0.6 MB a second."""
MIN_SPAN_BLOCKS = 256
WAKE_SPAN_BYTES = 1 << 30
"""Waking reads are spread over so much of the drive; tests in condition test-data that name no amount have so much data."""
SETTLE = {"window_s": 10.0, "range_share": 0.05, "longest_s": 600.0}
"""When the rail of a real drive is at rest (:class:`wattbell.drive.settle.Rest`). Not scaled: a drive takes its time."""


@dataclass(frozen=True)
class Choice:
    """What the user asked for. ``written``: precondition by writing, where false sets the model's drive to the condition
    at once; ``rounds``: rounds of tests that run to steady state (None: as many as it takes). ``real``: for a real drive, whose rail is to
    be at rest before an idle time, and whose rounds cannot be begun again to go on with: all that there may be are planned."""

    scale: float = 1.0
    written: bool = False
    rounds: int | None = None
    seed: int = 1
    real: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 1:
            raise UsageError(f"--scale {self.scale:g}: give a number above 0 and at most 1.")


@dataclass
class Session:
    """One plan. ``steps``: tables of the plan; ``files``: contents by name; ``traces``: generated iologs by name;
    ``members``: its tests, in order."""

    name: str
    condition: str
    members: list[Test]
    rail_interval_s: float
    steps: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    start: str = "test-data"
    """``condition`` of the plan: how the model's drive begins."""
    data_bytes: int | None = None
    """``data_bytes`` of the plan: how much the model's drive holds at its beginning, where that is not all of it."""
    written_bytes: int | None = None
    """What the fill writes, from the drive's beginning; None without a fill."""

    @property
    def preconditioning(self) -> list[str]:
        """Names of the steps that bring the drive to its condition; none where the model's drive is set to it at once."""
        return [str(step["name"]) for step in self.steps if "format" in step or "fill" in step]

    @property
    def plan(self) -> str:
        """The plan as TOML."""
        lines = [f'condition = "{self.start}"']
        lines += [f"data_bytes = {self.data_bytes}"] if self.data_bytes is not None else []
        for step in self.steps:
            lines += ["", "[[step]]", *(f"{key} = {_toml(value)}" for key, value in step.items())]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, scale: float, seed: int) -> Path:
        """Write plan, job files and traces into ``folder``; returns the plan's path."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_text(content, encoding="utf-8")
        for name, composition in self.traces.items():
            make_trace(composition, folder / name, scale, seed)
        path = folder / "plan.toml"
        path.write_text(self.plan, encoding="utf-8")
        return path


def choose_tests(suite: Suite, only: Sequence[str], condition: str | None) -> list[tuple[Test, str]]:
    """(test, condition) pairs to run. ``only``: ids of tests (empty: all that run by default). ``condition``:
    ``test-data`` (whatever each test has besides ``full``), ``full``, ``empty`` or None for all."""
    wanted = [suite.test(test_id) for test_id in only] or [t for t in suite.tests if t.default]
    pairs = []
    for test in wanted:
        for has in test.conditions:
            if condition is None or has == condition or (condition == "test-data" and has != "full"):
                pairs.append((test, has))
        pairs += [(test, has) for has in test.more_conditions if has == condition]
    if not pairs:
        raise UsageError(f"No test of {suite.name} runs in condition {condition}.")
    return pairs


def plan_sessions(suite: Suite, pairs: Sequence[tuple[Test, str]], drive: Drive, choice: Choice) -> list[Session]:
    """The sessions that run ``pairs``, in the order of the suite."""
    grouped: dict[tuple[str, str], list[Test]] = {}
    for test, condition in pairs:
        grouped.setdefault((condition, test.session), []).append(test)
    out = []
    for (condition, name), members in grouped.items():
        interval = min(t.rail_interval_s for t in members)
        if choice.scale < 1:
            interval = max(SHORTEST_RAIL_INTERVAL_S, interval * choice.scale)
        session = Session(name, condition, members, interval)
        _precondition(session, drive, choice)
        for test in members:
            if condition == "full" and test.rest_s > 0:
                session.steps.append({"name": f"{test.id}-rest", "idle_s": test.rest_s, "measured": False})
            _BUILDERS[test.kind](session, suite, test, drive, choice)
        out.append(session)
    return out


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)  # numbers and strings are written alike


# -- preconditioning ---------------------------------------------------------------------------------------------------


def _precondition(session: Session, drive: Drive, choice: Choice) -> None:
    """How the drive comes to its condition: set in the model at once, or purged and written."""
    test = session.members[0]
    data = max(t.test_data for t in session.members)
    fill = test.fill
    if not choice.written and (fill is None or session.condition == "full"):
        session.start = session.condition
        if session.condition == "test-data":
            session.data_bytes = min(data or WAKE_SPAN_BYTES, drive.capacity_bytes)
        elif fill is not None:
            session.data_bytes = round(fill.span * drive.capacity_bytes)
        return
    session.start = "empty"
    if fill is None:
        if session.condition == "full":
            fill = Fill()
        elif session.condition == "test-data":
            fill = Fill(min(1.0, (data or WAKE_SPAN_BYTES) / drive.capacity_bytes))
    if choice.written or test.purge:
        session.steps.append({"name": "purge", "format": {"nsid": drive.nsid, "ses": 1}, "measured": False})
    for k in range(fill.times if fill else 0):
        assert fill is not None
        least = MIN_SPAN_BLOCKS * size_bytes(fill.bs) / drive.capacity_bytes
        span = max(fill.span * choice.scale, least)
        name = "fill" if fill.times == 1 else f"fill#{k + 1}"
        session.steps.append({"name": name, "fill": {"span": span, "bs": fill.bs}, "measured": False})
        session.written_bytes = round(span * drive.capacity_bytes)


# -- steps of each kind of test ----------------------------------------------------------------------------------------


def _job(session: Session, suite: Suite, test: Test, drive: Drive, choice: Choice) -> str:
    """Puts the test's job file, scaled, into the session; returns its name."""
    session.files[test.jobs] = scaled(_text(suite, test), choice.scale, drive.capacity_bytes, str(suite.folder / test.jobs))
    return test.jobs


def _text(suite: Suite, test: Test) -> str:
    path = suite.folder / test.jobs
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text ({error}).") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None


def _power(test: Test) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if test.apst:
        out["apst"] = True
    if test.aspm != "off":
        out["aspm"] = test.aspm
    return out


def idle_seconds(test: Test, scale: float) -> float:
    """The test's idle time at a scale: never below its minimum, nor above the unscaled one."""
    return min(test.idle_s, max(test.idle_min_s, test.idle_s * scale))


def repeats(test: Test, scale: float) -> int:
    """The test's number of repetitions at a scale."""
    return min(test.repeat, max(test.repeat_min, round(test.repeat * scale)))


def rounds_of(test: Test, choice: Choice) -> int:
    """Rounds a plan has; one for a real drive has all, of which those behind the steady state are left out."""
    return min(test.rounds_max, max(1, choice.rounds or (test.rounds_max if choice.real else test.rounds_first)))


def _fio_steps(session: Session, suite: Suite, test: Test, drive: Drive, choice: Choice) -> None:
    step: dict[str, Any] = {"name": test.id, "fio": _job(session, suite, test, drive, choice), **_power(test)}
    if test.duty is not None:
        step["duty"] = test.duty
        step["duty_idle_max_s"] = test.idle_max_s * choice.scale
    session.steps.append(step)


def _round_steps(session: Session, suite: Suite, test: Test, drive: Drive, choice: Choice) -> None:
    job = _job(session, suite, test, drive, choice)
    for k in range(rounds_of(test, choice)):
        session.steps.append({"name": f"{test.id}#{k + 1}", "fio": job, **_power(test)})


def _settle(session: Session, test: Test, choice: Choice, number: int | None = None) -> None:
    """On a real drive: wait until what was written before is put away. Awake, as a drive that sleeps may leave it for later."""
    if choice.real:
        name = f"{test.id}-settle" if number is None else f"{test.id}-settle#{number}"
        session.steps.append({"name": name, "settle": SETTLE, "measured": False})


def _idle_steps(session: Session, _suite: Suite, test: Test, _drive: Drive, choice: Choice) -> None:
    _settle(session, test, choice)
    session.steps.append({"name": test.id, "idle_s": idle_seconds(test, choice.scale), **_power(test)})


def _wake_address(session: Session, drive: Drive, k: int) -> int:
    """Start block of the k-th waking read: spread over the first GiB, a different page each time, none that a fill did not write."""
    span_bytes = min(drive.capacity_bytes - 4096, WAKE_SPAN_BYTES, session.written_bytes or WAKE_SPAN_BYTES)
    return (4096 + 997 * 8 * k) % (span_bytes // 4096 * 8)


def _wake_steps(session: Session, _suite: Suite, test: Test, drive: Drive, choice: Choice) -> None:
    _settle(session, test, choice)
    for k in range(repeats(test, choice.scale)):
        wake = {"idle_s": idle_seconds(test, choice.scale), "slba": _wake_address(session, drive, k)}
        session.steps.append({"name": f"{test.id}#{k + 1}", "wake": wake, **_power(test)})


def _trace_steps(session: Session, _suite: Suite, test: Test, _drive: Drive, _choice: Choice) -> None:
    name = f"{test.trace}-like.iolog"
    session.traces[name] = test.trace
    session.steps.append({"name": test.id, "trace": name, "trace_idle_cut_s": test.trace_idle_cut_s, **_power(test)})


def _operational_steps(session: Session, suite: Suite, test: Test, drive: Drive, choice: Choice) -> None:
    job = _job(session, suite, test, drive, choice)
    for state in drive.operational:
        common = {"ps": state, **_power(test)}
        _settle(session, test, choice, state)
        session.steps.append({"name": f"{test.id}-idle#{state}", "idle_s": idle_seconds(test, choice.scale), **common})
        session.steps.append({"name": f"{test.id}#{state}", "fio": job, **common})


def _non_operational_steps(session: Session, suite: Suite, test: Test, drive: Drive, choice: Choice) -> None:
    job = _job(session, suite, test, drive, choice)
    idle = idle_seconds(test, choice.scale)
    _settle(session, test, choice)
    session.steps.append({"name": f"{test.id}-baseline", "fio": job, **_power(test)})
    session.steps.append({"name": f"{test.id}-awake", "idle_s": idle, **_power(test)})
    for state in drive.non_operational:
        for k in range(repeats(test, choice.scale)):
            wake = {"idle_s": idle, "slba": _wake_address(session, drive, k)}
            session.steps.append({"name": f"{test.id}-ps{state}#{k + 1}", "wake": wake, "ps": state, **_power(test)})


_BUILDERS = {
    "burst": _fio_steps,
    "queue-depths": _fio_steps,
    "mixes": _fio_steps,
    "fill": _fio_steps,
    "consistency": _fio_steps,
    "rounds": _round_steps,
    "idle": _idle_steps,
    "wake": _wake_steps,
    "trace": _trace_steps,
    "operational-states": _operational_steps,
    "non-operational-states": _non_operational_steps,
}


def test_sections(suite: Suite, test: Test) -> dict[str, Section]:
    """The sections of the test's job file by name; empty without one."""
    if not test.jobs:
        return {}
    found = sections(_text(suite, test), str(suite.folder / test.jobs))
    return {section.name: section for section in found}
