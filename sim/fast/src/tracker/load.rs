//! How far the hardware is behind, by estimate. What it makes later than it is to be released, or of TLPs that found its
//! queues full, differs from what is made here; all that is done about that is to know it.

use super::header::{Header, Kind};
use super::store::Carries;
use crate::time::{clock_at, Clock, DELAY_TICKS, TICKS};
use std::collections::VecDeque;

/// Headers of a direction that its parser certainly keeps waiting.
const HEADERS: usize = 500;
/// Cycles behind up to which it is certainly not late.
const BEHIND: Clock = DELAY_TICKS / TICKS - 1024;
/// Cycles of a record, and of a look at all slots (a reset, a deleted SQ) besides its records.
pub const RECORD: Clock = 3;
pub const WALK: Clock = 2048;
/// Cycles until the way of data is empty, for what comes behind it and does not go there.
const DRAIN: Clock = 5;
/// Cycles until it is known that a TLP does not belong there.
const ODD: Clock = 7;
/// Cycles of one that does, in a row of them; nothing else is as quick.
const DATA: Clock = 1;

/// See the module.
#[derive(Debug, Default)]
pub struct Load {
    /// The hardware is busy until then.
    until: Clock,
    /// When it takes the headers of each direction that wait.
    waiting: [VecDeque<Clock>; 2],
    /// The last TLP went the way of data.
    data: bool,
    /// What was too much, once something was.
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
        let (data, before) = (clocks == DATA, self.data);
        self.data = data;
        let begins = self.add(tick, if before && !data { clocks + DRAIN } else { clocks });
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

/// Cycles that the engine takes for a TLP, by docs/gateware.md, besides the records it makes. `carries`: what a
/// completion returns, or what the completions of a read will.
#[inline]
pub fn clocks(h: &Header, carries: Carries) -> Clock {
    let dws = Clock::from(h.length);
    match (h.up, h.kind) {
        (false, Kind::CompletionData) => match carries {
            Carries::Sqe => 1 + 5 * dws / 4,
            Carries::List | Carries::Either => ODD + 3 + 9 * dws / 2,
            Carries::Ranges => ODD + 3 + dws,
            Carries::Unknown => ODD + 3,
            Carries::Data => DATA,
        },
        (true, Kind::MemRead) if carries == Carries::Sqe => 4 + dws / 8,
        (true, Kind::MemRead) => 5,
        (true, Kind::MemWrite) if h.kept && dws & 3 == 0 => 9 * dws / 4,
        (true, Kind::MemWrite) if dws > 4 => DATA,
        (true, Kind::MemWrite) if dws > 1 => 6,
        (_, Kind::MemWrite) => 7,
        _ => 4,
    }
}
