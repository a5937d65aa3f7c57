//! Completion queues and interrupts.

use super::agenda::Event;
use super::Controller;
use crate::host::{BusSink, Host};
use crate::nvme::cqe;
use crate::nvme::queues::{Call, Slot};
use crate::pcie::port::Payload;
use wattbell_bus::tlp;
use wattbell_bus::Direction;

impl<S: BusSink> Controller<S> {
    /// Posts the completion of a command, or lets it wait until the host has released an entry.
    pub(super) fn complete(&mut self, id: u32) {
        let (cqid, address, sq_head, phase) = match self.queues.slot(self.commands[id].qid, id) {
            Slot::Entry { cqid, address, sq_head, phase } => (cqid, address, sq_head, phase),
            Slot::Full => return,
            Slot::Gone => {
                self.release(id);
                self.commands.end(1);
                return self.settle();
            }
        };
        let at = self.wake_link(self.now);
        let c = &mut self.commands[id];
        if c.qid != 0 {
            c.truth.share_fj = self.power.meter.account.over(self.now, c.begun_j);
        }
        let entry = cqe([c.dw0, c.dw1], sq_head, c.qid, c.sqe.cid(), c.status, phase);
        let span = self.pcie.port.dma_write(at, address, Payload::Bytes(&entry));
        (c.truth.cqe_ps, c.truth.status) = (span.first, c.status.0);
        self.queues.post(cqid, c.truth);
        if c.qid != 0 {
            self.admin.note_latency(&c.truth, super::io::deallocates(&c.sqe));
        }
        self.admin.note_completion(c);
        self.release(id);
        self.agenda.at(span.end + self.processor.msix, Event::Post { cqid, address, entry });
    }

    /// Forgets a command that is over.
    fn release(&mut self, id: u32) {
        if let Some(command) = self.commands.remove(id) {
            self.admin.health.io_ends(self.now, u32::from(command.qid != 0));
        }
    }

    /// A CQE has reached host memory: the interrupt follows, at once or coalesced.
    pub(super) fn post(&mut self, cqid: u16, address: u64, entry: &[u8; 16], host: &mut dyn Host) {
        host.write(address, entry);
        self.commands.end(1);
        if self.queues.is_polled(cqid) {
            host.posted(cqid, self.now);
        }
        let coalescing = self.admin.features.coalescing(cqid);
        match self.queues.arrived(cqid, coalescing.map(|(threshold, _)| threshold)) {
            Call::Now => self.call(cqid),
            Call::Later => {
                let wait = coalescing.map_or(0, |(_, wait)| wait);
                self.agenda.at(self.now + wait, Event::Coalesced { cqid });
            }
            Call::Joined => {}
        }
        self.settle();
    }

    /// Sends the interrupt message of a completion queue with entries posted since the last one.
    pub(super) fn call(&mut self, cqid: u16) {
        if let Some(vector) = self.queues.call(cqid) {
            self.interrupt(vector);
        }
    }

    /// Sends the message of a vector, or leaves it pending if it is masked.
    fn interrupt(&mut self, vector: u16) {
        let Some((address, data)) = self.pcie.message(vector) else { return };
        if !self.pcie.port.master {
            return;
        }
        let at = self.wake_link(self.now);
        let message = tlp::mem_write(self.pcie.port.id, 0, address, &data.to_le_bytes());
        let span = self.pcie.port.send(at, Direction::Up, message);
        self.queues.called(vector, span.first);
        self.agenda.at(span.end + self.pcie.port.flight, Event::Interrupt(vector));
    }

    /// Sends the messages of vectors that were pending when a mask fell.
    pub(super) fn interrupt_pending(&mut self) {
        for vector in self.pcie.msix.pending() {
            self.interrupt(vector);
        }
    }

    /// The host released entries of a completion queue: commands that waited for one go on.
    pub(super) fn unblock(&mut self, cqid: u16) {
        while let Some(id) = self.queues.unblock(cqid) {
            self.complete(id);
        }
    }
}
