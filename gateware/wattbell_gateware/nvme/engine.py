"""The tracker's engine: one state machine that takes one TLP at a time and keeps every table.

This file connects the parts:

- in hand: ``present``, the TLP and its end; ``order``, marks and sweeps before it
- the way in: ``headqueue``, headers before they are taken; ``dataway``, the pipeline for data
- the way out: ``report``, events and losses; ``records``, command records
- tables: ``slots`` and ``search``, the store of commands; ``queues``; ``pagemap`` and ``insert``; ``tags``
- registers: ``settings``, the host's settings; ``identify``; ``messages``, the host's interrupt messages
- memory that hosts describe: ``descriptors`` of scatter gather lists; ``hostbuffer``, the host memory buffer
- lengths of data: ``namespaces``, their formats; ``lengths``, due lengths by opcode
- states: ``dispatch``, the first state of each TLP; ``control``, registers behind BAR0, configuration writes, resets, late attach;
  ``messages``, accesses that set up messages; ``creation`` of queues; ``doorbells``; ``fetch`` of submission queue entries, and their
  completions; ``pages``, data, PRP lists, range lists; ``completions``, CQEs; ``admin``, effects of admin commands; ``interrupts``;
  ``heads``, CQ head doorbells

Each part is a class. Its constructor names every class whose tables, registers and methods the part uses. All states belong to one machine,
so each table has one user at a time, and needs one read port and one write port. A state reaches a state of another file through
``places``, or through a method of that file's class.
Groups of states cite the specifications by titles of sections: "NVMe" is the NVM Express Base Specification 1.4, "PCIe" the PCI
Express Base Specification 3.0.
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..layouts import COMMAND, EVENT
from ..tlp import MERGED, TlpKind
from . import tables
from .admin import AdminStates
from .completions import Completions
from .control import Control
from .creation import Creation
from .dataway import DataWay
from .descriptors import Descriptors
from .dispatch import Dispatch
from .doorbells import Doorbells
from .fetch import Fetch
from .headqueue import HeadQueue
from .heads import Heads
from .hostbuffer import HostBuffer
from .identify import Identify
from .insert import Insertion
from .interrupts import Interrupts
from .layouts import COMPLETION, CONFIG, DONE_BITS, RAW_WORD
from .lengths import Lengths
from .messages import Messages
from .namespaces import Namespaces
from .order import Order
from .pagemap import FULL_SIZE, MapSizes, PageMap
from .pages import Pages
from .present import Present
from .queues import Queues
from .records import Records
from .report import Report
from .search import Search
from .settings import Settings
from .slots import Slots
from .tags import Tags


class Engine(wiring.Component):
    """Ports between the engine and the tracker around it; :class:`.tracker.NvmeTracker` explains the others.

    Ports
    -----
    tlps : merged headers.
    next_valid : a header is there or follows, and may be held back.
    now : the tick counter. It releases marks, and shows that no older TLP comes. The output does not depend on its clock.
    snapshot : each change asks for a mark.
    marked : high for one clock at a mark; the counters then belong to the mark's tick.
    up : direction of the TLP in hand, and of the payload ring behind the next two ports.
    read_index : double word of the ring to read.
    read_data : that double word, one clock later.
    host_beat : the whole beat around that double word, of the host's ring.
    free : pulse: gives back the space of a ring.
    free_side : direction of that ring.
    free_to : end of that space.
    record : a command record of a tick at which ``run`` was high; always taken.
    event : an event, likewise.
    raw : a word of a raw TLP, likewise.
    made_at : low bits of the tick that completed the record, event or word.
    raw_room : words that ``raw`` may still send.
    lose : a pulse for each :class:`spec.LossSource`.
    lose_tick : tick of those losses.
    unmatched : pulse: a TLP fitted nothing.
    hmb : pulse: a TLP is in the host memory buffer.
    reads : at both: the TLP is a read.
    length : at ``hmb``: its double words.
    armed : asks the parsers to keep long payload, too.
    """

    def __init__(
        self,
        queues: int,
        slots: int,
        margin_ticks: int,
        *,
        width: int = 128,
        sizes: MapSizes = FULL_SIZE,
        tags: int = tables.TAGS,
    ) -> None:
        self._queues, self._slots, self._margin, self._width, self._sizes, self._tags = queues, slots, margin_ticks, width, sizes, tags
        super().__init__(
            {
                "tlps": In(stream.Signature(MERGED)),
                "next_valid": In(1),
                "read_index": Out(14),
                "read_data": In(32),
                "host_beat": In(width),
                "up": Out(1),
                "free": Out(1),
                "free_side": Out(1),
                "free_to": Out(14),
                "now": In(64),
                "perst_n": In(1),
                "unlinked": In(1),
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
                "hmb": Out(1),
                "reads": Out(1),
                "length": Out(11),
                "armed": Out(1),
                "in_flight": Out(17),
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
            key_bits=key_bits,
            lanes=self._width // 32,
            up=self.up,
            read_index=self.read_index,
            word=self.read_data,
            beat=self.host_beat,
            free=self.free,
        )
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
        messages = Messages(m, tlp=tlp, settings=settings)
        host_buffer = HostBuffer(m, tlp=tlp, report=report, settings=settings, tags=tags, key_bits=key_bits, used=self.hmb)
        records = Records(tlp=tlp, report=report, slots=slots, settings=settings, port=self.record)
        insertion = Insertion(tlp=tlp, report=report, settings=settings, slots=slots, map_=map_)
        descriptors = Descriptors(
            tlp=tlp,
            report=report,
            settings=settings,
            slots=slots,
            tags=tags,
            insertion=insertion,
            host_buffer=host_buffer,
        )
        creation = Creation(report=report, settings=settings, queues=queues, map_=map_, insertion=insertion)
        doorbells = Doorbells(tlp=tlp, report=report, settings=settings, identify=identify, slots=slots, queues=queues)
        fetch = Fetch(
            tlp=tlp,
            report=report,
            settings=settings,
            identify=identify,
            slots=slots,
            search=search,
            records=records,
            queues=queues,
            tags=tags,
            insertion=insertion,
            namespaces=namespaces,
            lengths=lengths,
            host_buffer=host_buffer,
            descriptors=descriptors,
        )
        completions = Completions(
            tlp=tlp,
            report=report,
            settings=settings,
            identify=identify,
            slots=slots,
            search=search,
            records=records,
            queues=queues,
            messages=messages,
            completed=self.completed,
            completion=self.completion,
        )
        admin = AdminStates(
            i=i,
            report=report,
            settings=settings,
            slots=slots,
            search=search,
            records=records,
            queues=queues,
            creation=creation,
            insertion=insertion,
            completions=completions,
            namespaces=namespaces,
            host_buffer=host_buffer,
        )
        interrupts = Interrupts(m, tlp=tlp, report=report, slots=slots, queues=queues, messages=messages, key_bits=key_bits)
        heads = Heads(i=i, tlp=tlp, slots=slots, queues=queues, records=records)
        pages = Pages(
            tlp=tlp,
            report=report,
            settings=settings,
            slots=slots,
            queues=queues,
            tags=tags,
            map_=map_,
            insertion=insertion,
            fetch=fetch,
            completions=completions,
            interrupts=interrupts,
            namespaces=namespaces,
            host_buffer=host_buffer,
            descriptors=descriptors,
            raw=self.raw,
            raw_room=self.raw_room,
        )
        control = Control(
            i=i,
            cfg=self.cfg,
            tlp=tlp,
            report=report,
            settings=settings,
            identify=identify,
            slots=slots,
            search=search,
            records=records,
            queues=queues,
            tags=tags,
            map_=map_,
            insertion=insertion,
            interrupts=interrupts,
            creation=creation,
            doorbells=doorbells,
            namespaces=namespaces,
            messages=messages,
            host_buffer=host_buffer,
        )

        m.submodules.heads = head_queue = HeadQueue()
        m.submodules.way = way = DataWay(
            tags.layout, slot_bits=slots.bits, queue_bits=queues.bits, entry_slot_bits=map_.layout["slot"].width, ways=map_.count
        )
        order = Order(i=i, tlp=tlp, queues=queues, control=control, head_queue=head_queue)
        dispatch = Dispatch(
            i=i,
            busy=self.busy,
            marked=self.marked,
            free=self.free,
            free_side=self.free_side,
            free_to=self.free_to,
            tlp=tlp,
            report=report,
            settings=settings,
            slots=slots,
            tags=tags,
            map_=map_,
            messages=messages,
            pages=pages,
            control=control,
            head_queue=head_queue,
            way=way,
            order=order,
        )

        slots.connect(m, in_flight=self.in_flight, tick=tlp.header.tick, length=tlp.header.length)
        settings.connect(m)
        tlp.connect(m, head_queue, tags, free_to=self.free_to, free_side=self.free_side)
        for each in (control, identify, namespaces, lengths, messages, pages, insertion, completions, interrupts, records, host_buffer):
            each.connect(m)
        wiring.connect(m, wiring.flipped(self.tlps), head_queue.i)
        self._connect_way(m, way, tlp, report, slots, tags, map_, pages)
        order.connect(
            m,
            now=self.now,
            perst_n=self.perst_n,
            unlinked=self.unlinked,
            cfg=self.cfg,
            snapshot=self.snapshot,
            margin=self._margin,
            comes=self.tlps.valid,
            follows=self.next_valid,
        )
        report.connect(m, run=self.run, now=self.now)
        m.d.comb += [self.reads.eq(tlp.header.kind == TlpKind.MRD), self.length.eq(tlp.header.length)]
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
            # Whose subroutines are called by others come after them.
            for own in (
                dispatch,
                control,
                messages,
                creation,
                doorbells,
                fetch,
                tags,
                completions,
                admin,
                interrupts,
                heads,
                pages,
            ):
                own.states(m)
            descriptors.states(m, done="COMPLETION_COUNT")
            for called in (insertion, host_buffer, records, search):
                called.states(m)
            for returning in (creation, control, tags, host_buffer):
                returning.return_states(m)
        tlp.take(m, way.begun, settings)
        return m

    def _connect_way(
        self, m: Module, way: DataWay, tlp: Present, report: Report, slots: Slots, tags: Tags, map_: PageMap, pages: Pages
    ) -> None:
        """The way of data looks at the TLP in hand, its tag, the page map and a slot."""
        m.d.comb += [
            way.header.eq(tlp.header),
            way.up.eq(tlp.up),
            way.foreign.eq(tlp.foreign),
            way.tag.eq(tags.r["entry"]),
            way.epoch.eq(report.epoch),
            *(
                getattr(looked_at, name).eq(getattr(entry, name))
                for looked_at, entry in zip(way.ways, map_.entries, strict=True)
                for name in ("kind", "doubtful", "slot", "generation")
            ),
            way.hit.eq(map_.hits.any()),
            way.choice.eq(map_.best),
            way.several.eq((map_.hits & (map_.hits - 1)) != 0),
            way.claimed.eq((map_.covers & ~map_.best).any()),
            way.far.eq(pages.is_far()),
            *(getattr(way.slot, name).eq(slots.r[name]) for name in ("state", "generation", "epoch", "qid", "left")),
            way.slot.takes.eq(slots.r["opcode"][1]),
            way.slot.first_known.eq(tables.known(slots.r["first_data"])),
        ]
