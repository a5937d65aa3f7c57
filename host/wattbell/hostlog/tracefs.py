"""The NVMe driver's tracepoints, read while they come.

**A separate instance.** ``instances/NAME`` of tracefs has its own buffers, clock and switches. So the system's tracing is left alone, and
removing the instance undoes everything. It is locked (flock) while in use, which distinguishes it from the instance of a killed run.

**No trace-cmd.** ``trace_pipe_raw`` gives whole pages of the buffer, in ns and with a count of the events overwritten before them.
trace-cmd reads the same pages, but has to be installed. Its file has its end only when it stops. It reports how many events it lost but not
where. The text of ``trace_pipe`` has microseconds only, and making it costs the kernel more than the events themselves.

**Two events of three.** ``nvme_setup_cmd`` and ``nvme_complete_rq`` make a command. ``nvme_sq`` (head and tail of the queue at a
completion) names no CID. It belongs to a command by guess only, and would cost half as much again.

The buffer keeps the newest events. Pages mark overwritten events, so the place of a gap is known. At the end the kernel's own counters
(``per_cpu/*/stats``) must agree with these marks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from wattbell.capture.hostcommands import HostCommands, joined
from wattbell.capture.marking import BY_FEATURE, Marking
from wattbell.capture.schema import SeenBy
from wattbell.wire.decode import Gap

from ..clocks.host import host_ns
from ..errors import CaptureError, DriveError
from .events import Events, Pairing, empty, together
from .pages import COMPLETE_EVENT, SETUP_EVENT, OverwrittenEvents, PageReader
from .target import Target

TRACE_EVENTS = (SETUP_EVENT, COMPLETE_EVENT)
_CLOCK = "mono_raw"
_POLL_S = 0.02
_SETTLE_NS = 1_000_000
"""An event has its time stamp before it is in the buffer; by this much later it is."""
_ALL_KIB = 1 << 19
_CPU_KIB = 1 << 14
"""A buffer of 16 MiB a CPU, 512 MiB in all.

A command is about 170 bytes, so a CPU with a million commands a second fills its buffer in 100 ms. That is five times the time between two
readings.
"""
_OVERRAN = "the kernel's trace buffer overran"
_COUNTERS = ("overrun", "commit overrun", "dropped events")


class TraceLog:
    """A :class:`~.log.CommandLog`. ``tracefs``: where it is mounted; None: looked up. ``buffer_kib``: of each CPU."""

    source = SeenBy.TRACEPOINT

    def __init__(
        self, target: Target, marking: Marking = BY_FEATURE, *, tracefs: Path | None = None, buffer_kib: int | None = None
    ) -> None:
        self._target = target
        self._tracefs = tracefs
        self._kib = buffer_kib
        self._pairing = Pairing(target.wanted(), marking=marking)
        self._instance: Path | None = None
        self._lock: int | None = None
        self._pipes: dict[int, int] = {}
        self._reader: PageReader | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._read: dict[int, bytearray] = {}
        self._failed: OSError | None = None
        self._later = empty()
        self._begun_ns = 0
        self._seen_missing: dict[int, int] = {}
        self._notes: list[str] = []
        self._stopped = False

    @property
    def about(self) -> Mapping[str, object]:
        return {
            "source": "trace",
            "clock": _CLOCK,
            "start": f"{SETUP_EVENT}: the driver builds the SQE, before the doorbell",
            "end": f"{COMPLETE_EVENT}: the driver handles the CQE, after it was written",
            "buffer_kib_per_cpu": self._kib,
            "kernel": platform.release(),
            "notes": [*self._notes, *self._pairing.notes()],
        }

    def fio_options(self) -> tuple[str, ...]:
        return ()

    def start(self) -> None:
        tracefs = self._tracefs or find_tracefs()
        self._refuse(tracefs)
        try:
            self._make(tracefs)
        except OSError as error:
            self._remove()
            raise DriveError(f"The kernel's trace of NVMe commands cannot be set up: {error.filename}: {error.strerror}.") from None
        except BaseException:
            self._remove()
            raise
        self._begun_ns = host_ns()
        self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
        self._thread.start()

    def take(self) -> HostCommands:
        # All events now in the buffers are older than later ones, on every CPU.
        until = host_ns() - _SETTLE_NS
        if self._instance is not None:
            self._drain()
        found = self._pair(until)
        if self._failed is not None:
            raise DriveError(f"The kernel's trace of NVMe commands cannot be read any more ({self._failed.strerror}).")
        return replace(found, until_ns=until)

    def stop(self) -> HostCommands:
        if self._stopped or self._instance is None:
            self._remove()
            return self._pairing.end()
        self._stopped = True
        try:
            with contextlib.suppress(OSError):
                _write(self._instance / "tracing_on", "0")
            self._halt()
            self._drain()
            parts = [self._pair(None)]
            uncounted = self._uncounted()
            if uncounted:
                parts.append(self._pairing.add(empty(), [uncounted]))
            in_flight = self._pairing.in_flight
            parts.append(self._pairing.end())
            if in_flight:
                self._pairing.unfinished -= in_flight
                self._notes.append(f"{in_flight} commands were in flight when the log ended; they are not in it.")
            return joined(parts)
        finally:
            self._remove()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._halt()
        self._remove()

    def _refuse(self, tracefs: Path) -> None:
        """DriveError where there is nothing to log with."""
        try:
            os.listdir(tracefs)
        except PermissionError:
            raise DriveError(f"{tracefs} may not be read: {_who_may()}, or take the commands from fio (--commands fio).") from None
        except OSError as error:
            raise DriveError(f"{tracefs} cannot be read ({error.strerror}): mount -t tracefs tracefs /sys/kernel/tracing.") from None
        for name in TRACE_EVENTS:
            if not (tracefs / "events/nvme" / name).is_dir():
                raise DriveError(
                    f"This kernel ({platform.release()}) has no trace event nvme/{name}: load the NVMe driver, or use --commands blktrace."
                )

    def _make(self, tracefs: Path) -> None:
        instance = tracefs / "instances" / f"wattbell-nvme{self._target.controller}"
        try:
            instance.mkdir()
        except FileExistsError:
            self._take_over(instance)
            instance.mkdir()
        except PermissionError as error:
            raise DriveError(f"{instance} cannot be made ({error.strerror}): {_who_may()}.") from None
        self._instance = instance
        self._lock = os.open(instance, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _write(instance / "tracing_on", "0")
        self._choose_clock(instance)
        cpus = sorted((path for path in (instance / "per_cpu").glob("cpu*")), key=lambda path: int(path.name[3:]))
        self._kib = self._kib or max(1 << 10, min(_CPU_KIB, _ALL_KIB // max(1, len(cpus))))
        _write(instance / "buffer_size_kb", str(self._kib))
        for option, value in (("overwrite", "1"), ("record-cmd", "0")):
            with contextlib.suppress(OSError):
                _write(instance / "options" / option, value)
        for name in TRACE_EVENTS:
            _write(instance / "events/nvme" / name / "filter", f"ctrl_id == {self._target.controller}")
        texts = [(tracefs / "events/header_page").read_text()]
        texts += [(tracefs / "events/nvme" / name / "format").read_text() for name in TRACE_EVENTS]
        self._reader = PageReader(*texts)
        for path in cpus:
            cpu = int(path.name[3:])
            self._read[cpu] = bytearray()
            self._pipes[cpu] = os.open(path / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        for name in TRACE_EVENTS:
            _write(instance / "events/nvme" / name / "enable", "1")
        _write(instance / "tracing_on", "1")

    def _take_over(self, instance: Path) -> None:
        """Remove an instance that a killed run left. Raises DriveError if another run has it."""
        lock = os.open(instance, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DriveError(
                f"Another run logs the commands of nvme{self._target.controller} already ({instance}); wait for it, or end it."
            ) from None
        finally:
            os.close(lock)
        try:
            instance.rmdir()
        except OSError as error:
            raise DriveError(f"{instance}, left by a run that was killed, cannot be removed ({error.strerror}): rmdir {instance}") from None
        self._notes.append("a trace instance that a killed run had left was removed")

    def _choose_clock(self, instance: Path) -> None:
        clocks = (instance / "trace_clock").read_text()
        if _CLOCK not in re.findall(r"[\w-]+", clocks):
            raise DriveError(f"This kernel ({platform.release()}) traces without the clock {_CLOCK}: use --commands blktrace.")
        _write(instance / "trace_clock", _CLOCK)

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            self._drain()

    def _drain(self) -> None:
        """Read the buffers of all CPUs until they are empty."""
        assert self._reader is not None
        with self._guard:
            for cpu, pipe in self._pipes.items():
                room = self._read[cpu]
                while True:
                    try:
                        page = os.read(pipe, self._reader.page_bytes)
                    except BlockingIOError:
                        break
                    except OSError as error:
                        if error.errno != errno.EINTR:
                            self._failed = error
                            break
                        continue
                    if not page:
                        break
                    room += page

    def _pair(self, until_ns: int | None) -> HostCommands:
        """Commands of all that was read; events after ``until_ns`` wait, since an earlier one of another CPU may still come."""
        assert self._reader is not None
        parts: list[Events] = [self._later]
        lost: list[Gap] = []
        with self._guard:
            read = [(cpu, bytes(raw)) for cpu, raw in self._read.items()]
            for raw in self._read.values():
                raw.clear()
        for cpu, pages in read:
            try:
                events, missing = self._reader.read(cpu, pages)
            except CaptureError as error:
                raise DriveError(f"The kernel's trace of NVMe commands cannot be understood: {error}") from None
            parts.append(events)
            lost += [self._gap(cpu, hole) for hole in missing]
        events = together(parts)
        if until_ns is None:
            self._later = empty()
            return self._pairing.add(events, lost)
        self._later = events.take(events.ns > until_ns)
        return self._pairing.add(events.take(events.ns <= until_ns), lost)

    def _gap(self, cpu: int, hole: OverwrittenEvents) -> Gap:
        # a full page has no room for the number
        count = hole.count if hole.count > 0 else max(1, self._counted(cpu) - self._seen_missing.get(cpu, 0))
        self._seen_missing[cpu] = self._seen_missing.get(cpu, 0) + count
        first = self._begun_ns if hole.after_ns is None else hole.after_ns
        return Gap(None, min(first, hole.before_ns), hole.before_ns, count, f"{_OVERRAN} (CPU {cpu})")

    def _counted(self, cpu: int) -> int:
        """Events that the kernel counts as lost on a CPU so far."""
        assert self._instance is not None
        text = (self._instance / "per_cpu" / f"cpu{cpu}" / "stats").read_text()
        return sum(int(n) for name, n in re.findall(r"^([\w ]+): (\d+)$", text, re.MULTILINE) if name in _COUNTERS)

    def _uncounted(self) -> Gap | None:
        """Return a gap for events that the kernel counts as lost beyond the marks in the pages; its place is unknown."""
        missing = sum(max(0, self._counted(cpu) - self._seen_missing.get(cpu, 0)) for cpu in self._pipes)
        if not missing:
            return None
        return Gap(None, self._begun_ns, host_ns(), missing, "the kernel counted more lost trace events than it marked")

    def _halt(self) -> None:
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _remove(self) -> None:
        """Take the instance away, if it is ours."""
        for pipe in self._pipes.values():
            with contextlib.suppress(OSError):
                os.close(pipe)
        self._pipes = {}
        instance, self._instance = self._instance, None
        if instance is not None:
            for name in TRACE_EVENTS:
                with contextlib.suppress(OSError):
                    _write(instance / "events/nvme" / name / "enable", "0")
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if instance is not None:
            try:
                instance.rmdir()
            except OSError as error:
                self._notes.append(f"{instance} could not be removed ({error.strerror}): rmdir {instance}")


def find_tracefs(mounts: Path = Path("/proc/self/mounts")) -> Path:
    """Return the mount point of tracefs. Raises DriveError without one."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        words = line.split()
        if len(words) > 2 and words[2] == "tracefs":
            return Path(words[1])
    if lines and (automounted := Path("/sys/kernel/debug/tracing")).is_dir():
        return automounted
    raise DriveError(
        "tracefs is not mounted, so the kernel cannot tell its NVMe commands: mount -t tracefs tracefs /sys/kernel/tracing "
        "(in a container: on its host), or use --commands fio."
    )


def _who_may() -> str:
    """Return advice for a host that does not permit tracing."""
    if os.geteuid():
        return "run as root"
    return "root alone is not enough here; run on the host of a container, and without Secure Boot's lockdown"


def _write(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
