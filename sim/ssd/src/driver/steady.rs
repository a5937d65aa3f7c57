//! `steadystate`: ends jobs when their figures are steady. The rules follow fio's `steadystate.c`, at exact intervals.

use crate::fio::{SteadyFigure, SteadyState};
use crate::profile::{Ps, S as SECOND, US};
use serde_json::{json, Value};
use std::collections::VecDeque;

/// The jobs' work up to an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of completion latencies, in nanoseconds.
    pub clat_ns: u128,
}

/// The figures of an interval, in whole numbers as fio has them.
#[derive(Debug, Clone, Copy)]
struct Interval {
    iops: u64,
    bytes_per_s: u64,
    clat_ns: u64,
}

/// Watches one job, or the jobs of a reporting group.
pub struct SteadyWatch {
    spec: SteadyState,
    start: Ps,
    checks: u64,
    before: Done,
    window: VecDeque<Interval>,
    attained_at: Option<Ps>,
    criterion: Option<f64>,
}

impl SteadyWatch {
    /// From `start` on.
    pub fn new(spec: &SteadyState, start: Ps) -> Self {
        let (spec, window) = (spec.clone(), VecDeque::new());
        Self { spec, start, checks: 0, before: Done::default(), window, attained_at: None, criterion: None }
    }

    /// Begins at `start` after all: the jobs had to wait.
    pub fn restart(&mut self, start: Ps) {
        self.start = start;
    }

    /// When the next check is due.
    pub fn next_check(&self) -> Ps {
        self.start + (self.checks + 1) * self.spec.interval_us * US
    }

    /// Whether a steady state was found.
    pub fn is_attained(&self) -> bool {
        self.attained_at.is_some()
    }

    /// The check that was due: whether the state is steady, given all that was done until then.
    pub fn check(&mut self, done: Done) -> bool {
        let at = self.next_check();
        self.checks += 1;
        let before = std::mem::replace(&mut self.before, done);
        let elapsed_us = self.checks * self.spec.interval_us;
        // fio records the first interval that begins after the ramp.
        if self.spec.ramp_us > 0 && elapsed_us < self.spec.ramp_us + self.spec.interval_us {
            return false;
        }
        let ios = done.ios - before.ios;
        let rate = |n: u64| (u128::from(n) * 1_000_000 / u128::from(self.spec.interval_us)) as u64;
        let clat_ns = (done.clat_ns - before.clat_ns).checked_div(u128::from(ios)).unwrap_or(0) as u64;
        self.window.push_back(Interval { iops: rate(ios), bytes_per_s: rate(done.bytes - before.bytes), clat_ns });
        let most = (self.spec.window_us / self.spec.interval_us) as usize;
        if self.window.len() > most {
            self.window.pop_front();
        }
        if self.window.len() < most {
            return false;
        }
        let criterion = self.value();
        self.criterion = Some(criterion);
        let steady = criterion.abs() < self.spec.limit;
        if steady {
            self.attained_at = Some(at);
        }
        steady
    }

    /// Returns the value that is compared with the limit, for a full window.
    fn value(&self) -> f64 {
        let figure = |i: &Interval| match self.spec.figure {
            SteadyFigure::Iops => i.iops as f64,
            SteadyFigure::Bandwidth => i.bytes_per_s as f64,
            SteadyFigure::Latency => i.clat_ns as f64,
        };
        let values: Vec<f64> = self.window.iter().map(figure).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let value = match self.spec.slope {
            true => slope(&values, mean),
            false => values.iter().map(|v| (v - mean).abs()).fold(0.0, f64::max),
        };
        match self.spec.percent {
            // Nothing done in the whole window is no steady state.
            true if mean == 0.0 => f64::INFINITY,
            true => 100.0 * value / mean,
            false => value,
        }
    }

    /// Returns the result in the form of fio's `steadystate`; `criterion` is null before a window was full.
    pub fn json(&self) -> Value {
        let list = |f: fn(&Interval) -> u64| self.window.iter().map(f).collect::<Vec<_>>();
        let attained_s = self.attained_at.map(|at| (at - self.start) as f64 / SECOND as f64);
        json!({
            "ss": self.spec.text, "duration": self.spec.window_us / 1_000_000, "attained": u8::from(self.is_attained()),
            "attained_s": attained_s, "criterion": self.criterion.filter(|c| c.is_finite()),
            "data": {"iops": list(|i| i.iops), "bw": list(|i| i.bytes_per_s), "clat_ns": list(|i| i.clat_ns)},
        })
    }
}

/// Least-squares slope over the numbers of the intervals.
fn slope(values: &[f64], mean: f64) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (i, v) in values.iter().enumerate() {
        let x = i as f64 - middle;
        xy += x * (v - mean);
        xx += x * x;
    }
    xy / xx
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(figure: SteadyFigure, slope: bool, percent: bool, limit: f64, ramp_us: u64) -> SteadyWatch {
        let (window_us, interval_us) = (4_000_000, 1_000_000);
        let spec = SteadyState { text: String::new(), figure, slope, percent, limit, window_us, ramp_us, interval_us };
        SteadyWatch::new(&spec, 0)
    }

    /// At which check I/Os a second as listed are steady.
    fn attained(mut watch: SteadyWatch, per_second: &[u64]) -> Option<usize> {
        let mut done = Done::default();
        per_second.iter().position(|ios| {
            done.ios += ios;
            done.bytes += ios * 4096;
            done.clat_ns += u128::from(*ios) * 1000;
            watch.check(done)
        })
    }

    /// Checks steadiness by hand.
    ///
    /// Window 110 104 100 98: mean 103, furthest 7.
    ///
    /// Window 104 100 98 97: mean 99.75, furthest 4.25. The slope is (-1.5 x 104 - 0.5 x 100 + 0.5 x 98 + 1.5 x 97) / 5 = -2.3.
    #[test]
    fn steadiness_by_hand() {
        let falling = [200, 150, 110, 104, 100, 98, 97, 97, 97, 97];
        let iops = SteadyFigure::Iops;
        assert_eq!(attained(watch(iops, false, false, 4.26, 0), &falling), Some(6));
        assert_eq!(attained(watch(iops, false, false, 4.25, 0), &falling), Some(7));
        assert_eq!(attained(watch(iops, false, true, 4.27, 0), &falling), Some(6)); // 4.25 of 99.75 is 4.2607 %
        assert_eq!(attained(watch(iops, true, false, 2.31, 0), &falling), Some(6));
        assert_eq!(attained(watch(iops, true, false, 2.29, 0), &falling), Some(7));
        assert_eq!(attained(watch(SteadyFigure::Bandwidth, false, false, 4096.0 * 4.26, 0), &falling), Some(6));
        assert_eq!(attained(watch(SteadyFigure::Latency, false, false, 1.0, 0), &falling), Some(3));
        assert_eq!(attained(watch(iops, false, false, 0.0, 0), &falling), None);
    }

    #[test]
    fn nothing_is_recorded_in_the_ramp() {
        let level = [100; 20];
        let ramp = |us| attained(watch(SteadyFigure::Iops, false, true, 1.0, us), &level);
        assert_eq!(ramp(0), Some(3));
        assert_eq!(ramp(2_000_000), Some(5));
        assert_eq!(ramp(2_500_000), Some(6));
    }

    #[test]
    fn doing_nothing_is_not_steady() {
        assert_eq!(attained(watch(SteadyFigure::Iops, false, true, 5.0, 0), &[0; 20]), None);
    }
}
