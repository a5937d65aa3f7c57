"""Demands of PCIe and NVMe on a trace, checked from its TLPs alone. The follower knows no generator: it unpacks by cocotbext-pcie."""

from __future__ import annotations

import struct

from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType

from tests.traffic.kinds import Setup
from tests.traffic.packets import DOWN, UP

_PAGE = 4096
_WRITES = (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64)
_READS = (TlpType.MEM_READ, TlpType.MEM_READ_64)
_MESSAGES = (0x30, 0x34, 0x70, 0x74)
"""First bytes of the messages that are packed by hand."""


class Follower:
    """Reads the records of a trace and asserts each rule; the message names rule and time. ``cqes``: whether CQEs are followed, too."""

    def __init__(self, setup: Setup, cqes: bool = True) -> None:
        self.setup = setup
        self._cqes = cqes
        self.asked: dict[tuple[int, int, int], tuple[int, int]] = {}
        """Outstanding reads: direction, requester and tag; address and bytes left."""
        self.cqs: dict[int, list[int]] = {}
        """Base, size, tail, phase, head by CQ of the first function."""
        self.bar = setup.bar
        self.low, self.base_written = 0, False
        self.registers: dict[int, int] = {}
        self.free = {DOWN: 0, UP: 0}
        self.sqes: dict[tuple[int, int], int] = {}
        self.counts = {"tlps": 0, "reads": 0, "cqes": 0, "messages": 0, "prefixes": 0}
        self.ready = 0
        self.due: list[tuple[int, int, int]] = []
        """I/O CQs by the time at which they exist: identifier and entries. The base comes from the CQ's first CQE."""

    def follow(self, records: list[tuple[int, int, int, bytes]]) -> None:
        """Check a trace."""
        for time_ps, kind, flags, body in sorted(records, key=lambda record: record[0]):
            if kind in (DOWN, UP):
                assert time_ps >= self.free[kind], f"{time_ps}: TLPs of a direction overlap"
                self.free[kind] = time_ps + 1
                self.counts["tlps"] += 1
                if body[0] in _MESSAGES:
                    self.counts["messages"] += 1
                    continue
                self._tlp(time_ps, kind, bool(flags & 1), body)
            elif body[:1] in (b"\1", b"\3") and body not in (b"\1\1", b"\3\1"):  # PERST#, or a link that is not in L0
                self.asked.clear()
                self.cqs.clear()

    def _tlp(self, now: int, direction: int, omitted: bool, body: bytes) -> None:
        if body[0] == 0x91:
            assert self.setup.pasid and direction == UP and body[1] < 0x10, f"{now}: a PASID has 20 bits (PCIe 6.20.2.1)"
            body = body[4:]
            assert Tlp.unpack_header(body).fmt_type in (*_READS, *_WRITES), f"{now}: a PASID before no memory request"
            self.counts["prefixes"] += 1
        tlp = Tlp.unpack_header(body)
        size = tlp.get_header_size()
        if tlp.has_data() and not omitted:
            tlp.data = body[size:]
            assert tlp.check(), f"{now}: cocotbext-pcie refuses it"
            assert len(tlp.data) == 4 * tlp.length, f"{now}: length and payload differ"
        else:
            assert len(body) == size, f"{now}: bytes behind the header"
        assert tlp.pack_header() == body[:size], f"{now}: the header has more than its fields"
        if tlp.has_data():
            assert 4 * tlp.length <= self.setup.mps, f"{now}: more than MPS (PCIe 2.2.2)"
        kind = tlp.fmt_type
        if kind in _WRITES or kind in _READS:
            wide = kind in (TlpType.MEM_WRITE_64, TlpType.MEM_READ_64)
            assert wide == (tlp.address >= 1 << 32), f"{now}: 3 DW below 4 GiB and only there (PCIe 2.2.4.1)"
            assert tlp.address % _PAGE + 4 * tlp.length <= _PAGE, f"{now}: crosses 4 KiB (PCIe 2.2.7)"
            assert tlp.length == 1 or (tlp.first_be and tlp.last_be), f"{now}: byte enables (PCIe 2.2.5)"
        if kind in _READS or kind in (TlpType.CFG_READ_0, TlpType.CFG_WRITE_0):
            key = (direction, int(tlp.requester_id), tlp.tag)
            assert key not in self.asked, f"{now}: tag {tlp.tag} is in flight (PCIe 2.2.6.2)"
            if kind in _READS and direction == UP:
                assert 4 * tlp.length <= self.setup.mrrs, f"{now}: more than MRRS (PCIe 2.2.7)"
            self.asked[key] = (tlp.address if kind in _READS else 0, 1 if tlp.first_be == 0 else 4 * tlp.length)
            self.counts["reads"] += 1
        elif kind in (TlpType.CPL, TlpType.CPL_DATA):
            self._completion(now, direction, tlp)
        if kind in _WRITES and direction == DOWN and not omitted:
            self._register(now, tlp)
        elif kind in _WRITES and not omitted and self._cqes:
            self._cqe(now, tlp)

    def _completion(self, now: int, direction: int, tlp: Tlp) -> None:
        key = (DOWN if direction == UP else UP, int(tlp.requester_id), tlp.tag)
        assert key in self.asked, f"{now}: completion without a request"
        address, left = self.asked.pop(key)
        if tlp.status != CplStatus.SC or tlp.fmt_type == TlpType.CPL:
            assert tlp.length == 0
            return
        assert tlp.byte_count == left, f"{now}: byte count {tlp.byte_count}, {left} are left (PCIe 2.2.9)"
        if left == 1:
            return
        assert tlp.lower_address == address & 0x7F, f"{now}: lower address (PCIe 2.2.9)"
        length = 4 * tlp.length
        assert length <= left
        if length < left:
            if direction == DOWN:
                assert (address + length) % self.setup.rcb == 0, f"{now}: not cut at RCB (PCIe 2.3.1.1)"
            self.asked[key] = (address + length, left - length)

    def _register(self, now: int, tlp: Tlp) -> None:
        offset = tlp.address - self.bar
        if not 0 <= offset < 0x8000:
            return
        words = struct.unpack(f"<{tlp.length}L", tlp.data)
        for k, value in enumerate(words):
            if offset + 4 * k < 0x1000:
                self.registers[offset + 4 * k] = value
                if offset + 4 * k == 0x14:
                    self._control(value)
            else:
                number = (offset + 4 * k - 0x1000) // (4 << self.setup.dstrd)
                if tlp.first_be == 3:
                    value &= 0xFFFF
                if self._cqes and number & 1 and number >> 1 in self.cqs:
                    cq = self.cqs[number >> 1]
                    moved, posted = (value - cq[4]) % cq[1], (cq[2] - cq[4]) % cq[1]
                    assert moved <= posted, f"{now}: CQ head of {number >> 1} beyond its tail (NVMe, Queue Usage)"
                    cq[4] = value

    def _control(self, value: int) -> None:
        if not value & 1:
            self.cqs.clear()
        elif 0 not in self.cqs or not self.ready:
            size = (self.registers[0x24] >> 16 & 0xFFF) + 1
            self.cqs = {0: [self.registers[0x30] | self.registers.get(0x34, 0) << 32, size, 0, 1, 0]}
        self.ready = value & 1

    def _cqe(self, now: int, tlp: Tlp) -> None:
        if self.due and now > self.due[0][0] and tlp.length == 4 and tlp.address % _PAGE == 0 and tlp.data[10:12] != b"\0\0":
            _, qid, size = self.due.pop(0)
            self.cqs[qid] = [tlp.address, size, 0, 1, 0]
        for qid, cq in list(self.cqs.items()):
            base, size = cq[:2]
            if not base <= tlp.address < base + 16 * size or int(tlp.requester_id) & 7:
                continue
            for at in range(0, 4 * tlp.length, 16):
                assert tlp.address + at == base + 16 * cq[2], f"{now}: CQ {qid} is not written in order (NVMe, Queue Usage)"
                status = struct.unpack_from("<H", tlp.data, at + 14)[0]
                assert status & 1 == cq[3], f"{now}: phase tag of CQ {qid} (NVMe, Phase Tag)"
                cq[2] = (cq[2] + 1) % size
                cq[3] ^= cq[2] == 0
                assert cq[2] != cq[4], f"{now}: CQ {qid} overflows (NVMe, Full Queue)"
                self.counts["cqes"] += 1
            return
