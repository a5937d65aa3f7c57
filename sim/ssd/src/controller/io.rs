//! NVM command set (NVM Express 1.4, section 6).

use crate::controller::{Controller, Event};
use crate::flash::UNIT;
use crate::host::BusSink;
use crate::nvme::{io, Status};
use crate::profile::{Ps, LBA};

/// Force unit access, CDW12.
const FUA: u32 = 1 << 30;
/// Attribute of Dataset Management: deallocate, CDW11.
const DEALLOCATE: u32 = 1 << 2;

/// Units that `len` bytes from byte `at` of the media touch: first, count.
fn units(at: u64, len: u64) -> (u64, u64) {
    let first = at / UNIT;
    (first, (at + len).div_ceil(UNIT) - first)
}

impl<S: BusSink> Controller<S> {
    fn offers(&self, opcode: u8) -> bool {
        match opcode {
            io::FLUSH | io::WRITE | io::READ | io::WRITE_ZEROES | io::DSM => true,
            io::COMPARE => self.store.is_some(), // without data there is nothing to compare with
            io::WRITE_UNCORRECTABLE => *self.profile.offer.write_uncorrectable,
            _ => false,
        }
    }

    pub(crate) fn execute_io(&mut self, id: u32) {
        let c = self.command(id);
        let (sqe, opcode) = (c.sqe, c.sqe.opcode());
        if !self.offers(opcode) {
            return self.fail(id, Status::INVALID_OPCODE);
        }
        let c = self.command(id);
        match opcode {
            io::FLUSH => c.truth.blocks = 0,
            io::DSM => (c.truth.slba, c.truth.blocks) = (0, 0),
            _ => (c.truth.slba, c.truth.blocks) = (sqe.slba(), u64::from(sqe.cdw(12) & 0xFFFF) + 1),
        }
        if self.maintenance.sanitizing() && opcode != io::FLUSH {
            return self.fail(id, Status::SANITIZE_IN_PROGRESS);
        }
        if opcode == io::FLUSH && sqe.nsid() == u32::MAX {
            return self.flush(id);
        }
        let (base, shift, blocks) = match self.namespaces.named(sqe.nsid()) {
            Ok(n) => (n.base, n.shift, n.blocks),
            Err(status) => return self.fail(id, status),
        };
        if self.maintenance.formatting(sqe.nsid()) {
            return self.fail(id, Status::FORMAT_IN_PROGRESS);
        }
        let c = self.command(id);
        (c.at, c.shift) = (base, shift);
        match opcode {
            io::FLUSH => self.flush(id),
            io::DSM => {
                let ranges = (sqe.cdw(10) & 0xFF) + 1;
                self.resolve(id, 16 * ranges);
            }
            _ => self.execute_blocks(id, blocks),
        }
    }

    /// Flush: what completed before is on the flash when this completes. There is one write cache, so this is for all
    /// namespaces at once; without a write cache there is nothing to do.
    fn flush(&mut self, id: u32) {
        if !self.features.write_cache() {
            return self.finish_at(id, self.now);
        }
        self.flush_buffer();
        let done = self.flash.programmed_ps();
        self.finish_at(id, done);
    }

    /// A command on blocks of a namespace that has `most` of them.
    fn execute_blocks(&mut self, id: u32, most: u64) {
        let c = self.command(id);
        let (opcode, slba, blocks) = (c.sqe.opcode(), c.truth.slba, c.truth.blocks);
        if slba.checked_add(blocks).is_none_or(|end| end > most) {
            return self.fail(id, Status::LBA_OUT_OF_RANGE);
        }
        c.at += slba << c.shift;
        let (at, len) = (c.at, blocks << c.shift);
        match opcode {
            io::WRITE_ZEROES => {
                self.maintenance.data_written();
                self.discard(at, at + len);
                return self.finish_at(id, self.now);
            }
            io::WRITE_UNCORRECTABLE => {
                self.uncorrectable.mark(at, at + len);
                return self.finish_at(id, self.now);
            }
            _ if len > 4096 << *self.profile.limits.mdts => return self.fail(id, Status::INVALID_FIELD),
            io::WRITE => {
                self.health.writes += 1;
                self.health.written_units += len / LBA;
                self.maintenance.data_written();
            }
            _ if self.uncorrectable.any(at, at + len) => {
                self.health.media_errors += 1;
                return self.fail(id, Status::UNRECOVERED_READ);
            }
            _ => {
                self.health.reads += 1;
                self.health.read_units += len / LBA;
            }
        }
        self.resolve(id, len as u32);
    }

    /// The command's PRPs are known.
    pub(crate) fn transfer_io(&mut self, id: u32) {
        match self.command(id).sqe.opcode() {
            io::DSM => self.fetch_structure(id),
            io::READ | io::COMPARE => self.read_flash(id),
            _ => {
                self.waiting_writes.push_back(id);
                self.admit_writes();
            }
        }
    }

    fn read_flash(&mut self, id: u32) {
        let c = self.command(id);
        let (from, to) = (c.at, c.at + u64::from(c.len));
        let (first, count) = units(from, to - from);
        let mut runs = Vec::with_capacity(16);
        let slow = self.states.slowdown();
        self.flash.read(self.now, first, count, slow, &mut self.meter, &mut runs);
        for (ready, unit, n) in runs {
            let start = (unit * UNIT).max(from);
            let end = ((unit + n) * UNIT).min(to);
            let (offset, len) = ((start - from) as u32, (end - start) as u32);
            self.at(ready, Event::PageReady { command: id, offset, len });
        }
    }

    /// Lets writes fetch their data as long as the write buffer has room.
    pub(crate) fn admit_writes(&mut self) {
        while let Some(&id) = self.waiting_writes.front() {
            let c = self.command(id);
            let (_, count) = units(c.at, u64::from(c.len));
            if !self.flash.has_room(count) {
                if self.flash.is_stuck() {
                    self.flush_buffer();
                }
                return;
            }
            self.waiting_writes.pop_front();
            self.flash.claim(count);
            self.command(id).buffered = count;
            self.fetch_data(id);
        }
    }

    /// `len` more bytes of a Compare command are read from flash; when that is all, the host's data follows.
    pub(crate) fn fetch_comparand(&mut self, id: u32, len: u32) {
        let c = self.command(id);
        c.done += len;
        if c.done == c.len {
            c.done = 0;
            self.fetch_data(id);
        }
    }

    /// Queues the command's data for reading from the host.
    fn fetch_data(&mut self, id: u32) {
        let c = self.command(id);
        let mut offset = 0;
        let jobs: Vec<_> = c
            .pieces
            .iter()
            .map(|&(address, len)| {
                offset += len;
                (id, offset - len, address, len)
            })
            .collect();
        self.dma_queue.extend(jobs);
        self.pump_dma();
    }

    /// A piece of data from the host is in the buffer.
    pub(crate) fn data_in(&mut self, id: u32, _offset: u32, len: u32) {
        self.dma_active -= 1;
        self.pump_dma();
        let c = self.command(id);
        c.done += len;
        if c.done < c.len {
            return;
        }
        if c.sqe.opcode() == io::COMPARE {
            return self.finish_at(id, self.now);
        }
        let (at, len, fua) = (c.at, u64::from(c.len), c.sqe.cdw(12) & FUA != 0);
        let (first, count) = units(at, len);
        c.buffered = 0; // the buffer's units now belong to the program operations
        self.uncorrectable.clear(at, at + len);
        let slow = self.states.slowdown();
        let mut programmed = self.now;
        for unit in first..first + count {
            if let Some(program) = self.flash.write(self.now, unit, slow, &mut self.meter) {
                self.at(program.end, Event::Programmed(program.units));
                programmed = programmed.max(program.end);
            }
        }
        if fua || !self.features.write_cache() {
            let rest = self.flush_buffer();
            return self.finish_at(id, rest.map_or(programmed, |end| end.max(programmed)));
        }
        let at = self.write_done_ps();
        self.finish_at(id, at);
    }

    /// When a write whose data is in the buffer is done with.
    pub(crate) fn write_done_ps(&mut self) -> Ps {
        self.now + (self.timing.write as f64 * self.write_variation.factor()) as Ps
    }

    /// The ranges of a Dataset Management command have arrived.
    pub(crate) fn deallocate(&mut self, id: u32) {
        let c = self.command(id);
        let (nsid, wanted) = (c.sqe.nsid(), c.sqe.cdw(11) & DEALLOCATE != 0);
        let data = std::mem::take(&mut c.data);
        let ranges: Vec<(u64, u64)> = data
            .chunks_exact(16)
            .map(|r| {
                let blocks = u32::from_le_bytes([r[4], r[5], r[6], r[7]]);
                let mut slba = [0; 8];
                slba.copy_from_slice(&r[8..16]);
                (u64::from_le_bytes(slba), u64::from(blocks))
            })
            .collect();
        c.truth.slba = ranges.first().map_or(0, |r| r.0);
        c.truth.blocks = ranges.iter().map(|r| r.1).sum();
        let (base, shift, most) = match self.namespaces.named(nsid) {
            Ok(n) => (n.base, n.shift, n.blocks),
            Err(status) => return self.fail(id, status), // it went away meanwhile
        };
        if ranges.iter().any(|&(slba, blocks)| slba.checked_add(blocks).is_none_or(|end| end > most)) {
            return self.fail(id, Status::LBA_OUT_OF_RANGE);
        }
        if wanted {
            for (slba, blocks) in ranges {
                self.discard(base + (slba << shift), base + ((slba + blocks) << shift));
            }
        }
        self.finish_at(id, self.now);
    }

    /// Bytes `from .. to` of the media (whole blocks) hold nothing any more. Only whole units leave the map; blocks at
    /// the edges are zeroed in the store.
    pub(crate) fn discard(&mut self, from: u64, to: u64) {
        self.uncorrectable.clear(from, to);
        if let Some(store) = &mut self.store {
            store.discard(from / LBA, (to - from) / LBA);
        }
        let (first, end) = (from.div_ceil(UNIT), to / UNIT);
        if end > first {
            self.flash.deallocate(first, end - first);
        }
    }
}
