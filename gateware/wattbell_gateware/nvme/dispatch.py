"""Dispatch: takes one TLP after the other, and sends each to its first state."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from wattbell_spec import wire as spec

from ..tlp import TlpKind
from . import tables
from .control import Control
from .dataway import DataWay
from .headqueue import HeadQueue
from .messages import Messages
from .order import Order
from .pagemap import PageMap
from .pages import Pages
from .places import Place
from .present import Present
from .report import Report
from .settings import Settings
from .slots import Slots
from .tags import Tags

__all__ = ["Dispatch"]


class Dispatch:
    """The states INIT, IDLE, DATA, DISPATCH and DONE. PCIe: Transaction Layer Protocol - Packet Definition.

    `i`: the count of loops over a table; `busy`, `marked`, `free`, `free_side`, `free_to`: ports of the engine.
    """

    def __init__(
        self,
        *,
        i: Signal,
        busy: Signal,
        marked: Signal,
        free: Signal,
        free_side: Signal,
        free_to: Signal,
        tlp: Present,
        report: Report,
        settings: Settings,
        slots: Slots,
        tags: Tags,
        map_: PageMap,
        messages: Messages,
        pages: Pages,
        control: Control,
        head_queue: HeadQueue,
        way: DataWay,
        order: Order,
    ) -> None:
        self.i, self._busy, self._marked, self._free, self._free_side, self._free_to = i, busy, marked, free, free_side, free_to
        self.tlp, self.report, self.settings, self.slots, self.tags, self.map = tlp, report, settings, slots, tags, map_
        self.messages, self.pages, self.control, self.head_queue, self.way, self.order = messages, pages, control, head_queue, way, order

    def states(self, m: Module) -> None:
        """Build all states of this file."""
        self._idle_states(m)
        self._data_state(m)
        self._end_states(m)
        self._dispatch_state(m)
        self._foreign_state(m)

    def _idle_states(self, m: Module) -> None:
        """Build INIT and IDLE: every table is emptied once; then the engine waits for a TLP, a mark or a sweep."""
        with m.State("INIT"):
            self.control.clear_step(m)
            with m.If(self.i < self.slots.count):
                self.slots.release(m, self.i[: self.slots.bits])
            m.d.sync += self.i.eq(self.i + 1)
            with m.If(self.i == tables.ENTRIES - 1):
                m.next = Place.IDLE

        with m.State(Place.IDLE):
            self.order.idle(m, busy=self._busy, marked=self._marked)

    def _data_state(self, m: Module) -> None:
        """Build DATA: TLPs in the way of data, one a clock."""
        tlp, slots, tags, way, head_queue = self.tlp, self.slots, self.tags, self.way, self.head_queue

        with m.State(Place.DATA):
            tlp.may_finish(m)
            self.pages.compare(m)
            m.d.comb += [slots.ra.eq(way.slot_at), slots.wa.eq(way.see_slot)]
            m.d.comb += [tags.wa.eq(way.count_tag), tags.w["entry"].eq(way.counted), tags.we["entry"].eq(way.count)]
            with m.If(way.see):
                slots.write(m, way.see_slot, last_data=None, left=way.see_left)
            with m.If(way.see_first):
                slots.write(m, way.see_slot, first_data=None)
            m.d.comb += [slots.w[name].eq(way.see_tick) for name in ("first_data", "last_data")]
            m.d.sync += tags.present.eq(tags.r["entry"])
            # Whether the next one is taken does not wait for what the tag says.
            takes = Signal(name="data_takes")
            m.d.comb += takes.eq(head_queue.ahead.valid & ~tlp.held & (tlp.is_data | ~way.behind) & ~way.odd & ~way.may_be_other)
            with m.If(way.may_be_other):
                m.d.comb += tlp.read_index.eq(tlp.start)
            with m.If(way.other):
                m.d.comb += head_queue.retire.eq(1)
                m.next = Place.COMPLETION
            with m.Elif(way.odd):
                m.d.comb += head_queue.rewind.eq(1)
                m.d.sync += tlp.odd.eq(1)
                m.next = Place.IDLE
            with m.Elif(way.done):
                m.d.comb += [
                    self._free.eq(1),
                    self._free_side.eq(way.up_done),
                    self._free_to.eq(way.end),
                    head_queue.retire.eq(1),
                ]
            with m.If(takes):
                tlp.accept(m)
            with m.Elif(~way.behind):
                m.next = Place.IDLE

    def _end_states(self, m: Module) -> None:
        """Build DONE and MALFORMED."""
        tlp, tags = self.tlp, self.tags

        with m.State(Place.DONE):  # where it is known too late that nothing is to be done
            tlp.may_finish(m)
            tlp.finish(m)

        with m.State("MALFORMED"):
            self.map.keep(m)
            self.report.event(m, spec.EventType.MALFORMED, arg8=tlp.up, arg16=tlp.header.why)
            m.next = Place.DONE
            # A poisoned TLP moves data, and what it says is not used. PCIe: Error Forwarding
            with m.If(tlp.up & (tlp.header.kind == TlpKind.MWR)):
                m.next = Place.PAGE_SELECT
            with m.If(~tlp.up & (tlp.header.kind == TlpKind.CPLD)):
                m.next = Place.COMPLETION
                with m.If(tags.present.valid & tags.of_pointers()):
                    m.next = Place.CPL

    def _dispatch_state(self, m: Module) -> None:
        """Build DISPATCH: the first state of a TLP follows from its direction and kind."""
        tlp, tags = self.tlp, self.tags

        with m.State(Place.DISPATCH):
            self.map.keep(m)
            # double word 2, should it be a CQE, or the second half of one
            m.d.comb += tlp.read_index.eq(tlp.start + Cat(0, tlp.up & ~tlp.header.address[3]))
            with m.If(tlp.header.lost):
                self.report.lost_before(m)
                self.slots.forget_ousted(m)
                self.messages.lose(m, tlp.up)
            m.d.sync += [tlp.first.eq(tlp.word), tags.present.eq(tags.r["entry"])]
            self.pages.compare(m)
            self.control.compare(m)
            self.messages.compare(m)
            with m.Switch(Cat(tlp.up, tlp.header.kind)):
                for up, kind, place in (
                    (0, TlpKind.CFGRD, Place.CFGRD),
                    (0, TlpKind.CFGWR, Place.CFGWR),
                    (0, TlpKind.MRD, Place.HOST_MRD),
                    (0, TlpKind.MWR, Place.HOST_MWR),
                    (0, TlpKind.CPL, Place.CPL),
                    (1, TlpKind.MRD, Place.PAGE_SELECT),
                    (1, TlpKind.MWR, Place.PAGE_SELECT),
                    (1, TlpKind.CPLD, Place.DRIVE_CPLD),
                    (1, TlpKind.MSG, Place.WIRE),
                ):
                    with m.Case(up | kind.value << 1):
                        m.next = place
                with m.Case(0 | TlpKind.CPLD.value << 1):
                    m.next = Place.COMPLETION
                with m.Default():
                    m.next = Place.DONE
            with m.If(tlp.header.bad):
                m.next = "MALFORMED"
            with m.If(tlp.foreign):
                m.next = "FOREIGN"

    def _foreign_state(self, m: Module) -> None:
        """Build FOREIGN: a second function behind the link. PCIe: Transaction ID."""
        tlp, report = self.tlp, self.report

        with m.State("FOREIGN"):
            m.d.comb += report.unmatched.eq(1)
            m.d.sync += self.settings.other_functions.eq(1)
            report.once(m, spec.GuessReason.SECOND_FUNCTION, tlp.header.requester)
            m.next = Place.DONE
