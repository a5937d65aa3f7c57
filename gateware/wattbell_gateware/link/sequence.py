"""Every TLP once, in order."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SequenceFilter"]


class SequenceFilter(wiring.Component):
    """Judges the sequence number of a TLP that came whole; combinational, the state follows at the next clock.

    Numbers count modulo 4096, and at most 2048 TLPs are under way (Base 2.1, 3.5.2.2), so that a number up to 2048 behind the
    expected one is of a replay, and any other is ahead: those between were damaged here while the receiver had them. A
    nullified TLP must not be shown: its number comes again.

    Ports
    -----
    strobe, number : a TLP whose LCRC is right ended with END.
    forget : the link went down, or the tap lost the stream: the next TLP is taken as it comes. Goes before `strobe`.
    deliver : with ``strobe``: pass it on. duplicate : it was passed on before.
    lost : with ``deliver``: TLPs missing before it, 0 .. 2047. Before the first TLP, and behind ``forget``, nothing counts as lost.
    """

    strobe: In(1)
    number: In(12)
    forget: In(1)
    deliver: Out(1)
    duplicate: Out(1)
    lost: Out(11)

    def elaborate(self, platform):
        m = Module()
        expected, known = Signal(12), Signal()
        ahead = Signal(12)
        m.d.comb += ahead.eq(self.number - expected)
        with m.If(self.strobe):
            with m.If(known & ~self.forget):
                m.d.comb += [self.duplicate.eq(ahead[11]), self.deliver.eq(~ahead[11])]
                with m.If(~ahead[11]):
                    m.d.comb += self.lost.eq(ahead)
            with m.Else():
                m.d.comb += self.deliver.eq(1)
        with m.If(self.deliver):
            m.d.sync += [expected.eq(self.number + 1), known.eq(1)]
        with m.Elif(self.forget):
            m.d.sync += known.eq(0)
        return m
