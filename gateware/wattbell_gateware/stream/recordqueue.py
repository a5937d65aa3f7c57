"""Queue of records in narrow words, which replaces :class:`.fifo.CountingFifo` in parts with few block RAMs."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["BEATS", "RecordQueue"]

BEATS = 4
"""Clocks that writing a record takes, a quarter of the record in each."""
_WORDS = 4
"""Words of 32 bits written in a clock."""


class RecordQueue(wiring.Component):
    """Queues up to `depth` (a power of 2) records of `words` words with their ticks; written in four clocks, read word by word.

    A record without room, or during the write of another record, is dropped and counted. A record can be read six clocks after its
    ``i_valid`` at the earliest. The next record follows at least three clocks after the last word of the one before. ``o_valid`` is
    low in between, so a builder must not be flushed before the queue is ``empty``. Raises :class:`ValueError` for other depths and
    too many words.

    Ports
    -----
    i_valid : a record comes. The record has to stay for three more clocks.
    i_tick : tick of the record.
    i_done : low 32 bits of the tick that completed it.
    i_record : words of the record.
    also : see :class:`.fifo.CountingFifo`.
    lost : see :class:`.fifo.CountingFifo`.
    room : see :class:`.fifo.CountingFifo`.
    empty : see :class:`.fifo.CountingFifo`.
    o_valid : a record is available.
    o_ready : the record is taken.
    o_tick : tick of the oldest record.
    o_done : ``i_done`` of the oldest record.
    o_dropped : records lost before the oldest record.
    o_index : index of a word of the oldest record. Word 0 is not kept: the builder puts its offset there.
    o_word : the word that ``o_index`` named in the clock before.
    """

    def __init__(self, words: int, depth: int):
        if depth & (depth - 1) or words + 3 > BEATS * _WORDS:
            raise ValueError(f"records of {words} words, {depth} of them: at most {BEATS * _WORDS - 3} words, and a power of 2")
        self._words, self._depth = words, depth
        super().__init__(
            {
                "i_valid": In(1),
                "i_tick": In(64),
                "i_done": In(32),
                "i_record": In(32 * words),
                "also": In(3),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_tick": Out(64),
                "o_done": Out(32),
                "o_dropped": Out(32),
                "o_index": In(range(words + 1)),
                "o_word": Out(32),
                "room": Out(1),
                "lost": Out(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=32 * _WORDS, depth=BEATS * self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        beat, tail, head = Signal(range(BEATS)), Signal(range(self._depth)), Signal(range(self._depth))
        taken, whole = Signal(range(self._depth + 1)), Signal(range(self._depth + 1))  # whole: written completely
        dropped, counted = Signal(32), Signal(33)

        begins, ends, leaves = Signal(), Signal(), Signal()
        m.d.comb += [
            self.room.eq((beat == 0) & (taken != self._depth)),
            begins.eq(self.i_valid & self.room),
            ends.eq(beat == BEATS - 1),
            self.lost.eq(self.i_valid & ~self.room),
            self.empty.eq(taken == 0),
            leaves.eq(self.o_valid & self.o_ready),
            counted.eq(Mux(begins, 0, dropped) + self.also + self.lost),
        ]
        with m.If(self.i_valid | (self.also != 0)):
            m.d.sync += dropped.eq(counted[:32] | counted[32].replicate(32))
        kept = Cat(dropped, self.i_tick, self.i_done, self.i_record[32:])
        words = Array(kept[start : start + 32 * _WORDS] for start in range(0, 32 * _WORDS * BEATS, 32 * _WORDS))
        m.d.comb += [write.en.eq(begins | (beat != 0)), write.addr.eq(Cat(beat, tail)), write.data.eq(words[beat])]
        with m.If(write.en):
            m.d.sync += beat.eq(beat + 1)
        with m.If(ends):
            m.d.sync += tail.eq(tail + 1)
        m.d.sync += [taken.eq(taken + begins - leaves), whole.eq(whole + ends - leaves)]

        place, lane = Signal(range(BEATS * _WORDS)), Signal(range(_WORDS))
        m.d.comb += [read.addr.eq(Cat(place[2:], head)), self.o_word.eq(read.data.word_select(lane, 32))]
        m.d.sync += lane.eq(place[:2])
        with m.FSM():
            with m.State("EMPTY"):
                with m.If(whole != 0):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [self.o_dropped.eq(read.data[:32]), self.o_tick.eq(read.data[32:96]), self.o_done.eq(read.data[96:])]
                m.next = "READY"
            with m.State("READY"):
                m.d.comb += [self.o_valid.eq(1), place.eq(self.o_index + 3)]
                with m.If(self.o_ready):
                    m.d.sync += head.eq(head + 1)
                    m.next = "EMPTY"
        return m
