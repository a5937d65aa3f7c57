"""Interrupts: which queue's completions a message tells of (NVMe: Interrupts; PCI: MSI and MSI-X)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from . import tables
from .store import Table


class Registers:
    """What only the states of this file use."""

    def __init__(self, m: Module, e) -> None:
        message = data.StructLayout({"address": 10 + e.key_bits, "data": 32, "vector": 16, "trust": 4})  # address: in double words
        self.messages = Table(m, "messages", tables.MESSAGES, {"entry": message})
        self.irq_hash = Signal(6)
        self.irq_same = Signal()  # the entry in the table is this message
        self.irq_one, self.irq_last = Signal(), Signal()  # one queue waits; that of the last CQE does
        self.irq_scan = Signal(e.queues)  # queues still to be looked at
        self.irq_lowest = Signal(e.queue_bits)
        self.irq_qid = Signal(e.queue_bits)
        self.irq_any = Signal()  # mark this queue whatever its vector
        self.irq_learn = Signal()
        self.irq_vector = Signal(16)
        self.irq_known = Signal()  # the message is in the table
        self.irq_fits = Signal()  # and a queue of its vector was waiting
        self.irq_slot = Signal(e.slot_bits)


def declare(m: Module, e) -> None:
    own = e.own[Registers] = Registers(m, e)
    e.message_valid = Signal(tables.MESSAGES)
    for number in reversed(range(e.queues)):
        with m.If(own.irq_scan[number]):
            m.d.comb += own.irq_lowest.eq(number)


def look_up(m: Module, e) -> None:
    """In PAGE_SELECT: its entry, should the TLP be a message."""
    own = e.own[Registers]
    address, x = e.h.address, e.first
    hashed = (x[0:6] ^ x[6:12] ^ address[2:8] ^ (address[12:18] << 3) ^ address[16:22])[:6]
    m.d.comb += own.messages.ra.eq(hashed)
    m.d.sync += own.irq_hash.eq(hashed)


def compare(m: Module, e) -> None:
    """A clock later: what is known of it, should it be a message."""
    own = e.own[Registers]
    entry, waiting = own.messages.r["entry"], e.cq_waiting
    m.d.sync += [
        own.irq_vector.eq(entry.vector),
        own.irq_same.eq(
            e.message_valid.bit_select(own.irq_hash, 1) & (entry.address == e.h.address[2 : 12 + e.key_bits]) & (entry.data == e.first)
        ),
        own.irq_one.eq((waiting & (waiting - 1)) == 0),
        own.irq_last.eq(waiting.bit_select(e.last_cq, 1)),
    ]


def states(m: Module, e) -> None:
    own = e.own[Registers]
    # --- a write of one double word into no known page. NVMe: Interrupts; PCI: MSI and MSI-X Operation ------------
    with m.State("INTERRUPT"):
        m.d.sync += [own.irq_any.eq(0), own.irq_learn.eq(0), own.irq_known.eq(0), own.irq_fits.eq(0), own.irq_scan.eq(e.cq_waiting)]
        m.next = "INTERRUPT_SCAN"
        with m.If(e.cq_waiting == 0):
            m.next = "DONE"
        with m.Elif(own.irq_same):
            m.d.sync += own.irq_known.eq(1)  # all waiting queues of this vector
        with m.Elif(own.irq_one):
            m.d.sync += [own.irq_any.eq(1), own.irq_learn.eq(1)]
        with m.Elif(own.irq_last):
            m.d.sync += [own.irq_any.eq(1), own.irq_scan.eq(1 << e.last_cq)]
        with m.Else():
            m.next = "DONE"

    lowest = own.irq_lowest
    entry, trust = Signal(own.messages.r["entry"].shape(), name="message_trust"), own.messages.r["entry"].trust
    m.d.comb += entry.eq(own.messages.r["entry"])

    def trust_more() -> None:
        with m.If(own.irq_known & (trust != 15)):
            own.messages.write(m, own.irq_hash, entry=entry)
            m.d.comb += entry.trust.eq(Mux(trust > 11, 15, trust + 4))

    with m.State("INTERRUPT_SCAN"):
        e.may_finish(m)
        m.d.comb += [e.shape.ra.eq(e.queues | lowest), e.cq_state.ra.eq(lowest)]
        m.d.sync += [own.irq_qid.eq(lowest), own.irq_scan.bit_select(lowest, 1).eq(0)]
        m.next = "INTERRUPT_QUEUE"
        calm = (~e.loss_seen | ((e.h.tick - e.loss_tick)[tables.CALM_BITS :] != 0)) & ~e.untracked
        with m.If(own.irq_scan == 0):
            # Trust goes up when a queue of the vector was waiting, else down: often only because the host has taken the
            # CQE already, so it takes many misses to learn a message anew.
            with m.If(own.irq_fits):
                trust_more()
            with m.If(own.irq_known & ~own.irq_fits & (trust != 0) & calm):
                own.messages.write(m, own.irq_hash, entry=entry)
                m.d.comb += entry.trust.eq(trust - 1)
            with m.If(own.irq_known & ~own.irq_fits & (trust == 0) & own.irq_one):
                m.d.sync += [own.irq_known.eq(0), own.irq_any.eq(1), own.irq_learn.eq(1), own.irq_scan.eq(e.cq_waiting)]
                m.next = "INTERRUPT_SCAN"
            with m.Else():
                e.finish(m)

    with m.State("INTERRUPT_QUEUE"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), own.irq_slot.eq(e.cq_state.r["entry"].waiting)]
        m.d.comb += e.link.ra.eq(e.cq_state.r["entry"].waiting)
        m.next = "INTERRUPT_SCAN"
        with m.If(own.irq_any | (e.shape.r["link"] == own.irq_vector)):
            m.d.sync += [e.cq_waiting.bit_select(own.irq_qid, 1).eq(0), own.irq_fits.eq(1)]
            m.next = "INTERRUPT_MARK"
        with m.If(own.irq_learn):
            learnt = Signal(own.messages.r["entry"].shape(), name="message")
            m.d.comb += [
                learnt.address.eq(e.h.address[2 : 12 + e.key_bits]),
                learnt.data.eq(e.first),
                learnt.vector.eq(e.shape.r["link"]),
                learnt.trust.eq(8),
            ]
            own.messages.write(m, own.irq_hash, entry=learnt)
            m.d.sync += e.message_valid.bit_select(own.irq_hash, 1).eq(1)

    with m.State("INTERRUPT_MARK"):
        e.may_finish(m)
        e.slots.write(m, own.irq_slot, msix=None)
        m.d.comb += e.link.ra.eq(e.link.r["next"])
        m.d.sync += own.irq_slot.eq(e.link.r["next"])
        with m.If(own.irq_slot == e.cq.last):
            m.next = "INTERRUPT_SCAN"
            with m.If(own.irq_scan == 0):
                trust_more()
                e.finish(m)
