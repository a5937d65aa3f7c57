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
from . import completions, fetch, interrupts, tables
from .pagemap import GRANULE_BITS
from .tables import Kind


class Registers:
    """What only the states of this file use."""

    def __init__(self, e) -> None:
        self.later: dict[tuple[int, int], Signal] = {}  # pairs of ways -> the second one's entry starts after the first one's
        self.pe, self.pe_hit = Signal(e.PAGE), Signal()  # the entry that counts, if one does
        self.pe_way = Signal(e.map.count)  # one-hot
        self.pe_several = Signal()  # more ways hold the page
        self.page_lives, self.page_identify = Signal(), Signal()  # `pe` is of a command in flight; of Identify
        self.read_kind = Signal(tables.TagKind)
        self.list_low = Signal(32)
        self.list_high = Signal(32)
        self.list_read = Signal(14)
        self.list_left = Signal(11)
        self.list_sum = Signal(32)
        self.list_ranges = Signal(10)
        self.list_lba = Signal(40)
        self.raw_read = Signal(14)
        self.raw_left = Signal(11)


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers(e)
    ways = e.map.count
    e.hits = Signal(ways)
    for a in range(ways):
        for b in range(a + 1, ways):
            own.later[a, b] = Signal(name=f"later_{a}_{b}")
    # Of the hits, the one with the largest start; of equal ones the first. Every way knows by itself whether it is that.
    e.map.best = Signal(ways)
    for i in range(ways):
        beaten = [e.hits[j] & ~own.later[j, i] for j in range(i)] + [e.hits[j] & own.later[i, j] for j in range(i + 1, ways)]
        m.d.comb += e.map.best[i].eq(e.hits[i] & ~Cat(beaten).any())


def compare(m: Module, e) -> None:
    """A clock after it was looked up: which ways hold the page of `h`, at or before its offset."""
    own = e.own[Registers]
    for number, entry in enumerate(e.map.entries):
        hit = e.map.same[number] & (entry.start <= e.h_offset)
        if number >= e.map.pages:
            hit &= entry.start[GRANULE_BITS:] == e.h_offset[GRANULE_BITS:]
        m.d.sync += e.hits[number].eq(hit)
    starts = [entry.start for entry in e.map.entries]
    m.d.sync += [later.eq(starts[b] > starts[a]) for (a, b), later in own.later.items()]


def states(m: Module, e) -> None:
    own = e.own[Registers]
    state, kind = tables.SlotState, tables.TagKind

    # --- whose page it is. NVMe: Physical Region Page Entry and List ----------------------------------------------
    with m.State("PAGE_SELECT"):
        m.d.comb += [e.map.choice.eq(e.map.best), e.read_index.eq(e.h_start + 3)]
        interrupts.look_up(m, e)
        completions.take_queue(m, e)
        m.d.sync += [
            own.pe_hit.eq(e.hits.any()), own.pe_way.eq(e.map.choice), own.pe.eq(e.map.chosen),
            own.pe_several.eq((e.hits & (e.hits - 1)) != 0),
        ]  # fmt: skip
        m.next = "PAGE_DECIDE"

    with m.State("PAGE_DECIDE"):
        tag = e.tags.r["entry"]
        is_read = e.h.kind == Tlp.MRD
        queue = own.pe.slot[: e.queue_bits]
        m.d.comb += [
            e.slots.ra.eq(own.pe.slot), e.shape.ra.eq(Cat(queue, own.pe.kind[0])), e.sq_state.ra.eq(queue), e.cq_state.ra.eq(queue),
        ]  # fmt: skip
        interrupts.compare(m, e)
        completions.take_status(m, e)
        m.d.sync += [e.doorbell_qid.eq(queue), e.cqe_qid.eq(queue)]
        with m.If(is_read & tag.valid & (tag.kind != kind.UNKNOWN)):
            # The tag is used again though its completions did not all come.
            e.lost(m, spec.LossSource.TAGS)
            e.reclaim.call(m, "PAGE_DECIDE")
        with m.Elif(~own.pe_hit):
            with m.If(is_read):
                m.d.comb += e.unmatched.eq(1)
                m.next = "TAG_UNKNOWN"
            with m.Elif((e.h.length == 1) & e.h.kept):
                m.next = "INTERRUPT"
            with m.Else():
                m.d.comb += e.unmatched.eq(1)
                m.next = "DONE"
        with m.Elif(own.pe.kind == int(Kind.SQ)):
            m.next = "FETCH"
            with m.If(~is_read | ~e.sq_valid.bit_select(queue, 1)):
                m.d.comb += e.unmatched.eq(1)
                m.next = "DONE"
        with m.Elif(own.pe.kind == int(Kind.CQ)):
            m.next = "CQE"
            with m.If(is_read):
                m.d.comb += e.unmatched.eq(1)
                m.next = "TAG_UNKNOWN"
        with m.Elif(own.pe.kind == int(Kind.IGNORE)):
            m.next = "DONE"
            with m.If(is_read):
                m.next = "TAG_UNKNOWN"
        with m.Else():
            m.next = "PAGE_SLOT"

    with m.State("PAGE_SLOT"):
        slot, read_kind = e.slots.r, own.read_kind
        m.d.comb += e.slots.ra.eq(own.pe.slot)
        with m.Switch(own.pe.kind):
            with m.Case(int(Kind.DATA)):
                m.d.sync += read_kind.eq(kind.DATA)
            with m.Case(int(Kind.EITHER)):
                m.d.sync += read_kind.eq(Mux(slot["opcode"][0], kind.EITHER, kind.LIST))
            with m.Case(int(Kind.LIST)):
                m.d.sync += read_kind.eq(kind.LIST)
            with m.Case(int(Kind.RANGES)):
                m.d.sync += read_kind.eq(kind.RANGES)
        # A command whose CQE was lost stays in flight: where another one claims the page too, that one is right.
        left_over = (slot["epoch"] != e.epoch) & own.pe_several
        m.d.sync += [
            own.page_lives.eq((slot["state"] == state.IN_FLIGHT) & (slot["generation"] == own.pe.generation) & ~left_over),
            own.page_identify.eq((slot["qid"] == 0) & (slot["opcode"] == tables.IDENTIFY)),
        ]
        m.next = "PAGE_USED"

    with m.State("PAGE_USED"):
        e.may_finish(m)
        with m.If(~own.page_lives):
            m.d.comb += [
                e.map.put_ways.eq(own.pe_way), e.map.put_key.eq(e.h_key), e.map.put_offset.eq(e.h_offset), e.map.put_entry.valid.eq(0),
            ]  # fmt: skip
            m.d.sync += e.hits.eq(e.hits & ~own.pe_way)
            m.next = "PAGE_AGAIN"
        with m.Elif(e.h.kind == Tlp.MRD):
            e.write_tag(
                m, e.h.tag, valid=1, kind=own.read_kind, slot=own.pe.slot, generation=own.pe.generation,
                index=own.pe.index + ((e.h_offset - own.pe.start) >> 1), place=e.h_offset >> 1, remaining=e.h.length,
            )  # fmt: skip
            e.finish(m)
        with m.Else():
            _see_data(m, e, own.pe.slot)
            m.d.sync += [own.raw_read.eq(e.h.base), own.raw_left.eq(e.h_total)]
            m.next = "DONE"
            with m.If(own.page_identify & e.wanted):
                m.d.comb += e.read_index.eq(e.h.base)
                m.next = "RAW"
                with m.If(~e.h.kept | (e.raw_room < e.h_total)):
                    e.lost(m, spec.LossSource.RAW)
                    m.next = "DONE"

    with m.State("PAGE_AGAIN"):
        m.d.comb += [e.tags.ra.eq(e.h.tag), e.read_index.eq(e.h_start + 2)]
        e.map.look_up(m, e.h_key, e.h_offset)
        m.next = "PAGE_SELECT"

    with m.State("RAW"):
        p = e.raw.payload
        m.d.comb += [
            e.raw.valid.eq(1),
            p.data.eq(e.word),
            p.last.eq(own.raw_left == 1),
            p.tick.eq(e.h.tick),
            p.dws.eq(e.h_total),
            e.read_index.eq(own.raw_read + 1),
        ]
        m.d.sync += [own.raw_read.eq(own.raw_read + 1), own.raw_left.eq(own.raw_left - 1)]
        with m.If(own.raw_left == 1):
            m.next = "DONE"

    # --- completions of the drive's reads; `t` is the tag's entry. PCIe: Completion Rules -------------------------
    def count_completion() -> None:
        e.write_tag(m, e.h.tag, remaining=e.t.remaining - e.h.length, valid=e.t.remaining > e.h.length)

    # `word` is the first of the payload.
    with m.State("COMPLETION"):
        m.d.comb += [e.slots.ra.eq(e.t.slot), e.link.ra.eq(e.t.slot), e.shape.ra.eq(e.t.qid)]
        fetch.begin_sqe(m, e)
        with m.If(~e.t.valid):
            e.lost(m, spec.LossSource.TAGS)
            m.next = "DONE"
        with m.Elif(e.t.kind == kind.UNKNOWN):
            m.next = "COMPLETION_COUNT"
        with m.Elif(e.t.kind == kind.SQE):
            with m.If(e.h.length[0:4] != 0):
                e.lost(m, spec.LossSource.TAGS)  # not cut at the 64-byte read completion boundary
                m.next = "DONE"
        with m.Else():
            m.next = "COMPLETION_DATA"

    with m.State("COMPLETION_COUNT"):
        e.may_finish(m)
        count_completion()
        e.finish(m)

    with m.State("CPL"):  # no data: the request failed
        with m.If(e.t.valid):
            e.reclaim.call(m, "DONE")
        with m.Else():
            e.lost(m, spec.LossSource.TAGS)
            m.next = "DONE"

    with m.State("COMPLETION_DATA"):
        slot = e.slots.r
        live = (slot["state"] == state.IN_FLIGHT) & (slot["generation"] == e.t.generation)
        whole = ~e.h.length[0] & e.h.kept
        m.d.sync += [
            own.list_read.eq(e.h_start),
            own.list_left.eq(e.h.length),
            own.list_sum.eq(slot["blocks"]),
            own.list_ranges.eq(slot["ranges"]),
            own.list_lba.eq(slot["lba"]),
        ]
        m.d.comb += e.read_index.eq(e.h_start)
        m.next = "COMPLETION_COUNT"
        with m.If(live & (e.t.kind == kind.DATA)):
            _see_data(m, e, e.t.slot)
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
        m.d.comb += e.read_index.eq(own.list_read + 1)
        m.d.sync += own.list_low.eq(e.word)
        m.next = "EITHER_HIGH"

    with m.State("EITHER_HIGH"):
        like_a_page = (own.list_low[0:12] == 0) & (e.word[20:32] == 0) & ((own.list_low | e.word) != 0)
        m.d.sync += e.t.kind.eq(Mux(like_a_page, kind.LIST, kind.DATA))
        m.next = "COMPLETION_DATA"

    # --- PRP list. NVMe: Physical Region Page Entry and List ------------------------------------------------------
    with m.State("LIST_LOW"):
        m.d.comb += [e.read_index.eq(own.list_read + 1), e.slots.ra.eq(e.t.slot)]
        m.d.sync += own.list_low.eq(e.word)
        m.next = "LIST_HIGH"

    with m.State("LIST_HIGH"):
        m.d.sync += own.list_high.eq(e.word)
        m.next = "LIST_ENTRY"

    with m.State("LIST_ENTRY"):
        address = Cat(own.list_low, own.list_high)
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
            own.list_read.eq(own.list_read + 2),
            own.list_left.eq(own.list_left - 2),
        ]
        m.next = "LIST_NEXT"
        with m.If((address[2:] != 0) & (e.page_offset(address) == 0)):
            e.insert.call(m, "LIST_NEXT")

    with m.State("LIST_NEXT"):
        m.d.comb += e.read_index.eq(own.list_read)
        m.next = "LIST_LOW"
        with m.If(own.list_left == 0):
            m.next = "COMPLETION_COUNT"

    # --- range list: attributes, length in blocks, SLBA; 16 bytes each. NVMe: Dataset Management - Range Definition ---
    with m.State("RANGE_0"):
        m.d.comb += e.read_index.eq(own.list_read + 1)
        m.next = "RANGE_1"

    with m.State("RANGE_1"):
        m.d.comb += e.read_index.eq(own.list_read + 2)
        with m.If((e.t.index >> 1) < e.slots.r["ranges_expected"]):
            m.d.sync += [own.list_sum.eq(own.list_sum + e.word), own.list_ranges.eq(own.list_ranges + 1)]
        m.next = "RANGE_2"

    with m.State("RANGE_2"):
        m.d.comb += e.read_index.eq(own.list_read + 3)
        with m.If(e.t.index == 0):
            m.d.sync += own.list_lba[0:32].eq(e.word)
        m.next = "RANGE_3"

    with m.State("RANGE_3"):
        m.d.comb += e.read_index.eq(own.list_read + 4)
        with m.If(e.t.index == 0):
            m.d.sync += own.list_lba[32:40].eq(e.word)
        m.d.sync += [e.t.index.eq(e.t.index + 2), own.list_read.eq(own.list_read + 4), own.list_left.eq(own.list_left - 4)]
        m.next = "RANGE_0"
        with m.If(own.list_left <= 4):
            m.next = "RANGE_STORE"

    with m.State("RANGE_STORE"):
        e.slots.write(m, e.t.slot, blocks=own.list_sum, lba=own.list_lba, ranges=own.list_ranges, flags=e.slots.r["flags"])
        m.next = "COMPLETION_COUNT"


def _see_data(m: Module, e, slot) -> None:
    """A data TLP of the command that `slots` reads."""
    with m.If(~tables.known(e.slots.r["first_data"])):
        e.slots.write(m, slot, first_data=None)
    e.slots.write(m, slot, last_data=None)
