"""A pattern of load that shows a meter's clock in its waveform: bursts of reads at the marks of :mod:`..clocks.pattern`.

It is only for a meter that cannot be asked for its counter. It runs before the first and behind the last step of a session, so that both
offset and drift are known. It runs once more behind a fill: before the fill, a drive may answer reads without its flash and hardly show
them. Nothing is written. The host's instants come from the reads' commands in its log if they are there, else from the reads themselves.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
import time
from collections.abc import Sequence

import numpy as np

from ..capture.loadpattern import Pattern, Reads
from ..clocks.host import host_ns
from ..clocks.pattern import schedule
from ..errors import DriveError
from .device import Device

THREADS, READ_BYTES = 4, 128 << 10
"""Each read is one command for most drives: on a slow computer larger ones, which its kernel cuts, leave longer breaks."""
REACH_BYTES = 16 << 20
"""Bytes read, from the beginning of the drive, where a fill begins: a drive answers a read of unwritten data without its flash."""
REST_S = 0.5
"""Before the first burst and behind the last."""


def play(device: Device, *, backwards: bool = False) -> Pattern:
    """Run it once, some eight seconds. Raises DriveError when the drive cannot be read."""
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
                # a thread that wakes up only in the pause does not read either, except for the first thread (seed 0)
                while (seed == 0 and not found[-1]) or time.monotonic() < min(until, origin + end_s):
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


__all__ = ["play", "timed_read"]
