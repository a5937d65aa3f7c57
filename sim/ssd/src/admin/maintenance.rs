//! Format NVM and Sanitize (NVM Express 1.4, sections 5.23, 5.24 and 8.15): work that takes seconds, and what is refused
//! while it runs. Both go on through a controller reset.

use crate::admin::async_events::AsyncEvent;
use crate::admin::selftest::Outcome;
use crate::controller::{Controller, Event};
use crate::host::BusSink;
use crate::nvme::{admin, log_page, Sqe, Status};
use crate::profile::Way;
use crate::profile::{Ps, MS, S as SECOND};

/// A Format NVM command at work.
struct Format {
    namespaces: Vec<u32>,
    format: u8,
    start: Ps,
    end: Ps,
    /// The command to complete; none after a reset.
    command: Option<u32>,
}

/// A sanitize operation at work.
struct Sanitize {
    start: Ps,
    end: Ps,
    passes: u32,
}

/// What runs, and how the last sanitize operation ended.
#[derive(Default)]
pub struct Maintenance {
    format: Option<Format>,
    sanitize: Option<Sanitize>,
    /// CDW10 of the last Sanitize command that started one, and the overwrite passes it made.
    last: Option<(u32, u32)>,
    /// Whether data was written since the drive was made, or sanitized.
    written: bool,
}

impl Maintenance {
    /// Whether this namespace is being formatted.
    pub fn formatting(&self, nsid: u32) -> bool {
        self.format.as_ref().is_some_and(|f| f.namespaces.contains(&nsid))
    }

    /// Whether the drive is being sanitized.
    pub fn sanitizing(&self) -> bool {
        self.sanitize.is_some()
    }

    /// Whether anything keeps the drive from being idle.
    pub fn busy(&self) -> bool {
        self.format.is_some() || self.sanitize.is_some()
    }

    /// Percentage of this namespace that remains to be formatted.
    pub fn percent_left(&self, nsid: u32, now: Ps) -> u8 {
        match &self.format {
            Some(f) if f.namespaces.contains(&nsid) => {
                ((f.end.saturating_sub(now)) * 100).div_ceil((f.end - f.start).max(1)) as u8
            }
            _ => 0,
        }
    }

    /// The host wrote data.
    pub fn data_written(&mut self) {
        self.written = true;
    }

    /// A controller reset: the commands are gone, their work is not.
    pub fn reset(&mut self) {
        if let Some(format) = &mut self.format {
            format.command = None;
        }
    }
}

impl<S: BusSink> Controller<S> {
    /// Format NVM.
    pub(crate) fn format(&mut self, id: u32, sqe: &Sqe) {
        match self.format_check(sqe) {
            Ok((namespaces, time)) => {
                self.self_test.stop(self.now, Outcome::Formatted);
                self.flush_buffer();
                let start = self.now;
                let end = (start + time).max(self.flash.programmed_ps());
                let format = (sqe.cdw(10) & 0xF) as u8;
                self.maintenance.format = Some(Format { namespaces, format, start, end, command: Some(id) });
                self.at(end, Event::Formatted);
            }
            Err(status) => self.fail(id, status),
        }
    }

    /// Which namespaces a Format NVM command is for, and how long it takes.
    fn format_check(&mut self, sqe: &Sqe) -> Result<(Vec<u32>, Ps), Status> {
        let (cdw10, offer) = (sqe.cdw(10), &self.profile.offer);
        if self.maintenance.format.is_some() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let namespaces: Vec<u32> = if sqe.nsid() == u32::MAX {
            self.namespaces.list(0, true).collect()
        } else {
            self.namespaces.named(sqe.nsid())?;
            vec![sqe.nsid()]
        };
        let protected = cdw10 >> 5 & 7 != 0;
        if protected || (cdw10 & 0xF) as usize >= self.namespaces.formats().len() {
            return Err(Status::INVALID_FORMAT);
        }
        let least = *offer.format_ms * MS;
        let time = match cdw10 >> 9 & 7 {
            0 => least,
            1 => {
                let spans = namespaces.iter().filter_map(|&n| self.namespaces.allocated(n)).map(|n| n.span);
                let share = spans.sum::<u64>() as f64 / self.namespaces.capacity() as f64;
                let time = ((*offer.erase_ms * MS) as f64 * share) as Ps;
                self.draw_erase(time);
                time.max(least)
            }
            2 => *offer.crypto_ms * MS,
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok((namespaces, time))
    }

    /// The format is over: the namespaces are empty and have their new block size.
    pub(crate) fn formatted(&mut self) {
        let Some(done) = self.maintenance.format.take() else { return };
        for &nsid in &done.namespaces {
            if let Some((from, to)) = self.namespaces.allocated(nsid).map(|n| (n.base, n.base + n.span)) {
                self.discard(from, to);
            }
            self.namespaces.reformat(nsid, done.format);
        }
        match done.command {
            Some(id) => self.finish_at(id, self.now),
            None => self.settle(),
        }
    }

    /// Sanitize: completes at once; the work goes on behind it.
    pub(crate) fn sanitize(&mut self, id: u32, sqe: &Sqe) {
        const EXIT_FAILURE: u32 = 1;
        const NO_DEALLOCATE: u32 = 1 << 9;
        let cdw10 = sqe.cdw(10);
        let offer = &self.profile.offer;
        let passes = if cdw10 >> 4 & 0xF == 0 { 16 } else { cdw10 >> 4 & 0xF };
        let (way, passes) = match cdw10 & 7 {
            EXIT_FAILURE => return self.finish_at(id, self.now), // it never failed
            2 => (Way::Block, 0),
            3 => (Way::Overwrite, passes),
            4 => (Way::Crypto, 0),
            _ => return self.fail(id, Status::INVALID_FIELD),
        };
        if !offer.sanitizes(way) || cdw10 & NO_DEALLOCATE != 0 {
            return self.fail(id, Status::INVALID_FIELD);
        }
        if self.maintenance.format.is_some() {
            return self.fail(id, Status::FORMAT_IN_PROGRESS);
        }
        self.self_test.stop(self.now, Outcome::Sanitized);
        let time = self.sanitize_time(way, passes);
        if way != Way::Crypto {
            self.draw_erase(time);
        }
        self.flush_buffer();
        let end = (self.now + time).max(self.flash.programmed_ps());
        self.maintenance.sanitize = Some(Sanitize { start: self.now, end, passes });
        self.maintenance.last = Some((cdw10, 0));
        self.at(end, Event::Sanitized);
        self.finish_at(id, self.now);
    }

    fn sanitize_time(&self, way: Way, passes: u32) -> Ps {
        let offer = &self.profile.offer;
        match way {
            Way::Block => *offer.erase_ms * MS,
            Way::Crypto => *offer.crypto_ms * MS,
            Way::Overwrite => {
                let microseconds = self.namespaces.capacity() / *offer.overwrite_mb_per_s;
                microseconds * (SECOND / 1_000_000) * u64::from(passes)
            }
        }
    }

    /// All dies work for `time`.
    fn draw_erase(&mut self, time: Ps) {
        let flash = &self.profile.flash;
        let dies = (*flash.channels * *flash.dies_per_channel) as f64;
        self.meter.pulse(self.now, self.now + time, dies * *self.profile.power.die_program_slc_w);
    }

    /// The sanitize operation is over: nothing is left on the drive.
    pub(crate) fn sanitized(&mut self) {
        let Some(done) = self.maintenance.sanitize.take() else { return };
        self.discard(0, self.namespaces.capacity());
        self.maintenance.written = false;
        if let Some(last) = &mut self.maintenance.last {
            last.1 = done.passes;
        }
        self.async_event(AsyncEvent::SANITIZED);
        self.settle();
    }

    /// Sanitize Status, log page 81h: 512 bytes.
    pub(crate) fn sanitize_status(&self) -> Vec<u8> {
        const DONE: u32 = 1;
        const IN_PROGRESS: u32 = 2;
        let m = &self.maintenance;
        let share = |s: &Sanitize| (self.now.saturating_sub(s.start)) as f64 / (s.end - s.start).max(1) as f64;
        let (progress, state, passes) = match (&m.sanitize, m.last) {
            (Some(s), _) => ((share(s) * 65536.0) as u32, IN_PROGRESS, (share(s) * f64::from(s.passes)) as u32),
            (None, Some((_, passes))) => (0xFFFF, DONE, passes),
            (None, None) => (0xFFFF, 0, 0),
        };
        let erased = !m.written && m.sanitize.is_none();
        let status = state | passes << 3 | u32::from(erased) << 8;
        let mut d = vec![0; 512];
        d[0..2].copy_from_slice(&(progress.min(0xFFFF) as u16).to_le_bytes());
        d[2..4].copy_from_slice(&(status as u16).to_le_bytes());
        d[4..8].copy_from_slice(&m.last.map_or(0, |l| l.0).to_le_bytes());
        for (i, way) in [Way::Overwrite, Way::Block, Way::Crypto].into_iter().enumerate() {
            let offered = self.profile.offer.sanitizes(way);
            let seconds = self.sanitize_time(way, 16).div_ceil(SECOND) as u32;
            let estimate = if offered { seconds } else { u32::MAX };
            d[8 + 4 * i..12 + 4 * i].copy_from_slice(&estimate.to_le_bytes());
            d[20 + 4 * i..24 + 4 * i].fill(0xFF); // without deallocation: not offered
        }
        d
    }

    /// Whether an admin command may run: while the drive is sanitized, only those of section 8.15.
    pub(crate) fn allowed_now(&self, sqe: &Sqe) -> bool {
        const QUEUES: [u8; 4] = [admin::DELETE_IO_SQ, admin::CREATE_IO_SQ, admin::DELETE_IO_CQ, admin::CREATE_IO_CQ];
        const OTHERS: [u8; 5] =
            [admin::IDENTIFY, admin::ABORT, admin::SET_FEATURES, admin::GET_FEATURES, admin::ASYNC_EVENT_REQUEST];
        const LOGS: [u8; 4] = [log_page::ERRORS, log_page::HEALTH, log_page::CHANGED_NAMESPACES, log_page::SANITIZE];
        if !self.maintenance.sanitizing() {
            return true;
        }
        let opcode = sqe.opcode();
        let log = opcode == admin::GET_LOG_PAGE && LOGS.contains(&(sqe.cdw(10) as u8));
        log || QUEUES.contains(&opcode) || OTHERS.contains(&opcode)
    }
}
