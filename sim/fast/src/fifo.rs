//! A FIFO with an output register, as its user sees it. An entry is visible two cycles after its write, or in the cycle after the previous
//! entry was taken.

use crate::time::{Clock, NEVER};
use std::collections::VecDeque;

/// Queued entries, each with the cycle in which it was written.
#[derive(Debug)]
pub struct Fifo<T> {
    entries: VecDeque<(Clock, T)>,
    taken: Clock,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), taken: 0 }
    }
}

impl<T> Fifo<T> {
    /// Writes an entry in `clock`.
    #[inline]
    pub fn push(&mut self, clock: Clock, entry: T) {
        self.entries.push_back((clock, entry));
    }

    /// Writes an entry that is held back: it is visible in `clock`, or in the cycle after the one that took the previous
    /// entry.
    #[inline]
    pub fn release(&mut self, clock: Clock, entry: T) {
        self.push(clock - 2, entry);
    }

    /// First cycle in which the oldest entry is visible.
    #[inline]
    pub fn shows(&self) -> Clock {
        self.entries.front().map_or(NEVER, |(written, _)| (written + 2).max(self.taken + 1))
    }

    /// The oldest entry.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.entries.front().map(|(_, entry)| entry)
    }

    /// Takes the oldest entry in `clock`, in which it is visible.
    #[inline]
    pub fn pop(&mut self, clock: Clock) -> Option<T> {
        self.taken = clock;
        self.entries.pop_front().map(|(_, entry)| entry)
    }

    /// Entries held in `clock`: written before it, and not taken before it. Every take before `clock` is known.
    pub fn level(&self, clock: Clock) -> usize {
        let held = self.entries.partition_point(|(written, _)| *written < clock);
        held + usize::from(self.taken >= clock)
    }

    /// Entries waiting behind the output register in `clock`.
    pub fn behind(&self, clock: Clock) -> usize {
        let shown = self.taken >= clock || self.shows() <= clock;
        self.level(clock) - usize::from(shown && self.level(clock) > 0)
    }

    /// Entries written and not taken.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
