"""``wattbell run SUITE --drive``: a suite on a real drive, session after session, resumable."""

from __future__ import annotations

import contextlib
import json as json_module
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..capture import open_capture
from ..drive import Device, Tools, inspect, restore_left_over
from ..drive.bench import run_session
from ..drive.device import refuse_in_use, refuse_wrong_serial
from ..drive.identity import identify
from ..errors import DriveError, UsageError
from ..rig import Rig
from ..suites import load_suite
from ..suites.manifest import Suite
from ..suites.plan import CONVERSION_S, Choice, Session, choose_tests, plan_sessions
from ..suites.results import Results, read_results
from ..suites.scoring import score_session
from ..suites.show import header, show_test
from . import output
from .suiterun import make_room

JOURNAL = "restore.json"


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


def run_on_drive(options: DriveOptions, json: bool) -> None:
    """Refuse, or run what is left to run; leaves ``results.json`` and the captures."""
    suite = load_suite(options.suite)
    tools = Tools()
    device = inspect(options.drive)
    refuse_wrong_serial(device, options.serial)
    refuse_in_use(device)
    for name in ("fio", "nvme"):
        tools.find(name)
    if options.resume and restore_left_over(options.out / JOURNAL, device, tools):
        output.say("The settings that the interrupted run left changed are put back.")
    drive = identify(device, tools)
    choice = Choice(options.scale, True, options.rounds, options.seed)
    pairs = choose_tests(suite, options.tests, options.condition)
    with Rig.open(options.rig) as rig:
        results = _results(options, suite, drive.describe(), rig, Results(options.out, suite, drive, options.scale, _host(tools)))
        if not json:
            output.out.print(header(results.data))
        sessions = plan_sessions(suite, pairs, drive, choice)
        done = {(t["test"], t["condition"]) for t in results.data["tests"]}
        for number, session in enumerate(sessions, start=1):
            names = ", ".join(t.id for t in session.members)
            if all((t.id, session.condition) in done for t in session.members):
                output.say(f"session {number} of {len(sessions)}: {names} ({session.condition}): done before")
                continue
            output.say(f"session {number} of {len(sessions)}: {names} ({session.condition})")
            refuse_in_use(device)
            _session(options, suite, device, rig, tools, session, results, json)
    path = results.write()
    if json:
        output.print_json(results.data)
    else:
        output.say(f"{path}: {len(results.data['tests'])} results.")


def _results(options: DriveOptions, suite: Suite, drive: dict[str, Any], rig: Rig, fresh: Results) -> Results:
    """New results, or with ``--resume`` those of the interrupted run, if it was this suite on this drive."""
    if not options.resume:
        make_room(options.out, options.force)
        fresh.data["virtual"] = rig.port.virtual
        fresh.write()
        return fresh
    data = read_results(options.out)
    for key, want, what in (
        ("suite_hash", suite.digest, "another suite, or another version of it"),
        ("scale", options.scale, "another --scale"),
    ):
        if data[key] != want:
            raise UsageError(f"{options.out} was run with {what}; start anew, or give the same.")
    if data["drive"]["serial"] != drive["serial"]:
        raise UsageError(f"{options.out} is about drive {data['drive']['serial']}, not {drive['serial']}.")
    fresh.data = data
    return fresh


def _host(tools: Tools) -> dict[str, Any]:
    """Conditions that the computer brings."""
    fio = tools.run("fio", "--version").strip()
    nvme = tools.run("nvme", "version").strip().splitlines()
    return {"kernel": platform.release(), "fio": fio, "nvme_cli": nvme[0] if nvme else "", "written": True}


@contextlib.contextmanager
def _kept(session: Session, folder: Path) -> Iterator[None]:
    """An interrupted session leaves its capture aside, named as what it is."""
    try:
        yield
    except BaseException:
        if folder.is_dir():
            aside = folder.with_name(f"{folder.name}-interrupted")
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
            output.say(f"{session.name}: interrupted; what was recorded is in {aside}. Go on with --resume.")
        raise


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
    interval = options.interval_s or CONVERSION_S
    rig.set_interval(interval)
    rig.set_decimation(options.decimation or max(1, min(4096, round(session.rail_interval_s / interval))))
    with _kept(session, folder):
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
    results.write()
