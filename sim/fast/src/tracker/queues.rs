//! Creation and deletion of queues, and their doorbells.

use super::engine::Engine;
use super::store::*;
use crate::command::Command;
use crate::status::QUEUES;
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, guess_reason_code as guess, loss_source_code as source,
};

/// A queue to be created.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewQueue {
    pub cq: bool,
    pub qid: u16,
    pub base: u64,
    pub size: u32,
    pub link: u16,
    /// Its positions are not known.
    pub guess: bool,
}

impl Engine {
    /// Creates a queue and enters its pages.
    pub fn create(&mut self, q: &NewQueue) {
        self.dirty = true;
        let (at, base, size) = (usize::from(q.qid), q.base, q.size);
        if at >= QUEUES {
            self.untracked = true;
            return self.lose(source::QUEUES);
        }
        self.event(kind::QUEUE_CREATED, q.cq.into(), q.qid, size);
        let first = (!q.guess).then_some(0);
        if q.cq {
            self.tables.cq[at] =
                Cq { valid: true, base, size, link: q.link, tail: first, phase: true, ..Cq::default() };
            self.tables.note(at);
        } else {
            let epoch = self.epoch;
            self.tables.sq[at] = Sq { valid: true, base, size, tail: first, fetch: first, epoch, ..Sq::default() };
        }
        let kind = if q.cq { Page::Cq } else { Page::Sq };
        for key in self.queue_pages(q.cq, base, size) {
            self.insert(PageEntry { key, valid: true, kind, slot: q.qid, ..PageEntry::default() }, false);
        }
    }

    /// Keys of a queue's pages.
    fn queue_pages(&self, cq: bool, base: u64, size: u32) -> impl Iterator<Item = u64> {
        let (first, mps, bits) = (self.page_key(base), self.mps, self.mps + 12);
        let bytes = u64::from(size) << if cq { 4 } else { 6 };
        let count = ((bytes + (1 << bits) - 1) >> bits) & 0xFFF;
        (0..count).map(move |k| first + (k << mps))
    }

    /// Deletes a queue. Commands completed on a CQ go out without a CQ head doorbell; those in flight on an SQ are
    /// aborted, completed ones still wait for their CQ head doorbell.
    pub fn delete(&mut self, cq: bool, qid: u16) {
        self.event(kind::QUEUE_DELETED, cq.into(), qid, 0);
        let at = usize::from(qid);
        if cq {
            let Cq { base, size, completed, .. } = std::mem::take(&mut self.tables.cq[at]);
            self.tables.note(at);
            self.unmap(cq, qid, base, size);
            completed.into_iter().for_each(|slot| self.emit(slot, None));
        } else {
            let Sq { base, size, .. } = std::mem::take(&mut self.tables.sq[at]);
            self.unmap(cq, qid, base, size);
            self.walks += 1;
            for slot in 0..self.tables.slots.len() as u16 {
                let Slot { state, command, .. } = *self.slot(slot);
                let waits = matches!(state, State::Announced | State::Fetching | State::InFlight);
                if u16::from(command.qid) == qid && waits {
                    if state == State::InFlight {
                        self.tables.take_in_flight(command.qid, command.cid);
                    }
                    self.abort(slot, 0);
                }
            }
        }
    }

    /// Removes the pages of a queue from the page map.
    fn unmap(&mut self, cq: bool, qid: u16, base: u64, size: u32) {
        let kind = if cq { Page::Cq } else { Page::Sq };
        for key in self.queue_pages(cq, base, size) {
            for way in 0..PAGE_WAYS {
                let entry = &mut self.tables.pages[place(way, key, 0)];
                if entry.valid && entry.key == key && entry.kind == kind && entry.slot == qid {
                    *entry = PageEntry::default();
                }
            }
        }
    }

    pub fn doorbell(&mut self, qid: u8, cq: bool, value: u32) {
        let at = usize::from(qid);
        if cq && self.tables.cq[at].valid {
            self.cq_doorbell(at, value);
        } else if !cq && self.tables.sq[at].valid && !(self.shadow && qid != 0) {
            self.sq_doorbell(qid, value);
        }
    }

    fn sq_doorbell(&mut self, qid: u8, value: u32) {
        let at = usize::from(qid);
        let sq = &self.tables.sq[at];
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
        self.announced |= qid == 0;
        let before = if tail == 0 { (size - 1) as u16 } else { tail - 1 };
        let (mut index, count) = known.unwrap_or((before, 1));
        (self.tables.sq[at].tail, self.tables.sq[at].epoch) = (Some(tail), self.epoch);
        for _ in 0..count {
            let command = Command { qid, flags, doorbell: Some(self.tick), ..Command::default() };
            match self.allocate(State::Announced, index, command) {
                Some(slot) => self.tables.sq[at].announced.push_back(slot),
                None => self.lose(source::SLOTS),
            }
            index = after(index, size);
        }
    }

    fn cq_doorbell(&mut self, qid: usize, value: u32) {
        let Cq { size, tail: Some(tail), .. } = self.tables.cq[qid] else { return };
        if value >= size {
            return;
        }
        let left = distance(value as u16, tail, size);
        while let Some(&head) = self.tables.cq[qid].completed.front() {
            let behind = distance(self.slot(head).index, tail, size);
            if behind != 0 && behind <= left {
                break;
            }
            self.tables.cq[qid].pop();
            self.emit(head, Some(self.tick));
        }
        self.tables.note(qid);
    }
}
