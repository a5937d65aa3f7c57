//! The NVMe tracker: TLPs of both directions, merged into one order, to command records, events and raw TLPs.
//!
//! [`Lane`] is one direction up to its header queue, [`Tracker`] the merge of both and the engine's idle state: which
//! TLP
//! is taken, and in which cycle.

pub mod completion;
mod completions;
mod control;
mod engine;
mod fetch;
pub mod header;
mod insert;
mod lane;
mod losses;
mod pages;
pub mod record;
pub mod store;

use crate::builder::Record;
use crate::events::Event;
use crate::raw::RawTlp;
use crate::registers::Attach;
use crate::status::Counters;
use crate::time::{clock_at, tick, Clock, NEVER};
use completion::Completion;
use engine::Engine;
use lane::Lane;
use wattbell_bus::Tlp;
use wattbell_spec::wire::{loss_source_code, reset_cause_code, COMMAND_SIZE};

/// Cycles the tracker takes to clear its tables at power-on.
const INIT_CLOCKS: Clock = store::SETS as Clock;
/// While one direction is silent, a TLP waits this long for an older one,
const HOLDOFF_TICKS: u64 = 64 * crate::time::TICKS;
/// and this long for one that has begun earlier and does not end.
const LONGEST_TICKS: u64 = (64 + 1024) * crate::time::TICKS;

/// What the engine does next, and the cycle in which it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    Take(Clock, bool),
    Perst(Clock),
    Attach(Clock),
    Sweep(Clock),
    Losses(Clock),
}

impl Next {
    fn clock(self) -> Clock {
        match self {
            Self::Nothing => NEVER,
            Self::Take(c, _) | Self::Perst(c) | Self::Attach(c) | Self::Sweep(c) | Self::Losses(c) => c,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    down: Lane,
    up: Lane,
    engine: Engine,
    /// The engine's last state before idle.
    finished: Clock,
    /// First cycle in which it may take the next TLP: already its last state may, if that processed a TLP.
    ready: Clock,
    /// Last cycle in which some output becomes visible behind the queues.
    shows_until: Clock,
    level: u8,
    /// PERST# fell: the cycle from which on that is known, and its tick.
    perst: Option<(Clock, u64)>,
    /// PERST# was asserted once more before that was handled.
    perst_again: Option<(Clock, u64)>,
    attach: Option<(Clock, Attach)>,
    attached: Option<Clock>,
    next: Option<Next>,
    /// Command records, each with the cycle in which it is written to the tracker's queue.
    pub records: Vec<(Clock, Record<COMMAND_SIZE>)>,
    /// Events, likewise.
    pub events: Vec<(Clock, Event)>,
    /// Raw TLPs.
    pub raws: Vec<RawTlp>,
    /// Commands at their CQEs, each with the cycle in which it becomes visible outside.
    pub completions: Vec<(Clock, Completion)>,
}

impl Tracker {
    /// A tracker at power-on that sees its first TLP in `clock` at the earliest.
    pub fn new(clock: Clock) -> Self {
        Self {
            down: Lane::new(false, clock),
            up: Lane::new(true, clock),
            engine: Engine::new(),
            // PERST# is low at power-on, which the first cycle sees as a fall.
            perst: Some((1, 0)),
            perst_again: None,
            level: 0,
            finished: INIT_CLOCKS - 1,
            ready: INIT_CLOCKS,
            shows_until: 0,
            attach: None,
            attached: None,
            next: None,
            records: Vec::new(),
            events: Vec::new(),
            raws: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// A TLP whose first symbol is at `tick`; ticks of a direction do not decrease.
    #[inline]
    pub fn tlp(&mut self, up: bool, tick: u64, tlp: Tlp) {
        self.next = None;
        if let Some(clock) = self.lane(up).push_board(tick, tlp) {
            let from = if up { loss_source_code::TLP_UP } else { loss_source_code::TLP_DOWN };
            self.engine.losses.lose(from, clock, tick);
        }
    }

    /// The next TLP of the board comes after some that were missed.
    pub fn miss(&mut self, up: bool) {
        self.lane(up).miss();
    }

    fn lane(&mut self, up: bool) -> &mut Lane {
        if up {
            &mut self.up
        } else {
            &mut self.down
        }
    }

    /// A TLP of the self-test, while the board's are held.
    pub fn play(&mut self, up: bool, tick: u64, tlp: Tlp) {
        self.next = None;
        self.lane(up).push(tick, tlp, false);
    }

    /// From `clock` on the board's TLPs are not seen, or seen again.
    pub fn hold(&mut self, clock: Clock, hold: bool) {
        self.next = None;
        for lane in [&mut self.down, &mut self.up] {
            if hold {
                lane.hold(clock);
            } else {
                lane.release(clock);
            }
        }
    }

    /// PERST# takes a new level in `clock`.
    pub fn perst(&mut self, clock: Clock, level: u8) {
        if level == 0 && self.level != 0 {
            self.next = None;
            let seen = (clock + 2, tick(clock + 1));
            if self.perst.is_some() {
                // Two cycles later at least, so one that was already waiting has taken the first's place by now.
                self.perst = self.perst_again.or(self.perst);
                self.perst_again = Some(seen);
            } else {
                self.perst = Some(seen);
            }
        }
        self.level = level;
    }

    /// Records and events are made, or no longer, from `clock` on.
    pub fn set_run(&mut self, clock: Clock, run: bool) {
        if run {
            self.engine.start(clock);
            self.hand_on();
        } else {
            self.engine.run.1 = clock;
        }
    }

    /// A late-attach fact is offered from `clock` on.
    pub fn attach(&mut self, clock: Clock, fact: Attach) {
        self.next = None;
        self.attach = Some((clock, fact));
        self.attached = None;
    }

    /// Whether the last fact has not yet been accepted in `clock`.
    pub fn attach_waits(&self, clock: Clock) -> bool {
        self.attach.is_some() || self.attached.is_some_and(|taken| clock <= taken)
    }

    /// All TLPs up to `clock` have been handed in.
    pub fn know_until(&mut self, _clock: Clock) {
        self.next = None;
    }

    /// The cycle in which the last beat handed in is seen.
    pub fn seen_from(&self) -> Clock {
        self.down.last_beat().max(self.up.last_beat())
    }

    /// Number of command records so far.
    pub fn commands(&self) -> u64 {
        self.engine.counters.commands
    }

    /// What could not be modelled exactly, if it has happened.
    pub fn inexact(&self) -> Option<&'static str> {
        let lost = self.engine.losses.any().then_some("the tracker lost something (see the LOSS events)");
        self.engine.inexact.or(self.down.inexact()).or(self.up.inexact()).or(lost)
    }

    /// The counters as visible in `clock`.
    pub fn counters(&mut self, clock: Clock) -> Counters {
        let mut counters = self.engine.counters(clock);
        (counters.tlps_down, counters.tlps_up) = (self.down.counted(clock), self.up.counted(clock));
        counters.malformed = self.down.malformed(clock) + self.up.malformed(clock);
        if clock <= INIT_CLOCKS {
            counters.in_flight = 0;
        }
        counters
    }

    /// Whether, in `clock`, nothing that advances by cycles is in progress and no output is queued.
    pub fn is_idle(&mut self, clock: Clock) -> bool {
        self.finished.max(self.shows_until) < clock
            && self.due() > clock
            && !self.down.busy(clock)
            && !self.up.busy(clock)
    }

    /// The cycle in which the engine next does something.
    #[inline]
    pub fn due(&mut self) -> Clock {
        let next = match self.next {
            Some(next) => next,
            None => {
                let next = self.decide();
                self.next = Some(next);
                next
            }
        };
        next.clock()
    }

    fn decide(&mut self) -> Next {
        let losses = self.engine.losses.next();
        let losses = if self.engine.losses.waits() { self.wakes(losses) } else { losses };
        let engine = self.decide_engine();
        if losses < engine.clock() {
            Next::Losses(losses)
        } else {
            engine
        }
    }

    fn decide_engine(&mut self) -> Next {
        let take = self.merged(self.ready);
        let idle = self.finished + 1;
        let mut best = take.map_or(Next::Nothing, |(clock, up)| Next::Take(clock, up));
        if let Some((known, mut perst_tick)) = self.perst {
            // While it is pending, only TLPs from before it still go first, and only from the idle state.
            let at = idle.max(known);
            if let Some((known, again)) = self.perst_again {
                if at >= known {
                    perst_tick = again;
                }
            }
            if best.clock() >= known {
                let head_tick = self.head_tick(at);
                let waits = head_tick.is_some_and(|t| t <= perst_tick);
                best = match take {
                    Some((clock, up)) if waits => Next::Take(clock.max(idle), up),
                    _ => Next::Perst(at),
                };
            }
        }
        if let Some((offered, _)) = self.attach {
            if idle.max(offered) < best.clock() {
                best = Next::Attach(idle.max(offered));
            }
        }
        if self.engine.tables.cq_filled != 0 {
            let due = self.wakes(clock_at(self.engine.next_sweep)).max(idle);
            if due < best.clock() {
                best = Next::Sweep(due);
            }
        }
        best
    }

    /// Tick of the TLP that the merge would deliver next in `clock`, held back or not.
    fn head_tick(&self, clock: Clock) -> Option<u64> {
        [&self.down, &self.up].into_iter().filter(|l| l.shows() <= clock).filter_map(Lane::head_tick).min()
    }

    /// The first cycle from `from` on in which the merge has a TLP, and whether it goes up.
    #[inline]
    fn merged(&self, from: Clock) -> Option<(Clock, bool)> {
        let (down, up) = (self.down.shows(), self.up.shows());
        let first = from.max(down.min(up));
        if first == NEVER {
            return None;
        }
        if down.max(up) <= first {
            return Some((first, self.up.head_tick() < self.down.head_tick()));
        }
        let up_alone = up <= first;
        let (lane, other) = if up_alone { (&self.up, &self.down) } else { (&self.down, &self.up) };
        let head = lane.head_tick()?;
        let both = other.shows();
        let aged = clock_at(head + HOLDOFF_TICKS);
        let aged = if aged <= first { first } else { self.wakes(aged) };
        let free = other.free_from(aged, head, up_alone);
        let alone = free.min(self.wakes(clock_at(head + LONGEST_TICKS)).max(first));
        if alone < both {
            Some((alone, up_alone))
        } else {
            Some((both, self.up.head_tick() < self.down.head_tick()))
        }
    }

    /// The tracker rests while nothing happens and no late-attach fact waits: a timer that fires in `clock` is seen in
    /// it if the tracker was awake in the previous cycle, else one later.
    fn wakes(&self, clock: Clock) -> Clock {
        let before = clock.saturating_sub(1);
        let awake = self.finished.max(self.shows_until) >= before
            || self.attach.as_ref().is_some_and(|(offered, _)| *offered <= clock) // written one cycle earlier
            || self.down.active(before, &self.engine)
            || self.up.active(before, &self.engine);
        clock + u64::from(!awake)
    }

    /// Does what is due in the cycle of [`Self::due`].
    pub fn step(&mut self) {
        self.due();
        let mut takes = 1;
        match self.next.take() {
            Some(Next::Take(clock, up)) => {
                if let Some((mut header, first_beat)) = self.lane(up).take(clock) {
                    if header.kept_if_armed && self.engine.armed_in(first_beat) {
                        header.kept = true;
                    }
                    self.engine.take(&header, clock);
                    takes = 0;
                }
            }
            Some(Next::Perst(clock)) => {
                let (_, mut perst_tick) = self.perst.take().unwrap_or_default();
                if let Some((known, again)) = self.perst_again.take() {
                    // Asserted again: after this (a reset of its own), in this very cycle (which clears it), or before
                    // (its tick counts).
                    if clock >= known {
                        perst_tick = again;
                    } else if clock + 1 < known {
                        self.perst = Some((known, again));
                    }
                }
                self.engine.begin();
                self.engine.t = clock;
                self.engine.reset(reset_cause_code::PERST, perst_tick);
            }
            Some(Next::Attach(clock)) => {
                if let Some((_, fact)) = self.attach.take() {
                    self.attached = Some(self.engine.attach(&fact, clock));
                }
            }
            Some(Next::Sweep(clock)) => self.engine.sweep(clock),
            Some(Next::Losses(clock)) => {
                let run = self.engine.run.0 <= clock && clock < self.engine.run.1;
                let events = &mut self.engine.made.events;
                let place = events.partition_point(|(at, _)| *at < clock);
                let free = events.get(place).is_none_or(|(at, _)| *at != clock);
                if let Some(report) = self.engine.losses.step(clock, free, run) {
                    events.insert(place, report);
                }
                self.shows_until = self.shows_until.max(clock);
                return self.hand_on();
            }
            Some(Next::Nothing) | None => return,
        }
        self.finished = self.engine.t;
        self.ready = self.engine.t + takes;
        self.down.forget(self.finished);
        self.up.forget(self.finished);
        self.hand_on();
    }

    fn hand_on(&mut self) {
        let made = &mut self.engine.made;
        let last = |clock: Option<Clock>| clock.map_or(0, |c| c + 2);
        let raw = made.raws.last().map(|r| r.written + r.bytes.len() as Clock / 4 - 1);
        self.shows_until = self
            .shows_until
            .max(last(made.records.last().map(|r| r.0)))
            .max(last(made.events.last().map(|e| e.0)))
            .max(last(raw));
        self.records.append(&mut made.records);
        // Events the engine has made ahead of time must let a report of losses that is due go first.
        let safe = made.events.partition_point(|(at, _)| *at < self.engine.losses.next());
        self.events.extend(made.events.drain(..safe));
        self.raws.append(&mut made.raws);
        self.completions.append(&mut made.completions);
    }
}
