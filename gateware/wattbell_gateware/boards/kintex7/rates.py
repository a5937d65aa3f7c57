"""Change of a GTX between 2.5, 5 and 8 GT/s."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["REGISTERS", "RateChange"]

REGISTERS = (
    # address, bits that are set, value at 2.5, 5 and 8 GT/s
    (0x011, 0x7800, (0x1800, 0x1800, 0x6000)),  # RX_INT_DATAWIDTH (14), RX_DATA_WIDTH (13:11): 20 bits, and 32
    (0x0A9, 0xFFFF, (0x1020, 0x1040, 0x1040)),  # RXCDR_CFG[31:16]: output divider 2, 1, 1
    (0x0AC, 0x00FF, (0x03, 0x03, 0x0B)),  # RXCDR_CFG[71:64]: below and above 6.6 Gb/s
)
"""Registers of the dynamic reconfiguration port (UG476) that differ between rates; ports do the rest.

Place and encoding of the widths come from the vendor's published PCIe wrapper for this transceiver. RXCDR_CFG is UG476's
recommendation without spread spectrum.
"""


class RateChange(wiring.Component):
    """Writes :data:`REGISTERS` of one channel when ``rate`` changes, and after reset.

    Other bits of these registers keep their values (read-modify-write).

    Ports
    -----
    rate : 0, 1, 2 for 2.5, 5, 8 GT/s. Changes while ``busy`` take effect too.
    busy : the receiver must be in reset.
    addr : address on the channel's reconfiguration port, on the same clock.
    di : value to write.
    do : value read.
    en : access strobe.
    we : the access is a write.
    rdy : the access is done.
    """

    rate: In(2, init=1)
    busy: Out(1, init=1)
    addr: Out(9)
    di: Out(16)
    do: In(16)
    en: Out(1)
    we: Out(1)
    rdy: In(1)

    def elaborate(self, platform):
        m = Module()
        target = Signal.like(self.rate)
        at = Signal(range(len(REGISTERS)))
        mask, wanted = Signal(16), Signal(16)
        m.d.comb += [
            self.addr.eq(Array(Const(a, 9) for a, _, _ in REGISTERS)[at]),
            mask.eq(Array(Const(b, 16) for _, b, _ in REGISTERS)[at]),
            wanted.eq(Array(Const(v, 16) for _, _, values in REGISTERS for v in (*values, values[-1]))[Cat(target, at)]),
        ]
        m.d.sync += [self.en.eq(0), self.we.eq(0)]
        with m.FSM(init="begin"):
            with m.State("idle"):
                with m.If(self.rate != target):
                    m.d.sync += self.busy.eq(1)
                    m.next = "begin"
            with m.State("begin"):
                m.d.sync += [target.eq(self.rate), at.eq(0)]
                m.next = "read"
            with m.State("read"):
                m.d.sync += self.en.eq(1)
                m.next = "kept"
            with m.State("kept"):
                with m.If(self.rdy):
                    m.d.sync += [self.di.eq((self.do & ~mask) | wanted), self.en.eq(1), self.we.eq(1)]
                    m.next = "written"
            with m.State("written"):
                with m.If(self.rdy):
                    m.d.sync += at.eq(Mux(at == len(REGISTERS) - 1, 0, at + 1))
                    m.next = "read"
                    with m.If(at == len(REGISTERS) - 1):
                        m.d.sync += self.busy.eq(0)
                        m.next = "idle"
        return m
