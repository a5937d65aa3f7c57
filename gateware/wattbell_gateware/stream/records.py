"""Builder of blocks of fixed-size records: COMMANDS and EVENTS."""

from __future__ import annotations

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .buffer import PAYLOAD_WORDS
from .openblock import OpenBlock, block_ports

__all__ = ["RecordBuilder"]


class RecordBuilder(wiring.Component):
    """Writes records into blocks, one word a clock, with two clocks between records (see :class:`.openblock.OpenBlock`).

    A block also ends when it is full, and before a record in front of which records were dropped; a gap therefore lies between two
    blocks. If `relative`, a block also ends before a record with a tick beyond a signed 32-bit offset from the first.

    Ports
    -----
    valid : a record waits.
    ready : the record is taken.
    tick : tick of the record.
    record : ``32 * record_words`` bits. If `relative`, ``tick`` - first tick replaces its first word.
    word : with `words`, in place of ``record``: the word that ``index`` named in the clock before
        (:class:`.recordqueue.RecordQueue`).
    index : with `words`: index of the wanted word.
    dropped : records lost in front of this one.
    now : see :func:`.openblock.block_ports`.
    flush : see :func:`.openblock.block_ports`.
    fill : see :func:`.openblock.block_ports`.
    idle : see :func:`.openblock.block_ports`.
    quiet : see :func:`.openblock.block_ports`.
    deadline : see :func:`.openblock.block_ports`.

    Parameters
    ----------
    record_words : words of 32 bits in a record.
    relative : the first word of a record is its offset from the block's first tick.
    slow : see :class:`.openblock.OpenBlock`.
    words : records come word by word; only with `relative`, otherwise :class:`ValueError`.
    """

    def __init__(self, record_words: int, *, relative: bool, slow: bool = False, words: bool = False):
        if words and not relative:
            raise ValueError("records that come word by word have their tick apart: relative only")
        self._by_word = words
        self._words = record_words
        self._slow = slow
        self._relative = relative
        super().__init__(
            {
                **block_ports(),
                "valid": In(1),
                "ready": Out(1),
                "tick": In(64),
                "dropped": In(32),
                **({"word": In(32), "index": Out(range(record_words + 1))} if words else {"record": In(32 * record_words)}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        capacity = PAYLOAD_WORDS // self._words
        block = OpenBlock(m, self, valid=self.valid, tick=self.tick, steps=self._words, slow=self._slow)
        step = block.step
        count = Signal(range(capacity + 1))
        parts = Signal()
        word = Signal(32)
        # Whether the next record ends the block is decided a clock early: the record comes from a memory, and comparing 64 bits
        # takes time.
        m.d.sync += parts.eq((self.dropped != 0) | (~block.near if self._relative else 0))

        if self._by_word:
            m.d.comb += [self.index.eq(step + 1), word.eq(Mux(step == 0, block.offset[:32], self.word))]
        else:
            words = [self.record.word_select(k, 32) for k in range(self._words)]
            if self._relative:
                words[0] = block.offset[:32]
            m.d.comb += word.eq(Array(words)[step])
        with m.FSM():
            block.opening(m, "WRITE", begin=[block.dropped.eq(self.dropped), count.eq(0)], ends=parts)
            with m.State("WRITE"):
                m.d.comb += [self.fill.write.eq(1), self.fill.data.eq(word)]
                m.d.sync += [block.address.eq(block.address + 1), step.eq(step + 1)]
                with m.If(step == self._words - 1):
                    m.d.comb += self.ready.eq(1)
                    m.d.sync += count.eq(count + 1)
                    m.next = "IDLE"
                    with m.If(count == capacity - 1):
                        m.next = "CLOSE"
            block.closing(m)
        return m
