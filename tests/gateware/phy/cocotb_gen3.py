"""The framing of 8 GT/s on raw lane words; cocotb_receiver.py tests the whole receiver."""

import random

import cocotb

from tests.gateware.phy import gen3_bench as b
from tests.gateware.phy.transmitter.gen3_link import Gen3Link

WIDTHS = [1, 2, 4]
TICK = 4000
"""Start tick: after the first few blocks the twelve bits of time that travel with a word wrap."""


def check(bench, link, tlps, dllps, *, tick=TICK, late=0):
    """Check that everything came once, in order, at the right ticks."""
    assert [(f.sequence, f.data) for f in bench.good] == [(seq, tlp) for tlp, seq, _ in tlps]
    assert bench.good == [b.Frame(tlp, seq, b.tick_of(link, place, tick=tick, late=late)) for tlp, seq, place in tlps]
    assert bench.dllps == [(body, b.tick_of(link, place, tick=tick, late=late)) for body, place in dllps]


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def any_offset_and_skew(dut, lanes):
    """From training on, every TLP and DLLP comes out.

    This holds wherever words begin, for skews up to 48 bits, reversed, inverted, and for all lengths of SOS.
    """
    bench = b.Bench(dut, lanes)
    await bench.start()
    for seed in range(4):
        r = random.Random(seed)
        late = [r.randrange(49) for _ in range(lanes)]
        late[r.randrange(lanes)] = 0
        if seed == 0 and lanes > 1:
            late = [0, 48, 48, 0][:lanes]
        late = [n + 7 * seed for n in late]  # words begin at any bit
        reverse = seed % 2 == 1
        link = Gen3Link(lanes, sos_interval=6, sos_symbols=(8, 12, 16, 20, 24), first_sequence=4090)
        link.train(first=2, second=1)
        tlps, dllps = b.traffic(link, r, 40)
        b.end(link)
        await bench.reset(reverse=reverse)
        wires = link.bits(late=late, reverse=reverse, invert=[r.random() < 0.5 for _ in range(lanes)])
        await bench.play(wires, tick=TICK + 977 * seed, gaps=r if seed == 3 else None)
        check(bench, link, tlps, dllps, tick=TICK + 977 * seed, late=late[0]) if seed != 3 else None
        assert [f.data for f in bench.good] == [tlp for tlp, _, _ in tlps]
        assert len(bench.frames) == len(tlps)
        assert not any(bench.counts.values()), bench.counts
        assert bench.port["aligned"].value == 1


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def attach_in_the_middle(dut, lanes):
    """From any bit of a running stream, everything after the first complete SKP ordered set comes out."""
    bench = b.Bench(dut, lanes)
    await bench.start()
    for seed in range(2):
        r = random.Random(seed)
        link = Gen3Link(lanes, sos_interval=12, sos_symbols=(16, 8, 24))
        link.train(first=1, second=1)
        tlps, dllps = b.traffic(link, r, 90)
        b.end(link)
        starts = link.starts()
        cut = starts[20] + r.randrange(130)
        sos = next(n for n, block in enumerate(link.blocks) if block[0].kind == "SOS" and starts[n] - 2 > cut)
        late = [r.randrange(49) for _ in range(lanes)]
        await bench.reset()
        await bench.play([w[cut:] for w in link.bits(late=late)])
        from_cut = late[0] - cut
        assert bench.good == [b.Frame(tlp, seq, b.tick_of(link, p, late=from_cut)) for tlp, seq, p in tlps if p.block > sos]
        assert bench.dllps == [(body, b.tick_of(link, p, late=from_cut)) for body, p in dllps if p.block > sos]
        assert len(bench.good) > 10 and len(bench.frames) == len(bench.good)


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def damaged_packets(dut, lanes):
    """Each fault is recognised, and the next frame is intact.

    The faults are a wrong LCRC, a nullified TLP, a misplaced EDB, tokens with one and two bit errors, and a wrong DLLP CRC.
    """
    bench = b.Bench(dut, lanes)
    await bench.start()
    r = random.Random(5)
    link = Gen3Link(lanes, sos_interval=0)
    link.train(first=1, second=1)
    want = []
    for n in range(60):
        tlp, sequence = b.random_tlp(r), link.replayer.next
        kind = ("right", "lcrc", "null", "null without edb", "edb", "token", "dllp")[n % 7]
        if kind == "right":
            link.send(tlp)
        elif kind == "lcrc":
            link.send(tlp, wrong_lcrc=1 << r.randrange(32))
        elif kind == "null":
            link.nullify(tlp)
        elif kind == "null without edb":
            link.send(tlp, nullified=True, edb=False)
        elif kind == "edb":
            link.send(tlp, edb=True)
        elif kind == "token":
            bit = r.choice([k for k in range(24) if k not in range(16, 20)])  # all bits but the sequence number's
            link.send(tlp, wrong_token=1 << bit)
        else:
            link.dllp(r.randbytes(4), wrong_crc=1 << r.randrange(16))
            continue
        want.append((sequence, tlp, {"right": b.GOOD, "token": b.GOOD, "null": b.NULLIFIED}.get(kind, b.BAD_LCRC)))
        link.idle(r.randrange(3))
    b.end(link)
    await bench.play(link.bits())
    assert [(f.sequence, f.data, f.verdict) for f in bench.frames] == want
    counted = bench.counters()
    assert counted["bad_dllps"] == 8 and counted["corrected_tokens"] == bench.counts["corrected_token"]
    assert bench.counts["bad_dllp"] == 8 and bench.dllps == [] and bench.counts["lost_token"] == 0
    assert bench.counts["corrected_token"] == sum(n % 7 == 5 for n in range(60))


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def lost_tokens(dut, lanes):
    """A token has two bit errors: its TLP is lost, and framing recovers at one of the next tokens, long before the next SOS."""
    bench = b.Bench(dut, lanes)
    await bench.start()
    r = random.Random(6)
    link = Gen3Link(lanes, sos_interval=0)
    link.train(first=1, second=1)
    want = []
    for n in range(40):
        tlp, sequence = b.random_tlp(r), link.replayer.next
        wrong = (1 << 5 | 1 << 20) if n % 5 == 2 else 0
        place = link.send(tlp, wrong_token=wrong)
        want.append((tlp, sequence, place, wrong))
        link.idle(r.randrange(4))
    b.end(link)
    await bench.play(link.bits())
    assert bench.good == [b.Frame(tlp, seq, b.tick_of(link, place)) for tlp, seq, place, wrong in want if not wrong]
    assert bench.counters()["lost_tokens"] == bench.counts["lost_token"] == bench.counts["regained"] == 8


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def what_an_skp_ordered_set_tells(dut, lanes):
    """An SKP ordered set shows three faults.

    A bit error in data gives wrong parity. Bit errors in the scrambler value of an SOS are counted, and the value is not believed.
    If all lanes lack a block, the scrambler is out of step until the next SOS, then right.
    """
    bench = b.Bench(dut, lanes)
    await bench.start()
    link = Gen3Link(lanes, sos_interval=12)
    link.train(first=1, second=1)
    link.idle(16 * 130)
    tlps, _ = b.traffic(link, random.Random(9), 10)
    b.end(link)
    starts = link.starts()
    skips = [n for n, block in enumerate(link.blocks) if block[0].kind == "SOS"]
    assert len(skips) > 8
    wires = link.bits()
    for wire in wires:
        wire[starts[skips[2] - 4] + 77] ^= 1  # of idle
        for bit in (1, 10, 20):
            wire[starts[skips[4]] + 8 * 13 + bit] ^= 1  # of the 23 bits after E1
        gone = starts[skips[6] - 5] - 2
        del wire[gone : gone + 130]
    await bench.play(wires, tick=16)
    assert [f.data for f in bench.good] == [tlp for tlp, _, _ in tlps]
    assert bench.counts["damaged_skp"] == 2 * lanes and bench.counts["corrected_register"] == lanes
    # The parity of the interval with the missing block is wrong or right by chance.
    assert lanes <= bench.counts["parity"] <= 2 * lanes
    counted = bench.counters()
    assert counted["damaged_skips"] == 2 * lanes and counted["corrected_registers"] == lanes
    assert counted["bad_parity"] == bench.counts["parity"]
    assert bench.counts["moved"] == bench.counts["bad_header"] == 0


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def stream_that_slips(dut, lanes):
    """Some bits go missing on one lane: lock is lost, and recovered at the next SKP ordered set; then all packets come again."""
    bench = b.Bench(dut, lanes)
    await bench.start()
    link = Gen3Link(lanes, sos_interval=40)
    link.train(first=1, second=1)
    before = b.traffic(link, random.Random(1), 10)[0]
    link.idle(16 * 10)
    slip = len(link.blocks)
    link.idle(16 * 80)
    after = b.traffic(link, random.Random(2), 10)[0]
    b.end(link)
    wires = link.bits()
    at = link.starts()[slip] + 11
    del wires[-1][at : at + 5]
    await bench.play(wires)
    assert [f.data for f in bench.good] == [tlp for tlp, _, _ in before + after]
    counted = bench.counters()
    assert counted["unlocked"] == bench.counts["moved"] >= 1 and all(f in bench.good or f.verdict != b.GOOD for f in bench.frames)


@cocotb.test()
async def width_changes(dut):
    """x4, then x1 and x2 on the same wires, without a reset."""
    bench = b.Bench(dut, 4)
    await bench.start()
    for lanes in (4, 1, 2, 4):
        bench.clear()
        bench.lanes = lanes
        await bench.tell()
        link = Gen3Link(lanes)
        link.train(first=20, second=16)
        tlps, dllps = b.traffic(link, random.Random(lanes), 12)
        b.end(link)
        await bench.play(link.bits(), tick=TICK)
        check(bench, link, tlps, dllps)


@cocotb.test()
async def saturated(dut):
    """x4 without a pause: 64-byte completions, requests, doorbells, DLLPs in pairs all arrive; then 4 n + 1 double words for a
    while.
    """
    bench = b.Bench(dut, 4)
    await bench.start()
    r = random.Random(3)
    link = Gen3Link(4, sos_interval=370)
    link.train(first=2, second=2)
    tlps, dllps = [], []
    for n in range(1000):
        size = (19, 4, 3, 19, 4, 20, 4, 35, 19, 4)[n % 10] if n < 900 else (5, 9)[n % 2]
        tlp, sequence = r.randbytes(4 * size), link.replayer.next
        tlps.append((tlp, sequence, link.send(tlp)))
        for _ in range((0, 2, 0, 1, 4)[n % 5] if n < 900 else 0):
            body = r.randbytes(4)
            dllps.append((body, link.dllp(body)))
    link.idle(16 * 8)  # words are queued by now
    b.end(link)
    await bench.play(link.bits(), tick=TICK)
    assert bench.counts["overflow"] == bench.counts["lost_token"] == 0
    check(bench, link, tlps, dllps)


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS)
async def hardly_anything_but_dllps(dut, lanes):
    """At x4 two DLLPs arrive per cycle and one is taken. The others are lost and counted, one by one, and no TLP between them is
    lost.
    """
    bench = b.Bench(dut, lanes)
    await bench.start()
    r = random.Random(4)
    link = Gen3Link(lanes, sos_interval=40)
    link.train(first=2, second=2)
    tlps, dllps = [], []
    for n in range(800):
        body = r.randbytes(4)
        dllps.append((body, link.dllp(body)))
        if n % 100 == 99:
            tlp, sequence = b.random_tlp(r), link.replayer.next
            tlps.append((tlp, sequence, link.send(tlp)))
    b.end(link)
    await bench.play(link.bits(), tick=TICK)
    assert bench.good == [b.Frame(tlp, seq, b.tick_of(link, place, tick=TICK)) for tlp, seq, place in tlps]
    sent = [(body, b.tick_of(link, place, tick=TICK)) for body, place in dllps]
    came = set(bench.dllps)
    assert bench.dllps == [one for one in sent if one in came], "in order, none twice"
    counted = bench.counters()
    assert counted["dllps"] == len(bench.dllps) and counted["dropped"] == bench.counts["lost_dllps"] == len(sent) - len(bench.dllps)
    assert bench.counts["overflow"] == bench.counts["bad_dllp"] == 0
    assert (counted["dropped"] > 200) == (lanes == 4)
