//! Events that come in order of time by themselves, and the few that do not.

use crate::profile::Ps;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// No event.
pub const NEVER: Ps = Ps::MAX;

/// Events of one kind, nearly always pushed in order of time.
pub struct Stream<T> {
    events: VecDeque<(Ps, T)>,
    /// Time of the first, or [`NEVER`].
    pub head: Ps,
}

impl<T: Copy> Stream<T> {
    /// None yet.
    pub fn new() -> Self {
        Self { events: VecDeque::with_capacity(64), head: NEVER }
    }

    /// Adds an event; one that is earlier than others takes its place among them.
    #[inline]
    pub fn push(&mut self, at: Ps, event: T) {
        let mut index = self.events.len();
        while index > 0 && self.events[index - 1].0 > at {
            index -= 1;
        }
        if index == self.events.len() {
            self.events.push_back((at, event));
        } else {
            self.events.insert(index, (at, event));
        }
        if index == 0 {
            self.head = at;
        }
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ps, T)> {
        let event = self.events.pop_front();
        self.head = self.events.front().map_or(NEVER, |e| e.0);
        event
    }
}

/// Events in no order. Those of equal time come in the order in which they were pushed.
pub struct Heap<T> {
    events: BinaryHeap<Reverse<(Ps, u32, T)>>,
    serial: u32,
    /// Time of the first, or [`NEVER`].
    pub head: Ps,
}

impl<T: Copy + Ord> Heap<T> {
    /// None yet.
    pub fn new() -> Self {
        Self { events: BinaryHeap::with_capacity(256), serial: 0, head: NEVER }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ps, event: T) {
        self.serial = self.serial.wrapping_add(1);
        self.events.push(Reverse((at, self.serial, event)));
        self.head = self.head.min(at);
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ps, T)> {
        let event = self.events.pop().map(|Reverse((at, _, event))| (at, event));
        self.head = self.events.peek().map_or(NEVER, |e| e.0 .0);
        event
    }
}
