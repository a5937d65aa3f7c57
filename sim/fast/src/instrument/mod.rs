//! The instrument: its parts, each acting in the same cycle as the hardware.

mod capture;
mod selftest;
mod shows;

use crate::builder::{Builder, Record};
use crate::events::{EventPort, Levels, Lost};
use crate::rail::{Analog, Rail};
use crate::raw::RawBuilder;
use crate::registers::{Effect, Registers};
use crate::run::{Run, State};
use crate::selftest::Player;
use crate::time::{clock_at, tick, Clock, NEVER};
use crate::tracker::completion::Completion;
use crate::tracker::Tracker;
use crate::watch::{Conversion, Wanted};
use crate::writer::{Source, Writer};
use std::collections::VecDeque;
use wattbell_bus::{Direction, Signal, Summary, Tlp};
use wattbell_spec::wire::{COMMAND_SIZE, EVENT_SIZE};

/// Command records the queue holds besides its output register.
const RECORD_QUEUE: usize = 511;
/// Words of raw TLPs that are certain to be taken before the tracker's queue of 1024 is full.
const RAW_QUEUE: usize = 1000;

/// The part that acts next.
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
    SelfTest,
    Writes,
    Writer,
}

/// The instrument.
pub struct Instrument<A> {
    /// Everything up to and including this cycle has happened.
    clock: Clock,
    registers: Registers,
    /// Registers to be written, and their values.
    writes: VecDeque<(u8, u32)>,
    /// The cycle that sees the next write.
    write_at: Clock,
    run: Run,
    levels: Levels,
    sidebands: VecDeque<(u64, Signal, u8)>,
    sidebands_at: Clock,
    /// The analog side.
    pub analog: A,
    rail: Rail,
    tracker: Tracker,
    player: Player,
    /// Command records, each with the cycle in which it becomes visible after the tracker.
    records: VecDeque<(Clock, Record<COMMAND_SIZE>)>,
    records_shown: Clock,
    /// Commands without TLPs, each with the cycle in which it completes.
    summaries: VecDeque<(Clock, Completion, Record<COMMAND_SIZE>)>,
    summarised: u64,
    /// The queue accepts one record per cycle.
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
    /// Commands at their CQEs, each with the cycle in which it becomes visible.
    completions: VecDeque<(Clock, Completion)>,
    moved: bool,
}

/// What makes [`Instrument::advance`] return before its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listening {
    /// A change of PERST#, CLKREQ# or the link state.
    pub levels: bool,
    /// A command at its CQE.
    pub completions: bool,
    /// Conversions.
    pub conversions: Wanted,
}

/// What was listened for.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// A conversion has completed.
    Conversion(Conversion),
    /// A command has reached its CQE.
    Completion(Completion),
    /// PERST#, CLKREQ# or the link state has changed.
    Levels,
}

impl<A: Analog> Instrument<A> {
    /// An instrument that has been in its power-on state for `clock` cycles, with `analog` on the rail.
    pub fn new(clock: Clock, analog: A) -> Self {
        let registers = Registers::new(analog.has_fine());
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
            player: Player::default(),
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
        }
    }

    /// Queues a register write: one per cycle, from the next cycle on.
    pub fn write(&mut self, address: u8, value: u32) {
        self.writes.push_back((address, value));
    }

    /// A TLP whose first symbol is at `tick`; ticks do not decrease.
    pub fn tlp(&mut self, direction: Direction, tick: u64, tlp: Tlp) {
        self.tracker.tlp(direction == Direction::Up, tick, tlp);
    }

    /// The next TLP of `direction` comes after some that were missed.
    pub fn miss(&mut self, direction: Direction) {
        self.tracker.miss(direction == Direction::Up);
    }

    /// A sideband takes a new value at `tick`; ticks do not decrease.
    pub fn sideband(&mut self, tick: u64, signal: Signal, value: u8) {
        self.sidebands.push_back((tick, signal, value));
    }

    /// A command without TLPs completes at `tick`. Its own instants count from tick `origin`.
    pub fn summary(&mut self, tick: u64, origin: u64, summary: &Summary) {
        let completion = Completion::of_summary(summary, origin);
        self.summaries.push_back((clock_at(tick), completion, crate::tracker::record::of_summary(summary, origin)));
    }

    fn pins_next(&self) -> Clock {
        self.sidebands.front().map_or(NEVER, |s| clock_at(s.0).max(self.sidebands_at).max(self.clock_floor()))
    }

    /// Nothing handed in can be seen before this cycle.
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
        self.moved &= listening.levels;
        if !listening.completions {
            self.completions.clear();
        }
        self.rail.want(self.clock, listening.conversions);
        self.listening = listening;
    }

    /// What becomes visible in this cycle among what is listened for, once each; a conversion goes first, then a
    /// command.
    pub fn take_told(&mut self) -> Option<Told> {
        if let Some(conversion) = self.rail.watch.take_told(self.clock) {
            return Some(Told::Conversion(conversion));
        }
        if self.completions.front().is_some_and(|(shows, _)| *shows <= self.clock) {
            return self.completions.pop_front().map(|(_, completion)| Told::Completion(completion));
        }
        std::mem::take(&mut self.moved).then_some(Told::Levels)
    }

    /// The analog side, which is about to change: conversions up to now are done first.
    pub fn change_analog(&mut self) -> &mut A {
        self.rail.draw(self.clock, &mut self.analog);
        &mut self.analog
    }

    /// Advances up to and including `limit`, or to the first cycle with something that is listened for. All inputs up
    /// to then must be known.
    pub fn advance(&mut self, limit: Clock) {
        self.tracker.know_until(limit);
        let mut limit = limit;
        loop {
            if self.moved {
                limit = self.clock.max(self.sidebands_at - 1);
            }
            limit = limit.min(self.completions.front().map_or(NEVER, |c| c.0)).min(self.rail.watch.told_at());
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
                (self.player.next(), Part::SelfTest),
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
            Part::SelfTest => self.act(clock),
            Part::Writes => self.write_step(clock),
            Part::Writer => self.writer.step(),
        }
    }

    /// The tracker's output becomes visible behind its queues.
    fn collect(&mut self) {
        if self.player.is_on() {
            self.drop_made();
        }
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

    /// A command record enters the queue before its builder.
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

    /// One change of a signal per cycle, so that a pulse shorter than a cycle is still seen.
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
        if changed & 1 != 0 && !self.player.is_on() {
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
        match self.registers.write(address, value) {
            Effect::None => {}
            Effect::Run(run) => {
                if run != self.run.wanted.1 {
                    self.run.wanted = (clock + 1, run);
                }
            }
            Effect::Test(control) => self.test(clock + 1, control),
            Effect::Go => self.go(clock + 1),
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
}
