"""Doorbells: commands that an SQ tail announces. (``heads`` has the releases by a CQ head.)"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from wattbell_spec import wire as spec

from . import tables
from .identify import Identify
from .places import Place
from .present import Present
from .queues import Queues
from .report import Report
from .settings import Settings
from .slots import Slots

__all__ = ["Doorbells"]

Flag = spec.CommandFlag


class Doorbells:
    """The doorbell of ``queues.qid`` that was written.

    is_cq : it is a CQ's.
    good : there is such a doorbell, and both bytes of its position are enabled.
    half : there is such a doorbell, and one byte of its position is enabled.
    """

    def __init__(self, *, tlp: Present, report: Report, settings: Settings, identify: Identify, slots: Slots, queues: Queues) -> None:
        self.tlp, self.report, self.settings, self.identify, self.slots, self.queues = tlp, report, settings, identify, slots, queues
        self.is_cq = Signal()
        self.good = Signal()
        self.half = Signal()
        self.flags = Signal(8)
        self._left = Signal(17)
        self._index = Signal(16)
        self._known = Signal()  # where in the queue it begins
        # From the tail to the oldest announced command, if the tail is known and there is such a command; modulo the queue's size.
        self._gap, self._waits = Signal(17), Signal()

    def states(self, m: Module) -> None:
        tlp, report, slots, queues = self.tlp, self.report, self.slots, self.queues

        # --- NVMe: SQyTDBL, CQyHDBL; Queue Size: head and tail -----------------
        with m.State(Place.DOORBELL):  # `shape`, `sq_state` and `cq_state` read their entries
            tlp.may_finish(m)
            head = Mux(self.is_cq, queues.cq_state.r["entry"].head, queues.sq_state.r["entry"].head)
            m.d.comb += [slots.ra.eq(head), slots.link.ra.eq(head)]
            m.d.sync += [
                queues.sq.eq(queues.sq_state.r["entry"]),
                queues.cq.eq(queues.cq_state.r["entry"]),
                queues.size.eq(queues.shape.r["size"]),
            ]
            with m.If(self.good & self.is_cq & queues.cq_valid.bit_select(queues.qid, 1)):
                m.next = Place.CQ_DOORBELL
            with m.Elif(self.good & ~self.is_cq & queues.sq_valid.bit_select(queues.qid, 1) & ~(self.settings.shadow & (queues.qid != 0))):
                m.next = "SQ_DOORBELL"
            with m.Else():
                # Half a position: which one it is then, the drive alone knows.
                m.d.comb += report.unmatched.eq(self.half)
                tlp.finish_word(m)

        with m.State("SQ_DOORBELL"):
            value = tlp.first[:16]
            stale = queues.sq.epoch != report.epoch
            position = Mux(queues.sq.tail_known, queues.sq.tail, queues.sq.fetch)
            known = queues.sq.tail_known | queues.sq.fetch_known
            before = Mux(value == 0, queues.size - 1, value - 1)
            m.d.sync += [
                self._left.eq(Mux(known, queues.modulo(value - position), 1)),
                self._index.eq(Mux(known, position, before)),
                self._known.eq(known),
                self._gap.eq(queues.modulo(slots.r["index"] - queues.sq.tail)),
                self._waits.eq(queues.sq.tail_known & (queues.sq.count != 0)),
                self.flags.eq(Mux(stale | ~queues.sq.tail_known, int(Flag.GUESS), 0)),
            ]
            m.next = "SQ_TAIL"

        with m.State("SQ_TAIL"):
            tlp.may_finish(m)
            stale = queues.sq.epoch != report.epoch
            # A doorbell that was lost and comes when it is sent again is older than the last one: more than half the queue ahead, which
            # no driver goes at once, let alone after a loss. (If one does, its commands are known from their fetch on.)
            # Where SQEs may be larger, an entry's read may have counted as another's.
            unsized = self.settings.unsized & (queues.qid != 0)
            overtaken = stale & self._known & ((self._left << 1) > queues.size)
            m.d.sync += [
                queues.sq.tail.eq(tlp.first),
                queues.sq.tail_known.eq(1),
                queues.sq.rung.eq(1),
                queues.sq.epoch.eq(report.epoch),
            ]
            # The drive has read beyond the first doorbell that is seen: it was announced, or read ahead, and is known from its fetch on.
            with m.If(~queues.sq.tail_known & self._known & ((self._left << 1) > queues.size)):
                m.d.sync += self._left.eq(0)
            with m.If(stale):
                report.event(
                    m,
                    spec.EventType.GUESSING,
                    arg8=int(spec.GuessReason.AFTER_LOSS),
                    arg16=queues.qid,
                )
            with m.If((tlp.first >= queues.size) | overtaken):
                tlp.finish_word(m)  # too great a value the drive will refuse too
            # A host writes over no entry that the drive has not read. So the drive reads elsewhere: a reset was missed.
            with m.Elif(self._waits & ~stale & ~unsized & (self._left != 0) & (self._left >= self._gap)):
                m.next = Place.OVERRUN
            with m.Else():
                m.next = "SQ_ANNOUNCE"

        with m.State("SQ_ANNOUNCE"):
            tlp.may_finish(m)
            longer = Signal(queues.SQ, name="longer_sq")
            m.d.comb += longer.eq(queues.sq)
            m.d.sync += [
                self._left.eq(self._left - 1),
                self._index.eq(queues.after(self._index)),
                queues.sq.eq(longer),
            ]
            with m.If(self._left != 0):
                with m.If(slots.has_room(queues.qid)):
                    slots.allocate(
                        m,
                        state=tables.SlotState.ANNOUNCED,
                        qid=queues.qid,
                        index=self._index,
                        flags=self.flags,
                        doorbell=None,
                    )
                    m.d.comb += [
                        self.identify.announced.eq(queues.qid == 0),
                        longer.last.eq(slots.free),
                        longer.count.eq(queues.sq.count + 1),
                    ]
                    with m.If(queues.sq.count == 0):
                        m.d.comb += longer.head.eq(slots.free)
                    with m.Else():
                        slots.link.write(m, queues.sq.last, next=slots.free)
                with m.Else():
                    slots.unhold(m)
            with m.If(self._left[1:] == 0):  # of which the last, or none, is announced
                queues.sq_state.write(m, queues.qid, entry=longer)
                tlp.finish_word(m)
