"""A session of a suite: a run of the drive from power-on, and the steps of its plan.

Tests that share a session run in order on the same drive. docs/ssd-model.md has the keys of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .drive import Drive
from .jobs import lasting, scaled
from .step import Rest, Step, Wake
from .suite import Suite, Test
from .traces.generate import make_trace

HELD_S = 0.5
"""Least time in s of an idle time in the deepest state that APST's table leads to."""
_REST_JOB = "rest.fio"
_REST_TEXT = "[rest]\ndirect=1\nioengine=libaio\nrw=read\nbs=4k\nsize=1m\nio_size=0\n"
_REST_DUTY = 1e-9
"""The model's plans have a rest behind a phase of a job file alone. A job file without I/O replaces the phase of a step with ``rest_s``;
its duty cycle is so low that ``duty_idle_max_s`` decides. Without I/O it is no load that peaks are looked for in."""
LONGEST_DESCENT_S = 120.0
"""An idle time is not made longer than this for a table; the result says that the table goes on."""
WAKE_SPAN_BYTES = 1 << 30
"""Waking reads are spread over this much of the drive; also the amount of test data where a test names none."""


@dataclass(frozen=True)
class Choice:
    """The user's choice.

    written: precondition by writing; false sets the model's drive to the condition at once
    rounds: rounds of tests that run to steady state (None: as many as needed)
    real: for a real drive. Its rail must be at rest before an idle time. Its rounds cannot be repeated to go on, so the largest number is
        planned.
    """

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
    """One plan. ``files``: contents by name; ``traces``: generated iologs by name;
    ``members``: its tests, in order."""

    name: str
    condition: str
    members: list[Test]
    rail_interval_s: float
    steps: list[Step] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    start: str = "test-data"
    """``condition`` of the plan: how the model's drive begins."""
    data_bytes: int | None = None
    """``data_bytes`` of the plan: bytes on the model's drive at its beginning, if it is not full."""
    written_bytes: int | None = None
    """Bytes that the fill writes, from the drive's beginning; None without a fill."""
    goes_on_after: str | None = None
    """``title`` of the session that may hand its drive to this one, if it ran right before (:mod:`.order`)."""

    @property
    def title(self) -> str:
        """Name with the condition: unique among the sessions of a run."""
        return f"{self.name}-{self.condition}"

    @property
    def precondition(self) -> tuple[Step, ...]:
        """The steps that it begins with to bring the drive to its condition."""
        return tuple(takewhile(lambda step: step.format is not None or step.fill is not None, self.steps))

    def going_on(self) -> Session:
        """The same on a drive that is in its condition already."""
        return replace(self, steps=self.steps[len(self.precondition) :])

    @property
    def preconditioning(self) -> list[str]:
        """Names of the steps that bring the drive to its condition; none where the model's drive is set to it at once."""
        return [step.name for step in self.steps if step.format or step.fill]

    @property
    def plan(self) -> str:
        """The plan as TOML."""
        lines = [f'condition = "{self.start}"']
        lines += [f"data_bytes = {self.data_bytes}"] if self.data_bytes is not None else []
        for step in self.steps:
            lines += ["", "[[step]]", *(f"{key} = {_toml(value)}" for key, value in _model_table(step).items() if value is not None)]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, scale: float, seed: int) -> Path:
        """Write plan, job files and traces into ``folder``; returns the plan's path."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_text(content, encoding="utf-8")
        if any(step.rest_s is not None for step in self.steps):
            (folder / _REST_JOB).write_text(_REST_TEXT, encoding="utf-8")
        for name, composition in self.traces.items():
            make_trace(composition, folder / name, scale, seed)
        path = folder / "plan.toml"
        path.write_text(self.plan, encoding="utf-8")
        return path


@dataclass(frozen=True)
class StepBuilder:
    """Appends a test's steps to its session's plan."""

    session: Session
    suite: Suite
    test: Test
    drive: Drive
    choice: Choice

    def add(self, suffix: str = "", **action: Any) -> None:
        """Add a step named after the test, with the keys of ``action`` (:class:`.Step`).

        Missing keys of power management are the test's.
        """
        self.session.steps.append(Step(name=self.test.id + suffix, **{"apst": self.test.apst, "aspm": self.test.aspm, **action}))

    def job(self) -> str:
        """Put the test's job file, scaled, into the session; its name there."""
        name, where = self.test.jobs, str(self.suite.job_path(self.test))
        text = self.suite.job_text(self.test)
        if self.test.load_s:
            text = lasting(text, self.test.load_s, where)
        self.session.files[name] = scaled(text, self.choice.scale, self.drive.capacity_bytes, where)
        return name

    @property
    def operational(self) -> tuple[int, ...]:
        """The operational power states that the test works in."""
        return self.drive.operational[:1] if self.test.only_ps0 else self.drive.operational

    def settle(self, number: int | None = None) -> None:
        """Wait until background work of a real drive is done. The drive stays awake: asleep it might postpone that work."""
        if self.choice.real:
            name = f"{self.test.id}-settle" if number is None else f"{self.test.id}-settle#{number}"
            self.session.steps.append(Step(name=name, settle=Rest(), measured=False))  # not scaled: a drive takes its time

    @property
    def idle_s(self) -> float:
        """The test's idle time at this scale; with APST on, long enough to go down the drive's own table and to be seen there."""
        asked = self.test.idle_at(self.choice.scale)
        return max(asked, min(self.drive.settled_after_s + HELD_S, LONGEST_DESCENT_S)) if self.test.apst else asked

    @property
    def repeats(self) -> int:
        """The test's number of repetitions at this scale."""
        return self.test.repeats_at(self.choice.scale)

    def wake(self, k: int) -> Wake:
        """Return the k-th idle time with the read that ends it.

        Each read takes a different page, spread over the first GiB, and only pages that a fill wrote.
        """
        span_bytes = min(self.drive.capacity_bytes - 4096, WAKE_SPAN_BYTES, self.session.written_bytes or WAKE_SPAN_BYTES)
        return Wake(self.idle_s, (4096 + 997 * 8 * k) % (span_bytes // 4096 * 8))


def _model_table(step: Step) -> Mapping[str, Any]:
    """Return a step as the drive model reads it."""
    if step.rest_s is None:
        return step.table
    kept = {key: value for key, value in step.table.items() if key not in ("idle_s", "rest_s")}
    return {**kept, "fio": _REST_JOB, "duty": _REST_DUTY, "duty_idle_max_s": step.rest_s, "measured": False}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)  # numbers and strings are written alike
