"""Completion queue entries: the end of a command (NVMe: Completion Queue Entry)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit, tables

Flag = spec.CommandFlag


class Registers:
    """What only the states of this file use."""

    def __init__(self, e) -> None:
        self.cqe_start = Signal(14)
        self.cqe_left = Signal(11)
        self.cqe_index = Signal(24)
        self.cqe_sqid = Signal(16)
        self.cqe_cid = Signal(16)
        self.cqe_status = Signal(15)
        self.cqe_phase = Signal()
        self.cqe_slot = Signal(e.slot_bits)
        self.cqe_guess = Signal()
        self.cqe_age = Signal(65)  # from the doorbell to the CQE
        self.cqe_age_known = Signal()


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers(e)
    e.cqe_qid = Signal(e.queue_bits)  # completion queue
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
        told.latency.eq(Mux(own.cqe_age_known & ~own.cqe_age[64], own.cqe_age[:32] | own.cqe_age[32:64].any().replicate(32), 0)),
        told.lba.eq(e.done_lba),
        told.blocks.eq(e.done_blocks[:17]),
        told.opcode.eq(e.done_opcode),
        told.admin.eq(own.cqe_sqid == 0),
        told.error.eq(own.cqe_status[0:11] != 0),
    ]


def save_cq(m: Module, e, qid, cq) -> None:
    """In the present state: the entry of CQ `qid` becomes `cq`."""
    e.cq_state.write(m, qid, entry=cq)


def take_queue(m: Module, e) -> None:
    """`word` is double word 2 of a CQE, should it be one."""
    own = e.own[Registers]
    m.d.sync += [own.cqe_sqid.eq(e.word[16:32]), e.find_qid.eq(e.word[16:32])]


def take_status(m: Module, e) -> None:
    """`word` is double word 3."""
    own = e.own[Registers]
    m.d.sync += [
        own.cqe_cid.eq(e.word[0:16]), own.cqe_phase.eq(e.word[16]), own.cqe_status.eq(e.word[17:32]), e.find_cid.eq(e.word[0:16]),
    ]  # fmt: skip


def states(m: Module, e) -> None:
    own = e.own[Registers]
    state = tables.SlotState

    # --- a write in a page of CQ pe.slot. NVMe: Completion Queue Entry (Phase Tag, Status Field) ------------------
    with m.State("CQE"):  # `cq_state` and `shape` read their entries; double words 2 and 3 are known
        emit.look_for(m, e)
        m.d.sync += [
            e.cq.eq(e.cq_state.r["entry"]),
            e.q_size.eq(e.shape.r["size"]),
            own.cqe_index.eq(e.h.address[4:28] - e.shape.r["base"][4:28]),
            own.cqe_start.eq(e.h_start),
            own.cqe_left.eq(e.h.length),
        ]
        m.next = "CQE_STATUS"

    with m.State("CQE_STATUS"):
        phase = own.cqe_phase
        expected = e.cq.known & (e.cq.tail == own.cqe_index)
        m.d.sync += own.cqe_guess.eq(~expected)
        with m.If(
            ~e.h.kept
            | (e.h.address[2:4] != 0)
            | (e.h.length[0:2] != 0)
            | (own.cqe_index >= e.q_size)
            | ~e.cq_valid.bit_select(e.cqe_qid, 1)
        ):
            m.d.comb += e.unmatched.eq(1)
            m.next = "DONE"
        with m.Elif((expected & (phase != e.cq.phase)) | (own.cqe_sqid >= e.queues)):
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
            wrap = own.cqe_index + 1 == e.q_size
            m.d.sync += [
                e.cq.known.eq(1),
                e.cq.tail.eq(Mux(wrap, 0, own.cqe_index[:16] + 1)),
                e.cq.phase.eq(phase ^ wrap),
                e.last_cq.eq(e.cqe_qid),
            ]
            emit.find(m, e, "CQE_FOUND")

    with m.State("CQE_FOUND"):
        slot = e.slots.r
        m.d.sync += [
            e.done_opcode.eq(slot["opcode"]),
            e.done_lba.eq(slot["lba"]),
            e.done_blocks.eq(slot["blocks"]),
            e.done_prp1.eq(slot["prp1"]),
            own.cqe_age.eq(e.h.tick - slot["doorbell"]),
            own.cqe_age_known.eq(tables.known(slot["doorbell"])),  # as in emit
        ]
        guess = Mux(own.cqe_guess, int(Flag.GUESS), 0)
        m.next = "CQE_APPEND"
        with m.If(emit.searches(e)):
            m.next = "FIND_ON"
        with m.Elif(e.found):
            emit.unlink(m, e)
            e.slots.write(
                m,
                e.find_slot,
                state=state.COMPLETED,
                cqe=None,
                status=own.cqe_status,
                index=own.cqe_index[:16],
                flags=slot["flags"] | guess,
                ranges=slot["ranges"],
            )
            m.d.sync += own.cqe_slot.eq(e.find_slot)
            with m.If((own.cqe_sqid == 0) & (slot["opcode"] == tables.IDENTIFY) & (e.identifies != 0)):
                m.d.sync += e.identifies.eq(e.identifies - 1)
            with m.If(own.cqe_sqid == 0):
                m.d.sync += e.arm.eq(0)
        with m.Elif(e.slot_free & e.sq_valid.bit_select(own.cqe_sqid[: e.queue_bits], 1)):
            emit.allocate(
                m,
                e,
                state=state.COMPLETED,
                qid=own.cqe_sqid,
                index=own.cqe_index[:16],
                flags=int(Flag.NO_SQE) | guess,
                cid=own.cqe_cid,
                cqe=None,
                status=own.cqe_status,
            )
            m.d.sync += [own.cqe_slot.eq(e.free_slot), e.found.eq(0)]
        with m.Else():
            with m.If(e.sq_valid.bit_select(own.cqe_sqid[: e.queue_bits], 1)):
                e.lost(m, spec.LossSource.SLOTS)
            with m.Else():
                m.d.comb += e.unmatched.eq(1)
            m.next = "CQE_NEXT"

    with m.State("CQE_APPEND"):
        e.may_finish(m)
        m.d.sync += e.completed.eq(e.found)
        with m.If(e.shadow & (own.cqe_sqid != 0)):
            emit.begin(m, e, own.cqe_slot, "CQE_NEXT")
        with m.Else():
            longer = Signal(e.CQ)
            m.d.comb += [longer.eq(e.cq), longer.last.eq(own.cqe_slot), longer.count.eq(e.cq.count + 1)]
            m.d.sync += [
                e.cq.eq(longer),
                e.cq_filled.bit_select(e.cqe_qid, 1).eq(1),
                e.cq_waiting.bit_select(e.cqe_qid, 1).eq(1),
                e.filled.eq(1),
            ]
            with m.If(~e.filled):
                m.d.sync += e.swept.eq(e.h.tick[tables.SWEEP_BITS :])
            with m.If(e.cq.count == 0):
                m.d.comb += longer.head.eq(own.cqe_slot)
            with m.Else():
                e.link.write(m, e.cq.last, next=own.cqe_slot)
            with m.If(~e.cq_waiting.bit_select(e.cqe_qid, 1)):
                m.d.comb += longer.waiting.eq(own.cqe_slot)
            with m.If((own.cqe_sqid == 0) & e.found & (own.cqe_status[0:11] == 0)):
                m.next = "ADMIN_DONE"
            with m.Elif(own.cqe_left > 4):
                m.next = "CQE_NEXT"
            with m.Else():
                save_cq(m, e, e.cqe_qid, longer)
                with m.If(e.filled):
                    e.finish(m)
                with m.Else():  # when sweeps are due is known anew
                    e.finish_apart(m)

    with m.State("CQE_NEXT"):
        e.may_finish(m)
        m.d.sync += [
            own.cqe_start.eq(own.cqe_start + 4),
            own.cqe_left.eq(own.cqe_left - 4),
            own.cqe_index.eq(Mux(own.cqe_index + 1 == e.q_size, 0, own.cqe_index + 1)),
        ]
        with m.If(own.cqe_left <= 4):
            save_cq(m, e, e.cqe_qid, e.cq)
            e.finish(m)
        with m.Else():
            m.next = "CQE_AGAIN"

    with m.State("CQE_AGAIN"):
        m.d.comb += e.read_index.eq(own.cqe_start + 2)
        m.next = "CQE_SQ"

    with m.State("CQE_SQ"):
        m.d.comb += e.read_index.eq(own.cqe_start + 3)
        take_queue(m, e)
        m.next = "CQE_WORD"

    with m.State("CQE_WORD"):
        take_status(m, e)
        m.next = "CQE_HASH"

    with m.State("CQE_HASH"):
        emit.look_for(m, e)
        m.next = "CQE_STATUS"
