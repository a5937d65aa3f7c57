//! The controller's look at conversions: which it wants, and the one that comes out.

use crate::time::{Clock, NEVER};

/// The greatest corrected value.
const VALUE_MAX: i32 = (1 << 23) - 1;

/// A conversion as it comes out corrected, for whom the samples are not enough.
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
    /// Those of a RAIL block, and 16: the current is the fine path's alone.
    pub flags: u8,
    /// Voltage, current, fine current.
    pub codes: [u32; 3],
}

/// Which conversions are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// All, and there must be some without a run too.
    pub all: bool,
    /// Those of a run whose current is above this.
    pub above: i32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { all: false, above: VALUE_MAX }
    }
}

impl Wanted {
    /// Whether it depends on the current which are.
    #[inline]
    pub fn by_level(&self) -> bool {
        self.above < VALUE_MAX
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Watch {
    /// What is looked at.
    pub wanted: Wanted,
    /// The last conversion, and the clock in which it comes out.
    latest: Option<(Clock, Conversion)>,
}

impl Watch {
    /// What is looked at from the clock behind `now` on; everything up to `now` has happened.
    pub fn want(&mut self, now: Clock, wanted: Wanted) {
        self.latest.take_if(|(shows, _)| *shows <= now);
        self.wanted = wanted;
    }

    /// A conversion that comes out in clock `shows`, the one before having come out.
    #[inline]
    pub fn note(&mut self, shows: Clock, conversion: Conversion) {
        self.latest = Some((shows, conversion));
    }

    /// The clock in which a conversion comes out that is looked at.
    #[inline]
    pub fn told_at(&self) -> Clock {
        match &self.latest {
            Some((shows, c)) if self.wanted.all || c.current > self.wanted.above => *shows,
            _ => NEVER,
        }
    }

    /// That conversion, once, if `clock` has come.
    #[inline]
    pub fn take_told(&mut self, clock: Clock) -> Option<Conversion> {
        if self.told_at() > clock {
            return None;
        }
        self.latest.take().map(|(_, conversion)| conversion)
    }
}
