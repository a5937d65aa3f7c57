"""Admin commands that succeeded and change what is tracked: queues created and deleted, shadow doorbells, power states."""

from __future__ import annotations

from amaranth.hdl import Module, Mux
from wattbell_spec import wire as spec

from . import emit, queues, tables
from .completions import save_cq
from .tables import Kind


def states(m: Module, e) -> None:
    state = tables.SlotState

    # --- what the command was. NVMe: Create I/O .. Queue, Doorbell Buffer Config, Set Features (Power Management) ---
    with m.State("ADMIN_DONE"):
        # `cq` goes back to its table: the deletion below walks queues with it.
        save_cq(m, e, e.cqe_qid, e.cq)
        m.next = "ADMIN_BACK"
        qid = e.done_lba[0:16]
        with m.Switch(e.done_opcode):
            with m.Case(tables.CREATE_SQ, tables.CREATE_CQ):
                queues.begin_create(
                    m,
                    e,
                    "ADMIN_BACK",
                    cq=e.done_opcode == tables.CREATE_CQ,
                    qid=qid,
                    base=e.done_prp1,
                    size=e.done_lba[16:32] + 1,
                    link=e.done_blocks[16:32],
                )
            with m.Case(tables.DELETE_SQ, tables.DELETE_CQ):
                m.d.sync += [e.queue_is_cq.eq(e.done_opcode == tables.DELETE_CQ), e.queue_id.eq(qid), e.i.eq(0)]
                valid = Mux(e.done_opcode == tables.DELETE_CQ, e.cq_valid, e.sq_valid)
                with m.If((qid != 0) & (qid < e.queues) & valid.bit_select(qid[: e.queue_bits], 1)):
                    m.next = "DELETE"
            with m.Case(tables.DOORBELL_BUFFER_CONFIG):
                m.d.sync += e.shadow.eq(1)
                e.make_event(m, spec.EventType.SHADOW_DOORBELLS)
                m.d.sync += e.i.eq(0)
                m.next = "SHADOW_PAGE"
            with m.Case(tables.SET_FEATURES), m.If(e.done_lba[0:8] == tables.POWER_FID):
                e.make_event(m, spec.EventType.POWER_STATE, arg8=e.done_blocks[0:8])

    with m.State("ADMIN_BACK"):  # the rest of the CQE's TLP
        m.d.comb += [e.cq_state.ra.eq(e.cqe_qid), e.shape.ra.eq(e.queues | e.cqe_qid)]
        m.next = "ADMIN_RELOAD"

    with m.State("ADMIN_RELOAD"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), e.q_size.eq(e.shape.r["size"])]
        m.next = "CQE_NEXT"

    with m.State("SHADOW_PAGE"):
        m.d.sync += [
            e.ins.eq(0),
            e.ins.valid.eq(1),
            e.ins.kind.eq(int(Kind.IGNORE)),
            e.ins.key.eq(e.page_key(Mux(e.i[0], e.db_buffers[1], e.db_buffers[0]))),
            e.ins_piece.eq(0),
            e.i.eq(e.i + 1),
        ]
        with m.If(e.i == 2):
            m.next = "ADMIN_BACK"
        with m.Else():
            e.insert.call(m, "SHADOW_PAGE")

    with m.State("DELETE"):
        e.make_event(m, spec.EventType.QUEUE_DELETED, arg8=e.queue_is_cq, arg16=e.queue_id)
        qid = e.queue_id[: e.queue_bits]
        m.d.comb += e.cq_state.ra.eq(qid)
        with m.If(e.queue_is_cq):
            m.d.sync += [
                e.cq_valid.bit_select(qid, 1).eq(0),
                e.cq_filled.bit_select(qid, 1).eq(0),
                e.cq_waiting.bit_select(qid, 1).eq(0),
            ]
            e.unmap.call(m, "DELETE_CQ")
        with m.Else():
            m.d.sync += e.sq_valid.bit_select(qid, 1).eq(0)
            e.unmap.call(m, "DELETE_SQ")

    # --- what completed on a deleted CQ goes out without a CQ head doorbell. NVMe: Delete I/O Completion Queue command ---
    with m.State("DELETE_CQ"):
        m.d.sync += e.cq.eq(e.cq_state.r["entry"])
        m.next = "DELETE_CQ_ENTRY"

    with m.State("DELETE_CQ_ENTRY"):
        m.d.comb += e.link.ra.eq(e.cq.head)
        m.d.sync += e.cq.count.eq(e.cq.count - 1)
        with m.If(e.cq.count == 0):
            m.next = "ADMIN_BACK"
        with m.Else():
            emit.begin(m, e, e.cq.head, "DELETE_CQ_STEP")

    with m.State("DELETE_CQ_STEP"):
        m.d.sync += e.cq.head.eq(e.link.r["next"])
        m.next = "DELETE_CQ_ENTRY"

    # --- what was in flight on a deleted SQ is aborted; what has completed still waits for its CQ head doorbell. ---
    # NVMe: Delete I/O Submission Queue command
    with m.State("DELETE_SQ"):
        m.d.comb += e.slots.ra.eq(e.i)
        m.next = "DELETE_SQ_SLOT"
        with m.If(e.i == e.slot_count):
            m.next = "ADMIN_BACK"

    with m.State("DELETE_SQ_SLOT"):
        slot = e.slots.r
        m.d.sync += [e.i.eq(e.i + 1), e.find_qid.eq(slot["qid"]), e.find_cid.eq(slot["cid"])]
        m.next = "DELETE_SQ"
        with m.If(slot["qid"] == e.queue_id[: e.queue_bits]):
            with m.If(slot["state"] == state.IN_FLIGHT):
                e.find.call(m, "DELETE_SQ_FOUND")
            with m.If((slot["state"] == state.ANNOUNCED) | (slot["state"] == state.FETCHING)):
                emit.begin(m, e, e.i, "DELETE_SQ", aborted=1)

    with m.State("DELETE_SQ_FOUND"):
        with m.If(emit.searches(e)):
            m.next = "FIND_ON"
        with m.Else():
            emit.unlink(m, e)
            emit.begin(m, e, e.find_slot, "DELETE_SQ", aborted=1)
