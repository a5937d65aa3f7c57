//! Data between host and flash on the lean path: what `io` and `transfer` do once a command's PRPs are known.

use super::drive::Drive;
use super::steps::{kind, Later, Piece, Soon, Want};
use super::stream::{self, NEVER};
use crate::host::{see_data, BusSink};
use crate::io::media::units;
use crate::nvme::io;
use crate::nvme::prp::PAGE;
use crate::profile::{Ps, LBA, UNIT};
use wattbell_bus::Direction::Up;

impl<S: BusSink> Drive<'_, S> {
    pub(super) fn transfer(&mut self, id: u32) {
        let truth = self.commands[id as usize].truth;
        if truth.opcode != io::READ {
            self.waiting_writes.push_back(id);
            return self.admit_writes();
        }
        let (from, to) = (self.base + truth.slba * LBA, self.base + (truth.slba + truth.blocks) * LBA);
        let (first, count) = units(from, to);
        let mut runs = std::mem::take(&mut self.runs);
        let (slow, meter) = self.c.power.load();
        let before = meter.account.own_fj();
        self.c.media.flash.read(self.c.now, first, count, slow, meter, &mut runs);
        self.commands[id as usize].truth.own_fj += (meter.account.own_fj() - before) as u64;
        self.reach_lent();
        for (ready, unit, n) in runs.drain(..) {
            let len = (((unit + n) * UNIT).min(to) - (unit * UNIT).max(from)) as u32;
            self.later.push(ready, Later::Page { id, len });
        }
        self.runs = runs;
    }

    /// Reads and writes lent memory as the flash made it necessary, now and later.
    #[inline]
    fn reach_lent(&mut self) {
        while let Some((at, access)) = self.c.media.flash.next_access() {
            if at > self.c.now {
                self.later.push(at, Later::Lent(access));
            } else {
                let answer = self.c.reach_lent(access, None);
                self.expect_lent(answer);
            }
        }
    }

    /// A read of lent memory will be answered, or the link has woken for a write.
    pub(super) fn expect_lent(&mut self, answer: Option<Ps>) {
        if let Some(at) = answer {
            self.later.push(at, Later::LentAnswer);
        }
        self.look_again();
    }

    pub(super) fn page_ready(&mut self, id: u32, len: u32) {
        let (mut left, before) = (len, self.c.power.meter.account.own_fj());
        while left > 0 {
            let n = left.min(UNIT as u32);
            let through = self.c.data_path.carry(self.c.now, n, false, &mut self.c.power);
            self.path.push(through, Piece { id, len: n, inward: false });
            left -= n;
        }
        let own = self.c.power.meter.account.own_fj() - before;
        self.commands[id as usize].truth.own_fj += own as u64;
    }

    pub(super) fn through(&mut self, piece: Piece) {
        if piece.inward {
            return self.data_in(piece.id, piece.len);
        }
        let (whole, rest) = (piece.len / self.times.max_payload, piece.len % self.times.max_payload);
        let tail = if rest > 0 { self.c.pcie.port.tlp_ps(16 + rest as usize) } else { 0 };
        let time = self.times.payload_write * u64::from(whole) + tail;
        let first = self.lane(self.c.now, Up, time);
        let c = &mut self.commands[piece.id as usize];
        see_data(&mut c.truth, first, first + time - if rest > 0 { tail } else { self.times.payload_write });
        c.done += piece.len;
        if c.done == c.len {
            let done = first + time + self.c.processor.completion;
            self.soon.push(done, kind::COMPLETE_READ, Soon::Complete(piece.id));
        }
    }

    pub(super) fn admit_writes(&mut self) {
        while let Some(&id) = self.waiting_writes.front() {
            let (truth, len) = (self.commands[id as usize].truth, self.commands[id as usize].len);
            let from = self.base + truth.slba * LBA;
            let (_, count) = units(from, from + u64::from(len));
            if !self.c.media.flash.has_room(count) {
                if self.c.media.flash.is_stuck() {
                    self.flush();
                }
                return;
            }
            self.waiting_writes.pop_front();
            self.c.media.flash.claim(count);
            let pieces = (0..len).step_by(PAGE as usize).map(|at| (id, (len - at).min(PAGE as u32)));
            self.reads.want_data(pieces);
            self.pump_data();
        }
    }

    fn pump_data(&mut self) {
        while let Some((id, len)) = self.reads.next_data() {
            self.read_host(Want::Data { id, len }, len);
        }
    }

    fn data_in(&mut self, id: u32, len: u32) {
        self.reads.data_in();
        self.pump_data();
        let c = &mut self.commands[id as usize];
        c.done += len;
        if c.done < c.len {
            return;
        }
        let from = self.base + c.truth.slba * LBA;
        let (first, count) = units(from, from + u64::from(c.len));
        let (slow, meter) = self.c.power.load();
        let mut programmed = self.c.now;
        let before = meter.account.own_fj();
        for unit in first..first + count {
            if let Some(program) = self.c.media.flash.write(self.c.now, unit, slow, meter) {
                self.later.push(program.end, Later::Programmed(program.units));
                programmed = programmed.max(program.end);
            }
        }
        self.commands[id as usize].truth.own_fj += (meter.account.own_fj() - before) as u64;
        self.reach_lent();
        if self.write_through {
            let rest = self.flush();
            let done = rest.map_or(programmed, |end| end.max(programmed));
            self.later.push(done + self.c.processor.completion, Later::Complete(id));
        } else {
            let at = self.c.processor.write_done_ps(self.c.now) + self.c.processor.completion;
            self.soon.push(at, kind::COMPLETE_WRITE, Soon::Complete(id));
        }
        self.own = self.own.min(stream::key(self.c.media.flash.next_flush_ps().unwrap_or(NEVER), kind::OWN));
    }

    /// Programs what waits in the write buffer; when that is done.
    pub(super) fn flush(&mut self) -> Option<Ps> {
        let program = self.c.program_rest();
        if let Some(program) = program {
            self.later.push(program.end, Later::Programmed(program.units));
        }
        self.look_again();
        program.map(|p| p.end)
    }
}
