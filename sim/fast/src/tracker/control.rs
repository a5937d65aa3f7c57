//! Registers behind BAR0, configuration writes, late attach, creation and deletion of queues, doorbells.

use super::engine::Engine;
use super::header::Header;
use super::record::UNKNOWN;
use super::store::*;
use crate::registers::Attach;
use crate::status::QUEUES;
use crate::time::{tick, Clock};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, guess_reason_code as guess, loss_source_code as source,
    reset_cause_code as cause,
};

const CC: u16 = 0x14;
const AQA: u16 = 0x24;
const ASQ: u16 = 0x28;
const ACQ: u16 = 0x30;
const DOORBELLS: u32 = 0x1000;
/// Memory page sizes above 64 KiB are not distinguished.
const MPS_MAX: u32 = 4;

/// A queue to be created.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewQueue {
    pub cq: bool,
    pub qid: u16,
    pub base: u64,
    pub size: u32,
    pub link: u16,
    pub guess: bool,
}

impl Engine {
    pub fn config_write(&mut self, h: &Header) {
        self.go(); // CFGWR
        let word = h.word(0);
        let upper = h.address == 0x14;
        let before = if upper { (self.bar0 >> 32) as u32 } else { self.bar0 as u32 };
        let mask = (0..4).filter(|b| h.first_be >> b & 1 != 0).fold(0u32, |m, b| m | 0xFF << (8 * b));
        let merged = word & mask | before & !mask;
        if h.address == 0x10 && merged >> 4 != 0 && word >> 4 != 0xFFF_FFFF {
            self.set_bar0(self.bar0 & !0xFFFF_FFFF | u64::from(merged & !0xF));
            if merged & !0xF == before {
                return self.go(); // DONE
            }
        } else if upper && merged != before && word != u32::MAX {
            self.set_bar0(self.bar0 & 0xFFFF_FFFF | u64::from(merged) << 32);
        } else {
            return self.go(); // DONE
        }
        self.go(); // BAR_CHANGED
        if self.bar0 as u32 != 0 {
            self.event(kind::BAR0, 0, 0, (self.bar0 >> 12) as u32);
        }
    }

    fn bar_known(&self) -> bool {
        self.bar0 >> 4 != 0
    }

    pub fn host_read(&mut self, h: &Header) {
        self.go(); // HOST_MRD
        let low = h.address == self.bar0 && h.length >= 2;
        let high = h.address.checked_sub(self.bar0) == Some(4);
        if self.bar_known() && (low || high) {
            self.cap = Some((h.tag, h.requester, usize::from(low)));
        }
    }

    pub fn drive_completion(&mut self, h: &Header) {
        self.go(); // DRIVE_CPLD
        let Some((tag, requester, index)) = self.cap else { return };
        if h.tag != tag || h.requester != requester || usize::from(h.length) <= index || !h.kept {
            return;
        }
        self.go(); // CAP_WORD
        self.set_dstrd((h.word(index) & 0xF) as u8);
        (self.stride_known, self.cap) = (true, None);
    }

    pub fn host_write(&mut self, h: &Header) {
        self.go(); // HOST_MWR
        let Some(difference) = h.address.checked_sub(self.bar0).and_then(|d| u32::try_from(d).ok()) else { return };
        if !self.bar_known() || !h.kept {
            return;
        }
        if difference < DOORBELLS {
            return self.register_write(h, difference as u16 & 0xFFF);
        }
        let shift = u32::from(self.dstrd) + 2;
        let offset = difference - DOORBELLS;
        let number = offset >> shift;
        if number << shift != offset || number >= 2 * QUEUES as u32 {
            return;
        }
        if !self.stride_known && !self.stride_told {
            self.stride_told = true;
            self.event(kind::GUESSING, guess::STRIDE, (number >> 1) as u16, 0);
        }
        self.doorbell((number >> 1) as u8, number & 1 != 0, h.word(0));
    }

    fn register_write(&mut self, h: &Header, mut offset: u16) {
        for k in 0..usize::from(h.length) {
            self.go(); // REGISTER
            let word = h.word(k);
            let high = u64::from(word) << 32;
            let low = u64::from(word & 0xFFFF_F000);
            match offset {
                AQA => self.aqa = word,
                _ if offset == ASQ => self.asq = self.asq & !0xFFFF_FFFF | low,
                _ if offset == ASQ + 4 => self.asq = self.asq & 0xFFFF_FFFF | high,
                _ if offset == ACQ => self.acq = self.acq & !0xFFFF_FFFF | low,
                _ if offset == ACQ + 4 => self.acq = self.acq & 0xFFFF_FFFF | high,
                CC => self.cc_write(word),
                _ => {}
            }
            self.go(); // REGISTER_NEXT
            offset = (offset + 4) & 0xFFF;
        }
    }

    /// Ends in the state before REGISTER_NEXT.
    fn cc_write(&mut self, cc: u32) {
        self.go(); // CC_WRITE
        let enable = cc & 1 != 0;
        if enable != self.enabled {
            self.enabled = enable;
            self.event(kind::CC_EN, enable.into(), 0, cc);
            self.reset(cause::CC_EN, self.tick);
            self.go(); // CC_RESET_DONE
            if enable {
                self.mps = (cc >> 7 & 0xF).min(MPS_MAX);
                let (aqa, asq, acq) = (self.aqa, self.asq, self.acq);
                let queue = |cq, base, size: u32| NewQueue { cq, qid: 0, base, size: size + 1, link: 0, guess: false };
                self.create(queue(true, acq, aqa >> 16 & 0xFFF));
                self.go(); // ADMIN_SQ
                self.create(queue(false, asq, aqa & 0xFFF));
            }
        }
        self.go(); // REGISTER_REREAD
    }

    /// Creates a queue and enters its pages: states started after the present one. Ends in the last of them.
    pub fn create(&mut self, q: NewQueue) {
        self.dirty = true;
        self.go(); // CREATE
        if usize::from(q.qid) >= QUEUES {
            self.lose(source::QUEUES);
            self.untracked = true;
            self.go(); // CREATE_RETURN
            return;
        }
        self.event(kind::QUEUE_CREATED, q.cq.into(), q.qid, q.size);
        let at = usize::from(q.qid);
        let shape = QueueShape { base: q.base, size: q.size, link: q.link };
        let t = &mut self.tables;
        if q.cq {
            t.cq_shape[at] = shape;
            t.cq[at] = Cq { known: !q.guess, phase: true, ..Cq::default() };
            t.cq_valid |= 1 << at;
            t.cq_filled &= !(1 << at);
            t.cq_waiting &= !(1 << at);
        } else {
            t.sq_shape[at] = shape;
            t.sq[at] = Sq { tail_known: !q.guess, fetch_known: !q.guess, epoch: self.epoch, ..Sq::default() };
            t.sq_valid |= 1 << at;
        }
        let kind = if q.cq { Page::Cq } else { Page::Sq };
        let mut key = self.page_key(q.base);
        for _ in 0..self.queue_pages(q.cq, q.size) {
            self.go(); // CREATE_PAGE
            self.insert(PageEntry { key, valid: true, kind, slot: q.qid, ..PageEntry::default() }, false);
            key += 1 << self.mps;
        }
        self.go(); // CREATE_PAGE, to its end
        self.go(); // CREATE_RETURN
    }

    fn queue_pages(&self, cq: bool, size: u32) -> u64 {
        let bytes = u64::from(size) << if cq { 4 } else { 6 };
        ((bytes + (1 << (self.mps + 12)) - 1) >> (self.mps + 12)) & 0xFFF
    }

    /// Removes the pages of a queue from the page map: states started after the present one. Ends in the last of them.
    pub fn unmap(&mut self, cq: bool, qid: u16) {
        self.go(); // UNMAP
        self.go(); // UNMAP_SHAPE
        let at = usize::from(qid);
        let shape = if cq { self.tables.cq_shape[at] } else { self.tables.sq_shape[at] };
        let kind = if cq { Page::Cq } else { Page::Sq };
        let mut key = self.page_key(shape.base);
        for _ in 0..self.queue_pages(cq, shape.size) {
            self.go(); // UNMAP_PAGE
            self.go(); // UNMAP_CLEAR
            for way in 0..PAGE_WAYS {
                let entry = &mut self.tables.pages[place(way, key, 0)];
                if entry.valid && entry.key == key && entry.kind == kind && entry.slot == qid {
                    *entry = PageEntry::default();
                }
            }
            key += 1 << self.mps;
        }
        self.go(); // UNMAP_PAGE, to its end
        self.go(); // UNMAP_RETURN
    }

    fn doorbell(&mut self, qid: u8, cq: bool, value: u32) {
        self.go(); // DOORBELL
        self.go(); // DOORBELL_LOAD
        let at = usize::from(qid);
        if cq {
            if self.tables.cq_valid >> at & 1 != 0 {
                self.go();
                self.cq_doorbell(qid, value);
            }
        } else if self.tables.sq_valid >> at & 1 != 0 && !(self.shadow && qid != 0) {
            self.go();
            self.sq_doorbell(qid, value);
        }
    }

    fn sq_doorbell(&mut self, qid: u8, value: u32) {
        let at = usize::from(qid);
        let size = self.tables.sq_shape[at].size;
        let mut sq = self.tables.sq[at];
        let stale = sq.epoch != self.epoch;
        let position = if sq.tail_known { sq.tail } else { sq.fetch };
        let known = sq.tail_known || sq.fetch_known;
        let tail = value as u16;
        let ahead = modulo(i64::from(tail) - i64::from(position), size);
        // One that was lost and arrives in a replay, after a later one.
        let overtaken = stale && known && ahead << 1 > size;
        let mut left = if known { ahead } else { 1 };
        let before = if tail == 0 { (size - 1) as u16 } else { tail - 1 };
        let mut index = if known { position } else { before };
        let flags = if stale || !sq.tail_known { flag::GUESS } else { 0 };
        (sq.tail, sq.tail_known, sq.epoch) = (tail, true, self.epoch);
        if stale {
            self.event(kind::GUESSING, guess::AFTER_LOSS, qid.into(), 0);
        }
        if value >= size || overtaken {
            return; // too large a value, which the drive will reject too
        }
        if qid == 0 {
            self.arm = true;
            self.note_armed();
        }
        loop {
            self.go(); // SQ_ANNOUNCE
            if left == 0 {
                self.tables.sq[at] = sq;
                return;
            }
            left -= 1;
            let here = index;
            index = if u32::from(index) + 1 == size { 0 } else { index + 1 };
            if self.slot_is_free() {
                let slot = self.allocate(Slot {
                    state: State::Announced,
                    qid,
                    index: here,
                    flags,
                    doorbell: self.tick,
                    ..Slot::EMPTY
                });
                if sq.count == 0 {
                    sq.head = slot;
                } else {
                    self.tables.next[usize::from(sq.last)] = slot;
                }
                sq.last = slot;
                sq.count += 1;
            } else {
                self.lose(source::SLOTS);
            }
        }
    }

    fn cq_doorbell(&mut self, qid: u8, value: u32) {
        let at = usize::from(qid);
        let size = self.tables.cq_shape[at].size;
        let mut cq = self.tables.cq[at];
        if value >= size || cq.count == 0 {
            return;
        }
        let left = modulo(i64::from(cq.tail) - i64::from(value as u16), size);
        loop {
            self.go(); // CQ_RELEASE
            let index = self.tables.slots[usize::from(cq.head)].index;
            let behind = modulo(i64::from(cq.tail) - i64::from(index), size);
            if cq.count == 0 || !(behind == 0 || behind > left) {
                break;
            }
            let head = cq.head;
            cq.count -= 1;
            cq.head = self.tables.next[usize::from(head)];
            if cq.waiting == head {
                cq.waiting = cq.head;
            }
            self.emit(head, None, false, self.tick);
            self.go(); // CQ_RELEASE_NEXT
        }
        if cq.count == 0 {
            self.tables.cq_filled &= !(1 << at);
            self.tables.cq_waiting &= !(1 << at);
        }
        self.tables.cq[at] = cq;
        self.go(); // DONE
    }

    /// Late attach: `fact` is offered and the engine idle in cycle `idle`. Returns the cycle in which it is accepted.
    pub fn attach(&mut self, fact: &Attach, idle: Clock) -> Clock {
        self.begin();
        self.t = idle;
        self.go(); // CONFIG
        let taken = self.t;
        self.tick = tick(self.t);
        match fact.op {
            0 => {
                self.set_bar0(fact.address & !0xF);
                self.enabled = true;
                self.go(); // CONFIG_BAR
                self.event(kind::BAR0, 0, 0, (self.bar0 >> 12) as u32);
            }
            1 => {
                self.set_dstrd(fact.size as u8 & 0xF);
                self.stride_known = true;
            }
            2 => self.mps = fact.size.min(MPS_MAX),
            3 | 4 => {
                self.enabled = true;
                let cq = fact.op == 4;
                let size = fact.size & 0x1_FFFF;
                let qid = u16::from(fact.qid);
                self.create(NewQueue { cq, qid, base: fact.address, size, link: fact.link, guess: true });
                self.go(); // CONFIG_QUEUE
                if !cq {
                    self.event(kind::GUESSING, guess::LATE_ATTACH, qid, 0);
                }
            }
            5 => self.shadow = fact.size & 1 != 0,
            _ => self.reset(cause::COMMAND, self.tick),
        }
        taken
    }

    /// Commands completed on a deleted CQ go out without a CQ head doorbell.
    pub fn delete_cq(&mut self, qid: u16) {
        self.go(); // DELETE_CQ
        let mut cq = self.tables.cq[usize::from(qid)];
        loop {
            self.go(); // DELETE_CQ_ENTRY
            if cq.count == 0 {
                return;
            }
            let next = self.tables.next[usize::from(cq.head)];
            self.emit(cq.head, None, false, UNKNOWN);
            self.go(); // DELETE_CQ_STEP
            (cq.count, cq.head) = (cq.count - 1, next);
        }
    }

    /// Commands in flight on a deleted SQ are aborted; completed ones still wait for their CQ head doorbell.
    pub fn delete_sq(&mut self, qid: u16) {
        for i in 0..self.tables.slots.len() {
            self.go(); // DELETE_SQ
            self.go(); // DELETE_SQ_SLOT
            let s = self.tables.slots[i];
            if u16::from(s.qid) != qid {
                continue;
            }
            match s.state {
                State::InFlight => {
                    let found = self.find(s.qid, s.cid);
                    self.go(); // DELETE_SQ_FOUND
                    if let Some(found) = found {
                        self.unlink(s.qid, s.cid, found);
                        self.emit(found.slot, Some(self.tick), false, UNKNOWN);
                    }
                }
                State::Announced | State::Fetching => self.emit(i as u16, Some(self.tick), false, UNKNOWN),
                _ => {}
            }
        }
        self.go(); // DELETE_SQ, to its end
    }
}
