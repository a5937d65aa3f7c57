"""Completion queue entries: the end of a command (NVMe: Completion Queue Entry)."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from wattbell_spec import wire as spec

from ..tlp.parser import KEEP
from . import tables
from .identify import Identify
from .messages import Messages
from .places import Place
from .present import Present
from .queues import Queues
from .records import Records
from .report import Report
from .search import Search
from .settings import Settings
from .slots import Slots

__all__ = ["Completions"]

Flag = spec.CommandFlag


class Completions:
    """The states of a CQE.

    qid : the CQ. done : the command that has completed, of its slot, as the admin commands behind it want it.
    """

    def __init__(
        self,
        *,
        tlp: Present,
        report: Report,
        settings: Settings,
        identify: Identify,
        slots: Slots,
        search: Search,
        records: Records,
        queues: Queues,
        messages: Messages,
        completed: Signal,
        completion: data.View,
    ) -> None:
        self.tlp, self.report, self.settings, self.identify, self.slots = tlp, report, settings, identify, slots
        self.search, self.records, self.queues, self.messages = search, records, queues, messages
        self._completed, self._told = completed, completion
        self.qid = Signal(queues.bits)
        self.done = Signal(data.StructLayout({"lba": 40, "blocks": 32, "prp1": 64, "opcode": 8, "nsid": 16}))
        self._cqe_start = Signal(14)
        self._cqe_left = Signal(11)
        self._cqe_index = Signal(24)
        self._cqe_sqid = Signal(16)
        self._cqe_sq_head = Signal(16)
        self._cqe_cid = Signal(16)
        self._cqe_status = Signal(15)
        self._cqe_phase = Signal()
        self._cqe_slot = Signal(slots.bits)
        self._cqe_guess = Signal()
        self._passed = Signal()  # what the drive has taken of the SQ, with a read that was not seen, is announced no longer
        # From the oldest of these to SQ head and tail, and from tail to head; modulo a clock later.
        self._taken, self._announced, self._beyond = Signal(18), Signal(18), Signal(18)
        self._cqe_tells = Signal()  # the CQ has interrupts
        self._cqe_doubt = Signal()  # its interrupt, or the absence, is a guess
        self._cqe_age = Signal(65)  # from the doorbell to the CQE
        self._cqe_age_known = Signal()

    def connect(self, m: Module) -> None:
        # Told a clock after CQE_APPEND: until then nothing else uses these registers.
        m.d.sync += self._completed.eq(0)
        told, done = self._told, self.done
        m.d.comb += [
            told.tick.eq(self.tlp.header.tick),
            told.latency.eq(
                Mux(self._cqe_age_known & ~self._cqe_age[64], self._cqe_age[:32] | self._cqe_age[32:64].any().replicate(32), 0)
            ),
            told.lba.eq(done.lba),
            told.blocks.eq(done.blocks[:17]),
            told.opcode.eq(done.opcode),
            told.admin.eq(self._cqe_sqid == 0),
            told.error.eq(self._cqe_status[0:11] != 0),
        ]

    def take_queue(self, m: Module) -> None:
        """Find the queue of a CQE in the present state: ``tlp.word`` is double word 2, should the TLP be a CQE."""
        m.d.sync += self._cqe_sq_head.eq(self.tlp.word[0:16])
        m.d.sync += [self._cqe_sqid.eq(self.tlp.word[16:32]), self.search.qid.eq(self.tlp.word[16:32])]

    def take_status(self, m: Module) -> None:
        """The same of double word 3."""
        word = self.tlp.word
        m.d.sync += [
            self._cqe_cid.eq(word[0:16]),
            self._cqe_phase.eq(word[16]),
            self._cqe_status.eq(word[17:32]),
            self.search.cid.eq(word[0:16]),
        ]

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._take_states(m)
        self._found_state(m)
        self._pass_states(m)
        self._append_state(m)
        self._next_states(m)

    def _take_states(self, m: Module) -> None:
        """Build CQE and CQE_STATUS: a write in a page of CQ `qid`. NVMe: Completion Queue Entry (Phase Tag, Status Field)."""
        tlp, report, queues, search = self.tlp, self.report, self.queues, self.search

        with m.State(Place.CQE):  # `cq_state` and `shape` read their entries; double words 2 and 3 are known
            search.look_for(m)
            self.messages.look_up(m, queues.shape.r["link"])
            m.d.sync += [
                queues.cq.eq(queues.cq_state.r["entry"]),
                queues.size.eq(queues.shape.r["size"]),
                self._cqe_index.eq(tlp.header.address[4:28] - queues.shape.r["base"][4:28]),
                self._cqe_tells.eq(queues.shape.r["tells"]),
                # It may come in halves, and with the second one it is there.
                self._cqe_start.eq(tlp.start - Cat(0, tlp.header.address[3])),
                self._cqe_left.eq(tlp.header.length + Cat(0, tlp.header.address[3])),
            ]
            m.next = "CQE_STATUS"

        with m.State("CQE_STATUS"):
            phase = self._cqe_phase
            expected = queues.cq.known & (queues.cq.tail == self._cqe_index)
            m.d.sync += [
                self._cqe_guess.eq(~expected),
                self._passed.eq(0),
                self._cqe_doubt.eq(self._cqe_tells & ~self.messages.sure()),
            ]
            with m.If(
                ~tlp.header.kept
                | ((tlp.header.length > KEEP) & ~self.identify.expected)  # it was kept for no reason but time
                | tlp.header.address[2]
                | tlp.header.length[0]
                | (self._cqe_index >= queues.size)
                | ~queues.cq_valid.bit_select(self.qid, 1)
            ):
                m.d.comb += report.unmatched.eq(1)
                m.next = Place.DONE
            with m.Elif(self._cqe_left < 4):
                m.next = Place.DONE
            with m.Elif((expected & (phase != queues.cq.phase)) | (self._cqe_sqid >= queues.count)):
                m.d.comb += report.unmatched.eq(1)  # the host will not take it for a completion
                m.next = Place.CQE_NEXT
            with m.Else():
                with m.If(queues.cq.known & ~expected):
                    report.event(
                        m,
                        spec.EventType.GUESSING,
                        arg8=int(spec.GuessReason.AFTER_LOSS),
                        arg16=self.qid,
                    )
                wrap = self._cqe_index + 1 == queues.size
                m.d.sync += [
                    queues.cq.known.eq(1),
                    queues.cq.tail.eq(Mux(wrap, 0, self._cqe_index[:16] + 1)),
                    queues.cq.phase.eq(phase ^ wrap),
                    queues.last_cq.eq(self.qid),
                ]
                search.find(m, "CQE_FOUND")

    def _found_state(self, m: Module) -> None:
        """Build CQE_FOUND: the slot of the command, or one for a command without SQE."""
        tlp, report, identify, slots, queues, search = self.tlp, self.report, self.identify, self.slots, self.queues, self.search
        state = tables.SlotState
        untold = self._cqe_tells & ~(self.messages.asserted & self.messages.wires)
        untold &= ~(self.settings.shadow & (self._cqe_sqid != 0))

        with m.State("CQE_FOUND"):
            slot = slots.r
            m.d.sync += [
                self.done.opcode.eq(slot["opcode"]),
                self.done.lba.eq(slot["lba"]),
                self.done.blocks.eq(slot["blocks"]),
                self.done.prp1.eq(slot["prp1"]),
                self.done.nsid.eq(slot["nsid"]),
                self._cqe_age.eq(tlp.header.tick - slot["doorbell"]),
                self._cqe_age_known.eq(tables.known(slot["doorbell"])),  # as in a record
            ]
            guess = Mux(self._cqe_guess, int(Flag.GUESS), 0)
            m.next = "CQE_APPEND"
            with m.If(search.goes_on()):
                search.on(m)
            with m.Elif(search.found):
                search.unlink(m)
                slots.write(
                    m,
                    search.slot,
                    state=state.COMPLETED,
                    cqe=None,
                    status=self._cqe_status,
                    index=self._cqe_index[:16],
                    flags=slot["flags"] | guess,
                    ranges=slot["ranges"],
                    msix=None,
                    guessed=self._cqe_doubt,
                    untold=untold,
                    pages_sure=slot["pages_sure"],
                )
                m.d.comb += slots.w["msix"][-1].eq(1)  # not known yet
                m.d.sync += self._cqe_slot.eq(search.slot)
                with m.If((self._cqe_sqid == 0) & (slot["opcode"] == tables.IDENTIFY) & (identify.count != 0)):
                    m.d.sync += identify.count.eq(identify.count - 1)
                with m.If(self._cqe_sqid == 0):
                    m.d.sync += identify.arm.eq(0)
            with m.Elif(~queues.sq_valid.bit_select(self._cqe_sqid[: queues.bits], 1)):
                m.d.comb += report.unmatched.eq(1)
                m.next = Place.CQE_NEXT
            with m.Elif(~self._passed):
                m.next = "CQE_PASS"
            with m.Elif(slots.has_room(self._cqe_sqid)):
                slots.allocate(
                    m,
                    state=state.COMPLETED,
                    qid=self._cqe_sqid,
                    index=self._cqe_index[:16],
                    flags=int(Flag.NO_SQE) | guess,
                    cid=self._cqe_cid,
                    cqe=None,
                    status=self._cqe_status,
                    guessed=self._cqe_doubt,
                    untold=untold,
                )
                slots.hold(m)
                m.d.sync += [self._cqe_slot.eq(slots.free), search.found.eq(0)]
            with m.Else():
                report.lost(m, spec.LossSource.SLOTS)
                slots.hold(m)
                m.next = Place.CQE_NEXT

    def _pass_states(self, m: Module) -> None:
        """Build CQE_PASS to CQE_PASS_BACK: an SQE was not seen.

        The entries of this SQ that the drive has taken are announced no longer. NVMe: SQ Head Pointer.
        """
        slots, queues = self.slots, self.queues
        sqid = self._cqe_sqid[: queues.bits]
        with m.State("CQE_PASS"):
            queues.save_cq(m, self.qid, queues.cq)
            m.d.comb += [queues.sq_state.ra.eq(sqid), queues.shape.ra.eq(sqid)]
            m.next = "CQE_PASS_SQ"

        with m.State("CQE_PASS_SQ"):
            sq = queues.sq_state.r["entry"]
            m.d.comb += [slots.ra.eq(sq.head), slots.link.ra.eq(sq.head)]
            m.d.sync += [queues.sq.eq(sq), queues.size.eq(queues.shape.r["size"])]
            m.next = "CQE_PASS_LOOK"

        with m.State("CQE_PASS_LOOK"):
            first = slots.r["index"]
            m.d.sync += [self._taken.eq(self._cqe_sq_head - first), self._announced.eq(queues.sq.tail - first)]
            m.d.sync += self._beyond.eq(self._cqe_sq_head - queues.sq.tail)
            m.next = "CQE_PASS_MODULO"

        with m.State("CQE_PASS_MODULO"):
            m.d.sync += [each.eq(queues.modulo(each.as_signed())) for each in (self._taken, self._announced, self._beyond)]
            m.next = "CQE_PASS_STEP"

        with m.State("CQE_PASS_STEP"):
            known = queues.sq.tail_known & (self._cqe_sq_head < queues.size)
            with m.If((queues.sq.count != 0) & known & (self._taken != 0) & (self._taken <= self._announced)):
                slots.let_go(m, queues.sq.head)
                # No TLP was lost since its doorbell, so there was no read.
                with m.If((queues.sq.epoch == self.report.epoch) & ~self.report.told[spec.GuessReason.SQE_PARTS]):
                    self.report.once(m, spec.GuessReason.SQES_UNREAD, self._cqe_sqid)
                m.d.sync += [queues.sq.head.eq(slots.link.r["next"]), queues.sq.count.eq(queues.sq.count - 1)]
                m.d.comb += [slots.ra.eq(slots.link.r["next"]), slots.link.ra.eq(slots.link.r["next"])]
                m.next = "CQE_PASS_LOOK"
            with m.Else():
                sq = Signal(queues.SQ, name="passed_sq")
                m.d.comb += sq.eq(queues.sq)
                # A doorbell was not seen.
                with m.If((queues.sq.count == 0) & known & ((self._beyond << 1) < queues.size)):
                    m.d.comb += sq.tail.eq(self._cqe_sq_head)
                queues.sq_state.write(m, sqid, entry=sq)
                m.d.comb += [queues.cq_state.ra.eq(self.qid), queues.shape.ra.eq(queues.count | self.qid)]
                m.next = "CQE_PASS_BACK"

        with m.State("CQE_PASS_BACK"):
            m.d.sync += [queues.cq.eq(queues.cq_state.r["entry"]), queues.size.eq(queues.shape.r["size"]), self._passed.eq(1)]
            m.next = "CQE_FOUND"

    def _append_state(self, m: Module) -> None:
        """Build CQE_APPEND: the command goes into the list of its CQ."""
        tlp, slots, queues, search = self.tlp, self.slots, self.queues, self.search

        with m.State("CQE_APPEND"):
            tlp.may_finish(m)
            m.d.sync += self._completed.eq(search.found)
            with m.If(self.settings.shadow & (self._cqe_sqid != 0)):
                self.records.begin(m, self._cqe_slot, Place.CQE_NEXT)
            with m.Else():
                longer = Signal(queues.CQ)
                m.d.comb += [longer.eq(queues.cq), longer.last.eq(self._cqe_slot), longer.count.eq(queues.cq.count + 1)]
                m.d.sync += [
                    queues.cq.eq(longer),
                    queues.cq_filled.bit_select(self.qid, 1).eq(1),
                    queues.filled.eq(1),
                ]
                with m.If(self._cqe_tells & ~(self.messages.asserted & self.messages.wires)):
                    m.d.sync += queues.cq_waiting.bit_select(self.qid, 1).eq(1)
                with m.If(~queues.filled):
                    m.d.sync += queues.swept.eq(tlp.header.tick[tables.SWEEP_BITS :])
                with m.If(queues.cq.count == 0):
                    m.d.comb += longer.head.eq(self._cqe_slot)
                with m.Else():
                    slots.link.write(m, queues.cq.last, next=self._cqe_slot)
                with m.If(~queues.cq_waiting.bit_select(self.qid, 1)):
                    m.d.comb += longer.waiting.eq(self._cqe_slot)
                with m.If((self._cqe_sqid == 0) & search.found & (self._cqe_status[0:11] == 0)):
                    m.next = Place.ADMIN_DONE
                with m.Elif(self._cqe_left >= 8):
                    m.next = Place.CQE_NEXT
                with m.Else():
                    queues.save_cq(m, self.qid, longer)
                    with m.If(queues.filled):
                        tlp.finish(m)
                    with m.Else():  # when sweeps are due is known anew
                        tlp.finish_apart(m)

    def _next_states(self, m: Module) -> None:
        """Build CQE_NEXT to CQE_HASH: the next CQE of the write."""
        tlp, queues, search = self.tlp, self.queues, self.search

        with m.State(Place.CQE_NEXT):
            tlp.may_finish(m)
            m.d.sync += [
                self._cqe_start.eq(self._cqe_start + 4),
                self._cqe_left.eq(self._cqe_left - 4),
                self._cqe_index.eq(queues.after(self._cqe_index)),
            ]
            with m.If(self._cqe_left < 8):
                queues.save_cq(m, self.qid, queues.cq)
                tlp.finish(m)
            with m.Else():
                m.next = "CQE_AGAIN"

        with m.State("CQE_AGAIN"):
            m.d.comb += tlp.read_index.eq(self._cqe_start + 2)
            m.next = "CQE_SQ"

        with m.State("CQE_SQ"):
            m.d.comb += tlp.read_index.eq(self._cqe_start + 3)
            self.take_queue(m)
            m.next = "CQE_WORD"

        with m.State("CQE_WORD"):
            self.take_status(m)
            m.next = "CQE_HASH"

        with m.State("CQE_HASH"):
            search.look_for(m)
            m.next = "CQE_STATUS"
