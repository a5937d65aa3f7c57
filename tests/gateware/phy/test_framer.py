"""Framing alone, for every width of link and word: the transmitter's symbols, and damaged ones."""

import random

import pytest
from amaranth.sim import Simulator
from wattbell_gateware.link import Verdict
from wattbell_gateware.link.framer import Framer

from tests.gateware.phy import transmitter as t

ANY = 0x11


def packed(symbol, flaw=None):
    """Pack a symbol as the descrambler outputs it; `flaw`: an invalid code, or another byte."""
    if flaw == "error":
        return 1 << 9
    return (symbol.value if flaw is None else flaw) | symbol.k << 8 | symbol.plain << 11


class Bench:
    def __init__(self, lanes, symbols, width):
        self.lanes, self.symbols, self.width = lanes, symbols, width
        self.dut = Framer(lanes, symbols)
        self.tlps, self.dllps, self.faults = [], [], {}

    def play(self, columns, flaws, r):
        """`flaws`: (symbol time, lane) -> see :func:`packed`."""
        simulator = Simulator(self.dut)
        simulator.add_clock(8e-9)

        async def bench(ctx):
            dut, n = self.dut, self.symbols
            ctx.set(dut.width, self.width.bit_length() - 1)
            ctx.set(dut.enable, 1)
            ctx.set(dut.fast, 1)
            current = None
            for at in range(0, len(columns) - n, n):
                word = 0
                for lane in range(self.lanes):
                    for k in range(n):
                        used = lane < self.width
                        s = packed(columns[at + k][lane], flaws.get((at + k, lane))) if used else r.getrandbits(12)
                        word |= s << 12 * (lane * n + k)
                ctx.set(dut.word.payload.as_value(), word)
                ctx.set(dut.word.valid, 1)
                ctx.set(dut.tick, 2 * at)
                await ctx.tick()
                faults = ctx.get(dut.faults)
                for name in ("broken", "headless", "short", "bad_dllp", "lost_dllps", "overrun"):
                    self.faults[name] = self.faults.get(name, 0) + faults[name]
                if ctx.get(dut.tlps.valid):
                    beat = ctx.get(dut.tlps.payload)
                    assert (current is None) == bool(beat.first)
                    current = (current or b"") + beat.data.to_bytes(64, "little")[: 4 * beat.dws]
                    if beat.last:
                        self.tlps.append((current, beat.tick // 2, beat.sequence, Verdict(beat.verdict)))
                        current = None
                if ctx.get(dut.dllps.valid):
                    self.dllps.append((ctx.get(dut.dllps.payload.body).to_bytes(4, "little"), ctx.get(dut.dllps.payload.tick) // 2))

        simulator.add_testbench(bench)
        simulator.run()


def frames(width, r, count):
    """Return a link and its packets as (kind, body, number, from, to)."""
    link = t.Link(width, skp_interval=60)
    link.skp()
    packets = []
    for n in range(count):
        kind = r.choice(["tlp"] * 6 + ["dllp"] * 3 + ["nullified", "bad"])
        body = r.randbytes(4) if kind == "dllp" else r.randbytes(4 * r.randrange(3, 13))
        if kind == "dllp":
            at = link.dllp(body)
        else:
            at = link.packet(t.tlp_symbols(body, n, nullified=kind == "nullified", wrong_lcrc=(kind == "bad") << r.randrange(32)))
        packets.append((kind, body, n, at, len(link.columns)))
        if r.random() < 0.4:
            link.idle(r.randrange(1, 6))
    link.idle(80)
    return link, packets


SIZES = [(1, 2, 1), (4, 4, 2), (4, 4, 4)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_frames(size):
    """A clean stream comes out whole. A damaged stream gives exactly its undamaged packets, whatever precedes them."""
    r = random.Random(sum(size))
    for damage in (0, 0.01) if size == (4, 4, 4) else (0.006,):
        link, packets = frames(size[2], r, 25)
        flaws = {}
        for at, column in enumerate(link.columns):
            for lane in range(size[2]):
                if r.random() < damage:
                    flaws[at, lane] = r.choice(["error", column[lane].value ^ 1 << r.randrange(8), 0xFD, 0xFB])
        flaws = {where: flaw for where, flaw in flaws.items() if flaw != link.columns[where[0]][where[1]].value}
        bench = Bench(*size)
        bench.play(link.columns, flaws, r)
        whole = [p for p in packets if not any((at, lane) in flaws for at in range(p[3], p[4]) for lane in range(size[2]))]
        verdicts = {"tlp": Verdict.GOOD, "nullified": Verdict.NULLIFIED, "bad": Verdict.BAD_LCRC}
        wanted = [(body, at, n, verdicts[kind]) for kind, body, n, at, _ in whole if kind != "dllp"]
        assert [x for x in bench.tlps if x in wanted] == wanted
        rest = [x for x in bench.tlps if x not in wanted]
        assert all(verdict is not Verdict.GOOD for *_, verdict in rest)
        assert bench.dllps == [(body, at) for kind, body, _, at, _ in whole if kind == "dllp"]
        assert bench.faults["overrun"] == bench.faults["lost_dllps"] == 0
        if not damage:
            assert not rest and not any(bench.faults.values())
        else:
            assert len(rest) + sum(bench.faults.values()) >= len(packets) - len(whole) > 0


def test_back_to_back():
    """TLPs of five double words come back to back on x4: they take more beats than words, and none is lost."""
    r = random.Random(3)
    link = t.Link(4, skp_interval=0)
    link.skp()
    sent = [r.randbytes(20) for _ in range(40)]
    places = [link.packet(t.tlp_symbols(body, n)) for n, body in enumerate(sent)]
    link.idle(160)
    bench = Bench(4, 4, 4)
    bench.play(link.columns, {}, r)
    assert bench.tlps == [(body, at, n, Verdict.GOOD) for n, (body, at) in enumerate(zip(sent, places))]
    assert not any(bench.faults.values())


def test_hardly_anything_but_dllps():
    """On x4 two DLLPs come per cycle and one is taken. The others are lost and counted, one by one, and no TLP between them is lost."""
    r = random.Random(4)
    link = t.Link(4, skp_interval=0)
    link.skp()
    tlps, dllps = [], []
    for n in range(120):
        body = r.randbytes(4)
        dllps.append((body, link.dllp(body)))
        if n % 30 == 29:
            body = r.randbytes(20)
            tlps.append((body, link.packet(t.tlp_symbols(body, n)), n, Verdict.GOOD))
    link.idle(160)
    bench = Bench(4, 4, 4)
    bench.play(link.columns, {}, r)
    assert bench.tlps == tlps
    came = set(bench.dllps)
    assert bench.dllps == [one for one in dllps if one in came], "in order, none twice"
    assert bench.faults.pop("lost_dllps") == len(dllps) - len(bench.dllps) > 20
    assert not any(bench.faults.values())
