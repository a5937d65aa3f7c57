"""Runs a suite on the virtual rig: session after session, scored as soon as it is recorded."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..capture import open_capture
from ..errors import SimError, UsageError
from ..suites import load_suite
from ..suites.drive import Drive, from_profile
from ..suites.manifest import Suite
from ..suites.plan import CONVERSION_S, Choice, Session, choose_tests, plan_sessions
from ..suites.results import Results
from ..suites.scoring import score_session
from ..suites.show import header, show_test
from . import oldmodel, output, simtools
from .playplan import Fidelity, ModelRun, run_model

ROUNDS_GROW = 1.6


@dataclass(frozen=True)
class SuiteOptions:
    """The command line of ``run SUITE``."""

    suite: str
    profile: Path
    out: Path
    fidelity: Fidelity = Fidelity.rtl
    seed: int = 1
    interval_s: float | None = None
    decimation: int | None = None
    scale: float = 1.0
    condition: str | None = None
    tests: tuple[str, ...] = ()
    written: bool = False
    rounds: int | None = None
    discard: bool = False
    force: bool = False
    keep_trace: bool = False
    keep_stream: bool = False


def run_suite(options: SuiteOptions, json: bool) -> None:
    """Run it, print each test as it is done, leave ``results.json``."""
    suite = load_suite(options.suite)
    drive = from_profile(options.profile)
    choice = Choice(options.scale, options.written, options.rounds, options.seed)
    pairs = choose_tests(suite, options.tests, options.condition)
    _make_room(options.out, options.force)
    conditions = {"fidelity": options.fidelity.value, "seed": options.seed, "written": options.written}
    results = Results(options.out, suite, drive, options.scale, conditions)
    if not json:
        output.out.print(header(results.data))
    sessions = plan_sessions(suite, pairs, drive, choice)
    for number, session in enumerate(sessions, start=1):
        names = ", ".join(t.id for t in session.members)
        output.say(f"session {number} of {len(sessions)}: {names} ({session.condition})")
        _run_session(options, suite, drive, session, choice, results, json)
    path = results.write()
    if json:
        output.print_json(results.data)
    else:
        output.say(f"{path}: {len(results.data['tests'])} results.")


def _make_room(out: Path, force: bool) -> None:
    """The folder for the results; what is in the way is only removed when it is such a folder, and asked for."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not force:
            raise SimError(f"{out} exists already; choose another name, or add --force to replace it.")
        if not (out / "results.json").is_file():
            raise UsageError(f"{out} holds no results.json; --force replaces only the results of a suite.")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)


def _run_session(
    options: SuiteOptions,
    suite: Suite,
    drive: Drive,
    session: Session,
    choice: Choice,
    results: Results,
    json: bool,
) -> None:
    """One session; a test to steady state that is not steady yet is run again with more rounds (the same seed gives the same
    first rounds, so that this is as if they had gone on)."""
    pairs = [(t, session.condition) for t in session.members]
    while True:
        began = time.monotonic()
        folder = options.out / "captures" / f"{session.name}-{session.condition}"
        _record(options, drive, session, folder)
        capture = open_capture(folder)
        with output.spinner(f"scoring {session.name}"):
            outcomes = score_session(capture, suite, session, options.scale)
        unfinished = any(o.unfinished for o in outcomes.values())
        if unfinished and options.rounds is None:
            test = next(t for t in session.members if outcomes[t.id].unfinished)
            done = choice.rounds or test.rounds_first
            choice = replace(choice, rounds=min(test.rounds_max, round(done * ROUNDS_GROW)))
            output.say(f"{test.id}: no steady state in {done} rounds; going on to {choice.rounds}")
            (session,) = plan_sessions(suite, pairs, drive, choice)
            continue
        break
    results.describe(capture)
    seconds = time.monotonic() - began
    for test in session.members:
        entry = results.add(test, session.condition, outcomes[test.id], folder, seconds)
        if not json:
            show_test(entry, results.data, output.out)
    results.write()
    if options.discard:
        shutil.rmtree(folder)


def _record(options: SuiteOptions, drive: Drive, session: Session, folder: Path) -> None:
    notes: list[str] = []
    if not oldmodel.understands(simtools.find_program("wattbell-ssd")):
        notes += oldmodel.simplify(session, drive)
    plans = options.out / "plans" / f"{session.name}-{session.condition}"
    plan = session.write(plans, options.scale, options.seed)
    interval = options.interval_s or CONVERSION_S
    decimation = options.decimation or max(1, min(4096, round(session.rail_interval_s / interval)))
    if options.scale != 1:
        notes.append(f"scaled by {options.scale:g}: not the published test")
    if not options.written:
        notes.append(f"the model's drive was set to the condition {session.start}, not written")
    jobs: list[Any] = sorted(path for path in plans.iterdir() if path.suffix == ".fio")
    reason = run_model(
        ModelRun(
            plan,
            options.profile,
            folder,
            fidelity=options.fidelity,
            seed=options.seed,
            interval_s=interval,
            decimation=decimation,
            keep_trace=options.keep_trace,
            keep_stream=options.keep_stream,
            overwrite=True,
            truth=False,
            extra_files=tuple(jobs),
            notes=tuple(notes),
        )
    )
    if reason != "the rig stopped":
        raise SimError(f"The recording of {session.name} ended early: {reason}.")
