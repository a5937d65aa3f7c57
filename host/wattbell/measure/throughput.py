"""Rates: MB/s (decimal), IOPS, and the bursts of a duty-cycled load."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import TRANSFER_OPCODES
from wattbell_spec.wire import CommandFlag

from .depth import DepthSteps, idle_gaps
from .errormodel import ErrorModel
from .figure import Figure, absent
from .table import Commands

Int64 = npt.NDArray[np.int64]
BURST_GAP_S = 0.010
"""A time without any I/O command in flight of at least this separates two bursts."""


@dataclass(frozen=True)
class Span:
    """Active time of a set of commands: ``bursts`` is (n, 2) int64, [first start, last CQE] of each burst."""

    bursts: Int64

    @property
    def first_tick(self) -> int:
        return int(self.bursts[0, 0])

    @property
    def last_tick(self) -> int:
        return int(self.bursts[-1, 1])

    @property
    def whole_ticks(self) -> int:
        """First start to last CQE."""
        return self.last_tick - self.first_tick

    @property
    def active_ticks(self) -> int:
        """The same without the gaps between bursts."""
        return int((self.bursts[:, 1] - self.bursts[:, 0]).sum())


def find_span(steps: DepthSteps, gap_ticks: int) -> Span | None:
    """The bursts of a depth function; None if there are no commands."""
    if len(steps.ticks) == 0:
        return None
    gaps = idle_gaps(steps, gap_ticks)
    starts = np.concatenate((steps.ticks[:1], gaps[:, 1]))
    ends = np.concatenate((gaps[:, 0], steps.ticks[-1:]))
    return Span(np.stack((starts, ends), axis=1))


def rate(amount: float, seconds: float, unit: str, model: ErrorModel, lost: int, **conditions: str) -> Figure:
    """``amount`` a second; as uncertain as the time is. Absent where there was none."""
    if seconds <= 0:
        return absent("no active time", unit, lost)
    value = amount / seconds
    return Figure(value, value * model.interval_u(seconds) / seconds, unit, lost, conditions)


def rates(commands: Commands, span: Span | None, tick_s: float, model: ErrorModel, lost: int) -> dict[str, Any]:
    """Rates of I/O ``commands``: over the whole span, over its active part, and burst by burst.

    ``bytes`` counts Read, Write and Compare without errors; ``iops`` every I/O command without error. ``active``
    leaves out gaps of ``BURST_GAP_S`` and more; it equals the whole span when there are none.
    """
    good = (commands.status & 0x7FF) == 0
    good &= ~commands.has(CommandFlag.ABORTED)
    moved = good & np.isin(commands.opcode, TRANSFER_OPCODES) & ~commands.has(CommandFlag.NO_SQE)
    nbytes = int(commands.nbytes[moved].sum())
    count = int(np.count_nonzero(good))
    if span is None or span.whole_ticks <= 0:
        return {"bytes": nbytes, "count": count, "span_s": None, "active_s": None, "bursts": None}
    whole, active = span.whole_ticks, span.active_ticks
    out: dict[str, Any] = {
        "bytes": nbytes,
        "count": count,
        "span_s": whole * tick_s,
        "active_s": active * tick_s,
        "mb_per_s": rate(nbytes / 1e6, active * tick_s, "MB/s", model, lost, over="active span"),
        "iops": rate(count, active * tick_s, "1/s", model, lost, over="active span"),
        "mb_per_s_whole": rate(nbytes / 1e6, whole * tick_s, "MB/s", model, lost, over="whole span"),
        "iops_whole": rate(count, whole * tick_s, "1/s", model, lost, over="whole span"),
        "bursts": None,
    }
    n = len(span.bursts)
    if n > 1:
        out["bursts"] = _burst_figures(commands, moved, good, span, tick_s, lost)
    return out


def _burst_figures(
    commands: Commands, moved: npt.NDArray[np.bool_], good: npt.NDArray[np.bool_], span: Span, tick_s: float, lost: int
) -> dict[str, Any]:
    """Mean of the bursts' rates (AnandTech's score), beside the spread between bursts."""
    edges = np.searchsorted(commands.start_tick, span.bursts[:, 0], side="left")
    seconds = (span.bursts[:, 1] - span.bursts[:, 0]) * tick_s
    per_bytes = np.add.reduceat(np.where(moved, commands.nbytes, 0), edges)
    per_count = np.add.reduceat(good.astype(np.int64), edges)
    usable = seconds > 0
    mb, ops = per_bytes[usable] / 1e6 / seconds[usable], per_count[usable] / seconds[usable]
    n = len(mb)
    error = 2.0 * float(np.std(mb, ddof=1)) / math.sqrt(n) if n > 1 else None
    error_ops = 2.0 * float(np.std(ops, ddof=1)) / math.sqrt(n) if n > 1 else None
    period = (span.last_tick - span.first_tick) * tick_s
    return {
        "count": len(span.bursts),
        "gap_s": BURST_GAP_S,
        "duty": span.active_ticks * tick_s / period if period else None,
        "bytes_each": float(np.mean(per_bytes)),
        "mb_per_s_mean_of_bursts": Figure(
            float(mb.mean()) if n else None, error, "MB/s", lost, {"reading": "mean of the bursts' rates"}
        ),
        "iops_mean_of_bursts": Figure(
            float(ops.mean()) if n else None, error_ops, "1/s", lost, {"reading": "mean of the bursts' rates"}
        ),
        "mb_per_s_min": float(mb.min()) if n else None,
        "mb_per_s_max": float(mb.max()) if n else None,
    }


def per_second(commands: Commands, first_tick: int, last_tick: int, tick_s: float) -> Int64:
    """Completions in each whole second of ``[first_tick, last_tick)``: the IOPS trace of the consistency tests."""
    ticks_a_second = round(1 / tick_s)
    seconds = (last_tick - first_tick) // ticks_a_second
    if seconds <= 0:
        return np.empty(0, np.int64)
    index = (commands.cqe_tick - first_tick) // ticks_a_second
    inside = (index >= 0) & (index < seconds)
    counted: Int64 = np.bincount(index[inside], minlength=seconds).astype(np.int64)
    return counted
