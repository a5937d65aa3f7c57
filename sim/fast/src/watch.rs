//! The conversions the controller watches: which it wants, and the one that comes.

use crate::time::{Clock, NEVER};

/// Largest corrected value.
pub const VALUE_MAX: i32 = (1 << 23) - 1;

/// A corrected conversion, for a user to whom samples are not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    /// Its instant.
    pub tick: u64,
    /// Ticks between conversions.
    pub period: u32,
    /// Corrected values.
    pub voltage: i32,
    /// See `voltage`.
    pub current: i32,
    /// Flags of a RAIL block, and 16: the current comes from the fine path alone.
    pub flags: u8,
    /// Voltage, current, fine current.
    pub codes: [u32; 3],
    /// The current that the protection compares: see [`crate::rail`].
    pub guard: i32,
    /// The current is more than `guard` says.
    pub beyond: bool,
}

/// Which conversions are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// All conversions; the ADCs must convert even without a run.
    pub all: bool,
    /// Conversions of a run with a `guard` above this.
    pub above: i32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { all: false, above: VALUE_MAX }
    }
}

impl Wanted {
    /// Whether the choice depends on the current.
    #[inline]
    pub fn by_level(&self) -> bool {
        self.above < VALUE_MAX
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Watch {
    /// The watched conversions.
    pub wanted: Wanted,
    /// The last conversion, and the cycle in which it comes out.
    latest: Option<(Clock, Conversion)>,
}

impl Watch {
    /// Sets the watched conversions from the cycle after `now` on; everything up to `now` has happened.
    pub fn want(&mut self, now: Clock, wanted: Wanted) {
        self.latest.take_if(|(shows, _)| *shows <= now);
        self.wanted = wanted;
    }

    /// A conversion that comes out in cycle `shows`, the previous one having come out.
    #[inline]
    pub fn note(&mut self, shows: Clock, conversion: Conversion) {
        self.latest = Some((shows, conversion));
    }

    /// The cycle in which a watched conversion comes out.
    #[inline]
    pub fn told_at(&self) -> Clock {
        match &self.latest {
            Some((shows, c)) if self.wanted.all || c.guard > self.wanted.above => *shows,
            _ => NEVER,
        }
    }

    /// Returns that conversion, once, if `clock` has reached its cycle.
    #[inline]
    pub fn take_told(&mut self, clock: Clock) -> Option<Conversion> {
        if self.told_at() > clock {
            return None;
        }
        self.latest.take().map(|(_, conversion)| conversion)
    }
}
