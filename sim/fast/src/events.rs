//! Merges all events: from the tracker, the run, markers, the sidebands and losses.

use crate::builder::{Builder, Record};
use crate::field::put;
use crate::losses::Losses as TrackerLosses;
use crate::time::{tick, Clock, NEVER};
use std::collections::VecDeque;
use wattbell_spec::wire::{event as field, event_type_code as kind, link_state_code, loss_source_code, EVENT_SIZE};

/// Events the queue holds besides its output register.
const QUEUE: usize = 63;
/// Maximum number of sideband changes waiting.
const SIDEBAND_QUEUE: usize = 8;
/// Minimum time between two rounds of LOSS events.
const LOSS_PERIOD_TICKS: u64 = 1_000_000;

/// An event as on the wire.
pub type Event = [u8; EVENT_SIZE];

/// Makes one.
pub fn event(tick: u64, kind: u8, arg8: u8, arg16: u16, arg32: u32) -> Event {
    let mut e = [0; EVENT_SIZE];
    put(&mut e, field::TICK, tick);
    put(&mut e, field::TYPE, kind.into());
    put(&mut e, field::ARG8, arg8.into());
    put(&mut e, field::ARG16, arg16.into());
    put(&mut e, field::ARG32, arg32.into());
    e
}

/// Levels of the sidebands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// PERST#.
    pub perst_n: u8,
    /// CLKREQ#.
    pub clkreq_n: u8,
    /// Number of the link state.
    pub link_state: u8,
}

impl Default for Levels {
    /// Values at power-on.
    fn default() -> Self {
        Self { perst_n: 0, clkreq_n: 1, link_state: 0 }
    }
}

impl Levels {
    /// Whether the link is in Detect.
    pub fn is_detect(self) -> bool {
        self.link_state == link_state_code::DETECT
    }

    /// Returns the differing levels: bit 0 PERST#, 1 CLKREQ#, 2 link state.
    pub fn differs(self, other: Self) -> u8 {
        u8::from(self.perst_n != other.perst_n)
            | u8::from(self.clkreq_n != other.clkreq_n) << 1
            | u8::from(self.link_state != other.link_state) << 2
    }
}

#[derive(Debug)]
struct Change {
    clock: Clock,
    left: u8,
    levels: Levels,
}

/// Losses before the stream, by source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Lost {
    Records,
    Events,
    Samples,
}

const LOSS_SOURCES: [u8; 3] = [loss_source_code::RECORDS, loss_source_code::EVENTS, loss_source_code::RAIL];

#[derive(Debug, Default)]
struct Losses {
    pending: [u32; 3],
    total: [u32; 3],
    reporting: Option<usize>,
    next_tick: u64,
}

/// Collects all events in one queue.
#[derive(Debug, Default)]
pub struct EventPort {
    /// The tracker's events, each with the cycle in which it becomes visible.
    pub tracker: VecDeque<(Clock, Event)>,
    run: Option<(Clock, Event)>,
    run_taken: Option<Clock>,
    marker: Option<(Clock, Event)>,
    changes: VecDeque<Change>,
    losses: Losses,
    /// The tracker's own losses.
    pub tracker_losses: TrackerLosses,
    flush_losses: bool,
    dropped: u32,
    done: Clock,
}

impl EventPort {
    /// Offers a RUN event from `clock` on.
    pub fn offer_run(&mut self, clock: Clock, event: Event) {
        self.run = Some((clock, event));
        self.run_taken = None;
    }

    /// The cycle in which the RUN event was accepted.
    pub fn run_taken(&self) -> Option<Clock> {
        self.run_taken
    }

    /// A marker from the control port, offered from `clock` on.
    pub fn offer_marker(&mut self, clock: Clock, value: u32) {
        let e = event(tick(clock - 1), kind::MARKER, wattbell_spec::wire::marker_source_code::CONTROL, 0, value);
        if self.marker.is_some_and(|(from, _)| from < clock) {
            self.lose(Lost::Events, 1);
            self.dropped += 1;
        } else {
            self.marker = Some((clock, e));
        }
    }

    /// Sidebands changed in `clock`, or a capture begins (`changed` = 7).
    pub fn sidebands(&mut self, clock: Clock, changed: u8, levels: Levels) {
        if self.changes.len() >= SIDEBAND_QUEUE {
            self.lose(Lost::Events, changed.count_ones());
            self.dropped += changed.count_ones();
            return;
        }
        self.changes.push_back(Change { clock, left: changed, levels });
    }

    /// Counts losses.
    pub fn lose(&mut self, what: Lost, count: u32) {
        self.losses.pending[what as usize] += count;
        self.losses.total[what as usize] += count;
    }

    /// Losses so far.
    pub fn lost(&self, what: Lost) -> u32 {
        self.losses.total[what as usize]
    }

    /// Reports the remaining losses at once.
    pub fn set_flush_losses(&mut self, flush: bool) {
        self.flush_losses = flush;
    }

    /// Whether nothing is left to report.
    pub fn losses_clean(&self) -> bool {
        self.losses.reporting.is_none() && self.losses.pending == [0; 3]
    }

    /// The cycle in which it next does something.
    pub fn next(&self) -> Clock {
        let tracker = self.tracker.front().map_or(NEVER, |(shows, _)| *shows);
        let run = self.run.map_or(NEVER, |(from, _)| from);
        let marker = self.marker.map_or(NEVER, |(from, _)| from);
        let change = self.changes.front().map_or(NEVER, |c| c.clock + 1);
        let losses = if self.losses_clean() { NEVER } else { 0 };
        tracker.min(run).min(marker).min(change).min(losses).min(self.tracker_losses.next()).max(self.done)
    }

    /// Executes the work due in `clock`; `run`: the tracker makes events.
    pub fn step(&mut self, clock: Clock, run: bool, queue: &mut Builder<EVENT_SIZE>) {
        self.done = clock + 1;
        let queue = &mut queue.queue;
        let room = queue.behind(clock) < QUEUE;
        let mut start_losses = false;
        if !self.losses_clean() && self.losses.reporting.is_none() {
            start_losses = self.flush_losses || tick(clock) >= self.losses.next_tick;
        }
        let of_tracker = if self.tracker_losses.next() <= clock { self.tracker_losses.offer(clock, run) } else { None };
        let mut advance_losses = self.losses.reporting.is_some_and(|i| self.losses.pending[i] == 0);
        let mut put = |event: Event, dropped: &mut u32| {
            let tick =
                u64::from_le_bytes([event[0], event[1], event[2], event[3], event[4], event[5], event[6], event[7]]);
            queue.push(clock, Record { tick, bytes: event, dropped: std::mem::take(dropped) });
        };
        if self.tracker.front().is_some_and(|(shows, _)| *shows <= clock) {
            let (_, event) = self.tracker.pop_front().expect("it was there");
            if room {
                put(event, &mut self.dropped);
            } else {
                self.dropped += 1;
                self.lose(Lost::Events, 1);
            }
        } else if !room {
        } else if let Some((_, event)) = self.run.take_if(|(from, _)| *from <= clock) {
            put(event, &mut self.dropped);
            self.run_taken = Some(clock);
        } else if let Some((_, event)) = self.marker.take_if(|(from, _)| *from <= clock) {
            put(event, &mut self.dropped);
        } else if let Some(change) = self.changes.front_mut().filter(|c| c.clock < clock) {
            let bit = change.left & change.left.wrapping_neg();
            let (kind, level) = match bit {
                1 => (kind::PERST, change.levels.perst_n),
                2 => (kind::CLKREQ, change.levels.clkreq_n),
                _ => (kind::LINK, change.levels.link_state),
            };
            put(event(tick(change.clock), kind, level, 0, 0), &mut self.dropped);
            change.left &= !bit;
            if change.left == 0 {
                self.changes.pop_front();
            }
        } else if let Some(i) = self.losses.reporting.filter(|&i| self.losses.pending[i] != 0) {
            let count = std::mem::take(&mut self.losses.pending[i]);
            put(event(tick(clock), kind::LOSS, LOSS_SOURCES[i], 0, count), &mut self.dropped);
            advance_losses = true;
        } else if let Some((source, count, first)) = of_tracker {
            put(event(first, kind::LOSS, source, 0, count), &mut self.dropped);
            self.tracker_losses.taken(clock);
        }
        if start_losses {
            self.losses.reporting = Some(0);
            self.losses.next_tick = tick(clock) + LOSS_PERIOD_TICKS;
        } else if advance_losses {
            self.losses.reporting = self.losses.reporting.map(|i| i + 1).filter(|&i| i < LOSS_SOURCES.len());
        }
    }

    /// Number of the tracker's events that are to be taken by `clock`.
    pub fn waiting(&self, clock: Clock) -> usize {
        self.tracker.partition_point(|(shows, _)| *shows <= clock)
    }

    /// Whether no event of the tracker waits here in `clock`.
    pub fn tracker_is_empty(&self, clock: Clock) -> bool {
        self.tracker.front().is_none_or(|(shows, _)| *shows > clock)
    }
}
