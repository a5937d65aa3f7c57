//! NVM command set (NVM Express 1.4, section 6).

use crate::controller::{Controller, Event};
use crate::flash::UNIT;
use crate::host::BusSink;
use crate::nvme::{io, Status};
use crate::profile::LBA;

/// Force unit access, CDW12.
const FUA: u32 = 1 << 30;
/// Attribute of Dataset Management: deallocate, CDW11.
const DEALLOCATE: u32 = 1 << 2;

/// Units that blocks `slba .. slba + blocks` touch: first, count.
fn units(slba: u64, blocks: u64) -> (u64, u64) {
    let first = slba * LBA / UNIT;
    (first, ((slba + blocks) * LBA).div_ceil(UNIT) - first)
}

impl<S: BusSink> Controller<S> {
    pub(crate) fn execute_io(&mut self, id: u32) {
        let c = self.command(id);
        let (sqe, opcode) = (c.sqe, c.sqe.opcode());
        let known = matches!(opcode, io::FLUSH | io::WRITE | io::READ | io::WRITE_ZEROES | io::DATASET_MANAGEMENT);
        if !known {
            return self.fail(id, Status::INVALID_OPCODE);
        }
        match opcode {
            io::FLUSH => c.truth.blocks = 0,
            io::DATASET_MANAGEMENT => (c.truth.slba, c.truth.blocks) = (0, 0),
            _ => (c.truth.slba, c.truth.blocks) = (sqe.slba(), u64::from(sqe.cdw(12) & 0xFFFF) + 1),
        }
        let broadcast = opcode == io::FLUSH && sqe.nsid() == u32::MAX;
        if sqe.nsid() != 1 && !broadcast {
            return self.fail(id, Status::INVALID_NAMESPACE);
        }
        match opcode {
            io::FLUSH => {
                self.flush_buffer();
                let done = self.flash.programmed_ps();
                self.finish_at(id, done);
            }
            io::DATASET_MANAGEMENT => {
                let ranges = (sqe.cdw(10) & 0xFF) + 1;
                self.resolve(id, 16 * ranges);
            }
            _ => self.execute_blocks(id),
        }
    }

    fn execute_blocks(&mut self, id: u32) {
        let c = self.command(id);
        let (opcode, slba, blocks) = (c.sqe.opcode(), c.truth.slba, c.truth.blocks);
        let lbas = *self.profile.namespace.lbas_512;
        if slba.checked_add(blocks).is_none_or(|end| end > lbas) {
            return self.fail(id, Status::LBA_OUT_OF_RANGE);
        }
        if opcode == io::WRITE_ZEROES {
            self.health.writes += 1;
            self.discard(slba, blocks);
            return self.finish_at(id, self.now);
        }
        if blocks * LBA > 4096 << *self.profile.limits.mdts {
            return self.fail(id, Status::INVALID_FIELD);
        }
        if opcode == io::READ {
            self.health.reads += 1;
            self.health.read_blocks += blocks;
        } else {
            self.health.writes += 1;
            self.health.written_blocks += blocks;
        }
        self.resolve(id, (blocks * LBA) as u32);
    }

    /// The command's PRPs are known.
    pub(crate) fn transfer_io(&mut self, id: u32) {
        match self.command(id).sqe.opcode() {
            io::DATASET_MANAGEMENT => self.fetch_structure(id),
            io::READ => self.read_flash(id),
            _ => {
                self.waiting_writes.push_back(id);
                self.admit_writes();
            }
        }
    }

    fn read_flash(&mut self, id: u32) {
        let c = self.command(id);
        let (slba, len) = (c.truth.slba, u64::from(c.len));
        let (first, count) = units(slba, len / LBA);
        let mut runs = Vec::with_capacity(16);
        let slow = self.states.slowdown();
        self.flash.read(self.now, first, count, slow, &mut self.meter, &mut runs);
        let (from, to) = (slba * LBA, slba * LBA + len);
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
            let (_, count) = units(c.truth.slba, c.truth.blocks);
            if !self.flash.has_room(count) {
                self.flush_buffer(); // what fills the buffer may be a page that waits for more
                return;
            }
            self.waiting_writes.pop_front();
            self.flash.claim(count);
            let c = self.command(id);
            c.buffered = count;
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
    }

    /// A piece of write data is in the buffer.
    pub(crate) fn data_in(&mut self, id: u32, _offset: u32, len: u32) {
        self.dma_active -= 1;
        self.pump_dma();
        let c = self.command(id);
        c.done += len;
        if c.done < c.len {
            return;
        }
        let (slba, blocks, fua) = (c.truth.slba, c.truth.blocks, c.sqe.cdw(12) & FUA != 0);
        let (first, count) = units(slba, blocks);
        c.buffered = 0; // the buffer's units now belong to the program operations
        let slow = self.states.slowdown();
        for unit in first..first + count {
            if let Some(program) = self.flash.write(self.now, unit, slow, &mut self.meter) {
                self.at(program.end, Event::Programmed(program.units));
            }
        }
        if fua || !self.features.write_cache() {
            self.flush_buffer();
            let done = self.flash.programmed_ps();
            return self.finish_at(id, done);
        }
        self.finish_at(id, self.now);
    }

    /// The ranges of a Dataset Management command have arrived.
    pub(crate) fn deallocate(&mut self, id: u32) {
        let lbas = *self.profile.namespace.lbas_512;
        let c = self.command(id);
        let wanted = c.sqe.cdw(11) & DEALLOCATE != 0;
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
        if ranges.iter().any(|&(slba, blocks)| slba.checked_add(blocks).is_none_or(|end| end > lbas)) {
            return self.fail(id, Status::LBA_OUT_OF_RANGE);
        }
        if wanted {
            for (slba, blocks) in ranges {
                self.discard(slba, blocks);
            }
        }
        self.finish_at(id, self.now);
    }

    /// Blocks hold nothing any more. Only whole units leave the map; blocks at the edges are zeroed in the store.
    fn discard(&mut self, slba: u64, blocks: u64) {
        if let Some(store) = &mut self.store {
            store.discard(slba, blocks);
        }
        let (first, end) = ((slba * LBA).div_ceil(UNIT), (slba + blocks) * LBA / UNIT);
        if end > first {
            self.flash.deallocate(first, end - first);
        }
    }
}
