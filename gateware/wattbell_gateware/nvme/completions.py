"""Completion queue entries: the end of a command (NVMe: Completion Queue Entry)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit, tables

Flag = spec.CommandFlag


def declare(m: Module, e) -> None:
    e.cqe_qid = Signal(e.queue_bits)  # completion queue
    e.cqe_index = Signal(16)
    e.cqe_start = Signal(14)
    e.cqe_left = Signal(11)
    e.cqe_sqid = Signal(16)
    e.cqe_cid = Signal(16)
    e.cqe_status = Signal(15)
    e.cqe_phase = Signal()
    e.cqe_slot = Signal(e.slot_bits)
    e.cqe_guess = Signal()
    e.cqe_age = Signal(65)  # from the doorbell to the CQE
    e.cqe_age_known = Signal()
    e.done_lba = Signal(40)  # of the command
    e.done_blocks = Signal(32)
    e.done_prp1 = Signal(64)
    e.done_opcode = Signal(8)
    e.last_cq = Signal(e.queue_bits)
    # Told a clock after CQE_APPEND: until then nothing else uses these registers.
    m.d.sync += e.completed.eq(0)
    told = e.completion
    m.d.comb += [
        told.tick.eq(e.h.tick),
        told.latency.eq(Mux(e.cqe_age_known & ~e.cqe_age[64], e.cqe_age[:32] | e.cqe_age[32:64].any().replicate(32), 0)),
        told.lba.eq(e.done_lba),
        told.blocks.eq(e.done_blocks[:17]),
        told.opcode.eq(e.done_opcode),
        told.admin.eq(e.cqe_sqid == 0),
        told.error.eq(e.cqe_status[0:11] != 0),
    ]


def save_cq(m: Module, e, qid, cq) -> None:
    """In the present state: the entry of CQ `qid` becomes `cq`."""
    e.cq_state.write(m, qid, entry=cq)


def states(m: Module, e) -> None:
    state = tables.SlotState

    # --- a write in a page of CQ pe.slot. NVMe: Completion Queue Entry (Phase Tag, Status Field) ------------------
    with m.State("CQE"):
        m.d.comb += [e.shape.ra.eq(e.queues | e.pe.slot[: e.queue_bits]), e.cq_state.ra.eq(e.pe.slot), e.read_index.eq(e.h_start + 2)]
        m.d.sync += [e.cqe_qid.eq(e.pe.slot), e.cqe_start.eq(e.h_start), e.cqe_left.eq(e.h.length)]
        m.next = "CQE_LOAD"

    with m.State("CQE_LOAD"):
        offset = e.h.address[4:28] - e.shape.r["base"][4:28]
        m.d.comb += e.read_index.eq(e.cqe_start + 3)
        m.d.sync += [
            e.cq.eq(e.cq_state.r["entry"]),
            e.q_size.eq(e.shape.r["size"]),
            e.cqe_index.eq(offset[:16]),
            e.cqe_sqid.eq(e.word[16:32]),
        ]
        m.next = "CQE_STATUS"
        with m.If(
            ~e.h.kept
            | (e.h.address[2:4] != 0)
            | (e.h.length[0:2] != 0)
            | (offset[:24] >= e.shape.r["size"])
            | ~e.cq_valid.bit_select(e.pe.slot[: e.queue_bits], 1)
        ):
            m.d.comb += e.unmatched.eq(1)
            m.next = "DONE"

    with m.State("CQE_STATUS"):  # `word` is double word 3
        cid, phase = e.word[0:16], e.word[16]
        expected = e.cq.known & (e.cq.tail == e.cqe_index)
        m.d.sync += [
            e.cqe_cid.eq(cid),
            e.cqe_status.eq(e.word[17:32]),
            e.cqe_phase.eq(phase),
            e.cqe_guess.eq(~expected),
            e.find_qid.eq(e.cqe_sqid),
            e.find_cid.eq(cid),
        ]
        with m.If((expected & (phase != e.cq.phase)) | (e.cqe_sqid >= e.queues)):
            m.d.comb += e.unmatched.eq(1)  # the host will not take it for a completion
            m.next = "CQE_NEXT"
        with m.Else():
            with m.If(e.cq.known & ~expected):
                e.make_event(
                    m,
                    spec.EventType.GUESSING,
                    arg8=int(spec.GuessReason.AFTER_LOSS),
                    arg16=e.cqe_qid,
                )
            wrap = e.cqe_index + 1 == e.q_size
            m.d.sync += [
                e.cq.known.eq(1),
                e.cq.tail.eq(Mux(wrap, 0, e.cqe_index + 1)),
                e.cq.phase.eq(phase ^ wrap),
                e.last_cq.eq(e.cqe_qid),
            ]
            e.find.call(m, "CQE_FOUND")

    with m.State("CQE_FOUND"):
        slot = e.slots.r
        m.d.sync += [
            e.done_opcode.eq(slot["opcode"]),
            e.done_lba.eq(slot["lba"]),
            e.done_blocks.eq(slot["blocks"]),
            e.done_prp1.eq(slot["prp1"]),
            e.cqe_age.eq(e.h.tick - slot["doorbell"]),
            e.cqe_age_known.eq(~slot["doorbell"][-1]),  # as in emit
        ]
        guess = Mux(e.cqe_guess, int(Flag.GUESS), 0)
        m.next = "CQE_APPEND"
        with m.If(e.found):
            emit.unlink(m, e)
            e.slots.write(
                m,
                e.find_slot,
                state=state.COMPLETED,
                cqe=None,
                status=e.cqe_status,
                index=e.cqe_index,
                flags=slot["flags"] | guess,
                ranges=slot["ranges"],
            )
            m.d.sync += e.cqe_slot.eq(e.find_slot)
            with m.If((e.cqe_sqid == 0) & (slot["opcode"] == tables.IDENTIFY) & (e.identifies != 0)):
                m.d.sync += e.identifies.eq(e.identifies - 1)
            with m.If(e.cqe_sqid == 0):
                m.d.sync += e.arm.eq(0)
        with m.Elif(e.slot_free & e.sq_valid.bit_select(e.cqe_sqid[: e.queue_bits], 1)):
            emit.allocate(
                m,
                e,
                state=state.COMPLETED,
                qid=e.cqe_sqid,
                index=e.cqe_index,
                flags=int(Flag.NO_SQE) | guess,
                cid=e.cqe_cid,
                cqe=None,
                status=e.cqe_status,
            )
            m.d.sync += [e.cqe_slot.eq(e.free_slot), e.found.eq(0)]
        with m.Else():
            with m.If(e.sq_valid.bit_select(e.cqe_sqid[: e.queue_bits], 1)):
                e.lost(m, spec.LossSource.SLOTS)
            with m.Else():
                m.d.comb += e.unmatched.eq(1)
            m.next = "CQE_NEXT"

    with m.State("CQE_APPEND"):
        m.d.sync += e.completed.eq(e.found)
        with m.If(e.shadow & (e.cqe_sqid != 0)):
            emit.begin(m, e, e.cqe_slot, "CQE_NEXT")
        with m.Else():
            m.d.sync += [
                e.cq.last.eq(e.cqe_slot),
                e.cq.count.eq(e.cq.count + 1),
                e.cq_filled.bit_select(e.cqe_qid, 1).eq(1),
                e.cq_waiting.bit_select(e.cqe_qid, 1).eq(1),
            ]
            with m.If(e.cq_filled == 0):
                m.d.sync += e.swept.eq(e.now[tables.SWEEP_BITS :])
            with m.If(e.cq.count == 0):
                m.d.sync += e.cq.head.eq(e.cqe_slot)
            with m.Else():
                e.link.write(m, e.cq.last, next=e.cqe_slot)
            with m.If(~e.cq_waiting.bit_select(e.cqe_qid, 1)):
                m.d.sync += e.cq.waiting.eq(e.cqe_slot)
            m.next = "CQE_NEXT"
            with m.If((e.cqe_sqid == 0) & e.found & (e.cqe_status[0:11] == 0)):
                m.next = "ADMIN_DONE"

    with m.State("CQE_NEXT"):
        m.d.sync += [
            e.cqe_start.eq(e.cqe_start + 4),
            e.cqe_left.eq(e.cqe_left - 4),
            e.cqe_index.eq(Mux(e.cqe_index + 1 == e.q_size, 0, e.cqe_index + 1)),
        ]
        m.d.comb += e.read_index.eq(e.cqe_start + 6)
        with m.If(e.cqe_left <= 4):
            save_cq(m, e, e.cqe_qid, e.cq)
            e.finish(m)
        with m.Else():
            m.next = "CQE_AGAIN"

    with m.State("CQE_AGAIN"):
        m.d.comb += e.read_index.eq(e.cqe_start + 3)
        m.d.sync += e.cqe_sqid.eq(e.word[16:32])
        m.next = "CQE_STATUS"
