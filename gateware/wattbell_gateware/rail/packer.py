"""RAIL blocks: samples into a block buffer, then the header in front of the samples."""

from __future__ import annotations

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import FLUSH_TICKS, MAX_PAYLOAD, RAIL_HEADER_SIZE, RAIL_SAMPLE_SIZE, RailFlag

from ..deadlines import reached
from ..stream.buffer import fill_port

__all__ = ["MAX_SAMPLES", "RailPacker"]

HEADER_WORDS = RAIL_HEADER_SIZE // 4
MAX_SAMPLES = (MAX_PAYLOAD - RAIL_HEADER_SIZE) // RAIL_SAMPLE_SIZE
FLAG_BITS = 5
_FLUSH_BITS = FLUSH_TICKS.bit_length()


class _Block:
    """Registers of the block that is being filled.

    flush : the block has to end.
    count : number of its samples.
    address : word to write next.
    rest : the half word that waits for its other half.
    odd : there is such a half word.
    new_flags : of conversions since the last packed sample.
    flags : of the block.
    dropped : samples lost before it.
    step : word of the header.
    packed : a sample was packed in the clock before: its energy is there now.
    """

    def __init__(self) -> None:
        self.flush, self.count, self.address = Signal(), Signal(range(MAX_SAMPLES + 1)), Signal(9)
        self.rest, self.odd = Signal(16), Signal()
        self.new_flags, self.flags = Signal(FLAG_BITS), Signal(FLAG_BITS)
        self.dropped, self.step, self.packed = Signal(32), Signal(range(HEADER_WORDS)), Signal()


class RailPacker(wiring.Component):
    """Packs samples into RAIL blocks.

    A block ends when it is full, 10 ms after its first sample, and on ``flush``. Its header has the energy and index two clocks after the
    strobe of its last sample: by then the accumulator has added the conversion that completed the sample.

    ``dropped`` of the next block counts samples that found no free buffer. Flags and energy since the last packed sample then go to
    the next block. A restart drops those flags.

    Ports
    -----
    now : the tick counter.
    interval_ticks : between samples, for the header.
    strobe : a sample comes. It must stay until the next one, 16 clocks at least.
    voltage : of the sample.
    current : of the sample.
    tick : of the sample.
    energy : of the accumulator.
    index : of the accumulator.
    flags_strobe : a conversion was made.
    flags : of the conversion; they are OR-ed into the block.
    flush : close the open block. Only when ``quiet``.
    restart : mark the next block RESTARTED. Only when ``quiet``.
    fill : to a :class:`..stream.buffer.BlockBuffer`.
    lost : strobe: a sample was dropped.
    open : a block is open.
    due : the open block's 10 ms are over.
    quiet : nothing is under way (except ``flush`` and ``restart``, which the caller knows about).
    deadline : see docs/architecture.md.
    """

    def __init__(self):
        super().__init__(
            {
                "now": In(64),
                "interval_ticks": In(32),
                "strobe": In(1),
                "voltage": In(signed(24)),
                "current": In(signed(24)),
                "tick": In(64),
                "energy": In(96),
                "index": In(64),
                "flags_strobe": In(1),
                "flags": In(FLAG_BITS),
                "flush": In(1),
                "restart": In(1),
                "fill": Out(fill_port()),
                "lost": Out(1),
                "open": Out(1),
                "quiet": Out(1),
                "due": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        open_, block = self.open, _Block()
        pending = Signal()
        first_tick = Signal(64)
        close_at = Signal(64)
        energy = Signal(96)
        index = Signal(64)
        restarted = Signal()

        header = Cat(self.interval_ticks, Const(0, 16) | block.count, Const(0, 16) | block.flags, index, energy)
        header_words = Array(header.word_select(k, 32) for k in range(HEADER_WORDS))
        sample = Cat(self.voltage, self.current)

        m.d.comb += [
            # As in ConversionTimer: the low bits tell.
            self.due.eq(open_ & reached(self.now, close_at, _FLUSH_BITS + 1)),
            self.deadline.eq(open_.replicate(64) & close_at | ~open_.replicate(64)),
            self.fill.words.eq(block.address),
            self.fill.first_tick.eq(first_tick),
            self.fill.dropped.eq(block.dropped),
        ]
        with m.If(self.flags_strobe):
            m.d.sync += block.new_flags.eq(block.new_flags | self.flags)
        with m.If(self.strobe):
            m.d.sync += pending.eq(1)
        with m.If((self.flush | self.due) & open_):
            m.d.sync += block.flush.eq(1)
        with m.If(self.restart):
            m.d.sync += [restarted.eq(1), block.new_flags.eq(0)]

        sample_waits = self.strobe | pending
        idle = Signal()
        m.d.comb += self.quiet.eq(idle & ~sample_waits & ~block.flush & ~self.due & ~self.flags_strobe & ~block.packed)
        m.d.sync += block.packed.eq(0)
        with m.If(block.packed):
            m.d.sync += [energy.eq(self.energy), index.eq(self.index)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                with m.If(block.flush):
                    m.d.sync += [block.flush.eq(0), block.step.eq(0)]
                    m.next = "PAD"
                with m.Elif(sample_waits):
                    m.d.sync += pending.eq(0)
                    with m.If(open_):
                        m.next = "LOW"
                    with m.Elif(self.fill.free):
                        m.d.sync += [
                            open_.eq(1),
                            block.count.eq(0),
                            block.address.eq(HEADER_WORDS),
                            block.odd.eq(0),
                            first_tick.eq(self.tick),
                            close_at.eq(self.now + FLUSH_TICKS),
                            block.flags.eq(Mux(restarted, int(RailFlag.RESTARTED), 0)),
                            restarted.eq(0),
                        ]
                        m.next = "LOW"
                    with m.Else():
                        m.d.comb += self.lost.eq(1)
                        m.d.sync += block.dropped.eq(block.dropped + ~block.dropped.all())
            self._sample_states(m, block, sample)
            self._end_states(m, block, header_words)
        return m

    def _sample_states(self, m: Module, block: _Block, sample: Value) -> None:
        """Build LOW and HIGH: the words of a sample, of one and a half words."""
        with m.State("LOW"):
            m.d.comb += [
                self.fill.write.eq(1),
                self.fill.address.eq(block.address),
                self.fill.data.eq(Mux(block.odd, Cat(block.rest, sample[:16]), sample[:32])),
            ]
            m.d.sync += [
                block.address.eq(block.address + 1),
                block.rest.eq(sample[32:]),
                block.odd.eq(~block.odd),
                block.count.eq(block.count + 1),
                block.packed.eq(1),
                block.flags.eq(block.flags | block.new_flags),
                block.new_flags.eq(0),
            ]
            with m.If(self.flags_strobe):
                m.d.sync += block.new_flags.eq(self.flags)
            with m.If(block.odd):
                m.next = "HIGH"
            with m.Elif(block.count == MAX_SAMPLES - 1):
                m.next = "PAD"
            with m.Else():
                m.next = "IDLE"
        with m.State("HIGH"):
            m.d.comb += [
                self.fill.write.eq(1),
                self.fill.address.eq(block.address),
                self.fill.data.eq(sample[16:]),
            ]
            m.d.sync += block.address.eq(block.address + 1)
            m.next = "IDLE"
            with m.If(block.count == MAX_SAMPLES):
                m.next = "PAD"

    def _end_states(self, m: Module, block: _Block, header: Array) -> None:
        """Build PAD, HEADER and CLOSE: the end of a block."""
        with m.State("PAD"):
            m.d.sync += block.step.eq(0)
            with m.If(block.odd):
                m.d.comb += [
                    self.fill.write.eq(1),
                    self.fill.address.eq(block.address),
                    self.fill.data.eq(block.rest),
                ]
                m.d.sync += [block.address.eq(block.address + 1), block.odd.eq(0)]
            m.next = "HEADER"
        with m.State("HEADER"):
            m.d.comb += [
                self.fill.write.eq(1),
                self.fill.address.eq(block.step),
                self.fill.data.eq(header[block.step]),
            ]
            m.d.sync += block.step.eq(block.step + 1)
            with m.If(block.step == HEADER_WORDS - 1):
                m.next = "CLOSE"
        with m.State("CLOSE"):
            m.d.comb += self.fill.close.eq(1)
            m.d.sync += [self.open.eq(0), block.dropped.eq(0), block.flush.eq(0)]
            m.next = "IDLE"
