"""The clock-domain crossing between a core on a slower clock and the registers."""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from .bus import WRITE

__all__ = ["RegisterCrossing"]


class RegisterCrossing(wiring.Component):
    """Carries one access at a time from the domain ``half`` to ``sync``, and the value read back.

    The clocks need not be related: one toggle starts an access, another ends it; address and data are stable in between.

    Ports
    -----
    addr : in ``half``, to :class:`.bus.Bus`.
    wdata : in ``half``, to :class:`.bus.Bus`.
    we : in ``half``, to :class:`.bus.Bus`.
    re : in ``half``, to :class:`.bus.Bus`.
    rdata : in ``half``, to :class:`.bus.Bus`.
    wait : in ``half``: the access has not ended.
    reg_addr : in ``sync``, see :class:`.bus.Bus`.
    reg_wdata : in ``sync``, see :class:`.bus.Bus`.
    reg_we : in ``sync``, see :class:`.bus.Bus`.
    reg_re : in ``sync``, see :class:`.bus.Bus`.
    reg_rdata : in ``sync``, see :class:`.bus.Bus`.
    aside : in ``sync``: a write by another part; taken in a clock in which no access begins.
    """

    def __init__(self):
        super().__init__(
            {
                "addr": In(8),
                "wdata": In(32),
                "we": In(1),
                "re": In(1),
                "rdata": Out(32),
                "wait": Out(1),
                "reg_addr": Out(8),
                "reg_wdata": Out(32),
                "reg_we": Out(1),
                "reg_re": Out(1),
                "reg_rdata": In(32),
                "aside": In(stream.Signature(WRITE)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        asked, seen, done, returned, writes = Signal(), Signal(), Signal(), Signal(), Signal()
        m.submodules += [FFSynchronizer(asked, seen), FFSynchronizer(done, returned, o_domain="half")]
        strobe = self.we | self.re
        m.d.comb += self.wait.eq(strobe | (asked != returned))
        with m.If(strobe):
            m.d.half += [asked.eq(~asked), writes.eq(self.we)]

        begins, under_way = Signal(), Signal()
        m.d.comb += [begins.eq((seen != done) & ~under_way), self.aside.ready.eq(~begins)]
        m.d.sync += [
            under_way.eq(begins),
            self.reg_we.eq(Mux(begins, writes, self.aside.valid)),
            self.reg_re.eq(begins & ~writes),
        ]
        with m.If(begins):
            m.d.sync += [self.reg_addr.eq(self.addr), self.reg_wdata.eq(self.wdata)]
        with m.Elif(self.aside.valid):
            m.d.sync += [self.reg_addr.eq(self.aside.p.address), self.reg_wdata.eq(self.aside.p.value)]
        with m.If(under_way):
            m.d.sync += [self.rdata.eq(self.reg_rdata), done.eq(seen)]
        return m
