"""Interrupts: which queue's completions a message tells of (NVMe: Interrupts; PCI: MSI and MSI-X)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from . import tables
from .store import Table


def declare(m: Module, e) -> None:
    message = data.StructLayout({"address": 10 + e.key_bits, "data": 32, "vector": 16, "trust": 4})  # address: in double words
    e.message_valid = Signal(tables.MESSAGES)
    e.messages = Table(m, "messages", tables.MESSAGES, {"entry": message})
    e.irq_data = Signal(32)
    e.irq_hash = Signal(6)
    e.irq_scan = Signal(e.queues)
    e.irq_lowest = Signal(e.queue_bits)
    for number in reversed(range(e.queues)):
        with m.If(e.irq_scan[number]):
            m.d.comb += e.irq_lowest.eq(number)
    e.irq_qid = Signal(e.queue_bits)
    e.irq_any = Signal()  # mark this queue whatever its vector
    e.irq_learn = Signal()
    e.irq_vector = Signal(16)
    e.irq_known = Signal()  # the message is in the table
    e.irq_fits = Signal()  # and a queue of its vector was waiting
    e.irq_slot = Signal(e.slot_bits)


def states(m: Module, e) -> None:
    # --- a write of one double word into no known page. NVMe: Interrupts; PCI: MSI and MSI-X Operation ------------
    with m.State("INTERRUPT"):
        address, x = e.h.address, e.word
        hashed = (x[0:6] ^ x[6:12] ^ address[2:8] ^ (address[12:18] << 3) ^ address[16:22])[:6]
        m.d.comb += e.messages.ra.eq(hashed)
        m.d.sync += [e.irq_data.eq(x), e.irq_hash.eq(hashed), e.irq_any.eq(0), e.irq_learn.eq(0)]
        m.d.sync += [e.irq_known.eq(0), e.irq_fits.eq(0)]
        m.d.sync += [e.irq_scan.eq(e.cq_waiting), e.irq_slot.eq(0)]
        m.next = "INTERRUPT_KNOWN"
        with m.If(e.cq_waiting == 0):
            e.finish(m)

    with m.State("INTERRUPT_KNOWN"):
        entry = e.messages.r["entry"]
        waiting = e.cq_waiting
        m.d.sync += e.irq_vector.eq(entry.vector)
        m.next = "INTERRUPT_SCAN"
        with m.If(
            e.message_valid.bit_select(e.irq_hash, 1) & (entry.address == e.h.address[2 : 12 + e.key_bits]) & (entry.data == e.irq_data)
        ):
            m.d.sync += e.irq_known.eq(1)  # all waiting queues of this vector
        with m.Elif((waiting & (waiting - 1)) == 0):
            m.d.sync += [e.irq_any.eq(1), e.irq_learn.eq(1)]
        with m.Elif(waiting.bit_select(e.last_cq, 1)):
            m.d.sync += [e.irq_any.eq(1), e.irq_scan.eq(1 << e.last_cq)]
        with m.Else():
            m.next = "DONE"

    lowest = e.irq_lowest
    with m.State("INTERRUPT_SCAN"):
        m.d.comb += [e.shape.ra.eq(e.queues | lowest), e.cq_state.ra.eq(lowest)]
        m.d.sync += [e.irq_qid.eq(lowest), e.irq_scan.bit_select(lowest, 1).eq(0)]
        m.next = "INTERRUPT_QUEUE"
        entry = Signal(e.messages.r["entry"].shape(), name="message_trust")
        trust = e.messages.r["entry"].trust
        calm = (~e.loss_seen | ((e.h.tick - e.loss_tick)[tables.CALM_BITS :] != 0)) & ~e.untracked
        m.d.comb += entry.eq(e.messages.r["entry"])
        with m.If(e.irq_scan == 0):
            # Trust goes up when a queue of the vector was waiting, else down: often only because the host has taken the
            # CQE already, so it takes many misses to learn a message anew.
            with m.If(e.irq_known & e.irq_fits & (trust != 15)):
                e.messages.write(m, e.irq_hash, entry=entry)
                m.d.comb += entry.trust.eq(Mux(trust > 11, 15, trust + 4))
            with m.If(e.irq_known & ~e.irq_fits & (trust != 0) & calm):
                e.messages.write(m, e.irq_hash, entry=entry)
                m.d.comb += entry.trust.eq(trust - 1)
            with m.If(e.irq_known & ~e.irq_fits & (trust == 0) & ((e.cq_waiting & (e.cq_waiting - 1)) == 0)):
                m.d.sync += [e.irq_known.eq(0), e.irq_any.eq(1), e.irq_learn.eq(1), e.irq_scan.eq(e.cq_waiting)]
                m.next = "INTERRUPT_SCAN"
            with m.Else():
                e.finish(m)

    with m.State("INTERRUPT_QUEUE"):
        m.d.sync += [e.cq.eq(e.cq_state.r["entry"]), e.irq_slot.eq(e.cq_state.r["entry"].waiting)]
        m.d.comb += e.link.ra.eq(e.cq_state.r["entry"].waiting)
        m.next = "INTERRUPT_SCAN"
        with m.If(e.irq_any | (e.shape.r["link"] == e.irq_vector)):
            m.d.sync += [e.cq_waiting.bit_select(e.irq_qid, 1).eq(0), e.irq_fits.eq(1)]
            m.next = "INTERRUPT_MARK"
        with m.If(e.irq_learn):
            entry = Signal(e.messages.r["entry"].shape(), name="message")
            m.d.comb += [
                entry.address.eq(e.h.address[2 : 12 + e.key_bits]),
                entry.data.eq(e.irq_data),
                entry.vector.eq(e.shape.r["link"]),
                entry.trust.eq(8),
            ]
            e.messages.write(m, e.irq_hash, entry=entry)
            m.d.sync += e.message_valid.bit_select(e.irq_hash, 1).eq(1)

    with m.State("INTERRUPT_MARK"):
        e.slots.write(m, e.irq_slot, msix=None)
        m.d.comb += e.link.ra.eq(e.link.r["next"])
        m.d.sync += e.irq_slot.eq(e.link.r["next"])
        with m.If(e.irq_slot == e.cq.last):
            m.next = "INTERRUPT_SCAN"
