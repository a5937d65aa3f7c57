//! Submission queues: arbitration, reading entries, and the start of commands in the firmware.

use super::agenda::Event;
use super::want::Want;
use super::Controller;
use crate::host::BusSink;
use crate::nvme::commands::Command;
use crate::nvme::queues::Turn;
use crate::profile::{Ps, NS};

/// From a batch to the next queue's turn, if any waits.
pub(super) const NEXT_TURN: Ps = 50 * NS;
/// To another look if there are too many reads of host memory for one more batch.
pub(super) const CROWDED: Ps = 200 * NS;

impl<S: BusSink> Controller<S> {
    pub(super) fn want_arbitration(&mut self, at: Ps) {
        if self.queues.want_turn() {
            self.agenda.at(at, Event::Arbitrate);
        }
    }

    /// Reads a batch of entries of the next queue in turn.
    pub(super) fn arbitrate(&mut self) {
        let Some((qid, again)) = self.queues.next_turn() else { return self.settle() };
        if self.reads.crowded() {
            return self.want_arbitration(self.now + CROWDED);
        }
        let burst = self.admin.features.arbitration_burst();
        let turn = if again { self.queues.turn() } else { Turn { qid, left: burst } };
        let Some(batch) = self.queues.take_turn(turn, *self.profile.limits.fetch_batch) else { return };
        let (more, count) = (self.queues.waiting(), batch.announced.len() as u32);
        self.commands.begin(count);
        self.read_host((Want::Sqes { qid, announced: batch.announced, first: 0 }, batch.address, 64 * count));
        if more {
            self.want_arbitration(self.now + NEXT_TURN);
        }
    }

    pub(super) fn sqes_in(&mut self, qid: u16, announced: &[Ps], first: Ps, bytes: &[u8]) {
        let count = announced.len() as u32;
        if !self.queues.fetched(qid, count) {
            self.commands.end(count); // the queue was deleted meanwhile
            return self.settle();
        }
        for (entry, &doorbell_ps) in bytes.chunks_exact(64).zip(announced) {
            let id = self.commands.add(Command::new(entry, qid, doorbell_ps, first));
            if qid != 0 {
                self.commands[id].begun_j = self.power.meter.account.fetched(qid);
                self.admin.health.io_begins(self.now);
            }
            let at = self.processor.understood_ps(self.now, self.power.states.slowdown());
            self.agenda.at(at, Event::Execute(id));
        }
    }
}
