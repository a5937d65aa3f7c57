"""The tracker's top: parsers, merge, engine and output FIFOs wired together."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec import wire as spec

from ..deadlines import reached
from ..layouts import COMMAND, EVENT, tlp_beat
from ..queue import Queue
from ..side import SIDES, SideSignature, sides
from ..tlp import TlpMerge, TlpParser
from .engine import Engine
from .layouts import COMPLETION, CONFIG, COUNTERS, DONE_BITS, IDENTIFY_DATA, RAW, RAW_WORD, SNAPSHOT
from .losses import SOURCES, TrackerLosses
from .pagemap import FULL_SIZE, MapSizes
from .passthrough import PassThrough
from .tables import TAGS

RECORDS, EVENTS, RAW_WORDS, SMALL_RAW_WORDS = 512, 64, 4096, 512
"""Depths of the output FIFOs: command records, events, words of raw TLPs (`small`: they are not held back, so less)."""
LOST_QUEUE, SMALL_LOST = 256, 16
LOST = data.StructLayout({"source": range(SOURCES), "tick": 64})
DONE_RECORD = data.StructLayout({"made": COMMAND, "done": DONE_BITS})
DONE_EVENT = data.StructLayout({"made": EVENT, "done": DONE_BITS})
"""``done``: low bits of the tick that completed it."""
MARGIN_CLOCKS = 512
"""A TLP is in the tracker at the latest so long after its first beat: the longest takes 256 clocks."""


class NvmeTracker(wiring.Component):
    """Follows NVMe on two streams of TLPs.

    Parameters
    ----------
    width : bits of the TLP streams: 128. :class:`~wattbell_gateware.tap.FlatTap` takes 64.
    ticks_per_clock : ticks of a clock, 1 .. 256.
    queues : entries of the queue tables, a power of 2 of at most 64.
    slots : commands in flight, a power of 2 of at most 1024.
    beats : beats of payload that are kept for each direction.
    beats_of_drive : the same for the drive's direction, if different: CQEs, interrupts and data of Identify.
    at_once : the reader of records is always ready.
    small : for parts with few block RAMs: less room for raw TLPs and losses. With `at_once` records have no registers of their own, and
        each stays for three clocks after its ``valid``.
    delay : ticks after which losses count.
    sizes : sizes of the page map.
    tags : tags of reads, a power of 2; 256 for links without tags of 10 bits.

    Ports
    -----
    down : host to drive; see ``up``.
    up : drive to host. ``tlps``: :func:`~wattbell_gateware.layouts.tlp_beat`, always ready; no tick is after ``now``. ``pending``: a TLP
        that began at ``pending_tick`` is in the link layer; it may fall after the TLP's first beat. ``skip``: the tracker ignores the
        beats up to the last beat of this TLP.
    now : the tick counter.
    perst_n : level of PERST#. While it is low, all state is flushed and forgotten, BAR0 too.
    unlinked : the link is in Detect. When this rises, all state is flushed and forgotten.
    run : while low, the tracker follows the bus. TLPs of that time complete no record, event or raw TLP.
    kept : while low, records, events and raw TLPs are counted and dropped.
    snapshot : each change asks for the counters at this tick. They come when the tracker reaches the tick.
    snapshot_counters : :data:`.layouts.SNAPSHOT`, some time later.
    commands : ``COMMAND``: ``spec.COMMAND`` with the absolute ``cqe_tick`` in place of ``cqe_offset``.
    commands_done : low bits of the tick that completed the record. A raw TLP carries this tick itself.
    events : ``EVENT``, of all types but LINK, CLKREQ, PERST, RUN and LOSS.
    events_done : as ``commands_done``. A MARKER in an SQE carries the tick of its doorbell, and completes at the fetch of the SQE.
    loss_events : ``EVENT``: LOSS, of the sources TLP_DOWN, TLP_UP, SLOTS, QUEUES, PAGES, RECORDS, RAW, TAGS and EVENTS.
    raw : :data:`.layouts.RAW`: words of TLPs with Identify data.
    cfg : :data:`.layouts.CONFIG`: late attach.
    counters : :data:`.layouts.COUNTERS`.
    completed : for a clock: ``completion`` is valid, a few clocks after the CQE, at any level of ``run``.
    completion : :data:`.layouts.COMPLETION`.
    busy : work is pending that proceeds by clocks. While this is low, nothing changes until an input changes or ``now`` reaches
        ``deadline``. Output streams that wait for ``ready`` do not raise it.
    deadline : tick of the next internal timer; all ones without one.
    """

    def __init__(
        self,
        width: int,
        ticks_per_clock: int,
        queues: int = 64,
        slots: int = 1024,
        *,
        beats: int = 2048,
        beats_of_drive: int | None = None,
        at_once: bool = False,
        small: bool = False,
        delay: int = 0,
        sizes: MapSizes = FULL_SIZE,
        tags: int = TAGS,
    ) -> None:
        for name, value, top in (("queues", queues, 64), ("slots", slots, 1024)):
            if value & (value - 1) or not 2 <= value <= top:
                raise ValueError(f"{name} must be a power of 2 between 2 and {top}, not {value!r}")
        if width != 128:
            raise ValueError(f"width must be 128, not {width!r}")
        if not 1 <= ticks_per_clock <= 256:
            raise ValueError(f"ticks_per_clock must be 1 .. 256, not {ticks_per_clock!r}")
        self.width = width
        self.ticks_per_clock = ticks_per_clock
        self.queues = queues
        self.slots = slots
        self.beats, self.at_once, self.small, self.delay = (beats, beats_of_drive or beats), at_once, small, delay
        self.sizes, self.tags = sizes, tags
        beats_in = stream.Signature(tlp_beat(width), always_ready=True)
        side = SideSignature({"tlps": In(beats_in), "pending": In(1), "pending_tick": In(64), "skip": Out(1)})
        super().__init__(
            {
                **side.both(),
                "now": In(64),
                "perst_n": In(1),
                "unlinked": In(1),
                "run": In(1),
                "kept": In(1, init=1),
                "snapshot": In(1),
                "snapshot_counters": Out(SNAPSHOT),
                "commands": Out(stream.Signature(COMMAND)),
                "commands_done": Out(DONE_BITS),
                "events": Out(stream.Signature(EVENT)),
                "events_done": Out(DONE_BITS),
                "loss_events": Out(stream.Signature(EVENT)),
                "raw": Out(stream.Signature(RAW)),
                "cfg": In(stream.Signature(CONFIG)),
                "counters": Out(COUNTERS),
                "completed": Out(1),
                "completion": Out(COMPLETION),
                "busy": Out(1),
                "deadline": Out(64),
            }
        )

    def elaborate(self, _platform) -> Module:
        m = Module()
        raw_words = SMALL_RAW_WORDS if self.small else RAW_WORDS
        down, up = parsers = [
            TlpParser(self.width, upstream=name == "up", beats=beats) for name, beats in zip(SIDES, self.beats, strict=True)
        ]
        m.submodules.host_parser, m.submodules.drive_parser = down, up
        m.submodules.merge = merge = TlpMerge(self.ticks_per_clock)
        engine = Engine(self.queues, self.slots, MARGIN_CLOCKS * self.ticks_per_clock, width=self.width, sizes=self.sizes, tags=self.tags)
        m.submodules.engine = engine
        m.submodules.losses = losses = TrackerLosses()
        m.submodules.lost_queue = lost_queue = Queue(LOST, SMALL_LOST if self.small else LOST_QUEUE)
        m.submodules.records = records = PassThrough(DONE_RECORD, at_once=self.small) if self.at_once else Queue(DONE_RECORD, RECORDS)
        m.submodules.event_queue = events = Queue(DONE_EVENT, EVENTS)
        m.submodules.raw_queue = raw = Queue(RAW_WORD, raw_words)

        # --- in: beats -> headers -> one order -> engine ----------------------------------------------------------
        # The oldest header of each direction stands in a register: to compare two that come out of block RAM takes too long.
        # On its way is what stands before it, what the parser has of a TLP, else what the link layer still holds.
        stand = Signal(2)
        for number, (side, parser, into) in enumerate(zip(sides(self), parsers, sides(merge), strict=True)):
            header, comes = Signal.like(parser.headers.payload, name=f"header{number}"), Signal(name=f"comes{number}")
            with m.If(parser.headers.ready):
                m.d.sync += [stand[number].eq(parser.headers.valid), header.eq(parser.headers.payload)]
            m.d.comb += [
                comes.eq(parser.headers.valid & ~stand[number]),
                parser.beats.valid.eq(side.tlps.valid),
                parser.beats.payload.eq(side.tlps.payload),
                into.headers.valid.eq(stand[number]),
                into.headers.payload.eq(header),
                parser.headers.ready.eq(into.headers.ready | ~stand[number]),
                into.comes.eq(comes),
                into.pending.eq(parser.pending | side.pending),
                into.pending_tick.eq(Mux(parser.pending, parser.pending_tick, side.pending_tick)),
                side.skip.eq(parser.skip),
                parser.keep_long.eq(engine.armed),
                parser.read_index.eq(engine.read_index),
                parser.free_to.eq(engine.free_to),
            ]
        m.d.comb += [
            down.free.eq(engine.free & ~engine.free_side),
            up.free.eq(engine.free & engine.free_side),
            engine.read_data.eq(Mux(engine.up, up.read_data, down.read_data)),
            engine.host_beat.eq(down.read_beat),
            merge.now.eq(self.now),
            engine.next_valid.eq(down.headers.valid | up.headers.valid | stand.any()),
            engine.cfg.valid.eq(self.cfg.valid),
            engine.cfg.payload.eq(self.cfg.payload),
            self.cfg.ready.eq(engine.cfg.ready),
        ]

        wiring.connect(m, merge.out, engine.tlps)

        # --- out: the engine never waits, what does not fit is counted --------------------------------------------
        for queue, made in ((records, engine.record), (events, engine.event)):
            m.d.comb += [
                queue.i.valid.eq(made.valid & self.kept),
                queue.i.payload.made.eq(made.payload),
                queue.i.payload.done.eq(engine.made_at),
            ]
        m.d.comb += [raw.i.valid.eq(engine.raw.valid & self.kept), raw.i.payload.eq(engine.raw.payload)]
        m.d.comb += [
            self.completed.eq(engine.completed),
            self.completion.eq(engine.completion),
            engine.now.eq(self.now),
            engine.perst_n.eq(self.perst_n),
            engine.unlinked.eq(self.unlinked),
            engine.run.eq(self.run),
            engine.snapshot.eq(self.snapshot),
            engine.raw_room.eq(raw_words - raw.level),
        ]
        for queue, out in ((records, self.commands), (events, self.events), (raw, self.raw)):
            m.d.comb += [out.valid.eq(queue.o.valid), queue.o.ready.eq(out.ready)]
        for queue, out, done in ((records, self.commands, self.commands_done), (events, self.events, self.events_done)):
            m.d.comb += [out.payload.eq(queue.o.payload.made), done.eq(queue.o.payload.done)]
        word, begins = raw.o.payload, Signal(init=1)
        with m.If(self.raw.valid & self.raw.ready):
            m.d.sync += begins.eq(word.last)
        # What is the same in every word is not kept in block RAM: only TLPs of data that the drive sends to an Identify come here.
        m.d.comb += [
            *(self.raw.payload[name].eq(word[name]) for name in ("data", "last", "tick")),
            self.raw.payload.first.eq(begins),
            self.raw.payload.length.eq(word.dws << 2),
            self.raw.payload.direction.eq(1),
            self.raw.payload.flags.eq(IDENTIFY_DATA),
        ]

        # --- what was lost ----------------------------------------------------------------------------------------
        # What the engine loses counts `delay` ticks after its tick, as what it makes goes on: how much a LOSS event tells of is a function
        # of ticks then. Without room in between it counts at once, which is another number in that event, not in the sum.
        source = spec.LossSource
        lost, waits, at_once = lost_queue.i.payload, lost_queue.o.payload, Signal()
        ripe, lose, lose_tick = Signal(), Signal(SOURCES), Signal(64)
        m.d.sync += [lose.eq(engine.lose), lose_tick.eq(engine.lose_tick)]
        m.d.comb += [
            lost.tick.eq(lose_tick),
            lost_queue.i.valid.eq(lose.any()),
            at_once.eq(lost_queue.lost),
            ripe.eq(lost_queue.o.valid & reached(self.now, waits.tick + self.delay)),
            lost_queue.o.ready.eq(ripe & ~at_once),
        ]
        for number in range(SOURCES):
            with m.If(lose[number]):
                m.d.comb += lost.source.eq(number)
            m.d.comb += [
                losses.lose[number].eq(Mux(at_once, lose[number], ripe & (waits.source == number))),
                losses.ticks[number].eq(Mux(at_once, lose_tick, waits.tick)),
            ]
        wiring.connect(m, losses.events, wiring.flipped(self.loss_events))
        for number, pulse, tick in (
            (source.TLP_DOWN, down.lost, down.tick),
            (source.TLP_UP, up.lost, up.tick),
            (source.RECORDS, records.lost, engine.record.payload.cqe_tick),
            (source.EVENTS, events.lost, engine.event.payload.tick),
        ):
            m.d.comb += [losses.lose[int(number)].eq(pulse), losses.ticks[int(number)].eq(tick)]
        m.d.comb += [losses.now.eq(self.now), losses.run.eq(self.run)]

        count = self.counters
        for pulse, counter in (
            (engine.record.valid, count.commands),
            (engine.unmatched, count.unmatched),
            (engine.unmatched & engine.reads, count.unmatched_reads),
            (engine.hmb & engine.reads, count.hmb_reads),
            (engine.hmb & ~engine.reads, count.hmb_writes),
        ):
            with m.If(pulse):
                m.d.sync += counter.eq(counter + 1)
        for reads, counter in ((1, count.hmb_read_bytes), (0, count.hmb_written_bytes)):
            with m.If(engine.hmb & (engine.reads == reads)):
                m.d.sync += counter.eq(counter + (engine.length << 2))
        m.d.sync += [
            *(of.tlps.eq(of.tlps + parser.counted) for of, parser in zip(sides(count), parsers, strict=True)),
            count.malformed.eq(count.malformed + down.malformed + up.malformed),
        ]
        m.d.comb += [
            count.in_flight.eq(engine.in_flight),
            count.down.lost_tlps.eq(losses.counts[source.TLP_DOWN]),
            count.up.lost_tlps.eq(losses.counts[source.TLP_UP]),
            count.lost_commands.eq(losses.counts[source.SLOTS]),
            count.lost_queues.eq(losses.counts[source.QUEUES]),
            count.lost_pages.eq(losses.counts[source.PAGES]),
            count.lost_records.eq(losses.counts[source.RECORDS]),
            count.lost_events.eq(losses.counts[source.EVENTS]),
            count.lost_raw.eq(losses.counts[source.RAW]),
            count.lost_tags.eq(losses.counts[source.TAGS]),
            count.bar0.eq(engine.bar0),
            count.dstrd.eq(engine.dstrd),
            count.shadow.eq(engine.shadow),
            count.enabled.eq(engine.enabled),
        ]

        with m.If(engine.marked):
            m.d.sync += [self.snapshot_counters[name].eq(count[name]) for name, _ in SNAPSHOT]

        # --- when time may be skipped -----------------------------------------------------------------------------
        latent = sum(queue.latent for queue in (records, events, raw)) != 0
        m.d.comb += [
            self.deadline.eq(Mux(merge.waiting & (merge.deadline < engine.deadline), merge.deadline, engine.deadline)),
            self.busy.eq(
                down.busy
                | (down.headers.valid & ~stand[0])
                | (up.headers.valid & ~stand[1])
                | up.busy
                | engine.busy
                | losses.busy
                | lose.any()
                | (lost_queue.level != 0)
                | latent
            ),
        ]
        return m
