"""Register accesses from one clock domain to another: each arrives once, in order, for any clocks, interleaved with other writes."""

import random

import pytest
from amaranth import ClockDomain, Elaboratable, Module
from amaranth.sim import Simulator
from wattbell_gateware.controller.crossing import RegisterCrossing

SYNC_NS = 16


class Top(Elaboratable):
    def __init__(self):
        self.dut = RegisterCrossing()

    def elaborate(self, platform):
        m = Module()
        m.domains += [ClockDomain("half", reset_less=True), ClockDomain("sync", reset_less=True)]
        m.submodules.dut = self.dut
        return m


def play(half_ns, phase_ns, seed, accesses=60):
    """Return the accesses that the registers saw from the core and from elsewhere, the requested accesses, and cycles of ``half``
    per access.
    """
    top, r = Top(), random.Random(seed)
    dut = top.dut
    wanted = [(r.random() < 0.5, r.randrange(256), r.getrandbits(32)) for _ in range(accesses)]
    beside = [(r.randrange(256), r.getrandbits(32)) for _ in range(accesses)]
    seen, given, read, taken, over = [], [], [], [], []

    def value_at(address):
        return address * 0x01010101 ^ 0x5A5A

    async def core(ctx):
        for write, address, value in wanted:
            for _ in range(r.randrange(4)):
                await ctx.tick("half")
            ctx.set(dut.addr, address)
            ctx.set(dut.wdata, value)
            ctx.set(dut.we if write else dut.re, 1)
            await ctx.tick("half")
            ctx.set(dut.we, 0)
            ctx.set(dut.re, 0)
            clocks = 1
            while ctx.get(dut.wait):
                clocks += 1
                await ctx.tick("half")
            taken.append(clocks)
            if not write:
                read.append((address, ctx.get(dut.rdata)))
        over.append(True)

    async def elsewhere(ctx):
        for address, value in beside:
            for _ in range(r.randrange(12)):
                await ctx.tick()
            ctx.set(dut.aside.p.address, address)
            ctx.set(dut.aside.p.value, value)
            ctx.set(dut.aside.valid, 1)
            await ctx.tick().until(dut.aside.ready)
            ctx.set(dut.aside.valid, 0)
        over.append(True)

    async def registers(ctx):
        async for *_, we, re, address, value in ctx.tick().sample(dut.reg_we, dut.reg_re, dut.reg_addr, dut.reg_wdata):
            if we:
                seen.append((address, value))
            if re:
                given.append(address)

    async def answers(ctx):
        async for address, re in ctx.changed(dut.reg_addr, dut.reg_re):
            ctx.set(dut.reg_rdata, value_at(address) if re else 0xDEADBEEF)

    async def ends(ctx):
        while len(over) < 2:
            await ctx.tick()
        await ctx.tick().repeat(8)

    sim = Simulator(top)
    sim.add_clock(SYNC_NS * 1e-9, domain="sync")
    sim.add_clock(half_ns * 1e-9, phase=phase_ns * 1e-9, domain="half")
    sim.add_testbench(core)
    sim.add_testbench(elsewhere)
    sim.add_testbench(registers, background=True)
    sim.add_process(answers)
    sim.add_testbench(ends)
    sim.run()
    return wanted, beside, seen, given, [(a, v == value_at(a)) for a, v in read], taken


@pytest.mark.parametrize(("half_ns", "phase_ns"), [(32, 16), (32, 3), (33, 0), (16, 9), (100, 7), (40, 1)])
def test_every_access_once(half_ns, phase_ns):
    wanted, beside, seen, given, read, _ = play(half_ns, phase_ns, seed=half_ns * 100 + phase_ns)
    writes = [(address, value) for write, address, value in wanted if write]
    reads = [address for write, address, _ in wanted if not write]
    assert given == reads
    assert read == [(address, True) for address in reads]
    assert sorted(seen) == sorted(writes + beside)
    for source in (writes, beside):  # each in its order
        assert [one for one in seen if one in source] == source


def test_how_long_an_access_takes():
    *_, taken = play(32, 16, seed=1)
    assert set(taken) == {4}  # plus three without the crossing: seven, as in controller.md
