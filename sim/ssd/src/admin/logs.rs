//! Get Log Page and the pages (NVM Express 1.4, section 5.14), and the counters behind them.

use crate::admin::identify::{put, text, ERROR_LOG_ENTRIES};
use crate::controller::Controller;
use crate::host::BusSink;
use crate::nvme::{admin, io, log_page as id, Sqe, Status};
use crate::power::thermal::{seconds, Counters};
use crate::profile::{Profile, Ps, S as SECOND};

/// Counters behind the SMART / Health log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Health {
    /// 512-byte units read by the host (Read, Compare).
    pub read_units: u64,
    /// 512-byte units written by the host.
    pub written_units: u64,
    /// Read and Compare commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Commands that met blocks that could not be read.
    pub media_errors: u64,
    /// Entries ever made in the error log.
    pub errors: u64,
    /// Time in which I/O commands were in hand.
    pub busy: Ps,
    /// I/O commands in hand, and since when there are any.
    pub io: (u32, Ps),
}

impl Health {
    /// An I/O command is in hand.
    pub fn io_begins(&mut self, now: Ps) {
        if self.io.0 == 0 {
            self.io.1 = now;
        }
        self.io.0 += 1;
    }

    /// `count` I/O commands are over.
    pub fn io_ends(&mut self, now: Ps, count: u32) {
        if count > 0 && self.io.0 == count {
            self.busy += now - self.io.1;
        }
        self.io.0 -= count;
    }

    fn busy_minutes(&self, now: Ps) -> u64 {
        let running = if self.io.0 > 0 { now - self.io.1 } else { 0 };
        (self.busy + running) / (60 * SECOND)
    }
}

/// Temperature for the SMART / Health log.
struct Warmth {
    composite_k: u16,
    beyond: bool,
    counters: Counters,
}

/// SMART / Health Information, log page 02h: 512 bytes.
fn smart(health: &Health, warmth: &Warmth, now: Ps) -> Vec<u8> {
    let mut d = vec![0; 512];
    d[0] = u8::from(warmth.beyond) << 1; // critical warning
    put(&mut d, 1, &warmth.composite_k.to_le_bytes());
    (d[3], d[4]) = (100, 10); // available spare and its threshold
    let thousands = |units: u64| u128::from(units.div_ceil(1000)).to_le_bytes();
    put(&mut d, 32, &thousands(health.read_units));
    put(&mut d, 48, &thousands(health.written_units));
    put(&mut d, 64, &u128::from(health.reads).to_le_bytes());
    put(&mut d, 80, &u128::from(health.writes).to_le_bytes());
    put(&mut d, 96, &u128::from(health.busy_minutes(now)).to_le_bytes());
    put(&mut d, 112, &1u128.to_le_bytes()); // power cycles
    put(&mut d, 128, &u128::from(now / (3600 * SECOND)).to_le_bytes());
    put(&mut d, 160, &u128::from(health.media_errors).to_le_bytes());
    put(&mut d, 176, &u128::from(health.errors).to_le_bytes());
    let c = &warmth.counters;
    put(&mut d, 192, &(seconds(c.warning) / 60).to_le_bytes());
    put(&mut d, 196, &(seconds(c.critical) / 60).to_le_bytes());
    for (i, count) in [c.light_count, c.heavy_count, seconds(c.light), seconds(c.heavy)].into_iter().enumerate() {
        put(&mut d, 216 + 4 * i, &count.to_le_bytes());
    }
    d
}

/// Firmware Slot Information, log page 03h: 512 bytes.
fn firmware_slots(profile: &Profile) -> Vec<u8> {
    let mut d = vec![0; 512];
    d[0] = 1;
    text(&mut d[8..16], &profile.identity.firmware);
    d
}

/// Commands Supported and Effects, log page 05h: 4096 bytes.
fn effects(profile: &Profile, data_kept: bool) -> Vec<u8> {
    const SUPPORTED: u32 = 1;
    const CONTENT: u32 = 1 << 1;
    const CAPABILITY: u32 = 1 << 2;
    const INVENTORY: u32 = 1 << 3;
    const ALONE_IN_NAMESPACE: u32 = 1 << 16;
    const ALONE: u32 = 2 << 16;
    let offer = &profile.offer;
    let managed = u32::from(*offer.namespace_management);
    let mut d = vec![0; 4096];
    let mut set =
        |at: usize, opcode: u8, effects: u32| put(&mut d, at + 4 * usize::from(opcode), &effects.to_le_bytes());
    for opcode in
        [admin::DELETE_IO_SQ, admin::CREATE_IO_SQ, admin::GET_LOG_PAGE, admin::DELETE_IO_CQ, admin::CREATE_IO_CQ]
    {
        set(0, opcode, SUPPORTED);
    }
    for opcode in [admin::IDENTIFY, admin::ABORT, admin::SET_FEATURES, admin::GET_FEATURES, admin::ASYNC_EVENT_REQUEST]
    {
        set(0, opcode, SUPPORTED);
    }
    set(0, admin::FORMAT_NVM, SUPPORTED | CONTENT | CAPABILITY | ALONE_IN_NAMESPACE);
    set(0, admin::SANITIZE, if offer.sanitize.is_empty() { 0 } else { SUPPORTED | CONTENT | ALONE });
    set(0, admin::DEVICE_SELF_TEST, u32::from(offer.self_test()) * SUPPORTED);
    set(0, admin::NAMESPACE_MANAGEMENT, managed * (SUPPORTED | INVENTORY));
    set(0, admin::NAMESPACE_ATTACHMENT, managed * (SUPPORTED | INVENTORY));
    let commands = 1024; // the NVM command set follows the admin commands
    set(commands, io::READ, SUPPORTED);
    set(commands, io::COMPARE, u32::from(data_kept) * SUPPORTED);
    for opcode in [io::FLUSH, io::WRITE, io::WRITE_ZEROES, io::DSM] {
        set(commands, opcode, SUPPORTED | CONTENT);
    }
    set(commands, io::WRITE_UNCORRECTABLE, u32::from(*offer.write_uncorrectable) * (SUPPORTED | CONTENT));
    d
}

impl<S: BusSink> Controller<S> {
    /// Get Log Page.
    pub(crate) fn log_page(&mut self, id: u32, sqe: &Sqe) {
        let len = 4 * (u64::from(sqe.cdw(10) >> 16) | u64::from(sqe.cdw(11) & 0xFFFF) << 16) + 4;
        let offset = u64::from(sqe.cdw(12)) | u64::from(sqe.cdw(13)) << 32;
        let (log, keep_event) = (sqe.cdw(10) as u8, sqe.cdw(10) >> 15 & 1 == 1);
        let Some(mut data) = self.page(log) else { return self.fail(id, Status::LOG_PAGE_INVALID) };
        if offset % 4 != 0 || offset > data.len() as u64 || len > 4096 << *self.profile.limits.mdts {
            return self.fail(id, Status::INVALID_FIELD);
        }
        if !keep_event {
            self.log_was_read(log);
            if log == id::CHANGED_NAMESPACES {
                self.changed_namespaces.clear();
            }
        }
        data.drain(..offset as usize);
        data.resize(len as usize, 0); // what is asked for beyond the page's end reads as zeroes
        self.command(id).data = data;
        self.resolve(id, len as u32);
    }

    fn page(&mut self, log: u8) -> Option<Vec<u8>> {
        Some(match log {
            id::ERRORS => {
                let mut log: Vec<u8> = self.errors.iter().flatten().copied().collect();
                log.resize(64 * ERROR_LOG_ENTRIES, 0);
                log
            }
            id::HEALTH => {
                let limits = self.thermal_limits();
                let counters = self.thermal.counters(self.now, &limits);
                let thermal = &self.thermal;
                let warmth = Warmth { composite_k: thermal.composite_k(), beyond: thermal.beyond(), counters };
                smart(&self.health, &warmth, self.now)
            }
            id::FIRMWARE => firmware_slots(&self.profile),
            id::CHANGED_NAMESPACES => {
                let mut log: Vec<u8> = self.changed_namespaces.iter().flat_map(|id| id.to_le_bytes()).collect();
                log.resize(4096, 0);
                log
            }
            id::EFFECTS => effects(&self.profile, self.store.is_some()),
            id::SELF_TEST if self.profile.offer.self_test() => self.self_test.log(self.now),
            id::SANITIZE if !self.profile.offer.sanitize.is_empty() => self.sanitize_status(),
            _ => return None,
        })
    }

    /// Makes an entry of the error information log for a command.
    pub(crate) fn log_command(&mut self, id: u32) {
        let c = self.command(id);
        let (qid, cid, status) = (c.qid, c.sqe.cid(), c.status.0 << 1);
        let (lba, nsid) = (c.sqe.slba(), c.sqe.nsid());
        self.log_error(qid, cid, status, lba, nsid);
    }

    /// Makes an entry of the error information log. `status` is as in CQE bits 127:112 without the phase.
    pub(crate) fn log_error(&mut self, qid: u16, cid: u16, status: u16, lba: u64, nsid: u32) {
        self.health.errors += 1;
        let mut entry = [0; 64];
        put(&mut entry, 0, &self.health.errors.to_le_bytes());
        put(&mut entry, 8, &qid.to_le_bytes());
        put(&mut entry, 10, &cid.to_le_bytes());
        put(&mut entry, 12, &status.to_le_bytes());
        put(&mut entry, 14, &0xFFFFu16.to_le_bytes()); // no byte of the command in particular
        put(&mut entry, 16, &lba.to_le_bytes());
        put(&mut entry, 24, &nsid.to_le_bytes());
        self.errors.push_front(entry);
        self.errors.truncate(ERROR_LOG_ENTRIES);
    }
}
