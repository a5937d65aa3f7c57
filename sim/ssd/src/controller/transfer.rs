//! Moving data between the host and the drive: reads of host memory, PRP lists, structures, user data.

use super::agenda::Event;
use super::want::Want;
use super::{Controller, Read};
use crate::host::{see_data, BusSink, Host};
use crate::nvme::{io, prp, sgl, Status};
use crate::pcie::port::{Payload, Request, Span};
use crate::profile::Ps;

impl<S: BusSink> Controller<S> {
    /// Asks for host memory, now or when earlier reads are answered. The answer comes as an event.
    pub(super) fn read_host(&mut self, read: Read) {
        if let Some(read) = self.reads.begin(read) {
            self.request(read);
        }
    }

    fn request(&mut self, (want, address, len): Read) {
        if self.wire.is_some() {
            return self.ask(want, address, len);
        }
        let at = self.wake_link(self.now);
        let request = self.pcie.port.dma_read(at, address, len);
        let want = match want {
            Want::Sqes { qid, announced, .. } => Want::Sqes { qid, announced, first: request.first },
            other => other,
        };
        self.agenda.at(request.answer, Event::Answer(Box::new((want, request))));
    }

    /// The root complex has read memory and answers.
    pub(super) fn answered(&mut self, want: Want, request: &Request, host: &mut dyn Host) {
        self.reads.answered();
        let (address, len) = request.range();
        let mut bytes = Vec::new();
        let keep = !matches!(want, Want::Data { .. } | Want::Nothing);
        let mut there = true;
        if keep || self.media.keeps_data() {
            bytes.resize(len as usize, 0);
            there = host.read(address, &mut bytes);
        }
        let span = self.pcie.port.answer(self.now, request, keep.then_some(&bytes[..]));
        self.arrived(want, bytes, there, span, span.end + self.pcie.port.flight);
    }

    /// The answer to a read is on the link and will be here at `arrival`. Not `there`: the host has no such memory.
    pub(super) fn arrived(&mut self, want: Want, mut bytes: Vec<u8>, there: bool, span: Span, arrival: Ps) {
        match want {
            Want::Nothing | Want::Lent { .. } => {}
            Want::Sqes { announced, .. } if !there => {
                self.commands.end(announced.len() as u32);
                self.registers.fail();
                self.settle();
            }
            Want::Sqes { qid, announced, first } => {
                self.agenda.at(arrival, Event::SqesIn { qid, announced, first, bytes });
            }
            Want::List { command, needed } if there => {
                bytes.truncate(needed as usize);
                self.agenda.at(arrival, Event::ListIn { command, bytes });
            }
            Want::List { command, .. } => self.fail(command, Status::DATA_TRANSFER_ERROR),
            Want::Structure { command, left } => {
                let c = &mut self.commands[command];
                if there {
                    if c.len > 0 {
                        see_data(&mut c.truth, span.first, span.last); // a descriptor list, which no PRP leads to, is no data
                    }
                    c.data.extend_from_slice(&bytes);
                } else {
                    c.status = Status::DATA_TRANSFER_ERROR;
                }
                if left == 0 && there {
                    self.agenda.at(arrival, Event::StructureIn { command });
                } else if left == 0 {
                    self.finish_at(command, self.now);
                }
            }
            Want::Data { command, offset, len } => {
                let mut through = arrival;
                if there {
                    see_data(&mut self.commands[command].truth, span.first, span.last);
                    self.keep_data(command, offset, &bytes);
                    let before = self.power.meter.account.own_fj();
                    through = self.data_path.carry(arrival, len, true, &mut self.power);
                    let own = self.power.meter.account.own_fj() - before;
                    self.commands[command].truth.own_fj += own as u64;
                } else {
                    self.commands[command].status = Status::DATA_TRANSFER_ERROR;
                }
                self.agenda.at(through, Event::DataIn { command, len });
            }
        }
        while let Some(read) = self.reads.next() {
            self.request(read);
        }
    }

    /// Resolves the PRPs or the SGL of a command for `len` bytes; [`Controller::transfer`] goes on when they are known.
    pub(super) fn resolve(&mut self, id: u32, len: u32) {
        let c = &mut self.commands[id];
        c.len = len;
        let offered = *self.profile.offer.sgls && c.qid != 0;
        let next = match c.sqe.fuse_psdt() >> 6 {
            0 => prp::start(c.sqe.prp1(), c.sqe.prp2(), len, &mut c.pieces),
            1 if offered => sgl::start(&c.sqe.0[24..40], len, &mut c.pieces),
            _ => Err(Status::SGL_NOT_SUPPORTED),
        };
        self.resolved(id, next);
    }

    pub(super) fn list_in(&mut self, id: u32, bytes: &[u8]) {
        let c = &mut self.commands[id];
        let placed: u32 = c.pieces.iter().map(|p| p.1).sum();
        let rest = c.len - placed;
        let next = match c.sqe.fuse_psdt() >> 6 {
            0 => prp::go_on(bytes, rest, &mut c.pieces),
            _ => sgl::go_on(bytes, rest, &mut c.pieces).map(|()| None),
        };
        self.resolved(id, next);
    }

    fn resolved(&mut self, id: u32, next: Result<Option<prp::ListRead>, Status>) {
        match next {
            Err(status) => self.fail(id, status),
            Ok(Some(list)) => {
                let needed = 8 * list.entries;
                let end = list.address + u64::from(needed);
                let whole = end.next_multiple_of(*self.profile.controller.list_read_bytes) - list.address;
                self.read_host((Want::List { command: id, needed }, list.address, whole as u32));
            }
            Ok(None) => self.transfer(id),
        }
    }

    /// Reads the command's whole data as a structure; the answer is `Event::StructureIn`.
    pub(super) fn fetch_structure(&mut self, id: u32) {
        let pieces = self.commands[id].pieces.clone();
        let mut left = pieces.len() as u32;
        for (address, len) in pieces {
            left -= 1;
            self.read_host((Want::Structure { command: id, left }, address, len));
        }
    }

    /// Writes a structure to where the command's PRPs say, and completes the command.
    pub(super) fn return_structure(&mut self, id: u32, host: &mut dyn Host) {
        let c = &mut self.commands[id];
        let (pieces, data) = (c.pieces.clone(), std::mem::take(&mut c.data));
        let (mut done, mut end, mut there) = (0, self.now, true);
        let at = self.wake_link(self.now);
        for (address, len) in pieces {
            let bytes = &data[done..done + len as usize];
            let span = self.pcie.port.dma_write(at, address, Payload::Bytes(bytes));
            there &= host.write(address, bytes);
            see_data(&mut self.commands[id].truth, span.first, span.last);
            done += len as usize;
            end = span.end;
        }
        if !there {
            self.commands[id].status = Status::DATA_TRANSFER_ERROR;
        }
        self.agenda.at(end + self.processor.completion, Event::Complete(id));
    }

    /// A page (or part) came out of flash: it crosses the data path in pieces.
    pub(super) fn page_ready(&mut self, id: u32, offset: u32, len: u32) {
        let (mut at, before) = (offset, self.power.meter.account.own_fj());
        while at < offset + len {
            let n = (4096 - at % 4096).min(offset + len - at);
            let through = self.data_path.carry(self.now, n, false, &mut self.power);
            self.agenda.at(through, Event::DataOut { command: id, offset: at, len: n });
            at += n;
        }
        self.commands[id].truth.own_fj += (self.power.meter.account.own_fj() - before) as u64;
    }

    /// A piece of read data is through the data path: it goes to the host.
    pub(super) fn data_out(&mut self, id: u32, offset: u32, len: u32, host: &mut dyn Host) {
        let at = self.wake_link(self.now);
        let c = &mut self.commands[id];
        if c.sqe.opcode() == io::COMPARE {
            return self.fetch_comparand(id, len);
        }
        let (mut end, mut from) = (at, c.at + u64::from(offset));
        for (address, n) in prp::part(&c.pieces, offset, len) {
            let kept = self.media.data(from, n);
            let payload = match &kept {
                Some(bytes) if self.wire.is_some() => Payload::Bytes(bytes),
                _ => Payload::LeftOut(n),
            };
            let span = self.pcie.port.dma_write(at, address, payload);
            see_data(&mut c.truth, span.first, span.last);
            end = span.end;
            if kept.is_some_and(|bytes| !host.write(address, &bytes)) {
                c.status = Status::DATA_TRANSFER_ERROR;
            }
            from += u64::from(n);
        }
        c.done += len;
        if c.done == c.len {
            self.agenda.at(end + self.processor.completion, Event::Complete(id));
        }
    }

    /// Starts as many reads of write data as the DMA engine has room for.
    pub(super) fn pump_data(&mut self) {
        while let Some((command, offset, address, len)) = self.reads.next_data() {
            self.read_host((Want::Data { command, offset, len }, address, len));
        }
    }

    /// Keeps data that came from the host, or compares it with the stored data.
    fn keep_data(&mut self, id: u32, offset: u32, bytes: &[u8]) {
        let c = &mut self.commands[id];
        let at = c.at + u64::from(offset);
        if c.sqe.opcode() != io::COMPARE {
            self.media.keep(at, bytes);
        } else if self.media.data(at, bytes.len() as u32).is_some_and(|kept| kept != bytes) {
            c.status = Status::COMPARE_FAILURE;
        }
    }

    /// The command's PRPs are known: the data goes where it belongs. Bit 0 of an admin opcode says that it comes from the
    /// host.
    fn transfer(&mut self, id: u32) {
        let c = &self.commands[id];
        match (c.qid, c.sqe.opcode() & 1) {
            (0, 1) => self.fetch_structure(id),
            (0, _) => self.agenda.at(self.now, Event::ReturnStructure(id)),
            _ => self.transfer_io(id),
        }
    }
}
