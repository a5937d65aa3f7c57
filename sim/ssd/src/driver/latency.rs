//! `latency_target`: the search for the largest depth at which enough I/Os are fast enough. The rules follow fio's `lat_target_*`
//! (`io_u.c`). Time advances with completions.

use crate::fio::LatencyTarget;
use crate::profile::{Ps, NS, US};

/// The consequence of a completion for the job.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// It goes on.
    Nothing,
    /// The depth is found: figures begin anew for a last window.
    LastWindow,
    /// The last window is over.
    Done,
    /// An I/O was too slow, at a depth of 1 with a percentile of 100.
    Failed,
}

/// The state of a search.
pub struct DepthSearch {
    spec: LatencyTarget,
    most: u32,
    depth: u32,
    low: u32,
    high: u32,
    stable: u32,
    since: Ps,
    ios: u64,
    slow: u64,
    last: bool,
    waits: bool,
}

impl DepthSearch {
    /// From a depth of 1 at `start`; at most `most`.
    pub fn new(spec: &LatencyTarget, most: u32, start: Ps) -> Self {
        let spec = spec.clone();
        Self {
            spec,
            most,
            depth: 1,
            low: 1,
            high: most,
            stable: 0,
            since: start,
            ios: 0,
            slow: 0,
            last: false,
            waits: false,
        }
    }

    /// The search.
    pub fn spec(&self) -> &LatencyTarget {
        &self.spec
    }

    /// The depth at present.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether another I/O may start beside so many.
    pub fn has_room(&self, in_flight: usize) -> bool {
        !self.waits && in_flight < self.depth as usize
    }

    /// Begins at `start` after all: the job had to wait.
    pub fn restart(&mut self, start: Ps) {
        self.since = start;
    }

    /// An I/O took `ns` and is complete at `now`; `in_flight` others are not.
    pub fn completed(&mut self, ns: u64, now: Ps, in_flight: usize) -> Found {
        self.ios += 1;
        if ns > self.spec.target_ns {
            if self.spec.percentile < 100.0 {
                self.slow += 1;
            } else if !self.lower(now) {
                return Found::Failed;
            }
        }
        if self.waits {
            if in_flight == 0 {
                self.waits = false;
                self.begin_window(now);
            }
            return Found::Nothing;
        }
        if (now - self.since) / NS < self.spec.window_us * (US / NS) {
            return Found::Nothing;
        }
        if (self.ios - self.slow) as f64 / self.ios as f64 * 100.0 < self.spec.percentile {
            self.lower(now);
            self.waits &= in_flight > 0;
            return Found::Nothing;
        }
        let found = self.raise();
        self.begin_window(now);
        self.waits &= in_flight > 0;
        found
    }

    fn begin_window(&mut self, now: Ps) {
        (self.since, self.ios, self.slow) = (now, 0, 0);
    }

    /// Towards the largest depth that met the target; `false` if there is no smaller depth.
    fn lower(&mut self, now: Ps) -> bool {
        if self.depth == 1 {
            return false;
        }
        self.high = self.depth;
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = ((self.depth + self.low) / 2).max(1);
        (self.stable, self.waits) = (0, true);
        self.begin_window(now);
        true
    }

    fn raise(&mut self) -> Found {
        let before = self.depth;
        self.low = self.depth;
        if self.depth + 1 == self.high {
            self.stable += 1;
            if self.stable >= 3 {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        self.depth = if self.high == self.most { self.depth * 2 } else { (self.depth + self.high) / 2 }.min(self.most);
        if self.spec.run || self.depth != before {
            return Found::Nothing;
        }
        if self.last {
            return Found::Done;
        }
        (self.last, self.waits) = (true, true);
        Found::LastWindow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search on a drive with a latency of `ns_each` times the depth, and returns the depths of its windows.
    fn search(target_ns: u64, percentile: f64, most: u32, ns_each: u64) -> (Vec<u32>, Found) {
        let spec = LatencyTarget { target_ns, window_us: 1000, percentile, run: false };
        let mut search = DepthSearch::new(&spec, most, 0);
        let (mut depths, mut now) = (vec![1], 0);
        for _ in 0..1_000_000 {
            let depth = search.depth();
            let ns = u64::from(depth) * ns_each;
            now += ns_each * NS;
            let in_flight = if search.has_room(0) { depth as usize - 1 } else { 0 };
            match search.completed(ns, now, in_flight) {
                Found::Nothing | Found::LastWindow => {}
                end => return (depths, end),
            }
            if search.depth() != depth {
                depths.push(search.depth());
            }
        }
        panic!("no end: {depths:?}");
    }

    /// Checks a search by hand: 10 us an I/O in flight and a limit of 75 us allow 7. The depth doubles to 8, which fails; then the
    /// remaining range is halved.
    #[test]
    fn the_largest_depth_that_meets_the_target_is_found() {
        assert_eq!(search(75_000, 99.0, 64, 10_000), (vec![1, 2, 4, 8, 6, 7], Found::Done));
        assert_eq!(search(75_000, 100.0, 64, 10_000), (vec![1, 2, 4, 8, 6, 7], Found::Done));
        // the limit would allow a depth of 100, but the search stops at the most
        assert_eq!(search(1_000_000, 99.0, 16, 10_000), (vec![1, 2, 4, 8, 16], Found::Done));
    }

    #[test]
    fn a_drive_that_is_too_slow_for_any_depth_fails_the_job_at_100_percent() {
        assert_eq!(search(5_000, 100.0, 64, 10_000), (vec![1], Found::Failed));
    }
}
