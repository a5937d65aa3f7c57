//! The instrument: its parts, each acting in the clock in which the hardware would.

use crate::builder::{Builder, Record};
use crate::events::{event, EventPort, Levels, Lost};
use crate::rail::{Analog, Rail};
use crate::raw::RawBuilder;
use crate::registers::{Effect, Map, Registers};
use crate::run::{Run, State};
use crate::status::{self, Counters};
use crate::time::{clock_at, tick, Clock, NEVER};
use crate::tracker::completion::Completion;
use crate::tracker::Tracker;
use crate::wire::{event_type_code as kind, COMMAND_SIZE, EVENT_SIZE};
use crate::writer::{Block, Source, Writer};
use std::collections::VecDeque;
use wattbell_bus::{Direction, Signal, Summary, Tlp};

/// Command records the queue holds behind its output register.
const RECORD_QUEUE: usize = 511;
/// Words of raw TLPs that are surely taken before the tracker's queue of 1024 is full.
const RAW_QUEUE: usize = 1000;

/// Who acts next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Pins,
    Tracker,
    Records,
    Summaries,
    Events,
    CommandBlocks,
    EventBlocks,
    RawBlocks,
    Rail,
    Run,
    Writes,
    Writer,
}

/// The instrument.
pub struct Instrument<A> {
    map: Map,
    /// The clock up to which everything has happened.
    clock: Clock,
    registers: Registers,
    /// Registers to be written, and their values.
    writes: VecDeque<(u8, u32)>,
    /// The clock that sees the next write.
    write_at: Clock,
    run: Run,
    levels: Levels,
    sidebands: VecDeque<(u64, Signal, u8)>,
    sidebands_at: Clock,
    /// The analog side.
    pub analog: A,
    rail: Rail,
    tracker: Tracker,
    /// Command records, each with the clock in which it shows behind the tracker.
    records: VecDeque<(Clock, Record<COMMAND_SIZE>)>,
    records_shown: Clock,
    /// Commands without TLPs, each with the clock in which it is over.
    summaries: VecDeque<(Clock, Completion, Record<COMMAND_SIZE>)>,
    summarised: u64,
    /// One record a clock reaches the queue.
    records_at: Clock,
    records_dropped: u32,
    events_shown: Clock,
    events: EventPort,
    command_blocks: Builder<COMMAND_SIZE>,
    event_blocks: Builder<EVENT_SIZE>,
    raw_blocks: RawBuilder,
    raw_full: bool,
    status_dropped: u32,
    writer: Writer,
    listening: Listening,
    /// Commands at their CQEs, each with the clock in which it shows.
    completions: VecDeque<(Clock, Completion)>,
    moved: bool,
}

/// What [`Instrument::advance`] comes back for before its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listening {
    /// A change of PERST#, CLKREQ# or the link state.
    pub levels: bool,
    /// A command at its CQE.
    pub completions: bool,
}

impl<A: Analog> Instrument<A> {
    /// An instrument in its power-on state that was `clock` clocks in it, with `analog` on the rail.
    pub fn new(map: Map, clock: Clock, analog: A) -> Self {
        let registers = Registers::new(&map, analog.has_fine());
        Self {
            clock,
            writes: VecDeque::new(),
            write_at: 0,
            run: Run::default(),
            levels: Levels::default(),
            sidebands: VecDeque::new(),
            sidebands_at: 0,
            analog,
            rail: Rail::new(registers.reset_config()),
            registers,
            tracker: Tracker::new(clock + 1),
            records: VecDeque::new(),
            records_shown: 0,
            summaries: VecDeque::new(),
            summarised: 0,
            records_at: 0,
            records_dropped: 0,
            events_shown: 0,
            events: EventPort::default(),
            command_blocks: Builder::new(true),
            event_blocks: Builder::new(false),
            raw_blocks: RawBuilder::default(),
            raw_full: false,
            status_dropped: 0,
            writer: Writer::default(),
            listening: Listening::default(),
            completions: VecDeque::new(),
            moved: false,
            map,
        }
    }

    /// The clock up to which everything has happened.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Queues a register write: one a clock, from the next clock on.
    pub fn write(&mut self, address: u8, value: u32) {
        self.writes.push_back((address, value));
    }

    /// A TLP whose first symbol is at `tick`; ticks do not decrease.
    pub fn tlp(&mut self, direction: Direction, tick: u64, tlp: Tlp) {
        self.tracker.tlp(direction == Direction::Up, tick, tlp);
    }

    /// A sideband takes a new value at `tick`; ticks do not decrease.
    pub fn sideband(&mut self, tick: u64, signal: Signal, value: u8) {
        self.sidebands.push_back((tick, signal, value));
    }

    /// A command without TLPs is over at `tick`. Its own instants count from tick `origin`.
    pub fn summary(&mut self, tick: u64, origin: u64, summary: &Summary) {
        let completion = Completion::of_summary(summary, origin);
        self.summaries.push_back((clock_at(tick), completion, crate::tracker::record::of_summary(summary, origin)));
    }

    /// Conversions made so far.
    pub fn conversions(&self) -> u64 {
        self.rail.conversions()
    }

    /// Command records made so far.
    pub fn commands(&self) -> u64 {
        self.tracker.commands() + self.summarised
    }

    /// What the STATUS block would say of the tracker now.
    pub fn counters(&mut self) -> Counters {
        let mut counters = self.tracker.counters(self.clock);
        counters.commands += self.summarised;
        counters
    }

    /// Command records, events and samples lost behind the tracker.
    pub fn lost(&self) -> [u32; 3] {
        [Lost::Records, Lost::Events, Lost::Samples].map(|what| self.events.lost(what))
    }

    /// Blocks sent: the sequence number of the next one.
    pub fn blocks(&self) -> u32 {
        self.writer.sent()
    }

    /// PERST#, CLKREQ#, link state.
    pub fn levels(&self) -> (u8, u8, u8) {
        (self.levels.perst_n, self.levels.clkreq_n, self.levels.link_state)
    }

    /// Whether it captures or still sends, and whether a stop is under way.
    pub fn state(&self) -> (bool, bool) {
        (self.run.active, self.run.active && self.run.is_stopping())
    }

    /// Whether the rail's settings wait for a conversion; whether a fact of a late attach waits for the tracker.
    pub fn waits(&self) -> (bool, bool) {
        (self.rail.is_pending(), self.tracker.attach_waits(self.clock))
    }

    /// The clock from which on every TLP, sideband and write that was handed in has been seen.
    pub fn seen_from(&self) -> Clock {
        if !self.writes.is_empty() || !self.sidebands.is_empty() {
            return NEVER;
        }
        self.tracker.seen_from().max(self.sidebands_at.saturating_sub(1)).max(self.write_at.saturating_sub(1))
    }

    /// Whether it captures, or still sends what a stop left.
    pub fn is_active(&self) -> bool {
        self.run.active || !self.writes.is_empty() || self.run.wanted.1
    }

    /// The block writer, for what comes out.
    pub fn output(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// What could not be modelled exactly, if it has happened.
    pub fn inexact(&self) -> Option<&'static str> {
        let raw = self.raw_full.then_some("Identify data came faster than it can be handed on");
        self.tracker.inexact().or(raw)
    }

    fn pins_next(&self) -> Clock {
        self.sidebands.front().map_or(NEVER, |s| clock_at(s.0).max(self.sidebands_at).max(self.clock_floor()))
    }

    /// Nothing that is handed in can be seen before this clock.
    fn clock_floor(&self) -> Clock {
        self.clock + 1
    }

    fn writes_next(&self) -> Clock {
        match self.writes.front() {
            None => NEVER,
            Some(_) => self.write_at.max(self.clock_floor()),
        }
    }

    /// What to listen for from now on.
    pub fn listen(&mut self, listening: Listening) {
        self.listening = listening;
        self.moved = false;
        let clock = self.clock;
        self.completions.retain(|(shows, _)| listening.completions && *shows > clock);
    }

    /// The command that shows in this clock, or that it has changed levels, once.
    pub fn take_told(&mut self) -> (Option<Completion>, bool) {
        let shown = self.completions.front().is_some_and(|(shows, _)| *shows <= self.clock);
        let completion = if shown { self.completions.pop_front() } else { None };
        (completion.map(|c| c.1), std::mem::take(&mut self.moved))
    }

    /// Lets everything happen up to and including `limit`, or the first clock with something that is listened for; all that comes in
    /// by then is known.
    pub fn advance(&mut self, limit: Clock) {
        self.tracker.know_until(limit);
        let mut limit = limit;
        loop {
            if self.moved {
                limit = self.clock.max(self.sidebands_at - 1);
            }
            limit = limit.min(self.completions.front().map_or(NEVER, |c| c.0));
            let outside =
                [(self.pins_next(), Part::Pins), (self.run.next(), Part::Run), (self.writes_next(), Part::Writes)];
            let mut quiet_until = outside.iter().map(|(clock, _)| *clock).min().unwrap_or(NEVER).min(limit + 1) - 1;
            if self.listening.completions {
                // No part goes beyond what may end this.
                quiet_until = quiet_until.min(self.tracker.due());
            }
            let inside = [
                (self.tracker.due(), Part::Tracker),
                (self.records.front().map_or(NEVER, |r| r.0), Part::Records),
                (self.summaries.front().map_or(NEVER, |s| s.0.max(self.records_at)), Part::Summaries),
                (self.events.next(), Part::Events),
                (self.command_blocks.next(&self.writer.buffers[Source::Commands as usize]), Part::CommandBlocks),
                (self.event_blocks.next(&self.writer.buffers[Source::Events as usize]), Part::EventBlocks),
                (self.raw_blocks.next(&self.writer.buffers[Source::Raw as usize]), Part::RawBlocks),
                (self.rail.next(), Part::Rail),
                (self.writer.next(), Part::Writer),
            ];
            let mut first = (NEVER, Part::Pins);
            for candidate in [outside[0]].into_iter().chain(inside).chain([outside[1], outside[2]]) {
                if candidate.0 < first.0 {
                    first = candidate;
                }
            }
            let (clock, part) = first;
            if clock > limit {
                break;
            }
            self.step(part, clock, quiet_until);
        }
        self.clock = self.clock.max(limit);
    }

    fn step(&mut self, part: Part, clock: Clock, quiet_until: Clock) {
        match part {
            Part::Pins => self.pins(clock),
            Part::Tracker => {
                self.tracker.step();
                self.collect();
            }
            Part::Records => {
                if let Some((_, record)) = self.records.pop_front() {
                    self.record(clock, record);
                }
            }
            Part::Summaries => {
                if let Some((_, completion, record)) = self.summaries.pop_front() {
                    if self.listening.completions {
                        self.completions.push_back((clock, completion));
                    }
                    if self.run.is_capturing(clock) {
                        self.summarised += 1;
                        self.record(clock, record);
                    }
                }
            }
            Part::Events => self.events.step(clock, &mut self.event_blocks),
            Part::CommandBlocks => self.command_blocks.step(clock, self.writer.buffer(Source::Commands)),
            Part::EventBlocks => self.event_blocks.step(clock, self.writer.buffer(Source::Events)),
            Part::RawBlocks => self.raw_blocks.step(clock, self.writer.buffer(Source::Raw)),
            Part::Rail => {
                let buffer = self.writer.buffer(Source::Rail);
                self.rail.step(quiet_until.max(clock), &mut self.analog, buffer);
                if let Some((_, count)) = self.rail.take_lost() {
                    self.events.lose(Lost::Samples, count);
                }
            }
            Part::Run => self.run_step(clock),
            Part::Writes => self.write_step(clock),
            Part::Writer => self.writer.step(),
        }
    }

    /// What the tracker made shows behind its queues.
    fn collect(&mut self) {
        for (written, record) in self.tracker.records.drain(..) {
            self.records_shown = (written + 2).max(self.records_shown + 1);
            self.records.push_back((self.records_shown, record));
        }
        for (written, event) in self.tracker.events.drain(..) {
            self.events_shown = (written + 2).max(self.events_shown + 1);
            self.events.tracker.push_back((self.events_shown, event));
        }
        let told = self.tracker.completions.drain(..);
        if self.listening.completions {
            self.completions.extend(told);
        }
        for raw in self.tracker.raws.drain(..) {
            self.raw_blocks.push(raw);
            self.raw_full |= self.raw_blocks.level() > RAW_QUEUE;
        }
    }

    /// A command record reaches the queue in front of its builder.
    fn record(&mut self, clock: Clock, mut record: Record<COMMAND_SIZE>) {
        self.records_at = clock + 1;
        let queue = &mut self.command_blocks.queue;
        if queue.len() >= RECORD_QUEUE && queue.behind(clock) >= RECORD_QUEUE {
            self.records_dropped = self.records_dropped.saturating_add(1);
            self.events.lose(Lost::Records, 1);
            return;
        }
        record.dropped = std::mem::take(&mut self.records_dropped);
        queue.push(clock, record);
    }

    /// One change of a signal a clock, so that a pulse shorter than a clock is still seen.
    fn pins(&mut self, clock: Clock) {
        let before = self.levels;
        let mut moved = [false; 4];
        while let Some(&(at, signal, value)) = self.sidebands.front() {
            if at > tick(clock) || std::mem::replace(&mut moved[signal as usize], true) {
                break;
            }
            match signal {
                Signal::PerstN => self.levels.perst_n = value & 1,
                Signal::ClkreqN => self.levels.clkreq_n = value & 1,
                Signal::LinkState => self.levels.link_state = value & 0xF,
            }
            self.sidebands.pop_front();
        }
        self.sidebands_at = clock + 1;
        let changed = self.levels.differs(before);
        if changed & 1 != 0 {
            self.tracker.perst(clock, self.levels.perst_n);
        }
        self.moved |= changed != 0 && self.listening.levels;
        let begins = self.run.state == State::Stopped && self.run.next() == clock;
        if changed != 0 && self.run.is_capturing(clock) && !begins {
            self.events.sidebands(clock, changed, self.levels);
        }
    }

    fn write_step(&mut self, clock: Clock) {
        let Some((address, value)) = self.writes.pop_front() else { return };
        self.write_at = clock + 1;
        match self.registers.write(&self.map, address, value) {
            Effect::None => {}
            Effect::Run(run) => {
                if run != self.run.wanted.1 {
                    self.run.wanted = (clock + 1, run);
                }
            }
            Effect::Marker(value) => {
                if self.run.is_capturing(clock + 1) {
                    self.events.offer_marker(clock + 2, value);
                }
            }
            Effect::Command { status, rail, attach } => {
                if let Some(config) = rail {
                    self.rail.announce(clock + 2, config);
                }
                if let Some(fact) = attach {
                    self.tracker.attach(clock + 3, fact);
                }
                if status && self.run.is_capturing(clock + 1) {
                    self.status(clock + 1, true);
                }
            }
        }
    }

    fn run_step(&mut self, clock: Clock) {
        match self.run.state {
            State::Stopped => {
                self.status(clock, true);
                self.events.sidebands(clock, 7, self.levels);
                self.run.tick = tick(clock);
                self.run.capturing = (clock + 1, NEVER);
                self.run.active = true;
                self.run.schedule_status(clock);
                self.events.offer_run(clock + 1, event(self.run.tick, kind::RUN, 1, 0, 0));
                self.rail.set_run(clock + 1, true);
                self.tracker.set_run(clock + 2, true);
                self.run.to(State::Started, clock);
            }
            State::Started => self.after_event(clock, State::Running),
            State::Running => {
                if self.run.next_status <= clock {
                    self.status(clock, true);
                    self.run.schedule_status(clock);
                }
                if !self.run.wanted.1 && self.run.wanted.0 <= clock {
                    self.run.tick = tick(clock);
                    self.run.capturing.1 = clock + 1;
                    self.run.next_status = NEVER;
                    self.rail.set_run(clock + 1, false);
                    self.tracker.set_run(clock + 2, false);
                    self.run.to(State::Drain, clock);
                }
            }
            State::Drain => {
                let drained = self.rail.is_idle(clock)
                    && self.tracker.is_idle(clock)
                    && self.records.front().is_none_or(|r| r.0 > clock)
                    && self.events.tracker_is_empty(clock)
                    && self.raw_blocks.is_empty(clock)
                    && self.command_blocks.queue.level(clock) == 0
                    && self.command_blocks.is_quiet(clock);
                let next = if drained { State::Losses } else { State::Drain };
                self.run.to(next, clock);
            }
            State::Losses => {
                let clean = self.events.losses_clean();
                self.events.set_flush_losses(!clean);
                if clean {
                    self.events.offer_run(clock + 1, event(self.run.tick, kind::RUN, 0, 0, 0));
                }
                self.run.to(if clean { State::Event } else { State::Losses }, clock);
            }
            State::Event => self.after_event(clock, State::Events),
            State::Events => {
                let empty = self.event_blocks.queue.level(clock) == 0 && self.event_blocks.is_quiet(clock);
                self.run.to(if empty { State::Flush } else { State::Events }, clock);
            }
            State::Flush => {
                if self.is_sent(clock) {
                    self.status(clock, false);
                    self.run.to(State::Sending, clock);
                } else {
                    self.command_blocks.flush(clock, self.writer.buffer(Source::Commands));
                    self.event_blocks.flush(clock, self.writer.buffer(Source::Events));
                    self.raw_blocks.flush(clock, self.writer.buffer(Source::Raw));
                    self.run.to(State::Flush, clock);
                }
            }
            State::Sending => self.run.to(State::Sent, clock),
            State::Sent => {
                if self.is_sent(clock) {
                    self.run.active = false;
                    self.run.to(State::Stopped, clock);
                } else {
                    self.run.to(State::Sent, clock);
                }
            }
        }
    }

    fn after_event(&mut self, clock: Clock, next: State) {
        let taken = self.events.run_taken().is_some_and(|at| at <= clock);
        let state = if taken { next } else { self.run.state };
        self.run.to(state, clock);
    }

    /// Whether no block is open, closed or on its way.
    fn is_sent(&self, clock: Clock) -> bool {
        self.command_blocks.is_idle(clock)
            && self.event_blocks.is_idle(clock)
            && self.raw_blocks.is_idle(clock)
            && self.rail.is_idle(clock)
            && self.writer.is_idle(clock)
    }

    fn status(&mut self, clock: Clock, run: bool) {
        if !self.writer.buffer(Source::Status).is_empty(clock) {
            self.status_dropped = self.status_dropped.saturating_add(1);
            return;
        }
        let mut counters: Counters = self.tracker.counters(clock);
        counters.commands += self.summarised;
        let config = *self.rail.announced_by(clock);
        let rig = status::Rig {
            version: self.map.version,
            run,
            period_clocks: config.period,
            decimation: config.decimation,
            lost_records: self.events.lost(Lost::Records),
            lost_events: self.events.lost(Lost::Events),
            lost_samples: self.events.lost(Lost::Samples),
        };
        self.writer.buffer(Source::Status).close(Block {
            payload: status::payload(&counters, &rig),
            first_tick: tick(clock),
            dropped: std::mem::take(&mut self.status_dropped),
            ready: clock + 1,
        });
    }
}
