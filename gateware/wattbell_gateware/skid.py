"""Skid buffer, which cuts long paths in a stream."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SkidBuffer"]


class SkidBuffer(wiring.Component):
    """Buffers a stream in two registers, which cut the paths of ``valid`` and of ``ready``; a payload a clock, latency 1 clock.

    Ports
    -----
    i : stream of `shape`; ``i.ready`` does not depend on ``o.ready`` of the same clock.
    o : the same stream.
    """

    def __init__(self, shape) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, _platform) -> Module:
        m = Module()
        spare, spare_valid = Signal(self.shape), Signal()
        m.d.comb += self.i.ready.eq(~spare_valid)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(spare_valid | self.i.valid), spare_valid.eq(0)]
            with m.If(spare_valid):
                m.d.sync += self.o.payload.eq(spare)
            with m.Else():
                m.d.sync += self.o.payload.eq(self.i.payload)
        with m.Elif(self.i.valid & ~spare_valid):
            m.d.sync += [spare_valid.eq(1), spare.eq(self.i.payload)]
        return m
