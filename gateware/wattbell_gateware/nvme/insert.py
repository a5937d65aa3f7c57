"""Insertion of entries into the page map.

INSERT puts ``entry`` into the first way with an empty or stale place for it. When all places hold entries of commands in flight, it
replaces a doubtful entry. Without a doubtful one, the entry of a command in flight goes: a counted loss. TLPs of that command
could then be taken for TLPs of the entry before it in the page. So these commands get the flag DATA_PARTIAL: the command itself, commands
with entries before it in that page, and commands that put one into that page within 2**CROWDED_BITS ticks. A doubtful entry goes only
into an
empty or stale place. If it turns out to be right after all, its TLPs count as unmatched. A piece (``piece``) tries the ways of pieces, then
the ways of pages, where it is valid to the end of its page.

Where `entry` takes the place of another command in flight, that command gets the flag DATA_PARTIAL, and the new one is marked as
`shared`. As long as the older one is in flight (`ousted`), each command that puts an entry is marked, too: its place may be the one that
was taken over. A command from before a loss of TLPs is most likely over, so it marks nothing.

SPAN puts data that may end before its page does: one piece for each granule that is surely covered. One doubtful entry to the
end of the page follows where the data may be longer.

BUFFER puts contiguous data of any number of pages.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from wattbell_spec import wire as spec

from . import tables
from .pagemap import GRANULE_BITS, PageMap
from .present import Present
from .report import Report
from .settings import Settings
from .slots import Slots
from .store import Subroutine
from .tables import PageKind

__all__ = ["Insertion"]

Flag = spec.CommandFlag


class Insertion:
    """The subroutines BUFFER, SPAN and INSERT.

    entry : goes into the map.
    piece : ``entry`` is a piece.
    left : double words of a buffer that begins with `entry`.
    span_end : of a piece: end of the part that is surely used, in double words from the start of its page.
    span_most : of a piece: end of the part that may be used.
    """

    def __init__(self, *, tlp: Present, report: Report, settings: Settings, slots: Slots, map_: PageMap) -> None:
        self.tlp, self.report, self.settings, self.slots, self.map = tlp, report, settings, slots, map_
        ways = map_.count
        self.entry, self.piece = Signal(map_.layout), Signal()
        self.span_end, self.span_most = Signal(27), Signal(27)
        self.left = Signal(tables.DUE_BITS + 1)
        self._next_left, self._next_index, self._goes_on = Signal.like(self.left), Signal(14), Signal()  # behind the page in hand
        self._same, self._empty = Signal(ways), Signal(ways)
        self._same_way, self._empty_way = Signal(range(ways)), Signal(range(ways))
        self._way = Signal(range(ways))
        self._met = Signal(map_.layout)
        self._spare = Signal()  # `_spare_way` holds a doubtful entry
        self._spare_way = Signal(range(ways))
        self._victim = Signal(range(map_.pages))
        self._lives = Signal()  # `_met` is of a command in flight
        self._other = Signal(map_.layout)
        self._goes_again = Signal()  # the place of `_met` is empty now, and `entry` needs another one
        self._crowded = Signal()
        self._is_crowded = Signal()  # the page of `entry`
        self._crowded_key = Signal(52)
        self._crowded_tick = Signal(64)
        self._insert, self._span, self._buffer = Subroutine("INSERT"), Subroutine("SPAN"), Subroutine("BUFFER")

    def connect(self, m: Module) -> None:
        for number in reversed(range(self.map.count)):
            with m.If(self._same[number]):
                m.d.comb += self._same_way.eq(number)
            with m.If(self._empty[number]):
                m.d.comb += self._empty_way.eq(number)

    def prepare(self, m: Module, **fields: Value) -> None:
        """Set, in the present state, these fields of `entry`, all others to 0, and `piece` to 0."""
        m.d.sync += [
            self.entry.eq(0),
            self.entry.valid.eq(1),
            *(self.entry[name].eq(value) for name, value in fields.items()),
            self.piece.eq(0),
        ]

    def insert(self, m: Module, back: str) -> None:
        """Insert `entry`, as it stands in the next clock; go on at `back`."""
        self._insert.call(m, back)

    def span(self, m: Module, back: str) -> None:
        """Put a piece that begins with `entry` and ends at `span_end`, or may end at `span_most`; go on at `back`."""
        self._span.call(m, back)

    def buffer(self, m: Module, back: str) -> None:
        """Put a buffer that begins with `entry` and has `left` double words, page by page; go on at `back`."""
        self._buffer.call(m, back)

    def forget(self, m: Module) -> None:
        """Forget that an entry was evicted, in the present state."""
        m.d.sync += self._crowded.eq(0)

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._buffer_states(m)
        self._span_states(m)
        self._place_states(m)
        self._same_states(m)
        self._scan_states(m)
        self._evict_states(m)

    def _pick(self, m: Module, way) -> None:
        """Choose, in the present state, a way by its number."""
        m.d.comb += self.map.choice.eq((1 << way)[: self.map.count])

    def _alive(self, entry) -> Value:
        """Return, in a state in which the slot of `entry` is read, whether its command is in flight."""
        return (self.slots.r["state"] == tables.SlotState.IN_FLIGHT) & (self.slots.r["generation"] == entry.generation)

    def _buffer_states(self, m: Module) -> None:
        """Build BUFFER and BUFFER_NEXT: `left` double words from `entry` on, page by page."""
        page_size = self.settings.page_size()
        with m.State("BUFFER"):
            end = self.entry.start + self.left
            m.d.sync += [
                self.piece.eq((self.entry.start != 0) & (end < page_size)),
                self.span_end.eq(end),
                self.span_most.eq(end),
                self._next_left.eq(end - page_size),
                self._next_index.eq(self.entry.index + ((page_size - self.entry.start) >> 1)),
                self._goes_on.eq(end > page_size),
            ]
            with m.If(self.entry.kind == int(PageKind.DATA)):
                m.d.sync += self.entry.index.eq(Mux(end > page_size, page_size, end)[:15] - 1)
            self.span(m, "BUFFER_NEXT")

        with m.State("BUFFER_NEXT"):
            m.d.sync += [
                self.entry.key.eq(self.entry.key + (1 << self.settings.mps)),
                self.entry.start.eq(0),
                self.entry.index.eq(self._next_index),
                self.left.eq(self._next_left),
            ]
            m.next = "BUFFER"
            with m.If(~self._goes_on):
                self._buffer.leave(m)

    def _span_states(self, m: Module) -> None:
        """Build SPAN and SPAN_NEXT: the piece `entry` from its start to `span_end`, and perhaps to `span_most`."""
        with m.State("SPAN"):
            self.insert(m, "SPAN_NEXT")

        following = Signal(15)
        m.d.comb += following.eq(((self.entry.start >> GRANULE_BITS) + 1) << GRANULE_BITS)
        with m.State("SPAN_NEXT"):
            behind = following >= self.span_end
            m.d.sync += self.entry.start.eq(following)
            with m.If(self.entry.kind != int(PageKind.DATA)):
                m.d.sync += self.entry.index.eq(self.entry.index + ((following - self.entry.start) >> 1))
            with m.If(~self.piece | (behind & (following >= self.span_most)) | (following >= self.settings.page_size())):
                self._span.leave(m)
            with m.Else():
                with m.If(behind):
                    m.d.sync += [self.piece.eq(0), self.entry.doubtful.eq(1)]
                self.insert(m, "SPAN_NEXT")

    # --- INSERT -------------------------------------------------------------------------------------------------------

    def _place_states(self, m: Module) -> None:
        """Build INSERT to INSERT_CHOOSE: the place of an older entry, or an empty place."""
        slots, pagemap, pages = self.slots, self.map, self.map.pages

        with m.State("INSERT"):
            pagemap.look_up(m, self.entry.key, self.entry.start)
            m.next = "INSERT_COMPARE"
            crowded = self._crowded & (self._crowded_key == self.entry.key)
            m.d.sync += self._is_crowded.eq(crowded)
            with m.If((crowded | (slots.ousted != 0)) & ~_is_pinned(self.entry)):
                m.d.comb += slots.ra.eq(self.entry.slot)
                m.next = "INSERT_DOUBTED"

        with m.State("INSERT_DOUBTED"):
            pagemap.keep(m)
            m.next = "INSERT_COMPARE"
            with m.If(self._is_crowded & ((self.tlp.header.tick - self._crowded_tick)[tables.CROWDED_BITS :] != 0)):
                m.d.sync += self._crowded.eq(0)
            with m.Elif(self._is_crowded):
                slots.flag(m, self.entry.slot, int(Flag.DATA_PARTIAL))
            with m.If(slots.ousted != 0):
                slots.share(m, self.entry.slot)

        with m.State("INSERT_COMPARE"):
            pagemap.keep(m)
            for number, entry in enumerate(pagemap.entries):
                # To find a place, pieces begin with their own ways.
                mine = self.piece if number >= pages else ~self.piece
                m.d.sync += [
                    self._same[number].eq(pagemap.same[number] & (entry.start == self.entry.start)),
                    self._empty[number].eq(~entry.valid & mine),
                ]
            m.next = "INSERT_CHOOSE"

        same, empty = self._same_way, self._empty_way
        with m.State("INSERT_CHOOSE"):
            pagemap.keep(m)
            first = Mux(self.piece, pages, 0)
            way = Mux(self._same != 0, same, first)
            self._pick(m, way)
            m.d.sync += [self._way.eq(way), self._met.eq(pagemap.chosen), self._spare.eq(0)]
            with m.If(self._same != 0):
                m.next = "INSERT_SAME"
            with m.Elif(self._empty != 0):
                pagemap.put(m, empty)
                self._insert.leave(m)
            with m.Else():
                m.next = "INSERT_SCAN"

    def _same_states(self, m: Module) -> None:
        """Build INSERT_SAME to INSERT_AGAIN: another entry of this start is there."""
        slots, pagemap, pages = self.slots, self.map, self.map.pages

        with m.State("INSERT_SAME"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._met.slot)
            m.next = "INSERT_SAME_SLOT"
            with m.If(_is_pinned(self._met) & ~_is_pinned(self.entry)):
                self._insert.leave(m)
            with m.Elif(_is_pinned(self._met) | _is_pinned(self.entry)):
                pagemap.put(m, self._way)
                self._insert.leave(m)

        with m.State("INSERT_SAME_SLOT"):
            pagemap.keep(m)
            m.d.sync += self._lives.eq(self._alive(self._met))
            m.next = "INSERT_REPLACE"

        with m.State("INSERT_REPLACE"):
            pagemap.keep(m)
            other = self._met.slot != self.entry.slot
            # Two commands on one buffer: whose transfer it is cannot be told any more. With a known length, a doubtful entry is the rest
            # of a list's page.
            shared = self._lives & other & ~self.entry.doubtful & (~self._met.doubtful | ~slots.r["left"].checked)
            again = self.piece != (self._way >= pages)
            m.d.sync += self._goes_again.eq(again)
            self._insert.leave(m)
            with m.If(self._lives & self.entry.doubtful & (other | ~self._met.doubtful)):
                # If the command uses the page, its data is taken for the other's. With a known length it is the rest of a list's page.
                with m.If(other):
                    m.next = "INSERT_REFUSED"
            with m.Elif(again):
                # That place is of the other kind: what is for the page needs one that holds to its end, and pieces would
                # crowd the few places of the page. It goes where it belongs.
                pagemap.put(m, self._way)
                m.d.comb += pagemap.put_entry.valid.eq(0)
                m.next = "INSERT_AGAIN"
            with m.Else():
                pagemap.put(m, self._way)
            with m.If(shared):
                slots.flag(m, self._met.slot, int(Flag.DATA_PARTIAL))
                with m.If(slots.r["epoch"] == self.report.epoch):
                    slots.oust(m, self._met.slot)
                    m.next = "INSERT_SHARED"

        with m.State("INSERT_SHARED"):
            m.d.comb += slots.ra.eq(self.entry.slot)
            m.next = "INSERT_SHARES"

        with m.State("INSERT_SHARES"):
            slots.share(m, self.entry.slot)
            self._insert.leave(m)
            with m.If(self._goes_again):
                m.next = "INSERT_AGAIN"

        with m.State("INSERT_REFUSED"):
            m.d.comb += slots.ra.eq(self.entry.slot)
            m.next = "INSERT_FLAG"

        with m.State("INSERT_FLAG"):
            with m.If(~slots.r["left"].checked):
                slots.flag(m, self.entry.slot, int(Flag.DATA_PARTIAL))
            self._insert.leave(m)

        with m.State("INSERT_AGAIN"):  # what was written last shows in what is read from now on
            pagemap.look_up(m, self.entry.key, self.entry.start)
            m.next = "INSERT_COMPARE"

    def _scan_states(self, m: Module) -> None:
        """Build INSERT_SCAN to INSERT_STALE: no way of its kind is empty, so the first with a stale entry."""
        slots, pagemap, ways, pages = self.slots, self.map, self.map.count, self.map.pages

        with m.State("INSERT_SCAN"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._met.slot)
            m.next = "INSERT_SCAN_SLOT"

        with m.State("INSERT_SCAN_SLOT"):
            pagemap.keep(m)
            m.d.sync += self._lives.eq(self._alive(self._met))
            m.next = "INSERT_STALE"

        with m.State("INSERT_STALE"):
            pagemap.keep(m)
            wrapped = Mux(self._way == ways - 1, 0, self._way + 1)
            with m.If(~self._met.valid | (~_is_pinned(self._met) & ~self._lives)):
                pagemap.put(m, self._way)
                self._insert.leave(m)
            with m.Elif(self._way != pages - 1):
                self._pick(m, wrapped)
                m.d.sync += [self._way.eq(wrapped), self._met.eq(pagemap.chosen)]
                with m.If(self._met.doubtful):
                    m.d.sync += [self._spare.eq(1), self._spare_way.eq(self._way)]
                m.next = "INSERT_SCAN"
            with m.Elif(self.entry.doubtful):
                self._insert.leave(m)
            with m.Elif(self._met.doubtful | self._spare):
                pagemap.put(m, Mux(self._met.doubtful, self._way, self._spare_way))
                self._insert.leave(m)
            with m.Else():
                self._pick(m, self._victim)
                m.d.sync += [self._way.eq(0), self._victim.eq(self._victim + 1), self._met.eq(pagemap.chosen)]
                m.next = "INSERT_EVICT"

    def _evict_states(self, m: Module) -> None:
        """Build INSERT_EVICT to INSERT_BEFORE_FLAG: an entry of a page goes, by turns; its command is flagged."""
        slots, pagemap, ways, pages = self.slots, self.map, self.map.count, self.map.pages

        with m.State("INSERT_EVICT"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._met.slot)
            self._pick(m, self._victim)
            m.d.sync += [self._way.eq(self._way + 1), self._victim.eq(self._victim + 1), self._met.eq(pagemap.chosen)]
            with m.If(~_is_pinned(self._met)):
                m.d.sync += [self._victim.eq(self._victim), self._met.eq(self._met)]
                m.next = "INSERT_EVICTED"
            with m.Elif(self._way == pages - 1):
                self.report.lost(m, spec.LossSource.QUEUES)
                self._insert.leave(m)

        with m.State("INSERT_EVICTED"):  # victim is one past the way that goes
            pagemap.keep(m)
            self.report.lost(m, spec.LossSource.PAGES)
            slots.flag(m, self._met.slot, int(Flag.DATA_PARTIAL))
            pagemap.put(m, (self._victim - 1)[: self._victim.shape().width])
            m.d.sync += [
                self._crowded.eq(1),
                self._crowded_key.eq(self._met.key),
                self._crowded_tick.eq(self.tlp.header.tick),
                self._way.eq(0),
            ]
            m.next = "INSERT_BEFORE"

        with m.State("INSERT_BEFORE"):
            pagemap.look_up(m, self._met.key, self._met.start)
            m.next = "INSERT_BEFORE_WAY"

        with m.State("INSERT_BEFORE_WAY"):
            pagemap.keep(m)
            self._pick(m, self._way)
            m.d.sync += self._other.eq(pagemap.chosen)
            m.next = "INSERT_BEFORE_SLOT"

        with m.State("INSERT_BEFORE_SLOT"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._other.slot)
            m.next = "INSERT_BEFORE_FLAG"

        with m.State("INSERT_BEFORE_FLAG"):
            pagemap.keep(m)
            m.d.sync += self._way.eq(self._way + 1)
            m.next = "INSERT_BEFORE_WAY"
            other = self._other
            holds = other.valid & ~_is_pinned(other) & (other.key == self._met.key) & (other.start < self._met.start)
            with m.If(holds & self._alive(other)):
                slots.flag(m, other.slot, int(Flag.DATA_PARTIAL))
            with m.If(self._way == ways - 1):
                self._insert.leave(m)


def _is_pinned(entry) -> Value:
    return sum(entry.kind == int(k) for k in tables.PINNED) != 0
