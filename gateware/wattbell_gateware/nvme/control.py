"""Registers behind BAR0, configuration writes, resets and late attach."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from wattbell_spec import wire as spec

from . import emit, queues, tables
from .layouts import ConfigOp


class Registers:
    """What only the states of this file use."""

    def __init__(self) -> None:
        self.difference = Signal(65)  # address - BAR0
        self.doorbells_at = Signal(65)
        self.behind = Signal(32)  # address - that of the doorbells
        self.bar_known = Signal()
        self.stride_known = Signal()
        self.stride_told = Signal()  # the event GUESSING/STRIDE was made
        self.cap_waiting = Signal()
        self.cap_tag = Signal(10)
        self.cap_requester = Signal(16)
        self.cap_index = Signal(2)  # word of the completion with CAP.DSTRD
        self.aqa = Signal(32)
        self.asq = Signal(64)
        self.acq = Signal(64)
        self.reg_offset = Signal(12)
        self.reg_left = Signal(11)
        self.reg_read = Signal(14)
        self.reg_word = Signal(32)
        self.reset_cause = Signal(spec.ResetCause)


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers()
    e.dirty = Signal()  # something is tracked
    m.d.sync += [own.bar_known.eq(e.bar0[4:] != 0), own.doorbells_at.eq(e.bar0 + tables.DOORBELLS)]


def compare(m: Module, e) -> None:
    """In DISPATCH: where the address lies behind BAR0."""
    own = e.own[Registers]
    m.d.sync += [own.difference.eq(e.h.address - e.bar0), own.behind.eq(e.h.address - own.doorbells_at)]


def clear_step(m: Module, e) -> None:
    """Clear entry `i` of every table that has to be empty.

    Completions of reads from before are no loss: tags start as reads that fitted nothing.
    """
    m.d.comb += [e.map.clear.eq(1), e.map.put_entry.valid.eq(0)]
    e.hash_head.write(m, e.i, entry=0)
    e.write_tag(m, e.i, valid=1, kind=tables.TagKind.UNKNOWN, remaining=2047)


def begin_reset(m: Module, e, cause: spec.ResetCause, tick, back: str) -> None:
    """What follows carries `tick`."""
    own = e.own[Registers]
    m.d.sync += [own.reset_cause.eq(int(cause)), e.h.tick.eq(tick), e.i.eq(0)]
    e.reset.call(m, back)


def states(m: Module, e) -> None:
    own = e.own[Registers]
    state = tables.SlotState
    slot_bits = e.slot_bits

    # --- configuration write of BAR0. PCIe: Type 0 Configuration Space Header -------------------------------------
    with m.State("CFGWR"):
        merged = Signal(32, name="bar_merged")
        upper = e.h.address[0:12] == 0x14
        now = Mux(upper, e.bar0[32:], e.bar0[:32])
        for byte in range(4):
            bits = slice(8 * byte, 8 * byte + 8)
            m.d.comb += merged[bits].eq(Mux(e.h.first_be[byte], e.first[bits], now[bits]))
        m.d.sync += own.reg_word.eq(merged)
        with m.If((e.h.address[0:12] == 0x10) & (merged[4:] != 0) & (e.first[4:] != 0xFFFFFFF)):
            m.d.sync += e.bar0[:32].eq(merged & 0xFFFFFFF0)
            m.next = "BAR_CHANGED"
            with m.If((merged & 0xFFFFFFF0) == e.bar0[:32]):
                m.next = "DONE"
        with m.Elif(upper & (merged != now) & (e.first != 0xFFFFFFFF)):
            m.d.sync += e.bar0[32:].eq(merged)
            m.next = "BAR_CHANGED"
        with m.Else():
            m.next = "DONE"

    with m.State("BAR_CHANGED"):
        e.may_finish(m)
        with m.If(e.bar0[:32] != 0):
            e.make_event(m, spec.EventType.BAR0, arg32=e.bar0[12:44])
        e.finish(m)

    # --- read of CAP, for the doorbell stride. NVMe: CAP - Controller Capabilities --------------------------------
    with m.State("HOST_MRD"):
        e.may_finish(m)
        low = (own.difference == tables.CAP) & (e.h.length >= 2)
        high = own.difference == tables.CAP + 4
        with m.If(own.bar_known & (low | high)):
            m.d.sync += [
                own.cap_waiting.eq(1),
                own.cap_tag.eq(e.h.tag),
                own.cap_requester.eq(e.h.requester),
                own.cap_index.eq(low),
            ]
        e.finish(m)

    with m.State("DRIVE_CPLD"):
        m.d.comb += e.read_index.eq(e.h_start + own.cap_index)
        m.next = "CAP_WORD"
        with m.If(
            ~own.cap_waiting | (e.h.tag != own.cap_tag) | (e.h.requester != own.cap_requester) | (e.h.length <= own.cap_index) | ~e.h.kept
        ):
            m.next = "DONE"

    with m.State("CAP_WORD"):
        e.may_finish(m)
        m.d.sync += [e.dstrd.eq(e.word[0:4]), own.stride_known.eq(1), own.cap_waiting.eq(0)]
        e.finish(m)

    # --- writes of the host. NVMe: CC, AQA, ASQ, ACQ, SQyTDBL, CQyHDBL --------------------------------------------
    with m.State("HOST_MWR"):
        number = own.behind >> (e.dstrd + 2)
        qid = number[1 : 1 + e.queue_bits]
        aligned = (own.behind[:2] == 0) & ~Cat(own.behind[2 + bit] & (e.dstrd > bit) for bit in range(15)).any()
        m.d.comb += [e.shape.ra.eq(Cat(qid, number[0])), e.sq_state.ra.eq(qid), e.cq_state.ra.eq(qid)]
        m.d.sync += [
            own.reg_offset.eq(own.difference[:12]),
            own.reg_left.eq(e.h.length),
            own.reg_read.eq(e.h_start),
            e.doorbell_cq.eq(number[0]),
            e.doorbell_qid.eq(qid),
            e.doorbell_good.eq(aligned & (number < 2 * e.queues) & (own.difference[32:] == 0)),
        ]
        with m.If(~own.bar_known | ~e.h.kept):
            m.next = "DONE"
        with m.Elif(own.difference[12:] == 0):
            m.next = "REGISTER"
        with m.Elif(~own.stride_known & ~own.stride_told):
            m.next = "STRIDE"
        with m.Else():
            m.next = "DOORBELL"

    with m.State("STRIDE"):  # `shape`, `sq_state` and `cq_state` read on
        with m.If(e.doorbell_good):
            m.d.sync += own.stride_told.eq(1)
            e.make_event(m, spec.EventType.GUESSING, arg8=int(spec.GuessReason.STRIDE), arg16=e.doorbell_qid)
        m.next = "DOORBELL"

    with m.State("REGISTER"):
        m.d.comb += e.read_index.eq(own.reg_read + 1)
        m.d.sync += [
            own.reg_read.eq(own.reg_read + 1),
            own.reg_offset.eq(own.reg_offset + 4),
            own.reg_left.eq(own.reg_left - 1),
            own.reg_word.eq(e.word),
        ]
        m.next = "REGISTER_NEXT"
        with m.Switch(own.reg_offset):
            with m.Case(tables.AQA):
                m.d.sync += own.aqa.eq(e.word)
            with m.Case(tables.ASQ):
                m.d.sync += own.asq[:32].eq(e.word & 0xFFFFF000)
            with m.Case(tables.ASQ + 4):
                m.d.sync += own.asq[32:].eq(e.word)
            with m.Case(tables.ACQ):
                m.d.sync += own.acq[:32].eq(e.word & 0xFFFFF000)
            with m.Case(tables.ACQ + 4):
                m.d.sync += own.acq[32:].eq(e.word)
            with m.Case(tables.CC):
                m.next = "CC_WRITE"

    with m.State("REGISTER_NEXT"):
        m.next = "REGISTER"
        with m.If(own.reg_left == 0):
            m.next = "DONE"

    with m.State("CC_WRITE"):
        enable = own.reg_word[0]
        m.d.sync += e.enabled.eq(enable)
        with m.If(enable == e.enabled):
            m.next = "REGISTER_REREAD"
        with m.Else():
            e.make_event(m, spec.EventType.CC_EN, arg8=enable, arg32=own.reg_word)
            begin_reset(m, e, spec.ResetCause.CC_EN, e.h.tick, "CC_RESET_DONE")

    with m.State("CC_RESET_DONE"):
        m.next = "REGISTER_REREAD"
        with m.If(e.enabled):
            m.d.sync += e.mps.eq(Mux(own.reg_word[7:11] > 4, 4, own.reg_word[7:11]))
            queues.begin_create(m, e, "ADMIN_SQ", cq=1, qid=0, base=own.acq, size=own.aqa[16:28] + 1, link=0)

    with m.State("ADMIN_SQ"):
        queues.begin_create(m, e, "REGISTER_REREAD", cq=0, qid=0, base=own.asq, size=own.aqa[0:12] + 1, link=0)

    with m.State("REGISTER_REREAD"):  # a write may go on behind CC
        m.d.comb += e.read_index.eq(own.reg_read)
        m.next = "REGISTER_NEXT"

    # --- RESET: what is in flight goes out as aborted, every table is emptied. NVMe: Controller Level Reset -------
    with m.State("RESET"):
        m.d.comb += e.slots.ra.eq(e.i)
        m.next = "RESET_SLOT"
        with m.If(e.i == tables.ENTRIES):
            m.next = "RESET_DONE"
        with m.If((e.i == 0) & ~e.dirty):
            m.next = "RESET_DONE"

    with m.State("RESET_SLOT"):
        clear_step(m, e)
        m.d.sync += e.i.eq(e.i + 1)
        m.next = "RESET"
        with m.If((e.i < e.slot_count) & (e.slots.r["state"] != state.FREE)):
            emit.begin(
                m,
                e,
                e.i[:slot_bits],
                "RESET",
                aborted=e.slots.r["state"] != state.COMPLETED,
            )

    with m.State("RESET_DONE"):
        e.make_event(m, spec.EventType.TRACKER_RESET, arg8=own.reset_cause)
        m.d.sync += [
            e.sq_valid.eq(0),
            e.cq_valid.eq(0),
            e.cq_filled.eq(0),
            e.cq_waiting.eq(0),
            e.message_valid.eq(0),
            e.untracked.eq(0),
            e.crowded.eq(0),
            e.shadow.eq(0),
            e.arm.eq(0),
            e.identifies.eq(0),
            e.dirty.eq(0),
        ]
        with m.If(own.reset_cause == int(spec.ResetCause.PERST)):
            m.d.sync += [e.bar0.eq(0), e.enabled.eq(0), own.aqa.eq(0), own.asq.eq(0), own.acq.eq(0), own.cap_waiting.eq(0)]
        e.reset.leave_later(m)

    # --- late attach: ours ----------------------------------------------------------------------------------------
    with m.State("CONFIG"):
        c = e.cfg.payload
        m.d.comb += e.cfg.ready.eq(1)
        m.next = "IDLE"
        with m.Switch(c.op):
            with m.Case(ConfigOp.BAR0):
                m.d.sync += [e.bar0.eq(c.address & ~0xF), e.enabled.eq(1)]
                m.next = "CONFIG_BAR"
            with m.Case(ConfigOp.STRIDE):
                m.d.sync += [e.dstrd.eq(c.size), own.stride_known.eq(1)]
            with m.Case(ConfigOp.PAGE):
                m.d.sync += e.mps.eq(Mux(c.size > 4, 4, c.size))
            with m.Case(ConfigOp.SQ, ConfigOp.CQ):
                m.d.sync += e.enabled.eq(1)
                queues.begin_create(
                    m,
                    e,
                    "CONFIG_QUEUE",
                    cq=c.op == ConfigOp.CQ,
                    qid=c.qid,
                    base=c.address,
                    size=c.size,
                    link=c.link,
                    guess=1,
                )
            with m.Case(ConfigOp.SHADOW):
                m.d.sync += e.shadow.eq(c.size[0])
            with m.Case(ConfigOp.RESET):
                begin_reset(m, e, spec.ResetCause.COMMAND, e.h.tick, "IDLE")

    with m.State("CONFIG_BAR"):
        e.make_event(m, spec.EventType.BAR0, arg32=e.bar0[12:44])
        m.next = "IDLE"

    with m.State("CONFIG_QUEUE"):
        with m.If(~e.queue_is_cq):
            e.make_event(
                m,
                spec.EventType.GUESSING,
                arg8=int(spec.GuessReason.LATE_ATTACH),
                arg16=e.queue_id,
            )
        m.next = "IDLE"
