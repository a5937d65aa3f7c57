//! The controller's side of temperature: thresholds, host controlled thermal management, and the counters of both.
//!
//! The composite temperature comes from [`Heat`](super::heat::Heat), or from outside. This module returns the throttle level with which
//! the drive responds.

use crate::profile::{Ps, S};

/// How far host controlled thermal management holds the drive back (NVM Express, Host Controlled Thermal Management).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Throttle {
    /// Not at all.
    #[default]
    None,
    /// Above thermal management temperature 1: with little effect on performance.
    Light,
    /// Above thermal management temperature 2: whatever it costs.
    Heavy,
}

/// Temperatures in kelvin that the drive and the host set; 0: none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Over- and under-temperature threshold, feature 04h.
    pub thresholds: (u16, u16),
    /// Thermal management temperatures 1 and 2, feature 10h.
    pub management: (u16, u16),
    /// WCTEMP and CCTEMP.
    pub composite: (u16, u16),
}

/// The drive's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time at or above WCTEMP.
    pub warning: Ps,
    /// Time at or above CCTEMP.
    pub critical: Ps,
    /// Transitions to light throttling from none.
    pub light_count: u32,
    /// Transitions to heavy throttling.
    pub heavy_count: u32,
    /// Time of light throttling.
    pub light: Ps,
    /// Time of heavy throttling.
    pub heavy: Ps,
}

/// Temperature as the SMART / Health log shows it.
#[derive(Debug, Clone, Copy)]
pub struct Warmth {
    /// Composite temperature in kelvin.
    pub composite_k: u16,
    /// Whether it is beyond a threshold of feature 04h: critical warning bit 1.
    pub beyond: bool,
    /// The counters.
    pub counters: Counters,
}

/// Composite temperature and its consequences.
pub struct Thermal {
    composite_k: u16,
    level: Throttle,
    beyond: bool,
    since: Ps,
    counters: Counters,
}

impl Thermal {
    /// A drive at rest.
    pub fn new(composite_k: u16) -> Self {
        Self { composite_k, level: Throttle::None, beyond: false, since: 0, counters: Counters::default() }
    }

    /// Composite temperature in kelvin.
    pub fn composite_k(&self) -> u16 {
        self.composite_k
    }

    /// Throttle level of host controlled thermal management.
    pub fn level(&self) -> Throttle {
        self.level
    }

    /// Returns the SMART / Health log's temperature fields at `now`.
    pub fn warmth(&mut self, now: Ps, limits: &Limits) -> Warmth {
        self.count(now, limits);
        Warmth { composite_k: self.composite_k, beyond: self.beyond, counters: self.counters }
    }

    /// The composite temperature is `composite_k` from `now` on, or a limit changed (then with the present one): whether
    /// it just went beyond a threshold.
    pub fn update(&mut self, now: Ps, composite_k: u16, limits: &Limits) -> bool {
        self.count(now, limits);
        self.composite_k = composite_k;
        let above = |limit: u16| limit != 0 && composite_k >= limit;
        let level = match (above(limits.management.0), above(limits.management.1)) {
            (_, true) => Throttle::Heavy,
            (true, false) => Throttle::Light,
            (false, false) => Throttle::None,
        };
        self.counters.light_count += u32::from(level == Throttle::Light && self.level == Throttle::None);
        self.counters.heavy_count += u32::from(level == Throttle::Heavy && self.level != Throttle::Heavy);
        self.level = level;
        let (over, under) = limits.thresholds;
        let beyond = above(over) || composite_k <= under;
        let new = beyond && !self.beyond;
        self.beyond = beyond;
        new
    }

    fn count(&mut self, now: Ps, limits: &Limits) {
        let passed = now.saturating_sub(self.since);
        self.since = now;
        let c = &mut self.counters;
        match self.level {
            Throttle::None => {}
            Throttle::Light => c.light += passed,
            Throttle::Heavy => c.heavy += passed,
        }
        let (warning, critical) = limits.composite;
        if critical != 0 && self.composite_k >= critical {
            c.critical += passed;
        }
        if warning != 0 && self.composite_k >= warning {
            c.warning += passed;
        }
    }
}

/// Whole seconds of a time.
pub fn seconds(time: Ps) -> u32 {
    u32::try_from(time / S).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_counters_follow_the_temperature() {
        let limits = Limits { thresholds: (350, 0), management: (340, 345), composite: (350, 353) };
        let mut t = Thermal::new(308);
        let steps =
            [(10, 341, Throttle::Light, false), (20, 346, Throttle::Heavy, false), (25, 351, Throttle::Heavy, true)];
        for (second, kelvin, level, event) in steps {
            assert_eq!(t.update(second * S, kelvin, &limits), event);
            assert_eq!(t.level(), level);
        }
        assert!(t.beyond);
        assert!(!t.update(26 * S, 352, &limits), "still beyond: not new");
        assert!(!t.update(35 * S, 342, &limits));
        assert!(!t.update(40 * S, 320, &limits));
        assert!(t.update(41 * S, 350, &limits), "beyond again");
        let c = t.warmth(42 * S, &limits).counters;
        assert_eq!((c.light_count, c.heavy_count), (1, 2));
        assert_eq!((seconds(c.light), seconds(c.heavy)), (10 + 5, 5 + 10 + 1));
        assert_eq!((seconds(c.warning), seconds(c.critical)), (10 + 1, 0));
    }

    #[test]
    fn each_counter_has_the_time_at_and_above_its_limit() {
        let limits = Limits { thresholds: (0, 300), management: (0, 0), composite: (350, 353) };
        let mut t = Thermal::new(301);
        assert_eq!((t.composite_k(), t.level()), (301, Throttle::None));
        assert!(t.update(S, 300, &limits), "at the threshold below");
        assert!(t.warmth(S, &limits).beyond);
        assert!(!t.update(2 * S, 299, &limits) && !t.update(4 * S, 301, &limits));
        assert!(!t.warmth(4 * S, &limits).beyond);
        assert!(t.update(5 * S, 290, &limits), "again");
        for (second, kelvin) in [(10, 349), (12, 350), (15, 352), (19, 353), (24, 400), (30, 352), (37, 349)] {
            assert!(!t.update(second * S, kelvin, &limits));
        }
        let warmth = t.warmth(50 * S, &limits);
        assert_eq!((warmth.composite_k, warmth.counters.warning, warmth.counters.critical), (349, 25 * S, 11 * S));
        assert_eq!((warmth.counters.light_count, warmth.counters.heavy_count, t.level()), (0, 0, Throttle::None));
        let mut none = Thermal::new(500);
        let c = none.warmth(9 * S, &Limits::default()).counters;
        assert_eq!((c.warning, c.critical), (0, 0), "no limits");
        assert_eq!((seconds(2 * S - 1), seconds(2 * S)), (1, 2));
    }
}
