"""Rates of a window: over its active span, over the whole window, and burst by burst."""

from __future__ import annotations

import math
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from wattbell.measure.figure import Figure
from wattbell.measure.phase import Whole
from wattbell.measure.table import Commands
from wattbell.measure.throughput import BURST_GAP_S, ActiveTime

Int64 = npt.NDArray[np.int64]


class Bursts(TypedDict):
    """``duty``: share of the time that is active. ``bytes_each``: mean of the bursts."""

    count: int
    gap_s: float
    duty: float | None
    bytes_each: float
    mb_per_s_mean_of_bursts: Figure
    iops_mean_of_bursts: Figure
    mb_per_s_min: float | None
    mb_per_s_max: float | None


class Rates(TypedDict):
    """Rates of a window.

    bytes: of Read, Write and Compare without errors
    count, iops: of every I/O command without error

    Rates that are not ``whole`` leave out gaps of ``BURST_GAP_S`` and more between commands.
    """

    bytes: int
    count: int
    span_s: float | None
    active_s: float | None
    mb_per_s: NotRequired[Figure]
    iops: NotRequired[Figure]
    mb_per_s_whole: NotRequired[Figure]
    iops_whole: NotRequired[Figure]
    bursts: Bursts | None


def rates(measured: Whole) -> Rates:
    """The rates of I/O commands. Completions without a known command are among them, and count; a suite's scores leave them out."""
    span, tick_s = measured.span, measured.instruments.tick_s
    nbytes, count = measured.bytes, measured.count
    if span is None or span.whole_ticks <= 0:
        return {"bytes": nbytes, "count": count, "span_s": None, "active_s": None, "bursts": None}
    whole_s = span.whole_ticks * tick_s
    return {
        "bytes": nbytes,
        "count": count,
        "span_s": whole_s,
        "active_s": measured.active_s,
        "mb_per_s": measured.rate(nbytes / 1e6, "MB/s", over="active span"),
        "iops": measured.rate(count, "1/s", over="active span"),
        "mb_per_s_whole": measured.rate(nbytes / 1e6, "MB/s", whole_s, over="whole span"),
        "iops_whole": measured.rate(count, "1/s", whole_s, over="whole span"),
        "bursts": _bursts(measured, span) if len(span.bursts) > 1 else None,
    }


def _bursts(measured: Whole, span: ActiveTime) -> Bursts:
    """Mean of the bursts' rates (AnandTech's score), beside the spread between bursts."""
    commands, lost, tick_s = measured.io, measured.lost, measured.instruments.tick_s
    edges = np.searchsorted(commands.start_tick, span.bursts[:, 0], side="left")
    seconds = (span.bursts[:, 1] - span.bursts[:, 0]) * tick_s
    per_bytes = np.add.reduceat(np.where(measured.moved, commands.nbytes, 0), edges)
    per_count = np.add.reduceat(measured.good.astype(np.int64), edges)
    usable = seconds > 0
    mb, ops = per_bytes[usable] / 1e6 / seconds[usable], per_count[usable] / seconds[usable]
    n = len(mb)
    error = 2.0 * float(np.std(mb, ddof=1)) / math.sqrt(n) if n > 1 else None
    error_ops = 2.0 * float(np.std(ops, ddof=1)) / math.sqrt(n) if n > 1 else None
    reading = {"reading": "mean of the bursts' rates"}
    period = (span.last_tick - span.first_tick) * tick_s
    return {
        "count": len(span.bursts),
        "gap_s": BURST_GAP_S,
        "duty": span.active_ticks * tick_s / period if period else None,
        "bytes_each": float(np.mean(per_bytes)),
        "mb_per_s_mean_of_bursts": Figure(float(mb.mean()) if n else None, error, "MB/s", lost, reading),
        "iops_mean_of_bursts": Figure(float(ops.mean()) if n else None, error_ops, "1/s", lost, reading),
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
