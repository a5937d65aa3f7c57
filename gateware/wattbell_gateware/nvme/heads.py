"""CQ head doorbells release completed commands, and so does their age."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

from . import emit, tables
from .completions import save_cq


def declare(m: Module, e) -> None:
    e.release_left = Signal(17)


def states(m: Module, e) -> None:
    # --- CQ head doorbell: doorbell_qid, doorbell_value, `cq` is loaded. NVMe: CQyHDBL ----------------------------
    with m.State("CQ_DOORBELL"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.d.sync += e.release_left.eq(e.modulo(e.cq.tail - e.doorbell_value[:16], e.q_size))
        with m.If((e.doorbell_value >= e.q_size) | (e.cq.count == 0)):
            e.finish(m)
        with m.Else():
            m.next = "CQ_RELEASE"

    with m.State("CQ_RELEASE"):  # `slots` and `link` read the oldest completed command
        behind = e.modulo(e.cq.tail - e.slots.r["index"], e.q_size)
        with m.If((e.cq.count != 0) & ((behind == 0) | (behind > e.release_left))):
            m.d.sync += [e.cq.count.eq(e.cq.count - 1), e.cq.head.eq(e.link.r["next"])]
            with m.If(e.cq.waiting == e.cq.head):
                m.d.sync += e.cq.waiting.eq(e.link.r["next"])
            emit.begin(m, e, e.cq.head, "CQ_RELEASE_NEXT", head=1)
        with m.Else():
            with m.If(e.cq.count == 0):
                m.d.sync += [
                    e.cq_filled.bit_select(e.doorbell_qid, 1).eq(0),
                    e.cq_waiting.bit_select(e.doorbell_qid, 1).eq(0),
                ]
            save_cq(m, e, e.doorbell_qid, e.cq)
            m.next = "DONE"

    with m.State("CQ_RELEASE_NEXT"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.next = "CQ_RELEASE"

    # --- sweep: completed commands whose doorbell does not come: ours ---------------------------------------------
    with m.State("SWEEP"):
        m.d.comb += e.cq_state.ra.eq(e.i)
        m.d.sync += e.doorbell_qid.eq(e.i)
        m.next = "SWEEP_LOAD"
        with m.If(e.i == e.queues):
            m.d.sync += e.swept.eq(e.now[tables.SWEEP_BITS :])
            m.next = "IDLE"

    with m.State("SWEEP_LOAD"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), e.i.eq(e.i + 1)]
        m.next = "SWEEP"
        with m.If(e.cq_filled.bit_select(e.doorbell_qid, 1)):
            m.next = "SWEEP_NEXT"

    with m.State("SWEEP_NEXT"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.next = "SWEEP_ENTRY"

    with m.State("SWEEP_ENTRY"):
        with m.If((e.cq.count != 0) & (e.now >= e.slots.r["cqe"] + tables.SWEEP_AGE)):
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
