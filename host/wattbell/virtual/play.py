"""Recording a virtual rig: the same recorder and the same ports as with a real one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .. import temporary
from ..capture import CaptureWriter
from ..capture.record import BROKE_OFF, RIG_STOPPED, USER_STOPPED, Progress, RecordingLimits, record
from ..errors import Interrupted, SimError
from ..jsondata import JsonObject
from ..rig import Rig
from . import programs
from .voice import Voice
from .workload import Workload

_FAREWELL_S = 10.0
"""Longest wait for the virtual rig to exit once its stream was read to the end; it answers questions for half a second before."""


@dataclass
class VirtualRun:
    """The options of a play."""

    out: Path
    conditions: JsonObject
    overwrite: bool = False
    keep_stream: bool = False
    interval_s: float | None = None
    decimation: int | None = None
    lba_size_bytes: int | None = None
    rig_options: list[str] = field(default_factory=list)
    workload: JsonObject = field(default_factory=dict)
    """Facts about the workload known from the beginning: kept in the capture when the run is cut short."""
    late: Path | None = None
    """SCPI lines of a late attach."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    """Ends the recording. SIGINT and SIGTERM set it, also when the trace has just ended."""


def play(run: VirtualRun, trace: Path, producer: programs.Program | None, finish: Callable[[], Workload], voice: Voice) -> str:
    """Play `trace` through the virtual rig into ``run.out``; `finish` gives the workload when the trace is over.

    Returns why the recording ended; the capture is marked unless that is the end of the trace (:func:`check_whole`). Raises SimError when
    the trace cannot be played to its end; what came before is in the capture.
    """
    serial = f"RUN{os.getpid()}"
    with ExitStack() as stack:
        port, child = stack.enter_context(programs.virtual_rig(trace, serial, run.rig_options, producer))
        rig = stack.enter_context(Rig(port))
        if run.interval_s:
            rig.set_interval(run.interval_s)
        if run.decimation:
            rig.set_decimation(run.decimation)
        if run.late:
            rig.attach(run.late)
        writer = stack.enter_context(
            CaptureWriter(
                run.out,
                rig=rig.description,
                conditions={**rig.conditions(), **run.conditions},
                lba_size_bytes=run.lba_size_bytes,
                keep_stream=run.keep_stream,
                overwrite=run.overwrite,
            )
        )

        def pass_on() -> None:
            """Note the rig's warnings in the capture, since they concern its readers, too."""
            for warning in child.warnings():
                writer.note(f"the virtual rig warned: {warning}")
                voice.say(f"warning: {warning}")

        def watch() -> str | None:
            if producer:
                producer.check()
            return None if _alive(port.pid) else "the virtual rig ended before the trace was over"

        with voice.recording(port.serial) as progress:

            def show(progressed: Progress) -> None:
                pass_on()
                progress(progressed)

            reason = record(rig, writer, RecordingLimits(), progress=show, watch=watch, stop=run.stop)
        pass_on()
        # The rig stops where its trace ends, and where the trace cannot be read on: it says which as it goes.
        broken = (producer.failed() if producer else None) or (child.ended_badly(_FAREWELL_S) if reason == RIG_STOPPED else None)
        if broken:
            writer.note(f"{BROKE_OFF}: {broken}")
        elif reason == RIG_STOPPED:
            workload = finish()
            workload.store(run.out)
            writer.meta["workload"] = workload.description
        else:
            writer.note(f"the run was cut short ({reason}): what the workload did after that is not in this capture")
        if broken or reason != RIG_STOPPED:
            writer.meta["workload"] = {**writer.meta["workload"], **run.workload, "interrupted": True}
    if broken:  # here, after the recording is complete
        raise broken
    return reason


def check_whole(out: Path, reason: str) -> None:
    """Raise Interrupted or SimError unless `reason`, what :func:`play` returned, is the end of the trace."""
    if reason == USER_STOPPED:
        raise Interrupted(f"the run was cut short: {out} holds what was recorded until then, and is marked as interrupted.")
    if reason != RIG_STOPPED:
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


def scratch(stack: ExitStack) -> Path:
    """A folder that is removed at the end."""
    return stack.enter_context(temporary.folder())


def refuse_existing(out: Path, force: bool) -> None:
    """Find out before a long simulation, not after it, that the capture cannot be written."""
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise SimError(f"{out} exists already; choose another name, or add --force to replace it.")
