"""The sequence filter passes every TLP on at most once, in order, and counts what is missing, over any wrap of the numbers."""

import pytest
import smt
from amaranth import Elaboratable, Module, Signal, signed
from amaranth.hdl import Assert, Assume
from wattbell_gateware.link import SequenceFilter

DEPTH = 5
"""The filter's state is the expected number, and whether there is one. The first TLP may have any number, so after one clock
every state has been reached, and the clocks behind it show every step from every state."""


class EveryTlpOnce(Elaboratable):
    """TLPs have 20-bit serial numbers, of which the filter sees twelve bits. Any of the window of 4096 around the next one may
    come: again after a replay, or early after losses."""

    def __init__(self, wrong=False):
        self.strobe, self.serial, self.forget, self.wrong = Signal(), Signal(20), Signal(), wrong
        self.ports = [self.strobe, self.serial, self.forget]

    def elaborate(self, platform):
        m = Module()
        m.submodules.filter = dut = SequenceFilter()
        following, begun, away = Signal(20), Signal(), Signal(signed(22))
        m.d.comb += [dut.strobe.eq(self.strobe), dut.number.eq(self.serial[:12]), dut.forget.eq(self.forget)]
        m.d.comb += [away.eq(self.serial - following), Assume((self.serial > 8192) & (self.serial < (1 << 20) - 20000))]
        with m.If(self.strobe & begun & ~self.forget):
            m.d.comb += [
                Assume((away >= -2048) & (away < 2048)),
                Assert(dut.deliver == (away >= (1 if self.wrong else 0))),  # never twice, never back
                Assert(dut.duplicate == (away < 0)),
                Assert(~dut.deliver | (dut.lost == away)),
            ]
        with m.Elif(self.strobe):
            m.d.comb += Assert(dut.deliver & ~dut.duplicate & (dut.lost == 0))
        with m.Else():
            m.d.comb += Assert(~dut.deliver & ~dut.duplicate & (dut.lost == 0))
        with m.If(self.strobe & (dut.deliver | self.forget)):
            m.d.sync += [following.eq(self.serial + 1), begun.eq(1)]
        with m.Elif(self.forget):
            m.d.sync += begun.eq(0)
        return m


def test_every_tlp_once_in_order(tmp_path):
    top = EveryTlpOnce()
    smt.prove(top, top.ports, tmp_path, depth=DEPTH)


def test_a_wrong_claim_is_refuted(tmp_path):
    top = EveryTlpOnce(wrong=True)
    with pytest.raises(smt.Refuted, match="Assert failed|FAILED"):
        smt.prove(top, top.ports, tmp_path, depth=DEPTH)
