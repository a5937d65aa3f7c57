//! All queues: their creation and deletion (NVM Express, the Create and Delete commands of I/O queues), arbitration, doorbells,
//! completions.

use super::queue::{Cq, Sq};
use super::registers::AdminQueue;
use super::{AsyncEvent, Sqe, Status};
use crate::host::CommandTruth;
use crate::profile::Ps;
use std::collections::{BTreeMap, VecDeque};

/// The queue served last, and how many more commands it may have in a row (`None`: any number).
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Submission queue.
    pub qid: u16,
    /// Commands.
    pub left: Option<u32>,
}

impl Turn {
    /// Takes entries to read at once, from `next` on, and returns their number. Takes at most `most` of the waiting entries, and none
    /// beyond the end of a page or of the queue, which has `size` entries.
    #[inline]
    pub fn take(&mut self, waiting: u32, next: u32, size: u32, most: u32) -> u32 {
        let batch = self.left.unwrap_or(u32::MAX).min(most);
        let count = waiting.min(batch).min(size - next).min(64 - next % 64);
        self.left = self.left.map(|left| left - count);
        count
    }
}

/// Entries of a submission queue to read.
pub struct Batch {
    /// Address of the entries.
    pub address: u64,
    /// For each entry, the time of the doorbell that announced it.
    pub announced: Vec<Ps>,
}

/// Destination of a completion.
pub enum Slot {
    /// To this entry.
    Entry {
        /// Completion queue.
        cqid: u16,
        /// Address of the entry.
        address: u64,
        /// SQHD.
        sq_head: u16,
        /// Phase tag.
        phase: bool,
    },
    /// The queue is full: the command waits until the host releases an entry.
    Full,
    /// The queue was deleted.
    Gone,
}

/// Whether an entry that reached the host calls for an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// At once.
    Now,
    /// When the time of interrupt coalescing is over.
    Later,
    /// With those before it.
    Joined,
}

/// The queues that exist.
pub struct Queues {
    sqs: BTreeMap<u16, Sq>,
    cqs: BTreeMap<u16, Cq>,
    turn: Turn,
    /// A turn is scheduled.
    arbitrating: bool,
}

impl Default for Queues {
    fn default() -> Self {
        let turn = Turn { qid: 0, left: Some(0) };
        Self { sqs: BTreeMap::new(), cqs: BTreeMap::new(), turn, arbitrating: false }
    }
}

impl Queues {
    /// The admin queues, to begin with.
    pub fn start(&mut self, (sq, sq_size): AdminQueue, (cq, cq_size): AdminQueue) {
        let mut admin = Cq::new(cq, cq_size, Some(0));
        admin.users = 1;
        self.cqs.insert(0, admin);
        self.sqs.insert(0, Sq::new(sq, sq_size, 0));
    }

    /// A controller reset: all queues go. Returns what [`Queues::posted`] listed.
    pub fn reset(&mut self) -> impl Iterator<Item = CommandTruth> {
        self.sqs.clear();
        (self.turn.left, self.arbitrating) = (Some(0), false);
        std::mem::take(&mut self.cqs).into_values().flat_map(|cq| cq.posted)
    }

    /// Returns the commands with completions that the host has not released.
    pub fn posted(&self) -> impl Iterator<Item = &CommandTruth> {
        self.cqs.values().flat_map(|cq| &cq.posted)
    }

    /// Whether there are I/O queues.
    pub fn io_exist(&self) -> bool {
        self.sqs.len() > 1 || self.cqs.len() > 1
    }

    /// Next entry to ask for, and entries, of a submission queue.
    pub fn sq(&self, qid: u16) -> Option<(u32, u32)> {
        self.sqs.get(&qid).map(|sq| (sq.next, sq.size))
    }

    /// Create I/O Completion Queue; `granted` as Number of Queues returned it.
    pub fn create_cq(&mut self, sqe: &Sqe, granted: u32, entries: u32, vectors: usize) -> Result<(), Status> {
        let (qid, most) = (sqe.cdw(10) as u16, (granted >> 16) as u16 + 1);
        if qid == 0 || qid > most || self.cqs.contains_key(&qid) {
            return Err(Status::QID_INVALID);
        }
        let size = queue_size(sqe, entries)?;
        let vector = (sqe.cdw(11) >> 16) as u16;
        if usize::from(vector) >= vectors {
            return Err(Status::VECTOR_INVALID);
        }
        let interrupts = sqe.cdw(11) & 2 != 0;
        self.cqs.insert(qid, Cq::new(sqe.prp1(), size, interrupts.then_some(vector)));
        Ok(())
    }

    /// Create I/O Submission Queue.
    pub fn create_sq(&mut self, sqe: &Sqe, granted: u32, entries: u32) -> Result<(), Status> {
        let (qid, most) = (sqe.cdw(10) as u16, granted as u16 + 1);
        let cqid = (sqe.cdw(11) >> 16) as u16;
        let Some(cq) = self.cqs.get_mut(&cqid).filter(|_| cqid != 0) else { return Err(Status::CQ_INVALID) };
        if qid == 0 || qid > most || self.sqs.contains_key(&qid) {
            return Err(Status::QID_INVALID);
        }
        let size = queue_size(sqe, entries)?;
        cq.users += 1;
        self.sqs.insert(qid, Sq::new(sqe.prp1(), size, cqid));
        Ok(())
    }

    /// Delete I/O Submission Queue.
    pub fn delete_sq(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let qid = Some(sqe.cdw(10) as u16).filter(|&qid| qid != 0);
        let sq = qid.and_then(|qid| self.sqs.remove(&qid)).ok_or(Status::QID_INVALID)?;
        if let Some(cq) = self.cqs.get_mut(&sq.cqid) {
            cq.users -= 1;
        }
        Ok(())
    }

    /// Executes Delete I/O Completion Queue. Returns the queue's commands in [`Queues::posted`], and how many others waited.
    pub fn delete_cq(&mut self, sqe: &Sqe) -> Result<(VecDeque<CommandTruth>, u32), Status> {
        let qid = sqe.cdw(10) as u16;
        let cq = self.cqs.get(&qid).filter(|_| qid != 0).ok_or(Status::QID_INVALID)?;
        if cq.users > 0 {
            return Err(Status::QUEUE_DELETION_INVALID);
        }
        let gone = self.cqs.remove(&qid);
        Ok(gone.map_or_else(Default::default, |cq| (cq.posted, cq.blocked.len() as u32)))
    }

    /// Whether a turn is scheduled.
    pub fn arbitrating(&self) -> bool {
        self.arbitrating
    }

    /// Asks for a turn; returns whether a turn must be scheduled.
    pub fn want_turn(&mut self) -> bool {
        !std::mem::replace(&mut self.arbitrating, true)
    }

    /// Returns the next queue with waiting entries, if any, and whether its last turn continues: round robin, in bursts (feature 01h).
    pub fn next_turn(&mut self) -> Option<(u16, bool)> {
        self.arbitrating = false;
        let waiting = |(&qid, sq): (&u16, &Sq)| (sq.waiting() > 0).then_some(qid);
        let Turn { qid: last, left } = self.turn;
        let same = left.is_none_or(|left| left > 0).then(|| self.sqs.get(&last)).flatten();
        if let Some(qid) = same.and_then(|sq| waiting((&last, sq))) {
            return Some((qid, true));
        }
        let next = self.sqs.range(last + 1..).chain(&self.sqs).find_map(waiting);
        if next.is_none() {
            self.turn.left = Some(0);
        }
        next.map(|qid| (qid, false))
    }

    /// Takes the turn that [`Queues::next_turn`] gave: at most `most` entries.
    pub fn take_turn(&mut self, mut turn: Turn, most: u32) -> Option<Batch> {
        let sq = self.sqs.get_mut(&turn.qid)?;
        let count = turn.take(sq.waiting(), sq.next, sq.size, most);
        let address = sq.base + 64 * u64::from(sq.next);
        self.turn = turn;
        Some(Batch { address, announced: (0..count).map(|_| sq.ask()).collect() })
    }

    /// Returns the queue served last.
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// Sets the queue served last, after another part served the queues.
    pub fn set_turn(&mut self, turn: Turn) {
        self.turn = turn;
    }

    /// Whether any entry waits to be asked for.
    pub fn waiting(&self) -> bool {
        self.sqs.values().any(|sq| sq.waiting() > 0)
    }

    /// Notes that `count` entries of a submission queue have arrived. Returns whether the queue still exists.
    pub fn fetched(&mut self, qid: u16, count: u32) -> bool {
        self.sqs.get_mut(&qid).map(|sq| sq.fetched(count)).is_some()
    }

    /// Takes a write of a tail doorbell by the host, with its first symbol at `first`.
    pub fn ring_tail(&mut self, qid: u16, tail: u32, first: Ps) -> Result<u32, AsyncEvent> {
        let sq = self.sqs.get_mut(&qid).ok_or(AsyncEvent::INVALID_DOORBELL_REGISTER)?;
        if tail >= sq.size {
            return Err(AsyncEvent::INVALID_DOORBELL_VALUE);
        }
        let before = sq.waiting();
        sq.ring(tail, first);
        Ok((sq.waiting() + sq.size - before) % sq.size)
    }

    /// Takes a write of a head doorbell by the host. Returns the commands with completions that this write releases.
    pub fn ring_head(
        &mut self,
        qid: u16,
        head: u32,
        first: Ps,
    ) -> Result<impl Iterator<Item = CommandTruth> + '_, AsyncEvent> {
        let cq = self.cqs.get_mut(&qid).ok_or(AsyncEvent::INVALID_DOORBELL_REGISTER)?;
        let released = (head % cq.size + cq.size - cq.head) % cq.size;
        if head >= cq.size || released > cq.held() {
            return Err(AsyncEvent::INVALID_DOORBELL_VALUE);
        }
        cq.head = head;
        let released = cq.posted.drain(..released as usize);
        Ok(released.map(move |truth| CommandTruth { cq_head_ps: Some(first), ..truth }))
    }

    /// Returns the destination of the completion of command `id` of a submission queue. If the queue is full, the completion waits for a
    /// place.
    pub fn slot(&mut self, qid: u16, id: u32) -> Slot {
        let Some(sq) = self.sqs.get(&qid) else { return Slot::Gone };
        let (cqid, sq_head) = (sq.cqid, sq.head as u16);
        let Some(cq) = self.cqs.get_mut(&cqid) else { return Slot::Gone };
        if cq.is_full() {
            cq.blocked.push_back(id);
            return Slot::Full;
        }
        let (address, phase) = cq.take_slot();
        Slot::Entry { cqid, address, sq_head, phase }
    }

    /// Returns the next command that waited for a place in a completion queue, if there is a place now.
    pub fn unblock(&mut self, cqid: u16) -> Option<u32> {
        self.cqs.get_mut(&cqid).filter(|cq| !cq.is_full())?.blocked.pop_front()
    }

    /// An entry was written.
    pub fn post(&mut self, cqid: u16, truth: CommandTruth) {
        if let Some(cq) = self.cqs.get_mut(&cqid) {
            cq.posted.push_back(truth);
        }
    }

    /// Notes that an entry has reached the host. `threshold`: how many entries call for an interrupt (0's based); `None`: each does.
    pub fn arrived(&mut self, cqid: u16, threshold: Option<u32>) -> Call {
        let Some(cq) = self.cqs.get_mut(&cqid) else { return Call::Joined };
        cq.uncalled += 1;
        match threshold {
            Some(threshold) if cq.uncalled > threshold => Call::Now,
            Some(_) if cq.uncalled == 1 => Call::Later,
            Some(_) => Call::Joined,
            None => Call::Now,
        }
    }

    /// Whether a completion queue has no interrupts.
    pub fn is_polled(&self, cqid: u16) -> bool {
        self.cqs.get(&cqid).is_some_and(|cq| cq.vector.is_none())
    }

    /// The vector to call for entries that came since the last time.
    pub fn call(&mut self, cqid: u16) -> Option<u16> {
        let cq = self.cqs.get_mut(&cqid)?;
        let called = std::mem::take(&mut cq.uncalled);
        cq.vector.filter(|_| called > 0)
    }

    /// Notes that the message of a vector goes out at `first`. The message covers all entries written before.
    pub fn called(&mut self, vector: u16, first: Ps) {
        for cq in self.cqs.values_mut().filter(|cq| cq.vector == Some(vector)) {
            for truth in cq.posted.iter_mut().rev().take_while(|t| t.msix_ps.is_none()) {
                if truth.cqe_ps < first {
                    truth.msix_ps = Some(first);
                }
            }
        }
    }
}

fn queue_size(sqe: &Sqe, entries: u32) -> Result<u32, Status> {
    let size = (sqe.cdw(10) >> 16) + 1;
    if size < 2 || size > entries {
        return Err(Status::QUEUE_SIZE_INVALID);
    }
    if sqe.cdw(11) & 1 == 0 {
        return Err(Status::INVALID_FIELD); // CAP.CQR: queues must be physically contiguous
    }
    if sqe.prp1() % 4096 != 0 {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    Ok(size)
}
