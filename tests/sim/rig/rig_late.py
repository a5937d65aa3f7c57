"""Facts that a driver knows and a late rig does not, read from the set-up part of a drive model's trace."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from tests.sim.rig.rig_trace import END, PERST_N, SIDEBAND, TLP_DOWN, Record

CFGWR0, CPLD, MWR32, MWR64 = 0x44, 0x4A, 0x40, 0x60


def _tlps_down(rows: Iterable[Record]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield time, header and payload of the TLPs from host to drive."""
    for kind, _, time_ps, body in rows:
        if kind == TLP_DOWN:
            at = 16 if body[0] & 0x20 else 12
            yield time_ps, body[:at], body[at:]


def _bar0(rows: list[Record]) -> int:
    """Return BAR0 as enumeration left it: the last values written to 10h and 14h other than for sizing."""
    low = high = 0
    for _, header, payload in _tlps_down(rows):
        if header[0] == CFGWR0 and payload != b"\xff\xff\xff\xff":
            register, (value,) = header[11] & 0xFC, struct.unpack("<I", payload)
            low, high = (value if register == 0x10 else low), (value if register == 0x14 else high)
    return high << 32 | low & ~0xF


def _first_io(rows: list[Record], bar0: int) -> int:
    """Return the time of the first write to the tail doorbell of submission queue 1."""
    for time_ps, header, _ in _tlps_down(rows):
        address = {MWR32: header[8:12], MWR64: header[8:16]}.get(header[0])
        if address and int.from_bytes(address, "big") == bar0 + 0x1008:
            return time_ps
    raise AssertionError("the trace has no I/O")


def queue_lines(rows: Iterable[Record]) -> list[str]:
    """Return the SCPI lines of a late attach."""
    all_rows = list(rows)
    bar0 = _bar0(all_rows)
    queues = []
    for time_ps, _, payload in _tlps_down(all_rows):
        if len(payload) == 64 and payload[0] in (0x01, 0x05) and time_ps < _first_io(all_rows, bar0):
            (base,) = struct.unpack_from("<Q", payload, 24)
            qid, size, _, link = struct.unpack_from("<4H", payload, 40)
            kind = "CQ" if payload[0] == 0x05 else "SQ"
            queues.append(f"NVME:QUE {kind},{qid},#H{base:X},{size + 1}" + (f",{link}" if kind == "SQ" else ""))
    assert len(queues) >= 2
    return [f"NVME:BAR0 #H{bar0:X}", "NVME:DSTR 0", *queues, "NVME:ATT"]


def cut(rows: Iterable[Record]) -> Iterator[Record]:
    """Yield the trace without its TLPs before the first I/O; PERST# has been high all the time."""
    all_rows = list(rows)
    start = _first_io(all_rows, _bar0(all_rows))
    yield SIDEBAND, 0, 0, bytes((PERST_N, 1))
    for kind, flags, time_ps, body in all_rows:
        if kind == SIDEBAND and body[0] == PERST_N:
            continue
        if kind in (SIDEBAND, END) or time_ps >= start or kind == 4:
            yield kind, flags, time_ps, body
