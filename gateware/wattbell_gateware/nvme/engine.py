"""The tracker's engine: one state machine that takes one TLP at a time and keeps every table.

This file takes TLPs, sends each to its first state, and connects the parts:

- in hand: ``present``, the TLP and its end; ``order``, marks and sweeps before it
- the way in: ``headqueue``, headers before they are taken; ``dataway``, the pipeline for data
- the way out: ``report``, events and losses; ``records``, command records
- tables: ``slots`` and ``search``, the store of commands; ``queues``; ``pagemap`` and ``insert``; ``tags``
- registers: ``settings``, the host's settings; ``identify``
- lengths of data: ``namespaces``, their formats; ``lengths``, due lengths by opcode
- states: ``control``, registers behind BAR0, configuration writes, resets, late attach; ``creation`` of queues; ``doorbells``; ``fetch`` of
  submission queue entries, and their completions; ``pages``, data, PRP lists, range lists; ``completions``, CQEs; ``admin``, effects of
  admin commands; ``interrupts``; ``heads``, CQ head doorbells

Each part is a class. Its constructor names every class whose tables, registers and methods the part uses. All states belong to one machine,
so each table has one user at a time, and needs one read port and one write port. A state reaches a state of another file through
``places``, or through a method of that file's class.
Groups of states cite the specifications by titles of sections: "NVMe" is the NVM Express Base Specification 1.4, "PCIe" the PCI
Express Base Specification 3.0.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec import wire as spec

from ..layouts import COMMAND, EVENT
from ..tlp import MERGED, TlpKind
from . import tables
from .admin import AdminStates
from .completions import Completions
from .control import Control
from .creation import Creation
from .dataway import DataWay
from .doorbells import Doorbells
from .fetch import Fetch
from .headqueue import HeadQueue
from .heads import Heads
from .identify import Identify
from .insert import Insertion
from .interrupts import Interrupts
from .layouts import COMPLETION, CONFIG, DONE_BITS, RAW_WORD
from .lengths import Lengths
from .namespaces import Namespaces
from .order import Order
from .pagemap import FULL_SIZE, MapSizes, PageMap
from .pages import Pages
from .places import Place
from .present import Present
from .queues import Queues
from .records import Records
from .report import Report
from .search import Search
from .settings import Settings
from .slots import Slots
from .tags import Tags


class Engine(wiring.Component):
    """Ports between the engine and the tracker around it; the package describes the others.

    Ports
    -----
    tlps : merged headers.
    next_valid : a header is there or follows, and may be held back.
    now : the tick counter. It releases marks, and shows that no older TLP comes. The output does not depend on its clock.
    snapshot : each change asks for a mark.
    marked : high for one clock at a mark; the counters are then those of the mark's tick.
    up : direction of the TLP in hand, and of the payload ring behind the next two ports.
    read_index : double word of the ring to read.
    read_data : that double word, one clock later.
    read_down : the whole beat around that double word, of the host's ring.
    free : pulse: gives back the space of a ring.
    free_up : direction of that ring.
    free_to : end of that space.
    record : a command record of a tick at which ``run`` was high; always taken.
    event : an event, likewise.
    raw : a word of a raw TLP, likewise.
    made_at : low bits of the tick that completed the record, event or word.
    raw_room : words that ``raw`` may still send.
    lose : a pulse for each :class:`spec.LossSource`.
    lose_tick : tick of those losses.
    unmatched : pulse: a TLP fitted nothing.
    armed : asks the parsers to keep long payload, too.
    """

    def __init__(
        self, queues: int, slots: int, margin_ticks: int, *, width: int = 128, sizes: MapSizes = FULL_SIZE, tags: int = tables.TAGS,
    ) -> None:  # fmt: skip
        self._queues, self._slots, self._margin, self._width, self._sizes, self._tags = queues, slots, margin_ticks, width, sizes, tags
        super().__init__(
            {
                "tlps": In(stream.Signature(MERGED)),
                "next_valid": In(1),
                "read_index": Out(14),
                "read_data": In(32),
                "read_down": In(width),
                "up": Out(1),
                "free": Out(1),
                "free_up": Out(1),
                "free_to": Out(14),
                "now": In(64),
                "perst_n": In(1),
                "run": In(1),
                "snapshot": In(1),
                "marked": Out(1),
                "cfg": In(stream.Signature(CONFIG)),
                "record": Out(stream.Signature(COMMAND)),
                "made_at": Out(DONE_BITS),
                "event": Out(stream.Signature(EVENT)),
                "raw": Out(stream.Signature(RAW_WORD)),
                "raw_room": In(16),
                "completed": Out(1),
                "completion": Out(COMPLETION),
                "lose": Out(10),  # pulses, by spec.LossSource
                "lose_tick": Out(64),
                "unmatched": Out(1),
                "armed": Out(1),
                "in_flight": Out(16),
                "bar0": Out(64),
                "dstrd": Out(4),
                "shadow": Out(1),
                "enabled": Out(1),
                "busy": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        i = Signal(17)  # of loops over a table
        key_bits = self._sizes.key_bits

        # --- what there is, and who knows what of it ----------------------------------------------------------------
        tlp = Present(
            key_bits=key_bits, lanes=self._width // 32, up=self.up, read_index=self.read_index, word=self.read_data, beat=self.read_down,
            free=self.free,
        )  # fmt: skip
        settings = Settings(key_bits=key_bits, bar0=self.bar0, dstrd=self.dstrd, enabled=self.enabled, shadow=self.shadow)
        report = Report(tlp, port=self.event, lose=self.lose, lose_tick=self.lose_tick, unmatched=self.unmatched)
        identify = Identify(armed=self.armed)
        namespaces = Namespaces(m)
        lengths = Lengths(namespaces=namespaces)
        queue_bits = (self._queues - 1).bit_length()
        slots = Slots(m, self._slots, queue_bits=queue_bits, report=report)
        search = Search(m, slots=slots, queue_bits=queue_bits)
        queues = Queues(m, self._queues, slot_bits=slots.bits, tick_bits=64 - tables.SWEEP_BITS)
        map_ = PageMap(m, self._sizes, of_bits=max(slots.bits, queues.bits))
        tags = Tags(m, self._tags, slots=slots, queue_bits=queues.bits, tag=tlp.header.tag)
        records = Records(tlp=tlp, report=report, slots=slots, port=self.record)
        insertion = Insertion(tlp=tlp, report=report, settings=settings, slots=slots, map_=map_)
        creation = Creation(report=report, settings=settings, queues=queues, map_=map_, insertion=insertion)
        doorbells = Doorbells(tlp=tlp, report=report, settings=settings, identify=identify, slots=slots, queues=queues)
        fetch = Fetch(
            tlp=tlp, report=report, settings=settings, identify=identify, slots=slots, search=search, records=records, queues=queues,
            tags=tags, insertion=insertion, namespaces=namespaces, lengths=lengths,
        )  # fmt: skip
        completions = Completions(
            tlp=tlp, report=report, settings=settings, identify=identify, slots=slots, search=search, records=records, queues=queues,
            completed=self.completed, completion=self.completion,
        )  # fmt: skip
        admin = AdminStates(
            i=i, report=report, settings=settings, slots=slots, search=search, records=records, queues=queues, creation=creation,
            insertion=insertion, completions=completions, namespaces=namespaces,
        )  # fmt: skip
        interrupts = Interrupts(m, tlp=tlp, report=report, slots=slots, queues=queues, key_bits=key_bits)
        heads = Heads(i=i, tlp=tlp, slots=slots, queues=queues, records=records)
        pages = Pages(
            tlp=tlp, report=report, settings=settings, slots=slots, queues=queues, tags=tags, map_=map_, insertion=insertion, fetch=fetch,
            completions=completions, interrupts=interrupts, namespaces=namespaces, raw=self.raw,
            raw_room=self.raw_room,
        )  # fmt: skip
        control = Control(
            i=i, cfg=self.cfg, tlp=tlp, report=report, settings=settings, identify=identify, slots=slots, search=search, records=records,
            queues=queues, tags=tags, map_=map_, insertion=insertion, interrupts=interrupts, creation=creation, doorbells=doorbells,
            namespaces=namespaces,
        )  # fmt: skip

        m.submodules.heads = head_queue = HeadQueue()
        m.submodules.way = way = DataWay(
            tags.layout, slot_bits=slots.bits, queue_bits=queues.bits, entry_slot_bits=map_.layout["slot"].width, ways=map_.count
        )
        order = Order(i=i, tlp=tlp, queues=queues, control=control, head_queue=head_queue)

        slots.connect(m, in_flight=self.in_flight, tick=tlp.header.tick, length=tlp.header.length)
        settings.connect(m)
        tlp.connect(m, head_queue, tags, free_to=self.free_to, free_up=self.free_up)
        for each in (control, identify, namespaces, lengths, pages, insertion, completions, interrupts, records):
            each.connect(m)
        wiring.connect(m, wiring.flipped(self.tlps), head_queue.i)
        self._connect_way(m, way, tlp, report, slots, tags, map_)
        order.connect(
            m, now=self.now, perst_n=self.perst_n, cfg=self.cfg, snapshot=self.snapshot, margin=self._margin,
            comes=self.tlps.valid,
            follows=self.next_valid,
        )  # fmt: skip
        report.connect(m, run=self.run, now=self.now)
        m.d.comb += [self.deadline.eq(order.deadline), self.made_at.eq(tlp.header.tick), self.busy.eq(1)]

        # Where nothing else is looked up the ways read for the next header already: whether it will be taken is known too late to choose
        # their addresses. What is written most often needs no choice, or a narrow one.
        address = tlp.ahead.header.address
        map_.look_up(m, settings.page_key(address), settings.page_offset(address))
        m.d.comb += [
            map_.put_key.eq(insertion.entry.key),
            map_.put_offset.eq(insertion.entry.start),
            map_.put_entry.eq(insertion.entry),
            map_.clear_place.eq(i),
            tags.w["entry"].eq(tags.present),
        ]
        with m.FSM():
            # --- INIT, IDLE, DISPATCH: one TLP after the other. PCIe: Transaction Layer Protocol - Packet Definition ---
            with m.State("INIT"):
                control.clear_step(m)
                with m.If(i < slots.count):
                    slots.release(m, i[: slots.bits])
                m.d.sync += i.eq(i + 1)
                with m.If(i == tables.ENTRIES - 1):
                    m.next = Place.IDLE

            with m.State(Place.IDLE):
                order.idle(m, busy=self.busy, marked=self.marked)

            with m.State(Place.DATA):
                tlp.may_finish(m)
                pages.compare(m)
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
                        self.free.eq(1), self.free_up.eq(way.up_done), self.free_to.eq(way.end), head_queue.retire.eq(1),
                    ]  # fmt: skip
                with m.If(takes):
                    tlp.accept(m)
                with m.Elif(~way.behind):
                    m.next = Place.IDLE

            with m.State(Place.DONE):  # where it is known too late that nothing is to be done
                tlp.may_finish(m)
                tlp.finish(m)

            with m.State("MALFORMED"):
                report.event(m, spec.EventType.MALFORMED, arg8=self.up)
                m.next = Place.DONE

            with m.State(Place.DISPATCH):
                map_.keep(m)
                # double word 2, should it be a CQE
                m.d.comb += tlp.read_index.eq(Mux(tlp.up, tlp.start + 2, tlp.start))
                with m.If(tlp.header.lost):
                    report.lost_before(m)
                m.d.sync += [tlp.first.eq(tlp.word), tags.present.eq(tags.r["entry"])]
                pages.compare(m)
                control.compare(m)
                with m.Switch(Cat(tlp.up, tlp.header.kind)):
                    for up, kind, place in (
                        (0, TlpKind.CFGWR, Place.CFGWR),
                        (0, TlpKind.MRD, Place.HOST_MRD),
                        (0, TlpKind.MWR, Place.HOST_MWR),
                        (0, TlpKind.CPL, Place.CPL),
                        (1, TlpKind.MRD, Place.PAGE_SELECT),
                        (1, TlpKind.MWR, Place.PAGE_SELECT),
                        (1, TlpKind.CPLD, Place.DRIVE_CPLD),
                    ):
                        with m.Case(up | kind.value << 1):
                            m.next = place
                    with m.Case(0 | TlpKind.CPLD.value << 1):
                        m.next = Place.COMPLETION
                    with m.Default():
                        m.next = Place.DONE
                        with m.If(tlp.header.bad):
                            m.next = "MALFORMED"

            # Whose subroutines are called by others come after them.
            for each in (
                control,
                creation,
                doorbells,
                fetch,
                tags,
                completions,
                admin,
                interrupts,
                heads,
                pages,
                insertion,
                records,
                search,
            ):
                each.states(m)
            for each in (creation, control, tags):
                each.return_states(m)
        tlp.take(m, way.begun, settings)
        return m

    def _connect_way(self, m: Module, way: DataWay, tlp: Present, report: Report, slots: Slots, tags: Tags, map_: PageMap) -> None:
        """The way of data looks at the TLP in hand, its tag, the page map and a slot."""
        m.d.comb += [
            way.header.eq(tlp.header), way.up.eq(tlp.up), way.tag.eq(tags.r["entry"]), way.epoch.eq(report.epoch),
            *(getattr(looked_at, name).eq(getattr(entry, name)) for looked_at, entry in zip(way.ways, map_.entries, strict=True)
              for name in ("kind", "slot", "generation")),
            way.hit.eq(map_.hits.any()), way.choice.eq(map_.best), way.several.eq((map_.hits & (map_.hits - 1)) != 0),
            *(getattr(way.slot, name).eq(slots.r[name]) for name in ("state", "generation", "epoch", "qid", "left")),
            way.slot.first_known.eq(tables.known(slots.r["first_data"])),
        ]  # fmt: skip
