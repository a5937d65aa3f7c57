"""A meter and a host's log of commands beside :mod:`.lab`: both run in real time, each by a clock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from wattbell.capture.hostcommands import HostCommands, command_table
from wattbell.capture.schema import SeenBy
from wattbell.capture.source import RailSource, blocks
from wattbell.clocks.host import host_ns
from wattbell.errors import DriveError, RigError
from wattbell.meters.meter import ClockPair, MeterAbout
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent

from tests.host.drive.lab import Lab

TICK_PS, INTERVAL = 1_000_000, 1000
"""A tick of 1 us, a sample every ms."""
RISE_NS = 2_000_000
"""How late this drive's power follows its work."""


class LabMeter:
    """Its clock began at another time than the host's and is 80 ppm fast. ``power``: W at seconds after the last marker, the lab's own.
    ``asked``: whether it gives its counter, and not before sample ``answers_from``. Goes when ``gone`` says so, changes its rate at
    ``other_rate_after`` samples."""

    def __init__(self, lab: Lab, asked: bool = True) -> None:
        self.lab, self.asked = lab, asked
        self.gone: Callable[[], bool] = lambda: False
        self.other_rate_after = 1 << 60
        self.answers_from = 0
        self.about = MeterAbout("fake", "M1", "1", TICK_PS, INTERVAL, True, 0.01, 1e-5, 100e-6, "made up for a test")
        self.pairs: list[ClockPair] = []
        self.bursts: list[tuple[float, float]] = []
        """Begin and end of work that takes 1.5 W more, ns of the host's clock."""
        self.swing_ns = 0
        """Period of a power of 1 W +- 0.8 W by the host's clock, in the place of the lab's."""
        self.sent, self.behind_s = 0, 0.0
        self.stopped = False

    def _tick(self, ns: int) -> int:
        return int((ns - self.began_ns) * (1 + 80e-6) * 1000) // TICK_PS

    def follows(self, behind_s: float) -> None:
        """Sends as a virtual rig does: from ``behind_s`` before its start on, at ten times the speed until it has caught up."""
        self.behind_s = behind_s
        self.about = replace(self.about, conditions={"virtual": True})

    def start(self) -> None:
        self.began_ns = host_ns() - round(self.behind_s * 1e9)
        self.sent, self.pairs, self.stopped = 0, [], False

    def read(self, timeout_s: float) -> list[RailSource]:
        if self.stopped:
            return []
        time.sleep(min(timeout_s, 0.01))
        if self.gone():
            raise RigError("The meter is gone (no such device); check its cable.")
        before = host_ns()
        tick = self._tick(host_ns())
        self.pairs.append(ClockPair(before if self.asked and self.sent >= self.answers_from else None, host_ns(), tick))
        ready = min(tick // INTERVAL - self.sent, 100)
        if ready <= 0:
            return []
        since = self.lab.marker_seen_ns
        first = self.sent * INTERVAL
        host = self.began_ns + (first + np.arange(ready) * INTERVAL) * TICK_PS / 1000
        power = self.lab.power or (lambda _t: 0.0)
        watts = np.array([power(max(0.0, (t - since) * 1e-9)) for t in host], np.float32)
        if self.swing_ns:
            watts = (1 + 0.8 * np.sin(2 * np.pi * (host - self.began_ns) / self.swing_ns)).astype(np.float32)
        for begin, end in list(self.bursts):
            watts[(host >= begin + RISE_NS) & (host < end + RISE_NS)] += np.float32(1.5)
        self.sent += ready
        interval = INTERVAL if self.sent < self.other_rate_after else INTERVAL // 2
        volts = np.full(ready, 3.3, np.float32)
        return [blocks(first, interval, volts, watts / np.float32(3.3))]

    def stop(self) -> None:
        self.stopped = True

    def remarks(self) -> list[str]:
        return []

    def clock_pairs(self) -> list[ClockPair]:
        return list(self.pairs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class LabLog:
    """Sees the markers that ``nvme`` was given, within milliseconds, and for each run of ``fio`` 100 reads of 4 KiB. ``overran``: events
    lost in the middle of a piece with more than ``overran_from`` commands; ``breaks_after``: markers that were sent while
    :meth:`take` worked."""

    source = SeenBy.TRACEPOINT

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.overran, self.overran_from = 0, 50
        self.breaks_after = 1 << 30
        self.waking_ns = 0
        """For how much longer a drive is with a marker at the end of a phase, which wakes it."""
        self.marks: list[int] = []
        """Instant of each marker, ns of the host's clock."""
        self.ended = False
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def about(self) -> Mapping[str, object]:
        return {"source": "trace", "clock": "mono_raw", "notes": ["made up for a test"]}

    def fio_options(self) -> tuple[str, ...]:
        return ()

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        markers = runs = 0
        while not self._over.is_set():
            markers, runs = self._look(markers, runs)
            time.sleep(0.002)
        self._look(markers, runs)

    def _look(self, markers: int, runs: int) -> tuple[int, int]:
        """When the scripts were there, by the time of day, on the clock of the log."""
        apart = host_ns() - time.clock_gettime_ns(time.CLOCK_REALTIME)
        marked, worked = self.lab.words("marked"), self.lab.words("worked")
        with self._guard:
            for line in marked[markers:]:
                opcode, selector, value, when = (int(word, 0) for word in line.split())
                self.lab.marker_seen_ns = when + apart
                self.marks.append(when + apart)
                self._rows.append((when + apart, opcode, 0, selector, value))
            for when in map(int, worked[runs:]):
                self._rows += [(when + apart + 10_000 * k, 2, 1, 8 * k, 8) for k in range(100)]
        return len(marked), len(worked)

    def take(self) -> HostCommands:
        if len(self.lab.words("marked")) > self.breaks_after:
            raise DriveError("The kernel's trace of NVMe commands cannot be read any more (Input/output error).")
        return self._taken()

    def _taken(self) -> HostCommands:
        with self._guard:
            rows, self._rows = sorted(self._rows), []
        start, opcode, qid, slba, count = np.array(rows or np.zeros((0, 5)), np.int64).reshape(-1, 5).T
        columns: dict[str, Any] = {
            "cqe_tick": start + 5000 + self.waking_ns * ((opcode == 10) & (count & 0xFF == 2)),
            "doorbell_tick": start,
            "opcode": opcode.astype(np.uint8),
            "qid": qid.astype(np.uint8),
            "slba": slba.astype(np.uint64),
            "blocks": count.astype(np.uint32),
            "nsid": np.full(len(start), 7, np.uint32),
        }
        lost = []
        if self.overran and len(start) > self.overran_from:
            lost = [Gap(BlockContent.COMMANDS, int(start[0]), int(start[-1]), self.overran, "the kernel's trace buffer overran (CPU 0)")]
            self.overran = 0
        return HostCommands(command_table(columns, SeenBy.TRACEPOINT, 1), [], lost)

    def stop(self) -> HostCommands:
        self._over.set()
        self._thread.join()
        return self._taken()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        self.ended = True
