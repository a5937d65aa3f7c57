"""How entries get into the page map.

INSERT puts one entry, ``ins``: into the first way whose place for it is empty or stale. When all hold entries of
commands in flight: into that of a doubtful one; else the entry of a command in flight goes, which is a loss and counted.
Then what belongs to that command would be taken for that of the entry before it in the page: it and all commands that
have entries before it there, or put one into that page within 2**CROWDED_BITS ticks, get the flag DATA_PARTIAL. What is
doubtful itself goes only where it is empty or stale: when it proves to be right after all, its TLPs are counted as
unmatched. A piece (``ins_piece``) looks for its place in the ways of pieces and then in those of pages, where it holds
to the end of its page.

SPAN puts what may not reach to the end of its page: one piece for each granule that it surely covers, and behind
them one doubtful entry to the end of the page if it may be longer.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from wattbell_spec import wire as spec

from . import tables
from .pagemap import GRANULE_BITS

Flag = spec.CommandFlag


class Registers:
    """What only the states of this file use."""

    def __init__(self, e) -> None:
        ways = e.map.count
        self.ins_same = Signal(ways)
        self.ins_empty = Signal(ways)
        self.same_way, self.empty_way = Signal(range(ways)), Signal(range(ways))
        self.ins_way = Signal(range(ways))
        self.ins_entry = Signal(e.PAGE)
        self.ins_spare = Signal()  # `ins_spare_way` holds a doubtful entry
        self.ins_spare_way = Signal(range(ways))
        self.victim = Signal(range(e.map.pages))
        self.ins_lives = Signal()  # `ins_entry` is of a command in flight
        self.ins_other = Signal(e.PAGE)
        self.crowded_key = Signal(52)
        self.crowded_tick = Signal(64)


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers(e)
    ways = e.map.count
    e.ins = Signal(e.PAGE)
    e.ins_piece = Signal()
    e.ins_generation = Signal(16)
    for number in reversed(range(ways)):
        with m.If(own.ins_same[number]):
            m.d.comb += own.same_way.eq(number)
        with m.If(own.ins_empty[number]):
            m.d.comb += own.empty_way.eq(number)
    e.crowded = Signal()
    e.span_end = Signal(27)  # double words from the start of its page: behind what is surely used
    e.span_most = Signal(27)  # behind what may be used


def _is_pinned(entry) -> object:
    return sum(entry.kind == int(k) for k in tables.PINNED) != 0


def states(m: Module, e) -> None:
    own = e.own[Registers]
    state = tables.SlotState
    ways, pages, picked = e.map.count, e.map.pages, e.map.chosen

    def pick(way) -> None:
        m.d.comb += e.map.choice.eq((1 << way)[:ways])

    # --- SPAN: the piece `ins` from ins.start to span_end, and perhaps to span_most --------------------------------
    with m.State("SPAN"):
        e.insert.call(m, "SPAN_NEXT")

    following = Signal(15)
    m.d.comb += following.eq(((e.ins.start >> GRANULE_BITS) + 1) << GRANULE_BITS)
    with m.State("SPAN_NEXT"):
        behind = following >= e.span_end
        m.d.sync += [
            e.ins.start.eq(following),
            e.ins.index.eq(e.ins.index + ((following - e.ins.start) >> 1)),
        ]
        with m.If(~e.ins_piece | (behind & (following >= e.span_most)) | (following >= e.page_size())):
            e.span.leave(m)
        with m.Else():
            with m.If(behind):
                m.d.sync += [e.ins_piece.eq(0), e.ins.doubtful.eq(1)]
            e.insert.call(m, "SPAN_NEXT")

    # --- INSERT ---------------------------------------------------------------------------------------------------
    def put(way) -> None:
        e.map.put(m, way)

    def lives(entry) -> object:
        return (e.slots.r["state"] == state.IN_FLIGHT) & (e.slots.r["generation"] == entry.generation)

    with m.State("INSERT"):
        e.map.look_up(m, e.ins.key, e.ins.start)
        m.next = "INSERT_COMPARE"
        with m.If(e.crowded & (own.crowded_key == e.ins.key) & ~_is_pinned(e.ins)):
            m.d.comb += e.slots.ra.eq(e.ins.slot)
            m.next = "INSERT_CROWDED"

    with m.State("INSERT_CROWDED"):
        e.map.keep(m)
        m.next = "INSERT_COMPARE"
        with m.If((e.h.tick - own.crowded_tick)[tables.CROWDED_BITS :] != 0):
            m.d.sync += e.crowded.eq(0)
        with m.Else():
            e.slots.write(m, e.ins.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])

    with m.State("INSERT_COMPARE"):
        e.map.keep(m)
        for number, entry in enumerate(e.map.entries):
            # To find a place, pieces begin with their own ways.
            mine = e.ins_piece if number >= pages else ~e.ins_piece
            m.d.sync += [
                own.ins_same[number].eq(e.map.same[number] & (entry.start == e.ins.start)),
                own.ins_empty[number].eq(~entry.valid & mine),
            ]
        m.next = "INSERT_CHOOSE"

    same, empty = own.same_way, own.empty_way
    with m.State("INSERT_CHOOSE"):
        e.map.keep(m)
        first = Mux(e.ins_piece, pages, 0)
        way = Mux(own.ins_same != 0, same, first)
        pick(way)
        m.d.sync += [own.ins_way.eq(way), own.ins_entry.eq(picked), own.ins_spare.eq(0)]
        with m.If(own.ins_same != 0):
            m.next = "INSERT_SAME"
        with m.Elif(own.ins_empty != 0):
            put(empty)
            e.insert.leave(m)
        with m.Else():
            m.next = "INSERT_SCAN"

    with m.State("INSERT_SAME"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(own.ins_entry.slot)
        m.next = "INSERT_SAME_SLOT"
        with m.If(_is_pinned(own.ins_entry) & ~_is_pinned(e.ins)):
            e.insert.leave(m)
        with m.Elif(_is_pinned(own.ins_entry) | _is_pinned(e.ins)):
            put(own.ins_way)
            e.insert.leave(m)

    with m.State("INSERT_SAME_SLOT"):
        e.map.keep(m)
        m.d.sync += own.ins_lives.eq(lives(own.ins_entry))
        m.next = "INSERT_REPLACE"

    with m.State("INSERT_REPLACE"):
        e.map.keep(m)
        other = own.ins_entry.slot != e.ins.slot
        e.insert.leave(m)
        with m.If(own.ins_lives & e.ins.doubtful & (other | ~own.ins_entry.doubtful)):
            pass
        with m.Elif(e.ins_piece != (own.ins_way >= pages)):
            # That place is of the other kind: what is for the page needs one that holds to its end, and pieces would
            # crowd the few places of the page. It goes where it belongs.
            put(own.ins_way)
            m.d.comb += e.map.put_entry.valid.eq(0)
            m.next = "INSERT_AGAIN"
        with m.Else():
            put(own.ins_way)
        with m.If(own.ins_lives & other & ~e.ins.doubtful & ~own.ins_entry.doubtful):
            # Two commands on one buffer: whose transfer it is cannot be told any more.
            e.slots.write(m, own.ins_entry.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])

    with m.State("INSERT_AGAIN"):  # what was written last shows in what is read from now on
        e.map.look_up(m, e.ins.key, e.ins.start)
        m.next = "INSERT_COMPARE"

    # No way of its kind is empty: the first with a stale entry.
    with m.State("INSERT_SCAN"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(own.ins_entry.slot)
        m.next = "INSERT_SCAN_SLOT"

    with m.State("INSERT_SCAN_SLOT"):
        e.map.keep(m)
        m.d.sync += own.ins_lives.eq(lives(own.ins_entry))
        m.next = "INSERT_STALE"

    with m.State("INSERT_STALE"):
        e.map.keep(m)
        wrapped = Mux(own.ins_way == ways - 1, 0, own.ins_way + 1)
        with m.If(~own.ins_entry.valid | (~_is_pinned(own.ins_entry) & ~own.ins_lives)):
            put(own.ins_way)
            e.insert.leave(m)
        with m.Elif(own.ins_way != pages - 1):
            pick(wrapped)
            m.d.sync += [own.ins_way.eq(wrapped), own.ins_entry.eq(picked)]
            with m.If(own.ins_entry.doubtful):
                m.d.sync += [own.ins_spare.eq(1), own.ins_spare_way.eq(own.ins_way)]
            m.next = "INSERT_SCAN"
        with m.Elif(e.ins.doubtful):
            e.insert.leave(m)
        with m.Elif(own.ins_entry.doubtful | own.ins_spare):
            put(Mux(own.ins_entry.doubtful, own.ins_way, own.ins_spare_way))
            e.insert.leave(m)
        with m.Else():
            pick(own.victim)
            m.d.sync += [own.ins_way.eq(0), own.victim.eq(own.victim + 1), own.ins_entry.eq(picked)]
            m.next = "INSERT_EVICT"

    # By turns, one of a page goes.
    with m.State("INSERT_EVICT"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(own.ins_entry.slot)
        pick(own.victim)
        m.d.sync += [own.ins_way.eq(own.ins_way + 1), own.victim.eq(own.victim + 1), own.ins_entry.eq(picked)]
        with m.If(~_is_pinned(own.ins_entry)):
            m.d.sync += [own.victim.eq(own.victim), own.ins_entry.eq(own.ins_entry)]
            m.next = "INSERT_EVICTED"
        with m.Elif(own.ins_way == pages - 1):
            e.lost(m, spec.LossSource.QUEUES)
            e.insert.leave(m)

    with m.State("INSERT_EVICTED"):  # victim is one past the way that goes
        e.map.keep(m)
        e.lost(m, spec.LossSource.PAGES)
        e.slots.write(m, own.ins_entry.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])
        put((own.victim - 1)[: own.victim.shape().width])
        m.d.sync += [
            e.crowded.eq(1),
            own.crowded_key.eq(own.ins_entry.key),
            own.crowded_tick.eq(e.h.tick),
            own.ins_way.eq(0),
        ]
        m.next = "INSERT_BEFORE"

    with m.State("INSERT_BEFORE"):
        e.map.look_up(m, own.ins_entry.key, own.ins_entry.start)
        m.next = "INSERT_BEFORE_WAY"

    with m.State("INSERT_BEFORE_WAY"):
        e.map.keep(m)
        pick(own.ins_way)
        m.d.sync += own.ins_other.eq(picked)
        m.next = "INSERT_BEFORE_SLOT"

    with m.State("INSERT_BEFORE_SLOT"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(own.ins_other.slot)
        m.next = "INSERT_BEFORE_FLAG"

    with m.State("INSERT_BEFORE_FLAG"):
        e.map.keep(m)
        m.d.sync += own.ins_way.eq(own.ins_way + 1)
        m.next = "INSERT_BEFORE_WAY"
        other = own.ins_other
        holds = other.valid & ~_is_pinned(other) & (other.key == own.ins_entry.key) & (other.start < own.ins_entry.start)
        with m.If(holds & lives(other)):
            e.slots.write(m, other.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])
        with m.If(own.ins_way == ways - 1):
            e.insert.leave(m)
