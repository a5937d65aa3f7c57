"""Reads of submission queue entries by the drive, and the completions that bring them."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit, tables
from .tables import Kind

Flag = spec.CommandFlag


class Registers:
    """What only the states of this file use."""

    def __init__(self, e) -> None:
        self.fetch_index = Signal(16)
        self.fetch_left = Signal(11)
        self.fetch_real = Signal(11)
        self.fetch_first = Signal(e.slot_bits)  # first slot of this read's chain
        self.fetch_last = Signal(e.slot_bits)
        self.fetch_ahead = Signal(17)  # announced and not yet fetched, before this read
        self.fetch_offset = Signal(22)  # of the read in its queue, in entries
        self.fetch_end = Signal(16)  # place behind it
        self.fetch_match = Signal()  # the oldest announced command stands where the read does
        self.fetch_passes = Signal()  # it does not, and whether it is passed over is not known yet
        self.ahead_of_head, self.distance = Signal(18), Signal(18)  # from that one to the tail, and to here; modulo a clock later
        self.fetch_flags = Signal(8)
        self.sqe_beat = Signal(range(8))
        self.sqe_words_left = Signal(11)  # words of this TLP that are not yet consumed
        self.sqe_start = Signal(14)  # payload index of the present SQE
        self.sqe = [Signal(32, name=f"sqe_{i}") for i in range(tables.USED_WORDS)]
        self.sqe_next = Signal(e.slot_bits)
        self.sqe_chain = Signal()  # a command in flight may have this CID
        self.sqe_fits, self.sqe_lives = Signal(), Signal()  # it is the one that was fetched; at least it is being fetched
        self.sqe_ends = Signal()  # it is the last one of this TLP
        self.sqe_sum_sure, self.sqe_sum_most = Signal(34), Signal(34)  # bytes from the start of PRP1's page
        self.sqe_list_sure, self.sqe_list_most = Signal(17), Signal(17)  # entries of the list at PRP2
        self.sqe_lba = Signal()  # an opcode with SLBA and NLB
        self.sqe_dsm = Signal()
        self.sqe_pages_sure = Signal(17)
        self.sqe_pages_most = Signal(17)
        self.sqe_end1, self.sqe_most1 = Signal(27), Signal(27)  # double words in its page: behind what PRP1's part surely has, may have
        self.sqe_end2, self.sqe_most2 = Signal(27), Signal(27)  # the same of the list at PRP2
        self.sqe_piece1, self.sqe_piece2 = Signal(), Signal()  # it may end before its page does
        self.sqe_has_data = Signal()
        self.sqe_prp2_kind = Signal(3)
        self.sqe_prp2 = Signal()
        self.sqe_prp2_doubtful = Signal()
        self.reclaims = Signal()  # there is another slot that waits for its SQE
        self.lower_arm = Signal()
        self.marker_tick = Signal(64)  # when the present SQE was announced


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers(e)
    e.t = Signal(e.TAG)
    e.raise_arm = Signal()
    e.identifies = Signal(5)
    e.arm = Signal(5)  # admin commands announced whose SQE is not known yet: each may be Identify
    e.db_buffers = [Signal(64, name=f"db_buffer_{i}") for i in range(2)]
    m.d.comb += e.armed.eq((e.arm != 0) | (e.identifies != 0))
    with m.If(e.raise_arm & ~e.arm.all()):
        m.d.sync += e.arm.eq(e.arm + 1)
    with m.If(own.lower_arm & (e.arm != 0)):
        m.d.sync += e.arm.eq(e.arm - 1)


def _beats(e) -> int:
    """Of an SQE, up to the last word in use."""
    return (3 + tables.USED_WORDS - 1) // e.lanes - 3 // e.lanes + 1


def _take_beat(m: Module, e, number: int) -> None:
    """In the present state: `read_down` is a beat of the SQE, of which word 0 is the fourth double word of its TLP; on to the next one."""
    own = e.own[Registers]
    for word in range(tables.USED_WORDS):
        beat, lane = divmod(3 + word, e.lanes)
        if beat - 3 // e.lanes == number:
            m.d.sync += own.sqe[word].eq(e.read_down.word_select(lane, 32))
    m.d.sync += own.sqe_beat.eq(number + 1)
    m.d.comb += e.read_index.eq(own.sqe_start + (number + 1) * e.lanes)


def begin_sqe(m: Module, e) -> None:
    """In COMPLETION, which reads slot, link and queue of the tag: `word` is the first of an SQE."""
    own = e.own[Registers]
    _take_beat(m, e, 0)
    m.d.comb += e.read_index.eq(e.h_start + e.lanes)
    m.d.sync += [own.sqe_start.eq(e.h_start), own.sqe_words_left.eq(e.h.length)]
    m.next = "SQE_BEAT"


def states(m: Module, e) -> None:
    own = e.own[Registers]
    state = tables.SlotState

    # --- FETCH: a read in a page of SQ pe.slot. NVMe: Command Submission and Completion Mechanism -----------------
    with m.State("FETCH"):  # `shape` and `sq_state` read their entries
        sq = e.sq_state.r["entry"]
        m.d.comb += [e.slots.ra.eq(sq.head), e.link.ra.eq(sq.head)]
        m.d.sync += [
            e.sq.eq(sq),
            e.q_size.eq(e.shape.r["size"]),
            own.fetch_offset.eq(e.h.address[6:28] - e.shape.r["base"][6:28]),
            own.fetch_left.eq(e.h.length >> 4),
            own.fetch_real.eq(0),
        ]
        m.next = "FETCH_BEGIN"

    with m.State("FETCH_BEGIN"):
        index = own.fetch_offset[:16]
        ahead, end = e.modulo(e.sq.tail - index, e.q_size), index + own.fetch_left
        m.d.sync += [
            own.fetch_index.eq(index),
            own.fetch_ahead.eq(Mux(e.sq.tail_known, ahead, 0)),
            own.fetch_end.eq(Mux(end >= e.q_size, end - e.q_size, end)),
            own.fetch_match.eq(e.slots.r["index"] == index),
            own.fetch_passes.eq(1),
            e.t.eq(0),
            e.t.valid.eq(1),
            e.t.kind.eq(tables.TagKind.SQE),
            e.t.qid.eq(e.doorbell_qid),
            e.t.index.eq(index),
            e.t.remaining.eq(e.h.length),
            own.fetch_flags.eq(Mux(e.shadow & (e.doorbell_qid != 0), int(Flag.SHADOW), int(Flag.GUESS))),
        ]
        with m.If((e.h.address[2:6] != 0) | (e.h.length[0:4] != 0) | (own.fetch_offset >= e.q_size)):
            m.d.comb += e.unmatched.eq(1)
            m.next = "TAG_UNKNOWN"
        with m.Else():
            m.next = "FETCH_ENTRY"

    with m.State("FETCH_ENTRY"):  # `slots` and `link` read the head of the announced list
        e.may_finish(m)
        match = (e.sq.count != 0) & own.fetch_match
        slot, taken = Mux(match, e.sq.head, e.free_slot), match | e.slot_free
        sq, after = Signal(e.SQ, name="fetch_sq"), Signal(16, name="fetch_after")
        m.d.comb += [
            sq.eq(e.sq), after.eq(Mux(own.fetch_index + 1 == e.q_size, 0, own.fetch_index + 1)), sq.fetch.eq(after), sq.fetch_known.eq(1),
        ]  # fmt: skip
        with m.If(e.sq.tail_known & (own.fetch_left > own.fetch_ahead)):
            # A doorbell was missed, or there was none (shadow doorbells).
            m.d.comb += sq.tail.eq(own.fetch_end)
        m.d.sync += e.sq.eq(sq)
        with m.If((e.sq.count != 0) & ~match & own.fetch_passes):
            m.next = "FETCH_DIFFERS"
        with m.Else():
            m.d.sync += [own.fetch_left.eq(own.fetch_left - 1), own.fetch_index.eq(after)]
            with m.If(match):
                e.slots.write(m, e.sq.head, state=state.FETCHING, fetch=None)
                m.d.comb += [sq.head.eq(e.link.r["next"]), sq.count.eq(e.sq.count - 1)]
                m.d.comb += [e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
            with m.Elif(e.slot_free):
                emit.allocate(m, e, state=state.FETCHING, qid=e.doorbell_qid, index=own.fetch_index, flags=own.fetch_flags, fetch=None)
            with m.Elif(own.fetch_ahead == 0):
                # It had no doorbell. Otherwise it was counted when its doorbell found no slot.
                e.lost(m, spec.LossSource.SLOTS)
            with m.If(own.fetch_ahead != 0):
                m.d.sync += own.fetch_ahead.eq(own.fetch_ahead - 1)
            with m.If(taken):
                with m.If(own.fetch_real == 0):
                    m.d.sync += own.fetch_first.eq(slot)
                with m.Else():
                    e.link.write(m, own.fetch_last, next=slot)
                m.d.sync += [own.fetch_last.eq(slot), own.fetch_real.eq(own.fetch_real + 1)]
            m.next = "FETCH_NEXT"
            with m.If(own.fetch_left == 1):
                e.write_tag(m, e.h.tag, slot=Mux(own.fetch_real == 0, slot, own.fetch_first), left=own.fetch_real + taken)
                e.sq_state.write(m, e.doorbell_qid, entry=sq)
                e.finish(m)

    with m.State("FETCH_NEXT"):
        m.d.sync += [own.fetch_match.eq(e.slots.r["index"] == own.fetch_index), own.fetch_passes.eq(1)]
        m.next = "FETCH_ENTRY"

    with m.State("FETCH_DIFFERS"):
        m.d.sync += [own.ahead_of_head.eq(e.sq.tail - e.slots.r["index"]), own.distance.eq(own.fetch_index - e.slots.r["index"])]
        m.next = "FETCH_MODULO"

    with m.State("FETCH_MODULO"):
        m.d.sync += [each.eq(e.modulo(each.as_signed(), e.q_size)) for each in (own.ahead_of_head, own.distance)]
        m.next = "FETCH_PASSED"

    with m.State("FETCH_PASSED"):
        m.d.sync += own.fetch_passes.eq(0)
        m.next = "FETCH_ENTRY"
        with m.If(own.distance < own.ahead_of_head):
            # The read of this one was not seen. Its CQE will be a record without SQE.
            emit.release(m, e, e.sq.head)
            m.d.sync += [e.sq.head.eq(e.link.r["next"]), e.sq.count.eq(e.sq.count - 1)]
            m.d.comb += [e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
            m.next = "FETCH_NEXT"

    # --- SQE: a completion with SQEs; `t` is its tag's entry. NVMe: Submission Queue Entry - Command Format; PRP ---
    # A completion is cut at 64 bytes, its header has three double words, and its beats stand in the ring as they came: so every SQE lies in
    # the beats' lanes alike, and a beat of it is taken a clock.
    with m.State("SQE_FIRST"):  # of those behind the first in its TLP
        m.d.comb += [e.slots.ra.eq(e.t.slot), e.link.ra.eq(e.t.slot), e.shape.ra.eq(e.t.qid)]
        _take_beat(m, e, 0)
        m.next = "SQE_BEAT"

    with m.State("SQE_BEAT"):
        with m.Switch(own.sqe_beat):
            for number in range(1, _beats(e)):
                with m.Case(number):
                    _take_beat(m, e, number)
        with m.Switch(own.sqe_beat):
            with m.Case(1):  # the slot is read, and the CID is there
                m.d.comb += e.hash_head.ra.eq(e.hash(e.t.qid, own.sqe[0][16:32]))
                alive = (e.slots.r["state"] == state.FETCHING) & (e.slots.r["qid"] == e.t.qid)
                m.d.sync += [
                    e.find_qid.eq(e.t.qid), e.find_cid.eq(own.sqe[0][16:32]), e.ins_generation.eq(e.slots.r["generation"]),
                    e.doorbell_flags.eq(e.slots.r["flags"]), own.sqe_next.eq(e.link.r["next"]), e.q_size.eq(e.shape.r["size"]),
                    own.sqe_lives.eq(alive), own.sqe_fits.eq(alive & (e.t.left != 0) & (e.slots.r["index"] == e.t.index)),
                    # Marker and POWER_STATE events need ticks of this slot before the search moves on.
                    own.marker_tick.eq(Mux(tables.known(e.slots.r["doorbell"]), e.slots.r["doorbell"], e.slots.r["fetch"])),
                    own.sqe_ends.eq((own.sqe_words_left <= 16) | (e.t.remaining <= 16)),
                ]  # fmt: skip
            with m.Case(2):
                emit.begin_find(m, e)
                m.d.sync += [
                    own.sqe_chain.eq(e.hash_head.r["entry"].valid),
                    e.t.index.eq(Mux(e.t.index + 1 == e.q_size, 0, e.t.index + 1)),
                    e.t.remaining.eq(e.t.remaining - 16),
                    e.t.valid.eq(e.t.remaining > 16),
                    own.sqe_words_left.eq(own.sqe_words_left - 16),
                    own.sqe_start.eq(own.sqe_start + 16),
                ]  # fmt: skip
        with m.If(own.sqe_beat == _beats(e) - 1):
            m.next = "SQE_CHECK"

    opcode, cid = own.sqe[0][0:8], own.sqe[0][16:32]
    nsid, prp1, prp2 = own.sqe[1], Cat(own.sqe[6], own.sqe[7]), Cat(own.sqe[8], own.sqe[9])
    nlb = own.sqe[12][0:16] + 1
    admin = e.t.qid == 0
    page_shift = e.mps + 12
    offset = Cat(prp1[0:2], e.page_offset(prp1))[:16]
    is_lba = ~admin & (sum(opcode == lba for lba in tables.LBA) != 0)
    is_dsm = ~admin & (opcode == tables.DSM)

    with m.State("SQE_CHECK"):
        least = Mux(is_dsm, (own.sqe[10][0:8] + 1) << 4, nlb << 9)
        most = Mux(is_dsm, least, nlb << 12)
        m.d.sync += [
            own.sqe_end1.eq(offset[2:] + (least >> 2)),
            own.sqe_most1.eq(offset[2:] + Mux(is_dsm, least >> 2, nlb << 10)),
            own.sqe_sum_sure.eq(offset + least),
            own.sqe_sum_most.eq(offset + most),
            own.sqe_lba.eq(is_lba),
            own.sqe_dsm.eq(is_dsm),
            own.sqe_has_data.eq(
                (opcode[0:2] != 0)
                & (own.sqe[0][14:16] == 0)
                & (prp1 != 0)
                & ~(admin & ((opcode == tables.CREATE_SQ) | (opcode == tables.CREATE_CQ) | (opcode == tables.DOORBELL_BUFFER_CONFIG)))
            ),
        ]
        m.next = "SQE_STORE"
        with m.If(own.sqe_fits):
            with m.If(own.sqe_chain):
                e.find.call(m, "SQE_FOUND", entry="FIND_WALK")
        with m.Else():
            with m.If(~own.sqe_lives):
                m.d.sync += e.t.left.eq(0)  # its queue was deleted meanwhile
            m.next = "SQE_NEXT"

    with m.State("SQE_FOUND"):
        m.next = "SQE_STORE"
        with m.If(emit.searches(e)):
            m.next = "FIND_ON"
        with m.Elif(e.found):
            # The CID is used again before its CQE was seen: that CQE was missed.
            emit.unlink(m, e)
            emit.begin(m, e, e.find_slot, "SQE_STORE", aborted=1, reused=1)

    size, known = e.page_size() << 2, own.sqe_lba | own.sqe_dsm
    with m.State("SQE_STORE"):
        e.may_finish(m)
        m.d.comb += own.lower_arm.eq(admin)
        with m.If(admin & (opcode == tables.GET_FEATURES) & (own.sqe[10][0:8] == tables.MARKER_FID)):
            e.make_event(m, spec.EventType.MARKER, tick=own.marker_tick, arg8=int(spec.MarkerSource.IN_BAND), arg32=own.sqe[11])
        with m.If(admin & (opcode == tables.IDENTIFY) & (e.identifies != 31)):
            m.d.sync += e.identifies.eq(e.identifies + 1)
        with m.If(admin & (opcode == tables.DOORBELL_BUFFER_CONFIG)):
            m.d.sync += [e.db_buffers[0].eq(prp1), e.db_buffers[1].eq(prp2)]
        sure, most = Signal(17, name="pages_sure"), Signal(17, name="pages_most")
        m.d.comb += [
            sure.eq(Mux(known, (own.sqe_sum_sure + size - 1) >> page_shift, 1)), most.eq((own.sqe_sum_most + size - 1) >> page_shift),
        ]  # fmt: skip
        partial = (opcode[0:2] != 0) & (own.sqe[0][14:16] != 0)
        slba = Cat(own.sqe[10], own.sqe[11])
        blocks = Mux(own.sqe_lba, nlb, own.sqe[11])
        flush = ~admin & (opcode == 0)
        e.slots.write(
            m,
            e.t.slot,
            state=state.IN_FLIGHT,
            opcode=opcode,
            cid=cid,
            nsid=Mux(nsid == 0xFFFFFFFF, spec.NSID_BROADCAST, Mux(nsid >= spec.NSID_LARGE, spec.NSID_LARGE, nsid[:16])),
            lba=Mux(own.sqe_dsm, 0, Mux(own.sqe_lba, slba[:40], own.sqe[10])),
            blocks=Mux(own.sqe_dsm | flush, 0, blocks),
            ranges=0,
            prp1=prp1,
            ranges_expected=own.sqe[10][0:8] + 1,
            pages_sure=sure,
            flags=e.doorbell_flags | Mux(partial, int(Flag.DATA_PARTIAL), 0),
        )
        entry = Signal(e.CHAIN, name="chain_entry")
        m.d.comb += [entry.valid.eq(1), entry.slot.eq(e.t.slot)]
        e.hash_head.write(m, e.hash(e.find_qid, e.find_cid), entry=entry)  # which `hash_head` has read since SQE_BEAT
        e.hash_next.write(m, e.t.slot, entry=e.hash_head.r["entry"])
        m.d.sync += [
            own.sqe_pages_sure.eq(sure),
            own.sqe_pages_most.eq(most),
            own.sqe_piece1.eq(known & (offset[2:] != 0) & (own.sqe_end1 < e.page_size())),
            e.t.slot.eq(own.sqe_next),
            e.t.left.eq(e.t.left - 1),
            e.ins.eq(0),
            e.ins.valid.eq(1),
            e.ins.key.eq(e.page_key(prp1)),
            e.ins.start.eq(e.page_offset(prp1)),
            e.ins.kind.eq(Mux(own.sqe_dsm, int(Kind.RANGES), int(Kind.DATA))),
            e.ins.slot.eq(e.t.slot),
            e.ins.generation.eq(e.ins_generation),
            e.span_end.eq(own.sqe_end1),
            e.span_most.eq(own.sqe_most1),
        ]
        with m.If(own.sqe_has_data):
            m.next = "SQE_PRP1"
        with m.Elif(own.sqe_ends):
            e.write_tag(m, e.h.tag, slot=own.sqe_next, left=e.t.left - 1)
            e.finish(m)
        with m.Else():
            m.d.comb += e.read_index.eq(own.sqe_start)
            m.next = "SQE_FIRST"

    at = e.page_offset(prp2)
    with m.State("SQE_PRP1"):
        sure, most = own.sqe_pages_sure, own.sqe_pages_most
        m.d.sync += [
            own.sqe_list_sure.eq(Mux(sure > 2, sure - 1, 1)),
            own.sqe_list_most.eq(Mux(most > 2, most - 1, 1)),
            own.sqe_prp2.eq(own.sqe_has_data & (prp2 != 0) & ~(known & (most < 2))),
            own.sqe_prp2_doubtful.eq(~known | (sure < 2)),
            own.sqe_prp2_kind.eq(
                Mux(
                    own.sqe_dsm,
                    int(Kind.RANGES),
                    Mux(
                        (own.sqe_lba & (sure > 2)) | (at != 0),
                        int(Kind.LIST),
                        Mux(own.sqe_lba & (most == 2), int(Kind.DATA), int(Kind.EITHER)),
                    ),
                )
            ),
            e.ins_piece.eq(own.sqe_piece1),
        ]
        with m.If(own.sqe_piece1):
            e.span.call(m, "SQE_LIST")
        with m.Else():
            e.insert.call(m, "SQE_LIST")

    with m.State("SQE_LIST"):
        m.d.sync += [
            own.sqe_end2.eq(at + (own.sqe_list_sure << 1)),
            own.sqe_most2.eq(Mux(known, at + (own.sqe_list_most << 1), (1 << 27) - 1)),
        ]
        m.next = "SQE_PRP2"
        with m.If(~own.sqe_prp2):
            m.next = "SQE_NEXT"

    with m.State("SQE_PRP2"):
        piece = (at != 0) & ~own.sqe_dsm & (own.sqe_end2 < e.page_size())
        m.d.sync += [
            e.ins.key.eq(e.page_key(prp2)),
            e.ins.start.eq(Mux(own.sqe_prp2_kind == int(Kind.LIST), at, 0)),
            e.ins.kind.eq(own.sqe_prp2_kind),
            e.ins.index.eq(Mux(own.sqe_dsm, (e.page_size() - e.page_offset(prp1)) >> 1, 0)),
            e.ins.doubtful.eq(own.sqe_prp2_doubtful),
            e.ins_piece.eq(piece),
            e.span_end.eq(own.sqe_end2),
            e.span_most.eq(own.sqe_most2),
        ]
        with m.If(piece):
            e.span.call(m, "SQE_NEXT")
        with m.Else():
            e.insert.call(m, "SQE_NEXT")

    with m.State("SQE_NEXT"):
        e.may_finish(m)
        with m.If(own.sqe_ends):
            e.write_tag(m, e.h.tag)
            e.finish(m)
        with m.Else():
            m.d.comb += e.read_index.eq(own.sqe_start)
            m.next = "SQE_FIRST"

    with m.State("TAG_UNKNOWN"):
        e.may_finish(m)
        e.write_tag(m, e.h.tag, valid=1, kind=tables.TagKind.UNKNOWN, remaining=e.h.length)
        e.finish(m)

    # --- RECLAIM: tag h.tag is used again though not all its completions came: its slots go back. PCIe: Transaction ID ---
    with m.State("RECLAIM"):
        m.d.comb += e.tags.ra.eq(e.h.tag)
        m.next = "RECLAIM_TAG"

    with m.State("RECLAIM_TAG"):
        entry = e.tags.r["entry"]
        m.d.sync += e.t.eq(entry)
        m.d.comb += [e.slots.ra.eq(entry.slot), e.link.ra.eq(entry.slot)]
        e.write_tag(m, e.h.tag, valid=0)
        m.next = "RECLAIM_SLOT"

    with m.State("RECLAIM_SLOT"):
        m.d.sync += own.reclaims.eq(
            (e.t.kind == tables.TagKind.SQE) & (e.t.left != 0) & (e.slots.r["state"] == state.FETCHING) & (e.slots.r["qid"] == e.t.qid)
        )
        m.next = "RECLAIM_NEXT"

    with m.State("RECLAIM_NEXT"):
        with m.If(~own.reclaims):
            e.reclaim.leave_later(m)
        with m.Else():
            emit.release(m, e, e.t.slot)
            m.d.comb += [e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
            m.d.sync += [e.t.slot.eq(e.link.r["next"]), e.t.left.eq(e.t.left - 1)]
            m.next = "RECLAIM_SLOT"
