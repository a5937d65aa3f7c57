"""A replacement for a FIFO with a reader that is always ready."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class PassThrough(wiring.Component):
    """Two pipeline registers (`at_once`: wires alone) with the ports and latency of ``SyncFIFOBuffered``.

    Ports
    -----
    w_data, w_en : written in this clock.
    w_rdy : always high.
    r_data, r_rdy : data of the write two clocks ago.
    r_en : has to be high always.
    level : number of words under way.
    """

    def __init__(self, width: int, *, at_once: bool = False) -> None:
        self._at_once = at_once
        super().__init__({
            "w_data": In(width), "w_en": In(1), "w_rdy": Out(1), "r_data": Out(width), "r_rdy": Out(1), "r_en": In(1), "level": Out(2),
        })  # fmt: skip

    def elaborate(self, _platform) -> Module:
        m = Module()
        m.d.comb += self.w_rdy.eq(1)
        if self._at_once:
            m.d.comb += [self.r_rdy.eq(self.w_en), self.r_data.eq(self.w_data)]
            return m
        inner = wiring.Signature({"data": Out(len(self.w_data)), "valid": Out(1)}).create()
        m.d.sync += [inner.valid.eq(self.w_en), inner.data.eq(self.w_data), self.r_rdy.eq(inner.valid), self.r_data.eq(inner.data)]
        m.d.comb += self.level.eq(inner.valid + self.r_rdy)
        return m
