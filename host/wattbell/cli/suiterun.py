"""Runs a suite: session after session on a bench, each scored as soon as it is recorded."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ..capture import open_capture
from ..errors import SimError
from ..suites import load_suite
from ..suites.drive import Drive, from_profile
from ..suites.plan import choose_tests, plan_sessions
from ..suites.results import Results, flush_tree
from ..suites.scoring import score_session
from ..suites.session import Choice, Session
from ..suites.show import header, show_test
from ..suites.suite import Suite
from . import output, simtools
from .playplan import Fidelity, ModelRun, run_model
from .suitebegin import announce, begin, kept
from .suiteend import Ending, finish

ROUNDS_GROW = 1.6
CONVERSION_S = 1e-5
"""Time between two conversions of the rail's ADC on the virtual rig, which simulates each; rail samples are averages of several."""


class Bench(Protocol):
    """Where sessions run: a virtual rig and drive, or real ones."""

    @property
    def drive(self) -> Drive:
        """The drive under test."""

    def conditions(self) -> dict[str, Any]:
        """``conditions`` of results.json: how the bench was set up."""

    def versions(self) -> dict[str, str]:
        """What of ``versions`` of results.json is known before the first session."""

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
    resume: bool = False


def run_suite(options: SuiteOptions, bench: Bench, ending: Ending, json: bool) -> None:
    """Run it (or what an interrupted run left of it), print each test as it is done, leave ``results.json`` and what ``ending`` says."""
    suite = load_suite(options.suite)
    pairs = choose_tests(suite, options.tests, options.condition)
    sessions = plan_sessions(suite, pairs, bench.drive, options.choice)
    ending.check()
    results = Results(options.out, suite, bench.drive, options.choice.scale, bench.conditions(), pairs, bench.versions())
    done = begin(results, options.out, options.resume, options.force)
    if not json:
        output.out.print(header(results.data))
    for number, session in enumerate(sessions, start=1):
        over = all((t.id, session.condition) in done for t in session.members)
        announce(number, len(sessions), session, over)
        if not over:
            _run_session(options, suite, bench, session, results, json)
    results.write()
    finish(options.out, results.data, ending, json)


def _run_session(options: SuiteOptions, suite: Suite, bench: Bench, session: Session, results: Results, json: bool) -> None:
    """One session; a test to steady state that is not steady yet is run again with more rounds (on a virtual drive the same
    seed gives the same first rounds, so that this is as if they had gone on)."""
    pairs = [(t, session.condition) for t in session.members]
    choice = options.choice
    name = f"{session.name}-{session.condition}"
    folder = options.out / "captures" / name
    with kept(session, folder):
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
    if not options.discard:
        flush_tree(folder)  # what results.json calls done must be there after a power cut
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
        """Fidelity, seed, how drives come to their conditions, and what was asked for besides."""
        how = "written" if self._choice.written else "set in the model"
        out = {"fidelity": self._fidelity.value, "seed": self._choice.seed, "preconditioning": how, "adc_interval_s": self._interval_s}
        asked = {"rounds": self._choice.rounds, "adc_decimation": self._decimation}
        return {**out, **{name: value for name, value in asked.items() if value is not None}}

    def versions(self) -> dict[str, str]:
        """The programs that stand for rig and drive."""
        return {"virtual_rig": simtools.version("wattbell-rig"), "model": simtools.version("wattbell-ssd")}

    def run(self, session: Session, plans: Path, capture: Path) -> None:
        """See :class:`Bench`."""
        notes: list[str] = []
        plan = session.write(plans, self._choice.scale, self._choice.seed)
        if self._choice.scale != 1:
            notes.append(f"scaled by {self._choice.scale:g}: not the published test")
        if session.preconditioning:
            notes.append(f"preconditioned as on a real drive: {', '.join(session.preconditioning)}")
        else:
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
        if reason == "stopped by the user":
            raise KeyboardInterrupt
        if reason != "the rig stopped":
            raise SimError(f"The recording of {session.name} ended early: {reason}.")
