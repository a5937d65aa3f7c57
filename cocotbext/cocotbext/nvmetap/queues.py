"""Queues from their creation to deletion or reset, and admin commands with an effect on the observation."""

from __future__ import annotations

import struct

from .opcodes import HOST_MEMORY_BUFFER, Admin
from .pointers import DataPointers
from .state import (
    CQ,
    SHADOW,
    SQ,
    Cq,
    Function,
    Namespace,
    Pending,
    Span,
    Sq,
)


class Queues(DataPointers):
    """Makes and ends queues; lets completed admin commands take effect."""

    def _make_cq(self, function: Function, qid: int, base: int, size: int, ien: bool, vector: int) -> None:
        old = function.cqs.get(qid)
        if old is not None:
            self._drop_cq(function, old)
        cq = function.cqs[qid] = Cq(qid, base, size, ien, vector)
        self._claim_queue(function.up_writes, base, 16 * size, CQ, cq)

    def _make_sq(self, function: Function, qid: int, base: int, size: int, stride: int, cqid: int) -> None:
        old = function.sqs.get(qid)
        if old is not None:
            self._drop_sq(function, old)
        sq = function.sqs[qid] = Sq(function, qid, base, size, stride, cqid)
        sq.shadow = function.shadow and qid != 0
        self._claim_queue(function.up_reads, base, stride * size, SQ, sq)
        for page in range(base >> 12, (base + stride * size + 4095) >> 12):
            function.controller_memory[page] = sq

    def _drop_sq(self, function: Function, sq: Sq) -> None:
        function.sqs.pop(sq.qid, None)
        for key, cmd in list(function.in_flight.items()):
            if cmd.sq is sq:
                del function.in_flight[key]
                self._finish(cmd)
        for cmd in sq.ring.values():
            if cmd.cqe is None:
                self._finish(cmd)
        sq.ring = {}
        self._disclaim_queue(function.up_reads, sq.base, sq.stride * sq.size, sq)
        for page in [page for page, owner in function.controller_memory.items() if owner is sq]:
            del function.controller_memory[page]

    def _drop_cq(self, function: Function, cq: Cq) -> None:
        function.cqs.pop(cq.qid, None)
        for cmd in (*cq.late, *cq.unread):
            if cmd is not None:
                self._finish(cmd)
        self._disclaim_queue(function.up_writes, cq.base, 16 * cq.size, cq)

    def _flush(self, function: Function) -> None:
        for cmd in sorted(self._open_commands(function), key=lambda c: (c.cqe is None, c.cqe or 0, c.doorbell or 0)):
            self._finish(cmd)

    def _reset(self, function: Function, time_ps: int, forget: bool = False) -> None:
        """End every queue. With ``forget``, message vectors and translations end too: CC.EN keeps them, other resets do not."""
        self._flush(function)
        for sq in function.sqs.values():
            sq.ring = {}
        function.sqs.clear()
        function.cqs.clear()
        function.in_flight.clear()
        function.up_writes.clear()
        function.up_reads.clear()
        function.controller_memory.clear()
        function.hmb = []
        function.enabled = False
        function.shadow = False
        function.uncertain_memory = 0
        function.unseen_cqs.clear()
        function.admin_rewritten = False
        function.subsystem_reset = False
        if forget:
            function.registers[0x14:0x18] = bytes(4)
            function.vector_of.clear()
            function.candidates.clear()
            function.msix_table.clear()
            function.translations.clear()
            for key, read in self._up_tags.items():
                if key >> 8 & 0xFFFF == function.ident:
                    read.forgotten = True
                    read.fast = read.queue = None
                    read.targets = []

    def _enable(self, function: Function) -> None:
        registers = function.registers
        aqa, asq, acq = struct.unpack_from("<LQQ", registers, 0x24)
        function.page = 1 << (12 + (registers[0x14] >> 7 | (registers[0x15] & 7) << 1))
        function.enabled = True
        function.admin_rewritten = False
        self._make_cq(function, 0, acq & ~4095, (aqa >> 16 & 0xFFF) + 1, True, 0)
        self._make_sq(function, 0, asq & ~4095, (aqa & 0xFFF) + 1, 64, 0)

    def _hmb_list(self, function: Function, span: Span, address: int, content: bytes) -> None:
        """Take host memory descriptors: address, and size in pages of CC.MPS."""
        for at in range(-(address - span.lo) % 16, len(content) - 15, 16):
            base, pages = struct.unpack_from("<QL", content, at)
            if pages:
                function.hmb.append((base, base + pages * function.page))
        function.hmb.sort()

    @staticmethod
    def _dsm_ranges(cmd: Pending) -> None:
        """Sum the ranges of a DSM once all were read."""
        if cmd.capture is None or cmd.moved < len(cmd.capture):
            return
        cmd.blocks = 0
        for at in range(0, len(cmd.capture) - 15, 16):
            _attributes, blocks, slba = struct.unpack_from("<LLQ", cmd.capture, at)
            cmd.blocks += blocks
            if at == 0:
                cmd.slba = slba

    def _admin_done(self, function: Function, cmd: Pending) -> None:
        """Let a completed admin command take effect."""
        if cmd.status or not cmd.cdw:
            return
        prp1, prp2, cdw10, cdw11, *_rest = cmd.cdw
        opcode = cmd.opcode
        if opcode == Admin.CREATE_CQ:
            size, qid = (cdw10 >> 16) + 1, cdw10 & 0xFFFF
            if not cdw11 & 1 or self._is_own(function, prp1):
                self.unmatched["CQ in the controller's memory" if cdw11 & 1 else "queue in pieces"] += 1
                function.uncertain_memory += 1
                function.unseen_cqs.add(qid)
                return
            self._make_cq(function, qid, prp1, size, bool(cdw11 & 2), cdw11 >> 16)
        elif opcode == Admin.CREATE_SQ:
            size, qid = (cdw10 >> 16) + 1, cdw10 & 0xFFFF
            if not cdw11 & 1:
                self.unmatched["queue in pieces"] += 1
                function.uncertain_memory += 1
                return
            if cdw11 >> 16 in function.unseen_cqs:
                self.unmatched["SQ of a CQ that is not followed"] += 1
                function.uncertain_memory += 1
                return
            stride = 1 << (function.registers[0x16] & 15)
            self._make_sq(function, qid, prp1, size, max(64, stride), cdw11 >> 16)
        elif opcode == Admin.DELETE_SQ:
            sq = function.sqs.pop(cdw10 & 0xFFFF, None)
            if sq is not None:
                self._drop_sq(function, sq)
        elif opcode == Admin.DELETE_CQ:
            function.unseen_cqs.discard(cdw10 & 0xFFFF)
            cq = function.cqs.pop(cdw10 & 0xFFFF, None)
            if cq is not None:
                self._drop_cq(function, cq)
        elif opcode == Admin.IDENTIFY and cmd.capture is not None and cdw10 & 0xFF in (0x00, 0x11) and cmd.nsid is not None:
            if cmd.moved == 4096:
                self._identify_namespace(function, cmd.nsid, bytes(cmd.capture))
        elif opcode == Admin.FORMAT_NVM:
            self._format(function, cmd.nsid or 0, cdw10)
        elif opcode == Admin.SET_FEATURES and cdw10 & 0xFF == HOST_MEMORY_BUFFER and not cdw11 & 1:
            function.hmb = []
        elif opcode == Admin.DOORBELL_BUFFER_CONFIG:
            function.shadow = True
            for address, pages in ((prp1, function.up_reads), (prp2, function.up_writes)):
                span = Span(address, address + function.page, SHADOW, None)
                self._claim(pages, address >> 12, span)
            for sq in function.sqs.values():
                sq.shadow = sq.qid != 0

    @staticmethod
    def _identify_namespace(function: Function, nsid: int, data: bytes) -> None:
        """Take Identify Namespace: FLBAS 26, DPS 29, formats from 128."""
        if nsid == 0xFFFFFFFF or not any(data[:8]):
            return
        space = function.namespaces[nsid] = Namespace()
        space.formats = data[128:384]
        space.extended = bool(data[26] & 0x10)
        space.protection = data[29] & 7
        use_format(space, data[26] & 15 | (data[26] >> 5 & 3) << 4)

    @staticmethod
    def _format(function: Function, nsid: int, cdw10: int) -> None:
        for ident, space in list(function.namespaces.items()):
            if nsid in (ident, 0xFFFFFFFF):
                if space.formats:
                    space.extended = bool(cdw10 & 0x10)
                    space.protection = cdw10 >> 5 & 7
                    use_format(space, cdw10 & 15 | (cdw10 >> 12 & 3) << 4)
                else:
                    del function.namespaces[ident]


def use_format(space: Namespace, index: int) -> None:
    """Take one of the namespace's formats: metadata bytes, and the exponent of the block."""
    if 4 * index + 4 > len(space.formats):
        return
    metadata, exponent, _performance = struct.unpack_from("<HBB", space.formats, 4 * index)
    space.metadata = metadata
    space.lba_bytes = 1 << exponent
    space.identified = exponent >= 9
