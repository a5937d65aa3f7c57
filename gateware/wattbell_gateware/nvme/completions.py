"""Completion queue entries, interrupts, CQ head doorbells: the end of a command."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from wattbell_spec import wire as spec

from . import emit, queues
from . import engine as _engine
from . import tables as op
from .layouts import Kind
from .store import Table

Flag = spec.CommandFlag
CALM_BITS = 20
"""For 2**CALM_BITS ticks after a loss of TLPs, interrupts without completions teach nothing; neither do they where
there is a queue that is not tracked."""
MESSAGES = 64
"""Entries of the table that learns which interrupt message belongs to which vector."""


def declare(m: Module, e) -> None:
    e.e_qid = Signal(e.queue_bits)  # completion queue
    e.e_index = Signal(16)
    e.e_read = Signal(14)
    e.e_left = Signal(11)
    e.e_sqid = Signal(16)
    e.e_cid = Signal(16)
    e.e_status = Signal(15)
    e.e_phase = Signal()
    e.e_slot = Signal(e.slot_bits)
    e.e_guess = Signal()
    e.e_result = Signal(32)
    e.e_age = Signal(65)  # from the doorbell to the CQE
    e.e_age_known = Signal()
    e.a_lba = Signal(40)  # of an admin command that succeeded
    e.a_blocks = Signal(32)
    e.a_prp1 = Signal(64)
    e.a_opcode = Signal(8)
    e.last_cq = Signal(e.queue_bits)
    message = data.StructLayout({"address": 10 + e.key_bits, "data": 32, "vector": 16, "trust": 4})  # address: in double words
    e.message_valid = Signal(MESSAGES)
    e.messages = Table(m, "messages", MESSAGES, {"entry": message})
    e.x_data = Signal(32)
    e.x_hash = Signal(6)
    e.x_scan = Signal(e.queues)
    e.x_lowest = Signal(e.queue_bits)
    for number in reversed(range(e.queues)):
        with m.If(e.x_scan[number]):
            m.d.comb += e.x_lowest.eq(number)
    e.x_qid = Signal(e.queue_bits)
    e.x_any = Signal()  # mark this queue whatever its vector
    e.x_learn = Signal()
    e.x_vector = Signal(16)
    e.x_known = Signal()  # the message is in the table
    e.x_fits = Signal()  # and a queue of its vector was waiting
    e.x_slot = Signal(e.slot_bits)
    e.r_left = Signal(17)
    # Told a clock after CQE_APPEND: until then nothing else uses these registers.
    m.d.sync += e.completed.eq(0)
    told = e.completion
    m.d.comb += [
        told.tick.eq(e.h.tick),
        told.latency.eq(Mux(e.e_age_known & ~e.e_age[64], e.e_age[:32] | e.e_age[32:64].any().replicate(32), 0)),
        told.lba.eq(e.a_lba),
        told.blocks.eq(e.a_blocks[:17]),
        told.opcode.eq(e.a_opcode),
        told.admin.eq(e.e_sqid == 0),
        told.error.eq(e.e_status[0:11] != 0),
    ]


def _save_cq(m: Module, e, qid, cq) -> None:
    e.cq_state.write(m, qid, entry=cq)


def states(m: Module, e) -> None:
    state = _engine.SlotState

    # --- a write in a page of CQ pe.slot --------------------------------------------------------------------------
    with m.State("CQE"):
        m.d.comb += [e.shape.ra.eq(e.queues | e.pe.slot[: e.queue_bits]), e.cq_state.ra.eq(e.pe.slot), e.read_index.eq(e.h_start + 2)]
        m.d.sync += [e.e_qid.eq(e.pe.slot), e.e_read.eq(e.h_start), e.e_left.eq(e.h.length)]
        m.next = "CQE_LOAD"

    with m.State("CQE_LOAD"):
        offset = e.h.address[4:28] - e.shape.r["base"][4:28]
        m.d.comb += e.read_index.eq(e.e_read + 3)
        m.d.sync += [
            e.cq.eq(e.cq_state.r["entry"]),
            e.q_size.eq(e.shape.r["size"]),
            e.e_index.eq(offset[:16]),
            e.e_sqid.eq(e.word[16:32]),
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
        expected = e.cq.known & (e.cq.tail == e.e_index)
        m.d.sync += [
            e.e_cid.eq(cid),
            e.e_status.eq(e.word[17:32]),
            e.e_phase.eq(phase),
            e.e_guess.eq(~expected),
            e.find_qid.eq(e.e_sqid),
            e.find_cid.eq(cid),
        ]
        with m.If((expected & (phase != e.cq.phase)) | (e.e_sqid >= e.queues)):
            m.d.comb += e.unmatched.eq(1)  # the host will not take it for a completion
            m.next = "CQE_NEXT"
        with m.Else():
            with m.If(e.cq.known & ~expected):
                e.make_event(
                    m,
                    spec.EventType.GUESSING, arg8=int(spec.GuessReason.AFTER_LOSS),
                    arg16=e.e_qid,
                )
            wrap = e.e_index + 1 == e.q_size
            m.d.sync += [
                e.cq.known.eq(1),
                e.cq.tail.eq(Mux(wrap, 0, e.e_index + 1)),
                e.cq.phase.eq(phase ^ wrap),
                e.last_cq.eq(e.e_qid),
            ]
            e.find.call(m, "CQE_FOUND")

    with m.State("CQE_FOUND"):
        slot = e.slots.r
        m.d.sync += [
            e.a_opcode.eq(slot["opcode"]),
            e.a_lba.eq(slot["lba"]),
            e.a_blocks.eq(slot["blocks"]),
            e.a_prp1.eq(slot["prp1"]),
            e.e_age.eq(e.h.tick - slot["doorbell"]),
            e.e_age_known.eq(~slot["doorbell"][-1]),  # as in emit
        ]
        guess = Mux(e.e_guess, int(Flag.GUESS), 0)
        m.next = "CQE_APPEND"
        with m.If(e.found):
            emit.unlink(m, e)
            e.slots.write(
                m,
                e.find_slot,
                state=state.COMPLETED,
                cqe=None,
                status=e.e_status,
                index=e.e_index,
                flags=slot["flags"] | guess,
                ranges=slot["ranges"],
            )
            m.d.sync += e.e_slot.eq(e.find_slot)
            with m.If((e.e_sqid == 0) & (slot["opcode"] == op.IDENTIFY) & (e.identifies != 0)):
                m.d.sync += e.identifies.eq(e.identifies - 1)
            with m.If(e.e_sqid == 0):
                m.d.sync += e.arm.eq(0)
        with m.Elif(e.slot_free & e.sq_valid.bit_select(e.e_sqid[: e.queue_bits], 1)):
            emit.allocate(
                m,
                e,
                state=state.COMPLETED,
                qid=e.e_sqid,
                index=e.e_index,
                flags=int(Flag.NO_SQE) | guess,
                cid=e.e_cid,
                cqe=None,
                status=e.e_status,
            )
            m.d.sync += [e.e_slot.eq(e.free_slot), e.found.eq(0)]
        with m.Else():
            with m.If(e.sq_valid.bit_select(e.e_sqid[: e.queue_bits], 1)):
                e.lost(m, spec.LossSource.SLOTS)
            with m.Else():
                m.d.comb += e.unmatched.eq(1)
            m.next = "CQE_NEXT"

    with m.State("CQE_APPEND"):
        m.d.sync += e.completed.eq(e.found)
        with m.If(e.shadow & (e.e_sqid != 0)):
            emit.begin(m, e, e.e_slot, "CQE_NEXT")
        with m.Else():
            m.d.sync += [
                e.cq.last.eq(e.e_slot),
                e.cq.count.eq(e.cq.count + 1),
                e.cq_filled.bit_select(e.e_qid, 1).eq(1),
                e.cq_waiting.bit_select(e.e_qid, 1).eq(1),
            ]
            with m.If(e.cq_filled == 0):
                m.d.sync += e.swept.eq(e.now[_engine.SWEEP_BITS :])
            with m.If(e.cq.count == 0):
                m.d.sync += e.cq.head.eq(e.e_slot)
            with m.Else():
                e.link.write(m, e.cq.last, next=e.e_slot)
            with m.If(~e.cq_waiting.bit_select(e.e_qid, 1)):
                m.d.sync += e.cq.waiting.eq(e.e_slot)
            m.next = "CQE_NEXT"
            with m.If((e.e_sqid == 0) & e.found & (e.e_status[0:11] == 0)):
                m.next = "ADMIN_DONE"

    with m.State("CQE_NEXT"):
        m.d.sync += [
            e.e_read.eq(e.e_read + 4),
            e.e_left.eq(e.e_left - 4),
            e.e_index.eq(Mux(e.e_index + 1 == e.q_size, 0, e.e_index + 1)),
        ]
        m.d.comb += e.read_index.eq(e.e_read + 6)
        with m.If(e.e_left <= 4):
            _save_cq(m, e, e.e_qid, e.cq)
            e.finish(m)
        with m.Else():
            m.next = "CQE_AGAIN"

    with m.State("CQE_AGAIN"):
        m.d.comb += e.read_index.eq(e.e_read + 3)
        m.d.sync += e.e_sqid.eq(e.word[16:32])
        m.next = "CQE_STATUS"

    # --- an admin command that succeeded changes what is tracked --------------------------------------------------
    with m.State("ADMIN_DONE"):
        # `cq` goes back to its table: the deletion below walks queues with it.
        _save_cq(m, e, e.e_qid, e.cq)
        m.next = "ADMIN_BACK"
        qid = e.a_lba[0:16]
        with m.Switch(e.a_opcode):
            with m.Case(op.CREATE_SQ, op.CREATE_CQ):
                queues.begin_create(
                    m,
                    e,
                    "ADMIN_BACK",
                    cq=e.a_opcode == op.CREATE_CQ,
                    qid=qid,
                    base=e.a_prp1,
                    size=e.a_lba[16:32] + 1,
                    link=e.a_blocks[16:32],
                )
            with m.Case(op.DELETE_SQ, op.DELETE_CQ):
                m.d.sync += [e.c_cq.eq(e.a_opcode == op.DELETE_CQ), e.c_qid.eq(qid), e.i.eq(0)]
                valid = Mux(e.a_opcode == op.DELETE_CQ, e.cq_valid, e.sq_valid)
                with m.If((qid != 0) & (qid < e.queues) & valid.bit_select(qid[: e.queue_bits], 1)):
                    m.next = "DELETE"
            with m.Case(op.DOORBELL_BUFFER_CONFIG):
                m.d.sync += e.shadow.eq(1)
                e.make_event(m, spec.EventType.SHADOW_DOORBELLS)
                m.d.sync += e.i.eq(0)
                m.next = "SHADOW_PAGE"
            with m.Case(op.SET_FEATURES), m.If(e.a_lba[0:8] == op.POWER_FID):
                e.make_event(m, spec.EventType.POWER_STATE, arg8=e.a_blocks[0:8])

    with m.State("ADMIN_BACK"):  # the rest of the CQE's TLP
        m.d.comb += [e.cq_state.ra.eq(e.e_qid), e.shape.ra.eq(e.queues | e.e_qid)]
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
        e.make_event(m, spec.EventType.QUEUE_DELETED, arg8=e.c_cq, arg16=e.c_qid)
        qid = e.c_qid[: e.queue_bits]
        m.d.comb += e.cq_state.ra.eq(qid)
        with m.If(e.c_cq):
            m.d.sync += [
                e.cq_valid.bit_select(qid, 1).eq(0),
                e.cq_filled.bit_select(qid, 1).eq(0),
                e.cq_waiting.bit_select(qid, 1).eq(0),
            ]
            e.unmap.call(m, "DELETE_CQ")
        with m.Else():
            m.d.sync += e.sq_valid.bit_select(qid, 1).eq(0)
            e.unmap.call(m, "DELETE_SQ")

    # What completed on a deleted CQ goes out without a CQ head doorbell.
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

    # What was in flight on a deleted SQ is aborted; what has completed still waits for its CQ head doorbell.
    with m.State("DELETE_SQ"):
        m.d.comb += e.slots.ra.eq(e.i)
        m.next = "DELETE_SQ_SLOT"
        with m.If(e.i == e.slot_count):
            m.next = "ADMIN_BACK"

    with m.State("DELETE_SQ_SLOT"):
        slot = e.slots.r
        m.d.sync += [e.i.eq(e.i + 1), e.find_qid.eq(slot["qid"]), e.find_cid.eq(slot["cid"])]
        m.next = "DELETE_SQ"
        with m.If(slot["qid"] == e.c_qid[: e.queue_bits]):
            with m.If(slot["state"] == state.IN_FLIGHT):
                e.find.call(m, "DELETE_SQ_FOUND")
            with m.If((slot["state"] == state.ANNOUNCED) | (slot["state"] == state.FETCHING)):
                emit.begin(m, e, e.i, "DELETE_SQ", aborted=1)

    with m.State("DELETE_SQ_FOUND"):
        emit.unlink(m, e)
        emit.begin(m, e, e.find_slot, "DELETE_SQ", aborted=1)

    # --- interrupts: a write of one double word into no known page ------------------------------------------------
    with m.State("INTERRUPT"):
        address, x = e.h.address, e.word
        hashed = (x[0:6] ^ x[6:12] ^ address[2:8] ^ (address[12:18] << 3) ^ address[16:22])[:6]
        m.d.comb += e.messages.ra.eq(hashed)
        m.d.sync += [e.x_data.eq(x), e.x_hash.eq(hashed), e.x_any.eq(0), e.x_learn.eq(0)]
        m.d.sync += [e.x_known.eq(0), e.x_fits.eq(0)]
        m.d.sync += [e.x_scan.eq(e.cq_waiting), e.x_slot.eq(0)]
        m.next = "INTERRUPT_KNOWN"
        with m.If(e.cq_waiting == 0):
            e.finish(m)

    with m.State("INTERRUPT_KNOWN"):
        entry = e.messages.r["entry"]
        waiting = e.cq_waiting
        m.d.sync += e.x_vector.eq(entry.vector)
        m.next = "INTERRUPT_SCAN"
        with m.If(
            e.message_valid.bit_select(e.x_hash, 1) & (entry.address == e.h.address[2 : 12 + e.key_bits]) & (entry.data == e.x_data)
        ):
            m.d.sync += e.x_known.eq(1)  # all waiting queues of this vector
        with m.Elif((waiting & (waiting - 1)) == 0):
            m.d.sync += [e.x_any.eq(1), e.x_learn.eq(1)]
        with m.Elif(waiting.bit_select(e.last_cq, 1)):
            m.d.sync += [e.x_any.eq(1), e.x_scan.eq(1 << e.last_cq)]
        with m.Else():
            m.next = "DONE"

    lowest = e.x_lowest
    with m.State("INTERRUPT_SCAN"):
        m.d.comb += [e.shape.ra.eq(e.queues | lowest), e.cq_state.ra.eq(lowest)]
        m.d.sync += [e.x_qid.eq(lowest), e.x_scan.bit_select(lowest, 1).eq(0)]
        m.next = "INTERRUPT_QUEUE"
        entry = Signal(e.messages.r["entry"].shape(), name="message_trust")
        trust = e.messages.r["entry"].trust
        calm = (~e.loss_seen | ((e.h.tick - e.loss_tick)[CALM_BITS:] != 0)) & ~e.untracked
        m.d.comb += entry.eq(e.messages.r["entry"])
        with m.If(e.x_scan == 0):
            # Trust goes up when a queue of the vector was waiting, else down: often only because the host has taken the
            # CQE already, so it takes many misses to learn a message anew.
            with m.If(e.x_known & e.x_fits & (trust != 15)):
                e.messages.write(m, e.x_hash, entry=entry)
                m.d.comb += entry.trust.eq(Mux(trust > 11, 15, trust + 4))
            with m.If(e.x_known & ~e.x_fits & (trust != 0) & calm):
                e.messages.write(m, e.x_hash, entry=entry)
                m.d.comb += entry.trust.eq(trust - 1)
            with m.If(e.x_known & ~e.x_fits & (trust == 0) & ((e.cq_waiting & (e.cq_waiting - 1)) == 0)):
                m.d.sync += [e.x_known.eq(0), e.x_any.eq(1), e.x_learn.eq(1), e.x_scan.eq(e.cq_waiting)]
                m.next = "INTERRUPT_SCAN"
            with m.Else():
                e.finish(m)

    with m.State("INTERRUPT_QUEUE"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), e.x_slot.eq(e.cq_state.r["entry"].waiting)]
        m.d.comb += e.link.ra.eq(e.cq_state.r["entry"].waiting)
        m.next = "INTERRUPT_SCAN"
        with m.If(e.x_any | (e.shape.r["link"] == e.x_vector)):
            m.d.sync += [e.cq_waiting.bit_select(e.x_qid, 1).eq(0), e.x_fits.eq(1)]
            m.next = "INTERRUPT_MARK"
        with m.If(e.x_learn):
            entry = Signal(e.messages.r["entry"].shape(), name="message")
            m.d.comb += [
                entry.address.eq(e.h.address[2 : 12 + e.key_bits]),
                entry.data.eq(e.x_data),
                entry.vector.eq(e.shape.r["link"]),
                entry.trust.eq(8),
            ]
            e.messages.write(m, e.x_hash, entry=entry)
            m.d.sync += e.message_valid.bit_select(e.x_hash, 1).eq(1)

    with m.State("INTERRUPT_MARK"):
        e.slots.write(m, e.x_slot, msix=None)
        m.d.comb += e.link.ra.eq(e.link.r["next"])
        m.d.sync += e.x_slot.eq(e.link.r["next"])
        with m.If(e.x_slot == e.cq.last):
            m.next = "INTERRUPT_SCAN"

    # --- CQ head doorbell: d_qid, d_value, `cq` is loaded ---------------------------------------------------------
    with m.State("CQ_DOORBELL"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.d.sync += e.r_left.eq(e.modulo(e.cq.tail - e.d_value[:16], e.q_size))
        with m.If((e.d_value >= e.q_size) | (e.cq.count == 0)):
            e.finish(m)
        with m.Else():
            m.next = "CQ_RELEASE"

    with m.State("CQ_RELEASE"):  # `slots` and `link` read the oldest completed command
        behind = e.modulo(e.cq.tail - e.slots.r["index"], e.q_size)
        with m.If((e.cq.count != 0) & ((behind == 0) | (behind > e.r_left))):
            m.d.sync += [e.cq.count.eq(e.cq.count - 1), e.cq.head.eq(e.link.r["next"])]
            with m.If(e.cq.waiting == e.cq.head):
                m.d.sync += e.cq.waiting.eq(e.link.r["next"])
            emit.begin(m, e, e.cq.head, "CQ_RELEASE_NEXT", head=1)
        with m.Else():
            with m.If(e.cq.count == 0):
                m.d.sync += [
                    e.cq_filled.bit_select(e.d_qid, 1).eq(0),
                    e.cq_waiting.bit_select(e.d_qid, 1).eq(0),
                ]
            _save_cq(m, e, e.d_qid, e.cq)
            m.next = "DONE"

    with m.State("CQ_RELEASE_NEXT"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.next = "CQ_RELEASE"

    # --- sweep: completed commands whose doorbell does not come ---------------------------------------------------
    with m.State("SWEEP"):
        m.d.comb += e.cq_state.ra.eq(e.i)
        m.d.sync += e.d_qid.eq(e.i)
        m.next = "SWEEP_LOAD"
        with m.If(e.i == e.queues):
            m.d.sync += e.swept.eq(e.now[_engine.SWEEP_BITS :])
            m.next = "IDLE"

    with m.State("SWEEP_LOAD"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), e.i.eq(e.i + 1)]
        m.next = "SWEEP"
        with m.If(e.cq_filled.bit_select(e.d_qid, 1)):
            m.next = "SWEEP_NEXT"

    with m.State("SWEEP_NEXT"):
        m.d.comb += [e.slots.ra.eq(e.cq.head), e.link.ra.eq(e.cq.head)]
        m.next = "SWEEP_ENTRY"

    with m.State("SWEEP_ENTRY"):
        with m.If((e.cq.count != 0) & (e.now >= e.slots.r["cqe"] + _engine.SWEEP_AGE)):
            m.d.sync += [e.cq.count.eq(e.cq.count - 1), e.cq.head.eq(e.link.r["next"])]
            with m.If(e.cq.waiting == e.cq.head):
                m.d.sync += e.cq.waiting.eq(e.link.r["next"])
            emit.begin(m, e, e.cq.head, "SWEEP_NEXT")
        with m.Else():
            with m.If(e.cq.count == 0):
                m.d.sync += [
                    e.cq_filled.bit_select(e.d_qid, 1).eq(0),
                    e.cq_waiting.bit_select(e.d_qid, 1).eq(0),
                ]
            _save_cq(m, e, e.d_qid, e.cq)
            m.next = "SWEEP"

