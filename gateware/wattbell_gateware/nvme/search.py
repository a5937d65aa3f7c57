"""The search for a command in flight by its queue and CID. NVMe: Command Identifier (CID)."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data

from . import tables
from .slots import Slots
from .store import FieldTable, Subroutine

__all__ = ["Search"]


class Search:
    """Chains of slots, one for the commands of each hash.

    qid, cid : the command to find; keep their values until it is found, or taken out.
    found, slot : it is there, in that slot, which ``slots`` then reads.

    :meth:`look_for`, and a clock later :meth:`find`. Where the search :meth:`goes_on` after its return, :meth:`on` continues it.
    """

    def __init__(self, m: Module, *, slots: Slots, queue_bits: int) -> None:
        self.slots = slots
        chain = data.StructLayout({"valid": 1, "slot": slots.bits})
        self._heads = FieldTable(m, "hash_head", tables.ENTRIES, {"entry": chain})
        self._links = FieldTable(m, "hash_next", slots.count, {"entry": chain})
        self.qid = Signal(queue_bits)
        self.cid = Signal(16)
        self.slot = Signal(slots.bits)
        self.found = Signal()
        self._chain = chain
        self._behind = Signal(chain)  # `slot`
        self._previous, self._has_previous = Signal(slots.bits), Signal()
        self._subroutine = Subroutine("FIND")

    def _hash(self, qid: Value, cid: Value) -> Value:
        return (cid[0:10] ^ Cat(cid[10:16], 0, 0, 0, 0) ^ Cat(0, 0, 0, 0, qid[0:6]))[:10]

    # --- what other files' states do --------------------------------------------------------------------------------
    def look_for(self, m: Module, qid: Value | None = None, cid: Value | None = None) -> None:
        """Look up the chain of these in the present state (of the last `qid` and `cid`, if none are given)."""
        m.d.comb += self._heads.ra.eq(self._hash(self.qid if qid is None else qid, self.cid if cid is None else cid))

    def begin(self, m: Module) -> None:
        """Read the first slot of the chain, if there is one, in the state after :meth:`look_for`; :meth:`walk` checks it."""
        entry = self._heads.r["entry"]
        m.d.comb += [self.slots.ra.eq(entry.slot), self._links.ra.eq(entry.slot)]
        m.d.sync += [self._has_previous.eq(0), self.found.eq(0), self._behind.valid.eq(0), self.slot.eq(entry.slot)]

    def walk(self, m: Module, back: str) -> None:
        """Walk along the chain after :meth:`begin`; go on at `back`."""
        self._subroutine.call(m, back, entry="FIND_WALK")

    def find(self, m: Module, back: str) -> None:
        """Begin and walk after :meth:`look_for`; go on at `back`."""
        self.begin(m)
        self.walk(m, back)
        with m.If(~self._heads.r["entry"].valid):
            m.next = back

    def whole(self, m: Module, back: str) -> None:
        """Search for `qid` and `cid`, as they are from the next clock on; go on at `back`."""
        self._subroutine.call(m, back)

    def starts(self) -> Value:
        """Return whether the look-up found a chain."""
        return self._heads.r["entry"].valid

    def clear(self, m: Module, hash_: Value) -> None:
        """Clear the chain of this hash, in the present state."""
        self._heads.write(m, hash_, entry=0)

    def goes_on(self) -> Value:
        """Return, after a search, whether the checked slot is another command's and more follow."""
        return ~self.found & self._behind.valid

    def on(self, m: Module) -> None:
        """Check the next slot of the chain, and come back to the same state."""
        m.next = "FIND_ON"

    def link(self, m: Module, slot: Value) -> None:
        """Put `slot` at the head of the chain of the last look-up; `qid` and `cid` are unchanged."""
        entry = Signal(self._chain, name="chain_entry")
        m.d.comb += [entry.valid.eq(1), entry.slot.eq(slot)]
        self._heads.write(m, self._hash(self.qid, self.cid), entry=entry)
        self._links.write(m, slot, entry=self._heads.r["entry"])

    def unlink(self, m: Module) -> None:
        """Take the slot just found out of its chain (one clock, while `_links` still reads it)."""
        rest = self._links.r["entry"]
        with m.If(self._has_previous):
            self._links.write(m, self._previous, entry=rest)
        with m.Else():
            self._heads.write(m, self._hash(self.qid, self.cid), entry=rest)

    # --- FIND -------------------------------------------------------------------------------------------------------
    def states(self, m: Module) -> None:
        with m.State("FIND"):
            self.look_for(m)
            m.next = "FIND_HEAD"

        with m.State("FIND_HEAD"):
            self.begin(m)
            m.next = "FIND_WALK"
            with m.If(~self._heads.r["entry"].valid):
                self._subroutine.leave(m)

        with m.State("FIND_WALK"):
            slot = self.slots.r
            m.d.sync += [
                self.found.eq((slot["qid"] == self.qid) & (slot["cid"] == self.cid)),
                self._behind.eq(self._links.r["entry"]),
            ]
            self._subroutine.leave(m)

        with m.State("FIND_ON"):
            m.d.comb += [self.slots.ra.eq(self._behind.slot), self._links.ra.eq(self._behind.slot)]
            m.d.sync += [self._previous.eq(self.slot), self._has_previous.eq(1), self.slot.eq(self._behind.slot)]
            m.next = "FIND_WALK"
