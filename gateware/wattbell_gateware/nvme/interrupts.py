"""Interrupts: a message announces completions in the queues of its vector (NVMe: Interrupts; PCIe: INTx Interrupt Signaling).

``messages`` knows the message of each vector, once it has seen the host set them up. Otherwise the tracker learns messages, and a record
with a learnt instant says so (``interrupt_guessed``).
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from ..tlp.parser import ASSERT_INTA
from . import tables
from .messages import Messages
from .places import Place
from .present import Present
from .queues import Queues
from .report import Report
from .slots import Slots
from .store import FieldTable

__all__ = ["Interrupts"]


class Interrupts:
    """The table of learnt messages, and the states of a message, known or learnt."""

    def __init__(self, m: Module, *, tlp: Present, report: Report, slots: Slots, queues: Queues, messages: Messages, key_bits: int) -> None:
        self.tlp, self.report, self.slots, self.queues, self.messages, self._key_bits = tlp, report, slots, queues, messages, key_bits
        message = data.StructLayout({"address": 10 + key_bits, "data": 32, "vector": 16, "trust": 4})  # address: in double words
        self._learnt = FieldTable(m, "messages", tables.MESSAGES, {"entry": message})
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
        self._irq_guess = Signal()  # what is marked is a guess
        self._irq_table = Signal()  # the message is known, not learnt
        self._irq_before = Signal()  # what it was before the host changed it counts, too
        self._irq_here = Signal()  # the message of the queue's vector is known
        self._irq_unknown = Signal()  # that of some queue is not
        self._irq_words = Signal(3)  # words of it that are the same
        self._valid = Signal(tables.MESSAGES)

    def connect(self, m: Module) -> None:
        for number in reversed(range(self.queues.count)):
            with m.If(self._irq_scan[number]):
                m.d.comb += self._irq_lowest.eq(number)

    def forget(self, m: Module) -> None:
        """Forget all learnt messages, in the present state."""
        m.d.sync += self._valid.eq(0)

    def look_up(self, m: Module) -> None:
        """Read the table for the TLP, in PAGE_SELECT: it may be a message."""
        address, x = self.tlp.header.address, self.tlp.first
        hashed = (x[0:6] ^ x[6:12] ^ address[2:8] ^ (address[12:18] << 3) ^ address[16:22])[:6]
        m.d.comb += self._learnt.ra.eq(hashed)
        m.d.sync += self._irq_hash.eq(hashed)

    def compare(self, m: Module) -> None:
        """Compare the TLP with that entry, a clock later."""
        entry, waiting = self._learnt.r["entry"], self.queues.cq_waiting
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

    def _begin(self, m: Module, *, guess) -> None:
        """Begin, in the present state, a scan of all CQs that wait for an interrupt."""
        m.d.sync += [
            self._irq_any.eq(0),
            self._irq_learn.eq(0),
            self._irq_known.eq(0),
            self._irq_fits.eq(0),
            self._irq_scan.eq(self.queues.cq_waiting),
            self._irq_guess.eq(guess),
        ]

    def _learn(self, m: Module) -> None:
        """Begin, in the present state, to learn the message, or to use it as it was learnt."""
        self._begin(m, guess=1)
        m.d.sync += self._irq_table.eq(0)
        m.next = "INTERRUPT_SCAN"
        with m.If(self._irq_same):
            m.d.sync += self._irq_known.eq(1)  # all waiting queues of this vector
        with m.Elif(self._irq_one):
            m.d.sync += [self._irq_any.eq(1), self._irq_learn.eq(1)]
        with m.Elif(self._irq_last):
            m.d.sync += [self._irq_any.eq(1), self._irq_scan.eq(1 << self.queues.last_cq)]
        with m.Else():
            m.next = Place.DONE

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._begin_states(m)
        self._message_states(m)
        self._scan_states(m)

    def _begin_states(self, m: Module) -> None:
        """Build INTERRUPT and INTERRUPT_LEARN, a write of one double word into no known page; WIRE, a message of INTx.

        NVMe: Interrupts; PCI: MSI and MSI-X Operation; PCIe: INTx Interrupt Signaling. INTx announces all completions.
        """
        tlp, queues = self.tlp, self.queues

        with m.State(Place.INTERRUPT):
            m.d.sync += [self._irq_table.eq(1), self._irq_before.eq(0), self._irq_unknown.eq(0)]
            self._begin(m, guess=0)
            m.next = "MESSAGE_SCAN"
            with m.If((queues.cq_waiting == 0) | self.messages.wires):
                m.next = Place.DONE
            with m.Elif(self.messages.unknown):
                self._learn(m)

        with m.State("INTERRUPT_LEARN"):
            self._learn(m)

        with m.State(Place.WIRE):
            asserts = tlp.header.address[:8] == ASSERT_INTA
            m.d.sync += [self.messages.asserted.eq(asserts), self._irq_table.eq(0)]
            self._begin(m, guess=self.messages.unknown | self.messages.shared)
            m.d.sync += self._irq_any.eq(1)
            m.next = "INTERRUPT_SCAN"
            with m.If(~asserts | self.messages.by_table | self.messages.by_msi | (queues.cq_waiting == 0)):
                m.next = Place.DONE

    def _message_states(self, m: Module) -> None:
        """Build MESSAGE_SCAN to MESSAGE_DECIDE: a known message; each waiting queue is compared with it."""
        tlp, slots, queues = self.tlp, self.slots, self.queues

        with m.State("MESSAGE_SCAN"):
            tlp.may_finish(m)
            m.d.comb += [queues.shape.ra.eq(queues.count | self._irq_lowest), queues.cq_state.ra.eq(self._irq_lowest)]
            m.d.sync += [self._irq_qid.eq(self._irq_lowest), self._irq_scan.bit_select(self._irq_lowest, 1).eq(0)]
            m.next = "MESSAGE_VECTOR"
            with m.If(self._irq_scan == 0):
                with m.If(self._irq_fits):
                    tlp.finish(m)
                with m.Elif(~self._irq_before):  # once more: it may have been on its way while the host changed it
                    m.d.sync += [self._irq_before.eq(1), self._irq_scan.eq(queues.cq_waiting)]
                    m.next = "MESSAGE_SCAN"
                with m.Elif(self._irq_unknown):
                    m.next = "INTERRUPT_LEARN"
                with m.Else():
                    tlp.finish(m)

        with m.State("MESSAGE_VECTOR"):
            self.messages.look_up(m, queues.shape.r["link"])
            m.d.comb += slots.link.ra.eq(queues.cq_state.r["entry"].waiting)
            m.d.sync += [
                queues.cq.eq(queues.cq_state.r["entry"]),
                self._irq_slot.eq(queues.cq_state.r["entry"].waiting),
                self._irq_vector.eq(queues.shape.r["link"]),
            ]
            m.next = "MESSAGE_COMPARE"

        with m.State("MESSAGE_COMPARE"):
            self.messages.look_before(m)
            m.d.sync += [self._irq_here.eq(self.messages.known()), self._irq_words.eq(self.messages.same(self._irq_vector))]
            m.next = "MESSAGE_DECIDE"
            with m.If(self._irq_before):
                m.next = "MESSAGE_BEFORE"

        with m.State("MESSAGE_BEFORE"):
            m.d.sync += self._irq_words.eq(self._irq_words | self.messages.same(self._irq_vector))
            m.next = "MESSAGE_DECIDE"

        with m.State("MESSAGE_DECIDE"):
            m.d.sync += [self._irq_guess.eq(self._irq_before), self._irq_unknown.eq(self._irq_unknown | ~self._irq_here)]
            m.next = "MESSAGE_SCAN"
            with m.If(self._irq_here & self._irq_words.all()):
                m.d.sync += [queues.cq_waiting.bit_select(self._irq_qid, 1).eq(0), self._irq_fits.eq(1)]
                m.next = "INTERRUPT_MARK"

    def _scan_states(self, m: Module) -> None:
        """Build INTERRUPT_SCAN to INTERRUPT_MARK: a learnt message (ours), and the commands that it announces."""
        tlp, slots, queues = self.tlp, self.slots, self.queues
        lowest = self._irq_lowest
        entry, trust = Signal(self._learnt.r["entry"].shape(), name="message_trust"), self._learnt.r["entry"].trust
        m.d.comb += entry.eq(self._learnt.r["entry"])

        def trust_more() -> None:
            with m.If(self._irq_known & (trust != 15)):
                self._learnt.write(m, self._irq_hash, entry=entry)
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
                    self._learnt.write(m, self._irq_hash, entry=entry)
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
                learnt = Signal(self._learnt.r["entry"].shape(), name="message")
                m.d.comb += [
                    learnt.address.eq(tlp.header.address[2 : 12 + self._key_bits]),
                    learnt.data.eq(tlp.first),
                    learnt.vector.eq(queues.shape.r["link"]),
                    learnt.trust.eq(8),
                ]
                self._learnt.write(m, self._irq_hash, entry=learnt)
                m.d.sync += self._valid.bit_select(self._irq_hash, 1).eq(1)

        with m.State("INTERRUPT_MARK"):
            tlp.may_finish(m)
            slots.write(m, self._irq_slot, msix=None, guessed=self._irq_guess, untold=0)
            m.d.comb += slots.link.ra.eq(slots.link.r["next"])
            m.d.sync += self._irq_slot.eq(slots.link.r["next"])
            with m.If(self._irq_slot == queues.cq.last):
                m.next = "INTERRUPT_SCAN"
                with m.If(self._irq_table):
                    m.next = "MESSAGE_SCAN"
                with m.If(self._irq_scan == 0):
                    trust_more()
                    tlp.finish(m)
