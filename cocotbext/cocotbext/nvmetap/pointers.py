"""Data pointers: PRP entries, PRP lists and SGLs (NVMe 1.4, 4.3 and 4.4)."""

from __future__ import annotations

import struct

from .command import Doubt
from .host_memory import HostMemory
from .rules import Rule
from .state import (
    DATA,
    EITHER,
    KEPT,
    LIST,
    META,
    SGL,
    Function,
    Pending,
    Span,
)
from .tlp import Tlp

_UNKNOWN_BLOCK_BYTES = 16384
"""Largest block with metadata that a command of an unknown format may have: bounds the length of its PRP list."""


class DataPointers(HostMemory):
    """Claims the memory that a command names by PRPs or an SGL."""

    def _block_data(
        self, function: Function, cmd: Pending, flags: int, mptr: int, prp1: int, prp2: int, cdw: list[int], content: bytes
    ) -> None:
        """Claim the buffers of a command that moves logical blocks."""
        blocks = cmd.blocks or 1
        space = function.namespaces.get(cmd.nsid or 0)
        length: int | None = None
        metadata = 0
        if space is not None and space.identified:
            per_block = space.lba_bytes
            stripped = bool(cdw[2] >> 29 & 1) and space.metadata == 8 and space.protection
            if space.metadata and not stripped:
                if space.extended:
                    per_block += space.metadata
                else:
                    metadata = space.metadata * blocks
            length = per_block * blocks
            cmd.expected = length + metadata
        elif mptr and flags >> 6 != 2:
            metadata = 128 * blocks
        up = (cmd.opcode or 0) & 2 != 0
        if metadata and flags >> 6 != 2:
            identified = space is not None and space.identified
            self._add(function, cmd, mptr, metadata, META, identified, 0, not up, up)
        elif mptr and flags >> 6 == 2:
            self._add(function, cmd, mptr & ~7, 16, SGL, True, 1, True, False)
        self._buffers(function, cmd, flags, prp1, prp2, length, blocks, content)

    def _buffers(
        self, function: Function, cmd: Pending, flags: int, prp1: int, prp2: int, length: int | None, blocks: int, content: bytes
    ) -> None:
        if cmd.opcode is not None and cmd.opcode & 3 == 3:
            cmd.doubt(Doubt.DATA_SPLIT_DIRECTION)
        if flags >> 6:
            cmd.expected = cmd.expected if length is None else length if cmd.expected is None else cmd.expected
            self._sgl_descriptor(function, cmd, content[24:40], meta=False)
            return
        if cmd.expected is None and length is not None:
            cmd.expected = length
        up, down = self._ways(cmd)
        page = function.page
        if prp1 & 3:
            self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: PRP1 {prp1:x}h")
        first = page - prp1 % page
        if length is not None:
            self._add(function, cmd, prp1, min(first, length), DATA, True, 0, down, up)
            rest = length - first
            if rest <= 0:
                return
            if rest <= page:
                if prp2 % page:
                    self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: PRP2 {prp2:x}h")
                self._add(function, cmd, prp2, rest, DATA, True, first, down, up)
            else:
                self._claim_list(function, cmd, prp2, rest, True, first)
            return
        # The length is unknown: what PRP2 is shows in its offset, in what was learnt, or in the drive's use of it.
        learnt = self._learnt_length(function, cmd, blocks, first, prp2)
        self._add(function, cmd, prp1, first, DATA, True, 0, down, up)
        if not prp2:
            return
        if learnt is not None:
            cmd.learnt = True
            rest = learnt - first
            if rest <= page:
                self._add(function, cmd, prp2, page, DATA, True, first, down, up)
            else:
                self._claim_list(function, cmd, prp2, rest, True, first)
        elif prp2 % page or blocks * 512 > first + page:
            self._claim_list(function, cmd, prp2, blocks * _UNKNOWN_BLOCK_BYTES, False, first)
        else:
            cmd.remaining_list = blocks * _UNKNOWN_BLOCK_BYTES
            self._add(function, cmd, prp2, page, EITHER, False, first, True, up)

    @staticmethod
    def _ways(cmd: Pending) -> tuple[bool, bool]:
        """Return whether the drive writes, and whether it reads: the two lowest bits of the opcode."""
        way = (cmd.opcode or 0) & 3
        if way == 3 or way == 0:
            return True, True
        return way == 2, way == 1

    @staticmethod
    def _learnt_length(function: Function, cmd: Pending, blocks: int, first: int, prp2: int) -> int | None:
        """Return the length after what earlier commands moved, if the PRPs agree with it."""
        space = function.namespaces.get(cmd.nsid or 0)
        if space is None or not space.lba_bytes or not cmd.sq.qid:
            return None
        length = space.lba_bytes * blocks
        if (length > first) != bool(prp2):
            return None
        if prp2 % function.page and length <= first + function.page:
            return None
        return length

    def _claim_list(self, function: Function, cmd: Pending, address: int, rest: int, firm: bool, offset: int) -> None:
        """Expect a PRP list at ``address`` for ``rest`` bytes; ``offset`` is the place of its first page in the data."""
        page = function.page
        room = (page - address % page) // 8
        pages = -(-rest // page)
        count = min(pages, room)
        if address & 7:
            self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: PRP list at {address:x}h")
        cmd.lists_open += 1
        cmd.remaining_list = rest
        self._add(function, cmd, address & ~7, 8 * count, LIST, firm, offset, True, False)

    def _data_or_list(self, function: Function, span: Span, tlp: Tlp, address: int, content: bytes) -> None:
        """Tell a PRP list from data by its content: aligned addresses, then zeros."""
        cmd: Pending = span.cmd
        up, down = self._ways(cmd)
        is_list = up and not down
        if down:
            entries = [struct.unpack_from("<Q", content, at)[0] for at in range(0, len(content) - 7, 8)]
            is_list = bool(entries) and entries[0] != 0 and all(e % function.page == 0 and e < 1 << 57 for e in entries)
            cmd.doubt(Doubt.LENGTH_UNKNOWN)
        if is_list:
            span.kind = LIST
            cmd.lists_open += 1
            self._prp_list(function, span, address, content)
        else:
            span.kind = DATA
            self._data(span, tlp.time_ps, address, content, tlp.poisoned)

    def _prp_list(self, function: Function, span: Span, address: int, content: bytes) -> None:
        """Take entries of a PRP list that the drive has read."""
        cmd: Pending = span.cmd
        page = function.page
        up, down = self._ways(cmd)
        known = span.firm
        rest_at_start = cmd.remaining_list
        capacity = (page - span.lo % page) // 8
        for at in range(0, len(content) - 7, 8):
            index = (address + at - span.lo) // 8
            entry = struct.unpack_from("<Q", content, at)[0]
            if address + at < span.lo or (cmd.capture is None and not entry and not known):
                if not entry and not known:
                    span.hi = min(span.hi, address + at)
                    break
                continue
            before = index * page
            if index == capacity - 1 and rest_at_start - before > page:
                if (entry % page and not entry & 7) or known:
                    self._next_list(function, cmd, entry, rest_at_start - before, known, span.offset + before)
                continue
            if entry % page:
                if known:
                    self._breach(Rule.PRP_OFFSET, self._now, function, f"SQ {cmd.sq.qid} CID {cmd.cid}: list entry {entry:x}h")
                else:
                    span.hi = min(span.hi, address + at)
                    break
                continue
            size = page if not known or cmd.expected is None else min(page, rest_at_start - before)
            if size > 0 and not any(s.lo == entry and s.kind in (DATA, KEPT) for _p, _n, s in cmd.spans if _n == entry >> 12):
                self._add(function, cmd, entry, size, DATA, known, span.offset + before, down, up)
        if cmd.lists_open:
            cmd.lists_open = 0

    def _next_list(self, function: Function, cmd: Pending, entry: int, rest: int, firm: bool, offset: int) -> None:
        if any(s.lo == entry and s.kind == LIST for _p, _n, s in cmd.spans if _n == entry >> 12):
            return
        self._claim_list(function, cmd, entry, rest, firm, offset)

    def _sgl_descriptor(self, function: Function, cmd: Pending, descriptor: bytes, meta: bool) -> None:
        """Claim the memory of an SGL descriptor (NVMe 1.4, 4.4)."""
        address, length = struct.unpack_from("<QL", descriptor)
        kind = descriptor[15] >> 4
        up, down = self._ways(cmd)
        if kind in (0, 4):
            if kind == 4:
                length = length & 0xFFFFFF
            if length:
                self._add(function, cmd, address, length, META if meta else DATA, True, 0, down, up)
        elif kind == 1:
            if up and cmd.expected is not None:
                cmd.expected -= length
        elif kind in (2, 3):
            cmd.lists_open += 1
            self._add(function, cmd, address, length, SGL, True, int(meta), True, False)
        else:
            self.unmatched[f"SGL descriptor type {kind:x}h"] += 1
            cmd.doubt(Doubt.LENGTH_UNKNOWN)

    def _sgl_segment(self, function: Function, span: Span, address: int, content: bytes) -> None:
        cmd: Pending = span.cmd
        start = -(address - span.lo) % 16
        if start or len(content) % 16:
            self.unmatched["SGL descriptor read in pieces"] += 1
            cmd.doubt(Doubt.LIST_UNSEEN)
        cmd.lists_open = 0
        for at in range(start, len(content) - 15, 16):
            self._sgl_descriptor(function, cmd, content[at : at + 16], meta=span.offset == 1)
