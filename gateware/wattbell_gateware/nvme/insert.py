"""How entries get into the page map.

INSERT puts one entry, ``entry``: into the first way whose place for it is empty or stale. When all hold entries of
commands in flight: into that of a doubtful one; else the entry of a command in flight goes, which is a loss and counted.
Then what belongs to that command would be taken for that of the entry before it in the page: it and all commands that
have entries before it there, or put one into that page within 2**CROWDED_BITS ticks, get the flag DATA_PARTIAL. What is
doubtful itself goes only where it is empty or stale: when it proves to be right after all, its TLPs are counted as
unmatched. A piece (``piece``) looks for its place in the ways of pieces and then in those of pages, where it holds
to the end of its page.

SPAN puts what may not reach to the end of its page: one piece for each granule that it surely covers, and behind
them one doubtful entry to the end of the page if it may be longer.
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

__all__ = ["Insertion"]

Flag = spec.CommandFlag


class Insertion:
    """SPAN and INSERT.

    entry, piece : what is put into the map; it is a piece.
    span_end, span_most : of a piece, in double words from the start of its page: behind what is surely used; behind what may be used.
    """

    def __init__(self, *, tlp: Present, report: Report, settings: Settings, slots: Slots, map_: PageMap) -> None:
        self.tlp, self.report, self.settings, self.slots, self.map = tlp, report, settings, slots, map_
        ways = map_.count
        self.entry, self.piece = Signal(map_.layout), Signal()
        self.span_end, self.span_most = Signal(27), Signal(27)
        self._same, self._empty = Signal(ways), Signal(ways)
        self._same_way, self._empty_way = Signal(range(ways)), Signal(range(ways))
        self._way = Signal(range(ways))
        self._met = Signal(map_.layout)
        self._spare = Signal()  # `_spare_way` holds a doubtful entry
        self._spare_way = Signal(range(ways))
        self._victim = Signal(range(map_.pages))
        self._lives = Signal()  # `_met` is of a command in flight
        self._other = Signal(map_.layout)
        self._crowded = Signal()
        self._crowded_key = Signal(52)
        self._crowded_tick = Signal(64)
        self._insert, self._span = Subroutine("INSERT"), Subroutine("SPAN")

    def connect(self, m: Module) -> None:
        for number in reversed(range(self.map.count)):
            with m.If(self._same[number]):
                m.d.comb += self._same_way.eq(number)
            with m.If(self._empty[number]):
                m.d.comb += self._empty_way.eq(number)

    def prepare(self, m: Module, **fields: Value) -> None:
        """In the present state: `entry` gets these fields, the rest of it is 0, and it is no piece."""
        m.d.sync += [
            self.entry.eq(0),
            self.entry.valid.eq(1),
            *(self.entry[name].eq(value) for name, value in fields.items()),
            self.piece.eq(0),
        ]

    def insert(self, m: Module, back: str) -> None:
        """Put `entry` in, as it stands in the next clock; goes on at `back`."""
        self._insert.call(m, back)

    def span(self, m: Module, back: str) -> None:
        """Put what begins with `entry`, a piece, and ends at `span_end`, or may at `span_most`; goes on at `back`."""
        self._span.call(m, back)

    def forget(self, m: Module) -> None:
        """In the present state: no entry was evicted."""
        m.d.sync += self._crowded.eq(0)

    def states(self, m: Module) -> None:
        slots, pagemap = self.slots, self.map
        state = tables.SlotState
        ways, pages, picked = pagemap.count, pagemap.pages, pagemap.chosen

        def pick(way) -> None:
            m.d.comb += pagemap.choice.eq((1 << way)[:ways])

        # --- SPAN: the piece `entry` from its start to span_end, and perhaps to span_most --------------------------------
        with m.State("SPAN"):
            self.insert(m, "SPAN_NEXT")

        following = Signal(15)
        m.d.comb += following.eq(((self.entry.start >> GRANULE_BITS) + 1) << GRANULE_BITS)
        with m.State("SPAN_NEXT"):
            behind = following >= self.span_end
            m.d.sync += [
                self.entry.start.eq(following),
                self.entry.index.eq(self.entry.index + ((following - self.entry.start) >> 1)),
            ]
            with m.If(~self.piece | (behind & (following >= self.span_most)) | (following >= self.settings.page_size())):
                self._span.leave(m)
            with m.Else():
                with m.If(behind):
                    m.d.sync += [self.piece.eq(0), self.entry.doubtful.eq(1)]
                self.insert(m, "SPAN_NEXT")

        # --- INSERT ---------------------------------------------------------------------------------------------------
        def put(way) -> None:
            pagemap.put(m, way)

        def lives(entry) -> object:
            return (slots.r["state"] == state.IN_FLIGHT) & (slots.r["generation"] == entry.generation)

        with m.State("INSERT"):
            pagemap.look_up(m, self.entry.key, self.entry.start)
            m.next = "INSERT_COMPARE"
            with m.If(self._crowded & (self._crowded_key == self.entry.key) & ~_is_pinned(self.entry)):
                m.d.comb += slots.ra.eq(self.entry.slot)
                m.next = "INSERT_CROWDED"

        with m.State("INSERT_CROWDED"):
            pagemap.keep(m)
            m.next = "INSERT_COMPARE"
            with m.If((self.tlp.header.tick - self._crowded_tick)[tables.CROWDED_BITS :] != 0):
                m.d.sync += self._crowded.eq(0)
            with m.Else():
                slots.flag(m, self.entry.slot, int(Flag.DATA_PARTIAL))

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
            pick(way)
            m.d.sync += [self._way.eq(way), self._met.eq(picked), self._spare.eq(0)]
            with m.If(self._same != 0):
                m.next = "INSERT_SAME"
            with m.Elif(self._empty != 0):
                put(empty)
                self._insert.leave(m)
            with m.Else():
                m.next = "INSERT_SCAN"

        with m.State("INSERT_SAME"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._met.slot)
            m.next = "INSERT_SAME_SLOT"
            with m.If(_is_pinned(self._met) & ~_is_pinned(self.entry)):
                self._insert.leave(m)
            with m.Elif(_is_pinned(self._met) | _is_pinned(self.entry)):
                put(self._way)
                self._insert.leave(m)

        with m.State("INSERT_SAME_SLOT"):
            pagemap.keep(m)
            m.d.sync += self._lives.eq(lives(self._met))
            m.next = "INSERT_REPLACE"

        with m.State("INSERT_REPLACE"):
            pagemap.keep(m)
            other = self._met.slot != self.entry.slot
            self._insert.leave(m)
            with m.If(self._lives & self.entry.doubtful & (other | ~self._met.doubtful)):
                pass
            with m.Elif(self.piece != (self._way >= pages)):
                # That place is of the other kind: what is for the page needs one that holds to its end, and pieces would
                # crowd the few places of the page. It goes where it belongs.
                put(self._way)
                m.d.comb += pagemap.put_entry.valid.eq(0)
                m.next = "INSERT_AGAIN"
            with m.Else():
                put(self._way)
            with m.If(self._lives & other & ~self.entry.doubtful & ~self._met.doubtful):
                # Two commands on one buffer: whose transfer it is cannot be told any more.
                slots.flag(m, self._met.slot, int(Flag.DATA_PARTIAL))

        with m.State("INSERT_AGAIN"):  # what was written last shows in what is read from now on
            pagemap.look_up(m, self.entry.key, self.entry.start)
            m.next = "INSERT_COMPARE"

        # No way of its kind is empty: the first with a stale entry.
        with m.State("INSERT_SCAN"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._met.slot)
            m.next = "INSERT_SCAN_SLOT"

        with m.State("INSERT_SCAN_SLOT"):
            pagemap.keep(m)
            m.d.sync += self._lives.eq(lives(self._met))
            m.next = "INSERT_STALE"

        with m.State("INSERT_STALE"):
            pagemap.keep(m)
            wrapped = Mux(self._way == ways - 1, 0, self._way + 1)
            with m.If(~self._met.valid | (~_is_pinned(self._met) & ~self._lives)):
                put(self._way)
                self._insert.leave(m)
            with m.Elif(self._way != pages - 1):
                pick(wrapped)
                m.d.sync += [self._way.eq(wrapped), self._met.eq(picked)]
                with m.If(self._met.doubtful):
                    m.d.sync += [self._spare.eq(1), self._spare_way.eq(self._way)]
                m.next = "INSERT_SCAN"
            with m.Elif(self.entry.doubtful):
                self._insert.leave(m)
            with m.Elif(self._met.doubtful | self._spare):
                put(Mux(self._met.doubtful, self._way, self._spare_way))
                self._insert.leave(m)
            with m.Else():
                pick(self._victim)
                m.d.sync += [self._way.eq(0), self._victim.eq(self._victim + 1), self._met.eq(picked)]
                m.next = "INSERT_EVICT"

        # By turns, one of a page goes.
        with m.State("INSERT_EVICT"):
            pagemap.keep(m)
            m.d.comb += slots.ra.eq(self._met.slot)
            pick(self._victim)
            m.d.sync += [self._way.eq(self._way + 1), self._victim.eq(self._victim + 1), self._met.eq(picked)]
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
            put((self._victim - 1)[: self._victim.shape().width])
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
            pick(self._way)
            m.d.sync += self._other.eq(picked)
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
            with m.If(holds & lives(other)):
                slots.flag(m, other.slot, int(Flag.DATA_PARTIAL))
            with m.If(self._way == ways - 1):
                self._insert.leave(m)


def _is_pinned(entry) -> Value:
    return sum(entry.kind == int(k) for k in tables.PINNED) != 0
