"""Recorded traffic, a bus trace or a log of QEMU's NVMe device, played through the virtual rig."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..jsondata import JsonObject
from . import programs
from .bustrace import read_header
from .fidelity import Fidelity
from .play import VirtualRun, play, scratch
from .voice import Voice
from .workload import Workload, checked_phases, read_phases, workload_files

_QEMU_INTERVAL_S = 1e-4


@dataclass(frozen=True)
class Replay:
    """A play into ``out``: a QEMU log, else a bus trace.

    workload: folder with the workload's files
    phases: JSON file, else the one in that folder, else the trace's own
    late: SCPI lines of a late attach
    """

    out: Path
    qemu_log: Path | None = None
    bus_trace: Path | None = None
    phases: Path | None = None
    workload: Path | None = None
    late: Path | None = None
    fidelity: Fidelity = Fidelity.rtl
    longest_gap_h: float | None = None
    interval_s: float | None = None
    decimation: int | None = None
    lba_size_bytes: int | None = None
    overwrite: bool = False
    keep_stream: bool = False


def replay(order: Replay, voice: Voice) -> str:
    """Play and record; return why the recording ended (:func:`.play.play`). Raises UsageError for files that cannot be played."""
    phases = order.phases
    if phases is None and order.workload is not None:
        beside = order.workload / "phases.json"
        phases = beside if beside.exists() else None
    with ExitStack() as stack:
        trace = _convert(order.qemu_log, scratch(stack), voice) if order.qemu_log else order.bus_trace
        assert trace is not None
        header = playable_header(trace, order.fidelity)
        found = read_phases(phases) or checked_phases(header.get("phases") or [], trace)
        files = workload_files(order.workload)
        timing = header.get("timing")
        workload = {"source": header.get("source"), "phases": found}
        run = VirtualRun(
            order.out,
            {
                "profile": header.get("profile") or None,
                "timing": timing,
                "fidelity": order.fidelity.value,
                "notes": list(header.get("notes", [])),
            },
            overwrite=order.overwrite,
            keep_stream=order.keep_stream,
            interval_s=order.interval_s or (_QEMU_INTERVAL_S if timing == "qemu-log" else None),
            decimation=order.decimation,
            lba_size_bytes=order.lba_size_bytes,
            late=order.late,
            rig_options=rig_options(order.fidelity, order.longest_gap_h),
            workload=workload,
        )
        return play(run, trace, None, lambda: Workload(workload, files), voice)


def playable_header(trace: Path, fidelity: Fidelity) -> JsonObject:
    """The header of a bus trace. Raises UsageError when a rig of this fidelity cannot play it."""
    header = read_header(trace)
    if header.get("summaries") and fidelity is Fidelity.rtl:
        text = "holds command summaries (it was made with --fidelity fast), and the gateware can only be shown TLPs"
        raise UsageError(f"{trace} {text}: add --fidelity fast.")
    return header


def rig_options(fidelity: Fidelity, longest_gap_h: float | None) -> list[str]:
    """Options of the virtual rig's program."""
    gap = [] if longest_gap_h is None else ["--longest-gap", str(longest_gap_h)]
    return ["--fidelity", fidelity.value, *gap]


def _convert(log: Path, folder: Path, voice: Voice) -> Path:
    if not os.access(log, os.R_OK):
        raise UsageError(f"{log} cannot be read; give the log that QEMU wrote with -D.")
    trace = folder / "qemu.wbt"
    with voice.spinner("converting the QEMU log"):
        programs.run_program("wattbell-guest", "qemu2bus", log, "--out", trace)
    return trace
