//! The instrument: its parts, each acting in the same cycle as the hardware.

mod capture;
mod selftest;
mod shows;

use crate::builder::Builder;
use crate::command;
use crate::events::{EventPort, Levels, Lost};
use crate::rail::{Analog, Rail};
use crate::raw::RawBuilder;
use crate::registers::{Effect, Registers};
use crate::run::{Run, State};
use crate::selftest::Player;
use crate::status::Pending;
use crate::time::{clock_at, tick, Clock, DELAY_TICKS, NEVER, TICKS};
use crate::tracker::{Tracker, LATENCY};
use crate::watch::{Conversion, Wanted};
use crate::writer::{Source, Writer};
use std::collections::VecDeque;
use wattbell_bus::{Direction, Signal, Summary, Tlp};
use wattbell_spec::wire::{loss_source_code, COMMAND_SIZE, EVENT_SIZE};

/// Command records, events and words of raw TLPs that the tracker's queues of 512, 64 and 4096 certainly hold.
const RECORDS: usize = 500;
const EVENTS: usize = 60;
const RAW_WORDS: usize = 4000;
/// Cycles for which these queues may hold an entry: from about when the hardware makes it to its release.
const HELD: Clock = DELAY_TICKS / TICKS - LATENCY;

/// The part that acts next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Pins,
    Tracker,
    Events,
    CommandBlocks,
    EventBlocks,
    RawBlocks,
    Rail,
    Run,
    SelfTest,
    Writes,
    Writer,
    Status,
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
    /// Before this cycle the last late-attach fact is shown as not yet accepted, though the hardware may have it sooner.
    attach_busy: Clock,
    levels: Levels,
    sidebands: VecDeque<(u64, Signal, u8)>,
    sidebands_at: Clock,
    /// The analog side.
    pub analog: A,
    rail: Rail,
    tracker: Tracker,
    player: Player,
    events_shown: Clock,
    losses_shown: Clock,
    events: EventPort,
    command_blocks: Builder<COMMAND_SIZE>,
    event_blocks: Builder<EVENT_SIZE>,
    raw_blocks: RawBuilder,
    /// One of the tracker's queues, when it was full.
    full: Option<&'static str>,
    pending: Option<Pending>,
    status_dropped: u32,
    writer: Writer,
    listening: Listening,
    /// Commands at their CQEs, each with the cycle in which it becomes visible.
    completions: VecDeque<(Clock, [u32; 6])>,
    moved: bool,
}

/// Events that make [`Instrument::advance`] return before its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listening {
    /// A change of PERST#, CLKREQ# or the link state.
    pub levels: bool,
    /// A command at its CQE.
    pub completions: bool,
    /// Conversions.
    pub conversions: Wanted,
}

/// An event that the caller listens for.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// A conversion has completed.
    Conversion(Conversion),
    /// A command has reached its CQE (its bits as in COMPLETION of nvme/layouts.py).
    Completion([u32; 6]),
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
            attach_busy: 0,
            levels: Levels::default(),
            sidebands: VecDeque::new(),
            sidebands_at: 0,
            analog,
            rail: Rail::new(registers.reset_config()),
            registers,
            tracker: Tracker::new(clock + 1),
            player: Player::default(),
            events_shown: 0,
            losses_shown: 0,
            events: EventPort::default(),
            command_blocks: Builder::new(true),
            event_blocks: Builder::new(false),
            raw_blocks: RawBuilder::default(),
            full: None,
            pending: None,
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

    /// Takes a TLP with its first symbol at `tick`; ticks do not decrease.
    pub fn tlp(&mut self, direction: Direction, tick: u64, tlp: Tlp) {
        let up = direction == Direction::Up;
        if let Some(clock) = self.tracker.lanes[usize::from(up)].push(up, tick, tlp) {
            let source = if up { loss_source_code::TLP_UP } else { loss_source_code::TLP_DOWN };
            self.events.tracker_losses.lose(clock, source, tick);
        }
    }

    /// The next TLP of `direction` comes after some that were missed.
    pub fn miss(&mut self, direction: Direction) {
        self.tracker.lanes[usize::from(direction == Direction::Up)].missed = true;
    }

    /// A sideband takes a new value at `tick`; ticks do not decrease.
    pub fn sideband(&mut self, tick: u64, signal: Signal, value: u8) {
        self.sidebands.push_back((tick, signal, value));
    }

    /// A command without TLPs completes at `tick`. Its own instants count from tick `origin`.
    pub fn summary(&mut self, tick: u64, origin: u64, summary: &Summary) {
        self.tracker.summaries.push_back((tick, command::of_summary(summary, origin)));
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

    /// Sets the events to listen for from now on.
    pub fn listen(&mut self, listening: Listening) {
        self.moved &= listening.levels;
        if !listening.completions {
            self.completions.clear();
        }
        self.rail.want(self.clock, listening.conversions);
        self.listening = listening;
    }

    /// Returns an awaited event that becomes visible in this cycle, once each. A conversion goes before a command.
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
        let mut limit = limit;
        loop {
            if self.moved {
                limit = self.clock.max(self.sidebands_at - 1);
            }
            limit = limit.min(self.completions.front().map_or(NEVER, |c| c.0)).min(self.rail.watch.told_at());
            let outside = [
                (self.pins_next(), Part::Pins),
                (self.player.next(), Part::SelfTest),
                (self.run.next(), Part::Run),
                (self.writes_next(), Part::Writes),
            ];
            let mut quiet_until = outside.iter().map(|(clock, _)| *clock).min().unwrap_or(NEVER).min(limit + 1) - 1;
            if self.listening.completions {
                // Every part stops at the earliest cycle that may end this.
                quiet_until = quiet_until.min(self.tracker.due());
            }
            let inside = [
                (self.tracker.due(), Part::Tracker),
                (self.events.next(), Part::Events),
                (self.command_blocks.next(&self.writer.buffers[Source::Commands as usize]), Part::CommandBlocks),
                (self.event_blocks.next(&self.writer.buffers[Source::Events as usize]), Part::EventBlocks),
                (self.raw_blocks.next(&self.writer.buffers[Source::Raw as usize]), Part::RawBlocks),
                (self.rail.next(), Part::Rail),
                (self.writer.next(), Part::Writer),
            ];
            let status = (self.pending.as_ref().map_or(NEVER, |p| p.closes), Part::Status);
            let mut first = (NEVER, Part::Pins);
            for candidate in [outside[0]].into_iter().chain(inside).chain([outside[1], outside[2], outside[3], status])
            {
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
                // A watched conversion may end this at any time: then nothing may have gone ahead.
                let alone = self.listening.conversions == Wanted::default();
                self.tracker.step(clock, if alone { quiet_until.max(clock) } else { clock });
                self.collect(clock);
            }
            Part::Events => {
                if self.events.waiting(clock + HELD) > EVENTS {
                    self.full.get_or_insert("more events waited for their release than the tracker's queue holds");
                }
                self.events.step(clock, self.tracker.window.contains(&tick(clock)), &mut self.event_blocks);
            }
            Part::CommandBlocks => {
                let queue = &self.command_blocks.queue;
                if queue.len() > RECORDS && queue.level(clock + HELD) > RECORDS {
                    self.full.get_or_insert("more command records waited than their queue holds");
                }
                self.command_blocks.step(clock, self.writer.buffer(Source::Commands));
            }
            Part::EventBlocks => self.event_blocks.step(clock, self.writer.buffer(Source::Events)),
            Part::RawBlocks => {
                if self.raw_blocks.level(clock + HELD) > RAW_WORDS {
                    self.full.get_or_insert("Identify data came faster than it can be handed on");
                }
                let lost = self.events.tracker_losses.count(loss_source_code::RAW, clock);
                self.raw_blocks.step(clock, lost, self.writer.buffer(Source::Raw));
            }
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
            Part::Status => self.close_status(clock),
        }
    }

    /// Queues the tracker's output up to `clock` for its release.
    fn collect(&mut self, clock: Clock) {
        let made = &mut self.tracker.made;
        if self.player.is_on() {
            // The pattern's records are counted, and go no further.
            made.records.clear();
            made.events.clear();
            made.raws.clear();
        }
        for (tick, record) in made.records.drain(..) {
            self.command_blocks.queue.release(clock_at(tick), record);
        }
        for (tick, event) in made.events.drain(..) {
            self.events_shown = clock_at(tick).max(self.events_shown + 1);
            self.events.tracker.push_back((self.events_shown, event));
        }
        for (source, tick) in made.losses.drain(..) {
            self.losses_shown = clock_at(tick + DELAY_TICKS).max(self.losses_shown + 1);
            self.events.tracker_losses.lose(self.losses_shown, source, tick);
        }
        made.raws.drain(..).for_each(|raw| self.raw_blocks.push(raw));
        if self.listening.completions {
            self.completions.extend(made.completions.iter().map(|command| (clock, command::completion(command))));
        }
        made.completions.clear();
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
        if changed & 4 != 0 && !self.player.is_on() {
            self.tracker.unlinked(clock, self.levels.is_detect());
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
                    self.attach_busy = clock + 3 + DELAY_TICKS / TICKS;
                }
                if status && self.run.is_capturing(clock + 1) {
                    self.status(clock + 1, true);
                }
            }
        }
    }
}
