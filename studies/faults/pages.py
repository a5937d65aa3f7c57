"""Log pages of a drive's own accounts, made from its bus trace: right, or with a fault.

Sources: NVM Express Base 2.3, 8.1.19 (log page 25h); `struct ssd_latency_monitor_log` of nvme-cli's plugin ocp (log page C3h).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .bustrace import MS, NEVER, BusTrace, S

# log page 25h
_COUNT, _BINS, _ABOVE, _MEAN, _LARGEST, _LARGEST_AT, _CLAIM, _HEAD = 8, 12, 32, 40, 44, 48, 56, 64
_SIZE = 4
BIN_W = 0.25
# log page C3h
_COUNTERS, _STAMPS, _LATENCIES = 0x20, 0x60, 0xC0
KINDS = {2: 0, 1: 1, 9: 2}
"""Place of a kind of command by its opcode: read, write, deallocate."""


def power_field(watts: float) -> int:
    """Return a power in units of 0.1 mW, or beyond their reach of 10 mW, with its scale."""
    fine = round(watts * 1e4)
    return 1 << 16 | fine if fine < 1 << 16 else 2 << 16 | round(watts * 1e2)


def watts_of(field: int) -> float:
    """Return the power of such a field."""
    return (field & 0xFFFF) * {1: 1e-4, 2: 1e-2}[field >> 16 & 3]


@dataclass(frozen=True)
class MeterAccount:
    """The content of a drive's power meter after a measurement.

    seconds : power in W of each interval that was counted.
    places : bin of each in the histogram.
    late_ms : added to the time stamp of the largest interval.
    claim : largest error in percent that the drive claims.
    """

    seconds: tuple[float, ...]
    places: tuple[int, ...]
    late_ms: int = 0
    claim: int = 5

    @classmethod
    def of(cls, seconds: Sequence[float], claim: int = 5) -> MeterAccount:
        """Return a right account of some seconds."""
        return cls(tuple(seconds), tuple(int(watts / BIN_W) for watts in seconds), claim=claim)

    def gained(self, factor: float) -> MeterAccount:
        """Return the account of a meter with a gain."""
        return replace(MeterAccount.of([factor * watts for watts in self.seconds], self.claim), late_ms=self.late_ms)

    def dropped(self, k: int) -> MeterAccount:
        """Return the account without one interval."""
        return replace(self, seconds=self.seconds[:k] + self.seconds[k + 1 :], places=self.places[:k] + self.places[k + 1 :])

    def shifted(self, which: Sequence[int], by: int) -> MeterAccount:
        """Return the account with some intervals in another bin."""
        moved = set(which)
        return replace(self, places=tuple(max(0, place + by) if k in moved else place for k, place in enumerate(self.places)))

    def page(self, like: bytes) -> bytes:
        """Return log page 25h. ``like``: a page of the same measurement, for all other fields."""
        counts = np.bincount(self.places)
        out = bytearray(like[:_HEAD] + bytes(8 * len(counts)))
        struct.pack_into("<II", out, _SIZE, len(out), len(self.seconds))
        struct.pack_into("<H", out, _BINS, len(counts))
        struct.pack_into("<I", out, _ABOVE, 0)
        struct.pack_into("<II", out, _MEAN, power_field(float(np.mean(self.seconds))), power_field(max(self.seconds)))
        (stamp,) = struct.unpack_from("<Q", like, _LARGEST_AT)
        struct.pack_into("<Q", out, _LARGEST_AT, stamp + self.late_ms)
        out[_CLAIM] = self.claim
        for k, count in enumerate(counts):
            struct.pack_into("<II", out, _HEAD + 8 * k, int(count), power_field(k * BIN_W))
        return bytes(out)


def page_figures(page: bytes) -> tuple[int, float, float, list[int]]:
    """Return number of intervals, mean, largest and histogram of log page 25h."""
    intervals, bins = struct.unpack_from("<I", page, _COUNT)[0], struct.unpack_from("<H", page, _BINS)[0]
    mean, largest = (watts_of(struct.unpack_from("<I", page, at)[0]) for at in (_MEAN, _LARGEST))
    return intervals, mean, largest, [struct.unpack_from("<I", page, _HEAD + 8 * k)[0] for k in range(bins)]


def metered(trace: BusTrace, supply: int, started: int, stopped: int) -> list[float]:
    """Return the mean power of each second, counted from the supply on, that begins behind the start and ends before the stop."""
    first = -(-(started - supply) // S)
    last = (stopped - supply) // S
    return [trace.energy_j(supply + k * S, supply + (k + 1) * S) for k in range(first, last)]


@dataclass(frozen=True)
class Slow:
    """A command in the latency monitor. ``latency_ms``: from fetch to CQE."""

    opcode: int
    latency_ms: float
    cqe: int


def slow_commands(trace: BusTrace, since: int, least_ms: float = 5.0) -> list[Slow]:
    """Return the I/O commands behind an instant that took so long at least, by their CQE."""
    out = []
    for one in trace.summaries:
        _, fetch, _, _, cqe, _, _ = one.instants
        if cqe > since and fetch != NEVER and one.body[0] in KINDS and (cqe - fetch) / MS >= least_ms:
            out.append(Slow(one.body[0], (cqe - fetch) / MS, cqe))
    return sorted(out, key=lambda slow: slow.cqe)


def bucket_of(latency_ms: float, thresholds_ms: Sequence[float]) -> int:
    """Return the bucket of a latency; -1 below the first threshold."""
    return int(np.searchsorted(thresholds_ms, latency_ms, side="right")) - 1


def _counter_at(bucket: int, opcode: int) -> int:
    return _COUNTERS + 16 * bucket + 4 * (3 - KINDS[opcode])


def _place(bucket: int, opcode: int) -> int:
    return 3 * (3 - bucket) + 2 - KINDS[opcode]


def counted(page: bytes, bucket: int, opcode: int) -> int:
    """Return a counter of log page C3h."""
    return int(struct.unpack_from("<I", page, _counter_at(bucket, opcode))[0])


def recounted(page: bytes, bucket: int, opcode: int, by: int) -> bytes:
    """Return log page C3h with a counter that is off."""
    out = bytearray(page)
    struct.pack_into("<I", out, _counter_at(bucket, opcode), counted(page, bucket, opcode) + by)
    return bytes(out)


def stamp_ms(page: bytes, bucket: int, opcode: int) -> int:
    """Return a time stamp of log page C3h, with its upper 16 bits."""
    return int(struct.unpack_from("<Q", page, _STAMPS + 8 * _place(bucket, opcode))[0])


def stamped(page: bytes, bucket: int, opcode: int, by_ms: int) -> bytes:
    """Return log page C3h with a time stamp that is off."""
    out = bytearray(page)
    struct.pack_into("<Q", out, _STAMPS + 8 * _place(bucket, opcode), stamp_ms(page, bucket, opcode) + by_ms)
    return bytes(out)


def reported_ms(page: bytes, bucket: int, opcode: int) -> int:
    """Return a latency of log page C3h."""
    return int(struct.unpack_from("<H", page, _LATENCIES + 2 * _place(bucket, opcode))[0])


def reported(page: bytes, bucket: int, opcode: int, by_ms: int) -> bytes:
    """Return log page C3h with a latency that is off."""
    out = bytearray(page)
    struct.pack_into("<H", out, _LATENCIES + 2 * _place(bucket, opcode), reported_ms(page, bucket, opcode) + by_ms)
    return bytes(out)
