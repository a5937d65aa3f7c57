//! Completion queue entries, what admin commands change, and interrupts.

use super::header::Header;
use super::store::*;
use super::{load, Tracker};
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

impl Tracker {
    /// A write to a page of completion queue `qid`.
    pub(super) fn cqes(&mut self, h: &Header, qid: u8) {
        let Queue { base, size, valid, .. } = self.tables.cqs[usize::from(qid)];
        let offset = (h.address >> 4).wrapping_sub(base >> 4) & 0xFF_FFFF;
        let aligned = h.address >> 2 & 3 == 0 && h.length & 3 == 0;
        if !h.kept || !aligned || offset >= u64::from(size) || !valid {
            return self.unmatched();
        }
        let mut index = offset as u16;
        for first in (0..usize::from(h.length)).step_by(CQE_WORDS) {
            self.cqe([h.word(first + 2), h.word(first + 3)], qid, index);
            index = after(index, size);
            self.clocks += load::CQE;
        }
    }

    /// A CQE of CQ `qid`, given its last two words.
    fn cqe(&mut self, [third, last]: [u32; 2], qid: u8, index: u16) {
        let at = usize::from(qid);
        let cq = &mut self.tables.cqs[at];
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
        let sq_valid = self.tables.sqs[usize::from(sqid)].valid;
        let (sqid, cqe, guessed) = (sqid as u8, self.tick, if expected { 0 } else { flag::GUESS });
        let known = self.tables.in_flight.remove(&(sqid, cid));
        let slot = match known {
            Some(slot) => slot,
            None if !sq_valid => return self.unmatched(),
            None => {
                let command = Command { qid: sqid, cid, flags: flag::NO_SQE, ..Command::default() };
                match self.allocate(State::Completed, index, command) {
                    Some(slot) => slot,
                    None => return self.lose(source::SLOTS),
                }
            }
        };
        let s = self.slot(slot);
        (s.state, s.index) = (State::Completed, index);
        (s.command.cqe, s.command.status, s.command.flags) = (cqe, status, s.command.flags | guessed);
        let Slot { command, prp1, .. } = *s;
        if known.is_some() {
            self.made.completions.push(command);
        }
        if known.is_some() && sqid == 0 {
            self.identifies = self.identifies.saturating_sub((command.opcode == admin::IDENTIFY).into());
            self.announced = false;
        }
        if self.shadow && sqid != 0 {
            return self.emit(slot, None);
        }
        self.tables.cqs[at].commands.push_back(slot);
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
                let queue = Queue::new(prp1, (cdw10 >> 16) + 1, (cdw11 >> 16) as u16, false);
                self.create(command.opcode == admin::CREATE_IO_CQ, qid, queue);
            }
            admin::DELETE_IO_SQ | admin::DELETE_IO_CQ if qid != 0 && usize::from(qid) < QUEUES => {
                self.delete(command.opcode == admin::DELETE_IO_CQ, qid);
            }
            admin::DOORBELL_BUFFER_CONFIG => {
                self.shadow = true;
                self.event(kind::SHADOW_DOORBELLS, 0, 0, 0);
                for address in self.doorbell_buffers {
                    let key = self.page_key(address);
                    self.insert(PageEntry { key, holds: Holds::Ignored, ..PageEntry::default() }, false);
                }
            }
            admin::FORMAT_NVM => self.namespaces.formatted(command.nsid, cdw10),
            admin::SET_FEATURES if cdw10 as u8 == feature::POWER_MANAGEMENT => {
                self.event(kind::POWER_STATE, cdw11 as u8, 0, 0);
            }
            _ => {}
        }
    }

    /// A one-DW write to no known page.
    pub(super) fn interrupt(&mut self, h: &Header) {
        // An interrupt is for all that have completed on a queue, so the last one tells whether some still wait for theirs.
        let last = |qid: usize| self.tables.cqs[qid].commands.back().map(|&slot| self.slots[usize::from(slot)].command);
        let waits = |qid: &usize| last(*qid).is_some_and(|command| command.msix.is_none());
        let mut waiting: Vec<usize> = (0..QUEUES).filter(waits).collect();
        let Some(&first) = waiting.first() else { return };
        let (address, data, alone) = (h.address >> 2, h.word(0), waiting.len() == 1);
        let part = |from: u32| (h.address >> from) as u32;
        let at = (data ^ data >> 6 ^ part(2) ^ (part(12) & 0x3F) << 3 ^ part(16)) as usize & (MESSAGES - 1);
        let vector_of = |tables: &Tables, qid: usize| tables.cqs[qid].vector;
        if let Some(mut message) = self.tables.messages[at].filter(|m| (m.address, m.data) == (address, data)) {
            let fitting = waiting.iter().copied().filter(|&qid| vector_of(&self.tables, qid) == message.vector);
            let fitting: Vec<usize> = fitting.collect();
            // Trust rises when a queue of the vector was waiting, and falls otherwise: often only because the host
            // has already taken the CQE, so it takes many misses to relearn a message.
            let calm = self.loss_tick.is_none_or(|lost| self.tick.wrapping_sub(lost) >= CALM_TICKS) && !self.untracked;
            let relearns = fitting.is_empty() && message.trust == 0 && alone;
            if !fitting.is_empty() {
                message.trust = (message.trust + TRUST_STEP).min(TRUST_MAX);
            } else if calm {
                message.trust = message.trust.saturating_sub(1);
            }
            self.tables.messages[at] = Some(message);
            if !relearns {
                return self.mark(&fitting);
            }
        }
        if alone {
            let vector = vector_of(&self.tables, first);
            self.tables.messages[at] = Some(Message { address, data, vector, trust: TRUST });
        } else {
            waiting.retain(|qid| *qid == usize::from(self.last_cq));
        }
        self.mark(&waiting);
    }

    /// The completed commands of these CQs have their interrupt.
    fn mark(&mut self, cqs: &[usize]) {
        for &qid in cqs {
            for &slot in &self.tables.cqs[qid].commands {
                self.slots[usize::from(slot)].command.msix.get_or_insert(self.tick);
            }
        }
    }
}
