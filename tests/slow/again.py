"""Show a drive's connector that one rig has recorded to another rig with a tap: the same commands, the same rail, on the same counter.

The bench in a box leaves the connector's bus trace, and a suite's run without a tap. :class:`TappedAgain` is a bench on which that run
happens again, session by session.
"""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.capture.record import RecordingLimits, record
from wattbell.rig import Rig
from wattbell.suites.drive import Drive, from_profile
from wattbell.suites.session import Choice, Session
from wattbell.suites.step import Step
from wattbell.virtual import programs, simulator
from wattbell.virtual.workload import Workload, workload_files

_HEADER, _RECORD = struct.Struct("<4sII"), struct.Struct("<BBHQ")
_CHUNK = 1 << 20
_RAIL = 4
"""Type of a record with a step of the rail (docs/bus-trace.md)."""
_STEP_PS, _STEP_S = 10_000_000_000, 0.05
"""Trace time and real time between the steps that are added behind a session."""


class Quiet:
    """An audience that says nothing."""

    def say(self, _text: str) -> None: ...

    def spinner(self, _text: str) -> AbstractContextManager[object]:
        return nullcontext()

    def recording(self, _serial: str) -> AbstractContextManager[Callable[[Any], None]]:
        return nullcontext(lambda _progress: None)

    def ahead(self, _outlook: Any, _bench: Any) -> None: ...

    def progress(self, _eta: Any) -> AbstractContextManager[object]:
        return nullcontext()

    def begun(self, _results: Any) -> None: ...

    def scored(self, _test: Any, _results: Any) -> None: ...


class GrowingTrace:
    """A bus trace that is handed on bit by bit: whole records, in order."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._held = b""
        self._at = 0
        self._rail = b""
        self._time_ps = 0

    def steps(self, end_ps: float) -> Iterator[bytes]:
        """Yield steps of the rail to the level that it has, up to a time in ps: the rig's time goes on, and nothing else happens."""
        while self._rail and self._time_ps + _STEP_PS < end_ps:
            self._time_ps += _STEP_PS
            yield _RECORD.pack(_RAIL, 0, len(self._rail), self._time_ps) + self._rail

    def until(self, end_ps: float) -> Iterator[bytes]:
        """Yield the records up to a time in ps, behind those that came before. The first call begins with the header."""
        if not self._source.tell():
            head = self._source.read(_HEADER.size)
            yield head + self._source.read(_HEADER.unpack(head)[2])
        while True:
            begin = self._at
            while self._at + _RECORD.size <= len(self._held):
                kind, _, body, time_ps = _RECORD.unpack_from(self._held, self._at)
                end = self._at + _RECORD.size + body
                if end > len(self._held):
                    break
                if time_ps > end_ps:
                    yield self._held[begin : self._at]
                    return
                if kind == _RAIL:
                    self._rail = self._held[self._at + _RECORD.size : end]
                self._at, self._time_ps = end, time_ps
            yield self._held[begin : self._at]
            data = self._source.read(_CHUNK)
            if not data:
                return
            self._held, self._at = self._held[self._at :] + data, 0


@dataclass
class TappedAgain:
    """A bench on which the recorded sessions of a run happen again, in front of a tap.

    seen : folder of the run that a rig without a tap recorded.
    trace : the connector's bus trace.
    profile : of the drive.
    interval_s, decimation : of the rail, as in that run.
    """

    seen: Path
    trace: Path
    profile: Path
    interval_s: float
    decimation: int
    choice: Choice = field(default_factory=lambda: Choice(real=True))
    virtual = True

    def inspect(self, *_: Any) -> Drive:
        return from_profile(self.profile)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Run the second rig on a trace that grows only as far as a session lasts: it may not run ahead of its recorder."""
        serial = f"AGAIN{os.getpid()}"
        with ExitStack() as stack:
            self._growing = GrowingTrace(stack.enter_context(self.trace.open("rb")))
            command = [str(simulator.find_program("wattbell-rig")), "play", "-", "--serial", serial, "--fidelity", "fast", "--seed", "11"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            assert process.stdin is not None and process.stderr is not None
            self._sink = process.stdin
            child = programs.Program("wattbell-rig", process, process.stderr)
            self._rig = stack.enter_context(Rig(programs.wait_for_rig(serial, child)))
            yield

    def conditions(self) -> dict[str, Any]:
        return {}

    def versions(self) -> dict[str, str]:
        return {}

    def prepare(self, _session: Session) -> None:
        self._rig.set_interval(self.interval_s)
        self._rig.set_decimation(self.decimation)

    def run(
        self, session: Session, plans: Path, capture: Path, _conditions: Mapping[str, Any], _on_step: Callable[[Step, bool], None]
    ) -> None:
        recorded = open_capture(self.seen / "captures" / session.title)
        phases = json.loads((recorded.workload_dir / "phases.json").read_text())
        description = {
            **(recorded.meta["workload"] or {}),
            "phases": [{name: value for name, value in phase.items() if name != "edge_u_s"} for phase in phases],
        }
        plans.mkdir(parents=True, exist_ok=True)
        over = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(self._end_ps(session), over), daemon=True)
        writer = CaptureWriter(capture, rig=self._rig.description, conditions=self._rig.conditions(), overwrite=True)
        with writer:
            writer.meta["drive"] = recorded.meta["drive"]
            feeder.start()
            last = max(phase["phase"] for phase in phases) << 8 | 2
            reason = record(self._rig, writer, RecordingLimits(until_marker=last))
            assert "marker" in reason, reason
            over.set()
            feeder.join()
            Workload(description, workload_files(recorded.workload_dir)).store(writer.path)
            writer.meta["workload"] = description

    def _end_ps(self, session: Session) -> float:
        """Return the time of the trace at which the recording of the next session begins: the first rig's ticks were moved to its start."""
        begins = sorted(_begin_ps(open_capture(path)) for path in (self.seen / "captures").iterdir())
        mine = _begin_ps(open_capture(self.seen / "captures" / session.title))
        return next((begin for begin in begins if begin > mine), math.inf)

    def _feed(self, until_ps: float, over: threading.Event) -> None:
        """Hand the rig the records up to a time. Then let time go on until the recording is `over`: its end takes the rig's time."""
        for piece in self._growing.until(until_ps):
            self._sink.write(piece)
            self._sink.flush()
        for step in self._growing.steps(until_ps):
            if over.wait(_STEP_S):
                return
            self._sink.write(step)
            self._sink.flush()

    def accept(self, _capture: Capture) -> dict[str, Any]:
        return {}


def _begin_ps(recorded: Capture) -> int:
    """Return the time of the trace at which a recording begins."""
    return -int(recorded.meta["journal"]["tick_offsets"][0]) * int(recorded.meta["clock"]["tick_ps"])
