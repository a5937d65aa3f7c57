"""Reads of submission queue entries by the drive, and the completions that bring them."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit, tables
from .tables import Kind

Flag = spec.CommandFlag


def declare(m: Module, e) -> None:
    e.fetch_index = Signal(16)
    e.fetch_left = Signal(11)
    e.fetch_real = Signal(11)
    e.fetch_first = Signal(e.slot_bits)  # first slot of this read's chain
    e.fetch_last = Signal(e.slot_bits)
    e.fetch_ahead = Signal(17)  # announced and not yet fetched, before this read
    e.fetch_flags = Signal(8)
    e.t = Signal(e.TAG)
    e.sqe_word = Signal(4)
    e.sqe_words_left = Signal(11)  # words of this TLP that are not yet consumed
    e.sqe_start = Signal(14)  # payload index of the present SQE
    e.sqe = [Signal(32, name=f"sqe_{i}") for i in range(tables.USED_WORDS)]
    e.sqe_next = Signal(e.slot_bits)
    e.sqe_lba = Signal()  # an opcode with SLBA and NLB
    e.sqe_dsm = Signal()
    e.sqe_pages_sure = Signal(17)
    e.sqe_pages_most = Signal(17)
    e.sqe_end1, e.sqe_most1 = Signal(27), Signal(27)  # double words in its page: behind what PRP1's part surely has, may have
    e.sqe_end2, e.sqe_most2 = Signal(27), Signal(27)  # the same of the list at PRP2
    e.sqe_piece1, e.sqe_piece2 = Signal(), Signal()  # it may end before its page does
    e.sqe_has_data = Signal()
    e.sqe_prp2_kind = Signal(3)
    e.sqe_prp2 = Signal()
    e.sqe_prp2_doubtful = Signal()
    e.raise_arm, e.lower_arm = Signal(), Signal()
    e.identifies = Signal(5)
    e.marker_tick = Signal(64)  # when the present SQE was announced
    e.arm = Signal(5)  # admin commands announced whose SQE is not known yet: each may be Identify
    e.db_buffers = [Signal(64, name=f"db_buffer_{i}") for i in range(2)]
    m.d.comb += e.armed.eq((e.arm != 0) | (e.identifies != 0))
    with m.If(e.raise_arm & ~e.arm.all()):
        m.d.sync += e.arm.eq(e.arm + 1)
    with m.If(e.lower_arm & (e.arm != 0)):
        m.d.sync += e.arm.eq(e.arm - 1)


def states(m: Module, e) -> None:
    state = tables.SlotState

    # --- FETCH: a read in a page of SQ pe.slot. NVMe: Command Submission and Completion Mechanism -----------------
    with m.State("FETCH"):
        m.d.comb += [e.shape.ra.eq(e.pe.slot[: e.queue_bits]), e.sq_state.ra.eq(e.pe.slot)]
        m.d.sync += e.doorbell_qid.eq(e.pe.slot)
        m.next = "FETCH_LOAD"

    with m.State("FETCH_LOAD"):
        sq = e.sq_state.r["entry"]
        offset = e.h.address[6:28] - e.shape.r["base"][6:28]
        m.d.comb += [e.slots.ra.eq(sq.head), e.link.ra.eq(sq.head)]
        m.d.sync += [
            e.sq.eq(sq),
            e.q_size.eq(e.shape.r["size"]),
            e.fetch_index.eq(offset[:16]),
            e.fetch_left.eq(e.h.length >> 4),
            e.fetch_real.eq(0),
        ]
        with m.If((e.h.address[2:6] != 0) | (e.h.length[0:4] != 0) | (offset[:22] >= e.shape.r["size"])):
            m.d.comb += e.unmatched.eq(1)
            m.next = "TAG_UNKNOWN"
        with m.Else():
            m.next = "FETCH_BEGIN"

    with m.State("FETCH_BEGIN"):
        ahead = e.modulo(e.sq.tail - e.fetch_index, e.q_size)
        m.d.sync += [
            e.fetch_ahead.eq(Mux(e.sq.tail_known, ahead, 0)),
            e.t.eq(0),
            e.t.valid.eq(1),
            e.t.kind.eq(tables.TagKind.SQE),
            e.t.qid.eq(e.doorbell_qid),
            e.t.index.eq(e.fetch_index),
            e.t.remaining.eq(e.h.length),
            e.fetch_flags.eq(Mux(e.shadow & (e.doorbell_qid != 0), int(Flag.SHADOW), int(Flag.GUESS))),
        ]
        with m.If(e.sq.tail_known & (e.fetch_left > ahead)):
            # A doorbell was missed, or there was none (shadow doorbells).
            end = e.fetch_index + e.fetch_left
            m.d.sync += e.sq.tail.eq(Mux(end >= e.q_size, end - e.q_size, end))
        m.next = "FETCH_ENTRY"

    with m.State("FETCH_ENTRY"):  # `slots` and `link` read the head of the announced list
        at = e.slots.r["index"]
        ahead_of_head = e.modulo(e.sq.tail - at, e.q_size)
        distance = e.modulo(e.fetch_index - at, e.q_size)
        match = (e.sq.count != 0) & (at == e.fetch_index)
        passed = (e.sq.count != 0) & (distance < ahead_of_head) & ~match
        slot = Mux(match, e.sq.head, e.free_slot)
        with m.If(e.fetch_left == 0):
            m.next = "FETCH_END"
        with m.Elif(passed):
            # The read of this one was not seen. Its CQE will be a record without SQE.
            emit.release(m, e, e.sq.head)
            m.d.sync += [e.sq.head.eq(e.link.r["next"]), e.sq.count.eq(e.sq.count - 1)]
            m.d.comb += [e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
        with m.Else():
            m.d.sync += [
                e.fetch_left.eq(e.fetch_left - 1),
                e.fetch_index.eq(Mux(e.fetch_index + 1 == e.q_size, 0, e.fetch_index + 1)),
            ]
            with m.If(match):
                e.slots.write(m, e.sq.head, state=state.FETCHING, fetch=None)
                m.d.sync += [e.sq.head.eq(e.link.r["next"]), e.sq.count.eq(e.sq.count - 1)]
                m.d.comb += [e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
            with m.Elif(e.slot_free):
                emit.allocate(m, e, state=state.FETCHING, qid=e.doorbell_qid, index=e.fetch_index, flags=e.fetch_flags, fetch=None)
            with m.Elif(e.fetch_ahead == 0):
                # It had no doorbell. Otherwise it was counted when its doorbell found no slot.
                e.lost(m, spec.LossSource.SLOTS)
            with m.If(e.fetch_ahead != 0):
                m.d.sync += e.fetch_ahead.eq(e.fetch_ahead - 1)
            with m.If(match | e.slot_free):
                with m.If(e.fetch_real == 0):
                    m.d.sync += e.fetch_first.eq(slot)
                with m.Else():
                    e.link.write(m, e.fetch_last, next=slot)
                m.d.sync += [e.fetch_last.eq(slot), e.fetch_real.eq(e.fetch_real + 1)]

    with m.State("FETCH_END"):
        sq = Signal(e.SQ, name="fetch_sq")
        m.d.comb += [
            sq.eq(e.sq),
            sq.fetch.eq(e.fetch_index),
            sq.fetch_known.eq(1),
        ]
        e.write_tag(m, e.h.tag, slot=e.fetch_first, left=e.fetch_real)
        e.sq_state.write(m, e.doorbell_qid, entry=sq)
        e.finish(m)

    # --- SQE: a completion with SQEs; `t` is its tag's entry. NVMe: Submission Queue Entry - Command Format; PRP ---
    with m.State("SQE"):
        m.d.comb += [e.slots.ra.eq(e.t.slot), e.link.ra.eq(e.t.slot), e.shape.ra.eq(e.t.qid)]
        m.d.comb += e.read_index.eq(e.h_start)
        m.d.sync += [e.sqe_word.eq(0), e.sqe_words_left.eq(e.h.length), e.sqe_start.eq(e.h_start)]
        m.next = "SQE_WORD"

    with m.State("SQE_WORD"):
        m.d.comb += e.read_index.eq(e.sqe_start + e.sqe_word + 1)
        m.d.sync += e.sqe_word.eq(e.sqe_word + 1)
        with m.Switch(e.sqe_word):
            for number in range(tables.USED_WORDS):
                with m.Case(number):
                    m.d.sync += e.sqe[number].eq(e.word)
        with m.If(e.sqe_word == tables.USED_WORDS - 1):
            m.next = "SQE_CHECK"

    opcode, cid = e.sqe[0][0:8], e.sqe[0][16:32]
    nsid, prp1, prp2 = e.sqe[1], Cat(e.sqe[6], e.sqe[7]), Cat(e.sqe[8], e.sqe[9])
    nlb = e.sqe[12][0:16] + 1
    admin = e.t.qid == 0
    page_shift = e.mps + 12
    offset = Cat(prp1[0:2], e.page_offset(prp1))[:16]
    is_lba = ~admin & (sum(opcode == lba for lba in tables.LBA) != 0)
    is_dsm = ~admin & (opcode == tables.DSM)

    with m.State("SQE_CHECK"):
        size = e.page_size() << 2
        least = Mux(is_dsm, (e.sqe[10][0:8] + 1) << 4, nlb << 9)
        known = is_lba | is_dsm
        end1 = Signal(27, name="end1")
        m.d.comb += end1.eq(offset[2:] + (least >> 2))
        m.d.sync += [
            e.sqe_end1.eq(end1),
            e.sqe_most1.eq(Mux(is_dsm, end1, offset[2:] + (nlb << 10))),
            e.sqe_piece1.eq(known & (offset[2:] != 0) & (end1 < e.page_size())),
            e.sqe_lba.eq(is_lba),
            e.sqe_dsm.eq(is_dsm),
            e.sqe_next.eq(e.link.r["next"]),
            e.sqe_pages_sure.eq(Mux(known, (offset + least + size - 1) >> page_shift, 1)),
            e.sqe_pages_most.eq((offset + Mux(is_dsm, least, nlb << 12) + size - 1) >> page_shift),
            e.sqe_has_data.eq(
                (opcode[0:2] != 0)
                & (e.sqe[0][14:16] == 0)
                & (prp1 != 0)
                & ~(admin & ((opcode == tables.CREATE_SQ) | (opcode == tables.CREATE_CQ) | (opcode == tables.DOORBELL_BUFFER_CONFIG)))
            ),
        ]
        m.d.sync += [e.find_qid.eq(e.t.qid), e.find_cid.eq(cid), e.ins_generation.eq(e.slots.r["generation"])]
        m.d.sync += e.doorbell_flags.eq(e.slots.r["flags"])
        with m.If(
            (e.t.left != 0) & (e.slots.r["state"] == state.FETCHING) & (e.slots.r["qid"] == e.t.qid) & (e.slots.r["index"] == e.t.index)
        ):
            # Marker and POWER_STATE events need ticks of this slot before the search moves on.
            m.d.sync += e.marker_tick.eq(Mux(e.slots.r["doorbell"] == tables.UNKNOWN, e.slots.r["fetch"], e.slots.r["doorbell"]))
            e.find.call(m, "SQE_FOUND")
        with m.Else():
            with m.If((e.slots.r["state"] != state.FETCHING) | (e.slots.r["qid"] != e.t.qid)):
                m.d.sync += e.t.left.eq(0)  # its queue was deleted meanwhile
            m.next = "SQE_NEXT"

    with m.State("SQE_FOUND"):
        m.d.comb += e.lower_arm.eq(admin)
        with m.If(admin & (opcode == tables.GET_FEATURES) & (e.sqe[10][0:8] == tables.MARKER_FID)):
            e.make_event(m, spec.EventType.MARKER, tick=e.marker_tick, arg8=int(spec.MarkerSource.IN_BAND), arg32=e.sqe[11])
        with m.If(admin & (opcode == tables.IDENTIFY) & (e.identifies != 31)):
            m.d.sync += e.identifies.eq(e.identifies + 1)
        with m.If(admin & (opcode == tables.DOORBELL_BUFFER_CONFIG)):
            m.d.sync += [e.db_buffers[0].eq(prp1), e.db_buffers[1].eq(prp2)]
        m.next = "SQE_STORE"
        with m.If(e.found):
            # The CID is used again before its CQE was seen: that CQE was missed.
            emit.unlink(m, e)
            emit.begin(m, e, e.find_slot, "SQE_STORE", aborted=1, reused=1)

    with m.State("SQE_STORE"):
        m.d.comb += e.hash_head.ra.eq(e.hash(e.t.qid, cid))
        partial = (opcode[0:2] != 0) & (e.sqe[0][14:16] != 0)
        slba = Cat(e.sqe[10], e.sqe[11])
        blocks = Mux(e.sqe_lba, nlb, e.sqe[11])
        flush = ~admin & (opcode == 0)
        e.slots.write(
            m,
            e.t.slot,
            state=state.IN_FLIGHT,
            opcode=opcode,
            cid=cid,
            nsid=Mux(nsid == 0xFFFFFFFF, spec.NSID_BROADCAST, Mux(nsid >= spec.NSID_LARGE, spec.NSID_LARGE, nsid[:16])),
            lba=Mux(e.sqe_dsm, 0, Mux(e.sqe_lba, slba[:40], e.sqe[10])),
            blocks=Mux(e.sqe_dsm | flush, 0, blocks),
            ranges=0,
            prp1=prp1,
            ranges_expected=e.sqe[10][0:8] + 1,
            pages_sure=e.sqe_pages_sure,
            flags=e.doorbell_flags | Mux(partial, int(Flag.DATA_PARTIAL), 0),
        )
        most, sure = e.sqe_pages_most, e.sqe_pages_sure
        at = e.page_offset(prp2)
        list_offset = at != 0
        known = e.sqe_lba | e.sqe_dsm
        end2 = Signal(27, name="end2")
        m.d.comb += end2.eq(at + (Mux(sure > 2, sure - 1, 1) << 1))
        m.d.sync += [
            e.sqe_end2.eq(end2),
            e.sqe_most2.eq(Mux(known, at + (Mux(most > 2, most - 1, 1) << 1), (1 << 27) - 1)),
            e.sqe_piece2.eq(list_offset & ~e.sqe_dsm & (end2 < e.page_size())),
            e.sqe_prp2.eq(e.sqe_has_data & (prp2 != 0) & ~(known & (most < 2))),
            e.sqe_prp2_doubtful.eq(~known | (sure < 2)),
            e.sqe_prp2_kind.eq(
                Mux(
                    e.sqe_dsm,
                    int(Kind.RANGES),
                    Mux(
                        (e.sqe_lba & (sure > 2)) | list_offset,
                        int(Kind.LIST),
                        Mux(e.sqe_lba & (most == 2), int(Kind.DATA), int(Kind.EITHER)),
                    ),
                )
            ),
        ]
        m.next = "SQE_LINK"

    with m.State("SQE_LINK"):
        entry = Signal(e.hash_head.r["entry"].shape(), name="chain_entry")
        m.d.comb += [entry.valid.eq(1), entry.slot.eq(e.t.slot)]
        e.hash_head.write(m, e.hash(e.t.qid, cid), entry=entry)
        e.hash_next.write(m, e.t.slot, entry=e.hash_head.r["entry"])
        m.d.sync += [
            e.ins.eq(0),
            e.ins.valid.eq(1),
            e.ins.key.eq(e.page_key(prp1)),
            e.ins.start.eq(e.page_offset(prp1)),
            e.ins.kind.eq(Mux(e.sqe_dsm, int(Kind.RANGES), int(Kind.DATA))),
            e.ins.slot.eq(e.t.slot),
            e.ins.generation.eq(e.ins_generation),
            e.ins_piece.eq(e.sqe_piece1),
            e.span_end.eq(e.sqe_end1),
            e.span_most.eq(e.sqe_most1),
        ]
        with m.If(e.sqe_has_data & e.sqe_piece1):
            e.span.call(m, "SQE_PRP2")
        with m.Elif(e.sqe_has_data):
            e.insert.call(m, "SQE_PRP2")
        with m.Else():
            m.next = "SQE_NEXT_SLOT"

    with m.State("SQE_PRP2"):
        m.d.sync += [
            e.ins.key.eq(e.page_key(prp2)),
            e.ins.start.eq(Mux(e.sqe_prp2_kind == int(Kind.LIST), e.page_offset(prp2), 0)),
            e.ins.kind.eq(e.sqe_prp2_kind),
            e.ins.index.eq(Mux(e.sqe_dsm, (e.page_size() - e.page_offset(prp1)) >> 1, 0)),
            e.ins.doubtful.eq(e.sqe_prp2_doubtful),
            e.ins_piece.eq(e.sqe_piece2),
            e.span_end.eq(e.sqe_end2),
            e.span_most.eq(e.sqe_most2),
        ]
        with m.If(e.sqe_prp2 & e.sqe_piece2):
            e.span.call(m, "SQE_NEXT_SLOT")
        with m.Elif(e.sqe_prp2):
            e.insert.call(m, "SQE_NEXT_SLOT")
        with m.Else():
            m.next = "SQE_NEXT_SLOT"

    with m.State("SQE_NEXT_SLOT"):
        m.d.sync += [e.t.slot.eq(e.sqe_next), e.t.left.eq(e.t.left - 1)]
        m.next = "SQE_NEXT"

    with m.State("SQE_NEXT"):
        m.d.comb += [e.slots.ra.eq(e.t.slot), e.link.ra.eq(e.t.slot), e.read_index.eq(e.sqe_start + 16)]
        m.d.sync += [
            e.t.index.eq(Mux(e.t.index + 1 == e.shape.r["size"], 0, e.t.index + 1)),
            e.t.remaining.eq(e.t.remaining - 16),
            e.t.valid.eq(e.t.remaining > 16),
            e.sqe_words_left.eq(e.sqe_words_left - 16),
            e.sqe_start.eq(e.sqe_start + 16),
            e.sqe_word.eq(0),
        ]
        m.next = "SQE_WORD"
        with m.If((e.sqe_words_left <= 16) | (e.t.remaining <= 16)):
            m.next = "TAG_STORE"

    with m.State("TAG_STORE"):
        e.write_tag(m, e.h.tag)
        e.finish(m)

    with m.State("TAG_UNKNOWN"):
        e.write_tag(m, e.h.tag, valid=1, kind=tables.TagKind.UNKNOWN, remaining=e.h.length)
        e.finish(m)

    # --- RECLAIM: tag h.tag is used again though not all its completions came: its slots go back. PCIe: Transaction ID ---
    with m.State("RECLAIM"):
        entry = e.tags.r["entry"]
        m.d.sync += e.t.eq(entry)
        m.d.comb += [e.slots.ra.eq(entry.slot), e.link.ra.eq(entry.slot)]
        e.write_tag(m, e.h.tag, valid=0)
        m.next = "RECLAIM_SLOT"

    with m.State("RECLAIM_SLOT"):
        with m.If(
            (e.t.kind != tables.TagKind.SQE) | (e.t.left == 0) | (e.slots.r["state"] != state.FETCHING) | (e.slots.r["qid"] != e.t.qid)
        ):
            e.reclaim.leave_later(m)
        with m.Else():
            e.slots.write(m, e.t.slot, state=state.FREE)
            m.d.comb += [e.free_slots.w_en.eq(1), e.free_slots.w_data.eq(e.t.slot)]
            m.d.comb += [e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
            m.d.sync += [e.t.slot.eq(e.link.r["next"]), e.t.left.eq(e.t.left - 1)]
