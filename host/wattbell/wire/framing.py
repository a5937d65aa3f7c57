"""Finds blocks in a byte stream that may start anywhere and be damaged anywhere.

* Only a block with a good CRC-32 is accepted.
* After a bad block, the search resumes one byte further on, so that a damaged length never hides good blocks. If a good block
  directly follows, the whole payload of the bad one is skipped, so that nothing in it (a recorded TLP may carry a block) is taken for a
  block. The good block must be the successor by number, or no chain of blocks may lead up to it from inside.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wattbell_spec import wire as spec

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this machine: correct, but slower
    from zlib import crc32

__all__ = ["Block", "BlockFramer", "crc32"]

_HEADER = struct.Struct("<4sBBHIIQI")
_CRC = struct.Struct("<I")
assert _HEADER.size == spec.HEADER_SIZE == spec.record_size(spec.HEADER)
_OVERHEAD = spec.HEADER_SIZE + spec.CRC_SIZE
_RESIDUE = 0x2144DF1C
"""CRC-32 of any message followed by its own CRC-32, little-endian."""


Block = tuple[int, int, int, int, int, int, memoryview, int, int]
"""A block with a good CRC: version, kind, sequence, dropped, first tick, run, payload, CRC, number of bytes skipped before it. A plain
tuple, for speed."""


@dataclass
class BlockFramer:
    """Cuts a stream into blocks. ``bytes_in`` = ``bytes_accepted`` + ``skipped_bytes`` + ``pending_bytes``."""

    bytes_in: int = 0
    bytes_accepted: int = 0
    skipped_bytes: int = 0
    bad_crc: int = 0
    _rest: bytes = b""
    _aligned: bool = False
    """True where a block is known to begin, whole or damaged."""

    @property
    def pending_bytes(self) -> int:
        """Bytes held back until more arrive."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Block]:
        """The blocks that `data` completes, in order of arrival."""
        self.bytes_in += len(data)
        return self._run(self._rest + data if self._rest else bytes(data), final=False)

    def finish(self) -> list[Block]:
        """End the stream: search the pending bytes to the end."""
        return self._run(self._rest, final=True)

    def _run(self, buffer: bytes, *, final: bool) -> list[Block]:
        found: list[Block] = []
        append, unpack, crc, stored = found.append, _HEADER.unpack_from, crc32, _CRC.unpack_from
        view, skipped = memoryview(buffer), self.skipped_bytes
        size, position, accepted = len(buffer), 0, 0
        while position + spec.HEADER_SIZE <= size:
            magic, version, kind, length, sequence, dropped, tick, run = unpack(buffer, position)
            end = position + _OVERHEAD + length
            fits = length <= spec.MAX_PAYLOAD and not length & 3
            headed = magic == b"WBEL" and fits
            if headed and end <= size and crc(view[position:end]) == _RESIDUE:
                payload, before = view[position + spec.HEADER_SIZE : end - spec.CRC_SIZE], skipped + position - accepted
                append((version, kind, sequence, dropped, tick, run, payload, stored(buffer, end - spec.CRC_SIZE)[0], before))
                accepted += end - position
                position = end
                self._aligned = True
                continue
            behind = False
            if headed or (fits and self._aligned):  # possibly a damaged block
                if end > size and not final:
                    break
                told = self._good_behind(view, end, position, final) if end <= size else False
                if told is None:
                    break
                behind = told
            self._aligned = behind
            self.bad_crc += headed or behind
            position = end if behind else self._search(buffer, position + 1)
        else:  # less than a header is left: possibly the beginning of one
            if position < size and not self._aligned:
                position = self._search(buffer, position)
        if final:
            position, self._aligned = size, False
        self.skipped_bytes += position - accepted
        self.bytes_accepted += accepted
        self._rest = buffer[position:]
        return found

    @staticmethod
    def _search(buffer: bytes, start: int) -> int:
        """Position of the next magic, or of a tail that may be the beginning of one, or the end."""
        found = buffer.find(spec.MAGIC, start)
        if found >= 0:
            return found
        size = len(buffer)
        for tail in range(len(spec.MAGIC) - 1, 0, -1):
            if buffer.endswith(spec.MAGIC[:tail], start):
                return size - tail
        return max(start, size)

    @staticmethod
    def _good_behind(view: memoryview, position: int, start: int, final: bool) -> bool | None:
        """True when `position` is the end of the damaged block `start`; None if there are too few bytes to tell."""
        size = len(view)
        if position + spec.HEADER_SIZE > size:
            prefix = bytes(view[position : position + 4])
            return False if final or not spec.MAGIC.startswith(prefix) else None
        end = _frame_end(view, position)
        if end is None:
            return False
        if end > size:
            return False if final else None
        if crc32(view[position:end]) != _RESIDUE:
            return False
        sequence, following = (_HEADER.unpack_from(view, at)[4] for at in (start, position))
        return following == (sequence + 1) & 0xFFFFFFFF or not _leads_to(view, start + 1, position, following)


def _frame_end(view: memoryview, position: int) -> int | None:
    """Return the end of the block at `position`; None if there is no header there."""
    if position + spec.HEADER_SIZE > len(view):
        return None
    magic, _, _, length, *_ = _HEADER.unpack_from(view, position)
    if magic != spec.MAGIC or length > spec.MAX_PAYLOAD or length & 3:
        return None
    return int(position + _OVERHEAD + length)


def _leads_to(view: memoryview, start: int, end: int, following: int) -> bool:
    """Return whether good blocks, back to back, lead from somewhere in ``start`` .. `end` exactly to the block at `end`, numbered
    `following`.

    Also True if a good block inside has the preceding number, whatever lies between.
    """
    inside = bytes(view[start:end])
    reaches = {end}
    found = inside.rfind(spec.MAGIC)
    while found >= 0:
        frame_end = _frame_end(view, start + found)
        if frame_end is not None and frame_end <= end and crc32(view[start + found : frame_end]) == _RESIDUE:
            if (_HEADER.unpack_from(view, start + found)[4] + 1) & 0xFFFFFFFF == following:
                return True
            if frame_end in reaches:
                reaches.add(start + found)
        found = inside.rfind(spec.MAGIC, 0, found)
    return len(reaches) > 1
