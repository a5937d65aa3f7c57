"""A pattern of load by which a meter's clock is told from its waveform: reads and pauses whose lengths do not repeat.

Only for a meter that cannot be asked for its counter. It runs before the first and behind the last step of a session, so that both
offset and drift are known. Nothing is written, and the host's instants are those around the reads themselves.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..capture.source import RailSource
from ..clock import host_ns
from ..clocks.edges import match_edges
from ..clocks.map import ClockMap
from ..clocks.ticks import ns_of
from ..errors import ClockError, DriveError
from .device import Device

Span = tuple[int, int]
"""Beginning and end of a burst of reads, ns of the host's clock."""
BURSTS_S = (0.40, 0.75, 0.30, 1.05, 0.55, 0.35, 0.90, 0.45)
PAUSES_S = (0.60, 0.35, 0.85, 0.45, 1.10, 0.50, 0.40, 0.75)
"""Behind each burst. No two pairs of neighbours are alike, so that no other place fits nearly as well."""
THREADS, READ_BYTES = 4, 1 << 20
"""So large that even a slow computer keeps the drive at work without a break that a meter would see."""
REACH_BYTES = 16 << 20
"""From the beginning of the drive, where a fill begins: a drive answers a read of what was never written without its flash."""
BIN_S = 200e-6
"""The waveform is looked at in means over this, if its samples are closer."""
OFFSET_LIMIT_S, BEHIND_LIMIT_S = 20.0, 120.0
"""By how much the quickest arrival of a meter's data may have been late; and that of a virtual rig's, whose simulation may be behind."""


def play(device: Device) -> list[Span]:
    """Run it once, some ten seconds. DriveError when the drive cannot be read."""
    try:
        descriptor = os.open(device.path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        raise DriveError(f"{device.path} cannot be read ({error.strerror}).") from None
    try:
        time.sleep(PAUSES_S[0])
        found = []
        for burst_s, pause_s in zip(BURSTS_S, PAUSES_S, strict=True):
            found.append(_burst(device, descriptor, burst_s))
            time.sleep(pause_s)
        return found
    finally:
        os.close(descriptor)


def _burst(device: Device, descriptor: int, seconds: float) -> Span:
    failed: list[OSError] = []
    places = max(1, min(device.capacity_bytes, REACH_BYTES) // READ_BYTES)

    def read(seed: int) -> None:
        block = mmap.mmap(-1, READ_BYTES)  # page-aligned, as O_DIRECT wants it
        chosen = random.Random(seed)
        try:
            while time.monotonic() < until:
                os.preadv(descriptor, [block], chosen.randrange(places) * READ_BYTES)
        except OSError as error:
            failed.append(error)

    until = time.monotonic() + seconds
    readers = [threading.Thread(target=read, args=(seed,), daemon=True) for seed in range(THREADS)]
    begin = host_ns()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    end = host_ns()
    if failed:
        raise DriveError(f"{device.path} cannot be read ({failed[0].strerror}).")
    return begin, end


class Waveform:
    """Means of the power while patterns ran."""

    def __init__(self, tick_ps: int) -> None:
        self._tick_ps = tick_ps
        self._parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
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

    def align(self, spans: Sequence[Span], about_ns: int, limit_s: float = OFFSET_LIMIT_S) -> ClockMap:
        """The map of the meter's clock onto the host's. ``about_ns``: host less meter, to ``limit_s``. ClockError where it does
        not show them."""
        parts = list(self._parts)
        if not parts or not spans:
            raise ClockError("the meter sent nothing while the pattern of load ran.")
        ns, watts = (np.concatenate(column) for column in zip(*parts, strict=True))
        origin = spans[0][0]
        shifted = (ns + (about_ns - origin)).astype(np.float64) * 1e-9
        told = [((begin - origin) * 1e-9, (end - origin) * 1e-9, 0.0) for begin, end in spans]
        found = match_edges(shifted, watts, told, offset_limit_s=limit_s)
        back = origin - about_ns
        return ClockMap(
            found.source_ns + back,
            found.reference_ns + origin,
            found.drift,
            found.bound_s,
            f"pattern of load: {found.method}",
            found.first_ns + back,
            found.last_ns + back,
        )


__all__ = ["BEHIND_LIMIT_S", "Span", "Waveform", "play"]
