//! The NVMe tracker: TLPs of both directions to command records, events and raw TLPs.
//!
//! What it makes follows from the order of the ticks alone: of TLPs, of marks (PERST#, late attach, a request for the
//! counters), and of sweeps. It is released [`DELAY_TICKS`] after the tick of whatever completed it, so how long the
//! hardware takes does not show, up to a [`load`] that it cannot carry.

mod completions;
mod control;
mod engine;
mod fetch;
mod header;
mod insert;
mod lane;
mod load;
mod pages;
mod queues;
mod store;

pub use engine::Made;

use crate::command::Command;
use crate::registers::Attach;
use crate::status::Counters;
use crate::time::{clock_at, tick, Clock, DELAY_TICKS, NEVER};
use engine::Engine;
use header::Kind;
use lane::Lane;
use load::Load;
use std::collections::VecDeque;
use wattbell_bus::Tlp;
use wattbell_spec::wire::reset_cause_code;

/// Something of some tick is worked on so many cycles later: every mark up to that tick is known then, and it is when the
/// hardware has got to a CQE that waits for no other TLP.
pub const LATENCY: Clock = 76;

/// What takes its place among the TLPs though it comes another way; of the same tick, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// PERST# fell.
    Perst,
    /// Late attach.
    Attach(Attach),
    /// The counters are asked for.
    Snapshot,
}

/// What is next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Sweep,
    Tlp(bool),
    Summary,
    Mark,
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    down: Lane,
    up: Lane,
    /// Commands without TLPs, each with its tick.
    summaries: VecDeque<(u64, Command)>,
    marks: VecDeque<(u64, Mark)>,
    /// PERST#.
    level: u8,
    /// The tick up to which the last late-attach fact is shown as not yet accepted.
    attached: u64,
    /// The counters when they were last asked for.
    snapshot: Counters,
    engine: Engine,
    load: Load,
}

impl Tracker {
    /// A tracker at power-on that sees its first TLP in `clock` at the earliest.
    pub fn new(clock: Clock) -> Self {
        Self {
            down: Lane::new(false, clock),
            up: Lane::new(true, clock),
            summaries: VecDeque::new(),
            marks: VecDeque::new(),
            level: 0,
            attached: 0,
            snapshot: Counters::default(),
            engine: Engine::default(),
            load: Load::default(),
        }
    }

    fn lane(&mut self, up: bool) -> &mut Lane {
        if up {
            &mut self.up
        } else {
            &mut self.down
        }
    }

    /// A TLP whose first symbol is at `tick`; ticks of a direction do not decrease. If some before it were missed,
    /// returns the cycle in which that is noticed.
    #[inline]
    pub fn tlp(&mut self, up: bool, tick: u64, tlp: Tlp) -> Option<Clock> {
        self.lane(up).push(tick, tlp)
    }

    /// The next TLP of the board comes after some that were missed.
    pub fn miss(&mut self, up: bool) {
        self.lane(up).miss();
    }

    /// A command without TLPs; ticks do not decrease.
    #[inline]
    pub fn summary(&mut self, tick: u64, command: Command) {
        self.summaries.push_back((tick, command));
    }

    /// A TLP of the self-test, while the board's are held.
    pub fn play(&mut self, up: bool, tick: u64, tlp: Tlp) {
        self.lane(up).play(tick, tlp);
    }

    /// From `clock` on the board's TLPs are not seen, or seen again.
    pub fn hold(&mut self, clock: Clock, hold: bool) {
        for lane in [&mut self.down, &mut self.up] {
            if hold {
                lane.hold(clock);
            } else {
                lane.release(clock);
            }
        }
    }

    fn mark(&mut self, tick: u64, mark: Mark) {
        let place = self.marks.partition_point(|other| *other <= (tick, mark));
        self.marks.insert(place, (tick, mark));
    }

    /// PERST# takes a new level in `clock`.
    pub fn perst(&mut self, clock: Clock, level: u8) {
        if level == 0 && self.level != 0 {
            self.mark(tick(clock + 1), Mark::Perst);
        }
        self.level = level;
    }

    /// A late-attach fact is offered in `clock`.
    pub fn attach(&mut self, clock: Clock, fact: Attach) {
        self.mark(tick(clock), Mark::Attach(fact));
        self.attached = tick(clock) + DELAY_TICKS;
    }

    /// Whether the last fact is shown as not yet accepted in `clock`: always for the same time, though the hardware may
    /// have it sooner.
    pub fn attach_waits(&self, clock: Clock) -> bool {
        tick(clock) < self.attached
    }

    /// What completes from `clock` on is made, or no longer.
    pub fn set_run(&mut self, clock: Clock, run: bool) {
        if run {
            self.engine.window = (tick(clock), NEVER);
        } else {
            self.engine.window.1 = tick(clock);
        }
    }

    /// The counters are asked for in `clock`. What the engine does not count is returned at once, the rest is known to
    /// [`Self::complete`] when what was made up to then is released.
    pub fn request(&mut self, clock: Clock) -> Counters {
        self.mark(tick(clock + 1), Mark::Snapshot);
        self.parsed(clock)
    }

    /// Adds to `counters` what the engine counts.
    pub fn complete(&self, counters: &Counters) -> Counters {
        counters.with(&self.snapshot)
    }

    /// The counters in `clock`.
    pub fn counters(&mut self, clock: Clock) -> Counters {
        self.parsed(clock).with(&self.engine.counters())
    }

    fn parsed(&mut self, clock: Clock) -> Counters {
        let (down, up) = (self.down.counts(clock), self.up.counts(clock));
        Counters {
            tlps_down: down.tlps,
            tlps_up: up.tlps,
            malformed: down.malformed + up.malformed,
            lost_tlps: down.lost + up.lost,
            ..Counters::default()
        }
    }

    /// The cycle in which the last beat handed in is seen.
    pub fn seen_from(&self) -> Clock {
        self.down.last_beat().max(self.up.last_beat())
    }

    /// Whether events are made in `clock`.
    pub fn runs(&self, clock: Clock) -> bool {
        self.engine.window.0 <= tick(clock) && tick(clock) < self.engine.window.1
    }

    /// Number of command records so far.
    pub fn commands(&self) -> u64 {
        self.engine.commands
    }

    /// What was made since this was last emptied.
    pub fn made(&mut self) -> &mut Made {
        &mut self.engine.made
    }

    /// What could not be modelled exactly, if it has happened.
    pub fn inexact(&self) -> Option<&'static str> {
        let engine = &self.engine;
        let slots = engine.slots_short.then_some("all slots of the tracker were in use");
        let cut = "a TLP was on the pins, or some were missed, when the self-test began or ended";
        self.load.exceeded.or(slots).or((self.down.cut || self.up.cut).then_some(cut))
    }

    /// What comes next, and its tick.
    #[inline]
    fn next(&self) -> (u64, Next) {
        let candidates = [
            (self.engine.next_sweep(), Next::Sweep),
            (self.down.head_tick(), Next::Tlp(false)),
            (self.up.head_tick(), Next::Tlp(true)),
            (self.summaries.front().map(|s| s.0), Next::Summary),
            (self.marks.front().map(|m| m.0), Next::Mark),
        ];
        let mut first = (NEVER, Next::Mark);
        for (tick, next) in candidates.into_iter().filter_map(|(tick, next)| Some((tick?, next))) {
            if tick < first.0 {
                first = (tick, next);
            }
        }
        first
    }

    /// The cycle in which it next does something.
    #[inline]
    pub fn due(&self) -> Clock {
        match self.next() {
            (NEVER, _) => NEVER,
            (tick, _) => clock_at(tick) + LATENCY,
        }
    }

    /// Does what is due up to cycle `until`; everything up to `now` has happened.
    pub fn step(&mut self, now: Clock, until: Clock) {
        self.parsed(now);
        loop {
            let (tick, next) = self.next();
            if tick == NEVER || clock_at(tick) + LATENCY > until {
                return;
            }
            let (records, walks) = (self.engine.made.records.len(), self.engine.walks);
            match next {
                Next::Sweep => self.engine.sweep(tick),
                Next::Tlp(up) => self.take(up),
                Next::Summary => {
                    if let Some((_, command)) = self.summaries.pop_front() {
                        self.engine.summary(tick, command);
                    }
                    continue;
                }
                Next::Mark => match self.marks.pop_front() {
                    Some((_, Mark::Perst)) => {
                        self.engine.tick = tick;
                        self.engine.reset(reset_cause_code::PERST);
                    }
                    Some((_, Mark::Attach(fact))) => self.engine.attach(&fact, tick),
                    Some((_, Mark::Snapshot)) => self.snapshot = self.engine.counters(),
                    None => {}
                },
            }
            let (records, walks) = (self.engine.made.records.len() - records, self.engine.walks - walks);
            self.load.add(tick, load::RECORD * records as Clock + load::WALK * walks);
        }
    }

    #[inline]
    fn take(&mut self, up: bool) {
        let Some(mut header) = self.lane(up).take() else { return };
        let tag = usize::from(header.tag);
        let carries = |engine: &Engine| engine.tables.tags[tag].kind;
        let before = carries(&self.engine);
        self.engine.take(&mut header);
        let carries = if header.kind == Kind::MemRead { carries(&self.engine) } else { before };
        self.load.take(up, header.tick, load::clocks(&header, carries));
    }
}
