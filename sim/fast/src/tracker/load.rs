//! How far the hardware is behind, by estimate. What it makes later than it is to be released, or of TLPs that found its
//! queues full, differs from what is made here; all that is done about that is to know it.

use crate::time::{clock_at, Clock, DELAY_TICKS, TICKS};
use std::collections::VecDeque;

/// Headers of a direction that its parser certainly keeps waiting.
const HEADERS: usize = 500;
/// Cycles behind up to which it is certainly not late.
const BEHIND: Clock = DELAY_TICKS / TICKS - 1024;
/// Cycles, by docs/gateware-figures.md: of data, in a row of it, and until its pipeline is empty for what follows.
pub const DATA: Clock = 1;
const DRAIN: Clock = 5;
/// Clocks of a TLP without use.
pub const OTHER: Clock = 4;
/// Clocks of any other TLP by itself, and more for each stale entry of the page map, each SQE that is read, each SQE or CQE, each
/// entry or range of a list, and each record it makes.
pub const TLP: Clock = 7;
pub const STALE: Clock = 12;
pub const FETCH: Clock = 2;
pub const SQE: Clock = 20;
pub const CQE: Clock = 9;
pub const ENTRY: Clock = 9;
pub const RECORD: Clock = 4;
/// Clocks of a look at all slots (a reset, a deleted SQ).
pub const WALK: Clock = 2048;

/// See the module.
#[derive(Debug, Default)]
pub struct Load {
    /// The hardware is busy until then.
    until: Clock,
    /// When it takes the headers of each direction that wait.
    waiting: [VecDeque<Clock>; 2],
    /// The last TLP was data.
    data: bool,
    /// The first thing that was too much, if any.
    pub exceeded: Option<&'static str>,
}

impl Load {
    /// Something that comes in at `tick` takes so many cycles.
    #[inline]
    pub fn add(&mut self, tick: u64, clocks: Clock) -> Clock {
        let now = clock_at(tick);
        let begins = self.until.max(now);
        self.until = begins + clocks;
        if self.until > now + BEHIND {
            self.exceeded.get_or_insert("TLPs came faster than the tracker takes them: it is later than it may be");
        }
        begins
    }

    /// The same of a TLP, which waits for its turn.
    #[inline]
    pub fn take(&mut self, up: bool, tick: u64, clocks: Clock) {
        let before = std::mem::replace(&mut self.data, clocks == DATA);
        let begins = self.add(tick, if before && !self.data { clocks + DRAIN } else { clocks });
        let (now, waiting) = (clock_at(tick), &mut self.waiting[usize::from(up)]);
        while waiting.front().is_some_and(|begins| *begins <= now) {
            waiting.pop_front();
        }
        if begins > now {
            waiting.push_back(begins);
        }
        if waiting.len() > HEADERS {
            self.exceeded.get_or_insert("TLPs came faster than the tracker takes them, and its queues are full");
        }
    }
}
