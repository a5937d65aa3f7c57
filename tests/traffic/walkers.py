"""How a drive finds the host's buffers: PRP entries and lists, SGL descriptors and segments. Each step may read host memory."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any, Protocol

PAGE = 4096
DATA_BLOCK, BIT_BUCKET, SEGMENT, LAST_SEGMENT = 0, 1, 2, 3
"""Types of SGL descriptors (NVMe, SGL Descriptor Type)."""
Step = Generator[Any, Any, tuple[int, int] | None]


class Reader(Protocol):
    """Readers of host memory over the link."""

    def structure(self, address: int, length: int) -> Generator[Any, Any, bytes]:
        """Bytes of a list or a segment."""


class PrpWalk:
    """Pieces of a buffer that PRPs describe (NVMe, Physical Region Page).

    ``list_step``: the drive reads a list up to the next multiple of so many bytes, within the list's page; 0: just the buffer's part.
    """

    def __init__(self, reader: Reader, prp1: int, prp2: int, length: int, list_step: int) -> None:
        self._reader = reader
        self._prp1, self._prp2 = prp1, prp2
        self._left = length
        self._step = list_step
        self._first = True
        self._listed = False
        self._at = prp2
        self._entries: list[int] = []

    def next(self) -> Step:
        """Address and length of the next piece; None at the end."""
        if not self._left:
            return None
        if self._first:
            self._first = False
            length = min(self._left, PAGE - self._prp1 % PAGE)
            self._left -= length
            self._listed = self._left > PAGE
            return self._prp1, length
        address = self._prp2
        if self._listed:
            address = yield from self._entry()
        length = min(self._left, PAGE)
        self._left -= length
        return address, length

    def _entry(self) -> Generator[Any, Any, int]:
        needed = -(-self._left // PAGE)
        while True:
            if not self._entries:
                yield from self._read(needed)
            at_end = (self._at + 8) % PAGE == 0
            entry = self._entries.pop(0)
            if not at_end or needed == 1:
                self._at += 8
                return entry
            self._entries = []
            self._at = entry

    def _read(self, needed: int) -> Generator[Any, Any, None]:
        page_end = self._at - self._at % PAGE + PAGE
        end = min(self._at + 8 * needed, page_end)
        if self._step:
            end = min(page_end, self._at - self._at % self._step + self._step)
        data = yield from self._reader.structure(self._at, end - self._at)
        self._entries = list(struct.unpack(f"<{len(data) // 8}Q", data))


class SglWalk:
    """Pieces of a buffer that SGL descriptors describe (NVMe, Scatter Gather List). Data that a bit bucket discards are no piece."""

    def __init__(self, reader: Reader, descriptor: bytes) -> None:
        self._reader = reader
        self._descriptors = [descriptor]

    def next(self) -> Step:
        """Address and length of the next piece; None at the end."""
        while self._descriptors:
            address, length, kind = struct.unpack("<QL3xB", self._descriptors.pop(0))
            if kind >> 4 == DATA_BLOCK:
                return address, length
            if kind >> 4 in (SEGMENT, LAST_SEGMENT):
                data = yield from self._reader.structure(address, length)
                self._descriptors = [data[at : at + 16] for at in range(0, length, 16)]
        return None


class OneBlock:
    """A contiguous buffer, as MPTR describes metadata."""

    def __init__(self, address: int, length: int) -> None:
        self._piece: tuple[int, int] | None = (address, length)

    def next(self) -> Step:
        """The buffer, then None."""
        piece, self._piece = self._piece, None
        return piece
        yield


Walk = PrpWalk | SglWalk | OneBlock
