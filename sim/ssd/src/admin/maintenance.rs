//! Format NVM and Sanitize (NVM Express, commands of these names and Sanitize Operations): operations that take seconds. This module also
//! says which commands are refused meanwhile. Both operations continue through a controller reset.

use super::namespaces::Namespaces;
use crate::nvme::{admin, log_page, Sqe, Status};
use crate::profile::{Offer, Ps, Way, MS, S as SECOND};

/// A format to begin.
pub struct FormatPlan {
    namespaces: Vec<u32>,
    format: u8,
    /// Least time that the format takes.
    pub time: Ps,
    /// How long all dies erase.
    pub erase: Option<Ps>,
}

/// A sanitize operation to begin.
pub struct SanitizePlan {
    cdw10: u32,
    passes: u32,
    /// Least time that the operation takes.
    pub time: Ps,
    /// How long all dies erase.
    pub erase: Option<Ps>,
}

/// A finished format.
pub struct Formatted {
    /// The formatted namespaces.
    pub namespaces: Vec<u32>,
    /// Number of their new LBA format.
    pub format: u8,
    /// The command to complete; none after a reset.
    pub command: Option<u32>,
}

/// A Format NVM command at work.
struct Format {
    what: Formatted,
    start: Ps,
    end: Ps,
}

/// A sanitize operation at work.
struct Sanitize {
    start: Ps,
    end: Ps,
    passes: u32,
}

/// The running operation, and the result of the last sanitize operation.
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
        self.format.as_ref().is_some_and(|f| f.what.namespaces.contains(&nsid))
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
            Some(f) if f.what.namespaces.contains(&nsid) => {
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
            format.what.command = None;
        }
    }

    /// Returns the namespaces that a Format NVM command names, and the duration of the format.
    pub fn plan_format(&self, sqe: &Sqe, all: &Namespaces, offer: &Offer) -> Result<FormatPlan, Status> {
        let cdw10 = sqe.cdw(10);
        if self.format.is_some() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let namespaces: Vec<u32> = if sqe.nsid() == u32::MAX {
            all.list(0, true).collect()
        } else {
            all.named(sqe.nsid())?;
            vec![sqe.nsid()]
        };
        let (protected, format) = (cdw10 >> 5 & 7 != 0, (cdw10 & 0xF) as u8);
        if protected || usize::from(format) >= all.formats().len() {
            return Err(Status::INVALID_FORMAT);
        }
        let least = *offer.format_ms * MS;
        let (time, erase) = match cdw10 >> 9 & 7 {
            0 => (least, None),
            1 => {
                let spans = namespaces.iter().filter_map(|&n| all.allocated(n)).map(|n| n.span);
                let share = spans.sum::<u64>() as f64 / all.capacity() as f64;
                let time = ((*offer.erase_ms * MS) as f64 * share) as Ps;
                (time.max(least), Some(time))
            }
            2 => (*offer.crypto_ms * MS, None),
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(FormatPlan { namespaces, format, time, erase })
    }

    /// Runs the format from `start` to `end`, when command `id` completes.
    pub fn begin_format(&mut self, plan: FormatPlan, start: Ps, end: Ps, id: u32) {
        let what = Formatted { namespaces: plan.namespaces, format: plan.format, command: Some(id) };
        self.format = Some(Format { what, start, end });
    }

    /// The format is over.
    pub fn end_format(&mut self) -> Option<Formatted> {
        self.format.take().map(|format| format.what)
    }

    /// Returns the operation that a Sanitize command starts. `None`: nothing is started, because no sanitize operation has failed.
    pub fn plan_sanitize(&self, sqe: &Sqe, capacity: u64, offer: &Offer) -> Result<Option<SanitizePlan>, Status> {
        const EXIT_FAILURE: u32 = 1;
        const NO_DEALLOCATE: u32 = 1 << 9;
        let cdw10 = sqe.cdw(10);
        let passes = if cdw10 >> 4 & 0xF == 0 { 16 } else { cdw10 >> 4 & 0xF };
        let (way, passes) = match cdw10 & 7 {
            EXIT_FAILURE => return Ok(None),
            2 => (Way::Block, 0),
            3 => (Way::Overwrite, passes),
            4 => (Way::Crypto, 0),
            _ => return Err(Status::INVALID_FIELD),
        };
        if !offer.sanitizes(way) || cdw10 & NO_DEALLOCATE != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if self.format.is_some() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let time = sanitize_time(offer, capacity, way, passes);
        Ok(Some(SanitizePlan { cdw10, passes, time, erase: (way != Way::Crypto).then_some(time) }))
    }

    /// Runs the sanitize operation from `start` to `end`.
    pub fn begin_sanitize(&mut self, plan: &SanitizePlan, start: Ps, end: Ps) {
        self.sanitize = Some(Sanitize { start, end, passes: plan.passes });
        self.last = Some((plan.cdw10, 0));
    }

    /// Ends the sanitize operation, if one was at work: nothing is left on the drive.
    pub fn end_sanitize(&mut self) -> bool {
        let Some(done) = self.sanitize.take() else { return false };
        self.written = false;
        if let Some(last) = &mut self.last {
            last.1 = done.passes;
        }
        true
    }

    /// Sanitize Status, log page 81h: 512 bytes.
    pub fn sanitize_status(&self, now: Ps, capacity: u64, offer: &Offer) -> Vec<u8> {
        const DONE: u32 = 1;
        const IN_PROGRESS: u32 = 2;
        let share = |s: &Sanitize| (now.saturating_sub(s.start)) as f64 / (s.end - s.start).max(1) as f64;
        let (progress, state, passes) = match (&self.sanitize, self.last) {
            (Some(s), _) => ((share(s) * 65536.0) as u32, IN_PROGRESS, (share(s) * f64::from(s.passes)) as u32),
            (None, Some((_, passes))) => (0xFFFF, DONE, passes),
            (None, None) => (0xFFFF, 0, 0),
        };
        let erased = !self.written && self.sanitize.is_none();
        let status = state | passes << 3 | u32::from(erased) << 8;
        let mut d = vec![0; 512];
        d[0..2].copy_from_slice(&(progress.min(0xFFFF) as u16).to_le_bytes());
        d[2..4].copy_from_slice(&(status as u16).to_le_bytes());
        d[4..8].copy_from_slice(&self.last.map_or(0, |l| l.0).to_le_bytes());
        for (i, way) in [Way::Overwrite, Way::Block, Way::Crypto].into_iter().enumerate() {
            let seconds = sanitize_time(offer, capacity, way, 16).div_ceil(SECOND) as u32;
            let estimate = if offer.sanitizes(way) { seconds } else { u32::MAX };
            d[8 + 4 * i..12 + 4 * i].copy_from_slice(&estimate.to_le_bytes());
            d[20 + 4 * i..24 + 4 * i].fill(0xFF); // without deallocation: not offered
        }
        d
    }

    /// Returns whether an admin command may run. During a sanitize operation, only the commands of section 8.15 may.
    pub fn allows(&self, sqe: &Sqe) -> bool {
        const QUEUES: [u8; 4] = [admin::DELETE_IO_SQ, admin::CREATE_IO_SQ, admin::DELETE_IO_CQ, admin::CREATE_IO_CQ];
        const OTHERS: [u8; 5] =
            [admin::IDENTIFY, admin::ABORT, admin::SET_FEATURES, admin::GET_FEATURES, admin::ASYNC_EVENT_REQUEST];
        const LOGS: [u8; 4] = [log_page::ERRORS, log_page::HEALTH, log_page::CHANGED_NAMESPACES, log_page::SANITIZE];
        let opcode = sqe.opcode();
        let log = opcode == admin::GET_LOG_PAGE && LOGS.contains(&(sqe.cdw(10) as u8));
        !self.sanitizing() || log || QUEUES.contains(&opcode) || OTHERS.contains(&opcode)
    }
}

fn sanitize_time(offer: &Offer, capacity: u64, way: Way, passes: u32) -> Ps {
    match way {
        Way::Block => *offer.erase_ms * MS,
        Way::Crypto => *offer.crypto_ms * MS,
        Way::Overwrite => {
            let microseconds = capacity / *offer.overwrite_mb_per_s;
            microseconds * (SECOND / 1_000_000) * u64::from(passes)
        }
    }
}
