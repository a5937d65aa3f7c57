"""For every input of some length, each entry of a tap's queue comes out once, in order and whole, or is reported missing."""

import os

import pytest
from amaranth import Cat, ClockDomain, ClockSignal, Elaboratable, EnableInserter, Module, Mux, ResetSignal, Signal
from amaranth.hdl import Assert, Assume
from wattbell_gateware.boards import direction
from wattbell_gateware.link.layouts import Verdict
from wattbell_gateware.link.store import Fate, TlpStore
from wattbell_gateware.stream.recordqueue import BEATS, RecordQueue

from tests.gateware.formal import smt

DEEPER = 2 if os.environ.get("WATTBELL_FORMAL") == "all" else 0
"""Additional cycles."""
BITS = 5
"""Width of the serial numbers here; no run is long enough for them to wrap."""


class RecordsAreNumbered(Elaboratable):
    """A queue of two records, each numbered among all offered ones: output and counts have no gap, and each word belongs to its
    record.
    """

    depth = 17

    def __init__(self, wrong=False):
        self.i_valid, self.also, self.o_ready, self.o_index = Signal(), Signal(), Signal(), Signal()
        self.ports = [self.i_valid, self.also, self.o_ready, self.o_index]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = RecordQueue(2, 2)
        serial, expected, held, writing = Signal(BITS), Signal(BITS), Signal(BITS), Signal(range(BEATS))
        begins, number = self.i_valid & queue.room, Signal(BITS)
        # A record stays for the cycles in which it is written.
        m.d.comb += [number.eq(Mux(writing != 0, held, serial)), queue.i_tick.eq(number), queue.i_record[32:].eq(~number)]
        with m.If(begins):
            m.d.sync += [held.eq(serial), writing.eq(BEATS - 1)]
        with m.Elif(writing != 0):
            m.d.sync += writing.eq(writing - 1)
        m.d.sync += serial.eq(serial + self.i_valid + self.also)
        m.d.comb += [
            queue.i_valid.eq(self.i_valid),
            queue.also.eq(self.also),
            queue.o_ready.eq(self.o_ready),
            queue.o_index.eq(self.o_index),
            Assert(queue.lost == (self.i_valid & ~queue.room)),
            Assert(~queue.empty | ~queue.o_valid),
        ]
        named = Signal()  # the word requested in the previous cycle, of the same record
        m.d.sync += named.eq(queue.o_valid & ~self.o_ready & self.o_index)
        with m.If(queue.o_valid):
            m.d.comb += Assert(queue.o_tick == (expected + (0 if self._wrong else queue.o_dropped))[:BITS])
            m.d.comb += Assert(~named | (queue.o_word[:BITS] == ~queue.o_tick[:BITS]))
            with m.If(self.o_ready):
                m.d.sync += expected.eq(queue.o_tick + 1)
        return m


class TlpsComeOutAsTheirFatesSay(Elaboratable):
    """A store of eight beats and three TLPs: for any k, the k-th TLP reported as delivered is the k-th to come out, with its beats,
    tick and `lost`.

    Every frame has one fate, and everything no longer in the store has come out. Numbers of TLPs advance, skip one, or stay, as in
    a replay.
    """

    depth = 14

    def __init__(self, wrong=False):
        self.valid, self.last, self.verdict, self.skip, self.again = Signal(), Signal(), Signal(2), Signal(), Signal()
        self.watched = Signal(BITS)
        self.ports = [self.valid, self.last, self.verdict, self.skip, self.again, self.watched]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = TlpStore(64, bytes_kept=64, tlps=3)
        frame, going = Signal(BITS), Signal(BITS)  # number of the frame, and of the beat in it
        sequence, coming = Signal(12, init=100), store.frames.payload
        m.d.comb += [
            store.frames.valid.eq(self.valid),
            coming.data.eq(Cat(frame, going)),
            coming.dws.eq(2),
            coming.first.eq(going == 0),
            coming.last.eq(self.last),
            coming.verdict.eq(self.verdict),
            coming.tick.eq(frame),
            coming.sequence.eq(sequence + self.skip - self.again),
        ]
        kept = Signal(2)  # every beat carries an identification of its number
        m.d.sync += kept.eq(Cat(self.skip, self.again))
        m.d.comb += Assume((going == 0) | (kept == Cat(self.skip, self.again)))
        ends = Signal()
        m.d.comb += ends.eq(self.valid & self.last)
        with m.If(self.valid):
            m.d.sync += going.eq(Mux(self.last, 0, going + 1))
        with m.If(ends):
            m.d.sync += frame.eq(frame + 1)
            with m.If((self.verdict == Verdict.GOOD) & ~self.again):
                m.d.sync += sequence.eq(coming.sequence + 1)

        before, same = Signal(), Signal(BITS)
        m.d.sync += [before.eq(1), same.eq(self.watched)]
        m.d.comb += Assume(~before | (self.watched == same))

        # Fates come two cycles after the last beat.
        ended = [Signal(BITS + 1, name=f"ended{n}") for n in range(2)]
        m.d.sync += [ended[0].eq(Cat(ends, going)), ended[1].eq(ended[0])]
        fate = store.fates.payload
        m.d.comb += Assert(store.fates.valid == ended[1][0])
        delivered, missing = Signal(BITS), Signal()
        tick, beats, lost = Signal(BITS), Signal(BITS), Signal()
        good = store.fates.valid & ((fate.fate == Fate.DELIVERED) | (fate.fate == Fate.LATE))
        with m.If(good):
            m.d.sync += [delivered.eq(delivered + 1), missing.eq(0)]
            with m.If(delivered == self.watched):
                m.d.sync += [tick.eq(fate.tick), beats.eq(ended[1][1:]), lost.eq(missing | (fate.lost != 0) | (fate.fate == Fate.LATE))]
        with m.If(store.fates.valid & (fate.fate == Fate.NO_ROOM)):
            m.d.sync += missing.eq(1)

        came, beat, out = Signal(BITS), Signal(BITS), store.tlps.payload
        with m.If(store.tlps.valid):
            m.d.sync += beat.eq(Mux(out.last, 0, beat + 1))
            m.d.comb += [Assert(came != delivered), Assert(out.first == (beat == 0))]
            with m.If(came == self.watched):
                m.d.comb += [
                    Assert(out.tick[:BITS] == tick),
                    Assert(out.data[: 2 * BITS] == Cat(tick, beat)),
                    Assert(out.last == (beat == beats)),
                    Assert((out.lost == (0 if self._wrong else lost)) | ~out.first),
                ]
            with m.If(out.last):
                m.d.sync += came.eq(came + 1)
        m.d.comb += Assert(store.pending | (came == delivered) | good)
        return m


class BeatsBetweenClocks(Elaboratable):
    """A crossing of four beats between clocks with edges in any order: beats come once, in order, or are counted.

    A TLP reports missing TLPs before it exactly if there are any.
    """

    depth = 19

    def __init__(self, wrong=False):
        self.link, self.sync, self.valid, self.first = Signal(), Signal(), Signal(), Signal()
        self.ports = [self.link, self.sync, self.valid, self.first]
        self._wrong = wrong

    def elaborate(self, platform):
        m = Module()
        # One clock; each side sees the edges it is allowed. This covers any two clocks, except for metastability between them.
        m.domains.link = ClockDomain(reset_less=True)
        m.d.comb += ClockSignal("link").eq(ClockSignal("sync"))
        crossing = direction.BeatCrossing(64)
        m.submodules.crossing = EnableInserter({"link": self.link, "sync": self.sync})(crossing)
        # At power-on the queue discards what has come, until its reader has had three cycles.
        woken = Signal(range(4))
        m.d.sync += woken.eq(woken + (self.sync & (woken != 3)))
        m.d.comb += [Assume(~self.valid | (woken == 3)), Assume(~ResetSignal())]
        number, dropped = Signal(BITS), Signal(BITS)
        into, out = crossing.i.payload, crossing.o.payload
        m.d.comb += [crossing.i.valid.eq(self.valid), into.data.eq(number), into.first.eq(self.first)]
        with m.If(self.link):
            m.d.sync += [number.eq(number + self.valid), dropped.eq(dropped + crossing.dropped)]
        came, expected, missing = Signal(BITS), Signal(BITS), Signal()
        with m.If(self.sync & crossing.o.valid):
            gap = Signal()
            m.d.comb += [gap.eq(missing | (out.data[:BITS] != expected)), Assert(out.data[:BITS] >= expected)]
            m.d.sync += [came.eq(came + 1), expected.eq(out.data[:BITS] + 1), missing.eq(Mux(out.first, 0, gap))]
            with m.If(out.first):
                m.d.comb += Assert(out.lost == (0 if self._wrong else gap))
        # Both sides have been without data for so long that everything has come through.
        still = Signal(range(7))
        with m.If((self.link & self.valid) | ~(self.link & self.sync)):
            m.d.sync += still.eq(0)
        with m.Elif(still != 6):
            m.d.sync += still.eq(still + 1)
        with m.If((still == 6) & ~crossing.o.valid):
            m.d.comb += Assert(number == came + dropped)
        return m


CLAIMS = [RecordsAreNumbered, TlpsComeOutAsTheirFatesSay, BeatsBetweenClocks]


@pytest.fixture(autouse=True)
def small_crossing(monkeypatch):
    monkeypatch.setattr(direction, "_FIFO", 4)


@pytest.mark.parametrize("claim", CLAIMS)
def test_nothing_is_lost_untold(claim, tmp_path):
    top = claim()
    smt.prove(top, top.ports, tmp_path, depth=top.depth + DEEPER)


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_wrong_claim_is_refuted(claim, tmp_path):
    """The test shows that the cases with losses are reachable."""
    top = claim(wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=top.depth)
