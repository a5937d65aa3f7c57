//! The entries of a trace as a job's next I/O.

use super::device::DriverError;
use crate::fio::{Ask, Direction, Entries, Entry, TraceSpec};
use crate::profile::{Ps, US};

/// When the next entry may start.
pub enum Wait {
    /// Then.
    Until(Ps),
    /// When all I/Os in flight are complete: the entry is a flush.
    ForOthers,
}

/// A trace being replayed. Each entry follows the previous entry after the trace's interval, but no longer than the cut, and not before
/// there is room.
pub struct Replay {
    entries: Entries,
    next: Option<Entry>,
    cut: Ps,
    last_us: Option<u64>,
    last_start: Ps,
}

impl Replay {
    /// Starts from the trace's first entry.
    pub fn new(spec: &TraceSpec) -> Result<Self, DriverError> {
        let fail = |e: crate::fio::FioError| DriverError::Trace(e.to_string());
        let mut entries = Entries::open(&spec.path).map_err(fail)?;
        let next = entries.next_entry().map_err(fail)?;
        Ok(Self { entries, next, cut: spec.cut_us * US, last_us: None, last_start: 0 })
    }

    /// When the next entry may start, given that nothing can before `free`; `None` at the end.
    pub fn next_start(&self, free: Ps, in_flight: usize) -> Option<Wait> {
        let entry = self.next?;
        if entry.ask == Ask::Sync && in_flight > 0 {
            return Some(Wait::ForOthers);
        }
        let due = self.last_us.map_or(0, |last| self.last_start + ((entry.at_us - last) * US).min(self.cut));
        Some(Wait::Until(due.max(free)))
    }

    /// Whether the next entry is a flush.
    pub fn flush_is_next(&self) -> bool {
        self.next.is_some_and(|e| e.ask == Ask::Sync)
    }

    /// Starts the next entry at `at`; returns its direction, offset and length in bytes.
    pub fn take(&mut self, at: Ps) -> (Direction, u64, u64) {
        let entry = self.next.expect("the caller asked when it may start");
        (self.last_us, self.last_start) = (Some(entry.at_us), at);
        // The log was read through before the run; if it has been cut short since, the replay ends there.
        self.next = self.entries.next_entry().ok().flatten();
        let direction = match entry.ask {
            Ask::Io(direction) => direction,
            Ask::Sync => Direction::Write,
        };
        (direction, entry.offset, entry.bytes)
    }
}
