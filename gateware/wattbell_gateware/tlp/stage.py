"""A register behind the merge: what decides which header is next does not add up with what is done with it."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .merge import MERGED


class HeaderStage(wiring.Component):
    """``i`` to ``o``, one clock later; a header a clock. ``i.ready`` does not hang on ``o.ready``."""

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(MERGED)), "o": Out(stream.Signature(MERGED))})

    def elaborate(self, _platform) -> Module:
        m = Module()
        spare, spare_valid = Signal(MERGED), Signal()
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
