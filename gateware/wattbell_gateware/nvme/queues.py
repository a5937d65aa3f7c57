"""Queues: what is known of each, and the one in hand."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from .store import FieldTable

__all__ = ["Queues"]


class Queues:
    """Tables of all queues, and registers of one SQ and one CQ.

    shape : table, SQs and behind them CQs -> base, size, and link: an SQ's CQ, a CQ's interrupt vector.
    sq_state, cq_state : tables, of layout SQ and CQ. sq_valid, cq_valid : a bit each: there is such a queue.
    cq_filled, cq_waiting : a bit each: it has completed commands; such without an interrupt.
    filled : one has completed commands; may be high a clock longer. swept : the boundary of the last sweep, or where they began to wait.
    untracked : there is a queue beyond the tables. last_cq : that of the last CQE.
    qid, sq, cq, size : the queue in hand: a doorbell's, a fetch's; its state; its size in entries.
    count, bits : queues of each kind there is room for; bits of a number of one.
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
        shape = {"base": 64, "size": 17, "link": 16}
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
        """In the present state: the entry of CQ `qid` becomes `cq`."""
        self.cq_state.write(m, qid, entry=cq)

    def emptied(self, m: Module, qid: Value) -> None:
        """In the present state: CQ `qid` has no completed commands."""
        m.d.sync += [self.cq_filled.bit_select(qid, 1).eq(0), self.cq_waiting.bit_select(qid, 1).eq(0)]

    def forget(self, m: Module) -> None:
        """In the present state: there are no queues."""
        m.d.sync += [
            self.sq_valid.eq(0), self.cq_valid.eq(0), self.cq_filled.eq(0), self.cq_waiting.eq(0), self.untracked.eq(0),
        ]  # fmt: skip
