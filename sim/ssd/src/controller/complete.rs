//! Completion queues and interrupts.

use crate::controller::{Controller, Event};
use crate::host::{BusSink, Host};
use crate::nvme::cqe;
use crate::pcie::port::{Payload, DRIVE};
use crate::profile::US;
use wattbell_bus::tlp;
use wattbell_bus::Direction;

impl<S: BusSink> Controller<S> {
    /// Posts the completion of a command, or lets it wait until the host has released an entry.
    pub(crate) fn complete(&mut self, id: u32) {
        let qid = self.command(id).qid;
        let Some(sq) = self.sqs.get(&qid) else { return self.drop_command(id) }; // its queue was deleted
        let (cqid, sq_head) = (sq.cqid, sq.head as u16);
        let Some(cq) = self.cqs.get_mut(&cqid) else { return self.drop_command(id) };
        if cq.is_full() {
            cq.blocked.push_back(id);
            return;
        }
        let (address, phase) = cq.take_slot();
        let c = self.command(id);
        let entry = cqe(c.dw0, sq_head, c.qid, c.sqe.cid(), c.status, phase);
        let at = self.wake_link(self.now);
        let span = self.port.dma_write(at, address, Payload::Bytes(&entry));
        let c = self.command(id);
        c.truth.cqe_ps = span.first;
        c.truth.status = c.status.0;
        let (truth, status) = (c.truth, c.status);
        if status.has_more() {
            self.log_command(id);
        }
        if let Some(cq) = self.cqs.get_mut(&cqid) {
            cq.posted.push_back(truth);
        }
        self.release_command(id);
        self.at(span.end + self.timing.msix, Event::Post { cqid, address, entry });
    }

    /// A CQE has reached host memory: the interrupt follows, at once or coalesced.
    pub(crate) fn post(&mut self, cqid: u16, address: u64, entry: &[u8; 16], host: &mut dyn Host) {
        host.write(address, entry);
        self.in_hand -= 1;
        let (threshold, wait_us) = self.features.coalescing(cqid);
        if let Some(cq) = self.cqs.get_mut(&cqid) {
            cq.uncalled += 1;
            if wait_us == 0 || cq.uncalled > threshold {
                self.call(cqid);
            } else if cq.uncalled == 1 {
                self.at(self.now + u64::from(wait_us) * US, Event::Coalesced { cqid });
            }
        }
        self.settle();
    }

    /// Sends the interrupt message of a completion queue with entries posted since the last one.
    pub(crate) fn call(&mut self, cqid: u16) {
        let Some(cq) = self.cqs.get_mut(&cqid) else { return };
        let called = std::mem::take(&mut cq.uncalled);
        let Some(vector) = cq.vector.filter(|_| called > 0) else { return };
        self.interrupt(vector);
    }

    /// Sends the message of a vector, or leaves it pending if it is masked.
    pub(crate) fn interrupt(&mut self, vector: u16) {
        let Some(&[low, high, data, control]) = self.msix_table.get(usize::from(vector)) else { return };
        let (enabled, masked) = self.config.msix();
        let (address, data) = if self.options.msix_outside {
            (0xFEE0_1000, u32::from(vector))
        } else if enabled && !masked && control & 1 == 0 {
            (u64::from(high) << 32 | u64::from(low & !3), data)
        } else {
            self.msix_pending[usize::from(vector)] = enabled;
            return;
        };
        self.msix_pending[usize::from(vector)] = false;
        let at = self.wake_link(self.now);
        let span = self.port.send(at, Direction::Up, tlp::mem_write(DRIVE, 0, address, &data.to_le_bytes()));
        for cq in self.cqs.values_mut().filter(|cq| cq.vector == Some(vector)) {
            for truth in cq.posted.iter_mut().rev().take_while(|t| t.msix_ps.is_none()) {
                if truth.cqe_ps < span.first {
                    truth.msix_ps = Some(span.first);
                }
            }
        }
        self.at(span.end + self.port.flight, Event::Interrupt(vector));
    }

    /// Sends the messages of vectors that were pending when a mask fell.
    pub(crate) fn interrupt_pending(&mut self) {
        for vector in 0..self.msix_table.len() as u16 {
            if self.msix_pending[usize::from(vector)] {
                self.interrupt(vector);
            }
        }
    }

    /// The host released entries of a completion queue: commands that waited for one go on.
    pub(crate) fn unblock(&mut self, cqid: u16) {
        while let Some(cq) = self.cqs.get_mut(&cqid) {
            if cq.is_full() {
                return;
            }
            let Some(id) = cq.blocked.pop_front() else { return };
            self.complete(id);
        }
    }

    /// Forgets a command that cannot be completed because its queue is gone.
    fn drop_command(&mut self, id: u32) {
        self.release_command(id);
        self.in_hand -= 1;
        self.settle();
    }

    fn release_command(&mut self, id: u32) {
        if let Some(command) = self.commands[id as usize].take() {
            self.health.io_ends(self.now, u32::from(command.qid != 0));
        }
        self.spare.push(id);
    }
}
