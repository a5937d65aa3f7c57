"""A session of a suite on a real drive: the rig records in a thread while the steps run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..capture import CaptureWriter
from ..capture.record import Limits, record
from ..errors import DriveError
from ..rig import Rig
from .device import Device
from .interruption import guarded
from .runner import Runner
from .settings import Settings
from .tools import Tools

_STALLED_S = 15.0
"""The last marker may come long after the workload (a virtual rig's simulation lags); the stream must go on meanwhile."""


class Recording:
    """Records in a thread until the marker ``last`` is seen or :meth:`end` is called."""

    def __init__(self, rig: Rig, writer: CaptureWriter, last: int) -> None:
        self.writer = writer
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.reason = ""
        self._thread = threading.Thread(target=self._run, args=(rig, last), name="recorder", daemon=True)
        self._thread.start()

    def _run(self, rig: Rig, last: int) -> None:
        try:
            self.reason = record(rig, self.writer, Limits(until_marker=last), stop=self.stop)
        except BaseException as error:  # handed to the main thread, which says it
            self.error = error

    def check(self) -> None:
        """Raise what ended the recording, if something did."""
        if self.error is not None:
            raise self.error
        if not self._thread.is_alive():
            raise DriveError(f"The recording ended before the workload did: {self.reason}.")

    def await_last(self) -> None:
        """Until the last marker was seen, or nothing has come for a while."""
        seen, since = self.writer.last_tick, time.monotonic()
        while self._thread.is_alive() and time.monotonic() - since < _STALLED_S:
            self._thread.join(0.2)
            if self.writer.last_tick != seen:
                seen, since = self.writer.last_tick, time.monotonic()

    def end(self) -> None:
        """Stop, if it has not stopped by itself."""
        self.stop.set()
        self._thread.join()


def run_session(
    device: Device,
    rig: Rig,
    steps: Sequence[Mapping[str, Any]],
    files: Path,
    capture: Path,
    *,
    journal: Path,
    description: Mapping[str, Any],
    conditions: Mapping[str, Any],
    tools: Tools,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Run the steps on the drive, recorded into ``capture``; returns the phases.

    Settings are put back whatever happens, however often it is interrupted. Interrupted, what was recorded is kept and the
    interruption goes on to the caller. DriveError or RigError when the drive or the rig fails.
    """
    files = files.resolve()  # fio runs in a folder of its own
    results = files / "results"
    results.mkdir(parents=True, exist_ok=True)
    writer = CaptureWriter(
        capture,
        rig={**rig.identity, "data_port": rig.port.data},
        conditions={**rig.conditions(), **conditions},
        lba_size_bytes=device.lba_size_bytes,
        overwrite=True,
    )
    settings = Settings(device, tools, journal)
    runner = Runner(device, tools, settings, files, results, say)
    with guarded() as gate, writer:
        recording = Recording(rig, writer, runner.last_marker(steps))
        try:
            try:
                with gate.open():
                    settings.prepare()
                    for step in steps:
                        gate.check()
                        recording.check()  # a rig that is lost for good: the drive is not written for nothing
                        runner.run([step])
            finally:  # not left by a second signal: the first one has shut the gate
                settings.restore()
            with gate.open():
                recording.await_last()
        finally:
            try:
                recording.end()
            finally:
                _store(writer, capture, runner, description)
        if recording.error is not None:
            raise recording.error
        if "marker" not in recording.reason:
            raise DriveError(f"The rig's stream ended without the last marker ({recording.reason}): is this rig at {device.path}?")
    return runner.phases


def _store(writer: CaptureWriter, capture: Path, runner: Runner, description: Mapping[str, Any]) -> None:
    folder = writer.path / "workload"
    folder.mkdir(exist_ok=True)
    for path in [*runner.files.glob("*.fio"), *runner.results.iterdir()]:
        if path.is_file() and path.suffix in (".fio", ".json"):
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "phases.json").write_text(json.dumps(runner.phases, indent=1) + "\n", encoding="utf-8")
    writer.meta["workload"] = {**description, "phases": runner.phases}


__all__ = ["Recording", "run_session"]
