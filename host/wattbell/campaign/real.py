"""A real drive in a rig as a bench."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import door
from ..capture import Capture
from ..capture.marking import BY_FEATURE
from ..drive import Device, Tools, inspect, marking, restore_left_over
from ..drive.bench import run_session
from ..drive.device import refuse_wrong_serial
from ..drive.host import about_host
from ..drive.identity import declared, identify
from ..drive.inuse import refuse_in_use
from ..drive.link import read_link
from ..drive.phase import PhaseEntry, to_json
from ..drive.rehearsal import Rehearsal
from ..drive.restart import refuse_without_switch, restarts
from ..drive.rounds import Rounds
from ..errors import DriveError, WattbellError
from ..jsondata import JsonObject
from ..rig import Rig
from ..suites import health
from ..suites.drive import Drive
from ..suites.jobs import of_a_suite
from ..suites.session import Choice, Session
from ..suites.step import Step
from ..suites.suite import Suite, Test
from ..virtual.voice import Voice
from .equipment import Equipment, How, check_host, equipped, missing_of
from .work import Work

JOURNAL = "restore.json"
CONVERSION_S = 1e-6
"""Time in s between two conversions of a rig's ADC, as the rig is made (docs/scpi.md, TINTerval).

With a longer time the rail in between is not seen.
Rail samples are averages of several conversions.
"""


@dataclass(frozen=True)
class Setup:
    """The drive, the rig that it is in, and the sampling.

    journal: file that lists the changed settings of the drive
    restore: put back the settings that an interrupted run left changed in the drive
    dry: only look, and gather in ``RealBench.refusals`` why a run would be refused
    command_stdout: descriptor for the standard output of a command, None for ours
    how: the other recorders, and the settings of the host
    keep_stream: keep the rig's stream in each capture
    """

    drive: str
    serial: str | None
    rig: str | None
    journal: Path
    restore: bool = False
    interval_s: float | None = None
    decimation: int | None = None
    dry: bool = False
    command_stdout: int | None = None
    how: How = field(default_factory=How)
    keep_stream: bool = False


class RealBench:
    """The drive under test is worked with as its sessions say, and its settings are put back."""

    def __init__(self, setup: Setup, choice: Choice, voice: Voice) -> None:
        self.choice = choice
        self._setup, self._voice = setup, voice
        self._tools = Tools()
        self._restarts = False
        self._source: Mapping[str, Any] = {}
        self._notes: Sequence[str] = ()
        self._writes = True
        self._equipment: Equipment
        self._marking = BY_FEATURE
        self.phases: Sequence[PhaseEntry] = []
        """Phases of the last session."""
        self.refusals: list[str] = []
        self._missing: list[str] = []

    @cached_property
    def device(self) -> Device:
        """The drive, as its path says. Raises DriveError when that is something else."""
        return inspect(self._setup.drive)

    def inspect(self, suite: Suite, pairs: Sequence[tuple[Test, str]]) -> Drive:
        """Identify the drive. Raises UsageError or DriveError for a drive that must not be written, or jobs that would write elsewhere."""
        refuse_jobs_without_drive(suite, pairs)
        self._restarts = restarts([test for test, _ in pairs])
        self._begin({"source": "fio", "suite": suite.name}, True, ("fio", "nvme"))
        return identify(self.device, self._tools)

    def take(self, work: Work) -> None:
        """Get ready for work that is no suite. UsageError or DriveError as :meth:`inspect`."""
        self._notes = work.notes
        self._restarts = any(step.restart is not None for step in work.session.steps)
        self._begin(work.source, work.writes, ("nvme",) if work.command else ("fio", "nvme"))

    def _begin(self, source: Mapping[str, Any], writes: bool, programs: Sequence[str]) -> None:
        self._source, self._writes = source, writes
        if self._restarts and self._setup.how.meter is not None:
            self._refuse(refuse_without_switch, None)
        if writes or self._setup.serial is not None:
            self._refuse(refuse_wrong_serial, self.device, self._setup.serial)
        if writes:
            self._refuse(refuse_in_use, self.device)
        for name in programs:
            self._refuse(self._tools.find, name)
        self._refuse(check_host, self._setup.how, self.device, self._tools)
        if self._setup.restore and not self._setup.dry and restore_left_over(self._setup.journal, self.device, self._tools):
            self._voice.say("The settings that the interrupted run left changed are put back.")

    def rehearse(self, steps: Sequence[Step]) -> Mapping[str, tuple[str, list[str]]]:
        """Return the settings of the drive that the steps would change: where, the value now, and the new value. Changes nothing."""
        rehearsal = Rehearsal(self.device, self._tools)
        wanted = self._setup.how.wanted
        self._refuse(rehearsal.rehearse, steps, wanted.link_speed_gt_s, wanted.governor)
        return rehearsal.told()

    def _refuse(self, check: Callable[..., object], *what: Any) -> None:
        try:
            check(*what)
        except WattbellError as error:
            if not self._setup.dry:
                raise
            self.refusals.append(str(error))

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the recorders, and find out how this drive takes markers.

        Raises DriveError when the tap cannot see this drive's link, and neither a slower link nor the host's log is to help.
        """
        with equipped(self._setup.how, self._setup.rig, self.device, self._voice.say) as self._equipment:
            if self._restarts:
                refuse_without_switch(self._equipment.rig)
            self._marking, unfit = marking.choose(self.device, self._tools)
            if unfit:
                self._voice.say(f"The recording is marked with {marking.text_of(self._marking)} ({unfit}).")
            yield

    @property
    def virtual(self) -> bool:
        """Whether the rig is virtual: a virtual rig replaces a real one in a box that has neither rig nor drive."""
        return self._equipment.virtual

    def conditions(self) -> JsonObject:
        """Software of the host computer, and the options given."""
        fio = self._tools.run("fio", "--version").strip() if self._tools.has("fio") else None
        nvme = self._tools.run("nvme", "version").strip().splitlines()
        out: JsonObject = {"kernel": platform.release(), "fio": fio, "nvme_cli": nvme[0] if nvme else ""}
        if "suite" in self._source:
            out |= {"written": True, "seed": self.choice.seed}
        link = read_link(self.device)
        more = {"marker": marking.text_of(self._marking), "computer": about_host(), "link": None if link is None else link.to_json()}
        asked = {"rounds": self.choice.rounds, "adc_decimation": self._setup.decimation, **self._setup.how.asked()}
        return {
            **out,
            **more,
            "adc_interval_s": self._setup.interval_s or CONVERSION_S,
            **{name: value for name, value in asked.items() if value is not None},
        }

    def versions(self) -> dict[str, str]:
        """None: the rig's versions are in every capture."""
        return {}

    def prepare(self, session: Session) -> None:
        """Set the rig's sampling. Raises DriveError when the drive has come into use meanwhile."""
        if self._writes:
            refuse_in_use(self.device)
        if self._equipment.rig is not None:
            set_sampling(self._equipment.rig, self._setup, session)

    def run(
        self, session: Session, plans: Path, capture: Path, conditions: Mapping[str, Any], on_step: Callable[[Step, bool], None]
    ) -> None:
        """Run the steps with fio and nvme-cli and record them. Raises DriveError or RigError when a step fails."""
        session.write(plans, self.choice.scale, self.choice.seed)
        rounds = Rounds(session.members if self.choice.rounds is None else (), plans / "results")

        def left_out(step: Step, phases: Sequence[PhaseEntry]) -> bool:
            over = rounds.over(step, phases)
            on_step(step, over)
            return over

        drive = declared(self.device, self._tools)
        with self._equipment.open_meter(lambda rig: set_sampling(rig, self._setup, session)) as meter:
            self.phases = run_session(
                self.device,
                self._equipment.rig,
                session.steps,
                plans,
                capture,
                journal=self._setup.journal,
                description=self._source,
                conditions={"host": conditions, "notes": list(self._notes)},
                tools=self._tools,
                say=self._voice.say,
                left_out=left_out,
                command_stdout=self._setup.command_stdout,
                marking=self._marking,
                meter=meter,
                log=self._equipment.open_log(plans / "results"),
                wanted=self._equipment.wanted,
                keep_stream=self._setup.keep_stream,
                drive=drive,
            )
        (plans / "phases.json").write_text(json.dumps(to_json(self.phases), indent=1) + "\n", encoding="utf-8")

    def accept(self, capture: Capture) -> JsonObject:
        """The drive's settings. Raises DriveError when the rig is at another drive."""
        if not capture.commands.head(1).collect().height:
            if self._equipment.rig is None:
                raise DriveError(f"The host's log has no command of {self.device.path}.")
            raise DriveError(f"The rig saw no command of {self.device.path}: is this drive in the rig's connector?")
        record = health.load(capture.workload_dir)
        wear = {} if record is None else {"health": health.of_drive(record)}
        around = {name: capture.meta["conditions"][name] for name in ("link", "computer") if name in capture.meta["conditions"]}
        missing = missing_of(capture.meta["conditions"])
        if missing is not None:
            self._missing.append(f"{capture.path.name}: {missing}")
        told = {"missing": self._missing} if self._missing else {}
        return {"settings": _settings(self.phases), **around, **wear, **told}


def _settings(phases: Sequence[PhaseEntry]) -> JsonObject:
    """Return the drive's settings in the measured phases; several values, in their order, if they differ."""
    found: dict[str, dict[Any, None]] = {}
    for phase in (phase for phase in phases if phase.measured):
        for name, value in phase.conditions.items():
            found.setdefault(name, {})[value] = None
    return {name: values[0] if len(values) == 1 else values for name, of in found.items() if (values := list(of))}


def refuse_jobs_without_drive(suite: Suite, pairs: Sequence[tuple[Test, str]]) -> None:
    """Raise UsageError for a job file that has a job without the drive: fio would write files on this computer instead."""
    for path in dict.fromkeys(suite.job_path(test) for test, _ in pairs if test.jobs):
        of_a_suite(door.read_text(path, door.SETTINGS), str(path))


def set_sampling(rig: Rig, setup: Setup, session: Session) -> None:
    """Set the time between the ADC's conversions, and the number of conversions averaged into a rail sample of the session."""
    interval_s = setup.interval_s or CONVERSION_S
    rig.set_interval(interval_s)
    rig.set_decimation(setup.decimation or max(1, min(4096, round(session.rail_interval_s / interval_s))))
