"""One direction of a link at 2.5 and 5 GT/s: from the words of the deserialisers to checked TLPs."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..pcs import Deskew, LaneReceiver
from ..pcs import deskew as pcs_deskew
from ..pcs import lane as pcs_lane
from .framer import FAULTS, Framer
from .layouts import DLLP, framed_beat
from .ltssm import LANES_IN_USE
from .training import TRAINING_SET, OrderedSetReader

__all__ = ["LATENCY", "SymbolReceiver"]

LATENCY = pcs_lane.LATENCY + pcs_deskew.LATENCY
"""Clocks from a word of the deserialisers to the word of the framer that ends with the same symbol (if no lane is earlier)."""
_SETS = pcs_lane.LATENCY + 6
"""Clocks from a word to the training sequence found in this word."""
_IDLE_TIMES = 8


class SymbolReceiver(wiring.Component):
    """Receives one direction of a link at 2.5 and 5 GT/s, as :class:`.block_receiver.BlockReceiver` does at 8 GT/s.

    Ports
    -----
    raw : words of 10 * `symbols` bits of every wire, first received bit in bit 0.
    valid : the words of all wires are valid in this clock.
    now : tick counter; it grows by `ticks_per_clock` each clock.
    fast : high: 5 GT/s. Low: 2.5 GT/s.
    lanes : :data:`.ltssm.LANES_IN_USE`.
    enable : low aborts open frames and forgets all state of the stream except the polarity.
    polarity_set : see :class:`~wattbell_gateware.pcs.PolarityDetector`.
    polarity : polarity of every wire.
    frames : :func:`.layouts.framed_beat`, 32 bits for each quad of symbols.
    dllps : :data:`.layouts.DLLP`.
    faults : :data:`.framer.FAULTS`.
    found : strobe of each wire, see :class:`.training.OrderedSetReader`.
    values : training sequence of each wire.
    eios : EIOS strobe of each wire.
    sets_tick : tick of the ordered sets that are reported in this clock.
    idle : all lanes in use carried only logical idle for eight symbol times.
    idle_tick : tick of the word that ends with the last of these symbol times.
    bad : each wire in use and in lock: a word had a symbol error.
    locked : each wire has symbol lock.
    inverted : each wire has inverted polarity.
    aligned : the lanes are deskewed.
    """

    def __init__(self, lanes: int, symbols: int, *, ticks_per_clock: int):
        self._lanes, self._symbols, self._ticks = lanes, symbols, ticks_per_clock
        self._framer = Framer(lanes, symbols)
        beat = self._framer.tlps.payload.shape()
        super().__init__(
            {
                "raw": In(data.ArrayLayout(10 * symbols, lanes)),
                "valid": In(1),
                "now": In(64),
                "fast": In(1),
                "enable": In(1, init=1),
                "lanes": In(LANES_IN_USE),
                "polarity_set": In(1),
                "polarity": In(lanes),
                "frames": Out(stream.Signature(framed_beat(beat["data"].width), always_ready=True)),
                "dllps": Out(stream.Signature(DLLP, always_ready=True)),
                "faults": Out(FAULTS),
                "found": Out(lanes),
                "values": Out(data.ArrayLayout(TRAINING_SET, lanes)),
                "eios": Out(lanes),
                "sets_tick": Out(64),
                "idle": Out(1),
                "idle_tick": Out(64),
                "bad": Out(lanes),
                "locked": Out(lanes),
                "inverted": Out(lanes),
                "aligned": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.deskew = deskew = ResetInserter(~self.enable)(Deskew(self._lanes, self._symbols))
        m.submodules.framer = framer = self._framer
        offsets = self._wires(m, deskew)
        tick, fast = Signal(64), Signal()
        m.d.sync += fast.eq(self.fast)  # a register near its users
        m.d.comb += [
            tick.eq(self.now - self._late(m, deskew, offsets)),
            deskew.active.eq(self.lanes.active),
            deskew.reverse.eq(self.lanes.reverse),
            self.aligned.eq(deskew.aligned),
            # If disabled, give words that begin no frame and end an open one.
            framer.word.payload.eq(deskew.out.payload),
            framer.word.valid.eq(deskew.out.valid | ~self.enable),
            framer.enable.eq(deskew.aligned & self.enable),
            framer.width.eq(self.lanes.width),
            framer.fast.eq(fast),
            framer.tick.eq(tick),
            self.faults.eq(framer.faults),
        ]
        m.d.sync += self.sets_tick.eq(self.now - (_SETS - 1) * self._ticks)  # of the next clock
        connect(m, framer.tlps, flipped(self.frames))
        connect(m, framer.dllps, flipped(self.dllps))
        self._idle(m, deskew, tick)
        return m

    def _wires(self, m: Module, deskew):
        """Build every wire up to the deskew."""
        lanes = []
        for n in range(self._lanes):
            m.submodules[f"lane{n}"] = lane = LaneReceiver(self._symbols)
            m.submodules[f"sets{n}"] = sets = ResetInserter(~self.enable)(OrderedSetReader(self._symbols))
            lanes.append(lane)
            m.d.comb += [
                lane.raw.payload.eq(self.raw[n]),
                lane.raw.valid.eq(self.valid & self.enable),
                lane.bypass.eq(self.lanes.bypass),
                lane.forget.eq(~self.enable),
                lane.polarity_set.eq(self.polarity_set),
                lane.polarity.eq(self.polarity[n]),
                sets.symbols.payload.eq(lane.out.payload),
                sets.symbols.valid.eq(lane.out.valid),
                deskew.lanes.payload[n].eq(lane.out.payload),
                deskew.locked[n].eq(lane.locked),
                self.bad[n].eq(lane.bad & lane.locked & self.lanes.active[n]),
                self.locked[n].eq(lane.locked),
                self.inverted[n].eq(lane.inverted),
            ]
            m.d.sync += [self.found[n].eq(sets.found), self.values[n].eq(sets.value), self.eios[n].eq(sets.eios)]
        m.d.comb += deskew.lanes.valid.eq(lanes[0].out.valid)
        return [lane.offset for lane in lanes]

    def _late(self, m: Module, deskew, offsets):
        """Return the ticks from the first bit of an aligned word's lane 0 to the clock in which the framer has the word."""
        last = self._lanes - 1
        offset, delay, late = Signal(4), Signal(3), Signal(16)
        m.d.sync += offset.eq(Mux(self.lanes.reverse, offsets[last], offsets[0]))
        m.d.sync += delay.eq(Mux(self.lanes.reverse, deskew.delay[last], deskew.delay[0]))
        # The aligned word began 9 - offset bits before the raw word that ends it; a bit is 2/5 or 1/5 of a tick.
        bits = Signal(3)
        with m.Switch(Cat(offset, self.fast)):
            for fast in (0, 1):
                for value in range(10):
                    with m.Case(value | fast << 4):
                        m.d.comb += bits.eq(-(-(9 - value) * (1 if fast else 2) // 5))
        m.d.sync += late.eq(LATENCY * self._ticks + bits + Mux(self.fast, delay << 1, delay << 2))
        return late

    def _idle(self, m: Module, deskew, tick) -> None:
        word = deskew.out.payload
        zero = [[~s.plain & (s.as_value()[:10] == 0) for s in word[n]] for n in range(self._lanes)]
        by_width = Array(Cat(*zero[: 1 << log]).all() for log in range(3))
        words = _IDLE_TIMES // self._symbols
        run = Signal(range(words + 1))
        valid, nothing, at = Signal(), Signal(), Signal(64)
        m.d.sync += [valid.eq(deskew.out.valid), nothing.eq(deskew.aligned & by_width[self.lanes.width]), at.eq(tick), self.idle.eq(0)]
        with m.If(valid):
            with m.If(~nothing):
                m.d.sync += run.eq(0)
            with m.Else():
                m.d.sync += [self.idle.eq(run >= words - 1), self.idle_tick.eq(at)]
                with m.If(run != words):
                    m.d.sync += run.eq(run + 1)
