"""From the transmitter's bits to TLPs through the whole receiver, at each rate."""

import os

import cocotb

from tests.gateware.phy import traffic as tr
from tests.gateware.phy import transmitter as t
from tests.gateware.phy.tap import BLOCKS, LANES, STATES, TICKS, Wiring, tap

TLPS = int(os.environ.get("TAP_TLPS", "120"))
WIDTHS = [n for n in (1, 2, 4) if n <= LANES]
RATES = [0, 1, 2] if BLOCKS else [0, 1]
BROKEN = (
    "lost",
    "late",
    "bad_frames",
    "bad_dllps",
    "headless",
    "corrected_tokens",
    "lost_tokens",
    "corrected_registers",
    "damaged_skips",
    "bad_parity",
    "lanes_differ",
)


def states(heard):
    return [STATES[argument] for _, argument in heard.of("STATE")]


def told(it, sent):
    """Return Acks and Naks as events."""
    return [(it.tick_of(at), "NAK" if body[0] else "ACK", body[2] << 8 | body[3]) for body, at in sent.dllps if body[0] in (0, 0x10)]


async def up(it, sent, *, reverse=False):
    """Bring the link up at 2.5 GT/s. At another rate, a link that is up comes out of Recovery there."""
    if sent.rate == 0:
        sent.train()
    else:
        await it.tell(lanes=sent.lanes, reverse=reverse)
        sent.retrain()


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS, rate=RATES)
async def clean(dut, lanes, rate):
    """The link trains, sends, replays, nullifies, retrains and sleeps: everything comes once, nothing else, in every state."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=lanes, rate=rate)
    wiring = Wiring(skew=(1, 4, 0, 3)[:lanes], shift=(7, 2, 9, 0)[:lanes], invert=(False, True, True, False)[:lanes], reverse=lanes != 2)
    await up(it, sent, reverse=wiring.reverse)
    sent.some(40)
    sent.retrain()
    sent.some(30)
    sent.sleep()
    sent.some(30)
    sent.end()
    heard = await it.play(sent, wiring)
    it.judge(sent)
    assert states(heard) == sent.states
    counted = heard.counters
    assert len(heard.tlps) == 100
    assert counted["duplicates"] == len(sent.copies) - 100 == len(heard.of("DUPLICATE"))
    assert counted["nullified"] == sent.nullified == len(heard.of("NULLIFIED"))
    assert counted["bad_lcrc"] == sent.spoilt == len(heard.of("BAD_LCRC"))
    assert counted["dllps"] == len(sent.dllps)
    assert [e for e in heard.events if e[1] in ("ACK", "NAK")] == told(it, sent)
    inits = [a.to_bytes(4, "little") for _, a in heard.of("FLOW_CONTROL_INIT")]
    assert inits == [body for body, _ in sent.dllps if body[0] & 0x40]
    assert not any(counted[name] for name in BROKEN), counted
    assert [rate for _, rate in heard.of("RATE")] == [rate] * (rate != 0)
    assert heard.of("LOCK")[-1][1] & 16


@cocotb.test()
@cocotb.parametrize(lanes=WIDTHS, rate=RATES)
async def bit_errors(dut, lanes, rate):
    """With one bit error in 10 000, intact TLPs are delivered once, with their ticks; the others are counted."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=10 + lanes, rate=rate)
    await up(it, sent)
    for _ in range(TLPS // 100 + 1):
        sent.some(min(TLPS, 100), replays=0.06)
        sent.retrain()
    sent.end()
    heard = await it.play(sent, Wiring(skew=(3, 0, 2, 4)[:lanes], shift=(5, 5, 1, 7)[:lanes], errors=1e-4), seed=lanes)
    counted = heard.counters
    it.judge(sent, missing=3 * counted["lost_tokens"] + 40 * counted["corrected_registers"])
    assert states(heard) == sent.states
    came = {tick for _, tick in heard.tlps}
    damaged = sum(c.damaged for c in sent.copies)
    put_right = sum(c.damaged and c.tick in came for c in sent.copies)
    assert damaged > TLPS / 100
    # At 8 GT/s a damaged end may take the next frame with it.
    assert counted["bad_lcrc"] + counted["bad_frames"] + counted["headless"] + counted["lost_tokens"] >= damaged - put_right + sent.spoilt


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def attaches_later(dut, rate):
    """Without training, but with polarity and lanes set, everything after the second SKP set is received."""
    it = await tap(dut)
    sent = tr.Traffic(LANES, seed=5, rate=rate, skp_interval=120)
    if rate == 2:
        sent.link.start_stream()
        sent.some(60)
        behind = [n for n, blocks in enumerate(sent.link.blocks) if blocks[0].kind == "SOS"][1]
    else:
        sent.link.skp()
        sent.some(60)
        behind = [n for n, c in enumerate(sent.link.columns) if c[0] == t.COM][2] + 6  # the first one is truncated
    sent.end()
    wiring = Wiring(skew=(2, 0, 1, 0)[:LANES], cut=20 * 7 + 3, invert=((True, False) * 2)[:LANES], reverse=LANES == 4)
    await it.tell(polarity=sum(w << (LANES - 1 - n if wiring.reverse else n) for n, w in enumerate(wiring.invert)), reverse=wiring.reverse)
    heard = await it.play(sent, wiring)
    it.judge(sent, after=it.tick_of(tr.Place(behind, 0) if rate == 2 else behind))
    assert len(heard.tlps) > 30
    assert states(heard) == ["L0"]


@cocotb.test()
@cocotb.parametrize(rate=RATES, lanes=[WIDTHS[0], WIDTHS[-1]])
async def pending(dut, rate, lanes):
    """From 60 cycles after its start until it leaves, a TLP is announced: ``pending``, from a tick not after its own."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=8, rate=rate)
    await up(it, sent)
    for size in (1, 200, 2, 40, 1, 1, 120, 16, *([1] * 80 if lanes > 1 else ())):
        sent.send(tr.write_of(sent.r, size))
    sent.end()
    it.pendings = []
    heard = await it.play(sent, Wiring())
    it.judge(sent)
    held = 0
    for (_, tick), out in zip(heard.tlps, it.outs):
        during = [since for now, since in it.pendings if tick + 60 * TICKS <= now < out]
        assert all(since is not None and since <= tick for since in during), (tick, out)
        held += len(during)
    assert held > 100 and it.pendings[-1][1] is None


@cocotb.test()
async def power_and_speed(dut):
    """The DLLPs before EIOS distinguish L1 from L0s. A speed change is requested in RECOVERY. L2 goes down. Links may be
    unscrambled.
    """
    it = await tap(dut)
    dut.other.value = 1  # the host grants each request
    sent = tr.Traffic(LANES, seed=6, rate=0)
    sent.train()
    sent.some(3)
    sent.dllp(bytes([0x23, 0, 0, 0]))
    sent.link.electrical_idle(160)
    sent.retrain()
    sent.some(3)
    sent.leave(6)
    sent.retrain()
    sent.some(3)
    sent.dllp(bytes([0x21, 0, 0, 0]))
    sent.link.electrical_idle(160)
    sent.link.training(t.TS1, 4)
    sent.link.training(t.TS1, 4, link=1, numbered=True)
    sent.link.training(t.TS2, 8, link=1, numbered=True, control=8)
    sent.link.unscrambled_from = len(sent.link.columns)
    sent.link.idle(60)
    sent.some(3)
    sent.end()
    heard = await it.play(sent, Wiring())
    it.judge(sent)
    assert states(heard) == ["POLLING", "CONFIG", "L0", "L1", "RECOVERY", "L0", "RECOVERY", "L0", "DETECT", "POLLING", "CONFIG", "L0"]
    assert [rates for _, rates in heard.of("SPEED")] == [0x86]
    assert [kind for _, kind in heard.of("POWER")] == [0x23, 0x21]
    assert len(heard.tlps) == 12
    assert heard.of("LANES")[-1][1] >> 5 & 1 == 1


@cocotb.test(skip=not BLOCKS)
async def power_at_8(dut):
    """L1, a hot reset, L2 at 8 GT/s."""
    it = await tap(dut)
    dut.other.value = 1  # the host grants each request
    sent = tr.Traffic(LANES, seed=7, rate=2)
    await up(it, sent)
    sent.some(3)
    sent.dllp(bytes([0x23, 0, 0, 0]))
    sent.link.electrical_idle(300)
    sent.retrain()
    sent.some(3)
    sent.dllp(bytes([0x21, 0, 0, 0]))
    sent.link.electrical_idle(300)
    sent.retrain()
    sent.link.training_sets(first=4, second=0, link=1)
    sent.link.training_sets(first=4, second=0, link=1, control=1)
    heard = await it.play(sent, Wiring())
    it.judge(sent)
    assert states(heard) == ["RECOVERY", "L0", "L1", "RECOVERY", "L0", "DETECT", "CONFIG", "L0", "RECOVERY", "DETECT"]
    assert [kind for _, kind in heard.of("POWER")] == [0x23, 0x21]
    assert len(heard.tlps) == 6


@cocotb.test(skip=not BLOCKS)
@cocotb.parametrize(lanes=WIDTHS)
async def speeds(dut, lanes):
    """The link trains at 2.5 GT/s, changes to 5 and to 8 GT/s and back down, with a TLP truncated each time.

    Sequence numbers continue, and every intact TLP comes once.
    """
    it = await tap(dut)
    wiring = Wiring(
        skew=(0, 3, 1, 2)[:lanes], shift=(3, 6, 0, 5)[:lanes], invert=(True, False, True, False)[:lanes], reverse=lanes == 4, noise=60
    )
    played, sent = [], None
    order = (0, 1, 2, 1, 2, 0)
    for rate, following in zip(order, (*order[1:], None)):
        sent = tr.Traffic(lanes, seed=20 + len(played), rate=rate, after=sent)
        sent.retrain() if played else sent.train()
        sent.some(12)
        if following is None:
            sent.end()
        else:
            sent.replay(2)  # its last TLPs, which the receiver of the link has had
            sent.leave(0xE)
        played.append(sent)
        heard = await it.play(sent, wiring)
        if following is not None:
            assert dut.leaving.value == 1 and int(dut.rates.value) == 0x8E and dut.heard.value == 1
    it.judge(*played)
    assert states(heard) == ["POLLING", "CONFIG", "L0"] + ["RECOVERY", "L0"] * 5
    assert [rate for _, rate in heard.of("RATE")] == list(order[1:])
    assert [rates for _, rates in heard.of("SPEED")] == [0x8E] * 5
    assert len(heard.of("LANES")) == (lanes != LANES or wiring.reverse)
    counted = heard.counters
    assert len(heard.tlps) == 12 * len(order) and counted["duplicates"] == len(heard.of("DUPLICATE")) > 2 * 5
    assert not any(counted[name] for name in BROKEN), counted


@cocotb.test()
async def narrower(dut):
    """A link goes down and comes back narrower, silent on the other wires: these are no longer in use."""
    it = await tap(dut)
    dut.other.value = 1  # the host grants each request
    played = []
    for lanes in (LANES, 1, LANES):
        sent = tr.Traffic(lanes, seed=40 + len(played), rate=0)
        sent.train()
        sent.some(4, replays=0)
        sent.dllp(bytes([0x21, 0, 0, 0]))
        sent.link.electrical_idle(400)
        played.append(sent)
        heard = await it.play(sent, Wiring(silent=True, reverse=True))
    assert heard.tlps == [(copy.raw, copy.tick) for sent in played for copy in sent.copies]
    assert [argument & 15 for _, argument in heard.of("LANES")][-2:] == [1 << (LANES - 1), (1 << LANES) - 1]


@cocotb.test(skip=not BLOCKS)
@cocotb.parametrize(rate=RATES, following=RATES)
async def broken_off(dut, rate, following):
    """The board changes the rate in the middle of a TLP: this TLP is a bad frame, earlier and later ones arrive as sent."""
    if rate == following:
        return
    it = await tap(dut)
    sent = tr.Traffic(LANES, seed=30, rate=rate)
    await up(it, sent)
    for size in (3, 20, 12, 200):
        sent.send(tr.write_of(sent.r, size))
    if rate == 2:
        sent.link.fill()
    cut = sent.copies[-1]
    bits = sent.bit(cut.place) + 300
    heard = await it.play(sent, Wiring(), end=bits)
    went_on = tr.Traffic(LANES, seed=31, rate=following, after=sent)
    went_on.retrain()
    went_on.some(10)
    went_on.end()
    heard = await it.play(went_on, Wiring())
    cut.damaged = True
    it.judge(sent, went_on)
    assert heard.of("BAD_FRAME") == [(cut.tick, cut.serial)]
    assert heard.counters["bad_frames"] == 1 and heard.counters["lost"] == 1


@cocotb.test()
@cocotb.parametrize(rate=RATES, lanes=[WIDTHS[0], WIDTHS[-1]])
async def ticks_of_states(dut, rate, lanes):
    """States have the ticks of docs/accuracy.md, to within a word of a lane and the lanes' skew.

    L0s and L1 begin with the first symbol of EIOS, Recovery with the end of the second training sequence, L0 with the idle after
    the training sequences.
    """
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=50, rate=rate, skp_interval=0)
    apart = (1, 4, 0, 3)[:lanes]
    symbol, word = (4, 2, 1)[rate], (16, 8, 4)[rate]
    near = word + symbol * (max(apart) - min(apart))
    marks = []

    def mark():
        """Record the place where an ordered set begins. At 8 GT/s a data block ends the stream before it."""
        if rate == 2:
            sent.link.fill()
        marks.append(tr.Place(len(sent.link.blocks) + 1, 0) if rate == 2 else len(sent.link.columns))

    await up(it, sent)
    sent.some(3)
    mark()
    sent.sleep()
    sent.some(3)
    sent.dllp(bytes([0x24, 0, 0, 0]))
    mark()
    sent.link.electrical_idle(300)
    begins = len(sent.link.blocks) if rate == 2 else len(sent.link.columns)
    sent.retrain()
    if rate == 2:  # EIEOS, TS1, TS1; five and eight of them, EIEOS, SKP and SDS before the stream
        marks += [tr.Place(begins + 3, 0), tr.Place(begins + 17, 0)]
    else:  # at 5 GT/s EIEOS is as long as one
        marks += [begins + 16 * (rate + 2), begins + 16 * (rate + 13)]
    sent.some(3)
    sent.end()
    heard = await it.play(sent, Wiring(skew=apart))
    it.judge(sent)
    ticks = {STATES[state]: tick for tick, state in heard.of("STATE")}
    asleep, away, trains, idles = map(it.tick_of, marks)
    assert abs(ticks["L0S"] - asleep) <= near and abs(ticks["L1"] - away) <= near and abs(ticks["RECOVERY"] - trains) <= near
    assert -near <= ticks["L0"] - idles <= 2 * word + near
