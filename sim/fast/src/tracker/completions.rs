//! Completion queue entries and interrupts.

use super::completion::Completion;
use super::control::NewQueue;
use super::engine::Engine;
use super::header::Header;
use super::record::UNKNOWN;
use super::store::*;
use crate::status::QUEUES;
use wattbell_spec::nvme::{admin, feature};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, guess_reason_code as guess, loss_source_code as source,
};

/// For this many ticks after a loss of TLPs, interrupts without completions teach nothing.
const CALM_TICKS: u64 = 1 << 20;
const CQE_WORDS: usize = 4;

impl Engine {
    /// A write to a page of completion queue `qid`.
    pub fn cqes(&mut self, h: &Header, qid: u8) {
        self.go(); // CQE
        self.go(); // CQE_LOAD
        let at = usize::from(qid);
        let QueueShape { base, size, .. } = self.tables.cq_shape[at];
        let offset = ((h.address >> 4 & 0xFF_FFFF).wrapping_sub(base >> 4 & 0xFF_FFFF)) & 0xFF_FFFF;
        let aligned = h.address >> 2 & 3 == 0 && h.length & 3 == 0;
        if !h.kept || !aligned || offset >= u64::from(size) || self.tables.cq_valid >> at & 1 == 0 {
            self.unmatched();
            return self.go(); // DONE
        }
        let mut cq = self.tables.cq[at];
        let mut index = offset as u16;
        let entries = usize::from(h.length) / CQE_WORDS;
        for k in 0..entries {
            if k != 0 {
                self.go(); // CQE_AGAIN
            }
            self.go(); // CQE_STATUS
            self.cqe(h, k * CQE_WORDS, qid, index, &mut cq);
            self.go(); // CQE_NEXT
            index = if u32::from(index) + 1 == self.tables.cq_shape[at].size { 0 } else { index + 1 };
        }
        self.tables.cq[at] = cq;
    }

    /// From CQE_STATUS to the state before CQE_NEXT.
    fn cqe(&mut self, h: &Header, word: usize, qid: u8, index: u16, cq: &mut Cq) {
        let at = usize::from(qid);
        let sqid = (h.word(word + 2) >> 16) as u16;
        let last = h.word(word + 3);
        let (cid, phase, status) = (last as u16, last >> 16 & 1 != 0, (last >> 17) as u16);
        let expected = cq.known && cq.tail == index;
        if (expected && phase != cq.phase) || usize::from(sqid) >= QUEUES {
            return self.unmatched(); // the host will not take it for a completion
        }
        if cq.known && !expected {
            self.event(kind::GUESSING, guess::AFTER_LOSS, qid.into(), 0);
        }
        let wrap = u32::from(index) + 1 == self.tables.cq_shape[at].size;
        cq.known = true;
        cq.tail = if wrap { 0 } else { index + 1 };
        cq.phase = phase ^ wrap;
        self.last_cq = qid;
        let sq_valid = self.tables.sq_valid >> sqid & 1 != 0;
        let sqid = sqid as u8;
        let found = self.find(sqid, cid);
        self.go(); // CQE_FOUND
        let guessed = if expected { 0 } else { flag::GUESS };
        let tick = self.tick;
        let mut done = None;
        let slot = if let Some(found) = found {
            self.unlink(sqid, cid, found);
            let s = self.slot(found.slot);
            done = Some(*s);
            (s.state, s.cqe, s.status, s.index) = (State::Completed, tick, status, index);
            s.flags |= guessed;
            let identify = s.opcode == admin::IDENTIFY;
            if sqid == 0 {
                if identify && self.identifies != 0 {
                    self.identifies -= 1;
                }
                self.arm = false;
                self.note_armed();
            }
            found.slot
        } else if sq_valid && self.slot_is_free() {
            let flags = flag::NO_SQE | guessed;
            let slot = Slot { state: State::Completed, qid: sqid, index, flags, cid, cqe: tick, status, ..Slot::EMPTY };
            self.allocate(slot)
        } else {
            if sq_valid {
                self.lose(source::SLOTS);
            } else {
                self.unmatched();
            }
            return;
        };
        self.go(); // CQE_APPEND
        if let Some(command) = &done {
            let completion = Completion {
                tick,
                latency: Completion::latency(tick, command.doorbell),
                lba: command.lba,
                blocks: command.blocks,
                opcode: command.opcode,
                admin: sqid == 0,
                error: status & 0x7FF != 0,
            };
            self.made.completions.push((self.t + 1, completion));
        }
        if self.shadow && sqid != 0 {
            return self.emit(slot, None, false, UNKNOWN);
        }
        if self.tables.cq_filled == 0 {
            self.schedule_sweep();
        }
        if cq.count == 0 {
            cq.head = slot;
        } else {
            self.tables.next[usize::from(cq.last)] = slot;
        }
        (cq.last, cq.count) = (slot, cq.count + 1);
        if self.tables.cq_waiting >> at & 1 == 0 {
            cq.waiting = slot;
        }
        self.tables.cq_filled |= 1 << at;
        self.tables.cq_waiting |= 1 << at;
        if let Some(command) = done.filter(|_| sqid == 0 && status & 0x7FF == 0) {
            // Deleting a queue walks queues with the table's entry.
            self.tables.cq[at] = *cq;
            self.admin_done(&command);
            *cq = self.tables.cq[at];
        }
    }

    /// A successful admin command changes what is tracked. From ADMIN_DONE to ADMIN_RELOAD.
    fn admin_done(&mut self, command: &Slot) {
        self.go(); // ADMIN_DONE
        let (qid, size) = (command.lba as u16, (command.lba >> 16 & 0xFFFF) as u32 + 1);
        match command.opcode {
            admin::CREATE_IO_SQ | admin::CREATE_IO_CQ => {
                let (cq, link) = (command.opcode == admin::CREATE_IO_CQ, (command.blocks >> 16) as u16);
                self.create(NewQueue { cq, qid, base: command.prp1, size, link, guess: false });
            }
            admin::DELETE_IO_SQ | admin::DELETE_IO_CQ => {
                let cq = command.opcode == admin::DELETE_IO_CQ;
                let valid = if cq { self.tables.cq_valid } else { self.tables.sq_valid };
                if qid != 0 && usize::from(qid) < QUEUES && valid >> qid & 1 != 0 {
                    self.delete(cq, qid);
                }
            }
            admin::DOORBELL_BUFFER_CONFIG => {
                self.shadow = true;
                self.event(kind::SHADOW_DOORBELLS, 0, 0, 0);
                for address in self.db_buffers {
                    self.go(); // SHADOW_PAGE
                    let key = self.page_key(address);
                    self.insert(PageEntry { key, valid: true, kind: Page::Ignore, ..PageEntry::default() }, false);
                }
                self.go(); // SHADOW_PAGE, to its end
            }
            admin::SET_FEATURES if command.lba as u8 == feature::POWER_MANAGEMENT => {
                self.event(kind::POWER_STATE, command.blocks as u8, 0, 0);
            }
            _ => {}
        }
        self.go(); // ADMIN_BACK
        self.go(); // ADMIN_RELOAD
    }

    fn delete(&mut self, cq: bool, qid: u16) {
        self.go(); // DELETE
        self.event(kind::QUEUE_DELETED, cq.into(), qid, 0);
        if cq {
            self.tables.cq_valid &= !(1 << qid);
            self.tables.cq_filled &= !(1 << qid);
            self.tables.cq_waiting &= !(1 << qid);
            self.unmap(true, qid);
            self.delete_cq(qid);
        } else {
            self.tables.sq_valid &= !(1 << qid);
            self.unmap(false, qid);
            self.delete_sq(qid);
        }
    }

    /// A one-DW write to no known page.
    pub fn interrupt(&mut self, h: &Header) {
        self.go(); // INTERRUPT
        if self.tables.cq_waiting == 0 {
            return;
        }
        let x = h.word(0);
        let part = |from: u32| (h.address >> from) as u32;
        let at = (x ^ x >> 6 ^ part(2) ^ (part(12) & 0x3F) << 3 ^ part(16)) as usize & (MESSAGES - 1);
        self.go(); // INTERRUPT_KNOWN
        let message = self.tables.messages[at];
        let waiting = self.tables.cq_waiting;
        let alone = waiting & (waiting - 1) == 0;
        let mut known = message.valid && message.address == h.address >> 2 && message.data == x;
        let mut any = false;
        let mut learn = false;
        let mut scan = waiting;
        if known {
        } else if alone {
            (any, learn) = (true, true);
        } else if waiting >> self.last_cq & 1 != 0 {
            (any, scan) = (true, 1 << self.last_cq);
        } else {
            return self.go(); // DONE
        }
        let mut fits = false;
        loop {
            self.go(); // INTERRUPT_SCAN
            if scan == 0 {
                let trust = self.tables.messages[at].trust;
                let calm = (!self.loss_seen || self.tick.wrapping_sub(self.loss_tick) >= CALM_TICKS) && !self.untracked;
                // Trust rises when a queue of the vector was waiting, and falls otherwise: often only because the host
                // has already taken the CQE, so it takes many misses to relearn a message.
                if known && fits && trust != 15 {
                    self.tables.messages[at].trust = if trust > 11 { 15 } else { trust + 4 };
                }
                if known && !fits && trust != 0 && calm {
                    self.tables.messages[at].trust = trust - 1;
                }
                let waiting = self.tables.cq_waiting;
                if known && !fits && trust == 0 && waiting & waiting.wrapping_sub(1) == 0 {
                    (known, any, learn, scan) = (false, true, true, waiting);
                    continue;
                }
                return;
            }
            let qid = scan.trailing_zeros() as usize;
            scan &= scan - 1;
            self.go(); // INTERRUPT_QUEUE
            let link = self.tables.cq_shape[qid].link;
            if learn {
                self.tables.messages[at] =
                    Message { valid: true, address: h.address >> 2, data: x, vector: link, trust: 8 };
            }
            if any || link == message.vector {
                self.tables.cq_waiting &= !(1 << qid);
                fits = true;
                let cq = self.tables.cq[qid];
                let mut slot = cq.waiting;
                loop {
                    self.go(); // INTERRUPT_MARK
                    let tick = self.tick;
                    self.slot(slot).msix = tick;
                    if slot == cq.last {
                        break;
                    }
                    slot = self.tables.next[usize::from(slot)];
                }
            }
        }
    }
}
