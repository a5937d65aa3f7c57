"""A pattern of load by which a meter's clock is told from its waveform: bursts of reads at the marks of :mod:`..clocks.pattern`.

Only for a meter that cannot be asked for its counter. It runs before the first and behind the last step of a session, so that both
offset and drift are known, and once more behind what fills the drive: before that, a drive may answer reads without its flash, and hardly
show them. Nothing is written. The host's instants are those of the reads' commands in its log, where that has them, else those around the
reads themselves.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from wattbell_spec.nvme import io

from ..capture.schema import SeenBy
from ..capture.source import RailSource
from ..clock import host_ns
from ..clocks.map import ClockMap
from ..clocks.pattern import Burst, match_pattern, schedule
from ..clocks.ticks import ns_of
from ..errors import ClockError, DriveError
from .device import Device

Int64 = npt.NDArray[np.int64]
THREADS, READ_BYTES = 4, 128 << 10
"""Each read is one command for most drives: on a slow computer larger ones, which its kernel cuts, leave longer breaks."""
REACH_BYTES = 16 << 20
"""From the beginning of the drive, where a fill begins: a drive answers a read of what was never written without its flash."""
REST_S = 0.5
"""Before the first burst and behind the last."""
BIN_S = 200e-6
"""The waveform is looked at in means over this, if its samples are closer."""
OFFSET_LIMIT_S, BEHIND_LIMIT_S = 20.0, 120.0
"""By how much the quickest arrival of a meter's data may have been late; and that of a virtual rig's, whose simulation may be behind."""
_SEEN_IN_A_LOG = (SeenBy.TRACEPOINT, SeenBy.BLKTRACE)
"""Logs that have the commands of everybody, not of fio alone."""


@dataclass(frozen=True)
class Reads:
    """The reads of a burst: between which instants of the host's clock each ran (ns)."""

    start_ns: Int64
    end_ns: Int64


Pattern = Sequence[Reads]


def play(device: Device, *, backwards: bool = False) -> Pattern:
    """Run it once, some eight seconds. DriveError when the drive cannot be read."""
    try:
        descriptor = os.open(device.path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        raise DriveError(f"{device.path} cannot be read ({error.strerror}).") from None
    bursts = schedule(backwards=backwards)
    places = max(1, min(device.capacity_bytes, REACH_BYTES) // READ_BYTES)
    failed: list[OSError] = []
    every: list[list[list[tuple[int, int]]]] = []

    def read(seed: int, found: list[list[tuple[int, int]]]) -> None:
        block = mmap.mmap(-1, READ_BYTES)  # page-aligned, as O_DIRECT wants it
        chosen = random.Random(seed)
        try:
            for begin_s, end_s in bursts:
                time.sleep(max(0.0, origin + begin_s - time.monotonic()))
                found.append([])
                until = time.monotonic() + (end_s - begin_s)  # a thread that wakes up late leaves the pause behind a burst as it is
                while not found[-1] or time.monotonic() < min(until, origin + end_s):
                    found[-1].append(timed_read(descriptor, block, chosen.randrange(places) * READ_BYTES))
        except OSError as error:
            failed.append(error)

    origin = time.monotonic() + REST_S
    try:
        readers = []
        for seed in range(THREADS):
            every.append([])
            readers.append(threading.Thread(target=read, args=(seed, every[-1]), daemon=True))
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        time.sleep(REST_S)
    finally:
        os.close(descriptor)
    if failed:
        raise DriveError(f"{device.path} cannot be read ({failed[0].strerror}).")
    return [_reads([pair for reader in every for pair in reader[k]]) for k in range(len(bursts))]


def timed_read(descriptor: int, block: mmap.mmap, place: int) -> tuple[int, int]:
    """One read, and the host's clock before and behind it."""
    before = host_ns()
    os.preadv(descriptor, [block], place)
    return before, host_ns()


def _reads(pairs: Sequence[tuple[int, int]]) -> Reads:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return Reads(start, end)


def as_logged(played: Pattern, log: Path) -> Pattern:
    """The same by the commands of the host's log (its parquet file, in ns), where it has them: they leave out what a system call takes."""
    found = []
    for burst in played:
        first, last = int(burst.start_ns.min()), int(burst.end_ns.max())
        inside = [("doorbell_tick", ">=", first), ("cqe_tick", "<=", last), ("opcode", "==", io("read"))]
        names = ["doorbell_tick", "cqe_tick", "qid", "source"]
        table = pq.read_table(log, columns=names, filters=inside)
        columns = {name: table[name].to_numpy() for name in names}
        admin = (columns["source"] == SeenBy.TRACEPOINT) & (columns["qid"] == 0)
        kept = np.isin(columns["source"], _SEEN_IN_A_LOG) & ~admin
        found.append(Reads(columns["doorbell_tick"][kept], columns["cqe_tick"][kept]) if kept.any() else burst)
    return found


class Waveform:
    """Means of the power while patterns ran."""

    def __init__(self, tick_ps: int) -> None:
        self._tick_ps = tick_ps
        self._parts: list[tuple[Int64, npt.NDArray[np.float64]]] = []
        """Instants and means, W, appended as one: the recorder's thread adds while another looks."""

    def add(self, source: RailSource) -> None:
        """Some blocks."""
        count = source.count.astype(np.int64)
        watts = source.voltage_v.astype(np.float64) * source.current_a
        ends = np.cumsum(count)
        for k in np.flatnonzero(count).tolist():
            interval = int(source.interval_ticks[k])
            part = watts[ends[k] - count[k] : ends[k]]
            several = max(1, min(len(part), int(BIN_S * 1e12 / (interval * self._tick_ps))))
            whole = len(part) // several * several
            ticks = int(source.first_tick[k]) + (np.arange(whole // several) * several + (several - 1) / 2) * interval
            means = part[:whole].reshape(-1, several).mean(axis=1)
            self._parts.append((ns_of(ticks.astype(np.int64), self._tick_ps), means))

    def align(
        self, played: Sequence[Pattern], about_ns: int, limit_s: float = OFFSET_LIMIT_S, covers_ns: tuple[int, int] | None = None
    ) -> ClockMap:
        """The map of the meter's clock onto the host's. ``about_ns``: host less meter, to ``limit_s``; ``covers_ns``: between which
        instants of the host's clock its bound is to hold, None for all of the waveform. ClockError where it does not show the patterns."""
        parts = list(self._parts)
        if not parts or not played:
            raise ClockError("the meter sent nothing while the pattern of load ran.")
        ns, watts = (np.concatenate(column) for column in zip(*parts, strict=True))
        bursts = [[Burst.of(reads.start_ns, reads.end_ns) for reads in pattern] for pattern in played]
        return match_pattern(ns * 1e-9, watts, bursts, offset_s=about_ns * 1e-9, offset_limit_s=limit_s, covers_ns=covers_ns)


__all__ = ["BEHIND_LIMIT_S", "OFFSET_LIMIT_S", "Pattern", "Reads", "Waveform", "as_logged", "play"]
