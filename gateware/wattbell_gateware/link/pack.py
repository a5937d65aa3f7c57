"""Packing of frames: turns quads into beats that begin with the first byte of a TLP."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .crc import LCRC, CrcStep
from .delimit import FrameEnd, quads_of, quads_per_clock

__all__ = ["TlpPacker", "packed_beat"]

_LEAST = 4
"""Double words of the shortest TLP (a header of three) with its LCRC."""


def packed_beat(width: int) -> data.StructLayout:
    """Layout like :func:`.layouts.framed_beat`, before the LCRC is checked. Fields that differ:

    - ``broken``: with ``last``: the frame was given up.
    - ``edb``: with ``last``: the frame ended with EDB.
    - ``data``: after the last double word comes the received LCRC if it fits; bits after the LCRC are undefined.
    - ``lcrc``: the received LCRC if the last double word fills the beat.
    - ``number``: the two bytes before the TLP, as received.
    - ``crc``: state of the LCRC after ``number``.
    - ``tick``: tick of the STP's first symbol.
    """
    return data.StructLayout(
        {
            "data": unsigned(width),
            "dws": range(width // 32 + 1),
            "first": 1,
            "last": 1,
            "broken": 1,
            "edb": 1,
            "lcrc": 32,
            "number": 16,
            "crc": LCRC.bits,
            "tick": 64,
        }
    )


class TlpPacker(wiring.Component):
    """Packs the TLPs among the quads into beats; a beat is as wide as all quads of a word.

    A quad holds three bytes of one double word and the first byte of the next. The packer collects double words. It sends a beat as
    soon as one more double word, possibly the LCRC, is present. Latency is 2 clocks from the quad that completes a beat: the first
    clock finds the content of a word, the second assembles the beat.

    The end of a TLP may give two beats, the second in the next clock. With four quads a word, the next TLP may need that clock too,
    and the input then waits. (A TLP of 4n + 1 double words takes n + 7/4 words and n + 1 beats.)

    Ports
    -----
    quads : :func:`.delimit.quads_of`.
    beats : :func:`packed_beat`.
    short : strobe: a frame shorter than any TLP ended. The packer drops it whole.
    """

    def __init__(self, lanes: int, symbols: int):
        self._quads = quads_per_clock(lanes, symbols)
        super().__init__(
            {
                "quads": In(stream.Signature(quads_of(lanes, symbols))),
                "beats": Out(stream.Signature(packed_beat(32 * self._quads), always_ready=True)),
                "short": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n_quads = self._quads
        count = range(n_quads + 1)
        found, found_valid, waits = self._find(m)
        level, n_tail, n_total = Signal(count), found.tail, Signal(range(2 * n_quads + 1))
        held, both = Signal(32 * n_quads), Signal(64 * n_quads)
        begun = Signal()  # a beat of the open frame has left
        number, tick = Signal(16), Signal(64)
        m.submodules.head = behind_number = CrcStep(LCRC, 2)
        m.d.comb += [behind_number.before.eq(LCRC.init), behind_number.data.eq(number)]
        out = self.beats.payload
        m.d.comb += n_total.eq(level + n_tail)
        with m.Switch(level):
            for n in count:
                with m.Case(n):
                    m.d.comb += both.eq(Cat(held[: 32 * n], found.words))

        # Outputs of this clock
        rest, resting = Signal(data.StructLayout({"data": 32 * n_quads, "dws": count, "edb": 1})), Signal()
        full, last, abandoned, too_short = Signal(), Signal(), Signal(), Signal()
        leaves, take = Signal(), Signal()
        m.d.comb += [
            full.eq(n_total > n_quads),
            too_short.eq(found.whole & ~begun & (n_total < _LEAST)),
            last.eq(found.whole & ~too_short),
            abandoned.eq(found.was_open & begun & ~found.runs & ~found.whole),
            leaves.eq(last | abandoned | (found.runs & full)),
            take.eq(found_valid & ~waits),
            self.short.eq(take & (found.short | too_short)),
        ]
        if n_quads > 3:  # fewer quads leave a clock between two TLPs
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
                out.first.eq(0),
                out.last.eq(1),
                out.broken.eq(0),
                out.data.eq(rest.data),
                out.dws.eq(rest.dws),
                out.edb.eq(rest.edb),
            ]
        with m.Else():  # driven in any case; `valid` qualifies it
            more = last & (n_total > n_quads + 1)
            m.d.sync += [
                out.data.eq(both),
                out.dws.eq(Mux(abandoned, 0, Mux(full, n_quads, n_total - 1))),
                out.first.eq(~begun),
                out.last.eq(abandoned | (last & ~more)),
                out.broken.eq(abandoned),
                out.edb.eq(found.edb),
                out.lcrc.eq(both.word_select(n_quads, 32)),
                out.number.eq(number),
                out.crc.eq(behind_number.after),
                out.tick.eq(tick),
                resting.eq(take & leaves & more),
                rest.data.eq(both[32 * n_quads :]),
                rest.dws.eq(n_total - 1 - n_quads),
                rest.edb.eq(found.edb),
            ]
        return m

    def _find(self, m: Module):
        """Return the content of a word one clock later, its valid bit, and the signal that holds it back."""
        n_quads, quads = self._quads, self.quads.payload.quads
        count = range(n_quads + 1)
        # Fields of the open frame (`tail`: its double words; `whole`: it ends here) and of the last frame that begins here
        shape = data.StructLayout(
            {
                "words": 32 * n_quads,
                "was_open": 1,
                "runs": 1,
                "tail": count,
                "whole": 1,
                "edb": 1,
                "heading": 1,
                "head": count,
                "place": range(n_quads),
                "number": 16,
                "tick": 64,
                "short": 1,
            }
        )
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
            starts, ends = tlp & q.first, tlp & ~q.first & (q.end != FrameEnd.NONE)
            goes_on = tlp & ~q.first & ~q.abort
            taken = running & goes_on
            tail = tail + taken
            with m.If(taken & ends):
                m.d.comb += now.edb.eq(q.end == FrameEnd.EDB)
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
            now.was_open.eq(is_open),
            now.runs.eq(running),
            now.tail.eq(tail),
            now.whole.eq(whole),
            now.heading.eq(heading),
            now.head.eq(head),
            now.short.eq(short),
        ]
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
