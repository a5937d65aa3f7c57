"""Runs a suite: session after session on a bench, each scored as soon as it is recorded."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ..capture import open_capture
from ..errors import SimError, UsageError
from ..suites import load_suite
from ..suites.drive import Drive, from_profile
from ..suites.manifest import Suite
from ..suites.plan import CONVERSION_S, Choice, Session, choose_tests, plan_sessions
from ..suites.results import Results
from ..suites.scoring import score_session
from ..suites.show import header, show_test
from . import output
from .playplan import Fidelity, ModelRun, run_model

ROUNDS_GROW = 1.6


class Bench(Protocol):
    """Where sessions run: a virtual rig and drive, or real ones."""

    @property
    def drive(self) -> Drive:
        """The drive under test."""

    def conditions(self) -> dict[str, Any]:
        """``conditions`` of results.json: how the bench was set up."""

    def run(self, session: Session, plans: Path, capture: Path) -> None:
        """Run one session into ``capture`` (replaced if it is there). ``plans``: folder for the plan and its files."""


@dataclass(frozen=True)
class SuiteOptions:
    """What of a suite to run, and where its results go."""

    suite: str
    out: Path
    choice: Choice
    condition: str | None = None
    tests: tuple[str, ...] = ()
    discard: bool = False
    force: bool = False


def run_suite(options: SuiteOptions, bench: Bench, json: bool) -> None:
    """Run it, print each test as it is done, leave ``results.json``."""
    suite = load_suite(options.suite)
    pairs = choose_tests(suite, options.tests, options.condition)
    sessions = plan_sessions(suite, pairs, bench.drive, options.choice)
    make_room(options.out, options.force)
    results = Results(options.out, suite, bench.drive, options.choice.scale, bench.conditions())
    if not json:
        output.out.print(header(results.data))
    for number, session in enumerate(sessions, start=1):
        names = ", ".join(t.id for t in session.members)
        output.say(f"session {number} of {len(sessions)}: {names} ({session.condition})")
        _run_session(options, suite, bench, session, results, json)
    path = results.write()
    if json:
        output.print_json(results.data)
    else:
        output.say(f"{path}: {len(results.data['tests'])} results.")


def make_room(out: Path, force: bool) -> None:
    """The folder for the results; what is in the way is only removed when it is such a folder, and asked for."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not force:
            raise SimError(f"{out} exists already; choose another name, or add --force to replace it.")
        if not (out / "results.json").is_file():
            raise UsageError(f"{out} holds no results.json; --force replaces only the results of a suite.")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)


def _run_session(
    options: SuiteOptions, suite: Suite, bench: Bench, session: Session, results: Results, json: bool
) -> None:
    """One session; a test to steady state that is not steady yet is run again with more rounds (on a virtual drive the same
    seed gives the same first rounds, so that this is as if they had gone on)."""
    pairs = [(t, session.condition) for t in session.members]
    choice = options.choice
    name = f"{session.name}-{session.condition}"
    folder = options.out / "captures" / name
    while True:
        began = time.monotonic()
        bench.run(session, options.out / "plans" / name, folder)
        capture = open_capture(folder)
        with output.spinner(f"scoring {session.name}"):
            outcomes = score_session(capture, suite, session, choice.scale)
        unsteady = [t for t in session.members if outcomes[t.id].unfinished]
        if not unsteady or options.choice.rounds is not None:
            break
        done = choice.rounds or unsteady[0].rounds_first
        choice = replace(choice, rounds=min(unsteady[0].rounds_max, round(done * ROUNDS_GROW)))
        output.say(f"{unsteady[0].id}: no steady state in {done} rounds; going on to {choice.rounds}")
        (session,) = plan_sessions(suite, pairs, bench.drive, choice)
    results.describe(capture)
    seconds = time.monotonic() - began
    for test in session.members:
        entry = results.add(test, session.condition, outcomes[test.id], folder, seconds)
        if not json:
            show_test(entry, results.data, output.out)
    results.write()
    if options.discard:
        shutil.rmtree(folder)


class VirtualBench:
    """The drive model and the virtual rig."""

    def __init__(
        self,
        profile: Path,
        choice: Choice,
        fidelity: Fidelity = Fidelity.rtl,
        interval_s: float | None = None,
        decimation: int | None = None,
        keep_trace: bool = False,
        keep_stream: bool = False,
    ) -> None:
        self._drive = from_profile(profile)
        self._profile, self._choice, self._fidelity = profile, choice, fidelity
        self._interval_s, self._decimation = interval_s or CONVERSION_S, decimation
        self._keep_trace, self._keep_stream = keep_trace, keep_stream

    @property
    def drive(self) -> Drive:
        """The drive of the profile."""
        return self._drive

    def conditions(self) -> dict[str, Any]:
        """Fidelity, seed, and how drives come to their conditions."""
        how = "written" if self._choice.written else "set in the model"
        return {"fidelity": self._fidelity.value, "seed": self._choice.seed, "preconditioning": how}

    def run(self, session: Session, plans: Path, capture: Path) -> None:
        """See :class:`Bench`."""
        notes: list[str] = []
        plan = session.write(plans, self._choice.scale, self._choice.seed)
        if self._choice.scale != 1:
            notes.append(f"scaled by {self._choice.scale:g}: not the published test")
        if not self._choice.written:
            notes.append(f"the model's drive was set to the condition {session.start}, not written")
        decimation = self._decimation or max(1, min(4096, round(session.rail_interval_s / self._interval_s)))
        reason = run_model(
            ModelRun(
                plan,
                self._profile,
                capture,
                fidelity=self._fidelity,
                seed=self._choice.seed,
                interval_s=self._interval_s,
                decimation=decimation,
                keep_trace=self._keep_trace,
                keep_stream=self._keep_stream,
                overwrite=True,
                truth=False,
                extra_files=tuple(sorted(plans.glob("*.fio"))),
                notes=tuple(notes),
            )
        )
        if reason != "the rig stopped":
            raise SimError(f"The recording of {session.name} ended early: {reason}.")
