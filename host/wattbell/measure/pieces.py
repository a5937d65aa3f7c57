"""Figures of I/O commands that add up over the pieces of a phase: success, active span, bins, latencies.

A piece is a table of :class:`Commands` sorted by start. All figures equal the figures of the whole, except for the order of latencies,
which is by piece. The batches of a standard error thus differ by the few commands in flight between two pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import TRANSFER_OPCODES
from wattbell_spec.wire import CommandFlag

from .table import NONE, Commands, is_one_of
from .throughput import ActiveTime, least_bursts

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tally:
    """Sums over the commands of a phase.

    ticks: doorbell to CQE of the ``count`` commands without error and with a captured doorbell
    opcode: opcodes of these commands
    """

    bytes: int
    count: int
    span: ActiveTime | None
    ticks: npt.NDArray[Any]
    opcode: npt.NDArray[np.uint8]


def verdicts(io: Commands) -> tuple[Bool, Bool]:
    """(without error, and moved data) of each command."""
    good = ((io.status & 0x7FF) == 0) & ~io.has(CommandFlag.ABORTED)
    return good, good & is_one_of(io.opcode, TRANSFER_OPCODES) & ~io.has(CommandFlag.NO_SQE)


def tally(pieces: Iterable[Commands], gap_ticks: int, by_host: bool = False) -> Tally:
    """Adds up the pieces. Each command leaves its latency (4 bytes if all in the piece are below 4.29 s) and its opcode in memory.
    ``by_host``: their instants are a host's."""
    nbytes = count = 0
    ticks: list[npt.NDArray[Any]] = [np.empty(0, np.uint32)]
    opcodes = [np.empty(0, np.uint8)]
    spans, least = [], []
    for io in pieces:
        good, moved = verdicts(io)
        nbytes += int(io.nbytes[moved].sum())
        count += int(np.count_nonzero(good))
        usable = good & (io.doorbell_tick != NONE)
        found = (io.cqe_tick - io.doorbell_tick)[usable]
        short = not len(found) or (int(found.min()) >= 0 and int(found.max()) < 1 << 32)
        ticks.append(found.astype(np.uint32) if short else found)
        opcodes.append(io.opcode[usable])
        span = active_span(io, gap_ticks, by_host)
        if span is not None:
            spans.append(span.bursts)
            least += [] if span.least is None else [span.least]
    return Tally(nbytes, count, _joined(spans, least, gap_ticks), np.concatenate(ticks), np.concatenate(opcodes))


def active_span(io: Commands, gap_ticks: int, by_host: bool = False) -> ActiveTime | None:
    """The bursts of commands sorted by start: the same as ``find_span`` of their depth, without sorting starts and ends. ``by_host``:
    their instants are a host's."""
    end = np.maximum(io.cqe_tick, io.start_tick)
    found = _span(bursts(io.start_tick, end, gap_ticks))
    return found if found is None or not by_host else replace(found, least=least_bursts(end, io.start_tick, gap_ticks))


def _joined(parts: list[Int64], least: list[Int64], gap_ticks: int) -> ActiveTime | None:
    """Join the bursts of pieces into the bursts of the whole."""
    if not parts:
        return None
    found = np.concatenate(parts)
    found = found[np.argsort(found[:, 0], kind="stable")]
    whole = _span(bursts(found[:, 0], found[:, 1], gap_ticks))
    if whole is None or not least:
        return whole
    shortest = np.concatenate(least)
    return replace(whole, least=least_bursts(shortest[:, 0], shortest[:, 1], gap_ticks))


def bursts(start: Int64, end: Int64, gap_ticks: int) -> Int64:
    """Join intervals, sorted by start, that are less than a gap apart; return (n, 2), first start and last end."""
    if not len(start):
        return np.empty((0, 2), np.int64)
    last = np.maximum.accumulate(end)
    after = np.flatnonzero(start[1:] - last[:-1] >= gap_ticks)
    starts = np.concatenate((start[:1], start[after + 1]))
    return np.stack((starts, np.concatenate((last[after], last[-1:]))), axis=1)


def _span(found: Int64) -> ActiveTime | None:
    return ActiveTime(found) if len(found) else None


def bins(pieces: Iterable[Commands], span: ActiveTime | None, bin_ticks: int) -> tuple[Int64, Int64]:
    """(commands, bytes) completed without error in each whole bin of a span."""
    if span is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    n = max(0, (span.last_tick - span.first_tick) // bin_ticks)
    counts, sums = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for io in pieces:
        good, moved = verdicts(io)
        index = (io.cqe_tick - span.first_tick) // bin_ticks
        inside = good & (index >= 0) & (index < n)
        counts += np.bincount(index[inside], minlength=n)
        weights = np.where(moved, io.nbytes, 0)[inside]
        sums += np.rint(np.bincount(index[inside], weights=weights, minlength=n)).astype(np.int64)
    return counts, sums
