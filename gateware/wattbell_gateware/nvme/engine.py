"""The tracker's engine: one state machine that takes one TLP at a time and keeps every table.

This file holds the registers and tables, takes TLPs from the merge and sends each to where it is understood:

- ``headqueue``, ``dataway``: headers before they are taken, and the pipeline for those of data, which changes nothing before its end
- ``control``: registers behind BAR0, configuration writes, resets, late attach
- ``queues``: queues and their pages, doorbells
- ``fetch``: reads of submission queue entries and their completions
- ``pages``: the map of host pages, data spans, PRP lists, range lists; ``insert``: its entries
- ``completions``: CQEs; ``admin``: what admin commands change; ``interrupts``; ``heads``: CQ head doorbells
- ``emit``: command records, slots, the search for a command

Every other file adds states to the same machine, so tables have one user at a time and need one read and one write port.
What only its own states use stands in its ``Registers``; what others use too is declared on the engine.
Groups of states name what they follow by the titles of its sections: "NVMe" is the NVM Express Base Specification 1.4, "PCIe" the PCI
Express Base Specification 3.0.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from wattbell_spec import wire as spec

from ..layouts import COMMAND, EVENT
from ..tlp import HEADER, MERGED
from ..tlp import Kind as Tlp
from . import admin, completions, control, emit, fetch, heads, insert, interrupts, pages, queues, tables
from .dataway import DataWay
from .headqueue import HeadQueue
from .layouts import COMPLETION, CONFIG, DONE_BITS, RAW_WORD
from .marks import Marks
from .pagemap import FULL_SIZE, MapSizes, PageMap
from .store import Subroutine, Table


class Engine(wiring.Component):
    """The ports that are not the tracker's (see the package).

    Ports
    -----
    tlps : merged headers.
    next_valid : a header is there or follows, and may be held back.
    now : the tick counter: for marks, and to know that nothing older comes. What is made does not depend on when that is.
    snapshot, marked : each change of the one is a mark, at which the other is high for a clock: the counters are those of its tick.
    up : direction of the present TLP, and of its payload ring, which the next two are of.
    read_index, read_data : a double word of it, one clock later. read_down : all of the beat of the host's ring that it is in.
    free, free_up, free_to : the space of that direction's ring up to there is given back.
    record, event, raw : what is made, of ticks at which ``run`` was high; always taken. made_at : low bits of the tick that completed it.
    raw_room : words of ``raw`` that fit.
    lose, lose_tick : pulses, by :class:`spec.LossSource`, and their tick.
    unmatched : pulse: a TLP fitted nothing.
    armed : long payload is wanted, too.
    """

    def __init__(
        self, queues_: int, slots: int, margin_ticks: int, *, width: int = 128, sizes: MapSizes = FULL_SIZE, tags: int = tables.TAGS,
    ) -> None:  # fmt: skip
        self.margin, self.lanes = margin_ticks, width // 32
        self.map_sizes, self.key_bits, self.tag_count = sizes, sizes.key_bits, tags
        self.queues = queues_
        self.slot_count = slots
        self.slot_bits = (slots - 1).bit_length()
        self.queue_bits = (queues_ - 1).bit_length()
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

    # --- what the files of states share ---------------------------------------------------------------------------

    def make_event(self, m: Module, type_: spec.EventType, *, tick=None, arg8=0, arg16=0, arg32=0) -> None:
        """In the present state. Without `tick` it is that of the TLP."""
        p = self.event.payload
        if tick is not None:
            m.d.comb += p.tick.eq(tick)
        m.d.comb += [
            self.event.valid.eq(self.wanted),
            p.type.eq(int(type_)),
            p.arg8.eq(arg8),
            p.arg16.eq(arg16),
            p.arg32.eq(arg32),
        ]

    def lost(self, m: Module, source: spec.LossSource) -> None:
        m.d.comb += [self.lose[int(source)].eq(1), self.lose_tick.eq(self.h.tick)]

    def may_finish(self, m: Module) -> None:
        """In a state that may :meth:`finish`: the next TLP's tag and payload are read, whether it is taken or not, as it is known too late
        to choose their addresses by it. (Its place in the page map is, in every state that looks up nothing else.)"""
        m.d.comb += [self.tags.ra.eq(self.head.header.tag), self.read_index.eq(self.heads.ahead.payload.start)]

    def finish(self, m: Module) -> None:
        """Done with the TLP in `h`: on to the next. Only in a state that begins with :meth:`may_finish`."""
        m.d.comb += self.free.eq(1)
        m.next = "IDLE"
        with m.If(self.heads.ahead.valid & ~self.held):
            self.accept(m)

    def finish_apart(self, m: Module) -> None:
        """The same where what the state does may say that something else comes before the next TLP."""
        m.d.comb += self.free.eq(1)
        m.next = "IDLE"

    def accept(self, m: Module) -> None:
        """Take the next TLP. Only in a state that begins with :meth:`may_finish`."""
        m.d.comb += self.accepts.eq(1)
        m.next = "DISPATCH"
        with m.If(self.is_data):
            m.next = "DATA"

    def _accept(self, m: Module) -> None:
        """What :meth:`accept` does, the same from every state: built once."""
        head, address = self.heads.ahead.payload, self.head.header.address
        m.d.comb += [self.heads.all_taken.eq(~self.is_data), self.heads.ahead.ready.eq(self.accepts)]
        m.d.sync += self.way.begun.eq(self.accepts & self.is_data)
        with m.If(self.accepts):
            m.d.sync += [
                self.odd.eq(0), self.up.eq(self.head.up), self.h.eq(self.head.header), self.h_start.eq(head.start),
                self.h_total.eq(head.total), self.h_key.eq(self.page_key(address)), self.h_offset.eq(self.page_offset(address)),
            ]  # fmt: skip

    def write_tag(self, m: Module, tag: Value, **values) -> None:
        """In the present state: the entry of `tag` becomes `t` but for `values`."""
        m.d.comb += [self.tags.we["entry"].eq(1), self.tags.wa.eq(tag)]
        m.d.comb += [self.tags.w["entry"][field].eq(value) for field, value in values.items()]

    def page_key(self, address: Value) -> Value:
        """Page number of a byte address, for the memory page size in use (at most 64 KiB)."""
        return Cat((address[12 + bit] & ~self.in_page[bit] for bit in range(4)), address[16 : 12 + self.key_bits])

    def page_offset(self, address: Value) -> Value:
        """Offset in its page, in double words."""
        return Cat(address[2:12], (address[12 + bit] & self.in_page[bit] for bit in range(4)))

    def page_size(self) -> Value:
        """In double words."""
        return (1 << (self.mps + 10))[:15]

    def hash(self, qid: Value, cid: Value) -> Value:
        return (cid[0:10] ^ Cat(cid[10:16], 0, 0, 0, 0) ^ Cat(0, 0, 0, 0, qid[0:6]))[:10]

    def modulo(self, difference: Value, size: Value) -> Value:
        """`difference` of two queue positions, -size < difference < size, modulo size."""
        return Mux(difference[-1], difference + size, difference)[:17]

    def elaborate(self, _platform) -> Module:
        m = Module()
        sb, qb = self.slot_bits, self.queue_bits
        slot_id, queue_id = unsigned(sb), unsigned(qb)

        # --- tables ---------------------------------------------------------------------------------------------
        tick = unsigned(64)
        self.slots = Table(
            m,
            "slots",
            self.slot_count,
            {
                "state": tables.SlotState,
                "generation": 16,
                "epoch": 16,
                "qid": queue_id,
                "index": 16,
                "flags": 8,
                "doorbell": tick,
                "fetch": tick,
                "first_data": tick,
                "last_data": tick,
                "cqe": tick,
                "msix": tick,
                "opcode": 8,
                "cid": 16,
                "status": 16,
                "nsid": 16,
                "lba": 40,
                "blocks": 32,
                "prp1": 64,
                "ranges": 10,
                "ranges_expected": 9,
                "pages_sure": 17,
            },
            together=(
                ("doorbell", "generation", "epoch", "qid"),
                ("opcode", "cid", "nsid", "prp1", "ranges_expected", "pages_sure"),
                ("lba", "blocks"),
                ("flags", "ranges"),
                ("cqe", "status", "index"),
            ),
        )
        self.link = Table(m, "link", self.slot_count, {"next": slot_id})
        self.CHAIN = chain = data.StructLayout({"valid": 1, "slot": slot_id})
        self.hash_head = Table(m, "hash_head", 1024, {"entry": chain})
        self.hash_next = Table(m, "hash_next", self.slot_count, {"entry": chain})

        self.SQ = data.StructLayout(
            {
                "tail": 16,
                "tail_known": 1,
                "fetch": 16,
                "fetch_known": 1,
                "head": slot_id,
                "last": slot_id,
                "count": 11,
                "epoch": 16,
            }
        )
        self.CQ = data.StructLayout(
            {
                "tail": 16,
                "known": 1,
                "phase": 1,
                "head": slot_id,
                "last": slot_id,
                "count": 11,
                "waiting": slot_id,  # first completed command whose interrupt has not come
                "epoch": 16,
            }
        )
        shape = {"base": 64, "size": 17, "link": 16}
        self.shape = Table(m, "shape", 2 * self.queues, shape, together=[tuple(shape)])  # of SQs, then of CQs
        self.sq_state = Table(m, "sq_state", self.queues, {"entry": self.SQ})
        self.cq_state = Table(m, "cq_state", self.queues, {"entry": self.CQ})
        self.sq_valid = Signal(self.queues)
        self.cq_valid = Signal(self.queues)
        self.cq_filled = Signal(self.queues)  # has completed commands
        self.cq_waiting = Signal(self.queues)  # has completed commands without interrupt

        self.PAGE = data.StructLayout(
            {
                "valid": 1,
                "key": self.key_bits,
                "start": 14,  # in double words
                "kind": 3,
                "slot": max(sb, qb),
                "generation": 16,
                "index": 14,  # of the list entry (8 bytes) at `start`
                "doubtful": 1,  # it may be that the command does not use this
            }
        )
        self.map = PageMap(m, self.PAGE, self.map_sizes)

        self.TAG = data.StructLayout(
            {
                "valid": 1,
                "kind": tables.TagKind,
                "slot": slot_id,
                "generation": 16,
                "qid": queue_id,
                "index": 16,  # of the next SQE in its queue; of the next 8 bytes of a list
                "place": 13,  # in its page, of the next 8 bytes of a list
                "left": 11,  # slots that still wait for their SQE
                "remaining": 11,  # double words still to come
            }
        )
        # The next header's tag may be that whose entry is written in the clock in which it is accepted.
        self.tags = Table(m, "tags", self.tag_count, {"entry": self.TAG}, transparent=True)

        m.submodules.free_slots = self.free_slots = SyncFIFOBuffered(width=sb, depth=self.slot_count)
        self.free_slot = Signal(slot_id)
        self.slot_free = Signal()
        m.d.comb += [
            self.free_slot.eq(self.free_slots.r_data),
            self.slot_free.eq(self.free_slots.r_rdy),
            self.in_flight.eq(Mux(self.ready_once(m), self.slot_count - self.free_slots.level, 0)),
        ]

        # --- registers ------------------------------------------------------------------------------------------
        self.h = Signal(HEADER)
        self.h_start, self.h_total = Signal(14), Signal(11)
        self.h_key, self.h_offset = Signal(self.key_bits), Signal(14)
        self.accepts = Signal()
        self.odd = Signal()  # the next TLP was in the way of data, where it does not belong
        self.filled = Signal()  # a queue has completed commands; may be high a clock longer
        self.is_data = Signal()  # the next TLP goes there
        self.held = Signal()  # something else comes before the next TLP, or may
        self.wanted = Signal()  # what the TLP, mark or sweep of `h.tick` makes is
        self.epoch = Signal(16)  # moves on when bus data was lost
        self.loss_seen = Signal()
        self.loss_tick = Signal(64)
        self.serial = Signal(16)  # generation of the next slot
        self.mps = Signal(3)
        self.in_page = Signal(4)  # which of the bits from 12 on of an address are of an offset in its page
        m.d.comb += self.in_page.eq(Cat(self.mps > bit for bit in range(4)))
        self.first = Signal(32)  # double word of the payload, from the clock after DISPATCH on
        self.i = Signal(17)  # of loops over a table
        self.word = self.read_data
        read_held = Signal(14)
        m.d.sync += read_held.eq(self.read_index)
        m.d.comb += [self.read_index.eq(read_held), self.free_to.eq(self.h.end), self.free_up.eq(self.up)]
        m.d.comb += self.lose_tick.eq(self.h.tick)

        # --- subroutines ------------------------------------------------------------------------------------------
        self.emit = Subroutine("EMIT")
        self.find = Subroutine("FIND")
        self.insert = Subroutine("INSERT")
        self.span = Subroutine("SPAN")
        self.reclaim = Subroutine("RECLAIM")
        self.create = Subroutine("CREATE")
        self.unmap = Subroutine("UNMAP")
        self.reset = Subroutine("RESET")
        self.own: dict[type, object] = {}  # of each file, by its class of them: registers that no other file uses
        for file in (control, queues, fetch, pages, insert, completions, interrupts, heads, emit):
            file.declare(m, self)

        # --- data -----------------------------------------------------------------------------------------------------
        m.submodules.heads = self.heads = HeadQueue()
        wiring.connect(m, wiring.flipped(self.tlps), self.heads.i)
        self.head = self.heads.ahead.payload.merged
        m.submodules.way = way = self.way = DataWay(
            self.TAG, slot_bits=sb, queue_bits=qb, entry_slot_bits=self.PAGE["slot"].width, ways=self.map.count
        )
        m.d.comb += [
            way.header.eq(self.h), way.up.eq(self.up), way.tag.eq(self.tags.r["entry"]), way.epoch.eq(self.epoch),
            *(getattr(looked_at, name).eq(getattr(entry, name)) for looked_at, entry in zip(way.ways, self.map.entries, strict=True)
              for name in ("kind", "slot", "generation")),
            way.hit.eq(self.hits.any()), way.choice.eq(self.map.best), way.several.eq((self.hits & (self.hits - 1)) != 0),
            *(getattr(way.slot, name).eq(self.slots.r[name]) for name in ("state", "generation", "epoch", "qid")),
            way.slot.first_known.eq(tables.known(self.slots.r["first_data"])),
            self.is_data.eq(self.heads.ahead.payload.may_be_data & ~self.odd),
        ]  # fmt: skip

        # --- what is not a TLP, and where it belongs among them ------------------------------------------------------
        # A mark comes behind the TLPs up to its tick, and a sweep at its boundary before those from then on: so what is made is a function
        # of ticks. That no older TLP comes is known when the merge hands out one that is not, or when there has been none for `margin`.
        ahead = self.heads.ahead
        m.submodules.marks = marks = Marks()
        mark = marks.mark
        m.d.comb += [
            marks.now.eq(self.now), marks.perst_n.eq(self.perst_n), marks.attach.eq(self.cfg.valid), marks.attached.eq(self.cfg.ready),
            marks.snapshot.eq(self.snapshot),
        ]  # fmt: skip
        head = self.head.header
        self.swept = Signal(64 - tables.SWEEP_BITS)  # the boundary of the last sweep, or where completed commands began to wait
        some_filled, silent = Signal(), Signal()
        head_crosses, mark_crosses, mark_due, sweep_due = Signal(), Signal(), Signal(), Signal()
        boundary, long_ago = Signal(64), Signal(64)
        m.d.sync += self.filled.eq(some_filled)
        m.d.comb += [
            some_filled.eq(self.cq_filled != 0), silent.eq(~self.heads.waits & ~self.tlps.valid & ~self.next_valid),
            self.heads.swept.eq(self.swept),
            boundary.eq((self.swept + 1) << tables.SWEEP_BITS), long_ago.eq(self.now - self.margin),
            head_crosses.eq(self.filled & self.heads.crosses),
            mark_crosses.eq(self.filled & (mark.tick[tables.SWEEP_BITS :] > self.swept)),
            mark_due.eq(marks.valid & Mux(ahead.valid, head.tick > mark.tick, silent & (long_ago >= mark.tick))),
            sweep_due.eq(
                Mux(
                    marks.valid,
                    mark_crosses & (mark_due | (ahead.valid & head_crosses)),
                    Mux(ahead.valid, head_crosses, silent & self.filled & (long_ago >= boundary)),
                )
            ),
            self.held.eq(marks.valid | head_crosses),
            self.deadline.eq(self.margin + Mux(self.filled & (~marks.valid | (boundary < mark.tick)), boundary, mark.tick)),
            self.busy.eq(1),
        ]  # fmt: skip
        with m.If(~self.filled & ~marks.valid):
            m.d.comb += self.deadline.eq(tables.UNKNOWN)
        # What is due is decided a clock after it was looked at, if nothing changed in that clock: these sums and comparisons are long.
        was_mark_due, was_sweep_due, resting, seen, sees = Signal(), Signal(), Signal(), Signal(2), Signal(2)
        rests = Signal()  # IDLE stays, and what it looks at
        m.d.comb += sees.eq(Cat(ahead.valid, marks.valid))
        m.d.sync += [
            was_mark_due.eq(mark_due), was_sweep_due.eq(sweep_due), resting.eq(rests & (self.filled == some_filled)), seen.eq(sees),
        ]  # fmt: skip
        looked = resting & (seen == sees)
        marks_done = Signal(2)  # of the oldest ones, which are of one tick

        # --- which ticks count ------------------------------------------------------------------------------------------
        run_was, run_from, run_until = Signal(), Signal(64, init=tables.UNKNOWN), Signal(64)
        begins, ends = self.run & ~run_was, ~self.run & run_was
        m.d.sync += run_was.eq(self.run)
        with m.If(begins):
            m.d.sync += run_from.eq(self.now)
        with m.If(ends):
            m.d.sync += run_until.eq(self.now)
        # A clock after `h`: no state makes anything before.
        m.d.sync += self.wanted.eq(
            (self.h.tick >= Mux(begins, self.now, run_from)) & (self.run | (self.h.tick < Mux(ends, self.now, run_until)))
        )
        m.d.comb += self.made_at.eq(self.h.tick)

        # Where nothing else is looked up the ways read for the next header already: whether it will be taken is known too late to choose
        # their addresses. What is written most often needs no choice, or a narrow one.
        self.map.look_up(m, self.page_key(head.address), self.page_offset(head.address))
        m.d.comb += [
            self.map.put_key.eq(self.ins.key),
            self.map.put_offset.eq(self.ins.start),
            self.map.put_entry.eq(self.ins),
            self.map.clear_place.eq(self.i),
            self.tags.w["entry"].eq(self.t),
            self.event.payload.tick.eq(self.h.tick),
            *(self.slots.w[name].eq(self.h.tick) for name in ("doorbell", "fetch", "first_data", "last_data", "cqe", "msix")),
        ]
        with m.FSM():
            # --- INIT, IDLE, DISPATCH: one TLP after the other. PCIe: Transaction Layer Protocol - Packet Definition ---
            with m.State("INIT"):
                control.clear_step(m, self)
                with m.If(self.i < self.slot_count):
                    self.slots.write(m, self.i[:sb], state=tables.SlotState.FREE)
                    m.d.comb += [self.free_slots.w_en.eq(1), self.free_slots.w_data.eq(self.i[:sb])]
                m.d.sync += self.i.eq(self.i + 1)
                with m.If(self.i == tables.ENTRIES - 1):
                    m.next = "IDLE"

            with m.State("IDLE"):
                self.may_finish(m)
                m.d.comb += self.busy.eq(
                    self.heads.waits | self.tlps.valid | mark_due | sweep_due | marks.stirs | (self.filled != some_filled)
                )
                with m.If(looked & was_sweep_due):
                    m.d.sync += [self.i.eq(0), self.h.tick.eq(boundary)]
                    m.next = "SWEEP"
                with m.Elif(looked & was_mark_due):
                    with m.If(mark.kinds[0] & ~marks_done[0]):
                        m.d.sync += marks_done[0].eq(1)
                        control.begin_reset(m, self, spec.ResetCause.PERST, mark.tick, "IDLE")
                    with m.Elif(mark.kinds[1] & ~marks_done[1]):
                        m.d.sync += [marks_done[1].eq(1), self.h.tick.eq(mark.tick)]
                        m.next = "CONFIG"
                    with m.Else():
                        m.d.comb += [marks.ready.eq(1), self.marked.eq(mark.kinds[2])]
                        m.d.sync += marks_done.eq(0)
                with m.Elif(ahead.valid & (~self.held | looked)):
                    self.accept(m)
                with m.Else():
                    m.d.comb += rests.eq(1)

            with m.State("DATA"):
                way = self.way
                self.may_finish(m)
                pages.compare(m, self)
                m.d.comb += [self.slots.ra.eq(way.slot_at), self.slots.wa.eq(way.see_slot)]
                m.d.comb += [self.tags.wa.eq(way.count_tag), self.tags.w["entry"].eq(way.counted), self.tags.we["entry"].eq(way.count)]
                with m.If(way.see):
                    self.slots.write(m, way.see_slot, last_data=None)
                with m.If(way.see_first):
                    self.slots.write(m, way.see_slot, first_data=None)
                m.d.comb += [self.slots.w[name].eq(way.see_tick) for name in ("first_data", "last_data")]
                m.d.sync += self.t.eq(self.tags.r["entry"])
                # Whether the next one is taken does not wait for what the tag says.
                takes = Signal(name="data_takes")
                m.d.comb += takes.eq(ahead.valid & ~self.held & (self.is_data | ~way.behind) & ~way.odd & ~way.may_be_other)
                with m.If(way.may_be_other):
                    m.d.comb += self.read_index.eq(self.h_start)
                with m.If(way.other):
                    m.d.comb += self.heads.retire.eq(1)
                    m.next = "COMPLETION"
                with m.Elif(way.odd):
                    m.d.comb += self.heads.rewind.eq(1)
                    m.d.sync += self.odd.eq(1)
                    m.next = "IDLE"
                with m.Elif(way.done):
                    m.d.comb += [self.free.eq(1), self.free_up.eq(way.up_done), self.free_to.eq(way.end), self.heads.retire.eq(1)]
                with m.If(takes):
                    self.accept(m)
                with m.Elif(~way.behind):
                    m.next = "IDLE"

            with m.State("DONE"):  # where it is known too late that nothing is to be done
                self.may_finish(m)
                self.finish(m)

            with m.State("MALFORMED"):
                self.make_event(m, spec.EventType.MALFORMED, arg8=self.up)
                m.next = "DONE"

            with m.State("DISPATCH"):
                self.map.keep(m)
                m.d.comb += self.read_index.eq(Mux(self.up, self.h_start + 2, self.h_start))  # double word 2, should it be a CQE
                with m.If(self.h.lost):
                    m.d.sync += [self.epoch.eq(self.epoch + 1), self.loss_tick.eq(self.h.tick), self.loss_seen.eq(1)]
                m.d.sync += [self.first.eq(self.word), self.t.eq(self.tags.r["entry"])]
                pages.compare(m, self)
                control.compare(m, self)
                with m.Switch(Cat(self.up, self.h.kind)):
                    for up, kind, place in (
                        (0, Tlp.CFGWR, "CFGWR"),
                        (0, Tlp.MRD, "HOST_MRD"),
                        (0, Tlp.MWR, "HOST_MWR"),
                        (0, Tlp.CPL, "CPL"),
                        (1, Tlp.MRD, "PAGE_SELECT"),
                        (1, Tlp.MWR, "PAGE_SELECT"),
                        (1, Tlp.CPLD, "DRIVE_CPLD"),
                    ):
                        with m.Case(up | kind.value << 1):
                            m.next = place
                    with m.Case(0 | Tlp.CPLD.value << 1):
                        m.next = "COMPLETION"
                    with m.Default():
                        m.next = "DONE"
                        with m.If(self.h.bad):
                            m.next = "MALFORMED"

            # Files whose subroutines are called by others come after them.
            for file in (control, queues, fetch, completions, admin, interrupts, heads, pages, insert, emit):
                file.states(m, self)
            for subroutine in (self.create, self.unmap, self.reset, self.reclaim):
                subroutine.return_state(m)
        self._accept(m)
        return m

    def ready_once(self, m: Module) -> Signal:
        """High once the free list was filled."""
        ready = Signal()
        with m.If(self.free_slots.level == self.slot_count):
            m.d.sync += ready.eq(1)
        return ready
