"""8 GT/s with many bit errors, retrainings and replays."""

import os
import random

import cocotb
import gen3_bench as b
from gen3_errors import play_with_errors
from transmitter.gen3_link import Gen3Link

PACKETS = int(os.environ.get("GEN3_PACKETS", "4000"))
ROUNDS = 5


@cocotb.test()
@cocotb.parametrize(lanes=[1, 2, 4])
async def many_bit_errors(dut, lanes):
    """1e-4: no TLP that was not sent, none twice; of those without a wrong bit at most three are lost with each lost token."""
    bench = b.Bench(dut, lanes)
    await bench.start()
    for seed in range(ROUNDS):
        r = random.Random(seed)
        link = Gen3Link(lanes, sos_interval=370)
        link.train(first=1, second=1)
        tlps = []
        for _ in range(4):
            tlps += b.traffic(link, r, PACKETS // 4)[0]
            sequence = (link.replayer.next - 4) % 4096
            again = {s: tlp for tlp, s, _ in tlps[-4:]}
            for place, (s, _) in zip(link.replay(sequence), [((sequence + n + 1) % 4096, 0) for n in range(3)]):
                tlps.append((again[s], s, place))
            link.replayer.acknowledge((link.replayer.next - 1) % 4096)
            link.train(first=33, second=16)
        b.end(link)
        await bench.reset()
        outcome = await play_with_errors(bench, link, tlps, rate=1e-4, seed=seed)
        dut._log.info("x%d: %d TLPs, %s, %s", lanes, len(tlps), outcome, bench.counts)
        assert outcome.damaged > PACKETS // 60
        assert outcome.missing <= 3 * bench.counts["lost_token"] + 3 * bench.counts["moved"] + 40 * bench.counts["corrected_register"]
        assert outcome.missing < 0.02 * len(tlps)
