"""Interrupts: which queue's completions a message tells of (NVMe: Interrupts; PCI: MSI and MSI-X)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from . import tables
from .places import Place
from .present import Present
from .queues import Queues
from .report import Report
from .slots import Slots
from .store import FieldTable

__all__ = ["Interrupts"]


class Interrupts:
    """The table of messages, which learns, and the states of one."""

    def __init__(self, m: Module, *, tlp: Present, report: Report, slots: Slots, queues: Queues, key_bits: int) -> None:
        self.tlp, self.report, self.slots, self.queues, self._key_bits = tlp, report, slots, queues, key_bits
        message = data.StructLayout({"address": 10 + key_bits, "data": 32, "vector": 16, "trust": 4})  # address: in double words
        self._messages = FieldTable(m, "messages", tables.MESSAGES, {"entry": message})
        self._irq_hash = Signal(6)
        self._irq_same = Signal()  # the entry in the table is this message
        self._irq_one, self._irq_last = Signal(), Signal()  # one queue waits; that of the last CQE does
        self._irq_scan = Signal(queues.count)  # queues still to be looked at
        self._irq_lowest = Signal(queues.bits)
        self._irq_qid = Signal(queues.bits)
        self._irq_any = Signal()  # mark this queue whatever its vector
        self._irq_learn = Signal()
        self._irq_vector = Signal(16)
        self._irq_known = Signal()  # the message is in the table
        self._irq_fits = Signal()  # and a queue of its vector was waiting
        self._irq_slot = Signal(slots.bits)
        self._valid = Signal(tables.MESSAGES)

    def connect(self, m: Module) -> None:
        for number in reversed(range(self.queues.count)):
            with m.If(self._irq_scan[number]):
                m.d.comb += self._irq_lowest.eq(number)

    def forget(self, m: Module) -> None:
        """In the present state: no message is known."""
        m.d.sync += self._valid.eq(0)

    def look_up(self, m: Module) -> None:
        """In PAGE_SELECT: its entry, should the TLP be a message."""
        address, x = self.tlp.header.address, self.tlp.first
        hashed = (x[0:6] ^ x[6:12] ^ address[2:8] ^ (address[12:18] << 3) ^ address[16:22])[:6]
        m.d.comb += self._messages.ra.eq(hashed)
        m.d.sync += self._irq_hash.eq(hashed)

    def compare(self, m: Module) -> None:
        """A clock later: what is known of it, should it be a message."""
        entry, waiting = self._messages.r["entry"], self.queues.cq_waiting
        m.d.sync += [
            self._irq_vector.eq(entry.vector),
            self._irq_same.eq(
                self._valid.bit_select(self._irq_hash, 1)
                & (entry.address == self.tlp.header.address[2 : 12 + self._key_bits])
                & (entry.data == self.tlp.first)
            ),
            self._irq_one.eq((waiting & (waiting - 1)) == 0),
            self._irq_last.eq(waiting.bit_select(self.queues.last_cq, 1)),
        ]

    def states(self, m: Module) -> None:
        tlp, slots, queues = self.tlp, self.slots, self.queues

        # --- a write of one double word into no known page. NVMe: Interrupts; PCI: MSI and MSI-X Operation ------------
        with m.State(Place.INTERRUPT):
            m.d.sync += [
                self._irq_any.eq(0),
                self._irq_learn.eq(0),
                self._irq_known.eq(0),
                self._irq_fits.eq(0),
                self._irq_scan.eq(queues.cq_waiting),
            ]
            m.next = "INTERRUPT_SCAN"
            with m.If(queues.cq_waiting == 0):
                m.next = Place.DONE
            with m.Elif(self._irq_same):
                m.d.sync += self._irq_known.eq(1)  # all waiting queues of this vector
            with m.Elif(self._irq_one):
                m.d.sync += [self._irq_any.eq(1), self._irq_learn.eq(1)]
            with m.Elif(self._irq_last):
                m.d.sync += [self._irq_any.eq(1), self._irq_scan.eq(1 << queues.last_cq)]
            with m.Else():
                m.next = Place.DONE

        lowest = self._irq_lowest
        entry, trust = Signal(self._messages.r["entry"].shape(), name="message_trust"), self._messages.r["entry"].trust
        m.d.comb += entry.eq(self._messages.r["entry"])

        def trust_more() -> None:
            with m.If(self._irq_known & (trust != 15)):
                self._messages.write(m, self._irq_hash, entry=entry)
                m.d.comb += entry.trust.eq(Mux(trust > 11, 15, trust + 4))

        with m.State("INTERRUPT_SCAN"):
            tlp.may_finish(m)
            m.d.comb += [queues.shape.ra.eq(queues.count | lowest), queues.cq_state.ra.eq(lowest)]
            m.d.sync += [self._irq_qid.eq(lowest), self._irq_scan.bit_select(lowest, 1).eq(0)]
            m.next = "INTERRUPT_QUEUE"
            calm = (~self.report.loss_seen | ((tlp.header.tick - self.report.loss_tick)[tables.CALM_BITS :] != 0)) & ~queues.untracked
            with m.If(self._irq_scan == 0):
                # Trust goes up when a queue of the vector was waiting, else down: often only because the host has taken the
                # CQE already, so it takes many misses to learn a message anew.
                with m.If(self._irq_fits):
                    trust_more()
                with m.If(self._irq_known & ~self._irq_fits & (trust != 0) & calm):
                    self._messages.write(m, self._irq_hash, entry=entry)
                    m.d.comb += entry.trust.eq(trust - 1)
                with m.If(self._irq_known & ~self._irq_fits & (trust == 0) & self._irq_one):
                    m.d.sync += [self._irq_known.eq(0), self._irq_any.eq(1), self._irq_learn.eq(1), self._irq_scan.eq(queues.cq_waiting)]
                    m.next = "INTERRUPT_SCAN"
                with m.Else():
                    tlp.finish(m)

        with m.State("INTERRUPT_QUEUE"):
            m.d.sync += [queues.cq.eq(queues.cq_state.r["entry"]), self._irq_slot.eq(queues.cq_state.r["entry"].waiting)]
            m.d.comb += slots.link.ra.eq(queues.cq_state.r["entry"].waiting)
            m.next = "INTERRUPT_SCAN"
            with m.If(self._irq_any | (queues.shape.r["link"] == self._irq_vector)):
                m.d.sync += [queues.cq_waiting.bit_select(self._irq_qid, 1).eq(0), self._irq_fits.eq(1)]
                m.next = "INTERRUPT_MARK"
            with m.If(self._irq_learn):
                learnt = Signal(self._messages.r["entry"].shape(), name="message")
                m.d.comb += [
                    learnt.address.eq(tlp.header.address[2 : 12 + self._key_bits]),
                    learnt.data.eq(tlp.first),
                    learnt.vector.eq(queues.shape.r["link"]),
                    learnt.trust.eq(8),
                ]
                self._messages.write(m, self._irq_hash, entry=learnt)
                m.d.sync += self._valid.bit_select(self._irq_hash, 1).eq(1)

        with m.State("INTERRUPT_MARK"):
            tlp.may_finish(m)
            slots.write(m, self._irq_slot, msix=None)
            m.d.comb += slots.link.ra.eq(slots.link.r["next"])
            m.d.sync += self._irq_slot.eq(slots.link.r["next"])
            with m.If(self._irq_slot == queues.cq.last):
                m.next = "INTERRUPT_SCAN"
                with m.If(self._irq_scan == 0):
                    trust_more()
                    tlp.finish(m)
