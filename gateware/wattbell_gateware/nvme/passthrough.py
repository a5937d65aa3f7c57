"""A replacement for a queue with a reader that is always ready."""

from __future__ import annotations

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class PassThrough(wiring.Component):
    """Two pipeline registers (`at_once`: wires alone) with the ports and latency of a :class:`..queue.Queue`.

    Ports
    -----
    i : elements in; ``ready`` is always high.
    o : elements out, two clocks later; ``ready`` has to be high always.
    lost : always low.
    latent : an element is on its way, and none is at ``o``.
    """

    def __init__(self, shape: ShapeLike, *, at_once: bool = False) -> None:
        self._shape, self._at_once = shape, at_once
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "lost": Out(1), "latent": Out(1)})

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        if self._at_once:
            m.d.comb += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
            return m
        valid, element = Signal(), Signal(self._shape)
        m.d.sync += [valid.eq(self.i.valid), element.eq(self.i.payload), self.o.valid.eq(valid), self.o.payload.eq(element)]
        level = valid + self.o.valid
        m.d.comb += self.latent.eq((level != 0) & ~self.o.valid)
        return m
