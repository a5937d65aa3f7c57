"""True figures of a faulty drive, by arithmetic on the records of its bus trace. They check injectors, and give the size of a fault.

Times are ps in traces; figures are in s and W.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from . import admin
from .bustrace import MS, SUMMARY, TLP_DOWN, TLP_UP, BusTrace, S

IDLE = 20 * MS
"""A time without commands is idle from here on."""
CC_AT = 0x14


def largest_mean(trace: BusTrace, first: int, last: int, window: int = S) -> float:
    """Return the largest mean power over a window between two instants. The mean is largest where a step is at one of its ends."""
    times, watts = trace.rail
    inside = times[(times > first) & (times < last)]
    edges = np.concatenate(([first], inside, [last]))
    power = watts[np.searchsorted(times, edges[:-1], side="right") - 1]
    energy = np.concatenate(([0.0], np.cumsum(power * (np.diff(edges) * 1e-12))))
    begins = np.concatenate((edges, edges - window))
    begins = begins[(begins >= first) & (begins + window <= last)]
    sums = np.interp((begins + window - first).astype(float), (edges - first).astype(float), energy)
    return float((sums - np.interp((begins - first).astype(float), (edges - first).astype(float), energy)).max() / (window * 1e-12))


def requests(trace: BusTrace, state: int) -> list[int]:
    """Return the instants at which the host asked for a state: the CQEs of Set Features 02h."""
    mine = [one for one in admin.features(trace, 2) if one.cdw11 & 0x1F == state]
    return [trace.records[admin.completion_of(trace, one)].time for one in mine]


def busy(trace: BusTrace) -> list[int]:
    """Return the instants of all TLPs and of the ends of summarized commands, in order."""
    return sorted(
        t
        for one in trace.records
        if one.kind in (TLP_DOWN, TLP_UP, SUMMARY)
        for t in ((one.time,) if one.kind != SUMMARY else one.instants[:5:4])
    )


def rests(trace: BusTrace) -> list[tuple[int, int]]:
    """Return the idle times: from the last CQE before to the next doorbell."""
    ends = [trace.records[k].time for k, _ in admin.completions(trace)]
    ends += [t for one in trace.records if one.kind == SUMMARY for t in (one.instants[4],)]
    ends += [one.time for one in trace.records if one.kind == TLP_UP and not one.flags and _is_io_cqe(one.body)]
    starts = [one.time for one in trace.records if one.kind == TLP_DOWN and _is_doorbell(one.body)]
    starts += [one.instants[0] for one in trace.records if one.kind == SUMMARY]
    done, begun = np.sort(ends), np.sort(starts)
    out = []
    for k, end in enumerate(done):
        at = int(np.searchsorted(begun, end + IDLE // 2))
        following = int(begun[at]) if at < len(begun) else trace.end_ps
        if following - end >= IDLE and (k + 1 == len(done) or done[k + 1] >= following):
            out.append((int(end), following))
    return out


def _is_io_cqe(tlp: bytes) -> bool:
    at = 16 if tlp[0] & 0x20 else 12
    return tlp[0] & 0x5F == 0x40 and len(tlp) - at == 16


def _is_doorbell(tlp: bytes) -> bool:
    at = 16 if tlp[0] & 0x20 else 12
    if tlp[0] & 0x5F != 0x40 or len(tlp) - at != 4:
        return False
    address: int = struct.unpack_from(">I", tlp, at - 4)[0]
    return 0x1000 <= address & 0x3FFF < 0x1100 and address >> 2 & 1 == 0 and address & 4 == 0


def _reads_memory(tlp: bytes) -> bool:
    return tlp[0] & 0x5F == 0x00


def exits(trace: BusTrace, least: int = IDLE) -> Iterator[tuple[int, int]]:
    """Yield (doorbell, fetch) of the first command behind each time without TLPs: the doorbell, and the next read of the drive."""
    before = None
    doorbell = None
    for one in trace.records:
        if one.kind not in (TLP_DOWN, TLP_UP):
            continue
        if doorbell is not None and one.kind == TLP_UP and _reads_memory(one.body):
            yield doorbell, one.time
            doorbell = None
        if one.kind == TLP_DOWN and before is not None and one.time - before >= least and _is_doorbell(one.body):
            doorbell = one.time
        before = one.time


def enables(trace: BusTrace) -> list[int]:
    """Return the instants at which the host wrote CC.EN = 1 without a shutdown (CC.SHN)."""
    out = []
    for one in trace.records:
        if one.kind == TLP_DOWN and one.body[0] & 0x5F == 0x40:
            at = 16 if one.body[0] & 0x20 else 12
            if (
                len(one.body) - at == 4
                and struct.unpack_from(">I", one.body, at - 4)[0] & 0x3FFF == CC_AT
                and one.body[at] & 1
                and not one.body[at + 1] >> 6
            ):
                out.append(one.time)
    return out


def identified(trace: BusTrace, enabled: int) -> int:
    """Return the CQE of the first Identify behind an instant."""
    first = next(one for one in admin.sent(trace) if one.opcode == admin.IDENTIFY and one.time > enabled)
    return trace.records[admin.completion_of(trace, first)].time
