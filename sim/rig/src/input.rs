//! The input of the filters: the rail as in the trace, plus the current drawn by the board's test load.

use crate::filter::Filter;
use std::collections::VecDeque;
use wattbell_bus::Rail;

/// Conductance of the test loads (LOAD_CONTROL in docs/registers.md), in siemens: 1 A and 90 mA at 3.3 V.
const LOADS_S: [f64; 2] = [1.0 / 3.3, 1.0 / 36.7];

/// The input of a front end; its changes are announced ahead of time.
#[derive(Debug, Clone, Default)]
pub struct Input {
    ahead: VecDeque<(u64, Rail)>,
    /// Changes of the test load: conductance from some time on.
    loads: VecDeque<(u64, f64)>,
    /// The rail without the load (volts, amperes), and the load's conductance.
    rail: (f64, f64),
    load_s: f64,
}

impl Input {
    /// The rail takes a new value at `time_ps`; times do not decrease from call to call.
    pub fn push(&mut self, time_ps: u64, rail: Rail) {
        self.ahead.push_back((time_ps, rail));
    }

    /// Test loads that are on from `time_ps` on: 1 coarse, 2 fine. Times do not decrease from call to call.
    pub fn load(&mut self, time_ps: u64, which: u8) {
        let siemens = LOADS_S.iter().enumerate().map(|(k, s)| f64::from(which >> k & 1) * s).sum();
        self.loads.push_back((time_ps, siemens));
    }

    /// Number of future rail changes.
    pub fn pending(&self) -> usize {
        self.ahead.len()
    }

    /// Returns the largest current (amperes) up to `until_ps`. Returns None while a test load is on or announced, because the load adds
    /// its current.
    pub fn most_until(&self, until_ps: u64) -> Option<f64> {
        let known = self.ahead.iter().take_while(|(at_ps, _)| *at_ps <= until_ps);
        let no_load = self.load_s == 0.0 && self.loads.is_empty();
        no_load.then(|| known.map(|(_, rail)| rail.current_na as f64 * 1e-9).fold(0.0, f64::max))
    }

    /// Time of the next change.
    #[inline(always)]
    pub fn next_change(&self) -> u64 {
        let (rail, load) = (self.ahead.front(), self.loads.front());
        rail.map_or(u64::MAX, |c| c.0).min(load.map_or(u64::MAX, |c| c.0))
    }

    /// Lets `filter` follow the changes up to `time_ps`.
    pub fn change(&mut self, time_ps: u64, filter: &mut Filter) {
        loop {
            let at_ps = self.next_change();
            if at_ps > time_ps {
                return;
            }
            filter.advance(at_ps.max(filter.time_ps));
            if self.ahead.front().is_some_and(|(at, _)| *at == at_ps) {
                let (_, rail) = self.ahead.pop_front().unwrap_or_default();
                self.rail = (rail.voltage_nv as f64 * 1e-9, rail.current_na as f64 * 1e-9);
            } else if let Some((_, siemens)) = self.loads.pop_front() {
                self.load_s = siemens;
            }
            let (volts, amperes) = self.rail;
            filter.aim(volts, amperes + volts * self.load_s);
        }
    }
}
