"""The sequence filter between the transmitter's replay buffer and damage on the way."""

import random

from amaranth.sim import Simulator
from wattbell_gateware.link import SequenceFilter

from tests.gateware.phy import transmitter as t


def test_replays_and_losses():
    """5000 TLPs run from number 4000 on, across the wrap, with random naks. The tap misses some, and gets some of these later."""
    r = random.Random(1)
    replayer = t.Replayer(first=4000)
    arrived = []  # (number, TLP) as they pass the tap intact
    delivered, missed, repeats, recovered, newest = set(), 0, 0, 0, -1
    seen, expected = [], []
    for serial in range(5000):
        number, raw = replayer.send(serial.to_bytes(4, "big"))
        sending = [(number, raw)]
        if r.random() < 0.05:  # the receiver naks: it had everything up to some number
            back = r.randrange(min(serial + 1, 20))
            sending += replayer.nak((number - back) % 4096)
        arrived += [s for s in sending if serial == 0 or r.random() > 0.03]
        if serial % 30 == 29:
            replayer.acknowledge((number - 25) % 4096)
    for _, raw in arrived:  # the expected result, from the serial numbers alone
        serial = int.from_bytes(raw, "big")
        if serial > newest:
            delivered.add(serial)
            expected.append(serial)
            missed += serial - newest - 1
            newest = serial
        elif serial not in delivered:
            delivered.add(serial)
            expected.append(serial)
            recovered += 1
        else:
            repeats += 1

    dut = SequenceFilter()
    lost = duplicates = late = 0

    async def bench(ctx):
        nonlocal lost, duplicates, late
        for number, raw in arrived:
            ctx.set(dut.strobe, 1)
            ctx.set(dut.number, number)
            await ctx.tick()  # the verdict comes after it, together with the next
            if ctx.get(dut.deliver):
                seen.append(int.from_bytes(raw, "big"))
                lost += ctx.get(dut.lost)
                late += ctx.get(dut.late)
            duplicates += ctx.get(dut.duplicate)

    simulator = Simulator(dut)
    simulator.add_clock(4e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == expected and len(seen) > 4000
    assert (lost, duplicates, late) == (missed, repeats, recovered)
    assert missed > 50 and repeats > 1000 and recovered > 10
