"""Release of completed commands, by CQ head doorbells and by age."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal

from ..deadlines import reached
from . import tables
from .places import Place
from .present import Present
from .queues import Queues
from .records import Records
from .slots import Slots

__all__ = ["Heads"]


class Heads:
    """The states of both kinds of release. `i`: the count of loops over a table."""

    def __init__(self, *, i: Signal, tlp: Present, slots: Slots, queues: Queues, records: Records) -> None:
        self.i, self.tlp, self.slots, self.queues, self.records = i, tlp, slots, queues, records
        self._release_left = Signal(17)
        self._age = Signal(32)  # of the oldest completion
        self._behind = Signal(18)  # from the oldest completed command's place to the tail; modulo the queue's size a clock later

    def states(self, m: Module) -> None:
        tlp, slots, queues, records = self.tlp, self.slots, self.queues, self.records

        # --- CQ head doorbell: NVMe: CQyHDBL ----------------------------
        # Its record is made on the way to knowing whether the oldest completed command is released.
        with m.State(Place.CQ_DOORBELL):  # `slots` and `link` read it
            tlp.may_finish(m)
            m.d.sync += [
                self._release_left.eq(queues.modulo(queues.cq.tail - tlp.first[:16])),
                self._behind.eq(queues.cq.tail - slots.r["index"]),
            ]
            records.prepare(m, queues.cq.head, head=1)
            with m.If((tlp.first >= queues.size) | (queues.cq.count == 0)):
                tlp.finish_word(m)
            with m.Else():
                m.next = "CQ_LOAD"

        with m.State("CQ_NEXT"):  # so that records are four clocks apart at the least, as `RecordQueue` needs
            m.d.comb += [slots.ra.eq(queues.cq.head), slots.link.ra.eq(queues.cq.head)]
            m.next = "CQ_LOOK"

        with m.State("CQ_LOOK"):
            m.d.sync += self._behind.eq(queues.cq.tail - slots.r["index"])
            records.prepare(m, queues.cq.head, head=1)
            m.next = "CQ_LOAD"

        with m.State("CQ_LOAD"):
            m.d.sync += self._behind.eq(queues.modulo(self._behind.as_signed()))
            records.load(m)
            m.next = "CQ_RELEASE"

        with m.State("CQ_RELEASE"):
            tlp.may_finish(m)
            shorter = Signal(queues.CQ, name="shorter_cq")
            m.d.comb += shorter.eq(queues.cq)
            with m.If((self._behind == 0) | (self._behind > self._release_left)):
                m.d.comb += [shorter.count.eq(queues.cq.count - 1), shorter.head.eq(slots.link.r["next"])]
                with m.If(queues.cq.waiting == queues.cq.head):
                    m.d.comb += shorter.waiting.eq(slots.link.r["next"])
                records.push(m, queues.cq.head)
                m.next = "CQ_NEXT"
                with m.If(queues.cq.count == 1):
                    queues.emptied(m, queues.qid)
                    queues.save_cq(m, queues.qid, shorter)
                    tlp.finish_word(m)
            with m.Else():
                queues.save_cq(m, queues.qid, queues.cq)
                tlp.finish_word(m)
            m.d.sync += queues.cq.eq(shorter)

        # --- sweep: completed commands whose doorbell does not come: ours ---------------------------------------------
        with m.State(Place.SWEEP):
            m.d.comb += queues.cq_state.ra.eq(self.i)
            m.d.sync += queues.qid.eq(self.i)
            m.next = "SWEEP_LOAD"
            with m.If(self.i == queues.count):
                m.d.sync += queues.swept.eq(tlp.header.tick[tables.SWEEP_BITS :])
                m.next = Place.IDLE

        with m.State("SWEEP_LOAD"):
            m.d.sync += [queues.cq.eq(queues.cq_state.r["entry"]), self.i.eq(self.i + 1)]
            m.next = Place.SWEEP
            with m.If(queues.cq_filled.bit_select(queues.qid, 1)):
                m.next = "SWEEP_NEXT"

        with m.State("SWEEP_NEXT"):
            m.d.comb += [slots.ra.eq(queues.cq.head), slots.link.ra.eq(queues.cq.head)]
            m.next = "SWEEP_AGE"

        with m.State("SWEEP_AGE"):
            m.d.sync += self._age.eq(tlp.header.tick - slots.r["cqe"])
            m.next = "SWEEP_ENTRY"

        with m.State("SWEEP_ENTRY"):
            with m.If((queues.cq.count != 0) & reached(self._age, Const(tables.SWEEP_AGE, 32))):
                m.d.sync += [queues.cq.count.eq(queues.cq.count - 1), queues.cq.head.eq(slots.link.r["next"])]
                with m.If(queues.cq.waiting == queues.cq.head):
                    m.d.sync += queues.cq.waiting.eq(slots.link.r["next"])
                records.begin(m, queues.cq.head, "SWEEP_NEXT")
            with m.Else():
                with m.If(queues.cq.count == 0):
                    queues.emptied(m, queues.qid)
                queues.save_cq(m, queues.qid, queues.cq)
                m.next = Place.SWEEP
