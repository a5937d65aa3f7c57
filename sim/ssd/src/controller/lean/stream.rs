//! Three queues for waiting events, each suited to one kind of event.
//!
//! An event's key is its time, with its kind in the lowest bits. Among events due at the same time, the lowest kind comes first. Events of
//! the same kind and time keep the order in which they were pushed.

use crate::profile::Ps;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bits of a key that hold the kind. The remaining bits of 64 hold 13 days of picoseconds.
const KIND_BITS: u32 = 4;

/// No event: later than all others.
pub const NEVER: Ps = Ps::MAX >> KIND_BITS;

/// Key of no event.
pub const NO_KEY: u64 = u64::MAX;

/// The key of an event.
#[inline]
pub fn key(at: Ps, kind: u8) -> u64 {
    debug_assert!(at <= NEVER, "a run of more than 13 days");
    at << KIND_BITS | u64::from(kind)
}

/// The time of a key.
#[inline]
pub fn time(key: u64) -> Ps {
    key >> KIND_BITS
}

/// The kind of a key.
#[inline]
pub fn kind(key: u64) -> u8 {
    (key & ((1 << KIND_BITS) - 1)) as u8
}

/// A few events of any kind.
pub struct Near<T> {
    /// The next one last.
    events: Vec<(u64, T)>,
    /// Key of the next one.
    pub head: u64,
}

impl<T: Copy> Near<T> {
    /// None yet.
    pub fn new() -> Self {
        Self { events: Vec::with_capacity(64), head: NO_KEY }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ps, kind: u8, event: T) {
        let key = key(at, kind);
        if key < self.head {
            self.head = key;
            return self.events.push((key, event));
        }
        let mut index = self.events.len();
        self.events.push((key, event));
        while index > 0 && self.events[index - 1].0 <= key {
            self.events[index] = self.events[index - 1];
            index -= 1;
        }
        self.events[index] = (key, event);
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let event = self.events.pop();
        self.head = self.events.last().map_or(NO_KEY, |e| e.0);
        event.map(|e| e.1)
    }
}

/// Any number of events of one kind, nearly always pushed in order of time.
pub struct Stream<T> {
    events: VecDeque<(u64, T)>,
    kind: u8,
    last: u64,
    /// Key of the next one.
    pub head: u64,
}

impl<T: Copy> Stream<T> {
    /// None yet.
    pub fn new(kind: u8) -> Self {
        Self { events: VecDeque::with_capacity(64), kind, last: 0, head: NO_KEY }
    }

    /// Adds an event; one that is earlier than others takes its place among them.
    #[inline]
    pub fn push(&mut self, at: Ps, event: T) {
        let key = key(at, self.kind);
        if self.head == NO_KEY {
            self.head = key;
        } else if key < self.last {
            return self.insert(key, event);
        }
        self.last = key;
        self.events.push_back((key, event));
    }

    #[cold]
    fn insert(&mut self, key: u64, event: T) {
        let index = self.events.partition_point(|e| e.0 <= key);
        self.events.insert(index, (key, event));
        self.head = self.head.min(key);
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let event = self.events.pop_front();
        self.head = self.events.front().map_or(NO_KEY, |e| e.0);
        event.map(|e| e.1)
    }
}

/// Any number of events of one kind, in no order.
pub struct Heap<T> {
    events: BinaryHeap<Reverse<(u64, u32, T)>>,
    kind: u8,
    serial: u32,
    /// Key of the next one.
    pub head: u64,
}

impl<T: Copy + Ord> Heap<T> {
    /// None yet.
    pub fn new(kind: u8) -> Self {
        Self { events: BinaryHeap::with_capacity(256), kind, serial: 0, head: NO_KEY }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ps, event: T) {
        self.serial = self.serial.wrapping_add(1);
        let key = key(at, self.kind);
        self.events.push(Reverse((key, self.serial, event)));
        self.head = self.head.min(key);
    }

    /// Takes the next event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ps, T)> {
        let event = self.events.pop().map(|Reverse((key, _, event))| (time(key), event));
        self.head = self.events.peek().map_or(NO_KEY, |e| e.0 .0);
        event
    }
}
