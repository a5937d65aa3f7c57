"""Controller registers and doorbells."""

from __future__ import annotations

import struct
from collections.abc import Callable

from .command import Command, Doubt
from .configuration import CMBMSC, ConfigurationSpace
from .rules import Rule
from .state import (
    Cq,
    Function,
    Pending,
    Sq,
    tag_key,
)
from .tlp import Tlp

CMBSZ = 0x3C
"""Controller memory buffer size."""


class Registers(ConfigurationSpace):
    """Follows reads and writes of BAR0."""

    def __init__(self, on_command: Callable[[Command], None] | None, timeout_ps: int) -> None:
        """Start without outstanding reads of the host."""
        super().__init__(on_command, timeout_ps)
        self._down_tags: dict[int, tuple[Function, int, int, int]] = {}

    def _down_write(self, tlp: Tlp) -> None:
        for function in self._functions.values():
            sq = function.controller_memory.get(tlp.address >> 12)
            if sq is not None:
                self._sqe_write(function, sq, tlp)
                return
        at = self._at_bar(tlp.address)
        if at is not None:
            function, offset = at
            self._register_write(function, offset, tlp)
            return
        self.unmatched["write to unknown controller memory"] += 1

    def _register_write(self, function: Function, offset: int, tlp: Tlp) -> None:
        payload = tlp.payload
        words = tlp.length_dw
        for index in range(words):
            enables = tlp.first_be if index == 0 else tlp.last_be if index == words - 1 else 15
            if not enables:
                continue
            here = offset + 4 * index
            value = struct.unpack_from("<L", payload, 4 * index)[0]
            if here >= 0x1000:
                self._doorbell_or_table(function, here, value, enables, tlp.time_ps)
            elif here < 0x60:
                self._controller_register(function, here, payload[4 * index : 4 * index + 4], enables, tlp.time_ps)

    def _controller_register(self, function: Function, offset: int, content: bytes, enables: int, time_ps: int) -> None:
        if function.subsystem_reset:
            self._reset(function, time_ps, forget=True)
        registers = function.registers
        was_enabled = registers[0x14] & 1
        for byte in range(4):
            if enables >> byte & 1:
                registers[offset + byte] = content[byte]
        if 0x24 <= offset < 0x38:
            if was_enabled and function.enabled:
                function.admin_rewritten = True
                if self._capability(function, 0x10) is not None:  # else a function-level reset may have been missed
                    self._breach(Rule.ADMIN_WHILE_ENABLED, time_ps, function, f"register {offset:02x}h")
        elif offset == 0x14:
            now = registers[0x14] & 1
            cc = struct.unpack_from("<L", registers, 0x14)[0]
            if cc & 0xFE00000E:
                self._breach(Rule.CC_RESERVED, time_ps, function, f"CC {cc:08x}h")
            if now and function.enabled and function.admin_rewritten:
                for cmd in self._open_commands(function):
                    cmd.doubt(Doubt.RESET_UNSEEN)
                self.unmatched["reset that was not on the link"] += 1
                self._reset(function, time_ps)
                function.vector_of.clear()
                self._enable(function)
            elif now and not function.enabled:
                self._enable(function)
            elif not now and function.enabled:
                self._reset(function, time_ps)
        elif offset in (CMBMSC, CMBMSC + 4):
            self._place_own(function)
        elif offset == 0x20 and registers[0x20:0x24] == b"eMVN":
            for other in self._functions.values():
                other.subsystem_reset = other.enabled

    def _doorbell_or_table(self, function: Function, offset: int, value: int, enables: int, time_ps: int) -> None:
        table = self._msix_location(function)
        if table is not None and table[0] <= offset < table[1]:
            index, part = divmod(offset - table[0], 16)
            entry = function.msix_table.setdefault(index, bytearray(16))
            entry[part : part + 4] = struct.pack("<L", value)
            function.vector_of = {key: vector for key, vector in function.vector_of.items() if vector != index}
            return
        if not enables & 1 and not enables & 2:
            return
        stride = function.stride or 4
        index, odd = divmod(offset - 0x1000, stride)
        if odd:
            self.unmatched["write between doorbells"] += 1
            return
        if enables & 3 != 3:
            self.unmatched["doorbell with one byte enabled"] += 1
            return
        high = value >> 16 if enables == 15 else 0
        value &= 0xFFFF
        qid, is_cq = divmod(index, 2)
        cq = function.cqs.get(qid) if is_cq else None
        sq = None if is_cq else function.sqs.get(qid)
        if high and (cq is not None or sq is not None):
            self._breach(Rule.DOORBELL_RESERVED, time_ps, function, f"{high:04x}h above bit 15 at {offset:x}h")
        if cq is not None:
            self._head_doorbell(function, cq, value, time_ps)
            return
        if sq is not None:
            self._tail_doorbell(function, sq, value, time_ps)
            return
        self.unmatched["doorbell of no queue"] += 1
        may_be_table = table is None and offset >= 0x2000
        if function.enabled and not function.uncertain_memory and not may_be_table:
            self._breach(Rule.DOORBELL_NO_QUEUE, time_ps, function, f"{'CQ' if is_cq else 'SQ'} {qid}")

    def _tail_doorbell(self, function: Function, sq: Sq, value: int, time_ps: int) -> None:
        if value >= sq.size:
            self.unmatched["invalid doorbell value"] += 1
            self._breach(Rule.DOORBELL_RANGE, time_ps, function, f"SQ {sq.qid}: {value} of {sq.size}")
            return
        if value == sq.tail:
            self._breach(Rule.DOORBELL_REPEATED, time_ps, function, f"SQ {sq.qid}: {value} again")
            return
        count = (value - sq.tail) % sq.size
        free = sq.size - 1 - (sq.tail - sq.head) % sq.size
        if count > free and not sq.shadow:
            self._breach(Rule.DOORBELL_PAST_HEAD, time_ps, function, f"SQ {sq.qid}: {count} new entries, {free} free")
            self.unmatched["invalid doorbell value"] += 1
        slot = sq.tail
        while slot != value:
            old = sq.ring.get(slot)
            if sq.shadow and old is not None and old.cqe is None and old.doorbell is None:
                old.doorbell = time_ps
            else:
                if old is not None and old.opcode is None and old.cqe is None:
                    self._finish(old)
                cmd = sq.ring[slot] = Pending(sq, time_ps)
                content = sq.written.get(slot) if sq.written else None
                if content is not None and content[2] == -1:
                    del sq.written[slot]
                    if content[1] == (1 << 64) - 1:
                        cmd.doubt(Doubt.QUEUE_MEMORY)
                        self._decode(function, sq, cmd, None, bytes(content[0]))
            slot += 1
            if slot == sq.size:
                slot = 0
        sq.tail = value

    def _head_doorbell(self, function: Function, cq: Cq, value: int, time_ps: int) -> None:
        if value >= cq.size:
            self.unmatched["invalid doorbell value"] += 1
            self._breach(Rule.DOORBELL_RANGE, time_ps, function, f"CQ {cq.qid}: {value} of {cq.size}")
            return
        if value == cq.head:
            self._breach(Rule.DOORBELL_REPEATED, time_ps, function, f"CQ {cq.qid}: {value} again")
            return
        count = (value - cq.head) % cq.size
        if count > len(cq.unread):
            self._breach(Rule.DOORBELL_PAST_TAIL, time_ps, function, f"CQ {cq.qid}: {count} released, {len(cq.unread)} there")
            self.unmatched["invalid doorbell value"] += 1
            count = len(cq.unread)
        cq.head = value
        if cq.late:
            for cmd in cq.late:
                self._finish(cmd)
            cq.waiting = [cmd for cmd in cq.waiting if cmd.tell]
            cq.late = []
        hold = cq.ien and bool(cq.waiting) and cq.vector in function.vector_hits
        for _ in range(count):
            done = cq.unread.popleft()
            if done is None:
                continue
            done.head = time_ps
            if hold and done.interrupt is None:
                cq.late.append(done)
            else:
                self._finish(done)
        if cq.waiting and not hold:
            cq.owed = True
            cq.waiting = [cmd for cmd in cq.waiting if cmd.tell]

    def _down_read(self, tlp: Tlp) -> None:
        at = self._at_bar(tlp.address)
        if at is None:
            self.unmatched["read of unknown controller memory"] += 1
            return
        key = tag_key(tlp)
        self._down_tags[key] = (at[0], at[1], 0, 4 * tlp.length_dw)

    def _up_completion(self, tlp: Tlp) -> None:
        key = tag_key(tlp)
        request = self._down_tags.pop(key, None)
        if request is None:
            self.unmatched["completion without a request"] += 1
            return
        function, offset, register, size = request
        if tlp.status or not tlp.payload:
            return
        if offset < 0:
            self._config_value(function, register, struct.unpack_from("<L", tlp.payload)[0])
            return
        done = size - tlp.byte_count if tlp.byte_count <= size else 0
        if tlp.byte_count > len(tlp.payload):
            self._down_tags[key] = request
        for at in range(0, len(tlp.payload) - 3, 4):
            if offset + done + at == 4:
                function.stride = 4 << (tlp.payload[at] & 15)
            elif offset + done + at == CMBSZ:
                size = struct.unpack_from("<L", tlp.payload, at)[0]
                function.cmb_bytes = (size >> 12) << (12 + 4 * (size >> 8 & 15))
                self._place_own(function)
