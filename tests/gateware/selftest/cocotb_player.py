import struct

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, Timer
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId
from wattbell_gateware.layouts import tlp_beat
from wattbell_spec.controller_registers import board_by_name

TICKS, WIDTH, CONVERSIONS = 16, 128, 63
"""Ticks per cycle; cycles between conversions, chosen so that they drift relative to the commands."""
BEAT = {name: (field.offset, (1 << field.width) - 1) for name, field in tlp_beat(WIDTH)}
BAR0, HOST, DRIVE = 0xFEB00000, PcieId(0, 0, 0), PcieId(1, 0, 0)


class Player:
    """Plays the pattern and assembles its beats into TLPs: (tick, up, Tlp)."""

    def __init__(self, dut):
        self.dut, self.now, self.clocks, self.tlps, self.parts = dut, 100, 0, [], [b"", b""]
        self.codes, self.resets, self.ticks = [], [], [0, 0]

    async def clock(self, count=1):
        dut = self.dut
        for _ in range(count):
            await FallingEdge(dut.clk)
            self.now += TICKS
            self.clocks += 1
            dut.now.value = self.now
            dut.start.value = self.clocks % CONVERSIONS == 0
            await ReadOnly()  # the values at the next rising edge
            if self.clocks % CONVERSIONS == 1 and self.clocks > 1:
                self.codes.append((self.now - TICKS, int(dut.i.value), int(dut.v.value), int(dut.f.value)))
            if dut.on.value == 1 and dut.perst_n.value == 0:
                self.resets.append(self.now)
            for up, valid, payload in ((0, dut.down__valid, dut.down__payload), (1, dut.up__valid, dut.up__payload)):
                if valid.value == 1:
                    self.take(up, int(payload.value))
            await Timer(1, unit="ns")

    def take(self, up, value):
        beat = {name: value >> offset & mask for name, (offset, mask) in BEAT.items()}
        assert bool(beat["first"]) == (not self.parts[up]) and beat["error"] == beat["lost"] == 0
        assert beat["last"] or beat["dws"] == WIDTH // 32
        if beat["first"]:
            self.ticks[up] = beat["tick"]
        assert beat["tick"] == self.ticks[up] and (not beat["first"] or beat["tick"] == self.now)
        self.parts[up] += beat["data"].to_bytes(WIDTH // 8, "little")[: 4 * beat["dws"]]
        if beat["last"]:
            self.tlps.append((beat["tick"], up, Tlp().unpack(self.parts[up])))
            assert self.tlps[-1][2].pack() == self.parts[up], "not a whole TLP, or more than one"
            self.parts[up] = b""

    async def write(self, name, value):
        self.dut.addr.value, self.dut.wdata.value, self.dut.we.value = board_by_name(name).address & 0x7F, value, 1
        await self.clock()
        self.dut.we.value = 0
        await self.clock(2)

    async def read(self, name):
        self.dut.addr.value = board_by_name(name).address & 0x7F
        await self.clock()
        return int(self.dut.rdata.value)

    async def play(self, commands):
        self.tlps.clear()
        self.codes.clear()
        self.resets.clear()
        await self.write("TEST_CONTROL", 1 << 8 | commands)
        await self.write("TEST_COMMAND", 1)
        assert await self.read("TEST_STATE") == 1 and self.dut.quiet.value == 0
        while await self.read("TEST_STATE"):
            await self.clock(50)
            assert self.now < 1e9
        assert self.dut.quiet.value == 1


class Host:
    """A host's memory and a drive's registers as the TLPs write them. Data read by the drive comes with the next completion."""

    def __init__(self):
        self.config, self.registers, self.memory, self.writes, self.read, self.answers = {}, {}, {}, [], None, []

    def see(self, up, tlp):
        kind, data = tlp.fmt_type, bytes(tlp.data)
        if kind == TlpType.CFG_WRITE_0:
            assert not up and (tlp.requester_id, tlp.completer_id, tlp.first_be, tlp.last_be) == (HOST, DRIVE, 15, 0)
            self.config[tlp.address] = int.from_bytes(data, "little")
        elif kind == TlpType.MEM_WRITE:
            assert tlp.requester_id == (DRIVE if up else HOST)
            assert (tlp.first_be, tlp.last_be) == (15, 15 if len(data) > 4 else 0)
            if not up:
                assert len(data) == 4
                self.registers[tlp.address - BAR0] = int.from_bytes(data, "little")
            self.writes.append((up, tlp.address, data))
        elif kind == TlpType.MEM_READ:
            assert up and tlp.requester_id == DRIVE and self.read is None
            self.read = (tlp.address, tlp.length * 4, tlp.tag)
        else:
            assert kind == TlpType.CPL_DATA and not up and tlp.status == CplStatus.SC
            address, length, tag = self.read
            assert (len(data), tlp.byte_count, tlp.tag, tlp.requester_id, tlp.completer_id, tlp.lower_address) == (
                length,
                length,
                tag,
                DRIVE,
                HOST,
                address & 0x7F,
            )
            self.answers.append((address, data))
            self.read = None


def entry(data):
    opcode, _, cid, nsid, prp1, prp2 = struct.unpack_from("<BBHI16xQQ", data)
    return opcode, cid, nsid, prp1, prp2, *struct.unpack_from("<III", data, 40)


@cocotb.test()
async def pattern(dut):
    Clock(dut.clk, TICKS, unit="ns").start()
    for name in ("addr", "wdata", "we", "start", "now"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    one = Player(dut)
    await one.clock(3)
    dut.rst.value = 0
    await one.clock(3)
    assert (dut.on.value, dut.busy.value, dut.quiet.value) == (0, 0, 1)
    await one.write("TEST_COMMAND", 1)
    assert await one.read("TEST_STATE") == 0, "without PATTERN"

    for commands in (1, 8, 255):
        await one.play(commands)
        if commands == 1:
            await one.play(commands)  # play it again
        host = Host()
        first = one.tlps[0][0]
        low = one.resets[-1] - one.resets[0]
        assert 900 < low < 1200 and first - one.resets[-1] > 60_000, "PERST#, then time for the tracker"
        doorbells = []
        for tick, up, tlp in one.tlps:
            host.see(up, tlp)
            if host.writes[-1:] and tlp.fmt_type == TlpType.MEM_WRITE and tlp.address == BAR0 + 0x1008:
                doorbells.append(tick)
        assert host.read is None and host.config == {0x10: BAR0, 0x14: 0}
        r = host.registers
        assert r[0x24] == 15 << 16 | 15 and (r[0x28], r[0x2C], r[0x30], r[0x34]) == (0x100000, 0, 0x110000, 0)
        assert r[0x14] & 1 == 1 and r[0x14] >> 16 & 15 == 6 and r[0x14] >> 20 & 15 == 4
        assert (r[0x1000], r[0x1004]) == (2, 2)

        # Queue creation (NVM Express, Create I/O .. Queue): both of 256 entries, contiguous, queue 1 to queue 1, vector 1.
        (address, admin), *answers = host.answers
        assert address == 0x100000 and len(admin) == 128
        opcode, cid, _, cq, _, cdw10, cdw11, _ = entry(admin)
        assert (opcode, cid, cdw10, cdw11) == (5, 0, 255 << 16 | 1, 1 << 16 | 0b11)
        opcode, cid, _, sq, _, cdw10, cdw11, _ = entry(admin[64:])
        assert (opcode, cid, cdw10, cdw11) == (1, 1, 255 << 16 | 1, 1 << 16 | 1)
        assert [w[1:] for w in host.writes if w[0] and 0x110000 <= w[1] < 0x110100] == [
            (0x110000, struct.pack("<IIHHHH", 0, 0, 1, 0, 0, 1)),
            (0x110010, struct.pack("<IIHHHH", 0, 0, 2, 0, 1, 1)),
        ]

        # The reads: a block of 512 bytes each, command n of block n.
        assert [a for a, _ in answers] == [sq + 64 * n for n in range(commands)]
        for n, (_, sqe) in enumerate(answers):
            opcode, cid, nsid, prp1, prp2, slba, slba_high, cdw12 = entry(sqe)
            assert (opcode, cid, nsid, prp2, slba, slba_high, cdw12) == (2, n, 1, 0, n, 0, 0) and len(sqe) == 64
        after = host.writes[[w[1] for w in host.writes].index(BAR0 + 0x1008) :]
        message = next(a for up, a, d in host.writes if up and a >> 20 == 0xFEE)
        assert after == [
            row
            for n in range(commands)
            for row in (
                (0, BAR0 + 0x1008, struct.pack("<I", n + 1)),
                (1, prp1, bytes(512)),
                (1, cq + 16 * n, struct.pack("<IIHHHH", 0, 0, n + 1, 1, n, 1)),
                (1, message, struct.pack("<I", 0x4021)),
                (0, BAR0 + 0x100C, struct.pack("<I", n + 1)),
            )
        ]
        gaps = [b - a for a, b in zip(doorbells, doorbells[1:], strict=False)]
        assert all(8000 <= gap <= 8000 + 2 * TICKS for gap in gaps)

        # Codes: 2 A for 4 us from each doorbell on, as each conversion's instant finds it.
        assert await one.read("TEST_DOORBELL_TICK_LO") == doorbells[0] and await one.read("TEST_DOORBELL_TICK_HI") == 0
        amps = {tick: (code / (1 << 17) * 4.096) for tick, code, _, _ in one.codes}
        assert {round(5 * v / (1 << 18), 3) for _, _, v, _ in one.codes} == {3.3} and {f for *_, f in one.codes} == {(1 << 17) - 1}
        for tick, value in amps.items():
            since = min((tick - d for d in doorbells if d <= tick), default=1 << 30)
            if since > 4000 + 2 * TICKS or TICKS < since < 4000 - TICKS:
                assert abs(value - (2.0 if since < 4000 else 0.1)) < 1e-4, (tick, since)
        step = await one.read("TEST_STEP_TICK_LO")
        assert step == min(tick for tick, value in amps.items() if value > 1)
        assert 0 <= step - doorbells[0] <= (CONVERSIONS + 2) * TICKS
    await one.write("TEST_CONTROL", 0)
    assert dut.on.value == 0
