"""Random traffic at the pins of all kinds of block RAM, against the model; factors at the ends of their range."""

import random

import cocotb
from cocotb.triggers import Timer

from tests.gateware.cells.cells import KINDS, PORT, Model, Pins

EDGES = 4000
FEW = 24
"""Number of addresses to draw from: few, so that the ports meet."""


def _check(dut, models, what: str) -> None:
    for k, (kind, model) in enumerate(zip(KINDS, models, strict=True)):
        for i, (port, want) in enumerate(zip("ab", model.shown(), strict=True)):
            width = 18 if kind.widths[1] == 36 else kind.widths[i]
            if kind.widths[i] == 36 and kind.widths[1] != 36:
                continue  # a port that only writes
            got = int(getattr(dut, f"do_{port}{k}").value) & (1 << width) - 1
            assert got == want, f"{what}: {kind}, port {port}: {got:x}, not {want:x}"


@cocotb.test()
async def every_kind(dut):
    rng = random.Random(1)
    few = [rng.getrandbits(14) for _ in range(FEW)]
    models = [Model(kind) for kind in KINDS]
    was = [0, 0]
    for name in PORT:
        for port in "ab":
            getattr(dut, f"{name}_{port}").value = 0
    await Timer(1, "ns")
    _check(dut, models, "at first")
    for edge in range(EDGES):
        pins = []
        for _ in "ab":
            # The codes of some kinds are not 0: their ports must be chosen often, too.
            code = rng.choice((0, 0, 0, 0b101, 0b110, rng.randrange(8)))
            ad = rng.choice(few) if rng.random() < 0.8 else rng.getrandbits(14)
            ce, oce, we, rst = (rng.random() < often for often in (0.9, 0.8, 0.5, 0.04))
            pins.append(Pins(ce, oce, we, rst, code, ad ^ rng.getrandbits(4), rng.getrandbits(18)))
        if rng.random() < 0.3:
            pins[1].ad = pins[0].ad ^ rng.choice((0, 0, 1, 2, 4, 8))
        if edge % 3 == 0:  # otherwise both ports would hardly ever be chosen, and never meet
            pins[0].cs, pins[1].cs = rng.choice(((0, 0), (0, 0), (0b101, 0b110)))
        for port, at in zip("ab", pins, strict=True):
            for name in PORT.keys() - {"clk"}:
                getattr(dut, f"{name}_{port}").value = int(getattr(at, name))
        await Timer(1, "ns")
        # An asynchronous reset shows before the edge.
        for model in models:
            for i, at in enumerate(pins):
                if at.rst and not was[i]:
                    model.reset(i)
        was = [at.rst for at in pins]
        _check(dut, models, f"before edge {edge}")
        dut.clk_a.value = dut.clk_b.value = 1
        await Timer(1, "ns")
        for k, model in enumerate(models):
            one_writes = 36 in KINDS[k].widths
            at_b = Pins(**{**vars(pins[1]), "we": 0}) if one_writes else pins[1]
            model.edge([pins[0], at_b])
        _check(dut, models, f"edge {edge}")
        dut.clk_a.value = dut.clk_b.value = 0
        await Timer(1, "ns")


@cocotb.test()
async def one_clock_at_a_time(dut):
    """A port with a resting clock does nothing, and takes nothing from the other."""
    for name in PORT:
        for port in "ab":
            getattr(dut, f"{name}_{port}").value = 0
    await Timer(1, "ns")
    dut.ce_a.value = dut.ce_b.value = dut.we_a.value = 1
    dut.ad_a.value = dut.ad_b.value = 0b11  # word 0, both byte enables
    dut.di_a.value = 0x2A5C3
    first = dut.do_b0.value
    dut.clk_a.value = 1
    await Timer(1, "ns")
    assert dut.do_b0.value == first
    dut.clk_a.value = 0
    await Timer(1, "ns")
    dut.we_a.value = 0
    dut.clk_b.value = 1
    await Timer(1, "ns")
    assert int(dut.do_b0.value) == 0x2A5C3
    dut.clk_b.value = 0
    await Timer(1, "ns")


@cocotb.test()
async def products(dut):
    rng = random.Random(2)
    ends = [0, 1, 0x1FFFF, 0x20000, 0x3FFFF]
    pairs = [(a, b) for a in ends for b in ends] + [(rng.getrandbits(18), rng.getrandbits(18)) for _ in range(200)]
    for a, b in pairs:
        for signed in range(4):
            dut.a.value, dut.b.value, dut.sign.value = a, b, signed
            await Timer(1, "ns")
            left = a - (1 << 18) if signed & 1 and a >> 17 else a
            right = b - (1 << 18) if signed & 2 and b >> 17 else b
            assert int(dut.p.value) == left * right & (1 << 36) - 1, f"{a:x} * {b:x}, signed {signed:02b}"
