"""A record of the work on a drive between two markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .settle import Seen


class PhaseEntry(msgspec.Struct, omit_defaults=True):
    """An entry of ``workload.phases`` (docs/capture.md), filled in while the phase goes on. ``conditions``: how the drive was set."""

    phase: int
    name: str
    kind: str
    measured: bool
    conditions: Mapping[str, str | bool | int | None]
    jobs: Sequence[str] | None = None
    file: str | None = None
    idle_s: float | None = None
    ps: int | None = None
    apst: bool | None = False
    aspm: str | None = "off"
    apst_table: Sequence[tuple[int, int, int]] | None = None
    """With APST on, as the drive has it (:func:`.settings.get_apst_table`)."""
    fio: str | None = None
    """fio's JSON."""
    host_latency_s: float | None = None
    settling: Seen | None = None
    busy_s: float | None = None
    """For how long fio had I/O to do; only with a duty cycle."""
    idle_after_s: float | None = None
    """The rest of the idle time, added to the time that fio's start and end took."""
    exit_code: int | None = None
    """Exit code of a command, as a shell reports it: 128 and the signal's number if a signal ended it."""
    edge_u_s: float = 0.0
    """Error in s of each edge against the rail: 0 if a tap saw the markers."""


def to_json(phases: Sequence[PhaseEntry]) -> Sequence[Mapping[str, Any]]:
    """The phases as JSON has them."""
    found: Sequence[Mapping[str, Any]] = msgspec.to_builtins(phases)
    return found
