"""Recording a virtual rig: the same recorder and the same ports as with a real one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..errors import Interrupted, SimError, UsageError
from . import simtools
from .record import BROKE_OFF, record_live, rig_description

TRACE_OVER, USER_STOPPED = "the rig stopped", "stopped by the user"
"""Why a recording ended (:func:`wattbell.capture.record.record`)."""
_FAREWELL_S = 10.0
"""A virtual rig whose stream was read to its end stays half a second for questions; then it says how it went."""
_WORKLOAD_SUFFIXES = (".json", ".csv", ".fio", ".idle", ".toml", ".txt")


@dataclass
class VirtualRun:
    """What to play, and how."""

    out: Path
    conditions: dict[str, Any]
    overwrite: bool = False
    keep_stream: bool = False
    interval_s: float | None = None
    decimation: int | None = None
    lba_size_bytes: int | None = None
    rig_options: list[str] = field(default_factory=list)
    workload: dict[str, Any] = field(default_factory=dict)
    """What is known of the workload from the beginning: kept in the capture when the run is cut short."""
    late: Path | None = None
    """SCPI lines of a late attach."""


def play(run: VirtualRun, trace: Path, producer: simtools.Program | None, finish: Callable[[], Workload]) -> str:
    """Play `trace` through the virtual rig into ``run.out``; `finish` gives the workload when the trace is over.

    Returns why the recording ended; the capture is marked unless that is the end of the trace (:func:`check_whole`). SimError when the
    trace cannot be played to its end; what came before is in the capture.
    """
    from ..capture import CaptureWriter
    from ..capture.record import Limits
    from ..rig import Rig
    from .record import send_attach

    serial = f"RUN{os.getpid()}"
    with ExitStack() as stack:
        port, child = stack.enter_context(simtools.virtual_rig(trace, serial, run.rig_options, producer))
        rig = stack.enter_context(Rig(port))
        if run.interval_s:
            rig.set_interval(run.interval_s)
        if run.decimation:
            rig.set_decimation(run.decimation)
        if run.late:
            send_attach(rig, run.late)
        writer = stack.enter_context(
            CaptureWriter(
                run.out,
                rig=rig_description(rig),
                conditions={**rig.conditions(), **run.conditions},
                lba_size_bytes=run.lba_size_bytes,
                keep_stream=run.keep_stream,
                overwrite=run.overwrite,
            )
        )

        def watch() -> str | None:
            if producer:
                producer.check()
            return None if _alive(port.pid) else "the virtual rig ended before the trace was over"

        reason = record_live(rig, writer, Limits(), watch)
        # The rig stops where its trace ends, and where the trace cannot be read on: it says which as it goes.
        broken = (producer.failed() if producer else None) or (child.ended_badly(_FAREWELL_S) if reason == TRACE_OVER else None)
        if broken:
            writer.note(f"{BROKE_OFF}: {broken}")
        elif reason == TRACE_OVER:
            workload = finish()
            workload.store(run.out)
            writer.meta["workload"] = workload.description
        else:
            writer.note(f"the run was cut short ({reason}): what the workload did after that is not in this capture")
        if broken or reason != TRACE_OVER:
            writer.meta["workload"] = {**writer.meta["workload"], **run.workload, "interrupted": True}
    if broken:  # here, where what was recorded is complete
        raise broken
    return reason


def check_whole(out: Path, reason: str) -> None:
    """Raise Interrupted or SimError unless `reason`, what :func:`play` returned, is the end of the trace."""
    if reason == USER_STOPPED:
        raise Interrupted(f"the run was cut short: {out} holds what was recorded until then, and is marked as interrupted.")
    if reason != TRACE_OVER:
        raise SimError(f"The run was cut short ({reason}): {out} holds what was recorded until then, and is marked as interrupted.")


def _alive(pid: int | None) -> bool:
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    # a child that ended and was not waited for still takes signals
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return True


@dataclass
class Workload:
    """What the capture keeps about its workload."""

    description: dict[str, Any]
    files: list[Path] = field(default_factory=list)

    def store(self, capture: Path) -> None:
        """Copy the files into the capture."""
        folder = capture / "workload"
        folder.mkdir(exist_ok=True)
        for path in self.files:
            if path.is_file() and path.resolve().parent != folder.resolve():
                shutil.copy2(path, folder / path.name)


def workload_files(folder: Path | None) -> list[Path]:
    """The files of a workload folder that belong into a capture."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the folder in which the workload left its files.")
    return sorted(path for path in folder.iterdir() if path.suffix in _WORKLOAD_SUFFIXES)


def read_phases(path: Path | None) -> list[dict[str, Any]] | None:
    """Phases from a JSON file: a list, or an object with ``phases``; None when there is no file."""
    if path is None:
        return None
    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}).") from None
    return checked_phases(found.get("phases") if isinstance(found, dict) else found, path)


def checked_phases(found: Any, path: Path) -> list[dict[str, Any]]:
    """Phases that a capture may hold: one that could not be opened again must not be recorded. UsageError for others, found in ``path``."""
    from ..capture.metamodel import PhaseAbout

    try:
        msgspec.convert(found, list[PhaseAbout])
    except (ValueError, RecursionError) as error:
        text = f'{path} holds no phases, a list of objects such as {{"phase": 1, "name": "randread"}}: {error}.'
        raise UsageError(text) from None
    return list(found)


def scratch(stack: ExitStack) -> Path:
    """A folder that is removed at the end."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattbell-")))


def first_existing(paths: Iterable[Path]) -> Path | None:
    """The first path that exists."""
    return next((path for path in paths if path.exists()), None)


def refuse_existing(out: Path, force: bool) -> None:
    """Find out before a long simulation, not after it, that the capture cannot be written."""
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise SimError(f"{out} exists already; choose another name, or add --force to replace it.")
