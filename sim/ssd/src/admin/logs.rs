//! Log pages (NVM Express, Get Log Page command), and the counters behind them.

use super::identify::{put, text, ERROR_LOG_ENTRIES};
use crate::nvme::commands::Command;
use crate::nvme::{admin, io};
use crate::power::thermal::{seconds, Warmth};
use crate::profile::{Profile, Ps, S as SECOND};
use std::collections::VecDeque;

/// Counters behind the SMART / Health log, and the error log.
#[derive(Debug, Default)]
pub struct Health {
    /// 512-byte units read by the host (Read, Compare).
    read_units: u64,
    /// 512-byte units written by the host.
    written_units: u64,
    /// Read and Compare commands.
    reads: u64,
    /// Write commands.
    writes: u64,
    /// Commands that met blocks that could not be read.
    media_errors: u64,
    /// Number of entries ever made in the error log, and the last entries, the newest first.
    errors: u64,
    entries: VecDeque<[u8; 64]>,
    /// Times that the supply came back.
    power_cycles: u64,
    /// Time in which I/O commands were in hand.
    busy: Ps,
    /// I/O commands in hand, and since when there are any.
    io: (u32, Ps),
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

    /// A controller reset: nothing is in hand.
    pub fn reset(&mut self, now: Ps) {
        self.io_ends(now, self.io.0);
    }

    /// Counts a return of the supply.
    pub fn power_cycle(&mut self) {
        self.power_cycles += 1;
    }

    /// Counts a command that reads, or compares, this many units of 512 bytes.
    #[inline]
    pub fn read(&mut self, units: u64) {
        self.reads += 1;
        self.read_units += units;
    }

    /// Counts a command that writes this many units of 512 bytes.
    #[inline]
    pub fn write(&mut self, units: u64) {
        self.writes += 1;
        self.written_units += units;
    }

    /// A command met blocks that could not be read.
    pub fn media_error(&mut self) {
        self.media_errors += 1;
    }

    /// Makes an entry of the error information log for a command.
    pub fn log_command(&mut self, command: &Command) {
        let sqe = &command.sqe;
        self.log_error(command.qid, sqe.cid(), command.status.0 << 1, sqe.slba(), sqe.nsid());
    }

    /// Makes an entry for no command in particular.
    pub fn log_queue(&mut self, qid: u16) {
        self.log_error(qid, 0xFFFF, 0, 0, 0);
    }

    /// Makes an entry. `status` is as in CQE bits 127:112 without the phase.
    fn log_error(&mut self, qid: u16, cid: u16, status: u16, lba: u64, nsid: u32) {
        self.errors += 1;
        let mut entry = [0; 64];
        put(&mut entry, 0, &self.errors.to_le_bytes());
        put(&mut entry, 8, &qid.to_le_bytes());
        put(&mut entry, 10, &cid.to_le_bytes());
        put(&mut entry, 12, &status.to_le_bytes());
        put(&mut entry, 14, &0xFFFFu16.to_le_bytes()); // no byte of the command in particular
        put(&mut entry, 16, &lba.to_le_bytes());
        put(&mut entry, 24, &nsid.to_le_bytes());
        self.entries.push_front(entry);
        self.entries.truncate(ERROR_LOG_ENTRIES);
    }

    /// Error Information, log page 01h.
    pub fn error_log(&self) -> Vec<u8> {
        let mut log: Vec<u8> = self.entries.iter().flatten().copied().collect();
        log.resize(64 * ERROR_LOG_ENTRIES, 0);
        log
    }

    fn busy_minutes(&self, now: Ps) -> u64 {
        let running = if self.io.0 > 0 { now - self.io.1 } else { 0 };
        (self.busy + running) / (60 * SECOND)
    }
}

/// SMART / Health Information, log page 02h: 512 bytes.
/// `own_power`: the drive's own energy and power, where it reports them.
pub fn smart(health: &Health, warmth: &Warmth, own_power: Option<(u64, u32)>, now: Ps) -> Vec<u8> {
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
    put(&mut d, 112, &u128::from(1 + health.power_cycles).to_le_bytes());
    put(&mut d, 128, &u128::from(now / (3600 * SECOND)).to_le_bytes());
    put(&mut d, 160, &u128::from(health.media_errors).to_le_bytes());
    put(&mut d, 176, &u128::from(health.errors).to_le_bytes());
    let c = &warmth.counters;
    put(&mut d, 192, &(seconds(c.warning) / 60).to_le_bytes());
    put(&mut d, 196, &(seconds(c.critical) / 60).to_le_bytes());
    for (i, count) in [c.light_count, c.heavy_count, seconds(c.light), seconds(c.heavy)].into_iter().enumerate() {
        put(&mut d, 216 + 4 * i, &count.to_le_bytes());
    }
    if let Some((energy_wh, power)) = own_power {
        put(&mut d, 232, &energy_wh.to_le_bytes());
        put(&mut d, 240, &power.to_le_bytes());
    }
    d
}

/// Firmware Slot Information, log page 03h: 512 bytes.
pub fn firmware_slots(profile: &Profile) -> Vec<u8> {
    let mut d = vec![0; 512];
    d[0] = 1;
    text(&mut d[8..16], &profile.identity.firmware);
    d
}

/// Commands Supported and Effects, log page 05h: 4096 bytes.
pub fn effects(profile: &Profile, data_kept: bool) -> Vec<u8> {
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
