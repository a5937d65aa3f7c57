//! Counts the tracker's losses by source, and reports them in events at a bounded rate.

use crate::events::{event, Event};
use crate::time::{clock_at, tick, Clock, NEVER};
use std::collections::VecDeque;
use wattbell_spec::wire::event_type_code;

const SOURCES: usize = 10;
const REPORT_TICKS: u64 = 1 << 20;

/// Losses, and when they are reported.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Future losses, by cycle: the engine and the parsers run ahead.
    coming: VecDeque<(Clock, u8, u64)>,
    pending: [u32; SOURCES],
    first: [u64; SOURCES],
    counts: [u32; SOURCES],
    next_report: u64,
    /// The source being looked at, and in which cycle.
    reporting: Option<(usize, Clock)>,
}

impl Losses {
    /// One loss in `clock`.
    pub fn lose(&mut self, source: u8, clock: Clock, tick: u64) {
        let place = self.coming.partition_point(|(at, ..)| *at <= clock);
        self.coming.insert(place, (clock, source, tick));
    }

    /// Losses before `clock` count from now on.
    fn absorb(&mut self, clock: Clock) {
        while let Some((_, source, tick)) = self.coming.front().copied().filter(|(at, ..)| *at < clock) {
            self.coming.pop_front();
            let i = usize::from(source);
            if self.pending[i] == 0 {
                self.first[i] = tick;
            }
            self.pending[i] += 1;
            self.counts[i] = self.counts[i].wrapping_add(1);
        }
    }

    /// Losses of `source` visible in `clock`.
    pub fn count(&self, source: u8, clock: Clock) -> u32 {
        let shown = self.coming.iter().filter(|(at, s, _)| *at < clock && *s == source).count();
        self.counts[usize::from(source)].wrapping_add(shown as u32)
    }

    /// Whether anything was ever lost.
    pub fn any(&self) -> bool {
        !self.coming.is_empty() || self.counts != [0; SOURCES]
    }

    /// The cycle in which there is something to do.
    pub fn next(&self) -> Clock {
        if let Some((_, clock)) = self.reporting {
            return clock;
        }
        self.since().map_or(NEVER, |since| since.max(clock_at(self.next_report)))
    }

    /// Whether what there is to do then only waits for its time.
    pub fn waits(&self) -> bool {
        self.reporting.is_none() && self.since().is_some_and(|since| since < clock_at(self.next_report))
    }

    /// From which cycle on there is something to report.
    fn since(&self) -> Option<Clock> {
        match self.coming.front() {
            _ if self.pending != [0; SOURCES] => Some(0),
            coming => coming.map(|(clock, ..)| clock + 1),
        }
    }

    /// Does what is due in `clock`. `free`: the engine makes no event in it; `run`: events are made.
    pub fn step(&mut self, clock: Clock, free: bool, run: bool) -> Option<(Clock, Event)> {
        self.absorb(clock);
        let Some((source, _)) = self.reporting else {
            self.reporting = Some((0, clock + 1));
            return None;
        };
        let mut made = None;
        if self.pending[source] != 0 {
            if run && !free {
                self.reporting = Some((source, clock + 1));
                return None;
            }
            if run {
                let count = self.pending[source];
                made = Some((clock, event(self.first[source], event_type_code::LOSS, source as u8, 0, count)));
            }
            self.pending[source] = 0;
        }
        self.reporting = Some((source + 1, clock + 1));
        if source + 1 == SOURCES {
            self.reporting = None;
            self.next_report = tick(clock) + REPORT_TICKS;
        }
        made
    }
}
