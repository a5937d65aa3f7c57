//! Slots of commands in flight, from the doorbell to the record; sweeps and resets.

use super::store::{Id, Slot, State, Tables};
use super::{load, Tracker, SWEEP_BITS};
use crate::command::Command;
use wattbell_spec::nvme::io;
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, loss_source_code as source, reset_cause_code as cause,
};

/// Slots that only admin commands take: without these commands, nobody knows which queues there are.
const RESERVED: usize = 16;
/// A completed command is released at this age.
const AGE_TICKS: u64 = 1 << 24;

impl Tracker {
    pub(super) fn slot(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[usize::from(slot)]
    }

    /// Whether a command is in flight.
    pub(super) fn lives(&self, id: Id) -> bool {
        let slot = &self.slots[usize::from(id.slot)];
        slot.state == State::InFlight && slot.id == id
    }

    /// Takes a slot, if one is free, for a command that is in `state` and has place `index` in its queue.
    pub(super) fn allocate(&mut self, state: State, index: u16, command: Command) -> Option<u16> {
        self.slots_short |= self.free.len() < 2;
        if command.qid != 0 && self.free.len() <= RESERVED {
            return None;
        }
        let slot = self.free.pop_front()?;
        let (id, epoch) = (Id { slot, generation: self.generation }, self.epoch);
        *self.slot(slot) = Slot { state, id, index, epoch, command, ..Slot::default() };
        self.generation = self.generation.wrapping_add(1);
        Some(slot)
    }

    /// One of the commands without a slot has ended, or has one now.
    pub(super) fn hold(&mut self) {
        self.unheld = self.unheld.saturating_sub(1);
    }

    /// A command goes on without a slot. Of very many, the others count as lost at once.
    pub(super) fn unhold(&mut self) {
        match self.unheld.checked_add(1) {
            Some(more) => self.unheld = more,
            None => self.lose(source::SLOTS),
        }
    }

    /// Releases the slot of a command that goes on.
    pub(super) fn let_go(&mut self, slot: u16) {
        self.unhold();
        self.release(slot);
    }

    pub(super) fn release(&mut self, slot: u16) {
        self.slot(slot).state = State::Free;
        self.free.push_back(slot);
    }

    /// Makes the record of a command that has completed, and releases its slot.
    pub(super) fn emit(&mut self, slot: u16, cq_head: Option<u64>) {
        let s = self.slots[usize::from(slot)];
        let mut command = Command { cq_head, ..s.command };
        let set = |flag: u8, is: bool| if is { flag } else { 0 };
        // A command that failed or was aborted may move less than is due.
        let failed = command.flags & flag::ABORTED != 0 || command.status & 0x7FF != 0;
        command.length_checked = s.due.is_some();
        // Without a CQ head doorbell, nobody knows whether the drive still sends the interrupt.
        command.interrupt_guessed |= s.untold && cq_head.is_none();
        let dsm = command.qid != 0 && command.opcode == io::DSM;
        command.flags |= set(flag::NO_SQE, matches!(s.state, State::Announced | State::Fetching))
            | set(flag::GUESS, self.spaces)
            | set(flag::NO_RANGES, dsm && s.ranges != s.ranges_expected)
            | set(flag::DATA_PARTIAL, s.is_partial(failed) || self.may_lack_translated(&s, failed))
            | set(flag::LOSS, s.epoch != self.epoch);
        self.ousted -= u16::from(s.ousted && s.epoch == self.epoch);
        self.record(&command);
        self.clocks += load::RECORD;
        self.release(slot);
    }

    /// Whether a command may have data in another address space, which belongs to nothing here, and no length shows that. With a
    /// shared page, data of the other command may have come in its place.
    fn may_lack_translated(&self, s: &Slot, failed: bool) -> bool {
        self.translated && s.command.opcode & 3 != 0 && (failed || s.due.is_none() || s.shared)
    }

    /// The same of one that has not.
    pub(super) fn abort(&mut self, slot: u16, flags: u8) {
        let (tick, reads_ahead) = (self.tick, self.reads_ahead);
        let Slot { state, command, .. } = self.slot(slot);
        // The drive may have meant to read its SQE again.
        let again = if reads_ahead && *state == State::InFlight { flag::GUESS } else { 0 };
        command.flags |= flag::ABORTED | flags | again;
        command.cqe = tick;
        self.emit(slot, None);
    }

    /// Makes the records of all commands for which `which` holds.
    pub(super) fn clear(&mut self, which: impl Fn(&Slot) -> bool) {
        self.clocks += load::WALK;
        for slot in 0..self.slots.len() as u16 {
            match self.slot(slot) {
                s if s.state == State::Free || !which(s) => {}
                s if s.state == State::Completed => self.emit(slot, None),
                s => {
                    let command = (s.command.qid, s.command.cid);
                    if s.state == State::InFlight {
                        self.tables.in_flight.remove(&command);
                    }
                    self.abort(slot, 0);
                }
            }
        }
    }

    /// Releases completed commands whose CQ head doorbell does not come.
    pub(super) fn sweep(&mut self) {
        self.swept = self.tick >> SWEEP_BITS;
        for qid in 0..self.tables.cqs.len() {
            while let Some(&head) = self.tables.cqs[qid].commands.front() {
                if self.tick < self.slot(head).command.cqe + AGE_TICKS {
                    break;
                }
                self.release_first(qid);
                self.emit(head, None);
            }
        }
    }

    /// Forgets everything tracked; what is in flight goes out as aborted.
    pub(super) fn reset(&mut self, cause: u8) {
        if self.dirty {
            self.clear(|_| true);
            self.tables = Tables::default();
        }
        for _ in 0..std::mem::take(&mut self.unheld) {
            self.lose(source::SLOTS);
        }
        self.event(kind::TRACKER_RESET, cause, 0, 0);
        (self.shadow, self.announced, self.identifies, self.dirty) = (false, false, 0, false);
        (self.crowded, self.ousted, self.untracked, self.messages.asserted) = (None, 0, false, false);
        self.sqes_unsized = false;
        self.namespaces = Default::default();
        self.controller.shutdown = Default::default();
        (self.host_buffer, self.translated) = (Default::default(), false);
        if [cause::PERST, cause::LINK, cause::FLR, cause::D3HOT].contains(&cause) {
            // Configuration space is reset as well. Until the host writes BAR0 anew, its address of before PERST# alone is forgotten.
            self.controller = Default::default();
            self.messages.reset();
        }
        if cause == cause::PERST {
            self.bar0 = 0;
            self.follow(None);
            (self.other_functions, self.reads_ahead, self.spaces) = (false, false, false);
        }
    }
}
