//! Moving data between the host and the drive: reads of host memory, PRP lists, structures, user data.

use crate::controller::{Controller, Event, Want};
use crate::host::{BusSink, Host};
use crate::nvme::prp;
use crate::nvme::{io, Status};
use crate::pcie::port::{Payload, Request};
use crate::profile::Ps;

/// Reads outstanding at a time, of any kind: leaves tags for the largest of them.
const MAX_READS: usize = 12;

impl<S: BusSink> Controller<S> {
    /// Asks for host memory, now or when earlier reads are answered. The answer comes as an event.
    pub(crate) fn read_host(&mut self, want: Want, address: u64, len: u32) {
        if self.reads_outstanding >= MAX_READS {
            self.deferred.push_back((want, address, len));
            return;
        }
        self.reads_outstanding += 1;
        let at = self.wake_link(self.now);
        let request = self.port.dma_read(at, address, len);
        let want = match want {
            Want::Sqes { qid, announced, .. } => Want::Sqes { qid, announced, first: request.first },
            other => other,
        };
        self.at(request.answer, Event::Answer(Box::new((want, request))));
    }

    /// The root complex has read memory and answers.
    pub(crate) fn answered(&mut self, want: Want, request: &Request, host: &mut dyn Host) {
        self.reads_outstanding -= 1;
        let (address, len) = request.range();
        let mut bytes = Vec::new();
        let keep = !matches!(want, Want::Data { .. } | Want::Nothing);
        let mut there = true;
        if keep || self.store.is_some() {
            bytes.resize(len as usize, 0);
            there = host.read(address, &mut bytes);
        }
        let span = self.port.answer(self.now, request, keep.then_some(&bytes[..]));
        let arrival = span.end + self.port.flight;
        match want {
            Want::Nothing => {}
            Want::Sqes { qid, announced, first } => self.at(arrival, Event::SqesIn { qid, announced, first, bytes }),
            Want::List { command } if there => self.at(arrival, Event::ListIn { command, bytes }),
            Want::Structure { command, left } if there => {
                let c = self.command(command);
                c.truth.data(span.first, span.last);
                c.data.extend_from_slice(&bytes);
                if left == 0 {
                    self.at(arrival, Event::StructureIn { command });
                }
            }
            Want::Data { command, offset, len } if there => {
                self.command(command).truth.data(span.first, span.last);
                self.keep_data(command, offset, &bytes);
                let through = self.data_path(arrival, len);
                self.at(through, Event::DataIn { command, offset, len });
            }
            Want::List { command } => self.fail(command, Status::DATA_TRANSFER_ERROR),
            Want::Structure { command, left } => {
                if left == 0 {
                    self.fail(command, Status::DATA_TRANSFER_ERROR);
                } else {
                    self.command(command).status = Status::DATA_TRANSFER_ERROR;
                }
            }
            Want::Data { command, offset, len } => {
                self.command(command).status = Status::DATA_TRANSFER_ERROR;
                self.at(arrival, Event::DataIn { command, offset, len });
            }
        }
        while self.reads_outstanding < MAX_READS {
            let Some((want, address, len)) = self.deferred.pop_front() else { break };
            self.read_host(want, address, len);
        }
    }

    /// Resolves the PRPs of a command for `len` bytes; [`Controller::transfer`] goes on when they are known.
    pub(crate) fn resolve(&mut self, id: u32, len: u32) {
        let c = self.command(id);
        c.len = len;
        if c.sqe.fuse_psdt() & 0xC0 != 0 {
            return self.fail(id, Status::SGL_NOT_SUPPORTED);
        }
        let (prp1, prp2) = (c.sqe.prp1(), c.sqe.prp2());
        let next = prp::start(prp1, prp2, len, &mut c.pieces);
        self.resolved(id, next);
    }

    pub(crate) fn list_in(&mut self, id: u32, bytes: &[u8]) {
        let c = self.command(id);
        let placed: u32 = c.pieces.iter().map(|p| p.1).sum();
        let rest = c.len - placed;
        let next = prp::go_on(bytes, rest, &mut c.pieces);
        self.resolved(id, next);
    }

    fn resolved(&mut self, id: u32, next: Result<Option<prp::ListRead>, Status>) {
        match next {
            Err(status) => self.fail(id, status),
            Ok(Some(list)) => self.read_host(Want::List { command: id }, list.address, 8 * list.entries),
            Ok(None) => self.transfer(id),
        }
    }

    /// Reads the command's whole data as a structure; the answer is `Event::StructureIn`.
    pub(crate) fn fetch_structure(&mut self, id: u32) {
        let pieces = self.command(id).pieces.clone();
        let mut left = pieces.len() as u32;
        for (address, len) in pieces {
            left -= 1;
            self.read_host(Want::Structure { command: id, left }, address, len);
        }
    }

    /// Writes a structure to where the command's PRPs say, and completes the command.
    pub(crate) fn return_structure(&mut self, id: u32, host: &mut dyn Host) {
        let c = self.command(id);
        let (pieces, data) = (c.pieces.clone(), std::mem::take(&mut c.data));
        let (mut done, mut end, mut there) = (0, self.now, true);
        let at = self.wake_link(self.now);
        for (address, len) in pieces {
            let bytes = &data[done..done + len as usize];
            let span = self.port.dma_write(at, address, Payload::Bytes(bytes));
            there &= host.write(address, bytes);
            self.command(id).truth.data(span.first, span.last);
            done += len as usize;
            end = span.end;
        }
        if !there {
            self.command(id).status = Status::DATA_TRANSFER_ERROR;
        }
        self.at(end + self.timing.completion, Event::Complete(id));
    }

    /// A page (or part) came out of flash: it crosses the data path in pieces.
    pub(crate) fn page_ready(&mut self, id: u32, offset: u32, len: u32) {
        let mut at = offset;
        while at < offset + len {
            let n = (4096 - at % 4096).min(offset + len - at);
            let through = self.data_path(self.now, n);
            self.at(through, Event::DataOut { command: id, offset: at, len: n });
            at += n;
        }
    }

    /// A piece of read data is through the data path: it goes to the host.
    pub(crate) fn data_out(&mut self, id: u32, offset: u32, len: u32, host: &mut dyn Host) {
        let at = self.wake_link(self.now);
        let c = self.commands[id as usize].as_mut().expect("an event names a command in hand");
        let mut end = at;
        let mut from = offset;
        let base = c.at;
        if c.sqe.opcode() == io::COMPARE {
            return self.fetch_comparand(id, len);
        }
        for (address, n) in prp::part(&c.pieces, offset, len) {
            let span = self.port.dma_write(at, address, Payload::LeftOut(n));
            c.truth.data(span.first, span.last);
            end = span.end;
            if let Some(store) = &self.store {
                let mut bytes = vec![0; n as usize];
                store.read(base + u64::from(from), &mut bytes);
                if !host.write(address, &bytes) {
                    c.status = Status::DATA_TRANSFER_ERROR;
                }
            }
            from += n;
        }
        c.done += len;
        if c.done == c.len {
            self.at(end + self.timing.completion, Event::Complete(id));
        }
    }

    /// Starts as many reads of write data as the DMA engine has room for.
    pub(crate) fn pump_dma(&mut self) {
        while self.dma_active < self.timing.dma_reads {
            let Some((command, offset, address, len)) = self.dma_queue.pop_front() else { return };
            self.dma_active += 1;
            self.read_host(Want::Data { command, offset, len }, address, len);
        }
    }

    fn keep_data(&mut self, id: u32, offset: u32, bytes: &[u8]) {
        let c = self.command(id);
        let (at, compare) = (c.at + u64::from(offset), c.sqe.opcode() == io::COMPARE);
        let Some(store) = &mut self.store else { return };
        if !compare {
            return store.write(at, bytes);
        }
        let mut kept = vec![0; bytes.len()];
        store.read(at, &mut kept);
        if kept != bytes {
            self.command(id).status = Status::COMPARE_FAILURE;
        }
    }

    /// The command ends with `status`, now.
    pub(crate) fn fail(&mut self, id: u32, status: Status) {
        self.command(id).status = status;
        self.finish_at(id, self.now);
    }

    /// The command's work ends at `at`: the completion follows.
    pub(crate) fn finish_at(&mut self, id: u32, at: Ps) {
        self.at(at.max(self.now) + self.timing.completion, Event::Complete(id));
    }
}
