"""The block layer's trace of a drive, from the binary output of the program blktrace while it runs.

Records are ``struct blk_io_trace`` (include/uapi/linux/blktrace_api.h). Their times are CLOCK_MONOTONIC, which NTP slews. The difference to
CLOCK_MONOTONIC_RAW is read ten times a second and interpolated, so that an instant is off by less than 1 us.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import BlockContent

from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.schema import SeenBy
from wattbell.wire.decode import Gap

from ..clocks.host import host_ns
from ..errors import CaptureError, DriveError
from .block import COMPLETE, ISSUE, REQUEUE, SECTOR, Request, RequestPairing
from .target import Target

INSTANT_U_NS = 1_000
RECORD = np.dtype(
    [
        ("magic", "u4"),
        ("sequence", "u4"),
        ("time", "u8"),
        ("sector", "u8"),
        ("bytes", "u4"),
        ("action", "u4"),
        ("pid", "u4"),
        ("device", "u4"),
        ("cpu", "u4"),
        ("error", "u2"),
        ("pdu_len", "u2"),
    ]
)
_MAGIC = 0x65617400
_ACTIONS = {6: REQUEUE, 7: ISSUE, 8: COMPLETE}
_READ, _WRITE, _FLUSH, _PASSTHROUGH, _NOTIFY, _DISCARD = 1 << 0, 1 << 1, 1 << 2, 1 << 9, 1 << 10, 1 << 13
_CLOCK_S = 0.1
_SETTLE_NS = 500_000_000
"""Time within which blktrace hands over the events of each CPU in turn."""
_LOST = re.compile(r"(\d+) (?:dropped|lost) events|You have (\d+) dropped")


def parse(raw: bytes) -> tuple[list[Request], int, int]:
    """Return requests in blktrace's output, the number of its bytes in whole records, and the number of passthrough commands left out.

    Times are the trace's. Raises CaptureError for other data.
    """
    found: list[Request] = []
    at = passed = 0
    while at + RECORD.itemsize <= len(raw):
        (record,) = np.frombuffer(raw, RECORD, 1, at)
        if int(record["magic"]) & 0xFFFFFF00 != _MAGIC:
            raise CaptureError("what blktrace wrote is not the format of Linux 2.6.17 and later: its magic number is wrong.")
        size = RECORD.itemsize + int(record["pdu_len"])
        if at + size > len(raw):
            break
        at += size
        action, category = _ACTIONS.get(int(record["action"]) & 0xFFFF), int(record["action"]) >> 16
        if action is None or category & _NOTIFY:
            continue
        if category & _PASSTHROUGH:
            passed += action == COMPLETE
            continue
        sectors = int(record["bytes"]) // SECTOR
        what = _what(category, sectors)
        if what:
            found.append(Request(int(record["time"]), action, what, int(record["sector"]), sectors, int(record["error"])))
    return found, at, passed


def _what(category: int, sectors: int) -> str | None:
    if category & _DISCARD:
        return "trim" if sectors else None
    if category & _FLUSH and not sectors:
        return "sync"
    if not sectors:
        return None
    return "write" if category & _WRITE else "read" if category & _READ else None


class BlktraceLog:
    """A :class:`~.log.CommandLog`. Sees requests from the block layer to the driver: no admin commands, no passthrough, no markers."""

    source = SeenBy.BLKTRACE

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pairing = RequestPairing(target.lba_bytes, INSTANT_U_NS)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._raw = bytearray()
        self._later: list[Request] = []
        self._clock: list[tuple[int, int]] = []
        self._begun_ns = 0
        self._passed = 0
        self._notes: list[str] = []

    def fio_options(self) -> tuple[str, ...]:
        return ()

    @property
    def about(self) -> Mapping[str, object]:
        passed = [f"{self._passed} passthrough commands are not in it"] if self._passed else []
        return {
            "source": "blktrace",
            "clock": "mono_raw",
            "start": "the block layer gives the request to the driver (D)",
            "end": "the driver gives it back (C)",
            "notes": [*self._notes, *passed, *self._pairing.notes()],
        }

    def start(self) -> None:
        if self._target.nsid is None:
            raise DriveError(f"{self._target.path}: blktrace follows a namespace: give one such as {self._target.path}n1.")
        program = shutil.which("blktrace")
        if program is None:
            raise DriveError("blktrace is not installed (apt install blktrace); or take the commands from fio (--commands fio).")
        if os.geteuid() != 0:
            raise DriveError("blktrace needs root; or take the commands from fio (--commands fio).")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end
        words = [program, "-d", self._target.path, "-a", "issue", "-a", "complete", "-a", "requeue", "-o", "-"]
        self._tick()
        self._begun_ns = host_ns()
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors)
        self._thread = threading.Thread(target=self._run, name="blktrace", daemon=True)
        self._thread.start()
        enabled = Path("/sys/block") / Path(self._target.path).resolve().name / "trace/enable"
        deadline = time.monotonic() + 5
        while not (enabled.is_file() and enabled.read_text().strip() == "1"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._said()
                self._end()
                raise DriveError(f"blktrace does not start: {said or 'it says nothing'}. Is debugfs mounted on /sys/kernel/debug?")
            time.sleep(0.02)

    def take(self) -> HostCommands:
        assert self._process is not None
        until = host_ns() - _SETTLE_NS
        found = self._pair(until)
        if self._process.poll() is not None:
            raise DriveError(f"blktrace ended by itself: {self._said() or 'it says nothing'}.")
        return replace(found, until_ns=until)

    def stop(self) -> HostCommands:
        if self._process is None:
            return self._pairing.add([])
        self._process.send_signal(2)
        self._join()
        found = self._pair(None)
        said = self._said()
        counts = [int(one or other) for one, other in _LOST.findall(said)]
        lost = [Gap(BlockContent.COMMANDS, self._begun_ns, host_ns(), (n + 1) // 2, "blktrace dropped events") for n in counts if n]
        self._end()
        return HostCommands(found.table, lost=lost, source=found.source, notes=self._pairing.notes())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _run(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while data := os.read(pipe, 1 << 16):
            with self._guard:
                self._raw += data
                self._tick()

    def _tick(self) -> None:
        """Read both clocks three times, and note the pair that was read closest together."""
        if self._clock and time.monotonic_ns() - self._clock[-1][0] < _CLOCK_S * 1e9:
            return
        readings = []
        for _ in range(3):
            before, mono, after = host_ns(), time.monotonic_ns(), host_ns()
            readings.append((after - before, mono, (before + after) // 2))
        _, mono, raw = min(readings)
        self._clock.append((mono, raw))

    def _pair(self, until_ns: int | None) -> HostCommands:
        with self._guard:
            if until_ns is None:
                self._clock.append((time.monotonic_ns(), host_ns()))
            else:
                self._tick()
            events, used, passed = parse(bytes(self._raw))
            del self._raw[:used]
            clock = np.array(self._clock, np.int64)
        self._passed += passed
        ns = to_raw(np.array([event.ns for event in events], np.int64), clock)
        events = [event._replace(ns=int(at)) for event, at in zip(events, ns, strict=True)]
        events = sorted([*self._later, *events], key=lambda event: event.ns)
        self._later = [] if until_ns is None else [event for event in events if event.ns > until_ns]
        return self._pairing.add(events[: len(events) - len(self._later)])

    def _said(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return " ".join(self._errors.read().decode(errors="replace").split())[-300:]

    def _join(self) -> None:
        """Wait until blktrace is gone and all its output is read."""
        if self._process is None:
            return
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._notes.append("blktrace did not stop and was killed: its last events may be missing")
        if self._thread:
            self._thread.join(10)

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self._join()
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        if self._errors is not None:
            self._errors.close()
        self._process = self._errors = None


def to_raw(mono_ns: npt.NDArray[np.int64], clock: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Instants of CLOCK_MONOTONIC as CLOCK_MONOTONIC_RAW, by readings of both (n, 2), straight in between and beyond."""
    difference = clock[:, 1] - clock[:, 0]
    base = int(difference[0])
    near = np.interp((mono_ns - clock[0, 0]).astype(float), (clock[:, 0] - clock[0, 0]).astype(float), (difference - base).astype(float))
    return np.asarray(mono_ns + base + np.rint(near).astype(np.int64), np.int64)
