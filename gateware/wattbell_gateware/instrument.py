"""Platform-neutral top: takes TLPs, ADC and sidebands, gives the block stream. docs/architecture.md lists the ports."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import Cat, Const, DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.registers import ID, VERSION, by_name
from wattbell_spec.units import CURRENT_LSB_NA, VOLTAGE_LSB_UV
from wattbell_spec.wire import COMMAND_SIZE, EVENT_SIZE, TICK_PS, BlockContent, EventType, LinkState, LossSource, MarkerSource

from .deadlines import earliest
from .layouts import EVENT, tlp_beat
from .nvme import COMMAND, COMPLETION, DONE_BITS, FULL_SIZE, ConfigOp, MapSizes, NvmeTracker
from .rail import RailPath, WordFront, serial_front
from .rail.config import CONVERSION, RAIL_CONFIG, Range
from .regfile import RegisterFile
from .selftest import PatternPlayer
from .side import SIDES, SideSignature, sides
from .skid import SkidBuffer
from .stream.buffer import BlockBuffer
from .stream.events import LossReporter, SidebandWatcher, event
from .stream.fifo import CountingFifo
from .stream.linkside import LinkReporter, LinkSource, link_port, link_set
from .stream.rawtlp import RawBuilder
from .stream.recordqueue import RecordQueue
from .stream.records import RecordBuilder
from .stream.release import Release
from .stream.run import RunControl
from .stream.status import STATUS, StatusSource
from .stream.writer import OUT_WORD, BlockWriter

__all__ = ["Instrument", "Options"]

MIN_PERIOD_TICKS = 640
DEFAULT_PERIOD_TICKS = 1000
ADC_BITS = 18
RECORD_FIFO, SLOW_RECORD_FIFO = 512, 256
EVENT_FIFO = 64
RELEASE_CLOCKS = 8192
"""Clocks of ``sync`` from the tick that completed a record, event or raw TLP until it goes on.

Longer than the tracker takes, except under overload: a reset with many commands in flight takes 3000 clocks, a burst of 300 SQEs
7000.
"""
RELEASE_MARGIN_CLOCKS = 4
"""Clocks that STATUS blocks and the end of a capture wait longer."""
COMMAND_BITS = data.StructLayout({bits.name.lower(): bits.width for bits in by_name("COMMAND").bits})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Build options of an instrument. Raises :class:`ValueError` for values that do not exist.

    - ``width``: bits of the TLP datapath: 128.
    - ``ticks_per_clock``: nanoseconds a clock: 4 (250 MHz), 8 (125 MHz) or 16 (62.5 MHz).
    - ``adc``: ``"serial"`` (pins of two serial ADCs) or ``"word"`` (words from the simulator). At 62.5 MHz the serial ADCs need a
      domain ``fast`` of 125 MHz that rises with ``sync``.
    - ``queues``: entries of the tracker's queue tables.
    - ``slots``: commands in flight.
    - ``sizes``: size of the tracker's page map.
    - ``tags``: tags of reads.
    - ``beats``: beats of payload that the tracker keeps of each direction.
    - ``beats_of_drive``: the same of the drive's direction, if different.
    - ``slow``: for parts on which the fast form is too slow and too large. Blocks take a few clocks more to build. The queue of
      command records before them is shorter, and a simulator cannot leave out idle clocks.
    - ``lanes``: the TLPs come from lanes that this rig taps. Adds the port ``link`` of each
      direction (:func:`.stream.linkside.link_port`), LINK blocks and link events. Idle clocks cannot be left out then.
    - ``fine``: there may be a second current ADC, on a path with more gain. Adds the ports ``adc_sdo_f`` or ``adc_f``, and
      ``adc_fine``, high if the board has that path.
    - ``conversions``: for a rig with a controller. Adds the ports ``convert``, ``converted`` and ``conversion``
      (:class:`.rail.path.RailPath`). Adds ``completed``, high for a clock with ``completion``: a command at its CQE, with or
      without a capture. Adds the registers of the self-test (F0h and on) and its pattern (`width` 128).
    """

    width: int = 128
    ticks_per_clock: int = 4
    adc: str = "serial"
    queues: int = 64
    slots: int = 1024
    sizes: MapSizes = FULL_SIZE
    tags: int = 1024
    beats: int = 2048
    beats_of_drive: int | None = None
    slow: bool = False
    lanes: bool = False
    fine: bool = False
    conversions: bool = False

    def __post_init__(self) -> None:
        tlp_beat(self.width)
        if self.adc not in ("serial", "word"):
            raise ValueError(f"adc must be 'serial' or 'word', not {self.adc!r}")
        if self.ticks_per_clock not in (4, 8, 16):
            raise ValueError(f"ticks_per_clock must be 4, 8 or 16, not {self.ticks_per_clock!r}")


_RECORD = data.StructLayout({"record": COMMAND, "done": DONE_BITS})


@dataclass(frozen=True)
class _Parts:
    """Submodules that the parts of :class:`Instrument` connect."""

    regs: RegisterFile
    run: RunControl
    rail: RailPath
    tracker: NvmeTracker
    records: RecordQueue | CountingFifo
    events: CountingFifo
    events_release: Release
    event_blocks: RecordBuilder
    status: StatusSource
    writer: BlockWriter
    player: PatternPlayer | None


class Instrument(wiring.Component):
    """Joins all parts of the rig between the packet layer of the link and the host transport.

    docs/architecture.md, "The instrument's ports", lists the ports one by one.
    """

    def __init__(self, options: Options):
        self.options = options
        width, adc, fine = options.width, options.adc, options.fine
        side = {"tlps": In(stream.Signature(tlp_beat(width), always_ready=True)), "skip": Out(1)}
        if options.lanes:
            side |= {"link": Out(link_port())}
        ports = {
            **SideSignature(side).both(),
            "bus_active": Out(1),
            "step": In(16),
            "quiet": Out(1),
            "deadline": Out(64),
            "now": Out(64),
            "perst_n": In(1),
            "clkreq_n": In(1),
            "link_state": In(4),
            "reg_addr": In(8),
            "reg_wdata": In(32),
            "reg_we": In(1),
            "reg_rdata": Out(32),
            "out": Out(stream.Signature(OUT_WORD)),
        }
        if adc == "serial":
            ports |= {"adc_cnv": Out(1), "adc_sck": Out(1), "adc_sdo_v": In(1), "adc_sdo_i": In(1)}
        else:
            ports |= {"adc_start": Out(1), "adc_valid": In(1), "adc_v": In(ADC_BITS), "adc_i": In(ADC_BITS)}
        if fine:
            ports |= {"adc_fine": In(1), **({"adc_sdo_f": In(1)} if adc == "serial" else {"adc_f": In(ADC_BITS)})}
        if options.conversions:
            ports |= {"convert": In(1), "converted": Out(1), "conversion": Out(CONVERSION)}
            ports |= {"completed": Out(1), "completion": Out(COMPLETION)}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        options = self.options
        ticks, slow = options.ticks_per_clock, options.slow
        m.submodules.regs = regs = RegisterFile(
            {"ADC_PERIOD": DEFAULT_PERIOD_TICKS // ticks}, absent=() if options.fine else ("F_OFFSET", "F_GAIN", "RANGE")
        )
        delay = RELEASE_CLOCKS * ticks
        all_out = delay + RELEASE_MARGIN_CLOCKS * ticks
        m.submodules.run = run = RunControl(release=all_out, ahead=ticks if slow else 0)
        m.submodules.rail = rail = RailPath(ticks, options.fine)
        m.submodules.tracker = tracker = DomainRenamer("bus")(
            NvmeTracker(
                options.width,
                ticks,
                options.queues,
                options.slots,
                beats=options.beats,
                beats_of_drive=options.beats_of_drive,
                at_once=True,
                small=slow,
                delay=delay,
                sizes=options.sizes,
                tags=options.tags,
            )
        )
        # A small tracker holds a record for the four clocks that writing its quarters takes.
        words = COMMAND_SIZE // 4
        m.submodules.records = records = RecordQueue(words, SLOW_RECORD_FIFO) if slow else CountingFifo(_RECORD, RECORD_FIFO)
        early = ticks if slow else 0
        m.submodules.records_release = records_release = Release(delay, early=early)
        m.submodules.events_release = events_release = Release(delay, early=early)
        m.submodules.raw_release = raw_release = Release(0 if slow else delay)
        releases = (records_release, events_release, raw_release)
        m.submodules.events = events = CountingFifo(EVENT, EVENT_FIFO)
        m.submodules.command_blocks = command_blocks = RecordBuilder(words, relative=True, slow=slow, words=slow)
        m.submodules.event_blocks = event_blocks = RecordBuilder(EVENT_SIZE // 4, relative=False, slow=slow)
        m.submodules.raw_blocks = raw_blocks = RawBuilder(slow=slow)
        m.submodules.status = status = StatusSource(all_out)
        first = (BlockContent.STATUS, BlockContent.LINK) if options.lanes else (BlockContent.STATUS,)
        m.submodules.writer = writer = BlockWriter(
            (*first, BlockContent.EVENTS, BlockContent.RAIL, BlockContent.COMMANDS, BlockContent.TLP)
        )
        fillers = {"event": event_blocks.fill, "rail": rail.fill, "command": command_blocks.fill, "raw": raw_blocks.fill}
        wiring.connect(m, writer.source0, status.read)
        for k, (name, fill) in enumerate(fillers.items(), len(first)):
            m.submodules[f"{name}_buffer"] = buffer = BlockBuffer()
            wiring.connect(m, fill, buffer.fill)
            wiring.connect(m, buffer.read, getattr(writer, f"source{k}"))
        wiring.connect(m, writer.out, wiring.flipped(self.out))

        m.d.comb += [
            regs.addr.eq(self.reg_addr),
            regs.wdata.eq(self.reg_wdata),
            regs.we.eq(self.reg_we),
            self.reg_rdata.eq(regs.rdata),
        ]
        player = PatternPlayer() if options.conversions else None
        if player:
            m.submodules.player = player
            m.d.comb += [
                player.now.eq(self.now),
                player.addr.eq(self.reg_addr[:7]),
                player.wdata.eq(self.reg_wdata),
                player.we.eq(self.reg_we & self.reg_addr[7]),
                self.reg_rdata.eq(Mux(self.reg_addr[7], player.rdata, regs.rdata)),
            ]

        # Time.
        now = self.now
        then = Signal(64)
        m.d.comb += then.eq(now + (self.step + 1) * ticks)
        m.d.sync += now.eq(then)
        timed = (run, rail, command_blocks, event_blocks, raw_blocks, status, *releases)
        m.d.comb += [part.now.eq(now) for part in timed]

        # Tracker. It lives in the domain `bus`, which is `sync` on a board; a simulator may leave out its clock edges
        # while `bus_active` is low. All its inputs are registers of that domain, the counter too, and that one only
        # moves while `bus_active` is high: so the tracker sees the same with and without those edges.
        levels = Cat(self.perst_n, self.link_state == LinkState.DETECT, run.capturing)
        if player:  # the records of the pattern are only counted
            levels = Mux(player.on, Cat(player.perst_n, Const(0, 1), player.busy), levels)
        seen = Signal(4)
        levels = Cat(levels, seen[3] ^ status.accepted)
        m.d.bus += seen.eq(levels)
        bus_now = Signal(64)
        with m.If(self.bus_active | slow):
            m.d.bus += bus_now.eq(then)
        m.d.comb += tracker.now.eq(bus_now)
        comes = []
        for name, side, tracked in zip(SIDES, sides(self), sides(tracker), strict=True):
            port, inner = side.tlps, tracked.tlps
            valid, came = Signal(name=f"{name}_valid"), Signal(name=f"{name}_came")
            beat = Signal(tlp_beat(options.width), name=f"{name}_beat")
            m.d.comb += came.eq(port.valid)
            m.d.bus += valid.eq(came)
            with m.If(port.valid):
                m.d.bus += beat.eq(port.p)
            if player:
                own = getattr(player, name)
                m.d.comb += came.eq(Mux(player.on, own.valid, port.valid))
                with m.If(player.on):
                    m.d.bus += beat.eq(own.p)
            m.d.comb += [inner.valid.eq(valid), inner.p.eq(beat), side.skip.eq(tracked.skip)]
            comes.append(came)
        if options.conversions:
            m.d.comb += [self.completed.eq(tracker.completed), self.completion.eq(tracker.completion)]
        command = data.View(COMMAND_BITS, regs.command[: COMMAND_BITS.size])
        attach = Signal()
        attach_reset = Signal()
        attach_until = Signal(64)  # shown as not yet accepted until this tick, however busy the tracker is
        offered = Signal()
        m.d.bus += offered.eq(attach & ~(offered & tracker.cfg.ready))
        with m.If(offered & tracker.cfg.ready):
            m.d.sync += attach.eq(0)
        with m.Elif(command.attach | command.tracker_reset):
            m.d.sync += [attach.eq(1), attach_reset.eq(command.tracker_reset), attach_until.eq(now + delay + 2 * ticks)]
        m.d.comb += [
            tracker.perst_n.eq(seen[0]),
            tracker.unlinked.eq(seen[1]),
            tracker.run.eq(seen[2]),
            tracker.snapshot.eq(seen[3]),
            tracker.kept.eq(run.active & ~(player.on if player else 0)),
            status.snapshot.eq(tracker.snapshot_counters),
            tracker.cfg.valid.eq(offered),
            tracker.cfg.p.op.eq(Mux(attach_reset, ConfigOp.RESET, regs.attach_op)),
            tracker.cfg.p.qid.eq(regs.attach_qid),
            tracker.cfg.p.link.eq(regs.attach_link),
            tracker.cfg.p.size.eq(regs.attach_size),
            tracker.cfg.p.address.eq(Cat(regs.attach_address_lo, regs.attach_address_hi)),
            self.bus_active.eq(
                tracker.busy
                | attach
                | offered
                | tracker.commands.valid
                | events_release.ripe
                | raw_release.ripe
                | (seen != levels)
                | (now >= tracker.deadline)
                | tracker.down.tlps.valid
                | tracker.up.tlps.valid
                | Cat(comes).any()
            ),
        ]

        # Records: the tracker's records are taken at once, so that a record can only be lost here, where its place is known. A
        # record goes on a fixed time after the tick that completed it, as events and raw TLPs do. Blocks are then the same however
        # long the tracker takes.
        lost_before = Signal(32)
        m.d.sync += lost_before.eq(tracker.counters.lost_records)
        m.d.comb += [
            tracker.commands.ready.eq(1),
            records.i_valid.eq(tracker.commands.valid),
            records.also.eq(Mux(run.active, tracker.counters.lost_records - lost_before, 0)),
            records_release.waits.eq(records.o_valid),
            records_release.taken.eq(command_blocks.ready),
            command_blocks.valid.eq(records_release.ripe),
            records.o_ready.eq(command_blocks.ready),
            command_blocks.dropped.eq(records.o_dropped),
            raw_release.waits.eq(tracker.raw.valid),
            raw_release.done.eq(tracker.raw.p.tick),
            raw_release.taken.eq(tracker.raw.ready & tracker.raw.p.last),
            raw_blocks.raw.valid.eq(raw_release.ripe),
            raw_blocks.raw.p.eq(tracker.raw.p),
            tracker.raw.ready.eq(raw_release.ripe & raw_blocks.raw.ready),
            raw_blocks.lost.eq(tracker.counters.lost_raw),
        ]
        # The builder replaces the low half of the tick by its offset.
        made, out = Value.cast(tracker.commands.p), command_blocks
        if slow:
            m.d.comb += [
                records.i_tick.eq(tracker.commands.p.cqe_tick),
                records.i_done.eq(tracker.commands_done),
                records_release.done.eq(records.o_done),
                records.i_record.eq(Cat(made[:32], made[64:])),
                out.tick.eq(records.o_tick),
                out.word.eq(records.o_word),
                records.o_index.eq(out.index),
            ]
        else:
            kept = Value.cast(records.o_data.record)
            m.d.comb += [
                Cat(records.i_data.record, records.i_data.done).eq(Cat(tracker.commands.p, tracker.commands_done)),
                records_release.done.eq(records.o_data.done),
                out.tick.eq(records.o_data.record.cqe_tick),
                out.record.eq(Cat(kept[:32], kept[64:])),
            ]

        parts = _Parts(regs, run, rail, tracker, records, events, events_release, event_blocks, status, writer, player)
        link = self._link(m, parts) if options.lanes else None
        watchers, marker_waits, lost_here = self._events(m, parts, link)
        front, config, fine_there = self._rail(m, parts)

        # Run control and status.
        drained = Signal()
        done = rail.idle & ~tracker.commands.valid & ~events_release.ripe & ~raw_release.ripe & records.empty & command_blocks.quiet
        sent = command_blocks.idle & event_blocks.idle & raw_blocks.idle & rail.idle & writer.idle & status.idle
        if slow:  # after that no record comes any more
            m.d.sync += [drained.eq(done & ~run.capturing), run.stream_idle.eq(sent)]
        else:
            m.d.comb += [drained.eq(done), run.stream_idle.eq(sent)]
        with m.If(run.begin):
            m.d.sync += writer.run.eq(regs.run_id)
        m.d.comb += [
            run.run.eq(regs.control[0]),
            run.status_wanted.eq(command.status),
            run.sources_idle.eq(drained),
            run.events_empty.eq(events.empty & event_blocks.quiet),
            *(blocks.flush.eq(run.flush) for blocks in (command_blocks, event_blocks, raw_blocks)),
            status.request.eq(run.status),
        ]
        self._status(m, parts, attach=attach | (now < attach_until), config=config, fine_there=fine_there, lost_here=lost_here)

        records_wait = records.o_valid & ~records_release.ripe
        quiet = (regs, run, rail, status, command_blocks, event_blocks, raw_blocks, writer, *watchers, front)
        if player:
            quiet += (player,)
        m.d.comb += [
            self.quiet.eq(
                Cat(part.quiet for part in quiet).all() & ~self.bus_active & ~marker_waits & (records.empty | records_wait) & events.empty
            ),
            self.deadline.eq(earliest([part.deadline for part in (*timed, watchers[0])] + [tracker.deadline])),
        ]
        return m

    def _rail(self, m: Module, parts: _Parts):
        """The ADCs and their configuration. Returns the front end, the configuration, and whether there is a fine path."""
        options, regs, rail, player = self.options, parts.regs, parts.rail, parts.player
        if options.adc == "serial":
            m.submodules.front = front = serial_front(options.ticks_per_clock, options.fine)
            m.d.comb += [
                self.adc_cnv.eq(front.cnv),
                self.adc_sck.eq(front.sck),
                front.sdo_v.eq(self.adc_sdo_v),
                front.sdo_i.eq(self.adc_sdo_i),
            ]
        else:
            m.submodules.front = front = WordFront(options.fine)
            m.d.comb += [
                self.adc_start.eq(rail.adc_start),
                front.valid.eq(self.adc_valid),
                front.v.eq(self.adc_v),
                front.i.eq(self.adc_i),
            ]
        m.d.comb += [
            front.start.eq(rail.adc_start),
            rail.v_word.eq(front.v_word),
            rail.i_word.eq(front.i_word),
            rail.run.eq(parts.run.rail_run),
        ]
        if player:
            m.d.comb += player.start.eq(rail.adc_start)
        there = self.adc_fine if options.fine else Const(0)
        if options.fine:
            pin = front.sdo_f.eq(self.adc_sdo_f) if options.adc == "serial" else front.f.eq(self.adc_f)
            m.d.comb += [pin, rail.f_word.eq(front.f_word)]
        if player:
            with m.If(player.on):
                m.d.comb += [getattr(rail, f"{name}_word").eq(getattr(player, name)) for name in ("vif" if options.fine else "vi")]
        if options.conversions:
            m.d.comb += [rail.convert.eq(self.convert), self.converted.eq(rail.converted), self.conversion.eq(rail.conversion)]
        shortest = MIN_PERIOD_TICKS // options.ticks_per_clock
        members = {
            "decimation": regs.decimation,
            "mul": regs.decim_mul,
            "shift": regs.decim_shift,
            "v_offset": regs.v_offset,
            "v_gain": regs.v_gain,
            "i_offset": regs.i_offset,
            "i_gain": regs.i_gain,
        }
        lines = ["v_offset", "v_gain", "i_offset", "i_gain"]
        if options.fine:
            members |= {"f_offset": regs.f_offset, "f_gain": regs.f_gain, "range": regs.range}
            lines += ["f_offset", "f_gain"]
        reset = {name: by_name(f"DECIM_{name}".upper() if name in ("mul", "shift") else name.upper()).reset for name in members}
        config = Signal(RAIL_CONFIG, init={"period": DEFAULT_PERIOD_TICKS // options.ticks_per_clock, "uncalibrated": 1, **reset})
        calibrated = Signal(6)
        changed = Signal()
        m.d.sync += changed.eq(0)
        for k, name in enumerate(lines):
            with m.If(getattr(regs, f"{name}_written")):
                m.d.sync += calibrated[k].eq(1)
        with m.If(data.View(COMMAND_BITS, regs.command[: COMMAND_BITS.size]).rail_apply):
            m.d.sync += [
                changed.eq(1),
                config.period.eq(Mux(regs.adc_period < shortest, shortest, regs.adc_period)),
                config.uncalibrated.eq(~(calibrated[:4].all() & (calibrated[4:].all() | ~there))),
                *(config[name].eq(value) for name, value in members.items()),
            ]
        m.d.comb += [rail.config.eq(config), rail.changed.eq(changed)]
        if options.fine:
            with m.If(~there):
                m.d.comb += rail.config.range.eq(Range.COARSE)
        return front, config, there

    def _link(self, m: Module, parts: _Parts) -> stream.Interface:
        """Build LINK blocks and link events; return the events of the stream."""
        regs, run, player = parts.regs, parts.run, parts.player
        m.submodules.link = link = LinkReporter()
        m.submodules.link_source = source = LinkSource()
        wiring.connect(m, parts.writer.source1, source.read)
        m.d.comb += [
            link.wanted.eq(regs.link_events),
            link.enable.eq(run.active),
            source.now.eq(self.now),
            source.request.eq(run.status),
        ]
        for name, side, told, record, tracked in zip(SIDES, sides(self), sides(link), sides(source), sides(parts.tracker), strict=True):
            port = side.link
            wiring.connect(m, wiring.flipped(port.events), told.events)
            m.d.comb += [
                record.state.eq(port.side),
                record.acks.eq(told.acks),
                port.counter.eq(source.counter),
                record.count.eq(port.count),
            ]
            m.d.bus += [
                tracked.pending.eq(port.side.pending & ~(player.on if player else 0)),
                tracked.pending_tick.eq(port.side.pending_tick),
            ]
            link_set(m, getattr(regs, f"link_set_{name}"), getattr(regs, f"link_set_{name}_written"), port.set)
        m.submodules.link_stage = skid = SkidBuffer(EVENT)
        m.d.comb += [skid.i.valid.eq(link.o_valid), skid.i.payload.eq(link.o_event), link.o_ready.eq(skid.i.ready)]
        return skid.o

    def _events(self, m: Module, parts: _Parts, link: stream.Interface | None):
        """Join all events into one queue, and put them into blocks.

        Returns the components that watch for events (the loss reporter first), whether a marker waits, and the losses counted here.
        """
        regs, run, tracker, events, event_blocks = parts.regs, parts.run, parts.tracker, parts.events, parts.event_blocks
        m.submodules.sidebands = sidebands = SidebandWatcher()
        m.submodules.losses = losses = LossReporter((LossSource.RECORDS, LossSource.EVENTS, LossSource.RAIL))
        marker = Signal(EVENT)
        waits = Signal()
        marker_lost = Signal()
        m.d.comb += [
            sidebands.now.eq(self.now),
            losses.now.eq(self.now),
            sidebands.enable.eq(run.capturing | run.begin),
            sidebands.begin.eq(run.begin),
            sidebands.perst_n.eq(self.perst_n),
            sidebands.clkreq_n.eq(self.clkreq_n),
            sidebands.link_state.eq(self.link_state),
            losses.enable.eq(run.active | run.begin),
            losses.flush.eq(run.flush_losses),
            losses.add0.eq(parts.records.lost),
            losses.add1.eq(events.lost + sidebands.lost + marker_lost),
            losses.add2.eq(parts.rail.lost),
            run.losses_clean.eq(losses.clean),
        ]
        # The tracker's events do not wait for room; the other sources hold their events until there is room.
        release, ripe = parts.events_release, parts.events_release.ripe
        free = events.room & ~ripe
        others = [
            (run.o_valid, run.o_ready, run.o_event),
            (waits, None, marker),
            (sidebands.o_valid, sidebands.o_ready, sidebands.o_event),
            (losses.o_valid, losses.o_ready, losses.o_event),
            (tracker.loss_events.valid, tracker.loss_events.ready, tracker.loss_events.p),
            *([(link.valid, link.ready, link.payload)] if link else []),
        ]
        marker_taken = Signal()
        m.d.comb += [
            release.waits.eq(tracker.events.valid),
            release.done.eq(tracker.events_done),
            release.taken.eq(1),
            tracker.events.ready.eq(ripe),
            events.i_valid.eq(ripe | (events.room & Cat(o[0] for o in others).any())),
            events.i_data.eq(tracker.events.p),
        ]
        with m.If(free):
            with m.If(run.o_valid):
                m.d.comb += [events.i_data.eq(run.o_event), run.o_ready.eq(1)]
            with m.Elif(waits):
                m.d.comb += [events.i_data.eq(marker), marker_taken.eq(1)]
            with m.Elif(sidebands.o_valid):
                m.d.comb += [events.i_data.eq(sidebands.o_event), sidebands.o_ready.eq(1)]
            with m.Elif(losses.o_valid):
                m.d.comb += [events.i_data.eq(losses.o_event), losses.o_ready.eq(1)]
            with m.Elif(tracker.loss_events.valid):
                m.d.comb += [events.i_data.eq(tracker.loss_events.p), tracker.loss_events.ready.eq(1)]
            if link:
                with m.Elif(link.valid):
                    m.d.comb += [events.i_data.eq(link.payload), link.ready.eq(1)]
        with m.If(marker_taken):
            m.d.sync += waits.eq(0)
        with m.If(regs.marker_written & run.capturing):
            with m.If(waits & ~marker_taken):
                m.d.comb += marker_lost.eq(1)
            with m.Else():
                m.d.sync += [
                    waits.eq(1),
                    *event(marker, tick=self.now, type=EventType.MARKER, arg8=int(MarkerSource.CONTROL), arg32=regs.marker),
                ]
        events_before = Signal(32)
        m.d.sync += events_before.eq(tracker.counters.lost_events)
        m.d.comb += [
            events.also.eq(sidebands.lost + marker_lost + Mux(run.active, (tracker.counters.lost_events - events_before)[:2], 0)),
            event_blocks.valid.eq(events.o_valid),
            events.o_ready.eq(event_blocks.ready),
            event_blocks.tick.eq(events.o_data.tick),
            event_blocks.record.eq(events.o_data),
            event_blocks.dropped.eq(events.o_dropped),
        ]
        lost_here = {"records": Signal(32), "events": Signal(32), "samples": Signal(32)}
        for total, add in zip(lost_here.values(), (losses.add0, losses.add1, losses.add2), strict=True):
            with m.If(add.any()):
                m.d.sync += total.eq(total + add)
        return (losses, sidebands), waits, lost_here

    def _status(self, m: Module, parts: _Parts, *, attach, config, fine_there, lost_here) -> None:
        """Set the values that STATUS blocks and status registers show."""
        options, regs, run, counters = self.options, parts.regs, parts.run, parts.tracker.counters
        version = VERSION[0] << 16 | VERSION[1] << 8 | VERSION[2]
        lost_records = counters.lost_records + lost_here["records"]
        lost_events = counters.lost_events + lost_here["events"]
        lost_samples = lost_here["samples"]
        values = {
            "gateware_version": version,
            "tick_ps": TICK_PS,
            "clock_ticks": options.ticks_per_clock,
            "tlp_width": options.width,
            "queues": options.queues,
            "slots": options.slots,
            "adc_bits": ADC_BITS,
            "run": run.capturing | run.begin,
            "dstrd": counters.dstrd,
            "voltage_lsb_uv": VOLTAGE_LSB_UV,
            "current_lsb_na": CURRENT_LSB_NA,
            "adc_period_ticks": config.period * options.ticks_per_clock,
            "decimation": config.decimation,
            "reserved": 0,
            **{f"tlps_{name}": counters[name].tlps for name in SIDES},
            "commands": counters.commands,
            "in_flight": counters.in_flight,
            "malformed": counters.malformed,
            "unmatched": counters.unmatched,
            "lost_tlps": counters.down.lost_tlps + counters.up.lost_tlps,
            "lost_commands": counters.lost_commands,
            "lost_records": lost_records,
            "lost_events": lost_events,
            "lost_samples": lost_samples,
            "lost_pages": counters.lost_pages,
            "bar0": counters.bar0,
            "hmb_read_bytes": counters.hmb_read_bytes,
            "hmb_written_bytes": counters.hmb_written_bytes,
            "hmb_reads": counters.hmb_reads,
            "hmb_writes": counters.hmb_writes,
            "unmatched_reads": counters.unmatched_reads,
        }
        assert values.keys() == dict(STATUS).keys()
        m.d.comb += [parts.status.status[name].eq(value) for name, value in values.items()]
        m.d.comb += [
            regs.id.eq(ID),
            regs.version.eq(version),
            regs.build.eq(
                options.ticks_per_clock
                | (options.width // 8) << 8
                | (options.adc == "serial") << 16
                | options.lanes << 17
                | fine_there << 18
            ),
            regs.state.eq(Cat(run.active, run.stopping, parts.rail.pending, attach)),
            regs.now_lo.eq(self.now[:32]),
            regs.now_hi.eq(self.now[32:]),
            *(getattr(regs, f"tlps_{name}").eq(counters[name].tlps) for name in SIDES),
            regs.commands.eq(counters.commands),
            regs.in_flight.eq(counters.in_flight),
            regs.lost_records.eq(lost_records),
            regs.lost_events.eq(lost_events),
            regs.lost_samples.eq(lost_samples),
            regs.blocks.eq(parts.writer.sequence),
        ]
