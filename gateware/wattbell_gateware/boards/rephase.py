"""Phase-compensation FIFO between two clocks of one frequency and any phase."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["LATENCY", "Rephase"]

_BITS = 3
_DEPTH = 1 << _BITS
_LAG = 2
LATENCY = 5
"""Clocks of ``reads`` from a word to the same word; one less for some phases."""


def _gray(value):
    return value ^ value[1:]


class Rephase(wiring.Component):
    """Passes on a word in every clock of both sides.

    Two pointers go round a ring of eight words, at a distance that wander does not use up. They only come close if a clock stopped
    or came back. The reader then jumps to the middle.

    Ports
    -----
    i : in the domain `writes`: the words.
    o : in the domain `reads`: the words.
    slipped : in `reads`: the reader jumped; words were lost or came twice.
    """

    def __init__(self, width: int, *, writes: str = "write", reads: str = "read"):
        self._width, self._writes, self._reads = width, writes, reads
        super().__init__({"i": In(width), "o": Out(width), "slipped": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = Memory(shape=self._width, depth=_DEPTH, init=[])
        write, read = ring.write_port(domain=self._writes), ring.read_port(domain="comb")

        at, at_gray = Signal(_BITS), Signal(_BITS)
        m.d[self._writes] += [at.eq(at + 1), at_gray.eq(_gray((at + 1)[:_BITS]))]
        m.d.comb += [write.addr.eq(at), write.data.eq(self.i), write.en.eq(1)]

        seen_gray, seen = Signal(_BITS), Signal(_BITS)
        m.submodules.sync = FFSynchronizer(at_gray, seen_gray, o_domain=self._reads)
        m.d[self._reads] += seen.eq(Cat(seen_gray[n:].xor() for n in range(_BITS)))

        # The writer is two to three words ahead of its synchronised pointer, so a lag of 2 is half the ring. Distance, decision and
        # jump take a clock each. Until a jump is complete, `settling` ignores distances from before it.
        here, ahead, off = Signal(_BITS), Signal(_BITS, init=_LAG), Signal()
        settling = Signal(2)
        m.d[self._reads] += [
            ahead.eq(seen - here),
            off.eq((ahead == 0) | (ahead >= _LAG + 3)),
            settling.eq(settling << 1),
            here.eq(here + 1),
            self.slipped.eq(0),
            self.o.eq(read.data),
        ]
        m.d.comb += read.addr.eq(here)
        with m.If(off & (settling == 0)):
            m.d[self._reads] += [here.eq(seen - (_LAG - 1)), self.slipped.eq(1), settling.eq(0b11)]
        return m
