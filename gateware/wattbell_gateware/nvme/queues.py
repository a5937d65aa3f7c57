"""Creation and deletion of queues, and doorbells."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit, tables
from .tables import Kind

Flag = spec.CommandFlag


class Registers:
    """What only the states of this file use."""

    def __init__(self) -> None:
        self.queue_base = Signal(64)
        self.queue_size = Signal(17)
        self.queue_link = Signal(16)
        self.queue_guess = Signal()  # positions are not known: late attach
        self.queue_pages = Signal(12)
        self.queue_key = Signal(52)
        self.doorbell_left = Signal(17)
        self.doorbell_index = Signal(16)
        self.doorbell_known = Signal()  # where in the queue it begins


def declare(_m: Module, e) -> None:
    e.own[Registers] = Registers()
    e.untracked = Signal()  # there is a queue beyond the table
    e.queue_is_cq = Signal()
    e.queue_id = Signal(16)
    e.doorbell_qid = Signal(e.queue_bits)
    e.doorbell_cq = Signal()
    e.doorbell_good = Signal()  # there is such a doorbell
    e.doorbell_flags = Signal(8)
    e.sq = Signal(e.SQ)
    e.cq = Signal(e.CQ)
    e.q_size = Signal(17)


def begin_create(m: Module, e, back: str, *, cq, qid, base, size, link, guess=0) -> None:
    own = e.own[Registers]
    m.d.sync += [
        e.queue_is_cq.eq(cq),
        e.queue_id.eq(qid),
        own.queue_base.eq(base),
        own.queue_size.eq(size),
        own.queue_link.eq(link),
        own.queue_guess.eq(guess),
        e.dirty.eq(1),
    ]
    e.create.call(m, back)


def states(m: Module, e) -> None:
    own = e.own[Registers]
    qb = e.queue_bits
    qid = e.queue_id[:qb]
    bytes_ = Mux(e.queue_is_cq, own.queue_size << 4, own.queue_size << 6)
    page_bits = (1 << (e.mps + 12))[:20] - 1

    # --- CREATE: queue_*, its pages go into the page map. NVMe: Create I/O Completion (Submission) Queue command ---
    with m.State("CREATE"):
        e_kind = Mux(e.queue_is_cq, 1, 0)
        m.d.sync += [
            own.queue_pages.eq((bytes_ + page_bits) >> (e.mps + 12)),
            own.queue_key.eq(e.page_key(own.queue_base)),
        ]
        with m.If(e.queue_id >= e.queues):
            e.lost(m, spec.LossSource.QUEUES)
            m.d.sync += e.untracked.eq(1)
            e.create.leave_later(m)
        with m.Else():
            e.make_event(m, spec.EventType.QUEUE_CREATED, arg8=e_kind, arg16=e.queue_id, arg32=own.queue_size)
            shape = {"base": own.queue_base, "size": own.queue_size, "link": own.queue_link}
            e.shape.write(m, Cat(qid, e.queue_is_cq), **shape)
            with m.If(e.queue_is_cq):
                fresh = Const(0, e.CQ.size)
                state = Signal(e.CQ, name="fresh_cq")
                m.d.comb += [state.eq(fresh), state.known.eq(~own.queue_guess), state.phase.eq(1), state.epoch.eq(e.epoch)]
                e.cq_state.write(m, qid, entry=state)
                m.d.sync += [
                    e.cq_valid.bit_select(qid, 1).eq(1),
                    e.cq_filled.bit_select(qid, 1).eq(0),
                    e.cq_waiting.bit_select(qid, 1).eq(0),
                ]
            with m.Else():
                sq = Signal(e.SQ, name="fresh_sq")
                m.d.comb += [
                    sq.tail_known.eq(~own.queue_guess),
                    sq.fetch_known.eq(~own.queue_guess),
                    sq.epoch.eq(e.epoch),
                ]
                e.sq_state.write(m, qid, entry=sq)
                m.d.sync += e.sq_valid.bit_select(qid, 1).eq(1)
            m.next = "CREATE_PAGE"

    with m.State("CREATE_PAGE"):
        m.d.sync += [
            e.ins.eq(0),
            e.ins.valid.eq(1),
            e.ins.key.eq(own.queue_key),
            e.ins.kind.eq(Mux(e.queue_is_cq, int(Kind.CQ), int(Kind.SQ))),
            e.ins.slot.eq(qid),
            e.ins_piece.eq(0),
            own.queue_key.eq(own.queue_key + (1 << e.mps)),
            own.queue_pages.eq(own.queue_pages - 1),
        ]
        with m.If(own.queue_pages == 0):
            e.create.leave_later(m)
        with m.Else():
            e.insert.call(m, "CREATE_PAGE")

    # --- UNMAP: the pages of queue_id (queue_is_cq) leave the page map. NVMe: Delete I/O Completion (Submission) Queue command ---
    with m.State("UNMAP"):
        m.d.comb += e.shape.ra.eq(Cat(qid, e.queue_is_cq))
        m.next = "UNMAP_SHAPE"

    with m.State("UNMAP_SHAPE"):
        base, size = e.shape.r["base"], e.shape.r["size"]
        length = Mux(e.queue_is_cq, size << 4, size << 6)
        m.d.sync += [own.queue_pages.eq((length + page_bits) >> (e.mps + 12)), own.queue_key.eq(e.page_key(base))]
        m.next = "UNMAP_PAGE"

    with m.State("UNMAP_PAGE"):
        e.map.look_up(m, own.queue_key, Const(0, 14))
        with m.If(own.queue_pages == 0):
            e.unmap.leave_later(m)
        with m.Else():
            m.next = "UNMAP_CLEAR"

    with m.State("UNMAP_CLEAR"):
        m.d.comb += [e.map.put_key.eq(own.queue_key), e.map.put_offset.eq(0), e.map.put_entry.valid.eq(0)]
        kind = Mux(e.queue_is_cq, int(Kind.CQ), int(Kind.SQ))
        for number, entry in enumerate(e.map.entries[: e.map.pages]):
            m.d.comb += e.map.put_ways[number].eq(e.map.same[number] & (entry.kind == kind) & (entry.slot == qid))
        m.d.sync += [own.queue_key.eq(own.queue_key + (1 << e.mps)), own.queue_pages.eq(own.queue_pages - 1)]
        m.next = "UNMAP_PAGE"

    # --- doorbells: doorbell_qid, _cq, `first`. NVMe: SQyTDBL, CQyHDBL; Queue Size: head and tail -----------------
    with m.State("DOORBELL"):  # `shape`, `sq_state` and `cq_state` read their entries
        e.may_finish(m)
        m.d.comb += [e.slots.ra.eq(e.cq_state.r["entry"].head), e.link.ra.eq(e.cq_state.r["entry"].head)]
        m.d.sync += [
            e.sq.eq(e.sq_state.r["entry"]),
            e.cq.eq(e.cq_state.r["entry"]),
            e.q_size.eq(e.shape.r["size"]),
        ]
        with m.If(e.doorbell_good & e.doorbell_cq & e.cq_valid.bit_select(e.doorbell_qid, 1)):
            m.next = "CQ_DOORBELL"
        with m.Elif(e.doorbell_good & ~e.doorbell_cq & e.sq_valid.bit_select(e.doorbell_qid, 1) & ~(e.shadow & (e.doorbell_qid != 0))):
            m.next = "SQ_DOORBELL"
        with m.Else():
            e.finish(m)

    with m.State("SQ_DOORBELL"):
        value = e.first[:16]
        stale = e.sq.epoch != e.epoch
        position = Mux(e.sq.tail_known, e.sq.tail, e.sq.fetch)
        known = e.sq.tail_known | e.sq.fetch_known
        before = Mux(value == 0, e.q_size - 1, value - 1)
        m.d.sync += [
            own.doorbell_left.eq(Mux(known, e.modulo(value - position, e.q_size), 1)),
            own.doorbell_index.eq(Mux(known, position, before)),
            own.doorbell_known.eq(known),
            e.doorbell_flags.eq(Mux(stale | ~e.sq.tail_known, int(Flag.GUESS), 0)),
        ]
        m.next = "SQ_TAIL"

    with m.State("SQ_TAIL"):
        e.may_finish(m)
        stale = e.sq.epoch != e.epoch
        # A doorbell that was lost and comes when it is sent again is older than the last one: more than half the queue ahead, which
        # no driver goes at once, let alone after a loss. (If one does, its commands are known from their fetch on.)
        overtaken = stale & own.doorbell_known & ((own.doorbell_left << 1) > e.q_size)
        m.d.sync += [
            e.sq.tail.eq(e.first),
            e.sq.tail_known.eq(1),
            e.sq.epoch.eq(e.epoch),
        ]
        with m.If(stale):
            e.make_event(
                m,
                spec.EventType.GUESSING,
                arg8=int(spec.GuessReason.AFTER_LOSS),
                arg16=e.doorbell_qid,
            )
        with m.If((e.first >= e.q_size) | overtaken):
            e.finish(m)  # too great a value the drive will refuse too
        with m.Else():
            m.next = "SQ_ANNOUNCE"

    with m.State("SQ_ANNOUNCE"):
        e.may_finish(m)
        longer = Signal(e.SQ, name="longer_sq")
        m.d.comb += longer.eq(e.sq)
        m.d.sync += [
            own.doorbell_left.eq(own.doorbell_left - 1),
            own.doorbell_index.eq(Mux(own.doorbell_index + 1 == e.q_size, 0, own.doorbell_index + 1)),
            e.sq.eq(longer),
        ]
        with m.If(own.doorbell_left != 0):
            with m.If(e.slot_free):
                emit.allocate(
                    m,
                    e,
                    state=tables.SlotState.ANNOUNCED,
                    qid=e.doorbell_qid,
                    index=own.doorbell_index,
                    flags=e.doorbell_flags,
                    doorbell=None,
                )
                m.d.comb += [e.raise_arm.eq(e.doorbell_qid == 0), longer.last.eq(e.free_slot), longer.count.eq(e.sq.count + 1)]
                with m.If(e.sq.count == 0):
                    m.d.comb += longer.head.eq(e.free_slot)
                with m.Else():
                    e.link.write(m, e.sq.last, next=e.free_slot)
            with m.Else():
                e.lost(m, spec.LossSource.SLOTS)
        with m.If(own.doorbell_left[1:] == 0):  # of which the last, or none, is announced
            e.sq_state.write(m, e.doorbell_qid, entry=longer)
            e.finish(m)
