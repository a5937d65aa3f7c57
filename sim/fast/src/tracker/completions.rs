//! Completion queue entries, what admin commands change, and interrupts.

use super::engine::Engine;
use super::header::Header;
use super::queues::NewQueue;
use super::store::*;
use crate::command::Command;
use crate::status::QUEUES;
use wattbell_spec::nvme::{admin, feature};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, guess_reason_code as guess, loss_source_code as source,
};

/// For this many ticks after a loss of TLPs, interrupts without completions teach nothing.
const CALM_TICKS: u64 = 1 << 20;
const CQE_WORDS: usize = 4;
/// Trust in a message: at first, at most, and how much more when its vector was waiting.
const TRUST: u8 = 8;
const TRUST_MAX: u8 = 15;
const TRUST_STEP: u8 = 4;

impl Engine {
    /// A write to a page of completion queue `qid`.
    pub fn cqes(&mut self, h: &Header, qid: u8) {
        let Cq { base, size, valid, .. } = self.tables.cq[usize::from(qid)];
        let offset = (h.address >> 4).wrapping_sub(base >> 4) & 0xFF_FFFF;
        let aligned = h.address >> 2 & 3 == 0 && h.length & 3 == 0;
        if !h.kept || !aligned || offset >= u64::from(size) || !valid {
            return self.unmatched();
        }
        let mut index = offset as u16;
        for first in (0..usize::from(h.length)).step_by(CQE_WORDS) {
            self.cqe([h.word(first + 2), h.word(first + 3)], qid, index);
            index = after(index, size);
        }
    }

    /// A CQE of CQ `qid`, given its last two words.
    fn cqe(&mut self, [third, last]: [u32; 2], qid: u8, index: u16) {
        let at = usize::from(qid);
        let cq = &mut self.tables.cq[at];
        let (sqid, cid, phase, status) = ((third >> 16) as u16, last as u16, last >> 16 & 1 != 0, (last >> 17) as u16);
        let expected = cq.tail == Some(index);
        if (expected && phase != cq.phase) || usize::from(sqid) >= QUEUES {
            return self.unmatched(); // the host will not take it for a completion
        }
        let jumped = cq.tail.is_some() && !expected;
        let next = after(index, cq.size);
        cq.tail = Some(next);
        cq.phase = phase ^ (next == 0);
        self.last_cq = qid;
        if jumped {
            self.event(kind::GUESSING, guess::AFTER_LOSS, qid.into(), 0);
        }
        let sq_valid = self.tables.sq[usize::from(sqid)].valid;
        let (sqid, cqe, guessed) = (sqid as u8, self.tick, if expected { 0 } else { flag::GUESS });
        let known = self.tables.take_in_flight(sqid, cid);
        let slot = match known {
            Some(slot) => {
                let s = self.slot(slot);
                (s.state, s.index) = (State::Completed, index);
                let command = &mut s.command;
                (command.cqe, command.status, command.flags) = (cqe, status, command.flags | guessed);
                let identify = command.opcode == admin::IDENTIFY;
                if sqid == 0 {
                    self.identifies = self.identifies.saturating_sub(identify.into());
                    self.announced = false;
                }
                Some(slot)
            }
            None if sq_valid => {
                let flags = flag::NO_SQE | guessed;
                let command = Command { qid: sqid, cid, cqe, status, flags, ..Command::default() };
                let new = self.allocate(State::Completed, index, command);
                if new.is_none() {
                    self.lose(source::SLOTS);
                }
                new
            }
            None => {
                self.unmatched();
                None
            }
        };
        let Some(slot) = slot else { return };
        let Slot { command, prp1, .. } = *self.slot(slot);
        if known.is_some() {
            self.made.completions.push(command);
        }
        if self.shadow && sqid != 0 {
            return self.emit(slot, None);
        }
        if self.tables.filled == 0 {
            self.begin_sweeps();
        }
        self.tables.cq[at].completed.push_back(slot);
        self.tables.note(at);
        if known.is_some() && sqid == 0 && status & 0x7FF == 0 {
            self.admin_done(&command, prp1);
        }
    }

    /// A successful admin command changes what is tracked.
    fn admin_done(&mut self, command: &Command, prp1: u64) {
        let (cdw10, cdw11) = (command.slba as u32, command.blocks);
        let qid = cdw10 as u16;
        match command.opcode {
            admin::CREATE_IO_SQ | admin::CREATE_IO_CQ => {
                let (cq, size, link) = (command.opcode == admin::CREATE_IO_CQ, (cdw10 >> 16) + 1, (cdw11 >> 16) as u16);
                self.create(&NewQueue { cq, qid, base: prp1, size, link, guess: false });
            }
            admin::DELETE_IO_SQ | admin::DELETE_IO_CQ if qid != 0 && usize::from(qid) < QUEUES => {
                let (cq, at) = (command.opcode == admin::DELETE_IO_CQ, usize::from(qid));
                let valid = if cq { self.tables.cq[at].valid } else { self.tables.sq[at].valid };
                if valid {
                    self.delete(cq, qid);
                }
            }
            admin::DOORBELL_BUFFER_CONFIG => {
                self.shadow = true;
                self.event(kind::SHADOW_DOORBELLS, 0, 0, 0);
                for address in self.db_buffers {
                    let key = self.page_key(address);
                    self.insert(PageEntry { key, valid: true, kind: Page::Ignore, ..PageEntry::default() }, false);
                }
            }
            admin::SET_FEATURES if cdw10 as u8 == feature::POWER_MANAGEMENT => {
                self.event(kind::POWER_STATE, cdw11 as u8, 0, 0);
            }
            _ => {}
        }
    }

    /// A one-DW write to no known page.
    pub fn interrupt(&mut self, h: &Header) {
        let waiting = self.tables.waiting;
        if waiting == 0 {
            return;
        }
        let (address, data) = (h.address >> 2, h.word(0));
        let part = |from: u32| (h.address >> from) as u32;
        let at = (data ^ data >> 6 ^ part(2) ^ (part(12) & 0x3F) << 3 ^ part(16)) as usize & (MESSAGES - 1);
        let alone = waiting.is_power_of_two();
        let known = self.tables.messages[at].filter(|m| (m.address, m.data) == (address, data));
        if let Some(mut message) = known {
            let of_vector = bits(waiting).filter(|&qid| self.tables.cq[qid].link == message.vector);
            let fitting = of_vector.fold(0, |set, qid| set | 1 << qid);
            self.mark(fitting);
            // Trust rises when a queue of the vector was waiting, and falls otherwise: often only because the host
            // has already taken the CQE, so it takes many misses to relearn a message.
            let calm = self.loss_tick.is_none_or(|lost| self.tick.wrapping_sub(lost) >= CALM_TICKS) && !self.untracked;
            let relearns = fitting == 0 && message.trust == 0 && alone;
            if fitting != 0 {
                message.trust = (message.trust + TRUST_STEP).min(TRUST_MAX);
            } else if calm {
                message.trust = message.trust.saturating_sub(1);
            }
            self.tables.messages[at] = Some(message);
            if !relearns {
                return;
            }
        }
        if alone {
            let vector = self.tables.cq[waiting.trailing_zeros() as usize].link;
            self.tables.messages[at] = Some(Message { address, data, vector, trust: TRUST });
            self.mark(waiting);
        } else {
            self.mark(waiting & 1 << self.last_cq);
        }
    }

    /// The completed commands of the CQs in `set` have their interrupt.
    fn mark(&mut self, set: u64) {
        for qid in bits(set) {
            let cq = &mut self.tables.cq[qid];
            for &slot in cq.completed.range(cq.marked..) {
                self.tables.slots[usize::from(slot)].command.msix = Some(self.tick);
            }
            cq.marked = cq.completed.len();
            self.tables.note(qid);
        }
    }
}
