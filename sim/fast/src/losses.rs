//! Counts the tracker's losses by source, and reports them at a bounded rate. This part works by clocks: it receives the engine's losses
//! when they are released, like all of the engine's output.

use crate::time::{clock_at, tick, Clock, NEVER};
use std::collections::VecDeque;

const SOURCES: usize = 10;
const REPORT_TICKS: u64 = 1 << 20;

/// Losses, and when they are reported.
#[derive(Debug, Default)]
pub struct Losses {
    /// Losses that are known before they happen: cycle, source, tick.
    coming: VecDeque<(Clock, u8, u64)>,
    counts: [u32; SOURCES],
    /// Not yet reported: how many, and the tick of the first.
    pending: [(u32, u64); SOURCES],
    next_report: u64,
    /// The source being looked at, and from which cycle on.
    reporting: Option<(usize, Clock)>,
}

impl Losses {
    /// One loss in `clock`.
    pub fn lose(&mut self, clock: Clock, source: u8, tick: u64) {
        let place = self.coming.partition_point(|(at, ..)| *at <= clock);
        self.coming.insert(place, (clock, source, tick));
    }

    /// Losses of `source` before `clock`.
    pub fn count(&self, source: u8, clock: Clock) -> u32 {
        let shown = self.coming.iter().filter(|(at, s, _)| *at < clock && *s == source).count();
        self.counts[usize::from(source)].wrapping_add(shown as u32)
    }

    /// The cycle in which there is something to do.
    pub fn next(&self) -> Clock {
        if let Some((_, clock)) = self.reporting {
            return clock;
        }
        let pending = self.pending.iter().any(|(count, _)| *count != 0);
        let since = if pending { Some(0) } else { self.coming.front().map(|(clock, ..)| clock + 1) };
        since.map_or(NEVER, |since| since.max(clock_at(self.next_report)))
    }

    /// Executes the work due in `clock`. Returns the report that is due, if events are made (`run`): source, losses, and the tick of the
    /// first loss.
    pub fn offer(&mut self, clock: Clock, run: bool) -> Option<(u8, u32, u64)> {
        while let Some((_, source, tick)) = self.coming.front().copied().filter(|(at, ..)| *at < clock) {
            self.coming.pop_front();
            let i = usize::from(source);
            self.counts[i] = self.counts[i].wrapping_add(1);
            let (count, first) = &mut self.pending[i];
            if *count == 0 {
                *first = tick;
            }
            *count += 1;
        }
        let Some((source, _)) = self.reporting else {
            self.reporting = Some((0, clock + 1));
            return None;
        };
        let (count, first) = self.pending[source];
        if count == 0 || !run {
            self.taken(clock);
            return None;
        }
        Some((source as u8, count, first))
    }

    /// It was reported in `clock`.
    pub fn taken(&mut self, clock: Clock) {
        let Some((source, _)) = self.reporting else { return };
        self.pending[source].0 = 0;
        self.reporting = Some((source + 1, clock + 1)).filter(|(next, _)| *next < SOURCES);
        if self.reporting.is_none() {
            self.next_report = tick(clock) + REPORT_TICKS;
        }
    }
}
