//! Start and stop of a capture, in an order that leaves nothing behind.

use crate::time::{clock_at, tick, Clock, NEVER};
use wattbell_spec::wire::STATUS_PERIOD_TICKS;

/// State of the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum State {
    Stopped,
    Started,
    Running,
    Drain,
    Losses,
    Event,
    Events,
    Flush,
    Sending,
    Sent,
}

/// The sequence. Each state is evaluated in every cycle from `at` on; what to do there is [`crate::Instrument`]'s
/// business.
#[derive(Debug)]
pub struct Run {
    /// The present state.
    pub state: State,
    /// The first cycle in that state.
    pub at: Clock,
    /// The requested state, and the cycle from which on it is visible.
    pub wanted: (Clock, bool),
    /// Records, events and raw TLPs are accepted from the first cycle on, and no longer from the second.
    pub capturing: (Clock, Clock),
    /// When the next regular STATUS block is due.
    pub next_status: Clock,
    /// Tick of the start or the stop.
    pub tick: u64,
    /// Running, or stopping.
    pub active: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            state: State::Stopped,
            at: 0,
            wanted: (NEVER, false),
            capturing: (NEVER, NEVER),
            next_status: NEVER,
            tick: 0,
            active: false,
        }
    }
}

impl Run {
    /// Whether `capturing` is high in `clock`.
    pub fn is_capturing(&self, clock: Clock) -> bool {
        self.capturing.0 <= clock && clock < self.capturing.1
    }

    /// Returns whether the data left after a stop is still being sent.
    pub fn is_stopping(&self) -> bool {
        !matches!(self.state, State::Stopped | State::Started | State::Running)
    }

    /// The cycle in which it must next be evaluated.
    #[inline]
    pub fn next(&self) -> Clock {
        match self.state {
            State::Stopped if !self.wanted.1 => NEVER,
            State::Running if self.wanted.1 => self.next_status.max(self.at),
            State::Stopped | State::Running => self.wanted.0.max(self.at).min(self.next_status.max(self.at)),
            _ => self.at,
        }
    }

    /// Enters `state` in the cycle after `clock`.
    pub fn to(&mut self, state: State, clock: Clock) {
        (self.state, self.at) = (state, clock + 1);
    }

    /// A regular STATUS block is made in `clock`, or a capture begins in it: sets when the next one is due.
    pub fn schedule_status(&mut self, clock: Clock) {
        self.next_status = clock_at((tick(clock) / STATUS_PERIOD_TICKS + 1) * STATUS_PERIOD_TICKS);
    }
}
