"""Registers behind BAR0, configuration writes, resets and late attach."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from wattbell_spec import wire as spec

from . import tables
from .creation import Creation
from .doorbells import Doorbells
from .identify import Identify
from .insert import Insertion
from .interrupts import Interrupts
from .layouts import ConfigOp
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


class Control:
    """The states of these. `i`: the count of loops over a table; `cfg`: late attach."""

    def __init__(
        self, *, i: Signal, cfg: stream.Interface, tlp: Present, report: Report, settings: Settings, identify: Identify, slots: Slots,
        search: Search, records: Records, queues: Queues, tags: Tags, map_: PageMap, insertion: Insertion, interrupts: Interrupts,
        creation: Creation, doorbells: Doorbells, namespaces: Namespaces,
    ) -> None:  # fmt: skip
        self.i, self._cfg, self.tlp, self.report, self.settings, self.identify = i, cfg, tlp, report, settings, identify
        self.slots, self.search, self.records, self.queues, self.tags, self.map = slots, search, records, queues, tags, map_
        self.insertion, self.interrupts, self.creation, self.doorbells = insertion, interrupts, creation, doorbells
        self.namespaces = namespaces
        self._difference = Signal(65)  # address - BAR0
        self._doorbells_at = Signal(65)
        self._behind = Signal(32)  # address - that of the doorbells
        self._bar_known = Signal()
        self._stride_known = Signal()
        self._stride_told = Signal()  # the event GUESSING/STRIDE was made
        self._cap_waiting = Signal()
        self._cap_tag = Signal(10)
        self._cap_requester = Signal(16)
        self._cap_index = Signal(2)  # word of the completion with CAP.DSTRD
        self._aqa = Signal(32)
        self._asq = Signal(64)
        self._acq = Signal(64)
        self._reg_offset = Signal(12)
        self._reg_left = Signal(11)
        self._reg_read = Signal(14)
        self._reg_word = Signal(32)
        self._reset_cause = Signal(spec.ResetCause)
        self._reset = Subroutine("RESET")

    def connect(self, m: Module) -> None:
        bar0 = self.settings.bar0
        m.d.sync += [self._bar_known.eq(bar0[4:] != 0), self._doorbells_at.eq(bar0 + tables.DOORBELLS)]

    def compare(self, m: Module) -> None:
        """In DISPATCH: where the address lies behind BAR0."""
        address = self.tlp.header.address
        m.d.sync += [self._difference.eq(address - self.settings.bar0), self._behind.eq(address - self._doorbells_at)]

    def clear_step(self, m: Module) -> None:
        """Clear entry `i` of every table that has to be empty.

        Completions of reads from before are no loss: tags start as reads that fitted nothing.
        """
        m.d.comb += [self.map.clear.eq(1), self.map.put_entry.valid.eq(0)]
        self.search.clear(m, self.i)
        self.tags.put(m, self.i, valid=1, kind=tables.TagKind.UNKNOWN, remaining=2047)

    def begin_reset(self, m: Module, cause: spec.ResetCause, tick: Value, back: str) -> None:
        """Forget all that is tracked; what follows carries `tick`. Goes on at `back`."""
        m.d.sync += [self._reset_cause.eq(int(cause)), self.tlp.header.tick.eq(tick), self.i.eq(0)]
        self._reset.call(m, back)

    def states(self, m: Module) -> None:
        tlp, report, settings, slots = self.tlp, self.report, self.settings, self.slots
        queues, doorbells, creation = self.queues, self.doorbells, self.creation
        state = tables.SlotState

        # --- configuration write of BAR0. PCIe: Type 0 Configuration Space Header -------------------------------------
        with m.State(Place.CFGWR):
            merged = Signal(32, name="bar_merged")
            upper = tlp.header.address[0:12] == 0x14
            now = Mux(upper, settings.bar0[32:], settings.bar0[:32])
            for byte in range(4):
                bits = slice(8 * byte, 8 * byte + 8)
                m.d.comb += merged[bits].eq(Mux(tlp.header.first_be[byte], tlp.first[bits], now[bits]))
            m.d.sync += self._reg_word.eq(merged)
            with m.If((tlp.header.address[0:12] == 0x10) & (merged[4:] != 0) & (tlp.first[4:] != 0xFFFFFFF)):
                m.d.sync += settings.bar0[:32].eq(merged & 0xFFFFFFF0)
                m.next = "BAR_CHANGED"
                with m.If((merged & 0xFFFFFFF0) == settings.bar0[:32]):
                    m.next = Place.DONE
            with m.Elif(upper & (merged != now) & (tlp.first != 0xFFFFFFFF)):
                m.d.sync += settings.bar0[32:].eq(merged)
                m.next = "BAR_CHANGED"
            with m.Else():
                m.next = Place.DONE

        with m.State("BAR_CHANGED"):
            tlp.may_finish(m)
            with m.If(settings.bar0[:32] != 0):
                report.event(m, spec.EventType.BAR0, arg32=settings.bar0[12:44])
            tlp.finish(m)

        # --- read of CAP, for the doorbell stride. NVMe: CAP - Controller Capabilities --------------------------------
        with m.State(Place.HOST_MRD):
            tlp.may_finish(m)
            low = (self._difference == tables.CAP) & (tlp.header.length >= 2)
            high = self._difference == tables.CAP + 4
            with m.If(self._bar_known & (low | high)):
                m.d.sync += [
                    self._cap_waiting.eq(1),
                    self._cap_tag.eq(tlp.header.tag),
                    self._cap_requester.eq(tlp.header.requester),
                    self._cap_index.eq(low),
                ]
            tlp.finish(m)

        with m.State(Place.DRIVE_CPLD):
            m.d.comb += tlp.read_index.eq(tlp.start + self._cap_index)
            m.next = "CAP_WORD"
            with m.If(
                ~self._cap_waiting
                | (tlp.header.tag != self._cap_tag)
                | (tlp.header.requester != self._cap_requester)
                | (tlp.header.length <= self._cap_index)
                | ~tlp.header.kept
            ):
                m.next = Place.DONE

        with m.State("CAP_WORD"):
            tlp.may_finish(m)
            m.d.sync += [settings.dstrd.eq(tlp.word[0:4]), self._stride_known.eq(1), self._cap_waiting.eq(0)]
            tlp.finish(m)

        # --- writes of the host. NVMe: CC, AQA, ASQ, ACQ, SQyTDBL, CQyHDBL --------------------------------------------
        with m.State(Place.HOST_MWR):
            number = self._behind >> (settings.dstrd + 2)
            qid = number[1 : 1 + queues.bits]
            aligned = (self._behind[:2] == 0) & ~Cat(self._behind[2 + bit] & (settings.dstrd > bit) for bit in range(15)).any()
            m.d.comb += [queues.shape.ra.eq(Cat(qid, number[0])), queues.sq_state.ra.eq(qid), queues.cq_state.ra.eq(qid)]
            m.d.sync += [
                self._reg_offset.eq(self._difference[:12]),
                self._reg_left.eq(tlp.header.length),
                self._reg_read.eq(tlp.start),
                doorbells.is_cq.eq(number[0]),
                queues.qid.eq(qid),
                doorbells.good.eq(aligned & (number < 2 * queues.count) & (self._difference[32:] == 0)),
            ]
            with m.If(~self._bar_known | ~tlp.header.kept):
                m.next = Place.DONE
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

        with m.State("REGISTER"):
            m.d.comb += tlp.read_index.eq(self._reg_read + 1)
            m.d.sync += [
                self._reg_read.eq(self._reg_read + 1),
                self._reg_offset.eq(self._reg_offset + 4),
                self._reg_left.eq(self._reg_left - 1),
                self._reg_word.eq(tlp.word),
            ]
            m.next = "REGISTER_NEXT"
            with m.Switch(self._reg_offset):
                with m.Case(tables.AQA):
                    m.d.sync += self._aqa.eq(tlp.word)
                with m.Case(tables.ASQ):
                    m.d.sync += self._asq[:32].eq(tlp.word & 0xFFFFF000)
                with m.Case(tables.ASQ + 4):
                    m.d.sync += self._asq[32:].eq(tlp.word)
                with m.Case(tables.ACQ):
                    m.d.sync += self._acq[:32].eq(tlp.word & 0xFFFFF000)
                with m.Case(tables.ACQ + 4):
                    m.d.sync += self._acq[32:].eq(tlp.word)
                with m.Case(tables.CC):
                    m.next = "CC_WRITE"

        with m.State("REGISTER_NEXT"):
            m.next = "REGISTER"
            with m.If(self._reg_left == 0):
                m.next = Place.DONE

        with m.State("CC_WRITE"):
            enable = self._reg_word[0]
            m.d.sync += settings.enabled.eq(enable)
            with m.If(enable == settings.enabled):
                m.next = "REGISTER_REREAD"
            with m.Else():
                report.event(m, spec.EventType.CC_EN, arg8=enable, arg32=self._reg_word)
                self.begin_reset(m, spec.ResetCause.CC_EN, tlp.header.tick, "CC_RESET_DONE")

        with m.State("CC_RESET_DONE"):
            m.next = "REGISTER_REREAD"
            with m.If(settings.enabled):
                m.d.sync += settings.mps.eq(Mux(self._reg_word[7:11] > 4, 4, self._reg_word[7:11]))
                creation.begin(m, "ADMIN_SQ", cq=1, qid=0, base=self._acq, size=self._aqa[16:28] + 1, link=0)

        with m.State("ADMIN_SQ"):
            creation.begin(m, "REGISTER_REREAD", cq=0, qid=0, base=self._asq, size=self._aqa[0:12] + 1, link=0)

        with m.State("REGISTER_REREAD"):  # a write may go on behind CC
            m.d.comb += tlp.read_index.eq(self._reg_read)
            m.next = "REGISTER_NEXT"

        # --- RESET: what is in flight goes out as aborted, every table is emptied. NVMe: Controller Level Reset -------
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
            report.event(m, spec.EventType.TRACKER_RESET, arg8=self._reset_cause)
            for each in (queues, self.interrupts, self.insertion, self.identify, self.namespaces):
                each.forget(m)
            m.d.sync += [settings.shadow.eq(0), settings.dirty.eq(0)]
            with m.If(self._reset_cause == int(spec.ResetCause.PERST)):
                m.d.sync += [
                    settings.bar0.eq(0),
                    settings.enabled.eq(0),
                    self._aqa.eq(0),
                    self._asq.eq(0),
                    self._acq.eq(0),
                    self._cap_waiting.eq(0),
                ]
            self._reset.leave_later(m)

        # --- late attach: ours ----------------------------------------------------------------------------------------
        with m.State(Place.CONFIG):
            c = self._cfg.payload
            m.d.comb += self._cfg.ready.eq(1)
            m.next = Place.IDLE
            with m.Switch(c.op):
                with m.Case(ConfigOp.BAR0):
                    m.d.sync += [settings.bar0.eq(c.address & ~0xF), settings.enabled.eq(1)]
                    m.next = "CONFIG_BAR"
                with m.Case(ConfigOp.STRIDE):
                    m.d.sync += [settings.dstrd.eq(c.size), self._stride_known.eq(1)]
                with m.Case(ConfigOp.PAGE):
                    m.d.sync += settings.mps.eq(Mux(c.size > 4, 4, c.size))
                with m.Case(ConfigOp.SQ, ConfigOp.CQ):
                    m.d.sync += settings.enabled.eq(1)
                    creation.begin(
                        m,
                        "CONFIG_QUEUE",
                        cq=c.op == ConfigOp.CQ,
                        qid=c.qid,
                        base=c.address,
                        size=c.size,
                        link=c.link,
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
        """Behind all states that call a subroutine of this file."""
        self._reset.return_state(m)
