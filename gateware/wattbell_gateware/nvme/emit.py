"""Command records, slots, and the search for a command by queue and CID."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from wattbell_spec import wire as spec

from ..layouts import COMMAND
from . import tables

Flag = spec.CommandFlag


def declare(m: Module, e) -> None:
    e.emit_slot = Signal(e.slot_bits)
    e.emit_aborted = Signal()
    e.emit_reused = Signal()
    e.emit_head = Signal()  # the TLP is the CQ head doorbell
    e.record_reg = Signal(COMMAND)
    e.find_qid = Signal(e.queue_bits)
    e.find_cid = Signal(16)
    e.find_slot = Signal(e.slot_bits)
    e.find_previous = Signal(e.slot_bits)
    e.find_has_previous = Signal()
    e.found = Signal()
    m.d.comb += e.record.payload.eq(e.record_reg)


def allocate(m: Module, e, *, state, qid, index, flags, **fields) -> None:
    """Take `free_slot` for a command (only if `slot_free`). A tick is that of the TLP (None), or not known."""
    unknown = tables.UNKNOWN
    values = {
        "state": state,
        "generation": e.serial,
        "epoch": e.epoch,
        "qid": qid,
        "index": index,
        "flags": flags,
        "doorbell": unknown,
        "fetch": unknown,
        "first_data": unknown,
        "last_data": unknown,
        "cqe": unknown,
        "msix": unknown,
        "opcode": 0,
        "cid": 0,
        "status": 0,
        "nsid": 0,
        "lba": 0,
        "blocks": 0,
        "prp1": 0,
        "ranges": 0,
        "ranges_expected": 0,
        "pages_sure": 0,
    }
    e.slots.write(m, e.free_slot, **(values | fields))
    m.d.comb += e.free_slots.r_en.eq(1)
    m.d.sync += e.serial.eq(e.serial + 1)


def release(m: Module, e, slot) -> None:
    """Give a slot back."""
    e.slots.write(m, slot, state=tables.SlotState.FREE)
    m.d.comb += [e.free_slots.w_en.eq(1), e.free_slots.w_data.eq(slot)]


def begin(m: Module, e, slot, back: str, *, aborted=0, reused=0, head=0) -> None:
    """Make the record of `slot`, release the slot, go on at `back`. `slots` and `link` must not be read meanwhile.

    `aborted`: at the tick in ``h``; `head`: that is its CQ head doorbell's.
    """
    m.d.comb += e.slots.ra.eq(slot)
    m.d.sync += [
        e.emit_slot.eq(slot),
        e.emit_aborted.eq(aborted),
        e.emit_reused.eq(reused),
        e.emit_head.eq(head),
    ]
    e.emit.call(m, back)


def _age(m: Module, later: Value, earlier: Value, known: Value, bits: int, name: str) -> Value:
    """later - earlier, or the codes for unknown (also when `earlier` is not earlier) and saturated; a clock later."""
    unknown = (1 << bits) - 1
    difference = Signal(65, name=f"age_{name}")
    is_known = Signal(name=f"age_{name}_known")
    m.d.sync += [difference.eq(later - earlier), is_known.eq(known)]
    return Mux(
        is_known & ~difference[64],
        Mux((difference[bits:64] != 0) | (difference[1:bits] == (unknown >> 1)), Const(unknown - 1, bits), difference[:bits]),
        Const(unknown, bits),
    )


def _known(tick: Value) -> Value:
    """Of a tick in the slot table: UNKNOWN is all ones, and no tick comes to 2**63 (292 years)."""
    return ~tick[-1]


def states(m: Module, e) -> None:
    state = tables.SlotState

    # --- EMIT: the record of a command: ours ----------------------------------------------------------------------
    with m.State("EMIT"):
        slot, record = e.slots.r, e.record_reg
        cqe = Signal(64, name="em_cqe")
        m.d.comb += cqe.eq(Mux(e.emit_aborted, e.h.tick, slot["cqe"]))
        no_sqe = (slot["state"] == state.ANNOUNCED) | (slot["state"] == state.FETCHING)
        io = slot["qid"] != 0
        missing_ranges = io & (slot["opcode"] == tables.DSM) & (slot["ranges"] != slot["ranges_expected"])
        m.d.sync += [
            record.cqe_tick.eq(cqe),
            record.opcode.eq(slot["opcode"]),
            record.qid.eq(slot["qid"]),
            record.cid.eq(slot["cid"]),
            record.status.eq(slot["status"]),
            record.nsid.eq(slot["nsid"]),
            record.blocks.eq(slot["blocks"]),
            record.slba.eq(slot["lba"]),
            record.flags.eq(
                slot["flags"]
                | Mux(e.emit_aborted, int(Flag.ABORTED), 0)
                | Mux(e.emit_reused, int(Flag.CID_REUSED), 0)
                | Mux(no_sqe, int(Flag.NO_SQE), 0)
                | Mux(missing_ranges, int(Flag.NO_RANGES), 0)
                | Mux(slot["epoch"] != e.epoch, int(Flag.LOSS), 0)
            ),
        ]
        ages = {}
        for name, field in (
            ("doorbell", "doorbell_before"),
            ("fetch", "fetch_before"),
            ("first_data", "first_data_before"),
            ("last_data", "last_data_before"),
        ):
            ages[field] = _age(m, cqe, slot[name], _known(slot[name]), 32, name)
        msix_known = ~e.emit_aborted & _known(slot["msix"])
        ages["msix_after"] = _age(m, slot["msix"], cqe, msix_known, 24, "msix")
        ages["cq_head_after"] = _age(m, e.h.tick, cqe, e.emit_head, 24, "cq_head")
        m.next = "EMIT_PUSH"

    with m.State("EMIT_PUSH"):
        m.d.comb += e.record.valid.eq(1)
        m.d.comb += [e.record.payload[field].eq(age) for field, age in ages.items()]
        release(m, e, e.emit_slot)
        e.emit.leave(m)

    # --- FIND: the command (find_qid, find_cid) in flight. NVMe: Command Identifier (CID) -------------------------
    # Sets `found`, `find_slot`, `find_previous`; leaves `slots` and
    # `hash_next` reading the slot found.
    with m.State("FIND"):
        m.d.comb += e.hash_head.ra.eq(e.hash(e.find_qid, e.find_cid))
        m.d.sync += [e.find_has_previous.eq(0), e.found.eq(0)]
        m.next = "FIND_HEAD"

    with m.State("FIND_HEAD"):
        entry = e.hash_head.r["entry"]
        m.d.comb += [e.slots.ra.eq(entry.slot), e.hash_next.ra.eq(entry.slot)]
        m.d.sync += e.find_slot.eq(entry.slot)
        with m.If(entry.valid):
            m.next = "FIND_WALK"
        with m.Else():
            e.find.leave(m)

    with m.State("FIND_WALK"):
        entry = e.hash_next.r["entry"]
        with m.If((e.slots.r["qid"] == e.find_qid) & (e.slots.r["cid"] == e.find_cid)):
            m.d.sync += e.found.eq(1)
            e.find.leave(m)
        with m.Elif(entry.valid):
            m.d.comb += [e.slots.ra.eq(entry.slot), e.hash_next.ra.eq(entry.slot)]
            m.d.sync += [
                e.find_previous.eq(e.find_slot),
                e.find_has_previous.eq(1),
                e.find_slot.eq(entry.slot),
            ]
        with m.Else():
            e.find.leave(m)


def unlink(m: Module, e) -> None:
    """Take the slot just found out of its hash chain (one clock, while `hash_next` still reads it)."""
    rest = e.hash_next.r["entry"]
    with m.If(e.find_has_previous):
        e.hash_next.write(m, e.find_previous, entry=rest)
    with m.Else():
        e.hash_head.write(m, e.hash(e.find_qid, e.find_cid), entry=rest)
