"""The store of commands leaks nothing, and a released entry waits for its tick and no longer; for every input of some length."""

import os

import pytest
from amaranth import Array, Elaboratable, Module, Mux, ResetSignal, Signal
from amaranth.hdl import Assert, Assume
from wattbell_gateware.nvme.search import Search
from wattbell_gateware.nvme.slots import Slots
from wattbell_gateware.nvme.tables import SlotState
from wattbell_gateware.stream.release import Release

from tests.gateware.formal import smt

DEEPER = 4 if os.environ.get("WATTBELL_FORMAL") == "all" else 0
"""Additional cycles."""


class NoReport:
    """Replaces ``Report`` for ``Slots``: nothing is lost here."""

    def __init__(self):
        self.epoch = Signal(16)


class SlotsAreFreeOrTaken(Elaboratable):
    """Four slots are taken and given back in any order.

    The next slot is never a taken one. Free slots come again. The count in flight is right. No two commands of one slot have the
    same generation.
    """

    depth = 15
    count = 4

    def __init__(self, wrong=False):
        self.take, self.give, self.which = Signal(), Signal(), Signal(range(self.count))
        self.ports = [self.take, self.give, self.which]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        slots = Slots(m, self.count, queue_bits=1, report=NoReport())
        in_flight, filling, taken = Signal(16), Signal(range(self.count + 1)), Signal(self.count)
        slots.connect(m, in_flight=in_flight, tick=Signal(64), length=Signal(11))
        generations = Array(Signal(16, name=f"generation{n}", init=0xFFFF) for n in range(self.count))
        rests = Signal(range(4))  # cycles without an event
        m.d.sync += rests.eq(Mux(rests == 3, 3, rests + 1))
        with m.If(filling < self.count):
            slots.release(m, filling[: slots.bits])
            m.d.sync += [filling.eq(filling + 1), rests.eq(0)]
        with m.Elif(self.take & slots.any_free):
            slots.allocate(m, state=SlotState.ANNOUNCED, qid=0, index=0, flags=0)
            m.d.comb += [
                Assert(~taken.bit_select(slots.free, 1)),
                Assert(slots.w["generation"] != generations[slots.free]),
            ]
            m.d.sync += [taken.bit_select(slots.free, 1).eq(1), generations[slots.free].eq(slots.w["generation"]), rests.eq(0)]
        with m.Elif(self.give):
            if not self._wrong:
                m.d.comb += Assume(taken.bit_select(self.which, 1))
            slots.release(m, self.which)
            m.d.sync += [taken.bit_select(self.which, 1).eq(0), rests.eq(0)]
        many = sum(taken)
        with m.If((filling == self.count) & (rests >= 2)):
            m.d.comb += [Assert(in_flight == many), Assert(slots.any_free == (many != self.count))]
        return m


class WhatIsLinkedIsFound(Elaboratable):
    """Four commands, three with one hash, are put into their chains, looked for and taken out in any order.

    A search finds a command if it is there, in its slot, and nothing else.
    """

    depth = 27
    names = ((0, 1), (0, 1 << 10), (1, 17), (1, 1))  # queue and CID; the first three hash alike

    def __init__(self, wrong=False):
        self.which, self.out = Signal(range(4)), Signal()
        self.ports = [self.which, self.out]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        slots = Slots(m, 4, queue_bits=1, report=NoReport())
        slots.connect(m, in_flight=Signal(16), tick=Signal(64), length=Signal(11))
        search = Search(m, slots=slots, queue_bits=1)
        there, which, out = Signal(4), Signal(2), Signal()
        m.d.comb += Assume(~ResetSignal())  # a reset would leave the chains; the engine clears them
        qids, cids = (Array(column) for column in zip(*self.names, strict=True))
        with m.FSM():
            with m.State("CHOOSE"):
                m.d.sync += [which.eq(self.which), out.eq(self.out), search.qid.eq(qids[self.which]), search.cid.eq(cids[self.which])]
                search.whole(m, "FOUND")

            with m.State("FOUND"):
                with m.If(search.goes_on()):
                    search.on(m)
                with m.Else():
                    m.d.comb += Assert(search.found == there.bit_select(which, 1))
                    m.next = "CHOOSE"
                    with m.If(search.found):
                        m.d.comb += [Assert(search.slot == which), Assert(slots.r["cid"] == cids[which])]
                        with m.If(out):
                            if not self._wrong:
                                search.unlink(m)
                            m.d.sync += there.bit_select(which, 1).eq(0)
                    with m.Else():
                        search.look_for(m)
                        m.next = "LINK"

            with m.State("LINK"):
                search.link(m, which)
                slots.write(
                    m,
                    which,
                    opcode=0,
                    cid=search.cid,
                    nsid=0,
                    prp1=0,
                    ranges_expected=0,
                    pages_sure=0,
                    flags=0,
                    ranges=0,
                    doorbell=0,
                    generation=0,
                    epoch=0,
                    qid=search.qid,
                    held=0,
                )
                m.d.sync += there.bit_select(which, 1).eq(1)
                m.next = "CHOOSE"

            search.states(m)
        return m


class NothingGoesBeforeItsTick(Elaboratable):
    """Any entry is at the head of the queue, and the tick counter goes on in any way (by at most 2**30 a clock).

    The entry may leave from its tick plus the delay on, at once then, until it is taken; the deadline is this tick.
    """

    depth = 8
    delay = 40
    early = 0

    def __init__(self, wrong=False):
        self.step, self.done, self.waits, self.taken, self.old = Signal(30), Signal(32), Signal(), Signal(), Signal(64)
        self.ports = [self.step, self.done, self.waits, self.taken, self.old]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.release = release = Release(self.delay, early=self.early)
        now, head, stays, first = Signal(64), Signal(64), Signal(), Signal(init=1)
        start = Signal(64)
        m.d.comb += now.eq(Mux(first, self.old, start))
        m.d.sync += [start.eq(now + self.step), first.eq(0)]
        done = Signal(64)
        # The head has a past tick, less than a second ago; it stays until it is taken.
        m.d.comb += [
            done.eq(Mux(stays, head, now - self.done[:30])),
            Assume(~stays | self.waits),
            Assume(now >= 1 << 30),
            Assume(now < 1 << 62),
            Assume(now - done < 1 << 31),
            release.now.eq(now),
            release.waits.eq(self.waits),
            release.done.eq(done),
            release.taken.eq(self.taken),
            *self.claims(m, release.ripe, self.waits & (now >= done + self.delay + (1 if self._wrong else 0)), stays),
            Assert(~self.waits | release.ripe | (release.deadline == done + self.delay)),
        ]
        m.d.sync += [head.eq(done), stays.eq(self.waits & ~(release.ripe & self.taken))]
        return m

    def claims(self, _m, ripe, due, _stays):
        return [Assert(ripe == due)]


class NothingGoesBeforeItsTickEarly(NothingGoesBeforeItsTick):
    """The same with the decision one clock early, for clocks of equal ticks.

    An entry that was at the head one clock before leaves at its tick; an entry that has come or moved up leaves one clock later.
    """

    early = 16

    def claims(self, m, ripe, due, stays):
        m.d.comb += Assume(self.step == self.early)
        return [Assert(~ripe | due), Assert(~stays | (ripe == due))]


PROOFS = [SlotsAreFreeOrTaken, WhatIsLinkedIsFound, NothingGoesBeforeItsTick, NothingGoesBeforeItsTickEarly]


@pytest.mark.parametrize("claim", PROOFS)
def test_proof(claim, tmp_path):
    proof = claim()
    smt.prove(proof, proof.ports, tmp_path, depth=proof.depth + DEEPER)


@pytest.mark.parametrize("claim", PROOFS)
def test_a_wrong_claim_is_refuted(claim, tmp_path):
    proof = claim(wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(proof, proof.ports, tmp_path, depth=proof.depth)
