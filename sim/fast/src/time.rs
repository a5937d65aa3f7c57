//! Clock cycles and ticks.

/// Number of a clock cycle since power-on; the instrument's counter shows [`TICKS`] times it.
pub type Clock = u64;
/// Ticks per clock cycle: the 250 MHz build.
pub const TICKS: u64 = 4;
/// Ticks from the tick that completes an item of the tracker (a record, an event, a raw TLP) to the item's release.
pub const DELAY_TICKS: u64 = 8192 * TICKS;
/// Later than everything.
pub const NEVER: Clock = u64::MAX;

/// Value of the counter in `clock`.
#[inline]
pub fn tick(clock: Clock) -> u64 {
    clock * TICKS
}

/// Returns the first cycle with a tick at or after `tick`.
#[inline]
pub fn clock_at(tick: u64) -> Clock {
    tick.div_ceil(TICKS)
}
