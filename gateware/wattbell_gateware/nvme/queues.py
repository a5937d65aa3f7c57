"""Creation and deletion of queues, and doorbells."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit
from . import engine as _engine
from .layouts import Kind

Flag = spec.CommandFlag


def declare(_m: Module, e) -> None:
    e.untracked = Signal()  # there is a queue beyond the table
    e.c_cq = Signal()
    e.c_qid = Signal(16)
    e.c_base = Signal(64)
    e.c_size = Signal(17)
    e.c_link = Signal(16)
    e.c_guess = Signal()  # positions are not known: late attach
    e.c_pages = Signal(12)
    e.c_key = Signal(52)
    e.d_qid = Signal(e.queue_bits)
    e.d_cq = Signal()
    e.d_value = Signal(32)
    e.d_left = Signal(17)
    e.d_index = Signal(16)
    e.d_flags = Signal(8)
    e.sq = Signal(e.SQ)
    e.cq = Signal(e.CQ)
    e.q_size = Signal(17)


def begin_create(m: Module, e, back: str, *, cq, qid, base, size, link, guess=0) -> None:
    m.d.sync += [
        e.c_cq.eq(cq),
        e.c_qid.eq(qid),
        e.c_base.eq(base),
        e.c_size.eq(size),
        e.c_link.eq(link),
        e.c_guess.eq(guess),
        e.dirty.eq(1),
    ]
    e.create.call(m, back)


def states(m: Module, e) -> None:
    qb = e.queue_bits
    qid = e.c_qid[:qb]
    bytes_ = Mux(e.c_cq, e.c_size << 4, e.c_size << 6)
    page_bits = (1 << (e.mps + 12))[:20] - 1

    # CREATE: queue c_*; its pages are entered in the page map.
    with m.State("CREATE"):
        e_kind = Mux(e.c_cq, 1, 0)
        m.d.sync += [
            e.c_pages.eq((bytes_ + page_bits) >> (e.mps + 12)),
            e.c_key.eq(e.page_key(e.c_base)),
        ]
        with m.If(e.c_qid >= e.queues):
            e.lost(m, spec.LossSource.QUEUES)
            m.d.sync += e.untracked.eq(1)
            e.create.leave_later(m)
        with m.Else():
            e.make_event(m, spec.EventType.QUEUE_CREATED, arg8=e_kind, arg16=e.c_qid, arg32=e.c_size)
            shape = {"base": e.c_base, "size": e.c_size, "link": e.c_link}
            e.shape.write(m, Cat(qid, e.c_cq), **shape)
            with m.If(e.c_cq):
                fresh = Const(0, e.CQ.size)
                state = Signal(e.CQ, name="fresh_cq")
                m.d.comb += [state.eq(fresh), state.known.eq(~e.c_guess), state.phase.eq(1), state.epoch.eq(e.epoch)]
                e.cq_state.write(m, qid, entry=state)
                m.d.sync += [
                    e.cq_valid.bit_select(qid, 1).eq(1),
                    e.cq_filled.bit_select(qid, 1).eq(0),
                    e.cq_waiting.bit_select(qid, 1).eq(0),
                ]
            with m.Else():
                sq = Signal(e.SQ, name="fresh_sq")
                m.d.comb += [
                    sq.tail_known.eq(~e.c_guess),
                    sq.fetch_known.eq(~e.c_guess),
                    sq.epoch.eq(e.epoch),
                ]
                e.sq_state.write(m, qid, entry=sq)
                m.d.sync += e.sq_valid.bit_select(qid, 1).eq(1)
            m.next = "CREATE_PAGE"

    with m.State("CREATE_PAGE"):
        m.d.sync += [
            e.ins.eq(0),
            e.ins.valid.eq(1),
            e.ins.key.eq(e.c_key),
            e.ins.kind.eq(Mux(e.c_cq, int(Kind.CQ), int(Kind.SQ))),
            e.ins.slot.eq(qid),
            e.ins_piece.eq(0),
            e.c_key.eq(e.c_key + (1 << e.mps)),
            e.c_pages.eq(e.c_pages - 1),
        ]
        with m.If(e.c_pages == 0):
            e.create.leave_later(m)
        with m.Else():
            e.insert.call(m, "CREATE_PAGE")

    # UNMAP: the pages of queue c_qid (c_cq) leave the page map.
    with m.State("UNMAP"):
        m.d.comb += e.shape.ra.eq(Cat(qid, e.c_cq))
        m.next = "UNMAP_SHAPE"

    with m.State("UNMAP_SHAPE"):
        base, size = e.shape.r["base"], e.shape.r["size"]
        length = Mux(e.c_cq, size << 4, size << 6)
        m.d.sync += [e.c_pages.eq((length + page_bits) >> (e.mps + 12)), e.c_key.eq(e.page_key(base))]
        m.next = "UNMAP_PAGE"

    with m.State("UNMAP_PAGE"):
        e.map.look_up(m, e.c_key, Const(0, 14))
        with m.If(e.c_pages == 0):
            e.unmap.leave_later(m)
        with m.Else():
            m.next = "UNMAP_CLEAR"

    with m.State("UNMAP_CLEAR"):
        m.d.comb += [e.map.put_key.eq(e.c_key), e.map.put_offset.eq(0), e.map.put_entry.valid.eq(0)]
        kind = Mux(e.c_cq, int(Kind.CQ), int(Kind.SQ))
        for number, entry in enumerate(e.map.entries[: e.map.pages]):
            m.d.comb += e.map.put_ways[number].eq(
                e.map.same[number] & (entry.kind == kind) & (entry.slot == qid))
        m.d.sync += [e.c_key.eq(e.c_key + (1 << e.mps)), e.c_pages.eq(e.c_pages - 1)]
        m.next = "UNMAP_PAGE"

    # --- doorbells: d_qid, d_cq, d_value -------------------------------------------------------------------------
    with m.State("DOORBELL"):
        m.d.comb += [
            e.shape.ra.eq(Cat(e.d_qid, e.d_cq)),
            e.sq_state.ra.eq(e.d_qid),
            e.cq_state.ra.eq(e.d_qid),
        ]
        m.d.sync += e.d_value.eq(e.word)
        m.next = "DOORBELL_LOAD"

    with m.State("DOORBELL_LOAD"):
        m.d.sync += [
            e.sq.eq(e.sq_state.r["entry"]),
            e.cq.eq(e.cq_state.r["entry"]),
            e.q_size.eq(e.shape.r["size"]),
        ]
        with m.If(e.d_cq & e.cq_valid.bit_select(e.d_qid, 1)):
            m.next = "CQ_DOORBELL"
        with m.Elif(~e.d_cq & e.sq_valid.bit_select(e.d_qid, 1) & ~(e.shadow & (e.d_qid != 0))):
            m.next = "SQ_DOORBELL"
        with m.Else():
            e.finish(m)

    with m.State("SQ_DOORBELL"):
        value = e.d_value[:16]
        stale = e.sq.epoch != e.epoch
        position = Mux(e.sq.tail_known, e.sq.tail, e.sq.fetch)
        known = e.sq.tail_known | e.sq.fetch_known
        before = Mux(value == 0, e.q_size - 1, value - 1)
        ahead = e.modulo(value - position, e.q_size)
        # A doorbell that was lost and comes when it is sent again is older than the last one: more than half the queue ahead, which
        # no driver goes at once, let alone behind a loss. (If one does, its commands are known from their fetch on.)
        overtaken = stale & known & ((ahead << 1) > e.q_size)
        m.d.sync += [
            e.d_left.eq(Mux(known, ahead, 1)),
            e.d_index.eq(Mux(known, position, before)),
            e.d_flags.eq(Mux(stale | ~e.sq.tail_known, int(Flag.GUESS), 0)),
            e.sq.tail.eq(value),
            e.sq.tail_known.eq(1),
            e.sq.epoch.eq(e.epoch),
        ]
        with m.If(stale):
            e.make_event(
                m,
                spec.EventType.GUESSING, arg8=int(spec.GuessReason.AFTER_LOSS),
                arg16=e.d_qid,
            )
        with m.If((e.d_value >= e.q_size) | overtaken):
            e.finish(m)  # too great a value the drive will refuse too
        with m.Else():
            m.next = "SQ_ANNOUNCE"

    with m.State("SQ_ANNOUNCE"):
        with m.If(e.d_left == 0):
            e.sq_state.write(m, e.d_qid, entry=e.sq)
            e.finish(m)
        with m.Else():
            m.d.sync += [
                e.d_left.eq(e.d_left - 1),
                e.d_index.eq(Mux(e.d_index + 1 == e.q_size, 0, e.d_index + 1)),
            ]
            with m.If(e.slot_free):
                emit.allocate(
                    m,
                    e,
                    state=_engine.SlotState.ANNOUNCED,
                    qid=e.d_qid,
                    index=e.d_index,
                    flags=e.d_flags,
                    doorbell=None,
                )
                m.d.comb += e.raise_arm.eq(e.d_qid == 0)
                m.d.sync += [e.sq.last.eq(e.free_slot), e.sq.count.eq(e.sq.count + 1)]
                with m.If(e.sq.count == 0):
                    m.d.sync += e.sq.head.eq(e.free_slot)
                with m.Else():
                    e.link.write(m, e.sq.last, next=e.free_slot)
            with m.Else():
                e.lost(m, spec.LossSource.SLOTS)
