"""Entries of NVMe queues, as host and drive models pack them, and the pages that a data pointer names.

Source: NVM Express 1.4, sections 4.2 (submission entries), 4.3 (PRP), 4.4 (SGL) and 4.6 (completion entries).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

PAGE_BYTES = 4096
"""Memory page of both models: CC.MPS is 0."""
SUBMISSION_BYTES = 64
COMPLETION_BYTES = 16
_SUBMISSION = struct.Struct("<BBHIIIQQQIIIIII")
_COMPLETION = struct.Struct("<IIHHHH")

Fetch = Callable[[int, int], Awaitable[bytes]]
"""Reads host memory: address, bytes."""


class PointerError(ValueError):
    """Reports a data pointer that the specification does not allow."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission queue entry.

    opcode: command of its set, 8 bits
    cid: command identifier, 16 bits
    nsid: namespace, 0 for none
    sgl: the data pointer is an SGL descriptor, not two PRPs
    prp1: bytes 24 to 31: PRP 1, or the address of the SGL descriptor
    prp2: bytes 32 to 39: PRP 2, or length and kind of the SGL descriptor
    cdw10: and up to cdw15: command dwords
    reserved: dword 2, which is 0 in all commands of these models
    metadata: metadata pointer
    """

    opcode: int
    cid: int = 0
    nsid: int = 0
    sgl: bool = False
    prp1: int = 0
    prp2: int = 0
    cdw10: int = 0
    cdw11: int = 0
    cdw12: int = 0
    cdw13: int = 0
    cdw14: int = 0
    cdw15: int = 0
    reserved: int = 0
    metadata: int = 0

    @property
    def slba(self) -> int:
        """First block of a read or a write."""
        return self.cdw10 | self.cdw11 << 32

    @property
    def blocks(self) -> int:
        """Count of blocks of a read or a write."""
        return (self.cdw12 & 0xFFFF) + 1

    def named(self, cid: int) -> Submission:
        """Return the same entry with another command identifier."""
        return replace(self, cid=cid)

    def pack(self) -> bytes:
        """Return the 64 bytes of the entry."""
        flags = 0x40 if self.sgl else 0
        dwords = (self.cdw10, self.cdw11, self.cdw12, self.cdw13, self.cdw14, self.cdw15)
        return _SUBMISSION.pack(self.opcode, flags, self.cid, self.nsid, self.reserved, 0, self.metadata, self.prp1, self.prp2, *dwords)

    @classmethod
    def unpack(cls, data: bytes) -> Submission:
        """Return the entry of 64 bytes."""
        opcode, flags, cid, nsid, reserved, _, metadata, prp1, prp2, c10, c11, c12, c13, c14, c15 = _SUBMISSION.unpack(data)
        return cls(opcode, cid, nsid, flags & 0xC0 == 0x40, prp1, prp2, c10, c11, c12, c13, c14, c15, reserved, metadata)


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion queue entry.

    dw0: result of the command
    dw1: second result, 0 for the commands of these models
    sq_head: slot of the submission queue up to which the drive has fetched
    sqid: submission queue of the command
    cid: command identifier
    status: 15 bits: code in 7:0, type in 10:8, more in 13, do not retry in 14
    phase: phase tag
    """

    dw0: int
    sq_head: int
    sqid: int
    cid: int
    status: int
    phase: int
    dw1: int = 0

    def pack(self) -> bytes:
        """Return the 16 bytes of the entry."""
        return _COMPLETION.pack(self.dw0, self.dw1, self.sq_head, self.sqid, self.cid, self.status << 1 | self.phase)

    @classmethod
    def unpack(cls, data: bytes) -> Completion:
        """Return the entry of 16 bytes."""
        dw0, dw1, sq_head, sqid, cid, last = _COMPLETION.unpack(data)
        return cls(dw0, sq_head, sqid, cid, last >> 1, last & 1, dw1)


def descriptor(kind: int, address: int, length: int) -> tuple[int, int]:
    """Return the two halves of an SGL descriptor. kind: 0 data block, 2 segment, 3 last segment; length in bytes."""
    return address, length | kind << 60


async def data_pieces(entry: Submission, length: int, fetch: Fetch) -> list[tuple[int, int]]:
    """Return address and bytes of each piece of host memory that `length` bytes of a command take, in order.

    Reads PRP lists and SGL segments by `fetch`. Raises PointerError if the pointer is not allowed or names too little memory.
    """
    return await (_sgl_pieces(entry, length, fetch) if entry.sgl else _prp_pieces(entry, length, fetch))


async def _prp_pieces(entry: Submission, length: int, fetch: Fetch) -> list[tuple[int, int]]:
    if entry.prp1 & 3:
        raise PointerError(f"PRP1 {entry.prp1:#x} is not aligned to a dword")
    first = min(length, PAGE_BYTES - entry.prp1 % PAGE_BYTES)
    pieces = [(entry.prp1, first)]
    left = length - first
    if not left:
        return pieces
    if left <= PAGE_BYTES:
        pages = [entry.prp2]
    else:
        pages = []
        where, want = entry.prp2, -(-left // PAGE_BYTES)
        while want:
            room = (PAGE_BYTES - where % PAGE_BYTES) // 8
            take = min(want, room)
            entries = struct.unpack(f"<{take}Q", await fetch(where, 8 * take))
            if want > room:  # the last place of a full list names the next list
                *entries_here, where = entries
            else:
                entries_here = list(entries)
            pages += entries_here
            want -= len(entries_here)
            if want and where % 8:
                raise PointerError(f"PRP list at {where:#x} is not aligned to 8 bytes")
    for page in pages:
        if page % PAGE_BYTES:
            raise PointerError(f"PRP {page:#x} has an offset, which only PRP1 may have")
        pieces.append((page, min(left, PAGE_BYTES)))
        left -= pieces[-1][1]
    return pieces


async def _sgl_pieces(entry: Submission, length: int, fetch: Fetch) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    waiting = [(entry.prp1, entry.prp2)]
    while waiting and length:
        address, rest = waiting.pop(0)
        size, kind = rest & 0xFFFFFFFF, rest >> 60
        if kind == 0:
            pieces.append((address, min(size, length)))
            length -= pieces[-1][1]
        elif kind in (2, 3) and not waiting and size and size % 16 == 0:
            words = struct.unpack(f"<{size // 8}Q", await fetch(address, size))
            waiting = list(zip(words[::2], words[1::2]))
        else:
            raise PointerError(f"SGL descriptor of kind {kind} with {size} bytes is not allowed there")
    if length:
        raise PointerError(f"SGL is {length} bytes too short")
    return pieces
