"""Rounds of 1000 TLPs on links of every width, rate and wiring, with bit errors, replays and retraining, until there were enough."""

import json
import os
import random
from pathlib import Path

import cocotb
import traffic as tr
from cocotb_receiver import RATES, up
from tap import LANES, Wiring, tap

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
        sent = tr.Traffic(lanes, seed=r.getrandbits(32), rate=r.choice(RATES), skp_interval=r.choice([150, 600, 1300]))
        reverse = r.random() < 0.5
        await up(it, sent, reverse=reverse)
        for _ in range(4):
            sent.some(ROUND // 4, replays=r.choice([0.0, 0.03, 0.1]), faults=r.choice([0.0, 0.03]))
            r.choice([sent.retrain, sent.sleep])()
        sent.end()
        wiring = Wiring(
            skew=tuple(r.randrange(5) for _ in range(lanes)), shift=tuple(r.randrange(8) for _ in range(lanes)),
            invert=tuple(r.random() < 0.5 for _ in range(lanes)), reverse=reverse, errors=r.choice([0, 1e-5, 1e-4, 1e-4]),
        )  # fmt: skip
        heard = await it.play(sent, wiring, seed=r.getrandbits(32))
        try:
            counted = heard.counters
            it.judge(sent, missing=3 * counted["lost_tokens"] + 40 * counted["corrected_registers"])
        except AssertionError:
            dut._log.error("round at rate %d, seed %d, %s", sent.rate, sent.seed, wiring)
            raise
        total["sent"] += sent.serial
        total["copies"] += len(sent.copies)
        total["damaged"] += sum(c.damaged for c in sent.copies)
        total["delivered"] += len(heard.tlps)
        total["symbols"] += lanes * (sum(len(b[0].symbols) for b in sent.link.blocks) if sent.rate == 2 else len(sent.link.columns))
        for name, count in heard.counters.items():
            total[f"counted_{name}"] = total.get(f"counted_{name}", 0) + count
        Path(os.environ["TAP_RESULT"]).write_text(json.dumps(total, indent=1))
    assert total["delivered"] > 0.9 * total["sent"] and total["damaged"] > 0.005 * total["sent"]
