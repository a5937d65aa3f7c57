"""CQ head doorbells release completed commands, and so does their age."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

from . import emit, tables
from .completions import save_cq


class Registers:
    """What only the states of this file use."""

    def __init__(self) -> None:
        self.release_left = Signal(17)
        self.old_until = Signal(65)  # completions up to this tick are released by their age
        self.is_old = Signal()
        self.behind = Signal(18)  # from the oldest completed command's place to the tail; modulo the queue's size a clock later


def declare(m: Module, e) -> None:
    e.own[Registers] = Registers()


def states(m: Module, e) -> None:
    own = e.own[Registers]
    # --- CQ head doorbell: doorbell_qid, doorbell_value, `cq` is loaded. NVMe: CQyHDBL ----------------------------
    # Its record is made on the way to knowing whether the oldest completed command is released.
    with m.State("CQ_DOORBELL"):  # `slots` and `link` read it
        e.may_finish(m)
        m.d.sync += [
            own.release_left.eq(e.modulo(e.cq.tail - e.first[:16], e.q_size)),
            own.behind.eq(e.cq.tail - e.slots.r["index"]),
        ]
        emit.prepare(m, e, e.cq.head, head=1)
        with m.If((e.first >= e.q_size) | (e.cq.count == 0)):
            e.finish(m)
        with m.Else():
            m.next = "CQ_LOAD"

    with m.State("CQ_LOOK"):
        m.d.sync += own.behind.eq(e.cq.tail - e.slots.r["index"])
        emit.prepare(m, e, e.cq.head, head=1)
        m.next = "CQ_LOAD"

    with m.State("CQ_LOAD"):
        m.d.sync += own.behind.eq(e.modulo(own.behind.as_signed(), e.q_size))
        emit.load(m, e)
        m.next = "CQ_RELEASE"

    with m.State("CQ_RELEASE"):
        e.may_finish(m)
        shorter = Signal(e.CQ, name="shorter_cq")
        m.d.comb += [shorter.eq(e.cq), e.slots.ra.eq(e.link.r["next"]), e.link.ra.eq(e.link.r["next"])]
        with m.If((own.behind == 0) | (own.behind > own.release_left)):
            m.d.comb += [shorter.count.eq(e.cq.count - 1), shorter.head.eq(e.link.r["next"])]
            with m.If(e.cq.waiting == e.cq.head):
                m.d.comb += shorter.waiting.eq(e.link.r["next"])
            emit.push(m, e, e.cq.head)
            m.next = "CQ_LOOK"
            with m.If(e.cq.count == 1):
                m.d.sync += [
                    e.cq_filled.bit_select(e.doorbell_qid, 1).eq(0),
                    e.cq_waiting.bit_select(e.doorbell_qid, 1).eq(0),
                ]
                save_cq(m, e, e.doorbell_qid, shorter)
                e.finish(m)
        with m.Else():
            save_cq(m, e, e.doorbell_qid, e.cq)
            e.finish(m)
        m.d.sync += e.cq.eq(shorter)

    # --- sweep: completed commands whose doorbell does not come: ours ---------------------------------------------
    with m.State("SWEEP"):
        m.d.comb += e.cq_state.ra.eq(e.i)
        m.d.sync += e.doorbell_qid.eq(e.i)
        m.next = "SWEEP_LOAD"
        with m.If(e.i == e.queues):
            m.d.sync += e.swept.eq(e.h.tick[tables.SWEEP_BITS :])
            m.next = "IDLE"

    with m.State("SWEEP_LOAD"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), e.i.eq(e.i + 1)]
        m.next = "SWEEP"
        with m.If(e.cq_filled.bit_select(e.doorbell_qid, 1)):
            m.next = "SWEEP_NEXT"

    with m.State("SWEEP_NEXT"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.d.sync += own.old_until.eq(e.h.tick - tables.SWEEP_AGE)
        m.next = "SWEEP_AGE"

    with m.State("SWEEP_AGE"):
        m.d.sync += own.is_old.eq(~own.old_until[64] & (e.slots.r["cqe"] <= own.old_until[:64]))
        m.next = "SWEEP_ENTRY"

    with m.State("SWEEP_ENTRY"):
        with m.If((e.cq.count != 0) & own.is_old):
            m.d.sync += [e.cq.count.eq(e.cq.count - 1), e.cq.head.eq(e.link.r["next"])]
            with m.If(e.cq.waiting == e.cq.head):
                m.d.sync += e.cq.waiting.eq(e.link.r["next"])
            emit.begin(m, e, e.cq.head, "SWEEP_NEXT")
        with m.Else():
            with m.If(e.cq.count == 0):
                m.d.sync += [
                    e.cq_filled.bit_select(e.doorbell_qid, 1).eq(0),
                    e.cq_waiting.bit_select(e.doorbell_qid, 1).eq(0),
                ]
            save_cq(m, e, e.doorbell_qid, e.cq)
            m.next = "SWEEP"
