"""The rail from the ADC front's words to RAIL blocks."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from wattbell.wire.spec import RailFlag

from ..stream.buffer import fill_port
from .cic import MUL_BITS, Decimator
from .correct import OFFSET_BITS, Corrector
from .energy import EnergyAccumulator
from .front import ADC_BITS
from .packer import RailPacker
from .timer import ConversionTimer

__all__ = ["CONVERSION", "RAIL_CONFIG", "RailPath"]

RAIL_CONFIG = data.StructLayout({
    "period": 20,  # clocks between conversions
    "decimation": 13,
    "mul": MUL_BITS + 1,
    "shift": 6,
    "v_offset": signed(OFFSET_BITS), "v_gain": 32,
    "i_offset": signed(OFFSET_BITS), "i_gain": 32,
    "uncalibrated": 1,
})
"""Everything about the rail that software sets; see the register map."""


CONVERSION = data.StructLayout({
    "tick": 64, "period": 32,  # ticks, between conversions
    "v": signed(24), "i": signed(24),  # corrected
    "flags": 4,  # RailFlag OVERLOAD_I, OVERLOAD_V, UNCALIBRATED, SATURATED
    "v_code": ADC_BITS, "i_code": ADC_BITS,
})
"""A conversion, for whom the samples are not enough: meter, protection, trigger."""


class RailPath(wiring.Component):
    """Timer, correction, energy, decimation and packing of the rail.

    A change of ``config`` (announced by a strobe of ``changed``) takes effect at the next start of a conversion: the
    conversion before it is still the old configuration's last, the open block is closed, the filter starts anew, and the
    next block is marked RESTARTED. The same happens when a run begins.

    A conversion occupies 9 clocks (14 more when a decimated sample comes out), well inside the shortest period.

    ``convert`` makes conversions outside a run too, which come out at ``conversion`` (with ``converted``) and nowhere else. When a run
    begins meanwhile, it takes over their instants.

    Ports: ``run``; ``adc_start`` (the conversion instant); ``v_word``, ``i_word`` from a front; ``fill`` to a block
    buffer; ``lost`` strobe, a sample was dropped; ``pending``: a change has not taken effect yet; ``idle``: not running,
    everything handed on and every block closed.
    ``quiet``, ``deadline``: see docs/architecture.md.
    """

    def __init__(self, ticks_per_clock: int):
        self._tpc = ticks_per_clock
        super().__init__({
            "now": In(64), "run": In(1), "config": In(RAIL_CONFIG), "changed": In(1),
            "convert": In(1), "converted": Out(1), "conversion": Out(CONVERSION),
            "adc_start": Out(1), "v_word": In(ADC_BITS), "i_word": In(ADC_BITS),
            "fill": Out(fill_port()), "lost": Out(1),
            "idle": Out(1), "quiet": Out(1), "deadline": Out(64),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.timer = timer = ConversionTimer(self._tpc)
        m.submodules.corrector = corrector = Corrector()
        m.submodules.accumulator = accumulator = EnergyAccumulator()
        m.submodules.decimator = decimator = Decimator()
        m.submodules.packer = packer = RailPacker()
        wiring.connect(m, packer.fill, wiring.flipped(self.fill))

        active = Signal(RAIL_CONFIG)
        interval = Signal(32)
        centre = Signal(32)  # from the newest tap of the filter back to its centre
        tick = Signal(64)
        # A conversion's current goes through the corrector a clock behind its voltage, which waits for it.
        handed, second, both = Signal(), Signal(), Signal()
        voltage = Signal(data.StructLayout({"value": signed(24), "overload": 1, "saturated": 1}))
        # Whether the conversion in the ADC, and the one in the pipeline, are the run's.
        ours, sampled, sample = Signal(), Signal(), Signal()
        v_code, i_code = Signal(ADC_BITS), Signal(ADC_BITS)

        m.d.comb += [
            timer.now.eq(self.now), packer.now.eq(self.now),
            timer.run.eq(self.run | self.convert), self.adc_start.eq(timer.start),
            # The timing of the conversion that starts now is the new one's already.
            timer.period_ticks.eq(self.config.period * self._tpc),
            corrector.strobe.eq(timer.hand | handed), corrector.twos.eq(handed),
            corrector.code.eq(Mux(handed, self.i_word, self.v_word)),
            corrector.offset.eq(Mux(handed, active.i_offset, active.v_offset)),
            corrector.gain.eq(Mux(handed, active.i_gain, active.v_gain)),
            both.eq(corrector.valid & second), sample.eq(both & sampled),
            accumulator.strobe.eq(sample), accumulator.voltage.eq(voltage.value), accumulator.current.eq(corrector.value),
            decimator.strobe.eq(sample), decimator.voltage.eq(voltage.value), decimator.current.eq(corrector.value),
            decimator.decimation.eq(active.decimation), decimator.mul.eq(active.mul), decimator.shift.eq(active.shift),
            packer.interval_ticks.eq(interval),
            packer.strobe.eq(decimator.valid),
            packer.voltage.eq(decimator.voltage_out), packer.current.eq(decimator.current_out),
            packer.tick.eq(tick - centre),
            packer.energy.eq(accumulator.energy), packer.index.eq(accumulator.index),
            packer.flags_strobe.eq(sample),
            self.lost.eq(packer.lost),
        ]
        assert (RailFlag.OVERLOAD_I, RailFlag.OVERLOAD_V, RailFlag.UNCALIBRATED, RailFlag.SATURATED) == (1, 2, 4, 8)
        m.d.comb += packer.flags.eq(Cat(
            corrector.overload, voltage.overload, active.uncalibrated, voltage.saturated | corrector.saturated))
        m.d.sync += handed.eq(timer.hand)
        with m.If(corrector.valid):
            m.d.sync += second.eq(~second)
            with m.If(~second):
                m.d.sync += [
                    voltage.value.eq(corrector.value), voltage.overload.eq(corrector.overload), voltage.saturated.eq(corrector.saturated),
                ]  # fmt: skip
        with m.If(timer.due):
            m.d.sync += ours.eq(self.run)
        with m.If(timer.hand):
            m.d.sync += [tick.eq(timer.hand_tick), sampled.eq(ours), v_code.eq(self.v_word)]
        with m.If(handed):
            m.d.sync += i_code.eq(self.i_word)
        m.d.comb += self.converted.eq(both)
        m.d.comb += [
            self.conversion[name].eq(value) for name, value in {
                "tick": tick, "period": active.period * self._tpc, "v": voltage.value, "i": corrector.value,
                "flags": packer.flags, "v_code": v_code, "i_code": i_code}.items()
        ]  # fmt: skip

        working = Signal()
        m.d.comb += working.eq(~(corrector.quiet & ~handed & accumulator.quiet & decimator.quiet & packer.quiet))

        # A change waits for the start of a conversion, then for the conversion before it to leave the pipeline.
        dirty = Signal()
        swap = Signal()
        with m.If(self.changed):
            m.d.sync += dirty.eq(1)
        with m.If(timer.begin | (timer.due & dirty) | (timer.hand & self.run & ~ours)):
            m.d.sync += [swap.eq(1), dirty.eq(self.changed)]
        m.d.comb += self.pending.eq(dirty | swap | self.changed)
        loaded = Signal()
        span = Signal(32)
        m.d.sync += loaded.eq(0)
        m.d.comb += decimator.clear.eq(loaded)  # with the new ratio at its inputs
        m.d.comb += span.eq(active.period * self._tpc * (active.decimation - 1)[:12])
        with m.If(swap & ~working):
            with m.If(packer.open):
                m.d.comb += packer.flush.eq(1)
            with m.Else():
                m.d.comb += packer.restart.eq(1)
                m.d.sync += [swap.eq(0), active.eq(self.config), loaded.eq(1)]
        with m.If(loaded):
            # Group delay of a CIC-3: 3 (R - 1) / 2 periods. A period is an even number of ticks, so this is exact.
            m.d.sync += [interval.eq(span + active.period * self._tpc), centre.eq(span + (span >> 1))]

        # After a run, what is left is closed.
        stopped = Signal()
        m.d.comb += stopped.eq((timer.idle | (self.convert & ~self.run & ~ours)) & ~swap & ~working)
        with m.If(stopped & packer.open):
            m.d.comb += packer.flush.eq(1)
        m.d.comb += [
            self.idle.eq(stopped & ~packer.open),
            self.quiet.eq(timer.quiet & ~working & ~swap & ~loaded & ~self.changed & ~(stopped & packer.open)),
            self.deadline.eq(Mux(timer.deadline < packer.deadline, timer.deadline, packer.deadline)),
        ]
        return m
