"""Observers of a capture's commands, and the effect on its figures: docs/methodology.md, Commands that the host saw."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from ..capture import Capture
from ..capture.schema import SeenBy
from .errormodel import ErrorModel

START = {
    SeenBy.TAP: "doorbell",
    SeenBy.TRACEPOINT: "set-up",
    SeenBy.BLKTRACE: "issue",
    SeenBy.FIO_LOG: "submission",
}
"""Name of a command's start."""
_LOWER = "active spans with it, so that rates and efficiency over them (MB/s, MB/J) are lower limits, by no more than their u"
_ONLY_A_TAP = "when the SQE was fetched, when data moved and when the interrupt came is not known"
NOTES = {
    SeenBy.TRACEPOINT: "commands are as the kernel's driver saw them, not as the link did: latency is from set-up to the driver's "
    f"completion, longer than doorbell to CQE, and {_LOWER}; {_ONLY_A_TAP}",
    SeenBy.BLKTRACE: "commands are as the kernel's block layer saw them, not as the link did: latency is from issue to completion, "
    f"longer than doorbell to CQE, and {_LOWER}; {_ONLY_A_TAP}; no admin command is seen",
    SeenBy.FIO_LOG: "commands are fio's, not the link's: latency is from submission until fio reaped the I/O, longer than doorbell to CQE, "
    f"and {_LOWER}; their instants are whole milliseconds; {_ONLY_A_TAP}; no admin command, flush or status is seen",
}
_LATENCY_IS_ITS_OWN = SeenBy.FIO_LOG
"""fio measures how long an I/O takes, to ns; only when that was is whole milliseconds."""


def by_host(capture: Capture) -> bool:
    """Whether the instants of any command are a host's: its start is before the wire's, its completion behind it."""
    return bool(capture.commands.select((pl.col("source") != int(SeenBy.TAP)).any()).collect().item())


def seen_by(capture: Capture, model: ErrorModel) -> tuple[ErrorModel, list[str]]:
    """Return the error model with the errors of this capture's command instants, and notes for a reader."""
    sources = capture.commands.group_by("source").agg(pl.col("instant_u_ns").max()).collect()
    notes: list[str] = []
    off_s = model.instant_s
    for source, u_ns in sources.sort("source").iter_rows():
        if source not in NOTES:
            continue
        notes.append(NOTES[SeenBy(source)])
        if source != _LATENCY_IS_ITS_OWN:
            off_s = max(off_s, u_ns * 1e-9)
    return replace(model, instant_s=off_s), notes


__all__ = ["NOTES", "START", "by_host", "seen_by"]
