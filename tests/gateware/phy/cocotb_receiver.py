"""From the transmitter's bits to TLPs, through everything."""

import cocotb
import traffic as tr
from tap import LANES, STATES, Wiring, tap


def states(heard):
    return [STATES[argument] for _, argument in heard.of("STATE")]


@cocotb.test()
@cocotb.parametrize(lanes=[n for n in (1, 2, 4) if n <= LANES])
async def clean(dut, lanes):
    """Trains, sends, replays, nullifies, retrains, sleeps: everything once, nothing else, every state."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=lanes)
    sent.train()
    sent.some(60)
    sent.retrain()
    sent.some(40)
    sent.sleep()
    sent.some(40)
    sent.link.idle(80)
    wiring = Wiring(fast=lanes != 2, skew=(1, 4, 0, 3)[:lanes], shift=(7, 2, 9, 0)[:lanes], invert=(False, True, True, False)[:lanes],
                    reverse=lanes != 2)  # fmt: skip
    heard = await it.play(sent, wiring)
    it.judge(sent, wiring, heard)
    assert states(heard) == sent.states
    counted = heard.counters
    assert len(heard.tlps) == 140
    assert counted["duplicates"] == len(sent.copies) - 140 and counted["nullified"] == sent.nullified and counted["bad_lcrc"] == sent.spoilt
    assert counted["dllps"] == len(sent.dllps)
    assert not any(counted[name] for name in ("lost", "late", "bad_frames", "bad_dllps", "headless"))
