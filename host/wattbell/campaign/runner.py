"""Runs a suite: session after session on a bench, each scored as soon as it is recorded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from .. import durable
from ..capture import Capture, open_capture
from ..suites.drive import Drive
from ..suites.manifest import load_suite
from ..suites.order import order_sessions
from ..suites.outcome import Outcome
from ..suites.outlook import Outlook, look_ahead
from ..suites.plan import choose_tests, plan_sessions
from ..suites.results import Results
from ..suites.scoring import score_session
from ..suites.session import Session
from ..suites.step import Step
from ..suites.suite import Suite, Test
from ..virtual.voice import Voice
from .bench import Bench
from .ending import Ending, Kept, keep
from .eta import Eta, about
from .folder import begin, done_before, set_aside

ROUNDS_GROW = 1.6


class Audience(Voice, Protocol):
    """Receives the progress of a campaign."""

    def ahead(self, outlook: Outlook, bench: Bench) -> None:
        """Called before anything is opened or written. Raises an error when it is not to be done."""

    def progress(self, eta: Eta) -> AbstractContextManager[object]:
        """Shows how far the run is for the duration of the block."""

    def begun(self, results: Mapping[str, Any]) -> None:
        """Called before the first session. ``results``: results.json so far."""

    def scored(self, test: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """Called for each finished test with its entry of ``results``."""


@dataclass(frozen=True)
class SuiteOrder:
    """The parts of a suite to run, and the folder for its results.

    suite: its name or folder, or a suite that was made from requirements
    condition: None for all
    tests: ids, none for all
    discard: delete each capture once its scores are computed
    force: replace the results that are in the way
    resume: continue the results that are there
    """

    suite: str | Suite
    out: Path
    condition: str | None = None
    tests: tuple[str, ...] = ()
    discard: bool = False
    force: bool = False
    resume: bool = False

    def load(self) -> Suite:
        """Return the suite. Raises UsageError when it is not there or makes no sense."""
        return self.suite if isinstance(self.suite, Suite) else load_suite(self.suite)


def run_suite(order: SuiteOrder, bench: Bench, ending: Ending, audience: Audience) -> Kept:
    """Run the order, or the rest of an interrupted run. Writes ``results.json``, the captures, and the files that ``ending`` asks for."""
    plan = plan_suite(order, bench)
    suite, pairs, drive, outlook = plan.suite, plan.pairs, plan.drive, plan.outlook
    ending.check()
    audience.ahead(outlook, bench)
    with bench.open():
        results = Results(order.out, suite, drive, bench.choice.scale, bench.conditions(), pairs, bench.versions())
        results.data["virtual"] = bench.virtual
        if suite.made_for:
            results.data["conditions"]["requirements"] = ", ".join(suite.made_for)
        done = begin(results, order.out, order.resume, order.force)
        audience.begun(results.data)
        eta = Eta(outlook, bench.choice.real)
        campaign = _Campaign(order, suite, drive, bench, results, audience, eta)
        with audience.progress(eta):
            for number, part in enumerate(outlook.parts, start=1):
                session, over = part.session, all((test.id, part.session.condition) in done for test in part.session.members)
                names = ", ".join(test.id for test in session.members)
                text = f"session {number} of {len(outlook.parts)}: {names} ({session.condition})"
                if over:
                    audience.say(f"{text}: done before")
                    continue
                eta.session(number - 1, text.partition(": ")[0])
                left = eta.left_s
                audience.say(text if left is None else f"{text}; {about(left)} left")
                bench.prepare(session)
                campaign.run(session.going_on() if part.goes_on else session, part.goes_on)
                eta.over()
    results.write()
    return keep(order.out, results.data, ending, audience)


@dataclass(frozen=True)
class Planned:
    """A suite on a drive.

    pairs: (test, condition) to run
    outlook: the sessions, in the order in which they run
    """

    suite: Suite
    pairs: Sequence[tuple[Test, str]]
    drive: Drive
    outlook: Outlook


def plan_suite(order: SuiteOrder, bench: Bench) -> Planned:
    """Plan an order for a bench without opening or writing anything. A model's sessions stay in the suite's order, since it is set to its
    condition.

    Raises UsageError or DriveError when the order cannot, or must not, be run.
    """
    suite, choice = order.load(), bench.choice
    pairs = choose_tests(suite, order.tests, order.condition)
    drive = bench.inspect(suite, pairs)
    sessions = plan_sessions(suite, pairs, drive, choice)
    if choice.real:
        sessions = order_sessions(sessions)
    done = done_before(order.out) if order.resume else set()
    return Planned(suite, pairs, drive, look_ahead(sessions, drive.capacity_bytes, choice, done))


@dataclass(frozen=True)
class _Campaign:
    order: SuiteOrder
    suite: Suite
    drive: Drive
    bench: Bench
    results: Results
    audience: Audience
    eta: Eta

    def run(self, session: Session, goes_on: bool) -> None:
        """One session into the results. ``goes_on``: with the drive of the session before."""
        results, discard = self.results, self.order.discard
        name = session.title
        folder, plans = self.order.out / "captures" / name, self.order.out / "plans" / name
        with set_aside(session.name, folder, self.audience.say):
            capture, outcomes, seconds = self._until_steady(session, plans, folder)
        more = self.bench.accept(capture)
        results.describe(capture)
        results.data["conditions"].update(more)
        for test in session.members:
            if goes_on:
                text = f"not filled anew: on the drive as {session.goes_on_after} left it"
                outcomes[test.id].notes.append(f"{text}, which was filled alike and only read since")
            self.audience.scored(results.add(test, session.condition, outcomes[test.id], folder, seconds), results.data)
        # results.json lists only work that is there after a power cut
        for place in (plans,) if discard else (plans, folder):
            durable.flush_tree(place)
            durable.flush(place.parent)
        results.write()
        if discard:
            shutil.rmtree(folder)

    def _step_begins(self, step: Step, left_out: bool) -> None:
        self.eta.step(step.name, left_out)

    def _until_steady(self, session: Session, plans: Path, folder: Path) -> tuple[Capture, Mapping[str, Outcome], float]:
        """Return the capture, the outcomes by test, and the seconds that both took.

        A test to steady state that is not steady yet is run again with more rounds, unless the most rounds allowed were planned. On a
        virtual drive the same seed gives the same first rounds, so that the second run equals a continued first run.
        """
        choice = self.bench.choice
        given = choice.rounds is not None or choice.real
        while True:
            began = time.monotonic()
            self.bench.run(session, plans, folder, self.results.data["conditions"], self._step_begins)
            capture = open_capture(folder)
            with self.audience.spinner(f"scoring {session.name}"):
                outcomes = score_session(capture, self.suite, session, choice.scale)
            unsteady = next((test for test in session.members if outcomes[test.id].unfinished), None)
            if unsteady is None or given:
                return capture, outcomes, time.monotonic() - began
            done = choice.rounds or unsteady.rounds_first
            choice = replace(choice, rounds=min(unsteady.rounds_max, round(done * ROUNDS_GROW)))
            self.audience.say(f"{unsteady.id}: no steady state in {done} rounds; going on to {choice.rounds}")
            (session,) = plan_sessions(self.suite, [(test, session.condition) for test in session.members], self.drive, choice)
