"""Blocks of fixed-size records: COMMANDS and EVENTS."""

from __future__ import annotations

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import FLUSH_TICKS

from .buffer import PAYLOAD_WORDS, fill_port

__all__ = ["RecordBuilder"]


class RecordBuilder(wiring.Component):
    """Writes records of ``record_words`` words into blocks, one word a clock and two clocks between records.

    The block's first tick is the tick of its first record. A block is closed when it is full, 10 ms after its first
    record, before a record in front of which records were dropped (so that a gap lies between two blocks), and, if
    ``relative``, before a record whose tick is further than a signed 32-bit offset from the first.

    Ports: ``valid``, ``ready``, ``tick``, ``record`` (``32 * record_words`` bits; if ``relative`` its first word is
    replaced by ``tick`` - first tick), ``dropped``; ``flush``: close as soon as nothing waits; ``fill``; ``idle``: no
    block open, nothing waiting.

    `slow`: two clocks more between records, and blocks are closed a clock later; no idle clocks can be left out then.
    `words`: in place of ``record`` there is ``word``, that of the record which ``index`` named in the clock before
    (:class:`.recordqueue.RecordQueue`); `relative` only.
    """

    def __init__(self, record_words: int, *, relative: bool, slow: bool = False, words: bool = False):
        if words and not relative:
            raise ValueError("records that come word by word have their tick apart: relative only")
        self._by_word = words
        self._words = record_words
        self._slow = slow
        self._relative = relative
        super().__init__({
            "now": In(64),
            "valid": In(1), "ready": Out(1), "tick": In(64), "dropped": In(32),
            **({"word": In(32), "index": Out(range(record_words + 1))} if words else {"record": In(32 * record_words)}),
            "flush": In(1), "fill": Out(fill_port()),
            "idle": Out(1), "quiet": Out(1), "deadline": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        capacity = PAYLOAD_WORDS // self._words
        open_ = Signal()
        first_tick = Signal(64)
        close_at = Signal(64)
        dropped = Signal(32)
        address = Signal(9)
        count = Signal(range(capacity + 1))
        step = Signal(range(self._words))
        due = Signal()
        offset = Signal(64)
        fits, parts = Signal(), Signal()
        reached, distance = self.now >= close_at, self.tick - first_tick
        if self._slow:
            was = Signal()
            m.d.sync += [was.eq(open_ & reached), offset.eq(distance)]
            m.d.comb += due.eq(open_ & was)
        else:
            m.d.comb += [due.eq(open_ & reached), offset.eq(distance)]
        m.d.comb += [
            self.deadline.eq(open_.replicate(64) & close_at | ~open_.replicate(64)),
            self.fill.words.eq(address),
            self.fill.first_tick.eq(first_tick),
            self.fill.dropped.eq(dropped),
            self.fill.address.eq(address),
        ]
        if self._relative:
            m.d.comb += fits.eq((offset[31:] == 0) | offset[31:].all())
        else:
            m.d.comb += fits.eq(1)

        # Whether the next record ends the block is decided a clock before it matters: it comes from a memory, and 64 bits take their time.
        m.d.sync += parts.eq((self.dropped != 0) | ~fits)

        word = Signal(32)
        if self._by_word:
            m.d.comb += [self.index.eq(step + 1), word.eq(Mux(step == 0, offset[:32], self.word))]
        else:
            words = [self.record.word_select(k, 32) for k in range(self._words)]
            if self._relative:
                words[0] = offset[:32]
            m.d.comb += word.eq(Array(words)[step])
        idle = Signal()
        m.d.comb += [
            self.idle.eq(idle & ~self.valid & ~open_),
            self.quiet.eq(idle & ~self.valid & ~due & ~(self.flush & open_)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                m.d.sync += step.eq(0)
                with m.If(due | (self.flush & open_ & ~self.valid)):
                    m.next = "CLOSE"
                with m.Elif(self.valid & open_):
                    m.next = "LOOK"
                with m.Elif(self.valid & self.fill.free):
                    m.d.sync += [
                        open_.eq(1), first_tick.eq(self.tick), dropped.eq(self.dropped),
                        close_at.eq(self.now + FLUSH_TICKS), address.eq(0), count.eq(0),
                    ]
                    m.next = "FIRST" if self._slow else "WRITE"
            if self._slow:  # the offset is there in the next clock, and what it means in the one behind
                with m.State("FIRST"):
                    m.next = "WRITE"
                with m.State("LOOK"):
                    m.next = "LOOKED"
            with m.State("LOOKED" if self._slow else "LOOK"):
                m.next = "WRITE"
                with m.If(parts):
                    m.next = "CLOSE"
            with m.State("WRITE"):
                m.d.comb += [self.fill.write.eq(1), self.fill.data.eq(word)]
                m.d.sync += [address.eq(address + 1), step.eq(step + 1)]
                with m.If(step == self._words - 1):
                    m.d.comb += self.ready.eq(1)
                    m.d.sync += count.eq(count + 1)
                    m.next = "IDLE"
                    with m.If(count == capacity - 1):
                        m.next = "CLOSE"
            with m.State("CLOSE"):
                m.d.comb += self.fill.close.eq(1)
                m.d.sync += open_.eq(0)
                m.next = "IDLE"
        return m
