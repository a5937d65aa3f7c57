"""The map of host pages, data spans, PRP lists and range lists.

The map is skewed-associative: each way has its own hash. An entry holds from its start on: in the ways of pages
(hashed by page) to the end of its page, in the ways of pieces (hashed by page and granule, 512 bytes) to the end of its
granule. Of several entries the one with the largest start not above the address counts. So any number of commands may
have a short buffer or a PRP list each in one page, as they do where lists come from a pool. How entries get in is in
``insert``. Entries are not removed when their command ends: an entry whose slot has another generation, or is not in
flight, is stale, and goes when it is met.

The length of a transfer is not known here, because the LBA size is not: so entries of a PRP list beyond what the
command needs with 512-byte blocks are doubtful (the drive may have read too much), and never take the place of what is
sure; and an entry that may be the last of a transfer or a pointer to more is both until it is used: a write by the
drive makes it data, a read of a command that brings data to the host makes it a list, and for a command that takes data
from the host the first 8 bytes that are read tell (a page-aligned address below 2**52, not 0, is taken for a list).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from wattbell_spec import wire as spec

from ..tlp import Kind as Tlp
from . import tables
from .pagemap import GRANULE_BITS
from .tables import Kind


def declare(m: Module, e) -> None:
    ways = e.map.count
    e.hits = Signal(ways)
    e.later = {}  # pairs of ways -> the second one's entry starts after the first one's
    for a in range(ways):
        for b in range(a + 1, ways):
            e.later[a, b] = Signal(name=f"later_{a}_{b}")
    e.pe = Signal(e.PAGE)
    e.pe_way = Signal(ways)  # one-hot
    e.pe_hit = Signal()
    e.list_low = Signal(32)
    e.list_high = Signal(32)
    e.list_read = Signal(14)
    e.list_left = Signal(11)
    e.list_sum = Signal(32)
    e.list_ranges = Signal(10)
    e.list_lba = Signal(40)
    e.raw_read = Signal(14)
    e.raw_left = Signal(11)


def compare(m: Module, e) -> None:
    """In DISPATCH: which ways hold the page of `h`, at or before its offset."""
    for number, entry in enumerate(e.map.entries):
        hit = e.map.same[number] & (entry.start <= e.h_offset)
        if number >= e.map.pages:
            hit &= entry.start[GRANULE_BITS:] == e.h_offset[GRANULE_BITS:]
        m.d.sync += e.hits[number].eq(hit)
    starts = [entry.start for entry in e.map.entries]
    m.d.sync += [later.eq(starts[b] > starts[a]) for (a, b), later in e.later.items()]


def dispatch_completion(m: Module, e) -> None:
    """In DISPATCH: a completion with data for the drive; `tags` reads its entry."""
    entry = e.tags.r["entry"]
    kind = tables.TagKind
    m.d.sync += e.t.eq(entry)
    m.d.comb += e.slots.ra.eq(entry.slot)
    with m.If(~entry.valid):
        e.lost(m, spec.LossSource.TAGS)
        e.finish(m)
    with m.Elif(entry.kind == kind.UNKNOWN):
        m.next = "COMPLETION_COUNT"
    with m.Elif(entry.kind == kind.SQE):
        m.next = "SQE"
        with m.If(e.h.length[0:4] != 0):
            e.lost(m, spec.LossSource.TAGS)  # not cut at the 64-byte read completion boundary
            e.finish(m)
    with m.Else():
        m.next = "COMPLETION_DATA"


def states(m: Module, e) -> None:
    state, kind = tables.SlotState, tables.TagKind
    ways = e.map.count

    # --- whose page it is. NVMe: Physical Region Page Entry and List ----------------------------------------------
    with m.State("PAGE_SELECT"):
        # Of the hits, the one with the largest start; of equal ones the first. Every way knows by itself whether it is that.
        for i in range(ways):
            beaten = [e.hits[j] & ~e.later[j, i] for j in range(i)] + [e.hits[j] & e.later[i, j] for j in range(i + 1, ways)]
            m.d.comb += e.map.choice[i].eq(e.hits[i] & ~Cat(beaten).any())
        m.d.sync += [e.pe_hit.eq(e.hits.any()), e.pe_way.eq(e.map.choice), e.pe.eq(e.map.chosen)]
        m.next = "PAGE_DECIDE"

    with m.State("PAGE_DECIDE"):
        tag = e.tags.r["entry"]
        is_read = e.h.kind == Tlp.MRD
        m.d.comb += e.slots.ra.eq(e.pe.slot)
        with m.If(is_read & tag.valid & (tag.kind != kind.UNKNOWN)):
            # The tag is used again though its completions did not all come.
            e.lost(m, spec.LossSource.TAGS)
            e.reclaim.call(m, "PAGE_DECIDE")
        with m.Elif(~e.pe_hit):
            with m.If(is_read):
                m.d.comb += e.unmatched.eq(1)
                m.next = "TAG_UNKNOWN"
            with m.Elif((e.h.length == 1) & e.h.kept):
                m.next = "INTERRUPT"
            with m.Else():
                m.d.comb += e.unmatched.eq(1)
                e.finish(m)
        with m.Elif(e.pe.kind == int(Kind.SQ)):
            m.next = "FETCH"
            with m.If(~is_read | ~e.sq_valid.bit_select(e.pe.slot[: e.queue_bits], 1)):
                m.d.comb += e.unmatched.eq(1)
                e.finish(m)
        with m.Elif(e.pe.kind == int(Kind.CQ)):
            m.next = "CQE"
            with m.If(is_read):
                m.d.comb += e.unmatched.eq(1)
                m.next = "TAG_UNKNOWN"
        with m.Elif(e.pe.kind == int(Kind.IGNORE)):
            with m.If(is_read):
                m.next = "TAG_UNKNOWN"
            with m.Else():
                e.finish(m)
        with m.Else():
            m.next = "PAGE_SLOT"

    with m.State("PAGE_SLOT"):
        slot = e.slots.r
        read_kind = Signal(kind, name="read_kind")
        with m.Switch(e.pe.kind):
            with m.Case(int(Kind.DATA)):
                m.d.comb += read_kind.eq(kind.DATA)
            with m.Case(int(Kind.EITHER)):
                m.d.comb += read_kind.eq(Mux(slot["opcode"][0], kind.EITHER, kind.LIST))
            with m.Case(int(Kind.LIST)):
                m.d.comb += read_kind.eq(kind.LIST)
            with m.Case(int(Kind.RANGES)):
                m.d.comb += read_kind.eq(kind.RANGES)
        # A command whose CQE was lost stays in flight: where another one claims the page too, that one is right.
        left_over = (slot["epoch"] != e.epoch) & ((e.hits & (e.hits - 1)) != 0)
        with m.If((slot["state"] != state.IN_FLIGHT) | (slot["generation"] != e.pe.generation) | left_over):
            m.d.comb += [
                e.map.put_ways.eq(e.pe_way), e.map.put_key.eq(e.h_key), e.map.put_offset.eq(e.h_offset), e.map.put_entry.valid.eq(0),
            ]  # fmt: skip
            m.d.sync += e.hits.eq(e.hits & ~e.pe_way)
            m.next = "PAGE_AGAIN"
        with m.Elif(e.h.kind == Tlp.MRD):
            e.write_tag(
                m, e.h.tag, valid=1, kind=read_kind, slot=e.pe.slot, generation=e.pe.generation,
                index=e.pe.index + ((e.h_offset - e.pe.start) >> 1), place=e.h_offset >> 1, remaining=e.h.length,
            )  # fmt: skip
            e.finish(m)
        with m.Else():
            _see_data(m, e, e.pe.slot)
            m.d.sync += [e.raw_read.eq(e.h.base), e.raw_left.eq(e.h_total)]
            m.d.comb += e.read_index.eq(e.h.base)
            with m.If((slot["qid"] == 0) & (slot["opcode"] == tables.IDENTIFY) & e.run):
                m.next = "RAW"
                with m.If(~e.h.kept | (e.raw_room < e.h_total)):
                    e.lost(m, spec.LossSource.RAW)
                    e.finish(m)
            with m.Else():
                e.finish(m)

    with m.State("PAGE_AGAIN"):
        e.map.look_up(m, e.h_key, e.h_offset)
        m.next = "PAGE_SELECT"

    with m.State("RAW"):
        p = e.raw.payload
        m.d.comb += [
            e.raw.valid.eq(1),
            p.data.eq(e.word),
            p.last.eq(e.raw_left == 1),
            p.tick.eq(e.h.tick),
            p.dws.eq(e.h_total),
            e.read_index.eq(e.raw_read + 1),
        ]
        m.d.sync += [e.raw_read.eq(e.raw_read + 1), e.raw_left.eq(e.raw_left - 1)]
        with m.If(e.raw_left == 1):
            e.finish(m)

    # --- completions of the drive's reads; `t` is the tag's entry. PCIe: Completion Rules -------------------------
    def count_completion() -> None:
        e.write_tag(m, e.h.tag, remaining=e.t.remaining - e.h.length, valid=e.t.remaining > e.h.length)

    with m.State("COMPLETION_COUNT"):
        count_completion()
        e.finish(m)

    with m.State("CPL"):  # no data: the request failed
        entry = e.tags.r["entry"]
        m.d.sync += e.t.eq(entry)
        with m.If(entry.valid):
            e.reclaim.call(m, "CPL_DONE")
        with m.Else():
            e.lost(m, spec.LossSource.TAGS)
            e.finish(m)

    with m.State("CPL_DONE"):
        e.finish(m)

    with m.State("COMPLETION_DATA"):
        slot = e.slots.r
        live = (slot["state"] == state.IN_FLIGHT) & (slot["generation"] == e.t.generation)
        whole = ~e.h.length[0] & e.h.kept
        m.d.sync += [
            e.list_read.eq(e.h_start),
            e.list_left.eq(e.h.length),
            e.list_sum.eq(slot["blocks"]),
            e.list_ranges.eq(slot["ranges"]),
            e.list_lba.eq(slot["lba"]),
        ]
        m.d.comb += e.read_index.eq(e.h_start)
        m.next = "COMPLETION_COUNT"
        with m.If(live & (e.t.kind == kind.DATA)):
            _see_data(m, e, e.t.slot)
            count_completion()
            e.finish(m)
        with m.Elif(live & (e.t.kind == kind.EITHER)):
            m.next = "EITHER_LOW"
            with m.If(~whole):
                m.d.sync += e.t.kind.eq(kind.DATA)
                m.next = "COMPLETION_DATA"
        with m.Elif(live & (e.t.kind == kind.LIST) & whole):
            m.next = "LIST_LOW"
        with m.Elif(live & (e.t.kind == kind.RANGES)):
            _see_data(m, e, e.t.slot)
            with m.If((e.h.length[0:2] == 0) & ~e.t.index[0] & e.h.kept):
                m.next = "RANGE_0"

    with m.State("EITHER_LOW"):
        m.d.comb += e.read_index.eq(e.list_read + 1)
        m.d.sync += e.list_low.eq(e.word)
        m.next = "EITHER_HIGH"

    with m.State("EITHER_HIGH"):
        like_a_page = (e.list_low[0:12] == 0) & (e.word[20:32] == 0) & ((e.list_low | e.word) != 0)
        m.d.sync += e.t.kind.eq(Mux(like_a_page, kind.LIST, kind.DATA))
        m.next = "COMPLETION_DATA"

    # --- PRP list. NVMe: Physical Region Page Entry and List ------------------------------------------------------
    with m.State("LIST_LOW"):
        m.d.comb += [e.read_index.eq(e.list_read + 1), e.slots.ra.eq(e.t.slot)]
        m.d.sync += e.list_low.eq(e.word)
        m.next = "LIST_HIGH"

    with m.State("LIST_HIGH"):
        m.d.sync += e.list_high.eq(e.word)
        m.next = "LIST_ENTRY"

    with m.State("LIST_ENTRY"):
        address = Cat(e.list_low, e.list_high)
        number = e.t.index + 1  # of the page of the transfer, PRP1's being 0
        sure = e.slots.r["pages_sure"]
        ends_page = e.t.place + 1 == e.page_size() >> 1
        chains = ends_page & (number + 1 < sure)
        m.d.sync += [
            e.ins.eq(0),
            e.ins.valid.eq(1),
            e.ins.key.eq(e.page_key(address)),
            e.ins.kind.eq(Mux(chains, int(Kind.LIST), Mux(ends_page, int(Kind.EITHER), int(Kind.DATA)))),
            e.ins.slot.eq(e.t.slot),
            e.ins.generation.eq(e.t.generation),
            e.ins.index.eq(e.t.index),
            e.ins.doubtful.eq(number >= sure),
            e.ins_piece.eq(0),
            e.t.index.eq(e.t.index + 1),
            e.t.place.eq(e.t.place + 1),
            e.list_read.eq(e.list_read + 2),
            e.list_left.eq(e.list_left - 2),
        ]
        m.next = "LIST_NEXT"
        with m.If((address[2:] != 0) & (e.page_offset(address) == 0)):
            e.insert.call(m, "LIST_NEXT")

    with m.State("LIST_NEXT"):
        m.d.comb += e.read_index.eq(e.list_read)
        m.next = "LIST_LOW"
        with m.If(e.list_left == 0):
            m.next = "COMPLETION_COUNT"

    # --- range list: attributes, length in blocks, SLBA; 16 bytes each. NVMe: Dataset Management - Range Definition ---
    with m.State("RANGE_0"):
        m.d.comb += e.read_index.eq(e.list_read + 1)
        m.next = "RANGE_1"

    with m.State("RANGE_1"):
        m.d.comb += e.read_index.eq(e.list_read + 2)
        with m.If((e.t.index >> 1) < e.slots.r["ranges_expected"]):
            m.d.sync += [e.list_sum.eq(e.list_sum + e.word), e.list_ranges.eq(e.list_ranges + 1)]
        m.next = "RANGE_2"

    with m.State("RANGE_2"):
        m.d.comb += e.read_index.eq(e.list_read + 3)
        with m.If(e.t.index == 0):
            m.d.sync += e.list_lba[0:32].eq(e.word)
        m.next = "RANGE_3"

    with m.State("RANGE_3"):
        m.d.comb += e.read_index.eq(e.list_read + 4)
        with m.If(e.t.index == 0):
            m.d.sync += e.list_lba[32:40].eq(e.word)
        m.d.sync += [e.t.index.eq(e.t.index + 2), e.list_read.eq(e.list_read + 4), e.list_left.eq(e.list_left - 4)]
        m.next = "RANGE_0"
        with m.If(e.list_left <= 4):
            m.next = "RANGE_STORE"

    with m.State("RANGE_STORE"):
        e.slots.write(m, e.t.slot, blocks=e.list_sum, lba=e.list_lba, ranges=e.list_ranges, flags=e.slots.r["flags"])
        m.next = "COMPLETION_COUNT"


def _see_data(m: Module, e, slot) -> None:
    """A data TLP of the command that `slots` reads."""
    with m.If(e.slots.r["first_data"] == tables.UNKNOWN):
        e.slots.write(m, slot, first_data=None)
    e.slots.write(m, slot, last_data=None)
