"""Quads of frames -> beats that begin with the first byte of a TLP."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .crc import LCRC, CrcStep
from .delimit import End, quads_of, quads_per_clock

__all__ = ["TlpPacker", "packed_beat"]

_LEAST = 4
"""Double words of the shortest TLP (a header of three) and its LCRC."""


def packed_beat(width: int) -> data.StructLayout:
    """As :func:`.layouts.framed_beat`, before the LCRC is looked at.

    ``broken``, ``edb``: with ``last``: given up; ended with EDB. The LCRC as received is after the last double word in ``data``, or,
    where that fills the beat, in ``lcrc``; what is behind it in ``data`` means nothing. ``number``: the two bytes in
    front of the TLP as received, ``crc`` the state of the LCRC after them. ``tick``: of the STP's first symbol.
    """
    return data.StructLayout({
        "data": unsigned(width), "dws": range(width // 32 + 1), "first": 1, "last": 1,
        "broken": 1, "edb": 1, "lcrc": 32, "number": 16, "crc": LCRC.bits, "tick": 64,
    })  # fmt: skip


class TlpPacker(wiring.Component):
    """Takes the TLPs out of the quads; a beat is as wide as the quads of a word.

    A quad holds three bytes of one double word and the first of the next; the double words are collected, and leave as a
    beat as soon as one more is there, which may be the LCRC. Latency 2 clocks from the quad that makes it known: what a word holds is
    found in the first, and put together in the second.

    A TLP that ends may leave two beats, the second in the next clock; with four quads a word the next TLP may need that clock
    too, and the input has to wait. (A TLP of 4n + 1 double words takes n + 7/4 words and n + 1 beats.)

    Ports
    -----
    quads : :func:`.delimit.quads_of`.
    beats : :func:`packed_beat`.
    short : a frame ended in this clock that is shorter than any TLP; nothing of it comes out.
    """

    def __init__(self, lanes: int, symbols: int):
        self._quads = quads_per_clock(lanes, symbols)
        super().__init__({
            "quads": In(stream.Signature(quads_of(lanes, symbols))),
            "beats": Out(stream.Signature(packed_beat(32 * self._quads), always_ready=True)), "short": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        n_quads = self._quads
        count = range(n_quads + 1)
        found, found_valid, waits = self._find(m)
        level, n_tail, n_total = Signal(count), found.tail, Signal(range(2 * n_quads + 1))
        held, both = Signal(32 * n_quads), Signal(64 * n_quads)
        begun = Signal()  # a beat of the frame that is open has left
        number, tick = Signal(16), Signal(64)
        m.submodules.head = behind_number = CrcStep(LCRC, 2)
        m.d.comb += [behind_number.before.eq(LCRC.init), behind_number.data.eq(number)]
        out = self.beats.payload
        m.d.comb += n_total.eq(level + n_tail)
        with m.Switch(level):
            for n in count:
                with m.Case(n):
                    m.d.comb += both.eq(Cat(held[: 32 * n], found.words))

        # What leaves in this clock
        rest, resting = Signal(data.StructLayout({"data": 32 * n_quads, "dws": count, "edb": 1})), Signal()
        full, last, given_up, too_short = Signal(), Signal(), Signal(), Signal()
        leaves, take = Signal(), Signal()
        m.d.comb += [
            full.eq(n_total > n_quads),
            too_short.eq(found.whole & ~begun & (n_total < _LEAST)),
            last.eq(found.whole & ~too_short),
            given_up.eq(found.was_open & begun & ~found.runs & ~found.whole),
            leaves.eq(last | given_up | (found.runs & full)),
            take.eq(found_valid & ~waits),
            self.short.eq(take & (found.short | too_short)),
        ]
        if n_quads > 3:  # fewer leave a clock between two TLPs
            m.d.comb += waits.eq(resting & leaves)
        with m.If(take):
            m.d.sync += begun.eq(found.runs & (begun | full))
            with m.If(found.heading):
                m.d.sync += [number.eq(found.number), tick.eq(found.tick), level.eq(found.head)]
                with m.Switch(found.place):
                    for k in range(n_quads):
                        with m.Case(k):
                            m.d.sync += held.eq(found.words[32 * (k + 1) :])
            with m.Elif(found.runs & full):
                m.d.sync += [held.eq(both[32 * n_quads :]), level.eq(n_total - n_quads)]
            with m.Else():
                m.d.sync += [held.eq(both), level.eq(n_total)]
        m.d.sync += [self.beats.valid.eq(resting | (take & leaves)), resting.eq(0)]
        with m.If(resting):
            m.d.sync += [
                out.first.eq(0), out.last.eq(1), out.broken.eq(0), out.data.eq(rest.data), out.dws.eq(rest.dws), out.edb.eq(rest.edb),
            ]  # fmt: skip
        with m.Else():  # whatever it is: `valid` tells
            more = last & (n_total > n_quads + 1)
            m.d.sync += [
                out.data.eq(both), out.dws.eq(Mux(given_up, 0, Mux(full, n_quads, n_total - 1))), out.first.eq(~begun),
                out.last.eq(given_up | (last & ~more)), out.broken.eq(given_up), out.edb.eq(found.edb),
                out.lcrc.eq(both.word_select(n_quads, 32)), out.number.eq(number), out.crc.eq(behind_number.after), out.tick.eq(tick),
                resting.eq(take & leaves & more), rest.data.eq(both[32 * n_quads :]), rest.dws.eq(n_total - 1 - n_quads),
                rest.edb.eq(found.edb),
            ]  # fmt: skip
        return m

    def _find(self, m: Module):
        """What is in a word, a clock later; whether there is one; and what holds it back."""
        n_quads, quads = self._quads, self.quads.payload.quads
        count = range(n_quads + 1)
        # The frame that was open (`tail` double words of it, up to its end with `whole`), and the last frame that begins here
        shape = data.StructLayout({
            "words": 32 * n_quads, "was_open": 1, "runs": 1, "tail": count, "whole": 1, "edb": 1,
            "heading": 1, "head": count, "place": range(n_quads), "number": 16, "tick": 64, "short": 1,
        })  # fmt: skip
        now, found, valid, waits, take = Signal(shape), Signal(shape), Signal(), Signal(), Signal()
        held_back = valid & waits
        m.d.comb += [take.eq(self.quads.valid & ~held_back), self.quads.ready.eq(~held_back)]

        # The double words that end in these quads
        carry = Signal(8)
        befores = [carry, *(q.data[24:] for q in quads)]
        m.d.comb += now.words.eq(Cat(Cat(befores[k], quads[k].data[:24]) for k in range(n_quads)))

        is_open = Signal()
        running, heading, whole = is_open, 0, 0
        tail, head, short = 0, 0, 0
        for k in range(n_quads):
            q = quads[k]
            tlp = q.valid & ~q.dllp
            starts, ends = tlp & q.first, tlp & ~q.first & (q.end != End.NONE)
            goes_on = tlp & ~q.first & ~q.abort
            taken = running & goes_on
            tail = tail + taken
            with m.If(taken & ends):
                m.d.comb += now.edb.eq(q.end == End.EDB)
            with m.If(starts):
                m.d.comb += [now.number.eq(q.data[8:24]), now.place.eq(k), now.tick.eq(self.quads.payload.ticks[k // 2])]
            whole_now, running_now, head_now, heading_now = (Signal(name=f"{n}{k}") for n in ("whole", "running", "head", "heading"))
            head_count = Signal(count, name=f"head_count{k}")
            m.d.comb += [
                whole_now.eq(whole | (taken & ends)),
                running_now.eq(running & ~q.abort & ~starts & ~ends),
                head_now.eq(heading & goes_on),
                heading_now.eq(starts | (heading & ~q.abort & ~ends)),
                head_count.eq(Mux(starts, 0, head + head_now)),
            ]
            short = short | (head_now & ends)
            whole, running, heading, head = whole_now, running_now, heading_now, head_count
        m.d.comb += [
            now.was_open.eq(is_open), now.runs.eq(running), now.tail.eq(tail), now.whole.eq(whole), now.heading.eq(heading),
            now.head.eq(head), now.short.eq(short),
        ]  # fmt: skip
        with m.If(~held_back):
            m.d.sync += [valid.eq(self.quads.valid), found.eq(now)]
        with m.If(take):
            m.d.sync += [is_open.eq(running | heading), carry.eq(Mux(quads[-1].valid, befores[-1], carry))]
            if n_quads > 1:
                self._carry(m, quads, carry)
        return found, valid, waits

    def _carry(self, m: Module, quads, carry) -> None:
        """Narrow links fill only the first quads of a word: the last valid one counts."""
        for q in quads[:-1]:
            with m.If(q.valid & ~quads[-1].valid):
                m.d.sync += carry.eq(q.data[24:])
