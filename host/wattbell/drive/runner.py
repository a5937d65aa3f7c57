"""The steps of a plan (docs/ssd-model.md) on a real drive: the same keys, real fio and nvme-cli.

Each group of jobs, each idle time and each wake-up is a phase between two in-band markers (docs/capture.md).
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec

from .. import door
from ..capture.marking import BY_FEATURE, Marking
from ..clocks.host import host_ns
from ..clocks.markers import SentMarker
from ..errors import DriveError, WattbellError
from ..measure.fiojson import load_jobs
from ..suites.jobs import JobSection, of_a_suite
from ..suites.step import FormatNvm, Rest, Restart, Step, Wake, Writing
from .command import run_command
from .device import Device
from .marking import words
from .phase import PhaseEntry
from .presence import PERIOD_S, Presence
from .replay import replay_job
from .restart import Restarter
from .settings import HostSettings
from .settle import Seen
from .smart import HealthWatch
from .tools import WHICH_NVME, Tools

_LOG = logging.getLogger(__name__)

START, END, PRESENT = 1, 2, 3
PHASES_MOST, PHASE_BASES = 1 << 12, 1 << 12
"""Limits for phases: a marker has 24 bits for a phase's number, which gives the session and the phase within."""
FILL_DEPTH = 32
DUTY_IDLE_MAX_S = 60.0
SANITIZE = {"block": 2, "overwrite": 3, "crypto": 4}
"""SANACT of the Sanitize command (NVMe base specification, Sanitize, CDW10)."""
_SANITIZE_POLL_S = 1.0
_SPELLED = re.compile(r"\((\d{1,9})\)")
_FORMAT_TIMEOUT_S = 1800.0
_WAKE_BYTES = 4096
_NO_FILES = "--allow_file_create=0"
"""Without the drive, fio would make a file in /dev, which is memory, and measure that."""
_FIO_CUTS_MS = 0.5
"""In the mean: fio leaves out parts of a millisecond."""


class Runner:
    """Runs steps. ``files``: folder of the plan's job files and traces; ``results``: where fio's JSON goes.

    ``phases`` grows as phases end. ``await_rest``: watches the rail behind a marker
    until it is at rest. ``marking``: the command that marks. ``interrupted``:
    raises KeyboardInterrupt for a signal whose exception was lost.
    """

    def __init__(
        self,
        device: Device,
        tools: Tools,
        settings: HostSettings,
        files: Path,
        results: Path,
        say: Callable[[str], None],
        await_rest: Callable[[int, Rest], Seen],
        marking: Marking = BY_FEATURE,
        interrupted: Callable[[], None] = lambda: None,
    ) -> None:
        self.device, self.tools, self.settings = device, tools, settings
        self.files, self.results, self.say, self.await_rest = files, results, say, await_rest
        self.marking = marking
        self.sent: Callable[[SentMarker], None] = lambda _marker: None
        """Called with each marker that was sent."""
        self.fio_options: Callable[[], tuple[str, ...]] = tuple
        """Options that a host's log of commands needs in the next run of fio."""
        self.phases: list[PhaseEntry] = []
        self.cut_short: PhaseEntry | None = None
        """The phase in progress, as if it ended here; None between two phases."""
        self.restarter: Restarter | None = None
        """None: nothing on the bench can switch the drive."""
        self.command_stdout: int | None = None
        """Destination of a command's standard output; None: our own."""
        self.presence = Presence(device, interrupted=interrupted)
        self._health = HealthWatch(device, tools, results)
        # Each session has numbers of its own: markers of an interrupted one, still in a rig, must not pass for this one's.
        self._first = int(time.time()) % PHASE_BASES * PHASES_MOST

    def run(self, steps: Sequence[Step]) -> None:
        """Every step, in order. Raises DriveError when one cannot be run, or the drive has gone; KeyboardInterrupt ends fio first."""
        for step in steps:
            with self._present():
                if step.idle_s is None and step.wake is None:  # there it would wake the drive
                    self.read_health()
                self._prepare(step)
                self._action(step)

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Report a drive that has gone before, during or after an action, whatever error that caused."""
        self.presence.check()
        try:
            yield
        except WattbellError:
            self.presence.check()
            raise
        self.presence.check()

    def read_health(self) -> None:
        """Ask the drive for its temperature and health, between two phases; also when the last one is over."""
        self._health.between(len(self.phases))

    def pattern(self, name: str, play: Callable[[], None], *, as_it_is: bool) -> None:
        """Play a pattern of load that relates clocks, as a phase by itself. ``as_it_is``: leave the drive's settings alone."""
        step = Step(name=name, measured=False)
        with self._present():
            if not as_it_is:
                self._prepare(step)
            self._phase(name, step, "pattern", lambda _: play())

    @property
    def first_marker(self) -> int:
        """Marker of no phase: sent before anything is changed, to see whether the recorder is at this drive."""
        return self._first << 8 | PRESENT

    @property
    def last_marker(self) -> int:
        """The end marker of the last phase so far."""
        return (self._first + len(self.phases)) << 8 | END

    def _prepare(self, step: Step) -> None:
        self.settings.power(apst=step.apst, aspm=step.aspm, power_state=step.ps)
        if step.write_cache is not None:
            self.settings.write_cache(step.write_cache)
        if step.temperature_c is not None:
            self.settings.conditions["ambient"] = "not under our control"

    def _action(self, step: Step) -> None:
        name = step.name
        if step.fio is not None:
            groups = self._groups(step.fio)
            for group in groups:
                jobs = [section.name for section in group]
                full = f"{name}/{'+'.join(jobs)}" if len(groups) > 1 else name
                self._phase(full, step, "fio", self._fio(step.fio, jobs), jobs=jobs, file=step.fio)
        elif step.fill is not None:
            job = self._fill_job(step.fill)
            self._phase(name, step, "fio", self._fio(job, ["fill"]), jobs=["fill"], file=job)
        elif step.trace is not None:
            job = replay_job(self.files, self.results, step.trace, step, self.device.capacity_bytes)
            self._phase(name, step, "trace", self._fio(job, ["replay"]), jobs=["replay"], file=job)
        elif step.idle_s is not None:
            idle_s = step.idle_s
            self._phase(name, step, "idle", lambda _: self.presence.wait(idle_s), idle_s=idle_s)
        elif step.wake is not None:
            wake = step.wake
            self._phase(name, step, "wake", lambda phase: self._wake(wake, phase), idle_s=wake.idle_s)
        elif step.restart is not None:
            restart = step.restart
            self._phase(name, step, "restart", lambda phase: self._restart(restart, phase))
        elif step.command is not None:
            command = step.command
            self._phase(name, step, "command", lambda phase: run_command(command, self.device, phase, self.command_stdout))
        elif step.settle is not None:
            rest = step.settle
            self._phase(name, step, "settle", lambda phase: self._settle(rest, phase))
        elif step.format is not None:
            self._format(step.format)
        elif step.sanitize is not None:
            self._sanitize(step.sanitize)

    def _phase(
        self,
        name: str,
        step: Step,
        kind: str,
        body: Callable[[PhaseEntry], None],
        *,
        jobs: Sequence[str] | None = None,
        file: str | None = None,
        idle_s: float | None = None,
    ) -> None:
        number = self._first + len(self.phases) + 1
        self.say(f"{len(self.phases) + 1}: {name}")
        phase = PhaseEntry(
            number,
            name,
            kind if step.measured else "precondition",
            step.measured,
            dict(self.settings.conditions),
            jobs,
            file,
            idle_s,
            step.ps,
            step.apst,
            step.aspm,
            self.settings.apst_table,
        )
        began = time.monotonic()
        # the recording of this phase keeps its name
        self.cut_short = msgspec.structs.replace(phase, name=f"{name} (broke off)", kind="precondition", measured=False)
        self.marker(number << 8 | START)
        try:
            body(phase)
            self.presence.check()  # else it would be a phase like any other
        except BaseException:
            self.phases.append(self.cut_short)
            raise
        finally:
            self.cut_short = None
        self.marker(number << 8 | END)
        whole_s = time.monotonic() - began
        self.phases.append(phase)
        if step.rest_s is not None:
            phase.idle_after_s = step.rest_s
            self.presence.wait(step.rest_s)
        if step.duty is not None:
            phase.busy_s = min(self._worked(phase), whole_s) or whole_s
            longest_s = DUTY_IDLE_MAX_S if step.duty_idle_max_s is None else step.duty_idle_max_s
            rest_s = min(phase.busy_s * (1 - step.duty) / step.duty, longest_s)
            # the drive rests while fio starts and ends, too
            phase.idle_after_s = max(rest_s - (whole_s - phase.busy_s), 0.0)
            self.presence.wait(phase.idle_after_s)

    def _worked(self, phase: PhaseEntry) -> float:
        """Return the seconds for which the jobs of a phase, which run together, had I/O, by fio's JSON; 0 if it does not say."""
        if phase.fio is None:
            return 0.0
        longest_ms = max((job.runtime_ms for job in load_jobs(self.results / phase.fio)), default=0)
        return (longest_ms + _FIO_CUTS_MS) * 1e-3 if longest_ms else 0.0

    def marker(self, value: int) -> None:
        """An in-band marker."""
        before_ns = host_ns()
        self.tools.attempt("nvme", *words(self.marking, self.device, value))
        self.sent(SentMarker(value, before_ns, host_ns()))

    # -- the actions of a step ------------------------------------------------------------------------------------------

    def _groups(self, name: str) -> list[list[JobSection]]:
        """The jobs of a file that run together: a job with ``stonewall`` waits for those before it."""
        path = self.files / name
        try:
            jobs = of_a_suite(door.read_text(path, door.SETTINGS), str(path))  # fio gets the text that was checked
        except (OSError, UnicodeDecodeError) as error:
            raise DriveError(f"{path} cannot be read ({error}).") from None
        out: list[list[JobSection]] = []
        for section in jobs:
            walled = "1" in (section.options.get("stonewall"), section.options.get("wait_for_previous"))
            if walled or not out:
                out.append([])
            out[-1].append(section)
        return out

    def _fio(self, file: str, jobs: Sequence[str]) -> Callable[[PhaseEntry], None]:
        def body(phase: PhaseEntry) -> None:
            output = self.results / f"fio-{phase.phase - self._first}.json"
            chosen = [f"--section={job}" for job in jobs]
            # with APST a reading could wake it between two of the job's I/Os
            watched = nullcontext() if phase.apst else self._health.during(len(self.phases))
            with watched:
                logged = [f"--{option}" for option in self.fio_options()]
                self._run_fio("--output-format=json", f"--output={output}", *logged, *chosen, str(self.files / file))
            phase.fio = output.name

        return body

    def _run_fio(self, *arguments: str) -> None:
        command = [*self.tools.ending_with_us("fio"), _NO_FILES, *arguments]
        _LOG.info("%s", shlex.join(command))
        environment = {**os.environ, "WATTBELL_DRIVE": self.device.path}
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.results,
            start_new_session=True,
        )
        try:
            said = self._said_by(process)
        except BaseException:  # Ctrl-C too: fio must not go on writing to a drive that nobody watches
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        if process.returncode:
            lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
            raise DriveError(f"fio failed (exit {process.returncode}): {lines[-1] if lines else 'no message'}")

    def _said_by(self, process: subprocess.Popen[bytes]) -> bytes:
        while True:
            try:
                return process.communicate(timeout=PERIOD_S)[0]
            except subprocess.TimeoutExpired:
                self.presence.check()  # jobs may be set to go on after errors

    def _fill_job(self, fill: Writing) -> str:
        span = round(self.device.capacity_bytes * fill.span)
        size = span // (1 << 20) << 20 or span
        text = "\n".join(
            [
                "[fill]",
                "filename=${WATTBELL_DRIVE}",
                "ioengine=libaio",
                "direct=1",
                "rw=write",
                "refill_buffers=1",
                f"bs={fill.bs}",
                f"iodepth={FILL_DEPTH}",
                f"size={size}",
                "",
            ]
        )
        path = self.results / "fill.fio"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def _wake(self, wake: Wake, phase: PhaseEntry) -> None:
        """Leaves the drive alone, then reads 4 KiB past the page cache."""
        self._read_after(wake.idle_s, wake.slba, phase, "waking")

    def _restart(self, restart: Restart, phase: PhaseEntry) -> None:
        """Shuts the drive down and brings it up, then reads 4 KiB. Its features and its block device are new then."""
        if self.restarter is None:
            raise DriveError("Nothing on this bench switches the drive's supply: it takes a Wattbell rig in the drive's connector.")
        self.restarter(restart)
        self.presence.renew()
        self._read_after(0.0, 0, phase, "first")
        self.settings.prepare()

    def _read_after(self, idle_s: float, slba: int, phase: PhaseEntry, which: str) -> None:
        block = mmap.mmap(-1, _WAKE_BYTES)  # page-aligned, as O_DIRECT wants it
        try:
            descriptor = os.open(self.device.path, os.O_RDONLY | os.O_DIRECT)
        except OSError as error:
            raise DriveError(f"{self.device.path} cannot be read ({error.strerror}).") from None
        try:
            self.presence.wait(idle_s)
            began = time.monotonic_ns()
            got = os.preadv(descriptor, [block], slba * 512 // _WAKE_BYTES * _WAKE_BYTES)
            phase.host_latency_s = (time.monotonic_ns() - began) * 1e-9
        except OSError as error:
            raise DriveError(f"{self.device.path}: the {which} read failed ({error.strerror}).") from None
        finally:
            os.close(descriptor)
        if got != _WAKE_BYTES:
            raise DriveError(f"{self.device.path}: the {which} read gave {got} of {_WAKE_BYTES} bytes.")

    def _settle(self, rest: Rest, phase: PhaseEntry) -> None:
        """Leaves the drive alone until its rail is at rest."""
        seen = self.await_rest(phase.phase << 8 | START, rest)
        phase.settling = replace(seen, after_s=round(seen.after_s, 3))
        if not seen.settled:
            self.say(f"the rail is not at rest after {seen.after_s:.0f} s; going on")

    def _format(self, options: FormatNvm) -> None:
        nsid = self.device.nsid if options.nsid is None else options.nsid
        if nsid != self.device.nsid:
            raise DriveError(f"The plan formats namespace {nsid}, but {self.device.path} is namespace {self.device.nsid}: leave nsid out.")
        self.say("Format NVM")
        arguments = [f"--namespace-id={nsid}", f"--ses={options.ses}", "--force"]
        self.tools.run("nvme", "format", self.device.character_device, *arguments, timeout_s=_FORMAT_TIMEOUT_S)

    def _sanitize(self, action: str) -> None:
        if action not in SANITIZE:
            raise DriveError(f"sanitize = {action}: it is one of {', '.join(SANITIZE)}.")
        self.say(f"Sanitize ({action})")
        device = self.device.character_device
        self.tools.run("nvme", "sanitize", device, f"--sanact={SANITIZE[action]}")
        while True:
            self.presence.wait(_SANITIZE_POLL_S)
            state = sanitize_state(self.tools.run("nvme", "sanitize-log", device, "--output-format=json"))
            if state in (1, 4):  # completed; completed without deallocation
                return
            if state == 3:
                raise DriveError(f"{self.device.path}: the sanitize operation failed.")


def sanitize_state(said: str) -> int:
    """Return SSTAT bits 2:0 of ``nvme sanitize-log``. Raises DriveError when they are missing.

    Versions of nvme-cli put them at the top or below the device's name. They are a number, a table, or words such as ``(1) Most Recent
    Sanitize Command Completed Successfully.`` (2.13).
    """
    try:
        log = msgspec.json.decode(said)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DriveError(f"nvme sanitize-log gave no JSON ({error}): {WHICH_NVME}.") from None
    below = log.values() if isinstance(log, dict) else ()
    found = next((table for table in (log, *below) if isinstance(table, dict) and "sstat" in table), {})
    status = found.get("sstat")
    if isinstance(status, dict):
        status = status.get("status")
    if isinstance(status, str) and (spelled := _SPELLED.match(status)):
        status = int(spelled[1])
    if not isinstance(status, int):
        raise DriveError(f"nvme sanitize-log gave no status (sstat): {WHICH_NVME}.")
    return status & 7
