"""Formats of namespaces and due lengths, by themselves."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from amaranth import Array, Elaboratable, Module, Signal
from amaranth.sim import Simulator
from wattbell_gateware.nvme.lengths import Lengths
from wattbell_gateware.nvme.namespaces import Namespaces
from wattbell_spec.nvme import admin, io

FORMATS = ((0, 9), (8, 9), (64, 12), (6, 12), (0, 8), (0, 17), (0, 16))
"""MS and LBADS."""
BEHIND = 0x10
LIMIT = 1 << 23
"""Double words from which on a length is unknown."""


class Bench(Elaboratable):
    """Both, with a state a call: ``step`` says which."""

    def __init__(self) -> None:
        self.step, self.sqe, self.of_admin = Signal(4), Array(Signal(32, name=f"sqe{n}") for n in range(13)), Signal()
        self.nsid, self.word, self.place, self.slot, self.last = Signal(32), Signal(32), Signal(10), Signal(10), Signal()
        self.generation, self.told = Signal(16), Signal()

    def elaborate(self, _platform) -> Module:
        m = Module()
        self.spaces = spaces = Namespaces(m)
        self.lengths = lengths = Lengths(namespaces=spaces)
        spaces.connect(m)
        lengths.connect(m)
        steps = [
            lambda: None,
            lambda: spaces.look_up(m, self.sqe[1]),
            lambda: spaces.look_on(m, self.sqe[1]),
            lambda: lengths.work_out(m, list(self.sqe), self.of_admin),
            lambda: spaces.begin(m, slot=self.slot, generation=self.generation, nsid=self.nsid[:16], place=self.place),
            lambda: spaces.take(m, self.word, last=self.last),
            lambda: spaces.doubt(m, lists=self.last),
            lambda: spaces.look_up(m, self.nsid[:16]),
            lambda: spaces.formatted(m, self.nsid[:16], self.word),
            lambda: spaces.forget(m),
            lambda: lengths.go_on(m),
        ]
        m.d.comb += self.told.eq(Namespaces.is_told(self.nsid[:16], self.word[:8]))
        with m.Switch(self.step):
            for number, what in enumerate(steps):
                with m.Case(number):
                    what()
        return m


class Driver:
    """Calls of a test, each some clocks of the bench."""

    def __init__(self, bench: Bench, ctx) -> None:
        self.bench, self.ctx = bench, ctx

    async def call(self, step: int, **values: int) -> None:
        for name, value in values.items():
            self.ctx.set(getattr(self.bench, name), value)
        self.ctx.set(self.bench.step, step)
        await self.ctx.tick()
        self.ctx.set(self.bench.step, 0)

    async def due(self, opcode: int, *, nsid: int = 1, queue: int = 1, dws: Sequence[int] = (), mptr: int = 0, psdt: int = 0) -> int | None:
        """Double words that are due; None: not known. Where nothing is, `none` has to say so."""
        words = [opcode | psdt << 14, nsid, 0, 0, mptr, 0, 0x1000, 0, 0, 0, *dws, *(0,) * (3 - len(dws))]
        for signal, word in zip(self.bench.sqe, words, strict=True):
            self.ctx.set(signal, word)
        await self.call(1)
        await self.call(2)
        await self.call(3, of_admin=queue == 0)
        none, self.apart = self.ctx.get(self.bench.lengths.none), self.ctx.get(self.bench.lengths.apart)
        await self.call(10)
        due = self.ctx.get(self.bench.lengths.due)
        await self.ctx.tick()
        self.metadata = self.ctx.get(self.bench.lengths.metadata)
        assert none == (not opcode & 3 or (due.checked and due.dws == 0))
        if none:
            return 0
        return due.dws if due.checked else None

    async def identify(
        self, nsid: int, flbas: int, *, words: int = 1024, slot: int = 1, step: int = 32, first: int = 0, generation: int = 1
    ) -> None:
        """The data of Identify Namespace, in TLPs of `step` double words, from double word `first` on."""
        data = bytearray(bytes(range(256)) * 16)
        data[26] = flbas
        for number in range(16):
            metadata, lbads = FORMATS[number] if number < len(FORMATS) else (0, 0)
            struct.pack_into("<HBB", data, 128 + 4 * number, metadata, lbads, 0xFF)
        for at in range(first, words, step):
            await self.call(4, nsid=nsid, place=at, slot=slot, generation=generation)
            for k in range(at, min(at + step, words)):
                await self.call(5, word=int.from_bytes(data[4 * k : 4 * k + 4], "little"), last=k + 1 == min(at + step, words))
            await self.ctx.tick()

    async def formatted(self, nsid: int, cdw10: int) -> None:
        await self.call(7, nsid=nsid)
        await self.call(8, word=cdw10)


def run(body) -> None:
    bench = Bench()

    async def test(ctx) -> None:
        await body(Driver(bench, ctx))

    simulator = Simulator(bench)
    simulator.add_clock(1e-6)
    simulator.add_testbench(test)
    simulator.run()


READ = io("read")


def test_formats() -> None:
    """Each format, and those that make none; the metadata's place."""

    async def body(d: Driver) -> None:
        assert await d.due(READ, dws=(0, 0, 7)) is None
        # Eight blocks with 8 or 64 bytes of metadata each; 6 bytes are no double words, and of FLBAS 20h no format is known.
        for flbas, size, apart, metadata in (
            (0, 128, 0, 0),
            (1, 128, 0, 16),
            (BEHIND | 1, 130, 0, 0),
            (2, 1024, 0, 128),
            (BEHIND | 2, 1040, 0, 0),
            (3, 1024, 1, 0),
            (BEHIND | 3, None, 0, 0),
            (4, None, 0, 0),
            (5, None, 0, 0),
            (6, 16384, 0, 0),
            (7, None, 0, 0),
            (0x20, None, 1, 0),
            (BEHIND, 128, 0, 0),
        ):
            await d.identify(1, flbas, words=64, slot=flbas)
            assert await d.due(READ, dws=(0, 0, 7), mptr=4) == (size and 8 * size), f"FLBAS {flbas:02X}h"
            assert (d.apart, d.metadata) == (apart, metadata), f"FLBAS {flbas:02X}h"
            assert await d.due(READ, dws=(0, 0, 7 | 1 << 29)) == (size and 8 * size if flbas & 0xF == 0 or not flbas & BEHIND else None)
            assert (d.apart, d.metadata) == (0, 0)

    run(body)


def test_a_metadata_pointer_that_is_not_followed() -> None:
    """MPTR has to be a dword's address, and with PSDT 10b it leads to an SGL segment (NVMe, Metadata Pointer)."""

    async def body(d: Driver) -> None:
        await d.identify(1, 1, words=64)
        for mptr, psdt, apart, metadata in ((4, 0, 0, 16), (4, 1, 0, 16), (6, 0, 1, 0), (5, 0, 1, 0), (4, 2, 1, 0)):
            assert await d.due(READ, dws=(0, 0, 7), mptr=mptr, psdt=psdt) == 1024
            assert (d.apart, d.metadata) == (apart, metadata), (mptr, psdt)

    run(body)


def test_which_identify_tells_a_format() -> None:
    """CNS 00h of one namespace. A record's NSID has 16 bits: FFFEh is any larger one, and FFFFh all of them (docs/wire-format.md)."""

    async def body(d: Driver) -> None:
        for nsid, cns, tells in ((1, 0, 1), (0xFFFD, 0, 1), (0, 0, 0), (0xFFFE, 0, 0), (0xFFFF, 0, 0), (1, 1, 0), (1, 6, 0), (1, 0x11, 0)):
            await d.call(0, nsid=nsid, word=cns)
            assert d.ctx.get(d.bench.told) == tells, (nsid, cns)

    run(body)


def test_whose_formats_they_are() -> None:
    """32 namespaces; others with the same low bits take their places. Nothing is known of one before all of its formats came."""

    async def body(d: Driver) -> None:
        for nsid in (1, 2, 31, 32):
            await d.identify(nsid, nsid & 1, words=64, slot=nsid)
        for nsid, blocks in ((1, 128), (2, 128), (31, 128), (32, 128), (33, None), (64, None), (0x1_0001, None), (3, None), (0, None)):
            assert await d.due(READ, nsid=nsid) == blocks, nsid
        await d.identify(33, BEHIND | 2, words=64, slot=5)
        assert await d.due(READ, nsid=33) == 1040 and await d.due(READ, nsid=1) is None
        await d.identify(2, BEHIND | 2, words=47, slot=6)
        assert await d.due(READ, nsid=2) is None
        await d.identify(2, 0, first=47, words=48, slot=6)
        assert await d.due(READ, nsid=2) == 1040
        await d.identify(2, 0, first=32, words=64, slot=7)
        assert await d.due(READ, nsid=2) is None
        await d.identify(2, 0, words=47, slot=7, generation=2)
        await d.identify(2, 0, first=47, words=48, slot=7, generation=3)  # the next command of that slot
        assert await d.due(READ, nsid=2) is None

    run(body)


def test_format_nvm() -> None:
    async def body(d: Driver) -> None:
        for nsid in (1, 2):
            await d.identify(nsid, 0, words=64, slot=nsid)
        await d.call(6, last=0)
        assert await d.due(READ) is None and await d.due(READ, nsid=2) is None
        await d.formatted(1, BEHIND | 2)
        assert await d.due(READ) == 1040 and await d.due(READ, nsid=2) is None
        await d.call(6, last=0)
        await d.formatted(1, 1 << 12)
        await d.formatted(33, 0)
        assert await d.due(READ) is None
        await d.formatted(1, 0)
        assert await d.due(READ) == 128
        await d.call(6, last=1)
        await d.formatted(1, 0)
        assert await d.due(READ) is None
        await d.identify(1, 0, words=64, slot=3)
        await d.call(9)
        assert await d.due(READ) is None
        await d.formatted(1, 0)
        assert await d.due(READ) is None

    run(body)


CASES = [
    # queue, opcode, dwords 10 to 12, what is due
    *((1, io(name), (5, 6, 7), 0) for name in ("flush", "write_zeroes", "write_uncorrectable", "verify")),
    *((1, io(name), (5, 6, 7), 8 * 128) for name in ("read", "write", "compare", "zone_append")),
    (1, io("write"), (0, 0, 0xFFFF), LIMIT), (1, io("dsm"), (39, 4), 160), (1, io("dsm"), (0xFF, 4), 1024),
    (1, io("copy"), (0, 0, 1), 16), (1, io("copy"), (0, 0, 0x101), 20), (1, io("copy"), (0, 0, 0x203), 32),
    (1, io("copy"), (0, 0, 0x303), 40),
    (1, io("copy"), (0, 0, 0x400), None), (1, io("reservation_register"), (), 4), (1, io("reservation_acquire"), (), 4),
    (1, io("reservation_release"), (), 2), (1, io("reservation_report"), (15,), None), (1, io("zone_management_receive"), (), None),
    (1, io("zone_management_send"), (), None), (1, 0x81, (), None), (1, 0x80, (), 0),
    (0, admin("create_io_sq"), (), 0), (0, admin("create_io_cq"), (), 0), (0, admin("abort"), (), 0), (0, admin("identify"), (1,), 1024),
    (0, admin("namespace_attachment"), (), 1024), (0, admin("namespace_management"), (0,), 1024),
    (0, admin("namespace_management"), (1,), 0),
    (0, admin("namespace_management"), (2,), None), (0, admin("get_log_page"), (2 | 127 << 16,), 128),
    (0, admin("get_log_page"), (0xFFFF << 16, 1), 0x2_0000), (0, admin("get_log_page"), (0xFFFF << 16, 0x7F), LIMIT),
    (0, admin("get_log_page"), (0, 0x80), None), (0, admin("firmware_download"), (1023,), 1024),
    (0, admin("firmware_download"), (LIMIT,), None),
    (0, admin("security_send"), (0, 512), 128), (0, admin("security_send"), (0, 510), None),
    (0, admin("security_send"), (0, 1 << 25), None),
    (0, admin("security_receive"), (0, 512), None), (0, admin("set_features"), (0x0C,), 64),
    (0, admin("get_features"), (0x20C,), 64),
    (0, admin("get_features"), (0x30C,), None), (0, admin("get_features"), (0x307,), 0), (0, admin("set_features"), (0x0D, 1), 0),
    (0, admin("get_features"), (0x0D,), 1024), (0, admin("set_features"), (0x30E,), 2), (0, admin("set_features"), (0x03,), None),
    (0, admin("get_features"), (0xD0, 1), 0), (0, admin("directive_receive"), (127,), None),
]  # fmt: skip


def test_lengths_by_opcode() -> None:
    async def body(d: Driver) -> None:
        await d.identify(1, 0, words=64)
        for queue, opcode, dws, due in CASES:
            want = None if due is not None and due >= LIMIT and queue else due
            assert await d.due(opcode, queue=queue, dws=dws) == want, f"queue {queue}, opcode {opcode:02X}h, {dws}"
            for psdt, of_list in ((1, want), (2, want), (3, None if opcode & 3 else 0)):
                assert await d.due(opcode, queue=queue, dws=dws, psdt=psdt) == of_list, f"queue {queue}, opcode {opcode:02X}h, PSDT {psdt}"

    run(body)


@pytest.mark.parametrize("blocks", [1, 2, 3, 255, 65536])
def test_many_blocks(blocks: int) -> None:
    async def body(d: Driver) -> None:
        await d.identify(1, BEHIND | 2, words=64)
        due = blocks * 1040
        assert await d.due(READ, dws=(0, 0, blocks - 1)) == (due if due < LIMIT else None)

    run(body)
