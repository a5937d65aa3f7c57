"""Quads of frames -> beats that begin with the first byte of a TLP."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .delimit import End, quads_of, quads_per_clock

__all__ = ["TlpPacker", "packed_beat"]

_LEAST = 4
"""Double words of the shortest TLP (a header of three) and its LCRC."""


def packed_beat(width: int) -> data.StructLayout:
    """As :func:`.layouts.framed_beat`, before the LCRC is looked at.

    ``broken``, ``edb``: with ``last``: given up; ended with EDB. The LCRC as received is behind the last double word in ``data``, or,
    where that fills the beat, in ``lcrc``; what is behind it in ``data`` means nothing. ``number``: the two bytes in
    front of the TLP as received. ``tick``: of the STP's first symbol.
    """
    return data.StructLayout({
        "data": unsigned(width), "dws": range(width // 32 + 1), "first": 1, "last": 1,
        "broken": 1, "edb": 1, "lcrc": 32, "number": 16, "tick": 64,
    })  # fmt: skip


class TlpPacker(wiring.Component):
    """Takes the TLPs out of the quads; a beat is as wide as the quads of a word.

    A quad holds three bytes of one double word and the first of the next; the double words are collected, and leave as a
    beat as soon as one more is there, which may be the LCRC. Latency 1 clock from the quad that makes it known.

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
        quads = self.quads.payload.quads
        out = self.beats.payload
        take = Signal()
        count = range(n_quads + 1)

        # The double words that end in these quads
        carry = Signal(8)
        befores = [carry, *(q.data[24:] for q in quads)]
        words = [Cat(befores[k], quads[k].data[:24]) for k in range(n_quads)]

        # The frame that was open, up to its end; and the last frame that begins here
        is_open, begun = Signal(), Signal()  # begun: a beat of it has left
        running, heading, whole = is_open, 0, 0
        tail, head, short = 0, 0, 0
        edb = Signal()
        number, tick = Signal(16), Signal(64)
        next_number, place = Signal(16), Signal(range(n_quads))
        for k in range(n_quads):
            q = quads[k]
            tlp = q.valid & ~q.dllp
            starts, ends = tlp & q.first, tlp & ~q.first & (q.end != End.NONE)
            goes_on = tlp & ~q.first & ~q.abort
            taken = running & goes_on
            tail = tail + taken
            with m.If(taken & ends):
                m.d.comb += edb.eq(q.end == End.EDB)
            with m.If(starts):
                m.d.comb += [next_number.eq(q.data[8:24]), place.eq(k)]
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
        n_tail, total = Signal(count), Signal(range(2 * n_quads + 1))
        held, level = Signal(32 * n_quads), Signal(count)
        both = Signal(64 * n_quads)
        m.d.comb += [n_tail.eq(tail), total.eq(level + n_tail)]
        with m.Switch(level):
            for n in count:
                with m.Case(n):
                    m.d.comb += both.eq(Cat(held[: 32 * n], *words))

        # What leaves in this clock
        rest, resting = Signal(data.StructLayout({"data": 32 * n_quads, "dws": count, "edb": 1})), Signal()
        full, last, given_up, too_short = Signal(), Signal(), Signal(), Signal()
        leaves = Signal()
        waits = resting & leaves if n_quads > 3 else 0  # fewer leave a clock between two TLPs
        m.d.comb += [
            full.eq(total > n_quads),
            too_short.eq(whole & ~begun & (total < _LEAST)),
            last.eq(whole & ~too_short),
            given_up.eq(is_open & begun & ~running & ~whole),
            leaves.eq(last | given_up | (running & full)),
            take.eq(self.quads.valid & ~waits),
            self.quads.ready.eq(~waits),
            self.short.eq(take & (short | too_short)),
        ]
        with m.If(take):
            m.d.sync += [is_open.eq(running | heading), begun.eq(running & (begun | full))]
            m.d.sync += carry.eq(Mux(quads[-1].valid, befores[-1], carry))
            if n_quads > 1:
                self._carry(m, quads, carry)
            with m.If(heading):
                m.d.sync += [number.eq(next_number), level.eq(head)]
                with m.Switch(place):
                    for k in range(n_quads):
                        with m.Case(k):
                            m.d.sync += [held.eq(Cat(words[k + 1 :])), tick.eq(self.quads.payload.ticks[k // 2])]
            with m.Elif(running & full):
                m.d.sync += [held.eq(both[32 * n_quads :]), level.eq(total - n_quads)]
            with m.Else():
                m.d.sync += [held.eq(both), level.eq(total)]
        m.d.sync += [self.beats.valid.eq(resting | (take & leaves)), resting.eq(0)]
        with m.If(resting):
            m.d.sync += [
                out.first.eq(0), out.last.eq(1), out.broken.eq(0), out.data.eq(rest.data), out.dws.eq(rest.dws), out.edb.eq(rest.edb),
            ]  # fmt: skip
        with m.Else():  # whatever it is: `valid` tells
            more = last & (total > n_quads + 1)
            m.d.sync += [
                out.data.eq(both), out.dws.eq(Mux(given_up, 0, Mux(full, n_quads, total - 1))), out.first.eq(~begun),
                out.last.eq(given_up | (last & ~more)), out.broken.eq(given_up), out.edb.eq(edb),
                out.lcrc.eq(both.word_select(n_quads, 32)), out.number.eq(number), out.tick.eq(tick),
                resting.eq(take & leaves & more), rest.data.eq(both[32 * n_quads :]), rest.dws.eq(total - 1 - n_quads),
                rest.edb.eq(edb),
            ]  # fmt: skip
        return m

    def _carry(self, m: Module, quads, carry) -> None:
        """Narrow links fill only the first quads of a word: the last valid one counts."""
        for q in quads[:-1]:
            with m.If(q.valid & ~quads[-1].valid):
                m.d.sync += carry.eq(q.data[24:])
