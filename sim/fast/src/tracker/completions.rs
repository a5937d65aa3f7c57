//! Completion queue entries, what admin commands change, and interrupts.

use super::header::{Header, ASSERT_INTA};
use super::messages::Delivery;
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
        let aligned = h.address >> 2 & 1 == 0 && h.length & 1 == 0;
        if !h.kept || !aligned || offset >= u64::from(size) || !valid {
            return self.unmatched();
        }
        // A CQE may come in halves, and with the second one it is there.
        let before = (h.address >> 2 & 2) as usize;
        let mut index = offset as u16;
        for end in (CQE_WORDS..=usize::from(h.length) + before).step_by(CQE_WORDS) {
            let last = end - before - 1;
            self.cqe([h.word(last - 1), h.word(last)], qid, index);
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
        let (vector, tells) = (cq.vector, cq.tells);
        self.last_cq = qid;
        if jumped {
            self.event(kind::GUESSING, guess::AFTER_LOSS, qid.into(), 0);
        }
        let sq_valid = self.tables.sqs[usize::from(sqid)].valid;
        let doubted = tells && (!self.messages.sure(vector) || self.shares_wire());
        let tells = tells && !(self.messages.asserted && self.messages.delivery() == Delivery::Wires);
        let (sqid, cqe, guessed) = (sqid as u8, self.tick, if expected { 0 } else { flag::GUESS });
        let known = self.tables.in_flight.remove(&(sqid, cid));
        if known.is_none() && sq_valid {
            self.pass(sqid, third as u16);
            self.hold();
        }
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
        let shadow = self.shadow && sqid != 0;
        let s = self.slot(slot);
        (s.state, s.index) = (State::Completed, index);
        (s.command.cqe, s.command.status, s.command.flags) = (cqe, status, s.command.flags | guessed);
        (s.command.interrupt_guessed, s.untold) = (doubted, tells && !shadow);
        let Slot { command, prp1, .. } = *s;
        if known.is_some() {
            self.made.completions.push(command);
        }
        if known.is_some() && sqid == 0 {
            self.identifies = self.identifies.saturating_sub((command.opcode == admin::IDENTIFY).into());
            self.announced = false;
        }
        if shadow {
            return self.emit(slot, None);
        }
        let cq = &mut self.tables.cqs[at];
        cq.commands.push_back(slot);
        cq.untold += usize::from(tells || cq.untold != 0);
        if known.is_some() && sqid == 0 && status & 0x7FF == 0 {
            self.admin_done(&command, prp1);
        }
    }

    /// The drive has taken the commands of SQ `qid` before `head`. The tap did not see its reads of commands that are still announced, nor
    /// the doorbell of commands beyond the tail.
    fn pass(&mut self, qid: u8, head: u16) {
        let at = usize::from(qid);
        let Queue { size, tail, epoch, .. } = self.tables.sqs[at];
        let Some(tail) = tail.filter(|_| u32::from(head) < size) else { return };
        while let Some(&slot) = self.tables.sqs[at].commands.front() {
            let first = self.slot(slot).index;
            let taken = distance(first, head, size);
            if taken == 0 || taken > distance(first, tail, size) {
                return;
            }
            self.tables.sqs[at].commands.pop_front();
            self.let_go(slot);
            // No TLP was lost since its doorbell, so there was no read.
            if epoch == self.epoch && !self.told[usize::from(guess::SQE_PARTS)] {
                self.tell_once(guess::SQES_UNREAD, qid.into());
            }
        }
        if distance(tail, head, size) << 1 < size {
            self.tables.sqs[at].tail = Some(head);
        }
    }

    /// A successful admin command changes what is tracked.
    fn admin_done(&mut self, command: &Command, prp1: u64) {
        let (cdw10, cdw11) = (command.slba as u32, command.blocks);
        let qid = cdw10 as u16;
        match command.opcode {
            admin::CREATE_IO_SQ | admin::CREATE_IO_CQ => {
                let queue = Queue::new(prp1, (cdw10 >> 16) + 1, (cdw11 >> 16) as u16, false).telling(cdw11 & 2 != 0);
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
            admin::SET_FEATURES if cdw10 as u8 == feature::HOST_MEMORY_BUFFER && cdw11 & 1 == 0 => self.take_back(),
            admin::SET_FEATURES if cdw10 as u8 == feature::POWER_MANAGEMENT => {
                self.event(kind::POWER_STATE, cdw11 as u8, 0, 0);
            }
            _ => {}
        }
    }

    /// CQs with completions that the drive has not announced.
    fn untold(&self) -> Vec<usize> {
        (0..QUEUES).filter(|&qid| self.tables.cqs[qid].untold != 0).collect()
    }

    /// A one-DW write to no known page.
    pub(super) fn interrupt(&mut self, h: &Header) {
        let waiting = self.untold();
        if waiting.is_empty() {
            return;
        }
        let vector_of = |qid: &usize| self.tables.cqs[*qid].vector;
        match self.messages.delivery() {
            Delivery::Wires => return,
            Delivery::Unknown => {}
            Delivery::Msi | Delivery::Msix => {
                for before in [false, true] {
                    let fits = |qid: &usize| self.messages.is(h, vector_of(qid), before);
                    let fitting: Vec<usize> = waiting.iter().copied().filter(fits).collect();
                    if !fitting.is_empty() {
                        return self.mark(&fitting, before);
                    }
                }
                if waiting.iter().all(|qid| self.messages.knows(vector_of(qid))) {
                    return;
                }
            }
        }
        self.learn(h, waiting);
    }

    /// A write that may be an interrupt, though no access of the host has set it up.
    fn learn(&mut self, h: &Header, mut waiting: Vec<usize>) {
        let first = waiting[0];
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
                return self.mark(&fitting, true);
            }
        }
        if alone {
            let vector = vector_of(&self.tables, first);
            self.tables.messages[at] = Some(Message { address, data, vector, trust: TRUST });
        } else {
            waiting.retain(|qid| *qid == usize::from(self.last_cq));
        }
        self.mark(&waiting, true);
    }

    /// Whether an interrupt may be another function's (PCIe, INTx Interrupt Signaling: such a message names no function).
    fn shares_wire(&self) -> bool {
        self.other_functions && self.messages.delivery() == Delivery::Wires
    }

    /// Assert_INTA announces all completions that were not announced; Deassert_INTA none.
    pub(super) fn wire(&mut self, h: &Header) {
        self.messages.asserted = h.address == ASSERT_INTA;
        if self.messages.asserted && !matches!(self.messages.delivery(), Delivery::Msi | Delivery::Msix) {
            let guessed = self.messages.delivery() == Delivery::Unknown || self.shares_wire();
            self.mark(&self.untold(), guessed);
        }
    }

    /// The completed commands of these CQs have their interrupt.
    fn mark(&mut self, cqs: &[usize], guessed: bool) {
        for &qid in cqs {
            let cq = &mut self.tables.cqs[qid];
            let told = cq.commands.len() - std::mem::take(&mut cq.untold);
            for &slot in cq.commands.range(told..) {
                let slot = &mut self.slots[usize::from(slot)];
                (slot.command.msix, slot.command.interrupt_guessed, slot.untold) = (Some(self.tick), guessed, false);
            }
        }
    }
}
