"""``wattbell run SUITE --drive``: a suite on a real drive, session after session, resumable."""

from __future__ import annotations

import json as json_module
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..capture import open_capture
from ..drive import Device, Tools, inspect, restore_left_over
from ..drive.bench import run_session
from ..drive.device import refuse_in_use, refuse_wrong_serial
from ..drive.identity import identify
from ..drive.rounds import Rounds
from ..errors import DriveError
from ..rig import Rig
from ..suites import load_suite
from ..suites.jobs import of_a_suite
from ..suites.plan import choose_tests, plan_sessions
from ..suites.results import Results, flush_tree
from ..suites.scoring import score_session
from ..suites.session import Choice, Session
from ..suites.show import header, show_test
from ..suites.suite import Suite, Test
from . import output
from .suitebegin import announce, begin, kept
from .suiteend import Ending, finish

JOURNAL = "restore.json"
CONVERSION_S = 1e-6
"""Time between two conversions of a rig's ADC, as it is made (docs/scpi.md, TINTerval): with longer ones the rail in between is not seen.
Rail samples are averages of several."""


@dataclass(frozen=True)
class DriveOptions:
    """The command line of ``run SUITE --drive``."""

    suite: str
    drive: str
    serial: str | None
    rig: str | None
    out: Path
    scale: float = 1.0
    condition: str | None = None
    tests: tuple[str, ...] = ()
    rounds: int | None = None
    seed: int = 1
    interval_s: float | None = None
    decimation: int | None = None
    resume: bool = False
    force: bool = False


def run_on_drive(options: DriveOptions, ending: Ending, json: bool) -> None:
    """Refuse, or run what is left to run; leaves ``results.json``, the captures and what ``ending`` says."""
    suite = load_suite(options.suite)
    pairs = choose_tests(suite, options.tests, options.condition)
    refuse_jobs_without_drive(suite, pairs)
    tools = Tools()
    device = inspect(options.drive)
    refuse_wrong_serial(device, options.serial)
    refuse_in_use(device)
    for name in ("fio", "nvme"):
        tools.find(name)
    if options.resume and restore_left_over(options.out / JOURNAL, device, tools):
        output.say("The settings that the interrupted run left changed are put back.")
    drive = identify(device, tools)
    choice = Choice(options.scale, True, options.rounds, options.seed, real=True)
    ending.check()
    with Rig.open(options.rig) as rig:
        results = Results(options.out, suite, drive, options.scale, _host(tools, options), pairs)
        results.data["virtual"] = rig.port.virtual
        done = begin(results, options.out, options.resume, options.force)
        if not json:
            output.out.print(header(results.data))
        sessions = plan_sessions(suite, pairs, drive, choice)
        for number, session in enumerate(sessions, start=1):
            over = all((t.id, session.condition) in done for t in session.members)
            announce(number, len(sessions), session, over)
            if not over:
                refuse_in_use(device)
                _session(options, suite, device, rig, tools, session, results, json)
    results.write()
    finish(options.out, results.data, ending, json)


def refuse_jobs_without_drive(suite: Suite, pairs: Sequence[tuple[Test, str]]) -> None:
    """UsageError for a job file whose jobs do not all name the drive: fio would write files on this computer instead."""
    for name in dict.fromkeys(test.jobs for test, _ in pairs if test.jobs):
        path = suite.folder / name
        of_a_suite(path.read_text(encoding="utf-8"), str(path))


def _host(tools: Tools, options: DriveOptions) -> dict[str, Any]:
    """Conditions that the computer brings, and what was asked for."""
    fio = tools.run("fio", "--version").strip()
    nvme = tools.run("nvme", "version").strip().splitlines()
    out = {"kernel": platform.release(), "fio": fio, "nvme_cli": nvme[0] if nvme else "", "written": True, "seed": options.seed}
    asked = {"rounds": options.rounds, "adc_decimation": options.decimation}
    return {
        **out,
        "adc_interval_s": options.interval_s or CONVERSION_S,
        **{name: value for name, value in asked.items() if value is not None},
    }


def set_sampling(rig: Rig, options: DriveOptions, session: Session) -> None:
    """The ADC's conversions, and how many of them are averaged to the session's rail samples."""
    interval_s = options.interval_s or CONVERSION_S
    rig.set_interval(interval_s)
    rig.set_decimation(options.decimation or max(1, min(4096, round(session.rail_interval_s / interval_s))))


def _session(
    options: DriveOptions,
    suite: Suite,
    device: Device,
    rig: Rig,
    tools: Tools,
    session: Session,
    results: Results,
    json: bool,
) -> None:
    began = time.monotonic()
    name = f"{session.name}-{session.condition}"
    folder, plans = options.out / "captures" / name, options.out / "plans" / name
    session.write(plans, options.scale, options.seed)
    set_sampling(rig, options, session)
    rounds = Rounds(session.members if options.rounds is None else (), plans / "results")
    with kept(session, folder):
        phases = run_session(
            device,
            rig,
            session.steps,
            plans,
            folder,
            journal=options.out / JOURNAL,
            description={"source": "fio", "suite": suite.name},
            conditions={"host": results.data["conditions"], "notes": []},
            tools=tools,
            say=output.say,
            left_out=rounds.over,
        )
        (plans / "phases.json").write_text(json_module.dumps(phases, indent=1) + "\n", encoding="utf-8")
        capture = open_capture(folder)
        outcomes = score_session(capture, suite, session, options.scale)
    if not capture.commands.head(1).collect().height:
        raise DriveError(f"The rig saw no command of {device.path}: is this drive in the rig's connector?")
    results.describe(capture)
    results.data["conditions"]["settings"] = phases[-1]["conditions"] if phases else {}
    for test in session.members:
        entry = results.add(test, session.condition, outcomes[test.id], folder, time.monotonic() - began)
        if not json:
            show_test(entry, results.data, output.out)
    flush_tree(folder)  # what results.json calls done must be there after a power cut
    results.write()
