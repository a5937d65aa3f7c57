"""From the transmitter's bits to TLPs, through everything."""

import os

import cocotb
import traffic as tr
import transmitter as t
from tap import LANES, STATES, Wiring, tap

TLPS = int(os.environ.get("TAP_TLPS", "120"))


def states(heard):
    return [STATES[argument] for _, argument in heard.of("STATE")]


def told(sent, it, fast):
    """Acks and Naks as events."""
    return [(it.tick_of(at, fast), "NAK" if body[0] else "ACK", body[2] << 8 | body[3]) for body, at in sent.dllps if body[0] in (0, 0x10)]


@cocotb.test()
@cocotb.parametrize(lanes=[n for n in (1, 2, 4) if n <= LANES])
async def clean(dut, lanes):
    """Trains, sends, replays, nullifies, retrains, sleeps: everything once, nothing else, every state."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=lanes)
    sent.train()
    sent.some(40)
    sent.retrain()
    sent.some(30)
    sent.sleep()
    sent.some(30)
    sent.link.idle(80)
    wiring = Wiring(fast=lanes != 2, skew=(1, 4, 0, 3)[:lanes], shift=(7, 2, 9, 0)[:lanes], invert=(False, True, True, False)[:lanes],
                    reverse=lanes != 2)  # fmt: skip
    heard = await it.play(sent, wiring)
    it.judge(sent, wiring, heard)
    assert states(heard) == sent.states
    counted = heard.counters
    assert len(heard.tlps) == 100
    assert counted["duplicates"] == len(sent.copies) - 100 == len(heard.of("DUPLICATE"))
    assert counted["nullified"] == sent.nullified == len(heard.of("NULLIFIED"))
    assert counted["bad_lcrc"] == sent.spoilt == len(heard.of("BAD_LCRC"))
    assert counted["dllps"] == len(sent.dllps)
    assert [e for e in heard.events if e[1] in ("ACK", "NAK")] == told(sent, it, wiring.fast)
    assert [a.to_bytes(4, "little") for _, a in heard.of("FLOW_CONTROL_INIT")] == [body for body, _ in sent.dllps[:4]]
    assert not any(counted[name] for name in ("lost", "late", "bad_frames", "bad_dllps", "headless"))


@cocotb.test()
@cocotb.parametrize(lanes=[n for n in (1, 2, 4) if n <= LANES])
async def bit_errors(dut, lanes):
    """One bit in 10 000 is wrong: what came whole is delivered once, at its time; what did not is counted."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=10 + lanes)
    sent.train()
    for _ in range(TLPS // 100 + 1):
        sent.some(min(TLPS, 100), replays=0.06)
        sent.retrain()
    sent.link.idle(80)
    wiring = Wiring(skew=(3, 0, 2, 4)[:lanes], shift=(5, 5, 1, 8)[:lanes], errors=1e-4)
    heard = await it.play(sent, wiring, seed=lanes)
    it.judge(sent, wiring, heard)
    counted = heard.counters
    damaged = sum(c.damaged for c in sent.copies)
    assert damaged > TLPS / 100
    assert counted["bad_lcrc"] + counted["bad_frames"] + counted["headless"] >= damaged + sent.spoilt


@cocotb.test()
async def attaches_later(dut):
    """No training to listen to: told polarity and lanes, everything behind the second SKP set comes."""
    it = await tap(dut)
    sent = tr.Traffic(LANES, seed=5, skp_interval=120)
    sent.link.skp()
    sent.some(60)
    sent.link.idle(60)
    wiring = Wiring(skew=(2, 0, 1, 0)[:LANES], cut=20 * 7 + 3, invert=(True, False) * 2, reverse=LANES == 4)
    await it.tell(polarity=sum(w << (LANES - 1 - n if wiring.reverse else n) for n, w in enumerate(wiring.invert[:LANES])),
                  reverse=wiring.reverse)  # fmt: skip
    heard = await it.play(sent, wiring)
    second = [n for n, c in enumerate(sent.link.columns) if c[0] == t.COM][2]  # the first one is cut off
    it.judge(sent, wiring, heard, after=second + 6)
    assert len(heard.tlps) > 30
    assert states(heard)[0] == "L0"


@cocotb.test()
async def power_and_speed(dut):
    """L1 is told from L0s by the DLLPs before it; a change of speed is asked for in RECOVERY; L2 goes down; unscrambled links."""
    it = await tap(dut)
    sent = tr.Traffic(LANES, seed=6)
    sent.train()
    sent.some(3)
    sent.dllp(bytes([0x23, 0, 0, 0]))
    sent.link.electrical_idle(60)
    sent.retrain()
    sent.some(3)
    sent.link.training(t.TS1, 4, link=1, numbered=True, rates=0x86)
    sent.link.electrical_idle(60)
    sent.retrain()
    sent.some(3)
    sent.dllp(bytes([0x21, 0, 0, 0]))
    sent.link.electrical_idle(60)
    sent.link.training(t.TS1, 4)
    sent.link.training(t.TS1, 4, link=1, numbered=True)
    sent.link.training(t.TS2, 8, link=1, numbered=True, control=8)
    sent.link.unscrambled_from = len(sent.link.columns)
    sent.link.idle(60)
    sent.some(3)
    sent.link.idle(60)
    wiring = Wiring(fast=False)
    heard = await it.play(sent, wiring)
    it.judge(sent, wiring, heard)
    assert states(heard) == ["POLLING", "CONFIG", "L0", "L1", "RECOVERY", "L0", "RECOVERY", "L0", "DETECT", "POLLING", "CONFIG", "L0"]
    assert [rates for _, rates in heard.of("SPEED")] == [0x86]
    assert [kind for _, kind in heard.of("POWER")] == [0x23, 0x21]
    assert len(heard.tlps) == 12
    assert heard.of("LANES")[-1][1] >> 5 & 1 == 1
