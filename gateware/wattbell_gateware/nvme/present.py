"""The TLP in hand, the way to its payload, and its end."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal

from ..tlp import HEADER, TlpKind
from .headqueue import HeadQueue
from .places import Place
from .settings import Settings
from .store import FieldTable

__all__ = ["Present"]


class Present:
    """The TLP in hand and its payload.

    header : of the TLP. A mark or a sweep has a tick only: ``header.tick``. All output of a state has that tick.
    up : the drive sent it.
    start : place of its payload in that direction's ring.
    total : double words of the whole TLP.
    key, offset : page number of its address, and offset in its page in double words.
    read_index : double word of the payload to read; keeps its value in states that set none.
    word : that double word, in the next clock.
    beat : the whole beat of ``lanes`` double words around it, of the host's ring.
    first : first double word of the payload, from the clock after DISPATCH on.
    """

    def __init__(self, *, key_bits: int, lanes: int, up: Signal, read_index: Signal, word: Signal, beat: Signal, free: Signal) -> None:
        self.header, self.up = Signal(HEADER), up
        self.start, self.total = Signal(14), Signal(11)
        self.key, self.offset = Signal(key_bits), Signal(14)
        self.read_index, self.word, self.beat, self.lanes = read_index, word, beat, lanes
        self.first = Signal(32)
        self.foreign = Signal()
        """It is of a function that is not followed."""
        self.more = Signal()
        """It has another double word to take."""
        self.accepts = Signal()
        self.held = Signal()
        """Something else comes before the next TLP, or may."""
        self.odd = Signal()
        """The next TLP was in the way of data, where it does not belong."""
        self.is_data = Signal()
        """The next TLP goes there."""
        self._free = free

    def connect(self, m: Module, heads: HeadQueue, tags: FieldTable, *, free_to: Signal, free_side: Signal) -> None:
        """Connect the source of TLPs and the rings that get their space back."""
        self._heads, self._tags = heads, tags
        read_held = Signal(14)
        m.d.sync += read_held.eq(self.read_index)
        m.d.comb += [
            self.read_index.eq(read_held),
            free_to.eq(self.header.end),
            free_side.eq(self.up),
            self.is_data.eq(heads.ahead.payload.may_be_data & ~self.odd),
        ]
        self.ahead = heads.ahead.payload.merged
        """Return the next header, valid or not."""

    def may_finish(self, m: Module) -> None:
        """Read tag and payload of the next TLP, in a state that may :meth:`finish`.

        Whether the state finishes is known too late to choose their addresses. States without a look-up of their own read the page map
        for the next TLP anyway.
        """
        m.d.comb += [self._tags.ra.eq(self.ahead.header.tag), self.read_index.eq(self._heads.ahead.payload.start)]

    def finish(self, m: Module) -> None:
        """Finish the TLP in hand and go on to the next. Only in a state that begins with :meth:`may_finish`."""
        m.d.comb += self._free.eq(1)
        m.next = Place.IDLE
        with m.If(self._heads.ahead.valid & ~self.held):
            self.accept(m)

    def finish_word(self, m: Module) -> None:
        """Finish a double word of a write to doorbells: go on to the next double word, or :meth:`finish`."""
        with m.If(self.more):
            m.next = Place.DOORBELL_NEXT
        with m.Else():
            self.finish(m)

    def finish_apart(self, m: Module) -> None:
        """Finish in a state that may create a mark or sweep before the next TLP."""
        m.d.comb += self._free.eq(1)
        m.next = Place.IDLE

    def accept(self, m: Module) -> None:
        """Take the next TLP. Only in a state that begins with :meth:`may_finish`."""
        m.d.comb += self.accepts.eq(1)
        m.next = Place.DISPATCH
        with m.If(self.is_data):
            m.next = Place.DATA

    def take(self, m: Module, begun: Signal, settings: Settings) -> None:
        """Build once, for all states, the effect of :meth:`accept`. `begun`: of the way of data."""
        head, header = self._heads.ahead.payload, self.ahead.header
        address, kind = header.address, header.kind
        of_drive = Mux(self.ahead.up, (kind == TlpKind.MRD) | (kind == TlpKind.MWR), (kind == TlpKind.CPL) | (kind == TlpKind.CPLD))
        m.d.comb += [self._heads.all_taken.eq(~self.is_data), self._heads.ahead.ready.eq(self.accepts)]
        m.d.sync += begun.eq(self.accepts & self.is_data)
        with m.If(self.accepts):
            m.d.sync += [
                self.foreign.eq(of_drive & settings.is_other(header.requester)),
                self.odd.eq(0),
                self.up.eq(self.ahead.up),
                self.header.eq(self.ahead.header),
                self.start.eq(head.start),
                self.total.eq(head.total),
                self.key.eq(settings.page_key(address)),
                self.offset.eq(settings.page_offset(address)),
            ]
