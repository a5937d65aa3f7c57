//! Creation and deletion of queues, and their doorbells.

use super::store::*;
use super::Tracker;
use crate::command::Command;
use crate::status::QUEUES;
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, guess_reason_code as guess, loss_source_code as source,
};

impl Tracker {
    fn queue(&mut self, cq: bool, qid: u16) -> &mut Queue {
        let queues = if cq { &mut self.tables.cqs } else { &mut self.tables.sqs };
        &mut queues[usize::from(qid)]
    }

    /// The entries of a queue's pages.
    fn queue_pages(&self, cq: bool, qid: u16, queue: &Queue) -> impl Iterator<Item = PageEntry> {
        let (first, mps, bits) = (self.page_key(queue.base), self.mps, self.mps + 12);
        let bytes = u64::from(queue.size) << self.entry_bits(cq, qid).unwrap_or_default();
        let count = bytes.div_ceil(1 << bits) & 0x3FFF;
        let (holds, of) = (if cq { Holds::Cq } else { Holds::Sq }, Id { slot: qid, generation: 0 });
        (0..count).map(move |k| PageEntry { key: first + (k << mps), holds, of, ..PageEntry::default() })
    }

    /// Creates a queue and enters its pages.
    pub(super) fn create(&mut self, cq: bool, qid: u16, queue: Queue) {
        self.dirty = true;
        if usize::from(qid) >= QUEUES || self.entry_bits(cq, qid).is_none() {
            self.untracked = true;
            return self.lose(source::QUEUES);
        }
        self.event(kind::QUEUE_CREATED, cq.into(), qid, queue.size);
        self.queue_pages(cq, qid, &queue).for_each(|entry| self.insert(entry, false));
        let epoch = self.epoch;
        *self.queue(cq, qid) = Queue { epoch, ..queue };
    }

    /// Deletes a queue. Commands completed on a CQ go out without a CQ head doorbell; those in flight on an SQ are
    /// aborted, completed ones still wait for their CQ head doorbell.
    pub(super) fn delete(&mut self, cq: bool, qid: u16) {
        let queue = std::mem::take(self.queue(cq, qid));
        if !queue.valid {
            return;
        }
        self.event(kind::QUEUE_DELETED, cq.into(), qid, 0);
        for page in self.queue_pages(cq, qid, &queue) {
            for at in &places(page.key, 0)[..PAGE_WAYS] {
                let same = |e: &mut PageEntry| (e.key, e.holds, e.of.slot) == (page.key, page.holds, qid);
                self.tables.pages[*at].take_if(same);
            }
        }
        if cq {
            queue.commands.into_iter().for_each(|slot| self.emit(slot, None));
        } else {
            self.clear(|slot| u16::from(slot.command.qid) == qid && slot.state != State::Completed);
        }
    }

    pub(super) fn doorbell(&mut self, cq: bool, qid: u8, value: u32) {
        let queue = self.queue(cq, qid.into());
        if !queue.valid {
        } else if cq {
            self.cq_doorbell(qid.into(), value);
        } else if !(self.shadow && qid != 0) {
            self.sq_doorbell(qid, value);
        }
    }

    fn sq_doorbell(&mut self, qid: u8, value: u32) {
        let sq = &mut self.tables.sqs[usize::from(qid)];
        let (size, tail, stale) = (sq.size, value as u16, sq.epoch != self.epoch);
        let flags = if stale || sq.tail.is_none() { flag::GUESS } else { 0 };
        let known = sq.tail.or(sq.fetch).map(|position| (position, distance(position, tail, size)));
        // One that was lost and arrives in a replay, after a later one.
        let overtaken = stale && known.is_some_and(|(_, ahead)| ahead << 1 > size);
        if stale {
            self.event(kind::GUESSING, guess::AFTER_LOSS, qid.into(), 0);
        }
        if value >= size || overtaken {
            return; // too large a value, which the drive will reject too
        }
        let sq = &self.tables.sqs[usize::from(qid)];
        if let (Some(before), Some(&oldest), Some((_, ahead)), false) = (sq.tail, sq.commands.front(), known, stale) {
            // A host writes over no entry that the drive has not read. So the drive reads elsewhere: a reset was missed.
            // Where SQEs may be larger, an entry's read may have counted as another's.
            let sized = !self.sqes_unsized || qid == 0;
            if sized && ahead != 0 && ahead >= distance(before, self.slots[usize::from(oldest)].index, size) {
                return self.unseen();
            }
        }
        self.announced |= qid == 0;
        let before = if tail == 0 { (size - 1) as u16 } else { tail - 1 };
        let (mut index, mut count) = known.unwrap_or((before, 1));
        if self.tables.sqs[usize::from(qid)].tail.is_none() && known.is_some() && count << 1 > size {
            count = 0; // the drive has read beyond the first doorbell that is seen
        }
        let at = usize::from(qid);
        let sq = &mut self.tables.sqs[at];
        (sq.tail, sq.rung, sq.epoch) = (Some(tail), true, self.epoch);
        for _ in 0..count {
            let command = Command { qid, flags, doorbell: Some(self.tick), ..Command::default() };
            match self.allocate(State::Announced, index, command) {
                Some(slot) => self.tables.sqs[at].commands.push_back(slot),
                None => self.unhold(),
            }
            index = after(index, size);
        }
    }

    /// Takes the oldest completed command off a CQ.
    pub(super) fn release_first(&mut self, qid: usize) {
        let cq = &mut self.tables.cqs[qid];
        cq.commands.pop_front();
        cq.untold = cq.untold.min(cq.commands.len());
    }

    fn cq_doorbell(&mut self, qid: usize, value: u32) {
        let Queue { size, tail: Some(tail), .. } = self.tables.cqs[qid] else { return };
        if value >= size {
            return;
        }
        let left = distance(value as u16, tail, size);
        while let Some(&head) = self.tables.cqs[qid].commands.front() {
            let behind = distance(self.slot(head).index, tail, size);
            if behind != 0 && behind <= left {
                break;
            }
            self.release_first(qid);
            self.emit(head, Some(self.tick));
        }
    }
}
