"""Submission and completion queue entries as they pass."""

from __future__ import annotations

import struct

from .command import Doubt
from .opcodes import BLOCK_OPCODES, HOST_MEMORY_BUFFER, RANGE_OPCODES, Admin, Io, admin_data_bytes, io_data_bytes
from .queues import Queues
from .rules import Rule
from .state import (
    HMB_LIST,
    META,
    Cq,
    Function,
    Namespace,
    Pending,
    Sq,
    enabled_bytes,
)
from .tlp import Tlp

_SQE = struct.Struct("<BBHLLLQQQLLLLLL").unpack_from
_CQE = struct.Struct("<LLHHHH").unpack_from
_UNCOUNTED = frozenset(
    {
        Doubt.CID_REUSED,
        Doubt.CONTROLLER_MEMORY,
        Doubt.DATA_INCOMPLETE,
        Doubt.DATA_SPLIT_DIRECTION,
        Doubt.LENGTH_UNKNOWN,
        Doubt.SHARED_BUFFER,
        Doubt.TLPS_MISSED,
    }
)
"""Doubts under which a count of data bytes proves nothing."""


class QueueEntries(Queues):
    """Takes SQEs and CQEs, whole or in pieces."""

    def _sqe_piece(self, function: Function, sq: Sq, time_ps: int, address: int, content: bytes) -> None:
        at = address - sq.base
        while content:
            slot, start = divmod(at, sq.stride)
            piece = content[: sq.stride - start]
            cmd = sq.ring.get(slot)
            if (
                start == 0
                and len(piece) >= 64
                and cmd is not None
                and cmd.opcode is None
                and cmd.doorbell is not None
                and cmd.doorbell <= time_ps
            ):
                self._decode(function, sq, cmd, time_ps, piece)
            elif cmd is not None and cmd.opcode is not None and cmd.cqe is None:
                if start == 0 and cmd.doorbell is not None and piece[2:4] == cmd.cid.to_bytes(2, "little"):
                    cmd.doubt(Doubt.FETCHED_TWICE)
            elif start < 64:
                whole, mask, since = sq.written.get(slot, (bytearray(64), 0, time_ps))
                rung = cmd is not None and cmd.cqe is None and cmd.doorbell is not None and cmd.doorbell <= time_ps
                if rung and cmd is not None and cmd.doorbell is not None and since < cmd.doorbell:
                    whole, mask, since = bytearray(64), 0, time_ps
                part = piece[: 64 - start]
                whole[start : start + len(part)] = part
                mask |= ((1 << len(part)) - 1) << start
                sq.written[slot] = whole, mask, since
                if mask == (1 << 64) - 1 and rung and cmd is not None:
                    del sq.written[slot]
                    self._decode(function, sq, cmd, since, bytes(whole))
                elif mask == (1 << 64) - 1 and sq.shadow and cmd is None:
                    del sq.written[slot]
                    cmd = sq.ring[slot] = Pending(sq, None)
                    cmd.doubt(Doubt.SHADOW_DOORBELL)
                    self._decode(function, sq, cmd, since, bytes(whole))
            at += len(piece)
            content = content[len(piece) :]

    def _sqe_write(self, function: Function, sq: Sq, tlp: Tlp) -> None:
        """Take SQEs that the host writes to a queue in the controller's memory."""
        lo, hi = enabled_bytes(tlp, tlp.address)
        content = tlp.payload[lo - tlp.address : hi - tlp.address]
        at = lo - sq.base
        while content:
            slot, start = divmod(at, sq.stride)
            piece = content[: sq.stride - start]
            part = piece[: max(0, 64 - start)]
            whole, mask, _since = sq.written.get(slot, (bytearray(64), 0, -1))
            if mask == (1 << 64) - 1:
                whole, mask = bytearray(64), 0
            whole[start : start + len(part)] = part
            sq.written[slot] = whole, mask | ((1 << len(part)) - 1) << start, -1
            at += len(piece)
            content = content[len(piece) :]

    def _decode(self, function: Function, sq: Sq, cmd: Pending, time_ps: int | None, content: bytes) -> None:
        """Take a whole SQE."""
        opcode, flags, cid, nsid, _c2, _c3, mptr, prp1, prp2, *cdw = _SQE(content)
        cmd.fetch = time_ps
        cmd.opcode, cmd.cid, cmd.nsid = opcode, cid, nsid
        sq.in_flight += 1
        cmd.depth = sq.in_flight
        key = sq.qid << 16 | cid
        if key in function.in_flight:
            other = function.in_flight[key]
            other.doubt(Doubt.CID_REUSED)
            cmd.doubt(Doubt.CID_REUSED)
            self._breach(Rule.CID_REUSED, self._now, function, f"SQ {sq.qid} CID {cid}")
            self._finish(other)
            sq.in_flight -= 1
        function.in_flight[key] = cmd
        if flags & 0x3C or flags >> 6 == 3:
            self._breach(Rule.SQE_RESERVED, self._now, function, f"SQ {sq.qid} CID {cid}: flags {flags:02x}h")
        cmd.sgl = bool(flags >> 6)
        if sq.qid:
            if opcode in RANGE_OPCODES:
                cmd.slba = cdw[1] << 32 | cdw[0]
                cmd.blocks = (cdw[2] & 0xFFFF) + 1
            if opcode in BLOCK_OPCODES:
                self._block_data(function, cmd, flags, mptr, prp1, prp2, cdw, content)
                return
            length = io_data_bytes(opcode, cdw[0], cdw[1], cdw[2])
            if opcode == Io.DSM and length:
                cmd.capture = bytearray(length)
        else:
            cmd.cdw = (prp1, prp2, *cdw)
            length = admin_data_bytes(opcode, cdw[0], cdw[1])
            if opcode == Admin.IDENTIFY and cdw[0] & 0xFF in (0x00, 0x11):
                cmd.capture = bytearray(4096)
            if opcode == Admin.SET_FEATURES and cdw[0] & 0xFF == HOST_MEMORY_BUFFER and cdw[1] & 1:
                self._add(function, cmd, (cdw[4] << 32 | cdw[3]) & ~15, 16 * cdw[5], HMB_LIST, True, 0, True, False)
                return
            if opcode == Admin.DOORBELL_BUFFER_CONFIG:
                return
        if length == 0:
            cmd.expected = 0
            return
        self._buffers(function, cmd, flags, prp1, prp2, length, 1, content)

    def _partial_cqe(self, function: Function, cq: Cq, time_ps: int, address: int, content: bytes) -> None:
        """Put pieces of CQEs together; the piece with the phase tag gives the instant."""
        at = address - cq.base
        while content:
            slot, start = divmod(at, 16)
            piece = content[: 16 - start]
            if len(piece) == 16:
                self._cqe(function, cq, time_ps, cq.base + 16 * slot, piece)
            else:
                whole, mask = cq.partial.get(slot, (bytearray(16), 0))
                whole[start : start + len(piece)] = piece
                mask |= ((1 << len(piece)) - 1) << start
                if mask == 0xFFFF:
                    cq.partial.pop(slot, None)
                    self._cqe(function, cq, time_ps, cq.base + 16 * slot, bytes(whole))
                else:
                    cq.partial[slot] = whole, mask
            at += len(piece)
            content = content[len(piece) :]

    def _cqe(self, function: Function, cq: Cq, time_ps: int, address: int, content: bytes) -> None:
        _dw0, _dw1, sqhd, sqid, cid, status = _CQE(content)
        slot = (address - cq.base) >> 4
        if slot != cq.tail:
            self._breach(Rule.CQE_SLOT, time_ps, function, f"CQ {cq.qid}: slot {slot} instead of {cq.tail}")
            self.unmatched["CQE in a wrong slot"] += 1
        elif (status & 1) != cq.phase:
            self._breach(Rule.CQE_PHASE, time_ps, function, f"CQ {cq.qid} slot {slot}: phase tag {status & 1}")
            self.unmatched["CQE with a wrong phase tag"] += 1
        if len(cq.unread) >= cq.size - 1:
            self._breach(Rule.CQ_OVERRUN, time_ps, function, f"CQ {cq.qid} holds {len(cq.unread)} CQEs already")
        sq = function.sqs.get(sqid)
        cmd = function.in_flight.pop(sqid << 16 | cid, None)
        if cmd is None and sq is not None:
            cmd = self._unfetched(function, sq, cid)
        if cmd is None and (sq is None or sq.cqid != cq.qid):
            cmd = self._of_another_queue(function, cq, sqid, cid, time_ps)
            if cmd is not None:
                sq = cmd.sq
        if slot == cq.tail:
            cq.tail += 1
            if cq.tail == cq.size:
                cq.tail = 0
                cq.phase ^= 1
        if cmd is None or sq is None:
            self._breach(Rule.CQE_NO_COMMAND, time_ps, function, f"CQ {cq.qid}: SQ {sqid} CID {cid}")
            self.unmatched["CQE without a command"] += 1
            cq.unread.append(None)
            return
        if sq.cqid != cq.qid:
            self._breach(Rule.CQE_QUEUE, time_ps, function, f"SQ {sqid} belongs to CQ {sq.cqid}, not {cq.qid}")
        self._head_pointer(function, cmd, sqhd, time_ps)
        sq.in_flight -= 1
        cmd.cqe = time_ps
        cmd.status = status >> 1
        cmd.cqe_queue = cq
        cq.unread.append(cmd)
        if cq.ien:
            cq.waiting.append(cmd)
        self._settle(function, cmd)
        if cmd.spans:
            self._release(cmd)
        if sq.qid == 0:
            self._admin_done(function, cmd)
        start = cmd.doorbell
        if start is not None and time_ps - start > self._timeout_ps:
            self._check_time(cmd, time_ps)

    def _of_another_queue(self, function: Function, cq: Cq, sqid: int, cid: int, time_ps: int) -> Pending | None:
        """Find the only command with the CID among the SQs of a CQ, where the CQE names an SQ of no or of another CQ.

        Without it, one wrong field would leave the command open, and its next use of the CID would break a rule too.
        """
        found = [sq.qid << 16 | cid for sq in function.sqs.values() if sq.cqid == cq.qid and sq.qid << 16 | cid in function.in_flight]
        if len(found) != 1:
            return None
        cmd = function.in_flight.pop(found[0])
        cmd.doubt(Doubt.SQID_WRONG)
        self._breach(Rule.CQE_NO_COMMAND, time_ps, function, f"CQ {cq.qid}: SQ {sqid} CID {cid}, where SQ {cmd.sq.qid} has this CID")
        self.unmatched["CQE with a wrong SQID"] += 1
        return cmd

    def _unfetched(self, function: Function, sq: Sq, cid: int) -> Pending | None:
        """Find the command of a CQE among SQEs that were read before their doorbell."""
        for slot, cmd in sq.ring.items():
            if cmd.opcode is None and cmd.cqe is None and slot in sq.written:
                whole, mask, time = sq.written[slot]
                if mask == (1 << 64) - 1 and whole[2] | whole[3] << 8 == cid:
                    cmd.doubt(Doubt.PREFETCHED)
                    self._decode(function, sq, cmd, time, bytes(whole))
                    return function.in_flight.pop(sq.qid << 16 | cid, None)
        for slot, (whole, mask, time) in sq.written.items():
            held = sq.ring.get(slot)
            if mask == (1 << 64) - 1 and (held is None or held.cqe is not None) and whole[2] | whole[3] << 8 == cid:
                cmd = Pending(sq, None)
                cmd.doubt(Doubt.SHADOW_DOORBELL if sq.shadow else Doubt.NO_DOORBELL)
                if not sq.shadow:
                    self._breach(Rule.FETCH_PAST_TAIL, self._now, function, f"SQ {sq.qid} slot {slot}: completed without a doorbell")
                sq.ring[slot] = cmd
                self._decode(function, sq, cmd, time, bytes(whole))
                return function.in_flight.pop(sq.qid << 16 | cid, None)
        return None

    def _head_pointer(self, function: Function, cmd: Pending, sqhd: int, time_ps: int) -> None:
        sq = cmd.sq
        used = (sq.tail - sq.head) % sq.size
        if sqhd < sq.size and (sq.shadow or (sqhd - sq.head) % sq.size <= used):
            sq.head = sqhd
            return
        self._breach(Rule.CQE_SQHD, time_ps, function, f"SQ {sq.qid}: head {sqhd}, last head {sq.head}, tail {sq.tail}")
        # The drive has taken the completed SQE at least.
        passed = next(((slot + 1) % sq.size for slot, held in sq.ring.items() if held is cmd), sq.head)
        if (passed - sq.head) % sq.size <= used:
            sq.head = passed

    def _settle(self, function: Function, cmd: Pending) -> None:
        """Compare the data of a completed command with its length, and learn an unknown format from it."""
        if cmd.elsewhere and (cmd.lists_open or cmd.expected is None or cmd.moved + cmd.meta_bytes < cmd.expected):
            cmd.doubt(Doubt.CONTROLLER_MEMORY)
            cmd.lists_open = 0
        if cmd.expected is not None:
            uncertain = cmd.doubts is not None and not cmd.doubts.isdisjoint(_UNCOUNTED)
            if cmd.status == 0 and cmd.moved + cmd.meta_bytes != cmd.expected and not uncertain:
                self._breach(
                    Rule.DATA_COUNT,
                    cmd.cqe or 0,
                    function,
                    f"SQ {cmd.sq.qid} CID {cmd.cid}: {cmd.moved + cmd.meta_bytes} bytes, not {cmd.expected}",
                )
                if cmd.moved + cmd.meta_bytes < cmd.expected:
                    cmd.doubt(Doubt.DATA_INCOMPLETE)
        elif cmd.sq.qid and cmd.opcode in BLOCK_OPCODES and cmd.blocks and cmd.status == 0 and not cmd.doubts and cmd.nsid is not None:
            self._learn(function, cmd, cmd.blocks, cmd.nsid)
        if cmd.lists_open and cmd.status == 0:
            cmd.doubt(Doubt.LIST_UNSEEN)

    @staticmethod
    def _learn(function: Function, cmd: Pending, blocks: int, nsid: int) -> None:
        """Learn the bytes of a block from the last page that a command's data reached."""
        space = function.namespaces.get(nsid)
        if space is None:
            space = function.namespaces[nsid] = Namespace()
        if space.identified or cmd.sgl:
            return
        ends = [(span.offset, span.offset + span.hi - span.lo) for _pages, _page, span in cmd.spans if span.hit and span.kind != META]
        if not ends:
            return
        last_start, last_end = max(ends)
        exact = cmd.moved // blocks if cmd.moved % blocks == 0 else 0
        possible = [size for size in [1 << power for power in range(9, 15)] if last_start < size * blocks <= last_end]
        if exact >= 512 and last_start < cmd.moved <= last_end:
            possible = [exact]
        space.lba_bytes = possible[0] if len(possible) == 1 else 0
