"""Command records. Making one gives its slot back."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from wattbell_spec import wire as spec

from ..layouts import COMMAND
from . import tables
from .present import Present
from .report import Report
from .settings import Settings
from .slots import Slots
from .store import Subroutine

__all__ = ["Records"]

Flag = spec.CommandFlag


class Records:
    """Makes a record from a slot: :meth:`begin` as a subroutine.

    Callers without a clock to spare use :meth:`prepare`, :meth:`load` and :meth:`push` in states of their own.
    """

    def __init__(self, *, tlp: Present, report: Report, slots: Slots, settings: Settings, port: stream.Interface) -> None:
        self.tlp, self.report, self.slots, self._settings, self._port = tlp, report, slots, settings, port
        self._slot = Signal(slots.bits)
        self._aborted = Signal()
        self._reused = Signal()
        self._head = Signal()  # the TLP is the CQ head doorbell
        self._record = Signal(COMMAND)
        self._ousted = Signal()  # the command counts in ``slots.ousted``
        self._subroutine = Subroutine("EMIT")

    def connect(self, m: Module) -> None:
        m.d.comb += self._port.payload.eq(self._record)
        self._ages = _Ages(m, self.slots, self.tlp.header.tick, aborted=self._aborted, head=self._head)
        m.d.comb += [self._port.payload[field].eq(age) for field, age in self._ages.values.items()]

    def prepare(self, m: Module, slot: Value, *, aborted=0, reused=0, head=0) -> None:
        """Set the inputs of :meth:`load` and :meth:`push`. `aborted`: at the TLP's tick. `head`: that tick is its CQ head doorbell's."""
        m.d.sync += [self._slot.eq(slot), self._aborted.eq(aborted), self._reused.eq(reused), self._head.eq(head)]

    def begin(self, m: Module, slot: Value, back: str, *, aborted=0, reused=0, head=0) -> None:
        """Make the record of `slot`, release the slot, go on at `back`. ``slots`` and its ``link`` must not be read meanwhile."""
        m.d.comb += self.slots.ra.eq(slot)
        self.prepare(m, slot, aborted=aborted, reused=reused, head=head)
        self._subroutine.call(m, back)

    def load(self, m: Module) -> None:
        """Load the command's fields in the present state, in which ``slots`` reads it; :meth:`prepare` came before."""
        slot, record, state = self.slots.r, self._record, tables.SlotState
        no_sqe = (slot["state"] == state.ANNOUNCED) | (slot["state"] == state.FETCHING)
        io = slot["qid"] != 0
        # A command that failed or was aborted may move less than is due.
        left, failed = slot["left"], self._aborted | (slot["status"][0:11] != 0)
        unseen = ~left.checked & (slot["pages_sure"] != 0) & ~tables.known(slot["first_data"]) & ~failed
        # Where no number shows the data of another command, a shared page is enough.
        unseen |= slot["shared"] & (failed | ~left.checked)
        # Data in another address space belongs to nothing here. NVMe: Opcode, bits 1:0 (Data Transfer Direction)
        unseen |= self._settings.translated & (slot["opcode"][0:2] != 0) & (failed | ~left.checked | slot["shared"])
        # The drive may have meant to read its SQE again.
        again = self._aborted & self._settings.reads_ahead & (slot["state"] == state.IN_FLIGHT)
        missing_ranges = io & (slot["opcode"] == tables.DSM) & (slot["ranges"] != slot["ranges_expected"])
        flags = (
            slot["flags"]
            | Mux(self._aborted, int(Flag.ABORTED), 0)
            | Mux(again | self._settings.spaces, int(Flag.GUESS), 0)
            | Mux(self._reused, int(Flag.CID_REUSED), 0)
            | Mux(no_sqe, int(Flag.NO_SQE), 0)
            | Mux(missing_ranges, int(Flag.NO_RANGES), 0)
            | Mux((left.checked & ((left.dws < 0) | ((left.dws != 0) & ~failed))) | unseen, int(Flag.DATA_PARTIAL), 0)
            | Mux(slot["epoch"] != self.report.epoch, int(Flag.LOSS), 0)
        )
        facts = {**slot, "cqe_tick": self._ages.cqe, "length_checked": left.checked, "slba": slot["lba"], "flags": flags}
        # Without a CQ head doorbell, nobody knows whether the drive still sends the interrupt.
        facts["interrupt_guessed"] = slot["guessed"] | (slot["untold"] & ~self._head)
        m.d.sync += self._ousted.eq(slot["ousted"] & (slot["epoch"] == self.report.epoch))
        m.d.sync += [*self._ages.first, *(record[name].eq(facts[name]) for name in COMMAND.members if name in facts)]

    def push(self, m: Module, slot: Value) -> None:
        """Send the record and give `slot` back, in a later state with the same TLP."""
        m.d.comb += self._port.valid.eq(self.report.wanted)
        self.slots.release(m, slot)
        with m.If(self._ousted):
            m.d.sync += self.slots.ousted.eq(self.slots.ousted - 1)

    def states(self, m: Module) -> None:
        # --- EMIT: the record of a command: ours ------------------------------------------------------------------
        with m.State("EMIT"):
            self.load(m)
            m.next = "EMIT_PUSH"

        with m.State("EMIT_PUSH"):
            self.push(m, self._slot)
            self._subroutine.leave(m)


class _Ages:
    """later - earlier for each age in a record, in two clocks, or the codes for unknown (and where `earlier` is not) and saturated."""

    def __init__(self, m: Module, slots: Slots, now: Value, *, aborted: Signal, head: Signal) -> None:
        slot = slots.r
        cqe, cqe_upper, now_upper = Signal(64, name="em_cqe"), Signal(32, name="em_cqe_upper"), Signal(32, name="em_now_upper")
        self.cqe, self.first = cqe, [cqe_upper.eq(cqe[32:]), now_upper.eq(now[32:])]
        self.values: dict[str, Value] = {}
        m.d.comb += cqe.eq(Mux(aborted, now, slot["cqe"]))
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
        msix_known = ~aborted & tables.known(slot["msix"])
        self._age(m, "msix_after", slot["msix"], msix_upper, cqe, cqe_upper, msix_known, 24)
        self._age(m, "cq_head_after", now, now_upper, cqe, cqe_upper, head, 24)

    def _age(self, m: Module, field: str, later, later_upper, earlier, earlier_upper, known, bits: int) -> None:
        unknown = (1 << bits) - 1
        lower, is_known = Signal(33, name=f"age_{field}"), Signal(name=f"age_{field}_known")
        self.first += [lower.eq(later[:32] - earlier[:32]), is_known.eq(known)]
        upper = Signal(33, name=f"age_{field}_upper")
        m.d.comb += upper.eq(later_upper - earlier_upper - lower[32])
        saturated = (upper[:32] != 0) | (lower[bits:32] != 0) | (lower[1:bits] == (unknown >> 1))
        self.values[field] = Mux(is_known & ~upper[32], Mux(saturated, Const(unknown - 1, bits), lower[:bits]), Const(unknown, bits))
