"""One lane: the transmitter's symbols come out, from the first COM on."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from tests.gateware.phy import transmitter as t
from tests.gateware.phy.symbols import Received, unpack

LATENCY = 9
PORTS = ("raw__payload", "raw__valid", "out__payload", "out__valid", "bypass", "polarity_set", "polarity", "locked", "offset", "inverted")


class Lane:
    def __init__(self, dut, symbols):
        self.dut, self.symbols = dut, symbols
        self.port = {p: getattr(dut, f"lane{symbols}__{p}") for p in PORTS}
        self.locks, self.offsets = [], []

    async def play(self, wire, *, gaps=None) -> list[Received]:
        """Clock in the words of `wire`; return the output, and `locks` and `offsets` per word. `gaps`: a random generator."""
        port, out = self.port, []
        self.locks, self.offsets = [], []
        await FallingEdge(self.dut.clk)
        for word in [*t.words(wire, 10 * self.symbols), *[None] * (LATENCY - 1)]:
            while gaps and gaps.random() < 0.3:
                port["raw__valid"].value, port["raw__payload"].value = 0, gaps.getrandbits(10 * self.symbols)
                await self._clock(out)
            port["raw__valid"].value = word is not None
            port["raw__payload"].value = word or 0
            await self._clock(out)
        port["raw__valid"].value = 0
        return out

    async def _clock(self, out):
        await FallingEdge(self.dut.clk)
        if self.port["out__valid"].value:
            out += unpack(int(self.port["out__payload"].value), self.symbols)
            self.locks.append(int(self.port["locked"].value))
            self.offsets.append(int(self.port["offset"].value))

    async def reset(self):
        self.dut.rst.value = 1
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def polarity(self, value):
        self.port["polarity_set"].value, self.port["polarity"].value = 1, value
        await FallingEdge(self.dut.clk)
        self.port["polarity_set"].value = 0


async def start(dut, symbols) -> Lane:
    Clock(dut.clk, 4, unit="ns").start()
    for part in ("lane2", "lane4"):
        for name in ("raw__valid", "bypass", "polarity_set"):
            getattr(dut, f"{part}__{name}").value = 0
    dut.decoder4__codes__valid.value = 0
    lane = Lane(dut, symbols)
    await FallingEdge(dut.clk)
    await lane.reset()
    return lane


def sent(link) -> list[Received]:
    return [Received(c[0].value, c[0].k) for c in link.columns]


def bare(symbols) -> list[Received]:
    return [Received(s.data, s.k, s.error, s.disparity) for s in symbols]


def find(out, want) -> int:
    """Return the place where `want` begins in `out`. Its first symbols are searched for; the first has the disparity that noise
    left.
    """
    head = [(s.data, s.k) for s in want[:12]]
    for at in range(len(out) - len(head)):
        if [(s.data, s.k) for s in out[at : at + len(head)]] == head:
            return at
    raise AssertionError("not found")


def traffic(link, r, packets):
    for _ in range(packets):
        link.send(r.randbytes(4 * r.randrange(3, 24))) if r.random() < 0.7 else link.dllp(r.randbytes(4))
        if r.random() < 0.5:
            link.idle(r.randrange(20))


@cocotb.test()
@cocotb.parametrize(symbols=[2, 4])
async def every_bit_position(dut, symbols):
    """At all ten boundaries everything from the first COM on comes out: SKP sets of any length, all ordered sets, with gaps between
    words.
    """
    lane = await start(dut, symbols)
    offsets = set()
    for shift in range(10):
        r = random.Random(shift)
        link = t.Link(1, skp_interval=60, skp_count=(3, 1, 5, 2, 4))
        link.skp()
        traffic(link, r, 6)
        link.training(t.TS2, 2, link=1, numbered=True)
        link.eieos()
        link.training(t.TS1, 1)
        link.fast_training(3)
        traffic(link, r, 6)
        link.idle(40)
        await lane.reset()
        out = await lane.play(link.bits(shift=[shift])[0], gaps=r if shift % 2 else None)
        want = sent(link)
        at = find(out, want)
        got = out[at : at + len(want)]
        assert len(got) >= len(want) - 2 * symbols
        assert bare(got[1:]) == want[1 : len(got)]
        plain = [c[0].plain or (c[0].k and c[0] in (t.PAD, t.EIE)) for c in link.columns]
        assert [s.plain for s in got] == plain[: len(got)]
        assert set(lane.locks[(at // symbols) + 70 :]) == {1}
        offsets.add(lane.offsets[-1])
    assert offsets == set(range(10))


@cocotb.test()
@cocotb.parametrize(symbols=[2, 4])
async def swapped_wires(dut, symbols):
    """The polarity is found from TS1 and from TS2. Without training the host sets it."""
    lane = await start(dut, symbols)
    for round_ in range(4):
        link = t.Link(1)
        link.training((t.TS1, t.TS2)[round_ % 2], 12)
        mark = len(link.columns)
        link.skp()
        traffic(link, random.Random(round_), 8)
        link.idle(40)
        await lane.reset()
        out = await lane.play(link.bits(invert=[round_ < 2])[0])
        assert lane.port["inverted"].value == (round_ < 2)
        want = sent(link)[mark:]
        got = out[find(out, want) :][: len(want)]
        assert len(got) > len(want) - 20 and bare(got) == want[: len(got)]
    link = t.Link(1)
    link.skp()
    traffic(link, random.Random(9), 8)
    link.idle(40)
    await lane.reset()
    await lane.polarity(1)
    out = await lane.play(link.bits(invert=[True])[0])
    got = out[find(out, sent(link)) :]
    assert bare(got)[1 : len(link.columns) - 20] == sent(link)[1 : len(link.columns) - 20]


@cocotb.test()
@cocotb.parametrize(symbols=[2, 4])
async def boundary_moves_with_the_stream(dut, symbols):
    """After electrical idle the same traffic comes at another bit offset, then without a pause at a third."""
    lane = await start(dut, symbols)
    r = random.Random(7)
    wire, marks = bytearray(), []
    for extra in (0, 3, 8):
        link = t.Link(1, skp_interval=80)
        if extra != 8:
            link.training(t.TS1, 4)
        else:
            link.skp()
            link.idle(30)
            link.skp()
        traffic(link, r, 20)
        if extra == 0:
            link.electrical_idle(200)
        wire += bytearray(extra) + link.bits()[0]
        marks.append(link)
    out = await lane.play(wire)
    at = 0
    for link in marks:
        end = next((n for n, c in enumerate(link.columns) if c[0] is None), len(link.columns))
        want = [Received(c[0].value, c[0].k) for c in link.columns[:end]]
        tail = next(n for n in range(60, len(want)) if want[n] == Received(0xBC, True))  # from the first SKP set after lock
        piece = out[at:]
        got = piece[find(piece, want[tail:]) :][: len(want) - tail]
        assert len(got) > 100
        keep = len(got) - 12 if link is marks[-1] else len(got)
        assert bare(got[:keep]) == want[tail : tail + keep]
        at += find(piece, want[tail:]) + len(got)
    assert len({*lane.offsets[-3:]}) == 1


@cocotb.test()
@cocotb.parametrize(symbols=[2, 4])
async def a_boundary_holds_against_two_forged_coms(dut, symbols):
    """Bit errors make a COM four bits off the boundary: two in a row are ignored, a third counts as a slip."""
    lane = await start(dut, symbols)
    com = bytes(map(int, "0011111010"))
    for forged in (2, 3):
        link = t.Link(1)
        for _ in range(2):
            link.skp()
            link.idle(30)
        mark = len(link.columns)
        link.idle(120)
        wire = link.bits()[0]
        for n in range(forged):
            at = 10 * (mark + 20 + 20 * n) + 4
            wire[at : at + 10] = com
        await lane.reset()
        await lane.play(wire)
        locked = lane.locks[40 // symbols + LATENCY :]
        assert (0 in locked) == (forged == 3) and len(locked) > 20


@cocotb.test()
@cocotb.parametrize(symbols=[2, 4])
async def bit_errors_stay_where_they_are(dut, symbols):
    """At an error rate of 1e-4 the boundary stays. A symbol without an error, after an intact SKP set, is right. Every damaged
    symbol is wrong or flagged.
    """
    lane = await start(dut, symbols)
    link = t.Link(1, skp_interval=120)
    link.skp()
    traffic(link, random.Random(1), 450)
    link.idle(40)
    wire, places = t.damaged(link.bits()[0], 1e-4, random.Random(2))
    places = [p for p in places if p > 100]
    hit = {p // 10 for p in places}
    clean = link.bits()[0][:100]
    wire[:100] = clean
    out = await lane.play(wire)
    want = sent(link)
    at = find(out, want)
    offset = lane.offsets[60]
    assert set(lane.offsets[60:]) == {offset} and set(lane.locks[60:]) == {1}
    sound, right, flagged = True, 0, 0
    for n, (got, should) in enumerate(zip(out[at:], want)):
        if should.k and should.data in (0xBC, 0x1C):
            sound = n not in hit and (should.data == 0xBC or sound)
        if n in hit:
            flagged += got.error or got.disparity or (got.data, got.k) != (should.data, should.k)
            sound = sound and not (got.k and got.data in (0xBC, 0x1C))
        elif sound:
            assert (got.data, got.k, got.error) == (should.data, should.k, False), n
            right += 1
    assert len(hit) > 15 and flagged == len([h for h in hit if h < len(out) - at])
    assert right > 0.85 * len(want)


@cocotb.test()
@cocotb.parametrize(symbols=[2, 4])
async def scrambling_disabled(dut, symbols):
    """Links may train to send without scrambling; both sides then leave scrambling out."""
    lane = await start(dut, symbols)
    code, wire = t.LineCode(), bytearray()
    want = [Received(0xBC, True), *[Received(0x1C, True)] * 3] + [Received(v, False) for v in random.Random(4).randbytes(200)]
    for s in want:
        wire += code.bits(s.data, s.k)
    lane.port["bypass"].value = 1
    out = await lane.play(wire)
    at = find(out, want)
    assert bare(out[at : at + 190])[1:] == want[1:190]
