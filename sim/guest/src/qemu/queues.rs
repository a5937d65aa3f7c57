//! Queues on the rebuilt bus, and the mapping of the log's positions to them.
//!
//! On the bus every queue starts at slot 0. A log that starts in the middle shows later positions, so doorbell values are carried over as
//! differences. Where the log holds the whole life of a queue, both positions agree.

use super::sqe::Cqe;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A submission queue.
#[derive(Debug, Clone)]
pub struct Sq {
    /// Base address.
    pub address: u64,
    /// Entries.
    pub size: u32,
    /// Completion queue.
    pub cqid: u16,
    /// Next slot the drive fetches.
    pub head: u32,
    /// Last tail doorbell value on the bus.
    pub tail: u32,
    /// Size according to the log; `None` if the queue was created before the log began.
    pub log_size: Option<u32>,
    /// Last tail doorbell value in the log.
    pub log_tail: Option<u32>,
}

impl Sq {
    /// A queue at its start; `log_size` is known if the log shows its creation.
    pub fn new(address: u64, size: u32, cqid: u16, log_size: Option<u32>) -> Self {
        Self { address, size, cqid, head: 0, tail: 0, log_size, log_tail: log_size.map(|_| 0) }
    }

    /// Bus value of a tail doorbell that the log gives as `log_tail`. `fetched` is the number of commands the drive
    /// took from this queue before the next doorbell, which decides where the log's positions are not known.
    pub fn doorbell(&mut self, log_tail: u32, fetched: u32) -> u32 {
        let new = match (self.log_tail, self.log_size) {
            (Some(last), Some(size)) if log_tail < size && last < size => (log_tail + size - last) % size,
            (Some(last), None) if log_tail >= last => log_tail - last,
            _ => fetched.max(1),
        };
        self.log_tail = Some(log_tail);
        self.tail = (self.tail + new) % self.size;
        self.tail
    }

    /// Whether the drive has fetched everything that doorbells announced.
    pub fn drained(&self) -> bool {
        self.head == self.tail
    }

    /// Announces one more entry, though the log shows no doorbell for it.
    pub fn announce_one(&mut self) -> u32 {
        self.tail = (self.tail + 1) % self.size;
        self.log_tail = match (self.log_tail, self.log_size) {
            (Some(tail), Some(size)) => Some((tail + 1) % size),
            (tail, _) => tail.map(|t| t + 1),
        };
        self.tail
    }

    /// Address of the slot at the head; advances the head.
    pub fn take_slot(&mut self) -> u64 {
        let address = self.address + 64 * u64::from(self.head);
        self.head = (self.head + 1) % self.size;
        address
    }
}

/// A completion queue.
#[derive(Debug, Clone)]
pub struct Cq {
    /// Base address.
    pub address: u64,
    /// Entries.
    pub size: u32,
    /// Interrupt vector.
    pub vector: u16,
    /// Next slot the drive writes.
    pub tail: u32,
    /// Phase tag of that slot.
    pub phase: bool,
    /// Last head doorbell value on the bus.
    pub head: u32,
    /// Size of the queue in the log, as in [`Sq`].
    pub log_size: Option<u32>,
    /// Last head doorbell value in the log.
    pub log_head: Option<u32>,
    /// Number of completions that found the queue full.
    pub deferred: VecDeque<Cqe>,
}

impl Cq {
    /// A queue at its start; `log_size` is known if the log shows its creation.
    pub fn new(address: u64, size: u32, vector: u16, log_size: Option<u32>) -> Self {
        let (log_head, deferred) = (log_size.map(|_| 0), VecDeque::new());
        Self { address, size, vector, tail: 0, phase: true, head: 0, log_size, log_head, deferred }
    }

    /// Whether another entry would overrun the host.
    pub fn full(&self) -> bool {
        (self.tail + 1) % self.size == self.head
    }

    /// Entries written and not yet released.
    fn held(&self) -> u32 {
        (self.tail + self.size - self.head) % self.size
    }

    /// Returns the bus value of a head doorbell that the log gives as `log_head`. The value never passes the last written entry.
    pub fn doorbell(&mut self, log_head: u32) -> u32 {
        let released = match (self.log_head, self.log_size) {
            (Some(last), Some(size)) if log_head < size && last < size => (log_head + size - last) % size,
            (Some(last), None) if log_head >= last => log_head - last,
            _ => self.held(),
        };
        self.log_head = Some(log_head);
        self.head = (self.head + released.min(self.held())) % self.size;
        self.head
    }

    /// Address and phase tag of the slot at the tail; advances the tail.
    pub fn take_slot(&mut self) -> (u64, bool) {
        let slot = (self.address + 16 * u64::from(self.tail), self.phase);
        self.tail += 1;
        if self.tail == self.size {
            self.tail = 0;
            self.phase = !self.phase;
        }
        slot
    }
}

/// The change that a command makes when it completes without error.
#[derive(Debug, Clone)]
pub enum Action {
    /// Nothing that matters here.
    None,
    /// A submission queue is created.
    CreateSq(u16, Sq),
    /// A completion queue is created.
    CreateCq(u16, Cq),
    /// A submission queue is deleted.
    DeleteSq(u16),
    /// A completion queue is deleted.
    DeleteCq(u16),
}

/// A command between fetch and completion.
#[derive(Debug, Clone)]
pub struct InFlight {
    /// Number of its data transfer.
    pub owner: u64,
    /// Effect of its completion.
    pub action: Action,
}

/// All state that a controller reset clears.
#[derive(Debug, Default)]
pub struct Queues {
    /// Submission queues; 0 is the admin queue.
    pub sqs: BTreeMap<u16, Sq>,
    /// Completion queues.
    pub cqs: BTreeMap<u16, Cq>,
    /// Commands by submission queue and identifier.
    pub commands: HashMap<(u16, u16), InFlight>,
    /// Doorbell Buffer Config was seen: doorbells may be missing without being lost.
    pub shadow: bool,
}

impl Queues {
    /// The submission queue to which a completion of command `cid` on `cqid` belongs.
    pub fn owner_of(&self, cid: u16, cqid: u16) -> Option<u16> {
        let mut of_cq = self.sqs.iter().filter(|(_, sq)| sq.cqid == cqid).map(|(&id, _)| id);
        of_cq.find(|&sqid| self.commands.contains_key(&(sqid, cid)))
    }

    /// Applies the effect of a command that succeeded.
    pub fn apply(&mut self, action: Action) {
        match action {
            Action::None => {}
            Action::CreateSq(id, sq) => {
                self.commands.retain(|&(sqid, _), _| sqid != id);
                self.sqs.insert(id, sq);
            }
            Action::CreateCq(id, cq) => {
                self.cqs.insert(id, cq);
            }
            Action::DeleteSq(id) => {
                self.sqs.remove(&id);
                self.commands.retain(|&(sqid, _), _| sqid != id);
            }
            Action::DeleteCq(id) => {
                self.cqs.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sq(size: u32, log_size: Option<u32>) -> Sq {
        Sq { address: 0x1000, size, cqid: 1, head: 0, tail: 0, log_size, log_tail: log_size.map(|_| 0) }
    }

    #[test]
    fn a_queue_whose_creation_is_logged_rings_the_logs_own_values() {
        let mut q = sq(8, Some(8));
        assert_eq!([3, 7, 2].map(|tail| q.doorbell(tail, 0)), [3, 7, 2]);
    }

    #[test]
    fn a_queue_met_in_the_middle_moves_by_differences_and_over_a_wrap_by_what_was_fetched() {
        let mut q = sq(1024, None);
        assert_eq!(q.doorbell(517, 1), 1);
        assert_eq!(q.doorbell(520, 3), 4);
        assert_eq!(q.doorbell(2, 5), 9);
    }

    #[test]
    fn the_phase_turns_at_the_wrap_and_full_leaves_one_slot() {
        let mut q = Cq {
            address: 0,
            size: 3,
            vector: 0,
            tail: 0,
            phase: true,
            head: 0,
            log_size: Some(3),
            log_head: Some(0),
            deferred: VecDeque::new(),
        };
        assert_eq!([q.take_slot(), q.take_slot()], [(0, true), (16, true)]);
        assert!(q.full());
        assert_eq!(q.doorbell(2), 2);
        assert_eq!([q.take_slot(), q.take_slot()], [(32, true), (0, false)]);
        assert_eq!(q.doorbell(0), 0);
        assert_eq!(q.doorbell(2), 1, "never beyond what was written");
    }
}
