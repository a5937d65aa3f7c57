"""The store of commands: a slot of each in flight, lists of slots, and the slots that are free."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from wattbell_spec import wire as spec

from ..queue import Queue
from . import tables
from .report import Report
from .store import FieldTable

__all__ = ["Slots"]

RESERVED = 16
"""Slots that only admin commands take: without these commands, nobody knows which queues there are."""
TICKS = ("doorbell", "fetch", "first_data", "last_data", "cqe", "msix")
"""Fields of a slot. A write takes them from the TLP unless the caller gives a value."""


class Slots(FieldTable):
    """The table of slots. The SQ doorbell (or the fetch) takes an entry, and the record gives it back.

    link : table, slot -> the next one of its list. Owners keep first slot, last slot and length of their lists: an SQ of its announced
        commands, a CQ of its completed ones, a fetch of its own.
    unheld : commands in flight without a slot.
    free, any_free : the slot that :meth:`allocate` takes; whether there is one.
    plenty : there are more than the slots that only admin commands take.
    guessed (field) : ``msix``, or its absence, is a guess: no access of the host has set up the message.
    held (field) : :meth:`hold` counted it out of ``unheld``.
    untold (field) : the message of its CQE is due and has not come.
    last (field) : last double word of its data in the last page; without a known length: of the data that it surely has.
    shared (field) : another command in flight may have the same pages, and its data may count as this command's.
    ousted (field) : another command in flight took over one of its pages.
    ousted : commands in flight, none from before a loss of TLPs, with that field.
    count, bits : number of slots; bits of a slot's number.
    """

    def __init__(self, m: Module, count: int, *, queue_bits: int, report: Report) -> None:
        self.count, self.bits = count, (count - 1).bit_length()
        tick = unsigned(64)
        super().__init__(
            m,
            "slots",
            count,
            {
                "state": tables.SlotState,
                "generation": 16,
                "epoch": 16,
                "qid": unsigned(queue_bits),
                "held": 1,
                "index": 16,
                "flags": 8,
                **dict.fromkeys(TICKS, tick),
                "opcode": 8,
                "cid": 16,
                "status": 15,
                "nsid": 16,
                "lba": 40,
                "blocks": 32,
                "prp1": 64,
                "ranges": 10,
                "ranges_expected": 9,
                "pages_sure": 17,
                "left": tables.LEFT,
                "guessed": 1,
                "untold": 1,
                "last": 14,
                "shared": 1,
                "ousted": 1,
            },
            together=(
                ("doorbell", "generation", "epoch", "qid", "held"),
                ("opcode", "cid", "nsid", "prp1", "ranges_expected"),
                ("lba", "blocks"),
                ("flags", "ranges", "pages_sure"),
                ("cqe", "status", "index"),
                ("last_data", "left"),
                ("msix", "guessed", "untold"),
                ("last", "shared", "ousted"),
            ),
        )
        self.link = FieldTable(m, "link", count, {"next": unsigned(self.bits)})
        self._report = report
        self.unheld = Signal(16)
        self.ousted = Signal(range(count + 1))
        self._serial = Signal(16)  # generation of the next command
        self._free_list = Queue(unsigned(self.bits), count)
        self.free = Signal(self.bits)
        self.any_free, self.plenty = Signal(), Signal()

    def connect(self, m: Module, *, in_flight: Signal, tick: Value, length: Value) -> None:
        """Connect the list of free slots. `in_flight`: a port of the engine. `tick`, `length`: the TLP's."""
        m.submodules.free_slots = free = self._free_list
        filled = Signal()  # once
        with m.If(free.level == self.count):
            m.d.sync += filled.eq(1)
        m.d.comb += [
            self.free.eq(free.o.payload),
            self.any_free.eq(free.o.valid),
            self.plenty.eq(free.level > RESERVED),
            in_flight.eq(Mux(filled, self.count - free.level, 0) + self.unheld),
            *(self.w[name].eq(tick) for name in TICKS),
            self.w["left"].eq(self.r["left"]),
            self.w["left"].dws.eq(tables.less(self.r["left"], length)),
        ]

    def has_room(self, qid: Value) -> Value:
        """Return whether a command of SQ `qid` may take `free`."""
        return self.any_free & (self.plenty | (qid == 0))

    def allocate(self, m: Module, *, state, qid, index, flags, **fields) -> None:
        """Take `free` for a command (only if it :meth:`has_room`).

        A tick given as None is the TLP's. A tick that is not given is unknown: its highest bit is 1 (:func:`tables.known`).
        """
        unknown = [name for name in TICKS if name not in fields]
        values = {
            "state": state,
            "generation": self._serial,
            "epoch": self._report.epoch,
            "qid": qid,
            "index": index,
            "flags": flags,
            **dict.fromkeys(TICKS),
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
            "left": 0,
            "guessed": 0,
            "untold": 0,
            "last": 0,
            "shared": 0,
            "ousted": 0,
            "held": 0,
        }
        self.write(m, self.free, **(values | fields))
        m.d.comb += [self._free_list.o.ready.eq(1), *(self.w[name][-1].eq(1) for name in unknown)]
        m.d.sync += self._serial.eq(self._serial + 1)

    def release(self, m: Module, slot: Value) -> None:
        """Give a slot back."""
        self.write(m, slot, state=tables.SlotState.FREE)
        m.d.comb += [self._free_list.i.valid.eq(1), self._free_list.i.payload.eq(slot)]

    def hold(self, m: Module) -> None:
        """Count, in the present state, a command without a slot less: it has ended, or has one now."""
        with m.If(self.unheld != 0):
            m.d.sync += self.unheld.eq(self.unheld - 1)

    def unhold(self, m: Module) -> None:
        """Count, in the present state, a command that goes on without a slot. Of very many, the others count as lost at once."""
        with m.If(self.unheld.all()):
            self._report.lost(m, spec.LossSource.SLOTS)
        with m.Else():
            m.d.sync += self.unheld.eq(self.unheld + 1)

    def let_go(self, m: Module, slot: Value) -> None:
        """Give back the slot of a command that goes on, in the present state."""
        self.unhold(m)
        self.release(m, slot)

    def flag(self, m: Module, slot: Value, flags: int) -> None:
        """Flag the command (:class:`spec.CommandFlag`) in a state that reads `slot`."""
        self.write(m, slot, flags=self.r["flags"] | flags, ranges=self.r["ranges"], pages_sure=self.r["pages_sure"])

    def oust(self, m: Module, slot: Value) -> None:
        """Note, in a state that reads `slot`, that another command in flight has its page. A third command is not told by the entry."""
        self.write(m, slot, last=self.r["last"], shared=self.r["shared"], ousted=1)
        with m.If(~self.r["ousted"]):
            m.d.sync += self.ousted.eq(self.ousted + 1)

    def share(self, m: Module, slot: Value) -> None:
        """Note, in a state that reads `slot`, that another command in flight may have the same pages."""
        self.write(m, slot, last=self.r["last"], shared=1, ousted=self.r["ousted"])

    def forget_ousted(self, m: Module) -> None:
        """Take, in the present state, all commands in flight for ended."""
        m.d.sync += self.ousted.eq(0)

    def see_data(self, m: Module, slot: Value) -> None:
        """Count the TLP as data of the command, in a state that reads `slot`."""
        with m.If(~tables.known(self.r["first_data"])):
            self.write(m, slot, first_data=None)
        self.write(m, slot, last_data=None, left=None)

    def expect(self, m: Module, slot: Value, left: Value) -> None:
        """Expect data in the present state, before the first comes: so much is due to the command in `slot` (:data:`.tables.LEFT`)."""
        self.write(m, slot, last_data=None, left=left)
        m.d.comb += self.w["last_data"][-1].eq(1)
