"""The tracker's engine: one state machine that takes one TLP at a time and keeps every table.

This file holds the registers and tables, takes TLPs from the merge and sends each to where it is understood:

- ``control``: registers behind BAR0, configuration writes, resets, late attach
- ``queues``: queues and their pages, doorbells
- ``fetch``: reads of submission queue entries and their completions
- ``pages``: the map of host pages, data spans, PRP lists, range lists; ``insert``: its entries
- ``completions``: CQEs; ``admin``: what admin commands change; ``interrupts``; ``heads``: CQ head doorbells
- ``emit``: command records, slots, the search for a command

Every file adds states to the same machine, so tables have one user at a time and need one read and one write port.
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
from ..tlp import HEADER, MERGED, payload_start, total_dws
from ..tlp import Kind as Tlp
from . import admin, completions, control, emit, fetch, heads, insert, interrupts, pages, queues, tables
from .layouts import COMPLETION, CONFIG, RAW_WORD
from .pagemap import FULL_SIZE, MapSizes, PageMap
from .store import Subroutine, Table


class Engine(wiring.Component):
    """The ports that are not the tracker's (see the package).

    Ports
    -----
    tlps : merged headers.
    next_valid, next_tick : a header of this tick is there or follows (`staged`: follows), and may be held back.
    up : direction of the present TLP, and of its payload ring, which the next four are of.
    read_index, read_data : a double word of it, one clock later.
    free, free_to : its space up to there is given back.
    record, event, raw : what is made; always taken.
    raw_room : words of ``raw`` that fit.
    lose, lose_tick : pulses, by :class:`spec.LossSource`, and their tick.
    unmatched : pulse: a TLP fitted nothing.
    armed : long payload is wanted, too.
    """

    def __init__(
        self, queues_: int, slots: int, *, staged: bool = False, sizes: MapSizes = FULL_SIZE, tags: int = tables.TAGS,
    ) -> None:  # fmt: skip
        self.map_sizes, self.key_bits, self.tag_count = sizes, sizes.key_bits, tags
        self.queues = queues_
        self.staged = staged
        self.slot_count = slots
        self.slot_bits = (slots - 1).bit_length()
        self.queue_bits = (queues_ - 1).bit_length()
        super().__init__(
            {
                "tlps": In(stream.Signature(MERGED)),
                "next_valid": In(1),
                "next_tick": In(64),
                "read_index": Out(14),
                "read_data": In(32),
                "up": Out(1),
                "free": Out(1),
                "free_to": Out(14),
                "now": In(64),
                "perst_n": In(1),
                "run": In(1),
                "cfg": In(stream.Signature(CONFIG)),
                "record": Out(stream.Signature(COMMAND)),
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
            self.event.valid.eq(1),
            p.type.eq(int(type_)),
            p.arg8.eq(arg8),
            p.arg16.eq(arg16),
            p.arg32.eq(arg32),
        ]

    def lost(self, m: Module, source: spec.LossSource) -> None:
        m.d.comb += [self.lose[int(source)].eq(1), self.lose_tick.eq(self.h.tick)]

    def finish(self, m: Module) -> None:
        """Done with the TLP in `h`: on to the next."""
        m.d.comb += self.free.eq(1)
        m.next = "IDLE"
        with m.If(self.tlps.valid & ~self.perst_pending):
            self.accept(m)

    def accept(self, m: Module) -> None:
        """Take the next TLP: start reading its tag, its page and its payload."""
        m.d.comb += self.accepts.eq(1)
        m.next = "DISPATCH"

    def _accept(self, m: Module) -> None:
        """What :meth:`accept` does, the same from every state: built once, after the states, so that it comes before what they do with the
        tables' addresses."""
        head = self.tlps.payload.header
        with m.If(self.accepts):
            m.d.comb += [self.tlps.ready.eq(1), self.tags.ra.eq(head.tag), self.read_index.eq(payload_start(head))]
            m.d.sync += [
                self.up.eq(self.tlps.payload.up),
                self.h.eq(head),
                self.h_start.eq(payload_start(head)),
                self.h_total.eq(total_dws(head)),
                self.h_key.eq(self.page_key(head.address)),
                self.h_offset.eq(self.page_offset(head.address)),
            ]
            self.map.look_up(m, self.page_key(head.address), self.page_offset(head.address))

    def write_tag(self, m: Module, tag: Value, **values) -> None:
        """In the present state: the entry of `tag` becomes `t` but for `values`."""
        m.d.comb += [self.tags.we["entry"].eq(1), self.tags.wa.eq(tag)]
        m.d.comb += [self.tags.w["entry"][field].eq(value) for field, value in values.items()]

    def page_key(self, address: Value) -> Value:
        """Page number of a byte address, for the memory page size in use (at most 64 KiB)."""
        return Cat((address[12 + bit] & (self.mps <= bit) for bit in range(4)), address[16 : 12 + self.key_bits])

    def page_offset(self, address: Value) -> Value:
        """Offset in its page, in double words."""
        return Cat(address[2:12], (address[12 + bit] & (self.mps > bit) for bit in range(4)))

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
        chain = data.StructLayout({"valid": 1, "slot": slot_id})
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
        self.epoch = Signal(16)  # moves on when bus data was lost
        self.loss_seen = Signal()
        self.loss_tick = Signal(64)
        self.serial = Signal(16)  # generation of the next slot
        self.mps = Signal(3)
        self.i = Signal(17)  # of loops over a table
        self.word = self.read_data
        read_held = Signal(14)
        m.d.sync += read_held.eq(self.read_index)
        m.d.comb += [self.read_index.eq(read_held), self.free_to.eq(self.h.end)]
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
        for file in (control, queues, fetch, pages, insert, completions, interrupts, heads, emit):
            file.declare(m, self)

        perst_last = Signal(init=1)
        self.perst_pending = Signal()
        self.perst_tick = Signal(64)
        m.d.sync += perst_last.eq(self.perst_n)
        with m.If(perst_last & ~self.perst_n):
            m.d.sync += [self.perst_pending.eq(1), self.perst_tick.eq(self.now)]

        self.swept = Signal(64 - tables.SWEEP_BITS)  # `now` of the last sweep, in its units
        sweep_due = Signal()
        m.d.comb += [
            sweep_due.eq((self.cq_filled != 0) & (self.now[tables.SWEEP_BITS :] != self.swept)),
            self.deadline.eq(Mux(self.cq_filled != 0, (self.swept + 1) << tables.SWEEP_BITS, tables.UNKNOWN)),
            self.busy.eq(1),
        ]

        # Where nothing else is looked up the ways read for the next header already: whether it will be taken is known too late to choose
        # their addresses. What is written most often needs no choice, or a narrow one.
        head = self.tlps.payload.header
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
        # TLPs from before PERST# come first, those that are still held back too.
        settling, before_perst = Signal(), Signal()
        if self.staged:
            # The tick of what is behind the stage is compared in the clock before.
            perst_seen, next_known, next_before = Signal(), Signal(), Signal()
            m.d.sync += [
                perst_seen.eq(self.perst_pending),
                next_known.eq(self.next_valid),
                next_before.eq(self.next_tick <= self.perst_tick),
            ]
            m.d.comb += [
                settling.eq(self.perst_pending & (~perst_seen | (self.next_valid & ~next_known))),
                before_perst.eq(Mux(self.tlps.valid, head.tick <= self.perst_tick, self.next_valid & next_known & next_before)),
            ]
        else:
            m.d.comb += before_perst.eq(self.next_valid & (self.next_tick <= self.perst_tick))
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
                m.d.comb += self.busy.eq(
                    self.tlps.valid
                    | (self.perst_pending & ~before_perst)
                    | settling
                    | (perst_last & ~self.perst_n)
                    | self.cfg.valid
                    | sweep_due
                )
                with m.If(settling):
                    pass
                with m.Elif(self.perst_pending & ~before_perst):
                    m.d.sync += self.perst_pending.eq(0)
                    control.begin_reset(m, self, spec.ResetCause.PERST, self.perst_tick, "IDLE")
                with m.Elif(self.tlps.valid):
                    self.accept(m)
                with m.Elif(self.cfg.valid):
                    m.next = "CONFIG"
                with m.Elif(sweep_due):
                    m.d.sync += self.i.eq(0)
                    m.next = "SWEEP"

            with m.State("DONE"):  # where it is known too late that nothing is to be done
                self.finish(m)

            with m.State("DISPATCH"):
                self.map.keep(m)
                with m.If(self.h.lost):
                    m.d.sync += [self.epoch.eq(self.epoch + 1), self.loss_tick.eq(self.h.tick), self.loss_seen.eq(1)]
                with m.If(self.h.bad):
                    self.make_event(m, spec.EventType.MALFORMED, arg8=self.up)
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
                        pages.dispatch_completion(m, self)
                    with m.Default():
                        self.finish(m)

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
