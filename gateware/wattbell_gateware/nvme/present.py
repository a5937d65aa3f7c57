"""The TLP that the engine looks at, and how it is done with."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

from ..tlp import HEADER
from .headqueue import HeadQueue
from .places import Place
from .settings import Settings
from .store import FieldTable

__all__ = ["Present"]


class Present:
    """What is known of it, and its payload.

    header : of the TLP. A mark or a sweep has a tick only: ``header.tick``. What a state makes is of that tick.
    up : it is the drive's. start, total : where its payload begins in that direction's ring; double words of the whole TLP.
    key, offset : page number and offset in its page, in double words, of its address.
    read_index : the double word of the payload wanted in the next clock; without a state that says so, the last one. word : that one.
    beat : of the host's ring, all of the beat in which it is, ``lanes`` double words. first : the payload's first, from the clock after
    DISPATCH on.
    """

    def __init__(self, *, key_bits: int, lanes: int, up: Signal, read_index: Signal, word: Signal, beat: Signal, free: Signal) -> None:
        self.header, self.up = Signal(HEADER), up
        self.start, self.total = Signal(14), Signal(11)
        self.key, self.offset = Signal(key_bits), Signal(14)
        self.read_index, self.word, self.beat, self.lanes = read_index, word, beat, lanes
        self.first = Signal(32)
        self.accepts = Signal()
        self.held = Signal()
        """Something else comes before the next TLP, or may."""
        self.odd = Signal()
        """The next TLP was in the way of data, where it does not belong."""
        self.is_data = Signal()
        """The next TLP goes there."""
        self._free = free

    def connect(self, m: Module, heads: HeadQueue, tags: FieldTable, *, free_to: Signal, free_up: Signal) -> None:
        """Where the next one comes from, and whose space it gives back."""
        self._heads, self._tags = heads, tags
        read_held = Signal(14)
        m.d.sync += read_held.eq(self.read_index)
        m.d.comb += [
            self.read_index.eq(read_held), free_to.eq(self.header.end), free_up.eq(self.up),
            self.is_data.eq(heads.ahead.payload.may_be_data & ~self.odd),
        ]  # fmt: skip
        self.ahead = heads.ahead.payload.merged
        """The next one, should there be one."""

    def may_finish(self, m: Module) -> None:
        """In a state that may :meth:`finish`: the next TLP's tag and payload are read, whether it is taken or not, as it is known too late
        to choose their addresses by it. (Its place in the page map is, in every state that looks up nothing else.)"""
        m.d.comb += [self._tags.ra.eq(self.ahead.header.tag), self.read_index.eq(self._heads.ahead.payload.start)]

    def finish(self, m: Module) -> None:
        """Done with the TLP in hand: on to the next. Only in a state that begins with :meth:`may_finish`."""
        m.d.comb += self._free.eq(1)
        m.next = Place.IDLE
        with m.If(self._heads.ahead.valid & ~self.held):
            self.accept(m)

    def finish_apart(self, m: Module) -> None:
        """The same where what the state does may say that something else comes before the next TLP."""
        m.d.comb += self._free.eq(1)
        m.next = Place.IDLE

    def accept(self, m: Module) -> None:
        """Take the next TLP. Only in a state that begins with :meth:`may_finish`."""
        m.d.comb += self.accepts.eq(1)
        m.next = Place.DISPATCH
        with m.If(self.is_data):
            m.next = Place.DATA

    def take(self, m: Module, begun: Signal, settings: Settings) -> None:
        """What :meth:`accept` does, the same from every state: built once. `begun`: of the way of data."""
        head, address = self._heads.ahead.payload, self.ahead.header.address
        m.d.comb += [self._heads.all_taken.eq(~self.is_data), self._heads.ahead.ready.eq(self.accepts)]
        m.d.sync += begun.eq(self.accepts & self.is_data)
        with m.If(self.accepts):
            m.d.sync += [
                self.odd.eq(0), self.up.eq(self.ahead.up), self.header.eq(self.ahead.header), self.start.eq(head.start),
                self.total.eq(head.total), self.key.eq(settings.page_key(address)), self.offset.eq(settings.page_offset(address)),
            ]  # fmt: skip
