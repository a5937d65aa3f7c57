"""Parts of the stream with just enough logic around them to output bytes."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_gateware.nvme import RAW
from wattbell_gateware.stream.buffer import BlockBuffer, fill_port
from wattbell_gateware.stream.fifo import CountingFifo
from wattbell_gateware.stream.rawtlp import RawBuilder
from wattbell_gateware.stream.recordqueue import RecordQueue
from wattbell_gateware.stream.records import RecordBuilder
from wattbell_gateware.stream.writer import OUT_WORD, BlockWriter
from wattbell_spec.wire import BlockContent


class WriterTop(wiring.Component):
    """Two block buffers and the writer."""

    fill0: In(fill_port())
    fill1: In(fill_port())
    run: In(32)
    out: Out(stream.Signature(OUT_WORD))
    idle: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.writer = writer = BlockWriter([BlockContent.EVENTS, BlockContent.TLP])
        for k in range(2):
            m.submodules[f"buffer{k}"] = buffer = BlockBuffer()
            wiring.connect(m, wiring.flipped(getattr(self, f"fill{k}")), buffer.fill)
            wiring.connect(m, buffer.read, getattr(writer, f"source{k}"))
        wiring.connect(m, writer.out, wiring.flipped(self.out))
        m.d.comb += [self.idle.eq(writer.idle), writer.run.eq(self.run)]
        return m


class RecordsTop(wiring.Component):
    """A counting FIFO, a record builder and the writer. `by_word`: a record queue replaces the FIFO; it sees a record held."""

    def __init__(self, words, depth, *, relative, by_word=False):
        self._words, self._depth, self._relative, self._by_word = words, depth, relative, by_word
        super().__init__(
            {
                "i_valid": In(1),
                "i_tick": In(64),
                "i_record": In(32 * words),
                "also": In(3),
                "lost": Out(1),
                "flush": In(1),
                "idle": Out(1),
                "quiet": Out(1),
                "deadline": Out(64),
                "step": In(16),
                "now": Out(64),
                "out": Out(stream.Signature(OUT_WORD)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = 32 * self._words
        m.submodules.fifo = fifo = RecordQueue(self._words, self._depth) if self._by_word else CountingFifo(64 + bits, self._depth)
        m.submodules.builder = builder = RecordBuilder(self._words, relative=self._relative, slow=self._by_word, words=self._by_word)
        m.submodules.buffer = buffer = BlockBuffer()
        m.submodules.writer = writer = BlockWriter([BlockContent.COMMANDS if self._relative else BlockContent.EVENTS])
        wiring.connect(m, builder.fill, buffer.fill)
        wiring.connect(m, buffer.read, writer.source0)
        wiring.connect(m, writer.out, wiring.flipped(self.out))
        m.d.sync += self.now.eq(self.now + (self.step + 1) * 4)
        m.d.comb += [
            fifo.i_valid.eq(self.i_valid),
            fifo.also.eq(self.also),
            self.lost.eq(fifo.lost),
            builder.now.eq(self.now),
            builder.valid.eq(fifo.o_valid),
            fifo.o_ready.eq(builder.ready),
            builder.dropped.eq(fifo.o_dropped),
            builder.flush.eq(self.flush & (fifo.empty | (not self._by_word))),
            self.idle.eq(fifo.empty & builder.idle & writer.idle),
            self.quiet.eq(fifo.empty & builder.quiet & writer.quiet),
            self.deadline.eq(builder.deadline),
        ]
        given = Cat(self.i_tick, self.i_record)
        if self._by_word:
            held = Signal.like(given)
            with m.If(self.i_valid):
                m.d.sync += held.eq(given)
            given = Mux(self.i_valid, given, held)
            m.d.comb += [
                fifo.i_tick.eq(given[:64]),
                fifo.i_record.eq(given[64:]),
                builder.tick.eq(fifo.o_tick),
                builder.word.eq(fifo.o_word),
                fifo.o_index.eq(builder.index),
            ]
        else:
            m.d.comb += [fifo.i_data.eq(given), builder.tick.eq(fifo.o_data[:64]), builder.record.eq(fifo.o_data[64:])]
        return m


class RawTop(wiring.Component):
    """The raw TLP builder and the writer. `slow`: as on slow parts."""

    raw: In(stream.Signature(RAW))
    lost: In(32)
    flush: In(1)
    idle: Out(1)
    now: Out(64)
    out: Out(stream.Signature(OUT_WORD))

    def __init__(self, *, slow: bool = False):
        self._slow = slow
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.builder = builder = RawBuilder(slow=self._slow)
        m.submodules.buffer = buffer = BlockBuffer()
        m.submodules.writer = writer = BlockWriter([BlockContent.TLP])
        wiring.connect(m, wiring.flipped(self.raw), builder.raw)
        wiring.connect(m, builder.fill, buffer.fill)
        wiring.connect(m, buffer.read, writer.source0)
        wiring.connect(m, writer.out, wiring.flipped(self.out))
        m.d.sync += self.now.eq(self.now + 4)
        m.d.comb += [
            builder.now.eq(self.now),
            builder.lost.eq(self.lost),
            builder.flush.eq(self.flush),
            self.idle.eq(builder.idle & writer.idle),
        ]
        return m
