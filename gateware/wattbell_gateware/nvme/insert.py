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


def declare(m: Module, e) -> None:
    ways = e.map.count
    e.ins = Signal(e.PAGE)
    e.ins_piece = Signal()
    e.ins_generation = Signal(16)
    e.ins_same = Signal(ways)
    e.ins_empty = Signal(ways)
    e.same_way, e.empty_way = Signal(range(ways)), Signal(range(ways))
    for number in reversed(range(ways)):
        with m.If(e.ins_same[number]):
            m.d.comb += e.same_way.eq(number)
        with m.If(e.ins_empty[number]):
            m.d.comb += e.empty_way.eq(number)
    e.ins_way = Signal(range(ways))
    e.ins_entry = Signal(e.PAGE)
    e.ins_spare = Signal()  # `ins_spare_way` holds a doubtful entry
    e.ins_spare_way = Signal(range(ways))
    e.victim = Signal(range(e.map.pages))
    e.ins_before = Signal()  # `ins_other` holds from before what was evicted
    e.ins_other = Signal(e.PAGE)
    e.crowded = Signal()
    e.crowded_key = Signal(52)
    e.crowded_tick = Signal(64)
    e.span_end = Signal(27)  # double words from the start of its page: behind what is surely used
    e.span_most = Signal(27)  # behind what may be used


def _is_pinned(entry) -> object:
    return sum(entry.kind == int(k) for k in tables.PINNED) != 0


def states(m: Module, e) -> None:
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

    def entry_lives() -> object:
        return (e.slots.r["state"] == state.IN_FLIGHT) & (e.slots.r["generation"] == e.ins_entry.generation)

    with m.State("INSERT"):
        e.map.look_up(m, e.ins.key, e.ins.start)
        m.next = "INSERT_COMPARE"
        with m.If(e.crowded & (e.crowded_key == e.ins.key) & ~_is_pinned(e.ins)):
            m.d.comb += e.slots.ra.eq(e.ins.slot)
            m.next = "INSERT_CROWDED"

    with m.State("INSERT_CROWDED"):
        e.map.keep(m)
        m.next = "INSERT_COMPARE"
        with m.If((e.h.tick - e.crowded_tick)[tables.CROWDED_BITS :] != 0):
            m.d.sync += e.crowded.eq(0)
        with m.Else():
            e.slots.write(m, e.ins.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])

    with m.State("INSERT_COMPARE"):
        e.map.keep(m)
        for number, entry in enumerate(e.map.entries):
            # To find a place, pieces begin with their own ways.
            mine = e.ins_piece if number >= pages else ~e.ins_piece
            m.d.sync += [
                e.ins_same[number].eq(e.map.same[number] & (entry.start == e.ins.start)),
                e.ins_empty[number].eq(~entry.valid & mine),
            ]
        m.next = "INSERT_CHOOSE"

    same, empty = e.same_way, e.empty_way
    with m.State("INSERT_CHOOSE"):
        e.map.keep(m)
        first = Mux(e.ins_piece, pages, 0)
        way = Mux(e.ins_same != 0, same, first)
        pick(way)
        m.d.sync += [e.ins_way.eq(way), e.ins_entry.eq(picked), e.ins_spare.eq(0)]
        with m.If(e.ins_same != 0):
            m.next = "INSERT_SAME"
        with m.Elif(e.ins_empty != 0):
            put(empty)
            e.insert.leave(m)
        with m.Else():
            m.next = "INSERT_SCAN"

    with m.State("INSERT_SAME"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(e.ins_entry.slot)
        m.next = "INSERT_REPLACE"
        with m.If(_is_pinned(e.ins_entry) & ~_is_pinned(e.ins)):
            e.insert.leave(m)
        with m.Elif(_is_pinned(e.ins_entry) | _is_pinned(e.ins)):
            put(e.ins_way)
            e.insert.leave(m)

    with m.State("INSERT_REPLACE"):
        e.map.keep(m)
        other = e.ins_entry.slot != e.ins.slot
        e.insert.leave(m)
        with m.If(entry_lives() & e.ins.doubtful & (other | ~e.ins_entry.doubtful)):
            pass
        with m.Elif(e.ins_piece != (e.ins_way >= pages)):
            # That place is of the other kind: what is for the page needs one that holds to its end, and pieces would
            # crowd the few places of the page. It goes where it belongs.
            put(e.ins_way)
            m.d.comb += e.map.put_entry.valid.eq(0)
            m.next = "INSERT_AGAIN"
        with m.Else():
            put(e.ins_way)
        with m.If(entry_lives() & other & ~e.ins.doubtful & ~e.ins_entry.doubtful):
            # Two commands on one buffer: whose transfer it is cannot be told any more.
            e.slots.write(m, e.ins_entry.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])

    with m.State("INSERT_AGAIN"):  # what was written last shows in what is read from now on
        e.map.look_up(m, e.ins.key, e.ins.start)
        m.next = "INSERT_COMPARE"

    # No way of its kind is empty: the first with a stale entry.
    with m.State("INSERT_SCAN"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(e.ins_entry.slot)
        m.next = "INSERT_STALE"

    with m.State("INSERT_STALE"):
        e.map.keep(m)
        wrapped = Mux(e.ins_way == ways - 1, 0, e.ins_way + 1)
        with m.If(~e.ins_entry.valid | (~_is_pinned(e.ins_entry) & ~entry_lives())):
            put(e.ins_way)
            e.insert.leave(m)
        with m.Elif(e.ins_way != pages - 1):
            pick(wrapped)
            m.d.sync += [e.ins_way.eq(wrapped), e.ins_entry.eq(picked)]
            with m.If(e.ins_entry.doubtful):
                m.d.sync += [e.ins_spare.eq(1), e.ins_spare_way.eq(e.ins_way)]
            m.next = "INSERT_SCAN"
        with m.Elif(e.ins.doubtful):
            e.insert.leave(m)
        with m.Elif(e.ins_entry.doubtful | e.ins_spare):
            put(Mux(e.ins_entry.doubtful, e.ins_way, e.ins_spare_way))
            e.insert.leave(m)
        with m.Else():
            pick(e.victim)
            m.d.sync += [e.ins_way.eq(0), e.victim.eq(e.victim + 1), e.ins_entry.eq(picked)]
            m.next = "INSERT_EVICT"

    # By turns, one of a page goes.
    with m.State("INSERT_EVICT"):
        e.map.keep(m)
        m.d.comb += e.slots.ra.eq(e.ins_entry.slot)
        pick(e.victim)
        m.d.sync += [e.ins_way.eq(e.ins_way + 1), e.victim.eq(e.victim + 1), e.ins_entry.eq(picked)]
        with m.If(~_is_pinned(e.ins_entry)):
            m.d.sync += [e.victim.eq(e.victim), e.ins_entry.eq(e.ins_entry)]
            m.next = "INSERT_EVICTED"
        with m.Elif(e.ins_way == pages - 1):
            e.lost(m, spec.LossSource.QUEUES)
            e.insert.leave(m)

    with m.State("INSERT_EVICTED"):  # victim is one past the way that goes
        e.map.keep(m)
        e.lost(m, spec.LossSource.PAGES)
        e.slots.write(m, e.ins_entry.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])
        put((e.victim - 1)[: e.victim.shape().width])
        m.d.sync += [
            e.crowded.eq(1),
            e.crowded_key.eq(e.ins_entry.key),
            e.crowded_tick.eq(e.h.tick),
            e.ins_way.eq(0),
        ]
        m.next = "INSERT_BEFORE"

    with m.State("INSERT_BEFORE"):
        e.map.look_up(m, e.ins_entry.key, e.ins_entry.start)
        m.next = "INSERT_BEFORE_WAY"

    with m.State("INSERT_BEFORE_WAY"):
        e.map.keep(m)
        other = picked
        pick(e.ins_way)
        m.d.comb += e.slots.ra.eq(other.slot)
        m.d.sync += [
            e.ins_other.eq(other),
            e.ins_before.eq(other.valid & ~_is_pinned(other) & (other.key == e.ins_entry.key) & (other.start < e.ins_entry.start)),
        ]
        m.next = "INSERT_BEFORE_FLAG"

    with m.State("INSERT_BEFORE_FLAG"):
        e.map.keep(m)
        m.d.sync += e.ins_way.eq(e.ins_way + 1)
        m.next = "INSERT_BEFORE_WAY"
        lives = (e.slots.r["state"] == state.IN_FLIGHT) & (e.slots.r["generation"] == e.ins_other.generation)
        with m.If(e.ins_before & lives):
            e.slots.write(m, e.ins_other.slot, flags=e.slots.r["flags"] | int(Flag.DATA_PARTIAL), ranges=e.slots.r["ranges"])
        with m.If(e.ins_way == ways - 1):
            e.insert.leave(m)
