"""Block alignment: finds the blocks of 130 bits in the words of a deserialiser."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .blocks import BLOCK_WORD, FIRST_SYMBOL, TIME_BITS, BlockKind, near

__all__ = ["LATENCY", "BlockAligner"]

LATENCY = 4
"""Clocks (of raw words) from a raw word to the block word that ends with its last bit."""
_BITS = 32
_SKP, _SKP_END = 0xAA, 0xE1
_EIEOS_RUN = 120
"""Bits of an EIEOS from its second symbol to its last: each differs from the bit eight before. Bit 7 does not (bits -1 and 7 are 0)."""
_SKP_WORDS = 5
"""Words of SKP symbols in the longest SKP ordered set, as repeaters may make it. One more word ends the set."""
_BAD, _UNLOCK = 4, 16


class BoundaryMarks(wiring.Component):
    """Finds the marks of a block boundary at any bit: EIEOS, and the end of an SKP ordered set.

    In an SKP ordered set each bit but its first differs from the bit before, 32 n - 1 in a row, until E1 begins. Scrambled data
    imitates this and continues with E1 once in 2^41 bits. Scrambled data never contains a whole EIEOS.

    Ports
    -----
    raw : words, first received bit in bit 0.
    out : the word two before.
    eieos : an EIEOS ended in ``out``.
    sos : E1 of an SKP ordered set begins in ``out``.
    left : bits of ``out`` from the mark on, 0 .. 32.
    inverted : polarity that the mark shows.
    """

    raw: In(stream.Signature(_BITS, always_ready=True))
    out: Out(stream.Signature(_BITS, always_ready=True))
    eieos: Out(1)
    sos: Out(1)
    left: Out(range(_BITS + 1))
    inverted: Out(1)

    def elaborate(self, platform):
        m = Module()
        older, word, ahead = Signal(8), Signal(_BITS), Signal(_BITS)
        bits = Cat(older, word, ahead)
        eighth, neighbour = Signal(_BITS), Signal(_BITS)
        m.d.comb += [eighth.eq(bits[8:40] ^ bits[:32]), neighbour.eq(bits[8:40] ^ bits[7:39])]

        def trailing(value, name):
            """Return how many ones `value` ends with."""
            count = Signal(range(_BITS + 1), name=name)
            for n in range(_BITS + 1):
                with m.If(value[_BITS - n :].all() if n else Const(1)):
                    m.d.comb += count.eq(n)
            return count

        run, toggles = Signal(7), Signal(8)  # ones that `eighth` and `neighbour` ended with, saturating
        more, more_toggles = trailing(eighth, "more"), trailing(neighbour, "more_toggles")
        at, ends = Signal(range(_BITS)), Signal()
        for n in reversed(range(_BITS)):
            with m.If(~neighbour[n]):
                m.d.comb += [at.eq(n), ends.eq(1)]
        total, following = Signal(9), Signal(8)
        m.d.comb += [total.eq(toggles + at), following.eq(bits[8:].bit_select(at, 8))]

        last = Signal(range(_BITS))
        complete = Signal(_BITS)
        m.d.comb += [
            last.eq(_EIEOS_RUN - 1 - run),
            complete.eq(Cat(eighth[: n + 1].all() for n in range(_BITS))),
        ]
        with m.If(self.raw.valid):
            m.d.sync += [older.eq(word[-8:]), word.eq(ahead), ahead.eq(self.raw.payload)]
            m.d.sync += [
                run.eq(Mux(more == _BITS, Mux(run >= 96, 127, run + _BITS), more)),
                toggles.eq(Mux(more_toggles == _BITS, Mux(toggles >= 224, 255, toggles + _BITS), more_toggles)),
            ]
            eieos = Signal()
            m.d.comb += eieos.eq((run >= _EIEOS_RUN - _BITS) & (run < _EIEOS_RUN) & complete.bit_select(last, 1))
            m.d.sync += [
                self.out.payload.eq(word),
                self.eieos.eq(eieos),
                self.sos.eq(
                    ends
                    & (total[:5] == _BITS - 1)
                    & (total < _BITS * _SKP_WORDS)
                    & ((following == _SKP_END) | (following == _SKP_END ^ 0xFF))
                ),
                self.left.eq(Mux(eieos, _BITS - 1 - last, _BITS - at)),
                self.inverted.eq(Mux(eieos, ~word.bit_select(last, 1), following != _SKP_END)),
            ]
        m.d.sync += self.out.valid.eq(self.raw.valid)
        return m


class BlockAligner(wiring.Component):
    """Cuts raw words into :data:`BLOCK_WORD` (not descrambled); at most one a clock.

    An EIEOS locks, and moves the boundary to its own place. The end of an SKP ordered set locks if there is no lock, or if the lock
    is in doubt (a recent wrong sync header). A wrong sync header adds 4 to a count, a right one subtracts 1; at 16 the lock is
    lost. The lock therefore outlives bit errors, and is lost within about ten blocks after the stream moved. The marks also show
    the polarity.

    A block with a wrong sync header gets its kind from its content if the content looks like an ordered set, else it counts as
    data.

    Ports
    -----
    raw : words of 32 bits, first received bit in bit 0.
    time : low bits of the tick at which the first bit of ``raw`` came.
    forget : another stream begins here; gives no ``moved``.
    out : words of blocks. The word that ends with the last bit of a raw word comes 4 clocks after the raw word (:data:`LATENCY`).
    locked : the block boundary is locked.
    inverted : the polarity of the lane is inverted.
    bad_header : strobe: a block has a wrong sync header.
    moved : strobe: the lock was lost, or the boundary moved.
    """

    def __init__(self):
        super().__init__(
            {
                "raw": In(stream.Signature(_BITS, always_ready=True)),
                "time": In(TIME_BITS),
                "forget": In(1),
                "out": Out(stream.Signature(BLOCK_WORD, always_ready=True)),
                "locked": Out(1),
                "inverted": Out(1),
                "bad_header": Out(1),
                "moved": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.marks = marks = BoundaryMarks()
        m.d.comb += [marks.raw.payload.eq(self.raw.payload), marks.raw.valid.eq(self.raw.valid)]
        times = [self.time, *(Signal(TIME_BITS, name=f"time{n}") for n in range(3))]
        with m.If(self.raw.valid):
            m.d.sync += [later.eq(earlier) for earlier, later in zip(times, times[1:])]

        # unused bits: `pending` bits at the upper end of `kept` and the word
        kept, pending = Signal(_BITS + 2), Signal(range(_BITS + 2))
        index, skipping = Signal(3), Signal()  # word of the block; it is an SKP ordered set
        errors = Signal(range(_UNLOCK + 1))
        reseed = Signal()
        bits = Cat(kept, marks.out.payload)
        at_start, enough, emit = Signal(), Signal(), Signal()
        header, word = Signal(2), Signal(_BITS)
        place = Signal(range(_BITS + 5))
        m.d.comb += [
            at_start.eq(index == 0),
            enough.eq(~at_start | (pending >= 2)),
            place.eq(_BITS + 2 - pending),
            header.eq(bits.bit_select(place, 2) ^ self.inverted.replicate(2)),
            word.eq(Mux(at_start, bits.bit_select(place + 2, _BITS), bits.bit_select(place, _BITS)) ^ self.inverted.replicate(_BITS)),
            emit.eq(marks.out.valid & self.locked & enough),
        ]

        # kind of the block: bit 0 of the header is sent first; 1 0 precedes an ordered set
        ordered, bad = Signal(), Signal()
        first = word[:8]
        kind = Signal(BlockKind)
        held_kind, held_bad = Signal(BlockKind), Signal()
        m.d.comb += [ordered.eq(header == 0b01), bad.eq(header[0] == header[1]), kind.eq(BlockKind.DATA)]
        with m.If(ordered):
            m.d.comb += kind.eq(BlockKind.OTHER)
            for known, symbol in FIRST_SYMBOL.items():
                with m.If(near(first, symbol)):
                    m.d.comb += kind.eq(known)
        with m.Elif(bad & (word == 0xAAAAAAAA)):
            m.d.comb += kind.eq(BlockKind.SOS)
        with m.Elif(bad & (word == 0xFF00FF00)):
            m.d.comb += kind.eq(BlockKind.EIEOS)

        last, in_skp = Signal(), Signal()
        m.d.comb += in_skp.eq(Mux(at_start, kind == BlockKind.SOS, skipping))
        with m.If(at_start):
            m.d.comb += last.eq(0)
        with m.Elif(skipping):
            m.d.comb += last.eq(~near(first, _SKP) | (index == _SKP_WORDS))
        with m.Else():
            m.d.comb += last.eq(index == 3)

        natural, natural_index = Signal(range(_BITS + 2)), Signal(3)
        m.d.comb += [
            natural.eq(pending + Mux(enough, Mux(at_start, -2, 0), _BITS)),
            natural_index.eq(Mux(enough, Mux(last, 0, index + 1), index)),
        ]
        agrees, take = Signal(), Signal()
        m.d.comb += [
            agrees.eq(
                (natural == marks.left)
                & (marks.inverted == self.inverted)
                & Mux(marks.eieos, natural_index == 0, in_skp & (natural_index != 0))
            ),
            take.eq(marks.out.valid & (marks.eieos | (marks.sos & (~self.locked | (errors != 0)))) & ~(agrees & self.locked)),
        ]
        m.d.sync += [self.moved.eq(0), self.bad_header.eq(0), self.out.valid.eq(emit & ~take)]
        with m.If(marks.out.valid):
            m.d.sync += [kept.eq(bits[_BITS:]), pending.eq(natural), index.eq(natural_index)]
            with m.If(emit & at_start):
                m.d.sync += [skipping.eq(kind == BlockKind.SOS), held_kind.eq(kind), held_bad.eq(bad)]
        with m.If(take):
            m.d.sync += [
                pending.eq(marks.left),
                index.eq(Mux(marks.eieos, 0, 1)),
                skipping.eq(~marks.eieos),
                held_kind.eq(BlockKind.SOS),
                held_bad.eq(0),
                self.inverted.eq(marks.inverted),
                self.locked.eq(1),
                errors.eq(0),
                reseed.eq(marks.eieos),
                self.moved.eq(self.locked),
            ]
        with m.Elif(emit & at_start):
            m.d.sync += [reseed.eq(0), self.bad_header.eq(bad)]
            with m.If(~bad):
                m.d.sync += errors.eq(Mux(errors == 0, 0, errors - 1))
            with m.Elif(errors >= _UNLOCK - _BAD):
                m.d.sync += [self.locked.eq(0), self.moved.eq(1), errors.eq(0)]
            with m.Else():
                m.d.sync += errors.eq(errors + _BAD)
        with m.If(self.forget):
            m.d.sync += [self.locked.eq(0), errors.eq(0), self.moved.eq(0), self.bad_header.eq(0), self.out.valid.eq(0)]
        with m.If(marks.out.valid):
            out = self.out.payload
            m.d.sync += [
                out.data.eq(word),
                out.kind.eq(Mux(at_start, kind, held_kind)),
                out.first.eq(at_start),
                out.last.eq(last),
                out.bad_header.eq(Mux(at_start, bad, held_bad)),
                out.reseed.eq(reseed & at_start),
                # `place` counts from 34 bits before the word whose first bit came at the time of `times[-1]`.
                out.time.eq(times[-1] + ((place + Mux(at_start, 2, 0) + 6) >> 3) - 5),
            ]
        return m
