"""What stands in for a FIFO where whoever reads is always ready."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Passage(wiring.Component):
    """The ports of ``SyncFIFOBuffered`` that are of use, with its latency of two clocks; ``r_en`` has to be high always. Registers, no
    memory: what goes through every clock needs none."""

    def __init__(self, width: int) -> None:
        super().__init__({
            "w_data": In(width), "w_en": In(1), "w_rdy": Out(1), "r_data": Out(width), "r_rdy": Out(1), "r_en": In(1), "level": Out(2),
        })  # fmt: skip

    def elaborate(self, _platform) -> Module:
        m = Module()
        inner = wiring.Signature({"data": Out(len(self.w_data)), "valid": Out(1)}).create()
        m.d.sync += [inner.valid.eq(self.w_en), inner.data.eq(self.w_data), self.r_rdy.eq(inner.valid), self.r_data.eq(inner.data)]
        m.d.comb += [self.w_rdy.eq(1), self.level.eq(inner.valid + self.r_rdy)]
        return m
