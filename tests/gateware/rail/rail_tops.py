"""The whole rail path with either front end, and a block writer: a small design to simulate."""

from amaranth import Module, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_gateware.rail import RailPath, SerialFront, WordFront
from wattbell_gateware.rail.config import RAIL_CONFIG
from wattbell_gateware.stream.buffer import BlockBuffer
from wattbell_gateware.stream.writer import OUT_WORD, BlockWriter
from wattbell_spec.wire import BlockContent


class RailTop(wiring.Component):
    """The rail path with the instrument's ports; ``config`` and ``changed`` replace registers."""

    def __init__(self, adc, ticks_per_clock, fine=False):
        self.adc, self.tpc, self.fine = adc, ticks_per_clock, fine
        channels = "vif" if fine else "vi"
        ports = (
            {"adc_cnv": Out(1), "adc_sck": Out(1), **{f"adc_sdo_{name}": In(1) for name in channels}}
            if adc == "serial"
            else {"adc_start": Out(1), "adc_valid": In(1), **{f"adc_{name}": In(18) for name in channels}}
        )
        super().__init__(
            ports
            | {
                "now": Out(64),
                "step": In(16),
                "quiet": Out(1),
                "deadline": Out(64),
                "run": In(1),
                "config": In(RAIL_CONFIG),
                "changed": In(1),
                "idle": Out(1),
                "lost": Out(1),
                "converted": Out(1),
                "guard": Out(signed(24)),
                "beyond": Out(1),
                "out": Out(stream.Signature(OUT_WORD)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.path = path = RailPath(self.tpc, self.fine)
        m.submodules.buffer = buffer = BlockBuffer()
        m.submodules.writer = writer = BlockWriter([BlockContent.RAIL])
        wiring.connect(m, path.fill, buffer.fill)
        wiring.connect(m, buffer.read, writer.source0)
        wiring.connect(m, writer.out, wiring.flipped(self.out))
        m.d.sync += self.now.eq(self.now + (self.step + 1) * self.tpc)
        if self.adc == "serial":
            m.submodules.front = front = SerialFront(self.tpc, self.fine)
            m.d.comb += [
                self.adc_cnv.eq(front.cnv),
                self.adc_sck.eq(front.sck),
                front.sdo_v.eq(self.adc_sdo_v),
                front.sdo_i.eq(self.adc_sdo_i),
            ]
        else:
            m.submodules.front = front = WordFront(self.fine)
            m.d.comb += [self.adc_start.eq(path.adc_start), front.valid.eq(self.adc_valid), front.v.eq(self.adc_v), front.i.eq(self.adc_i)]
        if self.fine:
            m.d.comb += path.f_word.eq(front.f_word)
            m.d.comb += front.sdo_f.eq(self.adc_sdo_f) if self.adc == "serial" else front.f.eq(self.adc_f)
        m.d.comb += [
            front.start.eq(path.adc_start),
            path.v_word.eq(front.v_word),
            path.i_word.eq(front.i_word),
            path.now.eq(self.now),
            path.run.eq(self.run),
            path.config.eq(self.config),
            path.changed.eq(self.changed),
            self.idle.eq(path.idle & writer.idle),
            self.lost.eq(path.lost),
            self.converted.eq(path.converted),
            self.guard.eq(path.conversion.guard),
            self.beyond.eq(path.conversion.beyond),
            self.quiet.eq(path.quiet & front.quiet & writer.quiet),
            self.deadline.eq(path.deadline),
        ]
        return m
