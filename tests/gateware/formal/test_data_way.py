"""The way of data, for every input of some length: TLPs taken ahead of time change nothing before they are sure, and each TLP
counts once.
"""

import os

import pytest
from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert, Assume
from amaranth.lib import data
from wattbell_gateware.nvme.dataway import DataWay
from wattbell_gateware.nvme.headqueue import HeadQueue
from wattbell_gateware.nvme.tables import LEFT, SWEEP_BITS, SlotState, TagKind

from tests.gateware.formal import smt

DEEPER = 3 if os.environ.get("WATTBELL_FORMAL") == "all" else 0
"""Additional cycles."""
BITS = 5
TAG = data.StructLayout({"valid": 1, "kind": TagKind, "slot": 2, "generation": 16, "remaining": 11})


class HeadersComeAgain(Elaboratable):
    """Numbered headers are taken in order.

    After a step back comes the header after the last finished one. None is lost, and none waits without reason. A header of a later
    sweep is recognised by a comparison one clock before.
    """

    depth = 16

    def __init__(self, wrong=False):
        self.come, self.take, self.retire, self.all_taken, self.rewind = Signal(), Signal(), Signal(), Signal(), Signal()
        self.swept = Signal(BITS)
        self.ports = [self.come, self.take, self.retire, self.all_taken, self.rewind, self.swept]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.heads = heads = HeadQueue()
        serial, taken, done = Signal(BITS), Signal(BITS), Signal(BITS)
        takes = self.take & heads.ahead.valid
        m.d.comb += [
            heads.i.valid.eq(self.come),
            heads.i.payload.header.tick.eq(serial << SWEEP_BITS),
            heads.ahead.ready.eq(takes),
            heads.retire.eq(self.retire),
            heads.all_taken.eq(self.all_taken),
            heads.rewind.eq(self.rewind),
            heads.swept.eq(self.swept),
            Assume(~self.retire | (taken != done)),
            Assume(~(self.rewind & takes)),
        ]
        retired = Mux(takes & self.all_taken, taken + 1, done + self.retire)[:BITS]
        m.d.sync += [
            serial.eq(serial + (self.come & heads.i.ready)),
            done.eq(retired),
            taken.eq(Mux(self.rewind, done if self._wrong else retired, taken + takes)),
        ]
        waited, swept, number = Signal(), Signal(BITS), heads.ahead.payload.merged.header.tick[SWEEP_BITS:]
        m.d.sync += [waited.eq(heads.waits & ~self.rewind & ~takes), swept.eq(self.swept)]
        m.d.comb += [
            Assert(heads.waits == (taken != serial)),
            Assert(heads.ahead.valid | ~waited),
            Assert(~heads.ahead.valid | (number[:BITS] == taken)),
            Assert(~heads.ahead.valid | (heads.crosses == (number > swept))),
            Assert(heads.i.ready | ((serial - done)[:BITS] == 8)),
        ]
        return m


class EachCountsOnce(Elaboratable):
    """For every sequence of TLPs and any content of the tables: each TLP is finished once, in order, though some come again.

    The count of a tag, whether a slot has its first tick, and the rest of its length are the same as with one TLP after the other.
    Undefined outputs of a table may have any value.
    """

    depth = 12

    def __init__(self, wrong=False):
        self.take, self.up, self.length, self.tag = Signal(), Signal(), Signal(3), Signal(2)
        self.kind, self.slot, self.noise, self.lives, self.hit = Signal(TagKind), Signal(2), Signal(), Signal(), Signal()
        self.ports = [self.take, self.up, self.length, self.tag, self.kind.as_value(), self.slot, self.noise, self.lives, self.hit]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.way = way = DataWay(TAG, slot_bits=2, queue_bits=2, entry_slot_bits=2, ways=1)
        taken, expected = Signal(BITS), Signal(BITS)  # numbers of the next header to be taken, and of the next to count
        takes = Signal()
        m.d.comb += takes.eq(self.take & ~way.odd)
        ended, odd_number = way.done | way.odd, Signal(BITS)
        m.d.comb += odd_number.eq(expected + 1)
        m.d.sync += [taken.eq(Mux(way.odd, odd_number, taken + takes)), expected.eq(expected + (ended | way.other))]

        # One tag and one slot are watched.
        left, seen, wrote = Signal(11, init=40), Signal(), Signal()
        counted, sees = way.count & (way.count_tag == 0), way.see & (way.see_slot == 0)
        with m.If(counted):
            m.d.sync += left.eq(way.counted.remaining)
        with m.If(sees & way.see_first):
            m.d.sync += seen.eq(1)
        rest = Signal(LEFT, init={"dws": 20, "checked": 1})
        with m.If(sees):
            m.d.sync += rest.eq(way.see_left)
        m.d.sync += wrote.eq(sees)

        asked = Signal(11)
        kind, slot = Signal(TagKind), Signal(2)
        m.d.sync += [
            way.begun.eq(takes),
            way.up.eq(self.up),
            way.header.length.eq(self.length),
            way.header.tag.eq(self.tag),
            way.header.end.eq(taken),
            asked.eq(Mux(counted, way.counted.remaining, left)),
            kind.eq(self.kind),
            slot.eq(self.slot),
        ]
        m.d.comb += [
            way.tag.valid.eq(1),
            way.tag.kind.eq(kind),
            way.tag.slot.eq(slot),
            way.ways[0].slot.eq(slot),
            way.tag.remaining.eq(Mux(way.header.tag == 0, asked, 7)),
            way.hit.eq(self.hit),
            way.choice.eq(self.hit),
            way.slot.state.eq(Mux(self.lives, SlotState.IN_FLIGHT, SlotState.COMPLETED)),
            way.slot.qid.eq(1),
            way.slot.first_known.eq(Mux(wrote, self.noise, seen)),
            way.slot.left.eq(Mux(wrote, self.noise.replicate(rest.shape().size), rest.as_value())),
        ]
        lengths = [way.header.length, *(Signal(3, name=f"length{n}") for n in (2, 3, 4, 5))]
        m.d.sync += [later.eq(earlier) for earlier, later in zip(lengths, lengths[1:], strict=False)]

        m.d.comb += [
            Assert(~(way.done & way.odd)),
            Assert(~way.other | ~ended),
            Assert(~ended | (way.end[:BITS] == expected)),
            Assert(~way.other | (way.header.end[:BITS] == expected)),
            Assert(~(way.see | way.see_first | way.count) | way.done),
            Assert(~counted | (way.counted.remaining == (left - lengths[-1] + (1 if self._wrong else 0))[:11])),
            Assert(~sees | (way.see_first == ~seen)),
            Assert(~sees | way.see_left.checked),
            Assert(~sees | (way.see_left.dws == Mux(rest.dws < 0, rest.dws, rest.dws - lengths[-1]))),
            Assert(way.behind | ended | (taken == expected)),  # none is forgotten
        ]
        return m


PROOFS = [HeadersComeAgain, EachCountsOnce]


@pytest.mark.parametrize("claim", PROOFS)
def test_proof(claim, tmp_path):
    proof = claim()
    smt.prove(proof, proof.ports, tmp_path, depth=proof.depth + DEEPER)


@pytest.mark.parametrize("claim", PROOFS)
def test_a_wrong_claim_is_refuted(claim, tmp_path):
    proof = claim(wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(proof, proof.ports, tmp_path, depth=proof.depth)
