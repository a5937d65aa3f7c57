"""The rate is found, not given: receiver and SpeedSearch listen to a link that changes its speed.

Deserialisers sample the link at the rate they are set to.
"""

from __future__ import annotations

from fractions import Fraction

import cocotb
import numpy as np

from tests.gateware.phy import traffic as tr
from tests.gateware.phy.cocotb_receiver import states
from tests.gateware.phy.tap import BITS, PERIOD, TICKS, Wiring, tap

BIT_NS = (Fraction(2, 5), Fraction(1, 5), Fraction(1, 8))
GRID_NS = TICKS * max(PERIOD)
"""Words of any rate begin at multiples of this."""
LANES = 2


class Waveform:
    """The wires' signal from some start on, one link after the other, with a constant level between, before and after them."""

    def __init__(self):
        self.parts: list[tuple[int, int, list[np.ndarray]]] = []
        self.end = GRID_NS

    def add(self, sent: tr.Traffic, wiring: Wiring, *, silence_ns: int) -> None:
        start = -(-(self.end + silence_ns) // GRID_NS) * GRID_NS
        late = [wiring.shift[n] for n in range(LANES)]
        link = sent.link
        wires = link.bits(late=late, invert=wiring.invert) if sent.rate == 2 else link.bits(shift=late, invert=wiring.invert)
        self.parts.append((start, sent.rate, [np.frombuffer(bytes(w), dtype=np.uint8) for w in wires]))
        self.end = int(start + max(map(len, wires)) * BIT_NS[sent.rate]) + 1
        for copy in sent.copies:
            copy.tick = int(start + (late[0] + sent.bit(copy.place)) * BIT_NS[sent.rate])

    def word(self, now: int, rate: int) -> list[int]:
        """Return the word that a deserialiser at this rate gets from each lane: samples in the middle of its own bits from `now` on."""
        part = next((part for part in reversed(self.parts) if part[0] <= now), None)
        if part is None:
            return [0] * LANES
        start, sent_at, wires = part
        step, bit = BIT_NS[rate], BIT_NS[sent_at]
        # In units of 1/80 ns everything is an integer.
        times = (now - start) * 80 + int(step * 40) + int(step * 80) * np.arange(BITS[rate])
        index = times // int(bit * 80)
        out = []
        for wire in wires:
            bits = np.where(index < len(wire), wire[np.minimum(index, len(wire) - 1)], 0)
            out.append(int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little"))
        return out


async def listen(it, waveform: Waveform) -> list[int]:
    """Run from now until the waveform ends; return the rates at which it was received."""
    dut, rates = it.dut, [int(it.dut.rate.value)]
    it.now = 0
    while it.now < waveform.end + 400:
        rate = rates[-1]
        due = it.now // TICKS % PERIOD[rate] == 0
        dut.raw_valid.value, dut.raw8_valid.value = int(due and rate != 2), int(due and rate == 2)
        if due:
            port = dut.raw8 if rate == 2 else dut.raw
            port.value = sum(word << BITS[rate] * n for n, word in enumerate(waveform.word(it.now, rate)))
        await it.clock()
        found = int(dut.search_rate.value)
        if found != rate:
            dut.rate.value = found
            rates.append(found)
    it.finish()
    return rates


def again(sent: tr.Traffic) -> None:
    """Add a link that arrives at a rate and trains for longer than the search tries other rates."""
    for _ in range(8):
        if sent.rate == 2:
            sent.link.training_sets(first=32, second=0, link=1)
        else:
            sent.link.training(tr.t.TS1, 32 >> (sent.rate == 0), link=1, numbered=True)
    sent.retrain()


@cocotb.test()
async def as_agreed(dut):
    """At 2.5 GT/s, 8, back to 5, 8: the receiver is at the link's next rate before the link sends there, and every TLP comes once."""
    it = await tap(dut)
    waveform, played, sent = Waveform(), [], None
    order = (0, 2, 1, 2)
    for rate, following in zip(order, (*order[1:], None)):
        sent = tr.Traffic(LANES, seed=50 + len(played), rate=rate, after=sent)
        sent.retrain() if played else sent.train()
        sent.some(12)
        sent.end() if following is None else sent.leave((1 << following + 2) - 2)
        waveform.add(sent, Wiring(shift=(5, 13), invert=(True, False)), silence_ns=800)
        played.append(sent)
    rates = await listen(it, waveform)
    it.judge(*played)
    assert rates == list(order) == [0, *(rate for _, rate in it.heard.of("RATE"))]
    assert len(it.heard.tlps) == 12 * len(order)
    assert states(it.heard) == ["POLLING", "CONFIG", "L0"] + ["RECOVERY", "L0"] * 3


@cocotb.test()
async def the_change_fails(dut):
    """The target was 8 GT/s, but the link comes back at 2.5. Then it changes to 5, and its request is not received."""
    it = await tap(dut)
    waveform, played, sent = Waveform(), [], None
    for rate in (0, 0, 1):
        sent = tr.Traffic(LANES, seed=60 + len(played), rate=rate, after=sent)
        again(sent) if played else sent.train()
        sent.some(12)
        if len(played) == 0:
            sent.leave(0xE)
        else:
            sent.end()
        waveform.add(sent, Wiring(shift=(5, 13)), silence_ns=800)
        played.append(sent)
    rates = await listen(it, waveform)
    it.judge(*played)
    assert rates[:3] == [0, 2, 0] and rates[-1] == 1
    assert len(it.heard.tlps) == 36
