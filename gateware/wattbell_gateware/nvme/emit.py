"""Command records, slots, and the search for a command by queue and CID."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from wattbell_spec import wire as spec

from ..layouts import COMMAND
from . import tables

Flag = spec.CommandFlag


class Registers:
    """What only the states of this file use."""

    def __init__(self, e) -> None:
        self.emit_slot = Signal(e.slot_bits)
        self.emit_aborted = Signal()
        self.emit_reused = Signal()
        self.emit_head = Signal()  # the TLP is the CQ head doorbell
        self.record_reg = Signal(COMMAND)
        self.find_chain = Signal(e.CHAIN)  # behind `find_slot`
        self.find_previous = Signal(e.slot_bits)
        self.find_has_previous = Signal()


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers(e)
    e.find_qid = Signal(e.queue_bits)
    e.find_cid = Signal(16)
    e.find_slot = Signal(e.slot_bits)
    e.found = Signal()
    m.d.comb += e.record.payload.eq(own.record_reg)
    ages = e.own[_Ages] = _Ages(m, e)
    m.d.comb += [e.record.payload[field].eq(age) for field, age in ages.values.items()]


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


def prepare(m: Module, e, slot, *, aborted=0, reused=0, head=0) -> None:
    """What :func:`load` and :func:`push` need to be told. `aborted`: at the tick in ``h``; `head`: that is its CQ head doorbell's."""
    own = e.own[Registers]
    m.d.sync += [own.emit_slot.eq(slot), own.emit_aborted.eq(aborted), own.emit_reused.eq(reused), own.emit_head.eq(head)]


def begin(m: Module, e, slot, back: str, *, aborted=0, reused=0, head=0) -> None:
    """Make the record of `slot`, release the slot, go on at `back`. `slots` and `link` must not be read meanwhile."""
    m.d.comb += e.slots.ra.eq(slot)
    prepare(m, e, slot, aborted=aborted, reused=reused, head=head)
    e.emit.call(m, back)


class _Ages:
    """later - earlier for each age in a record, in two clocks, or the codes for unknown (and where `earlier` is not) and saturated."""

    def __init__(self, m: Module, e) -> None:
        own, slot = e.own[Registers], e.slots.r
        cqe, cqe_upper, now_upper = Signal(64, name="em_cqe"), Signal(32, name="em_cqe_upper"), Signal(32, name="em_now_upper")
        self.cqe, self.first, self.values = cqe, [cqe_upper.eq(cqe[32:]), now_upper.eq(e.h.tick[32:])], {}
        m.d.comb += cqe.eq(Mux(own.emit_aborted, e.h.tick, slot["cqe"]))
        for name, field in (
            ("doorbell", "doorbell_before"),
            ("fetch", "fetch_before"),
            ("first_data", "first_data_before"),
            ("last_data", "last_data_before"),
        ):
            upper = Signal(32, name=f"em_{name}_upper")
            self.first.append(upper.eq(slot[name][32:]))
            self._age(m, field, cqe, cqe_upper, slot[name], upper, tables.known(slot[name]), 32)
        msix_upper = Signal(32, name="em_msix_upper")
        self.first.append(msix_upper.eq(slot["msix"][32:]))
        msix_known = ~own.emit_aborted & tables.known(slot["msix"])
        self._age(m, "msix_after", slot["msix"], msix_upper, cqe, cqe_upper, msix_known, 24)
        self._age(m, "cq_head_after", e.h.tick, now_upper, cqe, cqe_upper, own.emit_head, 24)

    def _age(self, m: Module, field: str, later, later_upper, earlier, earlier_upper, known, bits: int) -> None:
        unknown = (1 << bits) - 1
        lower, is_known = Signal(33, name=f"age_{field}"), Signal(name=f"age_{field}_known")
        self.first += [lower.eq(later[:32] - earlier[:32]), is_known.eq(known)]
        upper = Signal(33, name=f"age_{field}_upper")
        m.d.comb += upper.eq(later_upper - earlier_upper - lower[32])
        saturated = (upper[:32] != 0) | (lower[bits:32] != 0) | (lower[1:bits] == (unknown >> 1))
        self.values[field] = Mux(is_known & ~upper[32], Mux(saturated, Const(unknown - 1, bits), lower[:bits]), Const(unknown, bits))


def load(m: Module, e) -> None:
    """In the present state: `slots` reads the command whose record is made; ``emit_aborted``, ``_reused`` and ``_head`` stand."""
    own, slot, record, state = e.own[Registers], e.slots.r, e.own[Registers].record_reg, tables.SlotState
    no_sqe = (slot["state"] == state.ANNOUNCED) | (slot["state"] == state.FETCHING)
    io = slot["qid"] != 0
    missing_ranges = io & (slot["opcode"] == tables.DSM) & (slot["ranges"] != slot["ranges_expected"])
    m.d.sync += [
        *e.own[_Ages].first,
        record.cqe_tick.eq(e.own[_Ages].cqe),
        record.opcode.eq(slot["opcode"]),
        record.qid.eq(slot["qid"]),
        record.cid.eq(slot["cid"]),
        record.status.eq(slot["status"]),
        record.nsid.eq(slot["nsid"]),
        record.blocks.eq(slot["blocks"]),
        record.slba.eq(slot["lba"]),
        record.flags.eq(
            slot["flags"]
            | Mux(own.emit_aborted, int(Flag.ABORTED), 0)
            | Mux(own.emit_reused, int(Flag.CID_REUSED), 0)
            | Mux(no_sqe, int(Flag.NO_SQE), 0)
            | Mux(missing_ranges, int(Flag.NO_RANGES), 0)
            | Mux(slot["epoch"] != e.epoch, int(Flag.LOSS), 0)
        ),
    ]


def push(m: Module, e, slot) -> None:
    """In a later state, with the same TLP: the record goes, and `slot` back."""
    m.d.comb += e.record.valid.eq(e.wanted)
    release(m, e, slot)


def states(m: Module, e) -> None:
    own = e.own[Registers]

    # --- EMIT: the record of a command: ours ----------------------------------------------------------------------
    with m.State("EMIT"):
        load(m, e)
        m.next = "EMIT_PUSH"

    with m.State("EMIT_PUSH"):
        push(m, e, own.emit_slot)
        e.emit.leave(m)

    # --- FIND: the command (find_qid, find_cid) in flight. NVMe: Command Identifier (CID) -------------------------
    # Sets `found`, `find_slot`, `find_previous`; leaves `slots` and `hash_next` reading the slot found. Who calls it goes to FIND_ON if
    # it `searches` still: it then comes back once more.
    with m.State("FIND"):
        look_for(m, e)
        m.next = "FIND_HEAD"

    with m.State("FIND_HEAD"):
        begin_find(m, e)
        m.next = "FIND_WALK"
        with m.If(~e.hash_head.r["entry"].valid):
            e.find.leave(m)

    with m.State("FIND_WALK"):
        m.d.sync += [
            e.found.eq((e.slots.r["qid"] == e.find_qid) & (e.slots.r["cid"] == e.find_cid)), own.find_chain.eq(e.hash_next.r["entry"]),
        ]  # fmt: skip
        e.find.leave(m)

    with m.State("FIND_ON"):
        m.d.comb += [e.slots.ra.eq(own.find_chain.slot), e.hash_next.ra.eq(own.find_chain.slot)]
        m.d.sync += [own.find_previous.eq(e.find_slot), own.find_has_previous.eq(1), e.find_slot.eq(own.find_chain.slot)]
        m.next = "FIND_WALK"


def look_for(m: Module, e) -> None:
    """In the present state: look up where the chain of (find_qid, find_cid) begins."""
    m.d.comb += e.hash_head.ra.eq(e.hash(e.find_qid, e.find_cid))


def begin_find(m: Module, e) -> None:
    """In the present state, the first after :func:`look_for`: read the first of the chain, if there is one (FIND_WALK looks at it)."""
    own, entry = e.own[Registers], e.hash_head.r["entry"]
    m.d.comb += [e.slots.ra.eq(entry.slot), e.hash_next.ra.eq(entry.slot)]
    m.d.sync += [own.find_has_previous.eq(0), e.found.eq(0), own.find_chain.valid.eq(0), e.find_slot.eq(entry.slot)]


def find(m: Module, e, back: str) -> None:
    """FIND, a clock after :func:`look_for`; goes on at `back`."""
    begin_find(m, e)
    e.find.call(m, back, entry="FIND_WALK")
    with m.If(~e.hash_head.r["entry"].valid):
        m.next = back


def searches(e) -> Value:
    """Back from FIND: the slot it looked at is not the one, and there are more."""
    return ~e.found & e.own[Registers].find_chain.valid


def unlink(m: Module, e) -> None:
    """Take the slot just found out of its hash chain (one clock, while `hash_next` still reads it)."""
    own = e.own[Registers]
    rest = e.hash_next.r["entry"]
    with m.If(own.find_has_previous):
        e.hash_next.write(m, own.find_previous, entry=rest)
    with m.Else():
        e.hash_head.write(m, e.hash(e.find_qid, e.find_cid), entry=rest)
