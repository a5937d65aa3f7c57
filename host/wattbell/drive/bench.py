"""A session of a suite on a real drive: the rig records in a thread while the steps run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..capture import CaptureWriter
from ..capture.marking import BY_FEATURE, KEY, Marking
from ..capture.record import Limits, record
from ..errors import DriveError
from ..rig import Rig
from ..suites.step import Rest, Step
from .device import Device
from .interruption import guarded
from .phase import Phase, to_json
from .restart import Restarter
from .runner import Runner
from .settings import Settings
from .settle import RailWatch, Seen, wait
from .tools import Tools

_STALLED_S = 15.0
"""A marker may come long after its command (a virtual rig's simulation lags); the stream must go on meanwhile."""
_POLL_S = 0.2


class Recording:
    """Records in a thread until :meth:`end` is called."""

    def __init__(self, rig: Rig, writer: CaptureWriter) -> None:
        self.writer = writer
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.reason = ""
        self._rail = RailWatch(int(writer.meta["clock"]["tick_ps"]) * 1e-12)
        writer.on_rail = self._rail.add
        self._thread = threading.Thread(target=self._run, args=(rig,), name="recorder", daemon=True)
        self._thread.start()

    def _run(self, rig: Rig) -> None:
        try:
            self.reason = record(rig, self.writer, Limits(), stop=self.stop)
        except BaseException as error:  # handed to the main thread, which says it
            self.error = error

    def check(self) -> None:
        """Raise what ended the recording, if something did."""
        if self.error is not None:
            raise self.error
        if not self._thread.is_alive():
            raise DriveError(f"The recording ended before the workload did: {self.reason}.")

    def await_marker(self, value: int) -> int | None:
        """Tick of a marker once it was seen; None when the recording ends without it, or nothing has come for a while."""
        progress = _Progress(lambda: self.writer.last_tick)
        while (tick := self._seen(value)) is None and self._thread.is_alive() and progress.goes_on():
            self._thread.join(_POLL_S)
        return tick

    def _seen(self, value: int) -> int | None:
        return next((tick for tick, found in reversed(self.writer.markers) if found == value), None)

    def await_rest(self, begin: int, rest: Rest) -> Seen:
        """What the rail does behind the marker ``begin`` until it is at rest, or for the longest time. DriveError when the stream stops."""
        tick = self.await_marker(begin)
        self.check()
        if tick is None:
            raise DriveError("The rig's stream does not show what the drive is sent: is this rig at this drive?")
        self._rail.begin(tick)
        progress = _Progress(lambda: self.writer.last_tick)

        def pause() -> None:
            self.check()
            if not progress.goes_on():
                raise DriveError(f"The rig has sent nothing for {_STALLED_S:g} s; is it still plugged in?")
            time.sleep(_POLL_S)

        return wait(lambda: self._rail.look(rest, self.writer.last_tick), rest.longest_s, pause)

    def end(self) -> None:
        """Stop, if it has not stopped by itself."""
        self.stop.set()
        self._thread.join()


class _Progress:
    """Watches whether a number keeps changing."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._seen, self._since = number(), time.monotonic()

    def goes_on(self) -> bool:
        """False when it has not changed for ``_STALLED_S``."""
        now = self._number()
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        return time.monotonic() - self._since < _STALLED_S


def run_session(
    device: Device,
    rig: Rig,
    steps: Sequence[Step],
    files: Path,
    capture: Path,
    *,
    journal: Path,
    description: Mapping[str, Any],
    conditions: Mapping[str, Any],
    tools: Tools,
    say: Callable[[str], None],
    left_out: Callable[[Step, Sequence[Phase]], bool] = lambda _step, _phases: False,
    marking: Marking = BY_FEATURE,
    command_stdout: int | None = None,
) -> list[Phase]:
    """Run the steps on the drive, recorded into ``capture``; returns the phases. ``left_out``: asked before each step, with the phases so
    far, whether it is not needed any more. ``marking``: the command that marks. ``command_stdout``: where the standard output of a command
    goes, None for where ours does.

    Settings are put back whatever happens, however often it is interrupted. Interrupted, what was recorded is kept and the
    interruption goes on to the caller. DriveError or RigError when the drive or the rig fails.
    """
    files = files.resolve()  # fio runs in a folder of its own
    results = files / "results"
    results.mkdir(parents=True, exist_ok=True)
    writer = CaptureWriter(
        capture,
        rig=rig.description,
        conditions={**rig.conditions(), **conditions, **({} if marking.by_the_rig else {KEY: marking.to_json()})},
        lba_size_bytes=device.lba_size_bytes,
        overwrite=True,
    )
    settings = Settings(device, tools, journal)
    with guarded() as gate, writer:
        recording = Recording(rig, writer)
        runner = Runner(device, tools, settings, files, results, say, recording.await_rest, marking)
        if any(step.restart is not None for step in steps):
            runner.restarter = Restarter(device, rig.control)
        runner.command_stdout = command_stdout
        whole = False
        try:
            try:
                with gate.open():
                    if any(step.command is None for step in steps):  # a command finds the drive as it would without us
                        settings.prepare()
                    for step in steps:
                        gate.check()
                        recording.check()  # a rig that is lost for good: the drive is not written for nothing
                        if not left_out(step, runner.phases):
                            runner.run([step])
                    runner.read_health()
            finally:  # not left by a second signal: the first one has shut the gate
                settings.restore()
            with gate.open():
                whole = not runner.phases or recording.await_marker(runner.last_marker) is not None
        finally:
            try:
                recording.end()
            finally:
                _store(writer, capture, runner, description)
        if recording.error is not None:
            raise recording.error
        if not whole:
            raise DriveError(f"The rig's stream ended without the last marker ({recording.reason}): is this rig at {device.path}?")
    return runner.phases


def _store(writer: CaptureWriter, capture: Path, runner: Runner, description: Mapping[str, Any]) -> None:
    folder = writer.path / "workload"
    folder.mkdir(exist_ok=True)
    for path in [*runner.files.glob("*.fio"), runner.files / "plan.toml", *runner.results.iterdir()]:
        if path.is_file() and path.suffix in (".fio", ".json", ".toml"):
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "phases.json").write_text(json.dumps(to_json(runner.phases), indent=1) + "\n", encoding="utf-8")
    writer.meta["workload"] = {**description, "phases": to_json(runner.phases)}


__all__ = ["Recording", "run_session"]
