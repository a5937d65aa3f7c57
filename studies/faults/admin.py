"""Admin commands in a bus trace, from the bytes of its TLPs.

Sources: PCI Express Base, Transaction Layer Protocol; NVM Express Base, Common Command Format.

The SQE of an admin command travels as the payload of a completion with data, its CQE as a memory write of 16 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .bustrace import TLP_DOWN, TLP_UP, BusTrace

_CPLD, _MWR32, _MWR64 = 0x4A, 0x40, 0x60
_SQE_BYTES, _CQE_BYTES = 64, 16
SET_FEATURES, GET_LOG_PAGE, GET_FEATURES, ASYNC_EVENT, IDENTIFY = 0x09, 0x02, 0x0A, 0x0C, 0x06


@dataclass(frozen=True)
class Sent:
    """An SQE in a trace.

    record, offset : place of its TLP among the records, and of the SQE in the TLP's bytes.
    opcode, cid, cdw10, cdw11 : fields of the SQE.
    time : of the TLP, in ps.
    """

    record: int
    offset: int
    opcode: int
    cid: int
    cdw10: int
    cdw11: int
    time: int


def _payload_at(tlp: bytes) -> int:
    """Return the length of the header: three or four words (bit 5 of byte 0)."""
    return 16 if tlp[0] & 0x20 else 12


def sent(trace: BusTrace) -> Iterator[Sent]:
    """Yield possible SQEs: completions of 64 bytes. Data that looks like an SQE is yielded, too; ask for the whole of a command."""
    for k, one in enumerate(trace.records):
        if one.kind == TLP_DOWN and not one.flags and one.body[0] == _CPLD:
            at = _payload_at(one.body)
            for offset in range(at, len(one.body) - _SQE_BYTES + 1, _SQE_BYTES):
                word = struct.unpack_from("<I", one.body, offset)[0]
                cdw10, cdw11 = struct.unpack_from("<II", one.body, offset + 40)
                yield Sent(k, offset, word & 0xFF, word >> 16, cdw10, cdw11, one.time)


def features(trace: BusTrace, feature: int) -> list[Sent]:
    """Return the Set Features of one feature, in order."""
    return [one for one in sent(trace) if one.opcode == SET_FEATURES and one.cdw10 & 0xFF == feature and one.cdw10 >> 8 & 0x7FFFFF == 0]


def edited(trace: BusTrace, one: Sent, opcode: int | None = None, cdw11: int | None = None) -> BusTrace:
    """Return the trace with another opcode or Dword 11 in one SQE."""
    record = trace.records[one.record]
    body = bytearray(record.body)
    if opcode is not None:
        body[one.offset] = opcode
    if cdw11 is not None:
        struct.pack_into("<I", body, one.offset + 44, cdw11)
    records = list(trace.records)
    records[one.record] = replace(record, body=bytes(body))
    return BusTrace(trace.head, records)


def completions(trace: BusTrace) -> Iterator[tuple[int, int]]:
    """Yield (place of the record, command identifier) of the CQEs of the admin queue: writes of 16 bytes with SQ identifier 0."""
    for k, one in enumerate(trace.records):
        if one.kind == TLP_UP and not one.flags and one.body[0] in (_MWR32, _MWR64):
            at = _payload_at(one.body)
            if len(one.body) - at == _CQE_BYTES:
                sqid, cid = struct.unpack_from("<HH", one.body, at + 10)
                if sqid == 0:
                    yield k, cid


def completion_of(trace: BusTrace, one: Sent) -> int:
    """Return the place of the CQE of a command. Raises LookupError without one."""
    for k, cid in completions(trace):
        if k > one.record and cid == one.cid:
            return k
    raise LookupError(f"no CQE of command {one.cid}")


def behind(trace: BusTrace, place: int, test: Callable[[int, bytes], bool]) -> int:
    """Return the place of the first record behind another that passes a test of kind and body."""
    return next(k for k in range(place + 1, len(trace.records)) if test(trace.records[k].kind, trace.records[k].body))


def small_write(direction: int) -> Callable[[int, bytes], bool]:
    """Return a test for a memory write of four bytes in one direction: up an interrupt message, down a doorbell."""

    def test(kind: int, body: bytes) -> bool:
        return kind == direction and body[0] in (_MWR32, _MWR64) and len(body) - _payload_at(body) == 4

    return test
