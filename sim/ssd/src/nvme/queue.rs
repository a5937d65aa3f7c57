//! A submission queue and a completion queue as the controller keeps them.

use crate::host::CommandTruth;
use crate::profile::Ps;
use std::collections::VecDeque;

/// A submission queue.
pub struct Sq {
    /// Host address of entry 0; the queue is physically contiguous.
    pub(super) base: u64,
    /// Entries.
    pub(super) size: u32,
    /// Completion queue of this submission queue.
    pub(super) cqid: u16,
    /// Next entry to ask for.
    pub(super) next: u32,
    /// Next entry not yet completely fetched; SQHD reports this entry to the host.
    pub(super) head: u32,
    /// Next entry the host will fill.
    pub(super) tail: u32,
    /// Doorbells with entries not yet asked for: the number of entries that each announced, and the time of its first symbol.
    pub(super) doorbells: VecDeque<(u32, Ps)>,
}

impl Sq {
    /// An empty queue.
    pub fn new(base: u64, size: u32, cqid: u16) -> Self {
        Self { base, size, cqid, next: 0, head: 0, tail: 0, doorbells: VecDeque::new() }
    }

    /// Entries announced and not asked for.
    pub fn waiting(&self) -> u32 {
        (self.tail + self.size - self.next) % self.size
    }

    /// The host rings the tail doorbell.
    pub fn ring(&mut self, tail: u32, first: Ps) {
        let new = (tail + self.size - self.tail) % self.size;
        self.tail = tail;
        if new > 0 {
            self.doorbells.push_back((new, first));
        }
    }

    /// `count` entries are here: the host may use their places again.
    pub fn fetched(&mut self, count: u32) {
        self.head = (self.head + count) % self.size;
    }

    /// Notes that one entry is asked for. Returns the time of the doorbell that announced it.
    pub fn ask(&mut self) -> Ps {
        self.next = (self.next + 1) % self.size;
        let Some((left, first)) = self.doorbells.front_mut() else { return 0 };
        *left -= 1;
        let (left, first) = (*left, *first);
        if left == 0 {
            self.doorbells.pop_front();
        }
        first
    }
}

/// A completion queue.
pub struct Cq {
    /// Host address of entry 0; the queue is physically contiguous.
    pub(super) base: u64,
    /// Entries.
    pub(super) size: u32,
    /// Interrupt vector, if interrupts are enabled.
    pub(super) vector: Option<u16>,
    /// Next entry the host will look at.
    pub(super) head: u32,
    /// Next entry to write.
    pub(super) tail: u32,
    /// Phase tag of the next entry.
    pub(super) phase: bool,
    /// Submission queues that post here.
    pub(super) users: u32,
    /// Commands that are done but found the queue full.
    pub(super) blocked: VecDeque<u32>,
    /// Entries the host has not released, oldest first.
    pub(super) posted: VecDeque<CommandTruth>,
    /// Entries posted since the last interrupt message (interrupt coalescing).
    pub(super) uncalled: u32,
}

impl Cq {
    /// An empty queue.
    pub fn new(base: u64, size: u32, vector: Option<u16>) -> Self {
        let (head, tail, phase, users, uncalled) = (0, 0, true, 0, 0);
        let (blocked, posted) = (VecDeque::new(), VecDeque::new());
        Self { base, size, vector, head, tail, phase, users, blocked, posted, uncalled }
    }

    /// Whether an entry can be posted without overtaking the host.
    pub fn is_full(&self) -> bool {
        (self.tail + 1) % self.size == self.head
    }

    /// Entries posted that the host has not released.
    pub fn held(&self) -> u32 {
        (self.tail + self.size - self.head) % self.size
    }

    /// Takes the next slot: its address and phase tag.
    pub fn take_slot(&mut self) -> (u64, bool) {
        let out = (self.base + 16 * u64::from(self.tail), self.phase);
        self.tail += 1;
        if self.tail == self.size {
            self.tail = 0;
            self.phase = !self.phase;
        }
        out
    }
}
