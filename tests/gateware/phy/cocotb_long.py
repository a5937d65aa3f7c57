"""Rounds of 1000 TLPs on links of every width, rate and wiring, with bit errors, replays, retraining and changes of speed.

The rounds go on until the required number of TLPs is reached.
"""

import json
import os
import random
from pathlib import Path

import cocotb

from tests.gateware.phy import traffic as tr
from tests.gateware.phy.cocotb_receiver import RATES, up
from tests.gateware.phy.tap import LANES, Wiring, tap

ROUND = 1000


@cocotb.test()
async def many(dut):
    r = random.Random(int(os.environ.get("TAP_SEED", "1")))
    enough = int(os.environ["TAP_TLPS"])
    it = await tap(dut)
    total = dict.fromkeys(("sent", "copies", "damaged", "delivered", "symbols"), 0)
    while total["sent"] < enough:
        await it.reset()
        lanes = r.choice([n for n in (1, 2, 4) if n <= LANES])
        reverse, errors = r.random() < 0.5, r.choice([0, 1e-5, 1e-4, 1e-4])
        played, sent = [], None
        changes = r.choice([0, 0, 1, 3])
        for part in range(changes + 1):
            rate = r.choice([n for n in RATES if sent is None or n != sent.rate])
            sent = tr.Traffic(lanes, seed=r.getrandbits(32), rate=rate, skp_interval=r.choice([150, 600, 1300, 5900]), after=sent)
            if part == 0:
                await up(it, sent, reverse=reverse)
            else:
                sent.retrain()
            for _ in range(4):
                sent.some(ROUND // 4 // (changes + 1), replays=r.choice([0.0, 0.03, 0.1]), faults=r.choice([0.0, 0.03]))
                r.choice([sent.retrain, sent.sleep])()
            sent.end() if part == changes else sent.leave(0xE)
            wiring = Wiring(
                skew=tuple(r.randrange(5) for _ in range(lanes)),
                shift=tuple(r.randrange(8) for _ in range(lanes)),
                invert=tuple(r.random() < 0.5 for _ in range(lanes)),
                reverse=reverse,
                errors=errors,
            )
            heard = await it.play(sent, wiring, seed=r.getrandbits(32))
            played.append(sent)
        try:
            counted = heard.counters
            it.judge(*played, missing=3 * counted["lost_tokens"] + 40 * counted["corrected_registers"])
        except AssertionError:
            dut._log.error("round of %s, %s, %s", [(p.rate, p.seed) for p in played], wiring, counted)
            raise
        total["sent"] += sent.serial
        total["delivered"] += len(heard.tlps)
        for part in played:
            total["copies"] += len(part.copies)
            total["damaged"] += sum(c.damaged for c in part.copies)
            total["symbols"] += lanes * (sum(len(b[0].symbols) for b in part.link.blocks) if part.rate == 2 else len(part.link.columns))
        for name, count in heard.counters.items():
            total[f"counted_{name}"] = total.get(f"counted_{name}", 0) + count
        Path(os.environ["TAP_RESULT"]).write_text(json.dumps(total, indent=1))
    assert total["delivered"] > 0.9 * total["sent"] and total["damaged"] > 0.005 * total["sent"]
