"""Memory requests of the drive, and the completions of its reads."""

from __future__ import annotations

import struct

from .command import Doubt
from .opcodes import Io
from .registers import Registers
from .rules import Rule
from .state import (
    CQ,
    DATA,
    EITHER,
    HMB_LIST,
    LIST,
    MOVING,
    SGL,
    SQ,
    Function,
    Read,
    Span,
    enabled_bytes,
    tag_key,
)
from .tlp import Tlp


class DriveRequests(Registers):
    """Gives the drive's reads and writes to commands and queues."""

    def _up_write(self, tlp: Tlp) -> None:
        function = self._functions.get(tlp.requester)
        if function is None or not function.enabled:
            self.unmatched["write of an unknown or disabled function"] += 1
            return
        if tlp.zero_length:
            self.unmatched["zero-length write"] += 1
            return
        address = tlp.address
        if tlp.at == 3:
            self.unmatched["write to an address of a process"] += 1
            self._doubt_data(function)
            return
        if tlp.at == 2:
            known = self._translated(function, address)
            if known is None:
                self.unmatched["write to an unknown translation"] += 1
                self._doubt_data(function)
                return
            address = known
        lo, hi = enabled_bytes(tlp, address)
        spans = self._overlapping(function.up_writes, lo, hi)
        if not spans:
            self._stray_write(function, tlp, lo, hi)
            return
        covered = 0
        for span in spans:
            cut_lo, cut_hi = max(lo, span.lo), min(hi, span.hi)
            covered += cut_hi - cut_lo
            content = tlp.payload[cut_lo - address : cut_hi - address]
            if span.kind == CQ:
                self._partial_cqe(function, span.queue, tlp.time_ps, cut_lo, content)
            elif span.kind in MOVING:
                if span.kind == EITHER:
                    span.kind = DATA
                self._data(span, tlp.time_ps, cut_lo, content, tlp.poisoned)
            # event index buffers of shadow doorbells carry nothing for us
        if covered < hi - lo:
            self.unmatched["write beside its buffer"] += 1
            if all(s.cmd is None or not s.cmd.learnt for s in spans):
                self._breach(Rule.WRITE_OUTSIDE, tlp.time_ps, function, f"{lo:x}h to {hi:x}h is in part outside of the buffer")

    def _stray_write(self, function: Function, tlp: Tlp, lo: int, hi: int) -> None:
        """Take a write to memory that belongs to nobody: an interrupt message, the host memory buffer, or a fault."""
        if self._in_hmb(function, lo):
            return
        if tlp.length_dw == 1 and tlp.first_be == 15 and not tlp.address & 3:
            key = (tlp.address, struct.unpack("<L", tlp.payload)[0])
            if self._message(function, tlp.time_ps, key):
                return
        self.unmatched["write to unknown memory"] += 1
        self._distrust(function)
        if self._buffers_known(function):
            self._breach(Rule.WRITE_OUTSIDE, tlp.time_ps, function, f"{lo:x}h to {hi:x}h belongs to no command")

    def _up_read(self, tlp: Tlp) -> None:
        function = self._functions.get(tlp.requester)
        key = tag_key(tlp)
        held = self._up_tags.get(key)
        if held is not None and not held.forgotten:
            self._breach(Rule.TAG_REUSED, tlp.time_ps, function, f"tag {tlp.tag}")
        address = tlp.address
        lo, hi = enabled_bytes(tlp, address)
        read = Read(tlp.time_ps, lo, hi, tlp.at)
        self._up_tags[key] = read
        if function is None or not function.enabled:
            self.unmatched["read of an unknown or disabled function"] += 1
            return
        if tlp.zero_length:
            read.start = lo
            read.end = lo + 1
            read.remaining = 1
            read.at = 3
            return
        if tlp.at == 1:
            return
        if tlp.at == 3:
            self.unmatched["read of an address of a process"] += 1
            self._doubt_data(function)
            return
        if tlp.at == 2:
            known = self._translated(function, address)
            if known is None:
                self.unmatched["read of an unknown translation"] += 1
                self._doubt_data(function)
                return
            read.start, read.end = lo - address + known, hi - address + known
            lo, hi = read.start, read.end
        self._find_owner(function, read, lo, hi)

    def _plain_read(self, function: Function, key: int, time_ps: int, lo: int, hi: int) -> None:
        """Take a read of whole double words by an enabled function."""
        held = self._up_tags.get(key)
        if held is not None and not held.forgotten:
            self._breach(Rule.TAG_REUSED, time_ps, function, f"tag {key >> 24 << 8 | key & 0xFF}")
        read = self._up_tags[key] = Read(time_ps, lo, hi, 0)
        self._find_owner(function, read, lo, hi)

    def _find_owner(self, function: Function, read: Read, lo: int, hi: int) -> None:
        """Give a read to the command or the queue that the memory belongs to."""
        held = function.up_reads.get(lo >> 12)
        if held.__class__ is Span and held.lo <= lo and hi <= held.hi:
            spans = [held]
        else:
            spans = self._overlapping(function.up_reads, lo, hi)
        if not spans:
            if held is None and not self._in_hmb(function, lo):
                self.unmatched["read of unknown memory"] += 1
                self._distrust(function)
                if self._buffers_known(function):
                    self._breach(Rule.READ_OUTSIDE, read.time, function, f"{lo:x}h to {hi:x}h belongs to no command")
            return
        only = spans[0]
        whole = len(spans) == 1 and only.lo <= lo and hi <= only.hi
        if whole and only.kind == DATA and only.cmd.capture is None:
            read.fast = only.cmd
            only.hit = True
            return
        read.targets = spans
        if whole and only.kind == SQ and not lo & 3:
            read.queue = only.queue

    def _down_completion(self, tlp: Tlp) -> None:
        key = tag_key(tlp)
        read = self._up_tags.get(key)
        if read is None:
            self.unmatched["completion without a request"] += 1
            function = self._functions.get(tlp.requester)
            if function is not None and function.enabled:  # else its request may have been before the observation
                self._breach(Rule.COMPLETION_UNEXPECTED, tlp.time_ps, function, f"tag {tlp.tag}")
            return
        if tlp.status:
            del self._up_tags[key]
            self.unmatched["read that failed"] += 1
            return
        size = min(4 * tlp.length_dw, tlp.byte_count, read.remaining)
        lo = read.end - read.remaining
        read.remaining -= size
        if read.remaining <= 0:
            del self._up_tags[key]
        function = self._functions.get(tlp.requester)
        if function is None or read.at == 3:
            return
        skip = lo & 3 if lo == read.start else 0
        content = tlp.payload[skip : skip + size]
        if read.at == 1:
            self._translation(function, lo, content)
            return
        if read.fast is not None:
            cmd = read.fast
            if cmd.first is None:
                cmd.first = tlp.time_ps
            cmd.last = tlp.time_ps
            cmd.moved += size
            if tlp.poisoned:
                cmd.doubt(Doubt.DATA_POISONED)
            return
        for span in read.targets:
            cut_lo, cut_hi = max(lo, span.lo), min(lo + size, span.hi)
            if cut_lo >= cut_hi:
                continue
            piece = content[cut_lo - lo : cut_hi - lo]
            if span.kind == SQ:
                self._sqe_piece(function, span.queue, read.time, cut_lo, piece)
            elif span.cmd is None or (not span.cmd.spans and span.cmd.cqe is not None):
                continue
            elif span.kind == EITHER:
                self._data_or_list(function, span, tlp, cut_lo, piece)
            elif span.kind == LIST:
                self._prp_list(function, span, cut_lo, piece)
            elif span.kind == SGL:
                self._sgl_segment(function, span, cut_lo, piece)
            elif span.kind == HMB_LIST:
                self._hmb_list(function, span, cut_lo, piece)
            elif span.kind in MOVING:
                self._data(span, tlp.time_ps, cut_lo, piece, tlp.poisoned)
                if span.cmd.opcode == Io.DSM and span.cmd.capture is not None:
                    self._dsm_ranges(span.cmd)

    @staticmethod
    def _translation(function: Function, requested: int, content: bytes) -> None:
        """Take a translation completion (PCIe 10.2.3): 8 bytes each, big-endian. Bit 11 marks a larger range."""
        page = requested >> 12
        for at in range(0, len(content) - 7, 8):
            entry = struct.unpack_from(">Q", content, at)[0]
            pages = 1
            if entry & 0x800:
                bits = entry >> 12
                pages = 2
                while bits & 1:
                    pages *= 2
                    bits >>= 1
            if entry & 3:
                base = entry >> 12 & ~(pages - 1)
                first = page & ~(pages - 1)
                for index in range(min(pages, 512)):
                    function.translations[base + index] = first + index
            page += pages
