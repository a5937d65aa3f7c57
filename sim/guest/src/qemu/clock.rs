//! Turns the log's times into one clock that never runs backwards.

use super::event::Event;

/// A larger step back is the start of another run's log, not jitter between threads.
const NEW_RUN_US: i64 = 1_000_000;
/// Longest pause before a reset. A longer pause lies between two runs, and playing it teaches nothing.
const PAUSE_BEFORE_RESET_US: i64 = 10_000_000;
/// No job pauses this long: the log was put together from several, or the machine slept.
const LONGEST_PAUSE_US: i64 = 600_000_000;
/// Length to which such a pause is cut.
const CUT_TO_US: i64 = 10_000;

/// Tracks the times of a log's lines.
#[derive(Debug, Default, Clone, Copy)]
pub struct Clock {
    last_us: Option<i64>,
    now_us: i64,
    /// Number of pauses cut, and of steps back.
    pub jumps: u64,
}

impl Clock {
    /// Returns the microseconds from the first timed event to this one. An event without a time takes the previous event's time.
    pub fn tell(&mut self, time_us: Option<i64>, event: &Event) -> i64 {
        let Some(time) = time_us else { return self.now_us };
        let step = self.last_us.map_or(0, |last| time.saturating_sub(last));
        let longest = if matches!(event, Event::PciReset) { PAUSE_BEFORE_RESET_US } else { LONGEST_PAUSE_US };
        if step < -NEW_RUN_US || step > longest {
            self.jumps += 1;
            self.now_us += CUT_TO_US;
            self.last_us = Some(time);
        } else if step >= 0 {
            self.now_us += step;
            self.last_us = Some(time);
        }
        self.now_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_cuts_what_lies_between_runs() {
        let mut clock = Clock::default();
        let tell = |clock: &mut Clock, t: i64| clock.tell(Some(t), &Event::Started);
        assert_eq!([5_000_000, 5_000_007, 5_000_003, 5_000_009].map(|t| tell(&mut clock, t)), [0, 7, 7, 9]);
        assert_eq!(clock.tell(None, &Event::Started), 9);
        assert_eq!(tell(&mut clock, 1_000_000), 10_009, "another run, recorded earlier");
        assert_eq!(tell(&mut clock, 31_000_000), 30_010_009, "30 s of idling are 30 s");
        assert_eq!(clock.tell(Some(61_000_000), &Event::PciReset), 30_020_009, "but not before a reset");
        assert_eq!(clock.jumps, 2);
    }
}
