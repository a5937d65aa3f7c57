"""The rail from the ADC front's words to RAIL blocks."""

from __future__ import annotations

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import RailFlag

from ..stream.buffer import fill_port
from .channels import Channels
from .cic import Decimator
from .config import CONVERSION, FLAGS, RAIL_CONFIG
from .energy import EnergyAccumulator
from .front import ADC_BITS
from .packer import RailPacker
from .timer import ConversionTimer

__all__ = ["RailPath"]


class RailPath(wiring.Component):
    """Contains timer, correction, energy, decimation and packing of the rail.

    A strobe of ``changed`` announces a new ``config``, which takes effect at the next start of a conversion. The conversion before is the
    last with the old configuration. Then the open block ends, the filter starts anew, and the next block is marked RESTARTED. The
    same happens when a run begins.

    A conversion occupies 9 clocks, with ``fine`` 14 (14 more when a decimated sample comes out), well inside the shortest period.

    ``fine``: there is a second current word, ``f_word``, of a path with more gain (:class:`.channels.Channels`).

    ``convert`` makes conversions outside a run, too. They come out at ``conversion`` (with ``converted``) and nowhere else. A run that
    begins meanwhile takes over their instants.

    Ports
    -----
    now : the tick counter.
    run : conversions are wanted (level).
    config : see above.
    changed : see above.
    convert : see above.
    converted : see above.
    conversion : see above.
    adc_start : the conversion instant.
    v_word : from a front.
    i_word : from a front.
    f_word : from a front; with `fine`.
    fill : to a block buffer.
    lost : strobe: a sample was dropped.
    pending : a change has not taken effect yet.
    idle : not running, everything handed on and every block closed.
    quiet : see docs/architecture.md.
    deadline : see docs/architecture.md.
    """

    def __init__(self, ticks_per_clock: int, fine: bool = False):
        self._tpc, self._fine = ticks_per_clock, fine
        words = {f"{name}_word": In(ADC_BITS) for name in ("vif" if fine else "vi")}
        super().__init__(
            {
                "now": In(64),
                "run": In(1),
                "config": In(RAIL_CONFIG),
                "changed": In(1),
                "convert": In(1),
                "converted": Out(1),
                "conversion": Out(CONVERSION),
                "adc_start": Out(1),
                **words,
                "fill": Out(fill_port()),
                "lost": Out(1),
                "idle": Out(1),
                "quiet": Out(1),
                "deadline": Out(64),
                "pending": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.timer = timer = ConversionTimer(self._tpc)
        m.submodules.channels = channels = Channels(self._fine)
        m.submodules.accumulator = accumulator = EnergyAccumulator()
        m.submodules.decimator = decimator = Decimator()
        m.submodules.packer = packer = RailPacker()
        wiring.connect(m, packer.fill, wiring.flipped(self.fill))

        active = Signal(RAIL_CONFIG)
        interval = Signal(32)
        centre = Signal(32)  # from the newest tap of the filter back to its centre
        tick = Signal(64)
        # Whether the conversion in the ADC, and the one in the pipeline, are the run's.
        ours, sampled, sample = Signal(), Signal(), Signal()

        m.d.comb += [
            timer.now.eq(self.now),
            packer.now.eq(self.now),
            timer.run.eq(self.run | self.convert),
            self.adc_start.eq(timer.start),
            # The timing of the conversion that starts now is the new one's already.
            timer.period_ticks.eq(self.config.period * self._tpc),
            channels.strobe.eq(timer.hand),
            channels.config.eq(active),
            *(getattr(channels, f"{name}_word").eq(getattr(self, f"{name}_word")) for name in ("vif" if self._fine else "vi")),
            sample.eq(channels.valid & sampled),
            accumulator.strobe.eq(sample),
            accumulator.voltage.eq(channels.voltage),
            accumulator.current.eq(channels.current),
            decimator.strobe.eq(sample),
            decimator.voltage.eq(channels.voltage),
            decimator.current.eq(channels.current),
            decimator.decimation.eq(active.decimation),
            decimator.mul.eq(active.mul),
            decimator.shift.eq(active.shift),
            packer.interval_ticks.eq(interval),
            packer.strobe.eq(decimator.valid),
            packer.voltage.eq(decimator.voltage_out),
            packer.current.eq(decimator.current_out),
            packer.tick.eq(tick - centre),
            packer.energy.eq(accumulator.energy),
            packer.index.eq(accumulator.index),
            packer.flags_strobe.eq(sample),
            self.lost.eq(packer.lost),
        ]
        assert (RailFlag.OVERLOAD_I, RailFlag.OVERLOAD_V, RailFlag.UNCALIBRATED, RailFlag.SATURATED) == (1, 2, 4, 8)
        assert list(FLAGS.members)[:4] == ["overload_i", "overload_v", "uncalibrated", "saturated"]
        m.d.comb += packer.flags.eq(Value.cast(channels.flags)[:4])
        with m.If(timer.due):
            m.d.sync += ours.eq(self.run)
        with m.If(timer.hand):
            m.d.sync += [tick.eq(timer.hand_tick), sampled.eq(ours)]
        m.d.comb += self.converted.eq(channels.valid)
        m.d.comb += [
            self.conversion[name].eq(value)
            for name, value in {
                "tick": tick,
                "period": active.period * self._tpc,
                "v": channels.voltage,
                "i": channels.current,
                "flags": channels.flags,
                "v_code": channels.v_code,
                "i_code": channels.i_code,
                "f_code": channels.f_code,
                "guard": channels.guard,
                "beyond": channels.beyond,
            }.items()
        ]

        working = Signal()
        m.d.comb += working.eq(~(channels.quiet & accumulator.quiet & decimator.quiet & packer.quiet))

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
