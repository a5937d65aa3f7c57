"""Tables of the queues, and the queue in hand."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from .store import FieldTable

__all__ = ["Queues"]


class Queues:
    """Tables of all queues, and registers of one SQ and one CQ.

    shape : table of base, size, link and tells, first of all SQs, then of all CQs. Link: the CQ of an SQ, the interrupt vector of a CQ.
        Tells: the CQ has interrupts.
    sq_state : table with layout SQ.
    cq_state : table with layout CQ.
    sq_valid : a bit for each SQ: the queue exists.
    cq_valid : a bit for each CQ: the queue exists.
    cq_filled : a bit for each CQ: the queue has completed commands.
    cq_waiting : a bit for each CQ: some of these commands have no interrupt yet.
    filled : some CQ has completed commands; may be high for one clock too long.
    swept : boundary of the last sweep, or the tick from which completed commands wait.
    untracked : a queue exists beyond the tables.
    last_cq : CQ of the last CQE.
    qid : number of the queue in hand, from a doorbell or a fetch.
    sq : state of that SQ.
    cq : state of that CQ.
    size : its size in entries.
    count : number of queues of each kind in the tables.
    bits : bits of a queue's number.
    """

    def __init__(self, m: Module, count: int, *, slot_bits: int, tick_bits: int) -> None:
        self.count, self.bits = count, (count - 1).bit_length()
        slot = unsigned(slot_bits)
        self.SQ = data.StructLayout(
            {
                "tail": 16,
                "tail_known": 1,
                "fetch": 16,
                "fetch_known": 1,
                "head": slot,  # of the announced commands
                "last": slot,
                "count": 11,
                "epoch": 16,
                "rung": 1,  # a doorbell has come
            }
        )
        self.CQ = data.StructLayout(
            {
                "tail": 16,
                "known": 1,
                "phase": 1,
                "head": slot,  # of the completed commands
                "last": slot,
                "count": 11,
                "waiting": slot,  # first completed command whose interrupt has not come
                "epoch": 16,
            }
        )
        shape = {"base": 64, "size": 17, "link": 16, "tells": 1}
        self.shape = FieldTable(m, "shape", 2 * count, shape, together=[tuple(shape)])
        self.sq_state = FieldTable(m, "sq_state", count, {"entry": self.SQ})
        self.cq_state = FieldTable(m, "cq_state", count, {"entry": self.CQ})
        self.sq_valid = Signal(count)
        self.cq_valid = Signal(count)
        self.cq_filled = Signal(count)
        self.cq_waiting = Signal(count)
        self.filled = Signal()
        self.swept = Signal(tick_bits)
        self.untracked = Signal()
        self.last_cq = Signal(self.bits)
        self.qid = Signal(self.bits)
        self.sq = Signal(self.SQ)
        self.cq = Signal(self.CQ)
        self.size = Signal(17)

    def modulo(self, difference: Value) -> Value:
        """`difference` of two positions in the queue in hand, -size < difference < size, modulo its size."""
        return Mux(difference[-1], difference + self.size, difference)[:17]

    def after(self, position: Value) -> Value:
        """The place behind one in the queue in hand."""
        return Mux(position + 1 == self.size, 0, position + 1)

    def save_cq(self, m: Module, qid: Value, cq: Value) -> None:
        """Save `cq` as the entry of CQ `qid`, in the present state."""
        self.cq_state.write(m, qid, entry=cq)

    def emptied(self, m: Module, qid: Value) -> None:
        """Note that CQ `qid` has no completed commands, in the present state."""
        m.d.sync += [self.cq_filled.bit_select(qid, 1).eq(0), self.cq_waiting.bit_select(qid, 1).eq(0)]

    def forget(self, m: Module) -> None:
        """Forget all queues, in the present state."""
        m.d.sync += [
            self.sq_valid.eq(0),
            self.cq_valid.eq(0),
            self.cq_filled.eq(0),
            self.cq_waiting.eq(0),
            self.untracked.eq(0),
        ]
