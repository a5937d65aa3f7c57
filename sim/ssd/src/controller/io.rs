//! NVM command set (NVM Express, NVM Command Set).

use super::agenda::Event;
use super::Controller;
use crate::host::BusSink;
use crate::io::media::units;
use crate::nvme::commands::{Next, Outcome};
use crate::nvme::{io, number, Sqe, Status};
use crate::profile::{LBA, UNIT};

/// Force unit access, CDW12.
const FUA: u32 = 1 << 30;
/// Attribute of Dataset Management: deallocate, CDW11.
const DEALLOCATE: u32 = 1 << 2;

/// Whether Dataset Management has its attribute to deallocate.
pub(super) fn deallocates(sqe: &Sqe) -> bool {
    sqe.cdw(11) & DEALLOCATE != 0
}

impl<S: BusSink> Controller<S> {
    fn offers(&self, opcode: u8) -> bool {
        match opcode {
            io::FLUSH | io::WRITE | io::READ | io::WRITE_ZEROES | io::DSM => true,
            io::COMPARE => self.media.keeps_data(), // without data there is nothing to compare with
            io::WRITE_UNCORRECTABLE => *self.profile.offer.write_uncorrectable,
            _ => false,
        }
    }

    pub(super) fn execute_io(&mut self, id: u32) -> Outcome {
        let sqe = self.commands[id].sqe;
        let opcode = sqe.opcode();
        if !self.offers(opcode) {
            return Err(Status::INVALID_OPCODE);
        }
        let c = &mut self.commands[id];
        match opcode {
            io::FLUSH => c.truth.blocks = 0,
            io::DSM => (c.truth.slba, c.truth.blocks) = (0, 0),
            _ => (c.truth.slba, c.truth.blocks) = (sqe.slba(), u64::from(sqe.cdw(12) & 0xFFFF) + 1),
        }
        if self.admin.maintenance.sanitizing() && opcode != io::FLUSH {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        if opcode == io::FLUSH && sqe.nsid() == u32::MAX {
            return Ok(self.flush());
        }
        let namespace = self.admin.namespaces.named(sqe.nsid())?;
        (c.at, c.shift) = (namespace.base, namespace.shift);
        let blocks = namespace.blocks;
        if self.admin.maintenance.formatting(sqe.nsid()) {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        match opcode {
            io::FLUSH => Ok(self.flush()),
            io::DSM => Ok(Next::Transfer(16 * ((sqe.cdw(10) & 0xFF) + 1))),
            _ => self.execute_blocks(id, blocks),
        }
    }

    /// Flush: what completed before is on the flash when this completes. There is one write cache, so this is for all
    /// namespaces at once; without a write cache there is nothing to do.
    fn flush(&mut self) -> Next {
        if !self.admin.features.write_cache() {
            return Next::Done(0);
        }
        self.flush_buffer();
        Next::DoneAt(self.media.flash.programmed_ps())
    }

    /// Executes a command on blocks of a namespace of `most` blocks.
    fn execute_blocks(&mut self, id: u32, most: u64) -> Outcome {
        let c = &mut self.commands[id];
        let (opcode, slba, blocks) = (c.sqe.opcode(), c.truth.slba, c.truth.blocks);
        if slba.checked_add(blocks).is_none_or(|end| end > most) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        c.at += slba << c.shift;
        let (at, len) = (c.at, blocks << c.shift);
        match opcode {
            io::WRITE_ZEROES => {
                self.admin.maintenance.data_written();
                self.media.discard(at, at + len);
                return Ok(Next::Done(0));
            }
            io::WRITE_UNCORRECTABLE => {
                self.media.spoil(at, at + len);
                return Ok(Next::Done(0));
            }
            _ if len > 4096 << *self.profile.limits.mdts => return Err(Status::INVALID_FIELD),
            io::WRITE => {
                self.admin.health.write(len / LBA);
                self.admin.maintenance.data_written();
            }
            _ if !self.media.readable(at, at + len) => {
                self.admin.health.media_error();
                return Err(Status::UNRECOVERED_READ);
            }
            _ => self.admin.health.read(len / LBA),
        }
        Ok(Next::Transfer(len as u32))
    }

    /// The command's PRPs are known.
    pub(super) fn transfer_io(&mut self, id: u32) {
        match self.commands[id].sqe.opcode() {
            io::DSM => self.fetch_structure(id),
            io::READ | io::COMPARE => self.read_flash(id),
            _ => {
                self.waiting_writes.push_back(id);
                self.admit_writes();
            }
        }
    }

    fn read_flash(&mut self, id: u32) {
        let c = &self.commands[id];
        let (from, to) = (c.at, c.at + u64::from(c.len));
        let (first, count) = units(from, to);
        let mut runs = Vec::with_capacity(16);
        let (slow, meter) = self.power.load();
        let before = meter.account.own_fj();
        self.media.flash.read(self.now, first, count, slow, meter, &mut runs);
        self.commands[id].truth.own_fj += (meter.account.own_fj() - before) as u64;
        self.plan_lent();
        for (ready, unit, n) in runs {
            let start = (unit * UNIT).max(from);
            let end = ((unit + n) * UNIT).min(to);
            let (offset, len) = ((start - from) as u32, (end - start) as u32);
            self.agenda.at(ready, Event::PageReady { command: id, offset, len });
        }
    }

    /// Lets writes fetch their data as long as the write buffer has room.
    pub(super) fn admit_writes(&mut self) {
        while let Some(&id) = self.waiting_writes.front() {
            let c = &mut self.commands[id];
            let (_, count) = units(c.at, c.at + u64::from(c.len));
            if !self.media.flash.has_room(count) {
                if self.media.flash.is_stuck() {
                    self.flush_buffer();
                }
                return;
            }
            self.waiting_writes.pop_front();
            self.media.flash.claim(count);
            c.buffered = count;
            self.fetch_data(id);
        }
    }

    /// `len` more bytes of a Compare command are read from flash; when that is all, the host's data follows.
    pub(super) fn fetch_comparand(&mut self, id: u32, len: u32) {
        let c = &mut self.commands[id];
        c.done += len;
        if c.done == c.len {
            c.done = 0;
            self.fetch_data(id);
        }
    }

    /// Queues the command's data for reading from the host.
    fn fetch_data(&mut self, id: u32) {
        let mut offset = 0;
        self.reads.want_data(self.commands[id].pieces.iter().map(|&(address, len)| {
            offset += len;
            (id, offset - len, address, len)
        }));
        self.pump_data();
    }

    /// A piece of data from the host is in the buffer.
    pub(super) fn data_in(&mut self, id: u32, len: u32) {
        self.reads.data_in();
        self.pump_data();
        let c = &mut self.commands[id];
        c.done += len;
        if c.done < c.len {
            return;
        }
        if c.sqe.opcode() == io::COMPARE {
            return self.finish_at(id, self.now);
        }
        let (from, to, fua) = (c.at, c.at + u64::from(c.len), c.sqe.cdw(12) & FUA != 0);
        let (first, count) = units(from, to);
        c.buffered = 0; // the buffer's units now belong to the program operations
        self.media.written(from, to);
        let (slow, meter) = self.power.load();
        let mut programmed = self.now;
        let before = meter.account.own_fj();
        for unit in first..first + count {
            if let Some(program) = self.media.flash.write(self.now, unit, slow, meter) {
                self.agenda.at(program.end, Event::Programmed(program.units));
                programmed = programmed.max(program.end);
            }
        }
        self.commands[id].truth.own_fj += (meter.account.own_fj() - before) as u64;
        self.plan_lent();
        let done = if fua || !self.admin.features.write_cache() {
            self.flush_buffer().map_or(programmed, |end| end.max(programmed))
        } else {
            self.processor.write_done_ps(self.now)
        };
        self.finish_at(id, done);
    }

    /// The ranges of a Dataset Management command have arrived.
    pub(super) fn deallocate(&mut self, id: u32, data: &[u8]) -> Outcome {
        let ranges: Vec<_> = data.chunks_exact(16).map(|r| (number(&r[8..16]), number(&r[4..8]))).collect();
        let c = &mut self.commands[id];
        c.truth.slba = ranges.first().map_or(0, |r| r.0);
        c.truth.blocks = ranges.iter().map(|r| r.1).sum();
        let namespace = self.admin.namespaces.named(c.sqe.nsid())?; // it may have gone away meanwhile
        if ranges.iter().any(|&(slba, blocks)| slba.checked_add(blocks).is_none_or(|end| end > namespace.blocks)) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if c.sqe.cdw(11) & DEALLOCATE != 0 {
            let byte = |block: u64| namespace.base + (block << namespace.shift);
            for (slba, blocks) in ranges {
                self.media.discard(byte(slba), byte(slba + blocks));
            }
        }
        Ok(Next::Done(0))
    }
}
