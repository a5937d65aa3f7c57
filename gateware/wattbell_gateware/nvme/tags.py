"""Tags of the drive's reads: their purposes, by which completions are known."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data

from . import tables
from .slots import Slots
from .store import FieldTable, Subroutine

__all__ = ["Tags"]


class Tags(FieldTable):
    """The table of tags: ``r["entry"]``, of the next TLP's tag in the clock after it was taken.

    present : that entry, from a clock later on. States change it step by step, and :meth:`put` it back.
    """

    def __init__(self, m: Module, count: int, *, slots: Slots, queue_bits: int, tag: Value) -> None:
        """Create the table. `tag`: the TLP's."""
        self.layout = data.StructLayout(
            {
                "valid": 1,
                "kind": tables.TagKind,
                "slot": unsigned(slots.bits),
                "generation": 16,
                "qid": unsigned(queue_bits),
                "index": 16,  # of the next SQE in its queue; of the next 8 bytes of a list
                "place": 13,  # in its page, of the next 8 bytes of a list
                "left": 11,  # slots that still wait for their SQE
                "remaining": 11,  # double words still to come
            }
        )
        # The next header's tag may be that whose entry is written in the clock in which it is accepted.
        super().__init__(m, "tags", count, {"entry": self.layout}, transparent=True)
        self.slots, self._tag = slots, tag
        self.present = Signal(self.layout)
        self._failed = Signal()  # the read did: its commands go on
        self._more = Signal()  # there is another slot that waits for its SQE
        self._reclaim = Subroutine("RECLAIM")

    def put(self, m: Module, tag: Value, **values) -> None:
        """Write the entry of `tag` in the present state: `present` but for `values`."""
        m.d.comb += [self.we["entry"].eq(1), self.wa.eq(tag)]
        m.d.comb += [self.w["entry"][field].eq(value) for field, value in values.items()]

    def of_pointers(self) -> Value:
        """Return whether completions of `present` bring SQEs or pointers, so nothing is known without their content."""
        kind = tables.TagKind
        return sum(self.present.kind == each for each in (kind.SQE, kind.LIST, kind.SEGMENT, kind.BUFFER_LIST)) != 0

    def reclaim(self, m: Module, back: str, *, failed: bool) -> None:
        """End the read of this tag though not all its completions came; go on at `back`.

        Without a failure, the CQEs of its commands may have come.
        """
        m.d.sync += self._failed.eq(failed)
        self._reclaim.call(m, back)

    def states(self, m: Module) -> None:
        tag = self._tag
        # --- RECLAIM: the TLP's tag is used again though not all its completions came: its slots go back. PCIe: Transaction ID ---
        with m.State("RECLAIM"):
            m.d.comb += self.ra.eq(tag)
            m.next = "RECLAIM_TAG"

        with m.State("RECLAIM_TAG"):
            entry = self.r["entry"]
            m.d.sync += self.present.eq(entry)
            m.d.comb += [self.slots.ra.eq(entry.slot), self.slots.link.ra.eq(entry.slot)]
            self.put(m, tag, valid=0)
            m.next = "RECLAIM_SLOT"

        with m.State("RECLAIM_SLOT"):
            m.d.sync += self._more.eq(
                (self.present.kind == tables.TagKind.SQE)
                & (self.present.left != 0)
                & (self.slots.r["state"] == tables.SlotState.FETCHING)
                & (self.slots.r["qid"] == self.present.qid)
            )
            m.next = "RECLAIM_NEXT"

        with m.State("RECLAIM_NEXT"):
            with m.If(~self._more):
                self._reclaim.leave_later(m)
            with m.Else():
                self.slots.release(m, self.present.slot)
                with m.If(self._failed):
                    self.slots.unhold(m)
                m.d.comb += [self.slots.ra.eq(self.slots.link.r["next"]), self.slots.link.ra.eq(self.slots.link.r["next"])]
                m.d.sync += [self.present.slot.eq(self.slots.link.r["next"]), self.present.left.eq(self.present.left - 1)]
                m.next = "RECLAIM_SLOT"

    def return_states(self, m: Module) -> None:
        """Build the states that return; after all states that call a subroutine of this file."""
        self._reclaim.return_state(m)
