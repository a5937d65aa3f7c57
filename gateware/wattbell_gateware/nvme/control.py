"""Registers behind BAR0, configuration writes, resets and late attach."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from wattbell_spec import wire as spec

from . import tables
from .creation import Creation
from .doorbells import Doorbells
from .hostbuffer import HostBuffer
from .identify import Identify
from .insert import Insertion
from .interrupts import Interrupts
from .layouts import ConfigOp
from .messages import Messages
from .namespaces import Namespaces
from .pagemap import PageMap
from .places import Place
from .present import Present
from .queues import Queues
from .records import Records
from .report import Report
from .search import Search
from .settings import Settings
from .slots import Slots
from .store import Subroutine
from .tags import Tags

__all__ = ["Control"]

_OF_FUNCTION = (spec.ResetCause.PERST, spec.ResetCause.LINK, spec.ResetCause.FLR, spec.ResetCause.D3HOT)
"""Resets of configuration space, too. Until the host writes BAR0 anew, its address of before PERST# alone is forgotten."""


class Control:
    """The states of these. `i`: the count of loops over a table; `cfg`: late attach."""

    def __init__(
        self, *, i: Signal, cfg: stream.Interface, tlp: Present, report: Report, settings: Settings, identify: Identify, slots: Slots,
        search: Search, records: Records, queues: Queues, tags: Tags, map_: PageMap, insertion: Insertion, interrupts: Interrupts,
        creation: Creation, doorbells: Doorbells, namespaces: Namespaces, messages: Messages, host_buffer: HostBuffer,
    ) -> None:  # fmt: skip
        self.i, self._cfg, self.tlp, self.report, self.settings, self.identify = i, cfg, tlp, report, settings, identify
        self.slots, self.search, self.records, self.queues, self.tags, self.map = slots, search, records, queues, tags, map_
        self.insertion, self.interrupts, self.creation, self.doorbells = insertion, interrupts, creation, doorbells
        self.namespaces, self.messages, self.host_buffer = namespaces, messages, host_buffer
        self._difference = Signal(65)  # address - BAR0
        self._doorbells_at = Signal(65)
        self._behind = Signal(32)  # address - that of the doorbells
        self._bar_known = Signal()
        self._stride_known = Signal()
        self._stride_told = Signal()  # the event GUESSING/STRIDE was made
        # A read of CAP, CC or CSTS that the drive has yet to answer.
        self._asked, self._asked_cc, self._asked_csts = Signal(), Signal(), Signal()
        self._tag, self._requester = Signal(10), Signal(16)
        self._index = Signal(2)  # word of the completion with CAP.DSTRD, CC or CSTS
        self._notified = Signal(2)  # CC.SHN as last written
        self._shutdown = Signal(2)  # CSTS.SHST as last read
        self._csts = Signal(32)
        self._csts_tick, self._csts_known = Signal(64), Signal()  # when the drive last answered with it
        self._csts_age = Signal(64)
        self._aqa = Signal(32)
        self._asq = Signal(64)
        self._acq = Signal(64)
        self._reg_offset = Signal(12)
        self._left = Signal(11)  # double words of the write that are not done
        self._read = Signal(14)  # where the one in hand is
        self._enables = Signal(4)  # its bytes that are written
        self._reset_cause = Signal(spec.ResetCause)
        self._reset = Subroutine("RESET")

    def connect(self, m: Module) -> None:
        bar0 = self.settings.bar0
        m.d.sync += [self._bar_known.eq(bar0[4:] != 0), self._doorbells_at.eq(bar0 + tables.DOORBELLS)]

    def compare(self, m: Module) -> None:
        """Note, in DISPATCH, the distance of the address from BAR0."""
        header, address = self.tlp.header, self.tlp.header.address
        m.d.sync += [self._left.eq(header.length), self._read.eq(self.tlp.start), self._enables.eq(header.first_be)]
        m.d.sync += [self._difference.eq(address - self.settings.bar0), self._behind.eq(address - self._doorbells_at)]

    def _merged(self, before: Value, word: Value) -> Value:
        """Return the double word `before` with its enabled bytes taken from `word`."""
        return Cat(Mux(self._enables[k], word.word_select(k, 8), before.word_select(k, 8)) for k in range(4))

    def _step(self, m: Module) -> None:
        """Go on to the next double word of the write, in the present state; ``tlp.word`` has it in the next clock."""
        m.d.comb += self.tlp.read_index.eq(self._read + 1)
        m.d.sync += [
            self._read.eq(self._read + 1),
            self._left.eq(self._left - 1),
            self._enables.eq(Mux(self._left == 2, self.tlp.header.last_be, 0xF)),
        ]

    def clear_step(self, m: Module) -> None:
        """Clear entry `i` of every table that has to be empty.

        Completions of reads from before are no loss: tags start as reads that fitted nothing.
        """
        m.d.comb += [self.map.clear.eq(1), self.map.put_entry.valid.eq(0)]
        self.search.clear(m, self.i)
        self.tags.put(m, self.i, valid=1, kind=tables.TagKind.UNKNOWN, remaining=2047)

    def _reset_is_of(self, *causes: spec.ResetCause) -> Value:
        return Cat(self._reset_cause == int(cause) for cause in causes).any()

    def begin_reset(self, m: Module, cause: spec.ResetCause, tick: Value, back: str) -> None:
        """Forget all that is tracked; what follows carries `tick`. Goes on at `back`."""
        m.d.sync += [self._reset_cause.eq(int(cause)), self.tlp.header.tick.eq(tick), self.i.eq(0)]
        self._reset.call(m, back)

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._bar_states(m)
        self._answer_states(m)
        self._write_states(m)
        self._register_states(m)
        self._enable_states(m)
        self._reset_states(m)
        self._attach_states(m)

    def _bar_states(self, m: Module) -> None:
        """Build CFGWR and BAR_CHANGED, a configuration write of BAR0; FLR and D3HOT, resets of the function.

        PCIe: Type 0 Configuration Space Header; Function Level Reset; Power Management Control/Status Register.
        """
        tlp, report, settings = self.tlp, self.report, self.settings

        with m.State(Place.CFGWR):
            merged = Signal(32, name="bar_merged")
            self.messages.ask_otherwise(m)
            upper = tlp.header.address[0:19] == 0x14
            now = Mux(upper, settings.bar0[32:], settings.bar0[:32])
            m.d.comb += merged.eq(self._merged(now, tlp.first))
            m.next = Place.DONE
            is_bar, target = (tlp.header.address[0:19] == 0x10) | upper, tlp.header.address[16:32]
            with m.If(settings.is_other(target)):
                m.d.sync += settings.other_functions.eq(1)
            with m.If(is_bar & settings.is_other(target)):
                pass  # a BAR of another function
            with m.Elif((tlp.header.address[0:19] == 0x10) & (merged[4:] != 0) & (tlp.first[4:] != 0xFFFFFFF)):
                m.d.sync += settings.bar0[:32].eq(merged & 0xFFFFFFF0)
                with m.If((merged & 0xFFFFFFF0) != settings.bar0[:32]):
                    settings.follow(m, target)
                    m.next = "BAR_CHANGED"
            with m.Elif(upper & (merged != now) & (tlp.first != 0xFFFFFFFF)):
                m.d.sync += settings.bar0[32:].eq(merged)
                settings.follow(m, target)
                m.next = "BAR_CHANGED"
            with m.Else():
                m.next = Place.CFGWR_MESSAGE

        with m.State("BAR_CHANGED"):
            tlp.may_finish(m)
            with m.If(settings.bar0[:32] != 0):
                report.event(m, spec.EventType.BAR0, arg32=settings.bar0[12:44])
            tlp.finish(m)

        with m.State(Place.FLR):
            self.begin_reset(m, spec.ResetCause.FLR, tlp.header.tick, Place.DONE)

        with m.State(Place.D3HOT):
            self.begin_reset(m, spec.ResetCause.D3HOT, tlp.header.tick, Place.DONE)

    def _answer_states(self, m: Module) -> None:
        """Build HOST_MRD to UNSEEN: reads of CAP, for the doorbell stride, of CC and of CSTS; resets that were missed.

        NVMe: CAP - Controller Capabilities; CC - Controller Configuration; CSTS - Controller Status.
        """
        tlp, settings = self.tlp, self.settings

        with m.State(Place.HOST_MRD):
            tlp.may_finish(m)
            self.messages.ask_otherwise(m)
            both = tlp.header.length >= 2
            of_cap = ((self._difference == tables.CAP) & both) | (self._difference == tables.CAP + 4)
            of_cc = ((self._difference == tables.CC - 4) & both) | (self._difference == tables.CC)
            of_csts = ((self._difference == tables.CSTS - 4) & both) | (self._difference == tables.CSTS)
            # A question waits for its answer; CAP matters most, then CC.
            cap_waits = self._asked & ~self._asked_cc & ~self._asked_csts
            cc_waits = self._asked & self._asked_cc
            with m.If(self._bar_known & (of_cap | (of_cc & ~cap_waits) | (of_csts & ~cap_waits & ~cc_waits))):
                m.d.sync += [
                    self._asked.eq(1),
                    self._asked_cc.eq(of_cc),
                    self._asked_csts.eq(of_csts),
                    self._tag.eq(tlp.header.tag),
                    self._requester.eq(tlp.header.requester),
                    self._index.eq(Cat(self._difference == first for first in (tables.CAP, tables.CC - 4, tables.CSTS - 4)).any()),
                ]
            tlp.finish(m)

        with m.State(Place.DRIVE_CPLD):
            m.d.comb += tlp.read_index.eq(tlp.start + Mux(self.messages.answers(), 0, self._index))
            m.next = "REGISTER_ANSWER"
            with m.If(
                ~self._asked
                | (tlp.header.tag != self._tag)
                | (tlp.header.requester != self._requester)
                | (tlp.header.length <= self._index)
                | ~tlp.header.kept
            ):
                m.next = Place.DONE
            with m.If(self.messages.answers()):
                m.next = Place.CFGRD_DATA

        with m.State("REGISTER_ANSWER"):
            tlp.may_finish(m)
            m.d.sync += self._asked.eq(0)
            m.d.sync += [self._csts.eq(tlp.word), self._csts_age.eq(tlp.header.tick - self._csts_tick)]
            with m.If(self._asked_csts):
                m.next = "SHUTDOWN_STATUS"
            with m.Elif(self._asked_cc & settings.enabled & ~tlp.word[0]):
                m.next = "UNSEEN"
            with m.Else():
                with m.If(~self._asked_cc):
                    m.d.sync += [settings.dstrd.eq(tlp.word[0:4]), self._stride_known.eq(1)]
                tlp.finish(m)

        with m.State("SHUTDOWN_STATUS"):  # NVMe: CSTS - Controller Status, SHST
            tlp.may_finish(m)
            age = Mux(self._csts_known & (self._csts_age[32:] == 0), self._csts_age[:32], 0xFFFFFFFF)
            with m.If(~self._csts.all()):  # a drive that is gone reads as ones
                m.d.sync += [self._shutdown.eq(self._csts[2:4]), self._csts_tick.eq(tlp.header.tick), self._csts_known.eq(1)]
                with m.If(self._csts[2:4] != self._shutdown):
                    self.report.event(m, spec.EventType.SHUTDOWN_STATUS, arg8=self._csts[2:4], arg32=age)
            tlp.finish(m)

        with m.State(Place.OVERRUN):
            m.d.sync += settings.enabled.eq(0)
            self.begin_reset(m, spec.ResetCause.UNSEEN, tlp.header.tick, "OVERRUN_DONE")

        with m.State("OVERRUN_DONE"):  # a write may go on behind the doorbell
            tlp.may_finish(m)
            tlp.finish_word(m)

        with m.State("UNSEEN"):
            m.d.sync += settings.enabled.eq(0)
            self.begin_reset(m, spec.ResetCause.UNSEEN, tlp.header.tick, Place.DONE)

    # --- writes of the host. NVMe: CC, AQA, ASQ, ACQ, SQyTDBL, CQyHDBL ------------------------------------------------
    # A double word after the other. NVMe, Property Access, lets a host write whole ones, one at a time; PCIe allows more.

    def _write_states(self, m: Module) -> None:
        """Build HOST_MWR to DOORBELL_WORD: whether a double word is of a register, of a doorbell or of the MSI-X table."""
        tlp, report, settings, queues, doorbells = self.tlp, self.report, self.settings, self.queues, self.doorbells

        with m.State(Place.HOST_MWR):
            number = self._behind >> (settings.dstrd + 2)
            qid = number[1 : 1 + queues.bits]
            aligned = (self._behind[:2] == 0) & ~Cat(self._behind[2 + bit] & (settings.dstrd > bit) for bit in range(15)).any()
            there = aligned & (number < 2 * queues.count) & (self._difference[32:] == 0)
            m.d.comb += [queues.shape.ra.eq(Cat(qid, number[0])), queues.sq_state.ra.eq(qid), queues.cq_state.ra.eq(qid)]
            m.d.sync += [
                self._reg_offset.eq(self._difference[:12]),
                tlp.first.eq(self._merged(Const(0, 32), tlp.first)),
                tlp.more.eq(self._left != 1),
                doorbells.is_cq.eq(number[0]),
                queues.qid.eq(qid),
                doorbells.good.eq(there & self._enables[0] & self._enables[1]),
                doorbells.half.eq(there & (self._enables[0] ^ self._enables[1])),
            ]
            with m.If(~self._bar_known | ~tlp.header.kept):
                m.next = Place.DONE
            with m.Elif((self._difference[32:] == 0) & self.messages.in_table()):
                m.next = Place.MESSAGE_TABLE
            with m.Elif(self._difference[12:] == 0):
                m.next = "REGISTER"
            with m.Elif(~self._stride_known & ~self._stride_told):
                m.next = "STRIDE"
            with m.Else():
                m.next = Place.DOORBELL

        with m.State("STRIDE"):  # `shape`, `sq_state` and `cq_state` read on
            with m.If(doorbells.good):
                m.d.sync += self._stride_told.eq(1)
                report.event(m, spec.EventType.GUESSING, arg8=int(spec.GuessReason.STRIDE), arg16=queues.qid)
            m.next = Place.DOORBELL

        with m.State(Place.DOORBELL_NEXT):
            self._step(m)
            m.d.sync += self._behind.eq(self._behind + 4)
            m.next = "DOORBELL_WORD"

        with m.State("DOORBELL_WORD"):
            m.d.sync += tlp.first.eq(tlp.word)
            m.next = Place.HOST_MWR

    def _register_states(self, m: Module) -> None:
        """Build REGISTER to REGISTER_NEXT: a double word of a register."""
        tlp, settings = self.tlp, self.settings

        with m.State("REGISTER"):
            self._step(m)
            m.d.sync += self._reg_offset.eq(self._reg_offset + 4)
            m.next = "REGISTER_NEXT"
            for offset, register in (
                (tables.AQA, self._aqa),
                (tables.ASQ, self._asq[:32]),
                (tables.ASQ + 4, self._asq[32:]),
                (tables.ACQ, self._acq[:32]),
                (tables.ACQ + 4, self._acq[32:]),
                (tables.CC, settings.cc),
            ):
                with m.If(self._reg_offset == offset):
                    m.d.sync += register.eq(self._merged(register, tlp.word))
            # An enabled controller's AQA, ASQ and ACQ are not to be modified: it was reset meanwhile.
            with m.If((self._reg_offset >= tables.AQA) & (self._reg_offset < tables.ACQ + 8) & settings.enabled & self._enables.any()):
                m.next = "UNSEEN_SETUP"
            with m.If(self._reg_offset == tables.CC):
                m.next = "CC_WRITE"

        with m.State("UNSEEN_SETUP"):
            m.d.sync += settings.enabled.eq(0)
            self.begin_reset(m, spec.ResetCause.UNSEEN, tlp.header.tick, "REGISTER_REREAD")

        with m.State("REGISTER_NEXT"):
            m.next = "REGISTER"
            with m.If(self._left == 0):
                m.next = Place.DONE

    def _enable_states(self, m: Module) -> None:
        """Build CC_WRITE to REGISTER_REREAD: a change of CC.EN, and the admin queues."""
        tlp, report, settings, creation = self.tlp, self.report, self.settings, self.creation

        with m.State("CC_WRITE"):
            enable = settings.cc[0]
            m.d.sync += settings.enabled.eq(enable)
            with m.If(self._asked_cc):
                m.d.sync += self._asked.eq(0)  # the answer may be older than the write
            with m.If(enable == settings.enabled):
                m.next = "REGISTER_REREAD"
                m.d.sync += self._notified.eq(settings.cc[14:16])
                with m.If((settings.cc[14:16] != self._notified) & (settings.cc[14:16] != 0)):  # NVMe: CC, SHN
                    report.event(m, spec.EventType.SHUTDOWN, arg8=settings.cc[14:16], arg32=settings.cc)
            with m.Else():
                report.event(m, spec.EventType.CC_EN, arg8=enable, arg32=settings.cc)
                self.begin_reset(m, spec.ResetCause.CC_EN, tlp.header.tick, "CC_RESET_DONE")

        with m.State("CC_RESET_DONE"):
            m.next = "REGISTER_REREAD"
            with m.If(settings.enabled):
                m.d.sync += settings.mps.eq(Mux(settings.cc[7:11] > 4, 4, settings.cc[7:11]))
                creation.begin(m, "ADMIN_SQ", cq=1, qid=0, base=self._acq & ~0xFFF, size=self._aqa[16:28] + 1, link=0, tells=1)

        with m.State("ADMIN_SQ"):
            creation.begin(m, "REGISTER_REREAD", cq=0, qid=0, base=self._asq & ~0xFFF, size=self._aqa[0:12] + 1, link=0)

        with m.State("REGISTER_REREAD"):  # a write may go on behind CC
            m.d.comb += tlp.read_index.eq(self._read)
            m.next = "REGISTER_NEXT"

    def _reset_states(self, m: Module) -> None:
        """Build RESET to RESET_FORGET: commands in flight go out as aborted, every table is emptied. NVMe: Controller Level Reset."""
        report, settings, slots, queues = self.report, self.settings, self.slots, self.queues
        state = tables.SlotState

        with m.State("RESET"):
            m.d.comb += slots.ra.eq(self.i)
            self.identify.stay(m)
            m.next = "RESET_SLOT"
            with m.If(self.i == tables.ENTRIES):
                m.next = "RESET_DONE"
            with m.If((self.i == 0) & ~settings.dirty):
                m.next = "RESET_DONE"

        with m.State("RESET_SLOT"):
            self.clear_step(m)
            with m.If(self._reset_is_of(*_OF_FUNCTION)):
                self.messages.clear(m, self.i)
            m.d.sync += self.i.eq(self.i + 1)
            m.next = "RESET"
            with m.If((self.i < slots.count) & (slots.r["state"] != state.FREE)):
                self.records.begin(
                    m,
                    self.i[: slots.bits],
                    "RESET",
                    aborted=slots.r["state"] != state.COMPLETED,
                )

        with m.State("RESET_DONE"):
            m.next = "RESET_FORGET"
            with m.If(slots.unheld != 0):
                report.lost(m, spec.LossSource.SLOTS)
                slots.hold(m)
                m.next = "RESET_DONE"

        with m.State("RESET_FORGET"):
            report.event(m, spec.EventType.TRACKER_RESET, arg8=self._reset_cause)
            for each in (queues, self.interrupts, self.insertion, self.identify, self.namespaces, self.host_buffer):
                each.forget(m)
            slots.forget_ousted(m)
            m.d.sync += [self._notified.eq(0), self._shutdown.eq(0), self._csts_known.eq(0)]
            m.d.sync += [each.eq(0) for each in (settings.shadow, settings.dirty, settings.translated, settings.unsized)]
            m.d.sync += self.messages.asserted.eq(0)
            with m.If(self._reset_is_of(*_OF_FUNCTION)):
                self.messages.reset(m)
                m.d.sync += [
                    settings.enabled.eq(0),
                    settings.cc.eq(0),
                    self._aqa.eq(0),
                    self._asq.eq(0),
                    self._acq.eq(0),
                    self._asked.eq(0),
                ]
            with m.If(self._reset_is_of(spec.ResetCause.PERST)):
                m.d.sync += [settings.bar0.eq(0), settings.function_known.eq(0), settings.other_functions.eq(0)]
                m.d.sync += [settings.reads_ahead.eq(0), settings.spaces.eq(0)]
            self._reset.leave_later(m)

    def _attach_states(self, m: Module) -> None:
        """Build CONFIG, CONFIG_BAR and CONFIG_QUEUE: late attach (ours)."""
        tlp, report, settings, creation = self.tlp, self.report, self.settings, self.creation

        with m.State(Place.CONFIG):
            c = self._cfg.payload
            m.d.comb += self._cfg.ready.eq(1)
            m.next = Place.IDLE
            with m.Switch(c.op):
                with m.Case(ConfigOp.BAR0):
                    m.d.sync += [settings.bar0.eq(c.address & ~0xF), settings.enabled.eq(1), settings.cc[0].eq(1)]
                    m.next = "CONFIG_BAR"
                with m.Case(ConfigOp.STRIDE):
                    m.d.sync += [settings.dstrd.eq(c.size), self._stride_known.eq(1)]
                with m.Case(ConfigOp.PAGE):
                    m.d.sync += settings.mps.eq(Mux(c.size > 4, 4, c.size))
                with m.Case(ConfigOp.SQ, ConfigOp.CQ):
                    m.d.sync += [settings.enabled.eq(1), settings.cc[0].eq(1)]
                    with m.If((c.op == ConfigOp.SQ) & (settings.cc[16:20] == 0)):
                        m.d.sync += settings.unsized.eq(1)
                    creation.begin(
                        m,
                        "CONFIG_QUEUE",
                        cq=c.op == ConfigOp.CQ,
                        qid=c.qid,
                        base=c.address,
                        size=c.size,
                        link=c.link,
                        tells=1,
                        guess=1,
                    )
                with m.Case(ConfigOp.SHADOW):
                    m.d.sync += settings.shadow.eq(c.size[0])
                with m.Case(ConfigOp.RESET):
                    self.begin_reset(m, spec.ResetCause.COMMAND, tlp.header.tick, Place.IDLE)

        with m.State("CONFIG_BAR"):
            report.event(m, spec.EventType.BAR0, arg32=settings.bar0[12:44])
            m.next = Place.IDLE

        with m.State("CONFIG_QUEUE"):
            with m.If(~creation.is_cq):
                report.event(
                    m,
                    spec.EventType.GUESSING,
                    arg8=int(spec.GuessReason.LATE_ATTACH),
                    arg16=creation.qid,
                )
            m.next = Place.IDLE

    def return_states(self, m: Module) -> None:
        """Build the states that return; after all states that call a subroutine of this file."""
        self._reset.return_state(m)
