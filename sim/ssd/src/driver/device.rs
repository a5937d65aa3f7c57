//! A small NVMe driver in virtual time: enumeration, controller start-up, queues, submission and completion.

use super::cpu;
use super::memory::Memory;
use crate::controller::{Controller, Restart};
use crate::host::BusSink;
use crate::nvme::registers::DOORBELLS;
use crate::nvme::{admin, number};
use crate::pcie::config_space::{FLR, L1SS_CAP, MSIX_CAP, MSIX_TABLE, PCIE_CAP};
use crate::pcie::port::Aspm;
use crate::power::states::APST_BYTES;
use crate::profile::{Ps, MS};

/// From a link of 8 GT/s being up to the first configuration request: at least this (PCI Express Base Specification 4.0, 6.6.1).
const CONFIGURE: Ps = 100 * MS;
/// Between two reads of CSTS while a drive starts: Linux waits 1 to 2 ms.
const POLL: Ps = MS;
/// Address of BAR0 that the virtual BIOS assigns.
const BAR0: u64 = 0xFE80_0000;
/// Device Control: 256-byte payload, 512-byte read requests.
const DEVICE_CONTROL: u32 = 0x2020;
/// Entries of the admin queues (Linux: 32).
const ADMIN_DEPTH: u32 = 32;
/// Entries of an I/O queue. Linux uses 1024, or the controller's maximum if that is lower.
const IO_DEPTH: u32 = 1024;
/// Pages of a piece of lent memory: 4 MiB, the largest piece that Linux allocates at once.
const LENT_PIECE_PAGES: u32 = 1024;

/// A violation of the specification by the drive.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A command the driver depends on failed.
    #[error("the drive refused {what}: status {status:#05x}")]
    Refused {
        /// Which.
        what: String,
        /// Status field.
        status: u16,
    },
    /// The plan needs a function that the drive does not offer.
    #[error("the plan needs {0}, which the drive does not offer")]
    NotOffered(&'static str),
    /// A trace could no longer be read.
    #[error("{0}")]
    Trace(String),
    /// The controller stopped.
    #[error("the drive did nothing more while {0} was waited for")]
    Stuck(String),
}

/// A submission and completion queue pair as the host keeps it.
pub(crate) struct QueuePair {
    pub qid: u16,
    sq: u64,
    pub(crate) cq: u64,
    depth: u32,
    tail: u32,
    head: u32,
    phase: bool,
    free_cids: Vec<u16>,
}

impl QueuePair {
    /// Commands that still find a place.
    pub fn room(&self) -> usize {
        self.free_cids.len()
    }

    /// Returns a free command identifier; the caller must ensure that there is one.
    pub fn take_cid(&mut self) -> u16 {
        self.free_cids.pop().expect("the caller looked for room")
    }

    /// Its command is complete.
    pub fn give_cid(&mut self, cid: u16) {
        self.free_cids.push(cid);
    }
}

/// A completion.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// Command identifier.
    pub cid: u16,
    /// Dword 0.
    pub dw0: u32,
    /// Status field.
    pub status: u16,
}

/// The true times of a restart, in picoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Restarted {
    /// The shutdown was announced.
    pub shutdown: Ps,
    /// Times of the drive and its supply.
    pub restart: Restart,
    /// CC.EN was written.
    pub enabled: Ps,
    /// CSTS.RDY was read as 1.
    pub ready: Ps,
}

/// Choices of the driver, from the keys of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// Whether I/O completion queues have interrupts (IEN). The host polls them otherwise.
    pub interrupts: bool,
    /// Whether SGLs describe the data of I/O commands, and not PRPs.
    pub sgls: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self { interrupts: true, sgls: false }
    }
}

/// The drive and its driver.
pub struct Device<S: BusSink> {
    pub(crate) controller: Controller<S>,
    pub(crate) memory: Memory,
    pub(crate) now: Ps,
    pub(crate) queues: Vec<QueuePair>,
    scratch: u64,
    identity: Vec<u8>,
    lbas: u64,
    io_queues: u16,
    pub(crate) manners: Manners,
}

impl<S: BusSink> Device<S> {
    /// Powers the drive, enumerates it and starts it with `io_queues` I/O queues.
    pub fn start(controller: Controller<S>, io_queues: u16) -> Result<Self, DriverError> {
        Self::start_with(controller, io_queues, Manners::default())
    }

    /// Starts the drive as above, with choices of the driver.
    pub fn start_with(controller: Controller<S>, io_queues: u16, manners: Manners) -> Result<Self, DriverError> {
        let mut memory = Memory::default();
        let scratch = memory.allocate(8192);
        let (queues, identity) = (Vec::new(), Vec::new());
        let mut device = Self { controller, memory, now: 0, queues, scratch, identity, lbas: 0, io_queues, manners };
        device.now = device.controller.power_on(0) + MS;
        device.enumerate();
        device.enable(10 * MS)?;
        device.identify()?;
        device.create_queues(io_queues)?;
        Ok(device)
    }

    /// Shuts the drive down and starts it again: with its supply off for `off` in between, or by PERST# alone.
    pub fn restart(&mut self, off: Option<Ps>) -> Result<Restarted, DriverError> {
        let shutdown = self.shut_down();
        let restart = self.controller.restart(self.now, off, &mut self.memory);
        self.now = restart.link_up + CONFIGURE;
        let (enabled, ready) = self.start_again()?;
        Ok(Restarted { shutdown, restart, enabled, ready })
    }

    /// Shuts the drive down, resets it by Initiate Function Level Reset, and starts it again. Returns the times of shutdown, reset, CC.EN
    /// and CSTS.RDY.
    pub fn reset_function(&mut self) -> Result<[Ps; 4], DriverError> {
        let shutdown = self.shut_down();
        self.cfg_write(PCIE_CAP + 0x08, 2, DEVICE_CONTROL | FLR);
        let reset = self.now;
        self.sleep(CONFIGURE); // PCI Express Base Specification 4.0, 6.6.2
        let (enabled, ready) = self.start_again()?;
        Ok([shutdown, reset, enabled, ready])
    }

    /// Configures and starts the drive after a reset; when CC.EN was written, and when CSTS.RDY was read as 1.
    fn start_again(&mut self) -> Result<(Ps, Ps), DriverError> {
        self.queues.clear();
        self.memory.handlers.clear();
        self.enumerate();
        let enabled = self.enable(POLL)?;
        let ready = self.now;
        self.identify()?;
        self.create_queues(self.io_queues)?;
        Ok((enabled, ready))
    }

    /// Two pages of memory for the data of a command.
    pub(super) fn scratch(&self) -> u64 {
        self.scratch
    }

    /// Bytes of the namespace.
    pub fn drive_bytes(&self) -> u64 {
        self.lbas * crate::profile::LBA
    }

    fn enumerate(&mut self) {
        self.cfg_read(0x00);
        self.cfg_read(0x08);
        let mut at = self.cfg_read(0x34) as u16 & 0xFC;
        while at != 0 {
            at = (self.cfg_read(at) >> 8) as u16 & 0xFC; // the capability list
        }
        for register in [0x10, 0x14] {
            self.cfg_read(register);
            self.cfg_write(register, 4, 0xFFFF_FFFF);
            self.cfg_read(register);
            self.cfg_write(register, 4, 0);
        }
        self.cfg_write(0x10, 4, BAR0 as u32);
        self.cfg_write(0x14, 4, (BAR0 >> 32) as u32);
        self.cfg_write(0x04, 2, 0x0406); // memory space, bus master, no INTx
        self.cfg_write(PCIE_CAP + 0x08, 2, DEVICE_CONTROL);
        self.cfg_write(PCIE_CAP + 0x28, 2, 0x0400); // LTR
    }

    /// Sets CC.EN, and reads CSTS every `poll` until the drive is ready; when CC was written.
    fn enable(&mut self, poll: Ps) -> Result<Ps, DriverError> {
        let cap = self.read(0x00, 8);
        debug_assert_eq!(cap >> 32 & 0xF, 0, "stride 0 is what this driver rings");
        self.read(0x08, 4);
        self.write(0x14, 4, 0);
        let admin = self.pair(0, ADMIN_DEPTH);
        self.write(0x24, 4, u64::from(ADMIN_DEPTH - 1) << 16 | u64::from(ADMIN_DEPTH - 1));
        self.write(0x28, 8, admin.sq);
        self.write(0x30, 8, admin.cq);
        self.queues.push(admin);
        let enabled = self.write(0x14, 4, 6 << 16 | 4 << 20 | 1);
        for _ in 0..10_000 {
            if self.read(0x1C, 4) & 1 == 1 {
                return Ok(enabled);
            }
            self.sleep(poll);
        }
        Err(DriverError::Stuck("CSTS.RDY".into()))
    }

    fn identify(&mut self) -> Result<(), DriverError> {
        let page = self.scratch;
        self.admin("Identify Controller", sqe(admin::IDENTIFY, 0, page, [1, 0]))?;
        self.identity = self.memory.at(page, 4096).to_vec();
        if self.manners.sgls && self.identity[536] & 3 == 0 {
            return Err(DriverError::NotOffered("SGLs"));
        }
        self.admin("Identify Namespace", sqe(admin::IDENTIFY, 1, page, [0, 0]))?;
        self.lbas = number(self.memory.at(page, 8));
        self.lend_memory()
    }

    /// Lends the drive the host memory it asks for (HMPRE). The pieces are as large as those of Linux, or larger if the drive takes too few
    /// descriptors (HMMAXD) for these. No two lie side by side.
    fn lend_memory(&mut self) -> Result<(), DriverError> {
        let pages = number(&self.identity[272..276]) as u32;
        if pages == 0 {
            return Ok(());
        }
        let most = match number(&self.identity[336..338]) as u32 {
            0 => u32::MAX,
            most => most,
        };
        let piece = LENT_PIECE_PAGES.max(pages.div_ceil(most));
        let entries = pages.div_ceil(piece);
        let list = self.memory.allocate(16 * u64::from(entries));
        for index in 0..entries {
            let (at, count) = (list + 16 * u64::from(index), piece.min(pages - index * piece));
            let lent = self.memory.allocate_lent(u64::from(count) * 4096);
            self.memory.allocate_user(4096);
            self.memory.at(at, 8).copy_from_slice(&lent.to_le_bytes());
            self.memory.at(at + 8, 4).copy_from_slice(&count.to_le_bytes());
        }
        let mut entry = sqe(admin::SET_FEATURES, 0, 0, [0x0D, 1]);
        entry[48..52].copy_from_slice(&pages.to_le_bytes());
        entry[52..60].copy_from_slice(&list.to_le_bytes());
        entry[60..64].copy_from_slice(&entries.to_le_bytes());
        self.admin("Host Memory Buffer", entry).map(drop)
    }

    fn create_queues(&mut self, count: u16) -> Result<(), DriverError> {
        let table = self.cfg_read(MSIX_CAP + 4); // Table Offset and Table BIR
        debug_assert_eq!(u64::from(table), MSIX_TABLE, "in BAR0");
        for vector in 0..u64::from(count) + 1 {
            let entry = MSIX_TABLE + 16 * vector;
            self.write(entry, 4, 0xFEE0_0000 + 0x1000 * vector);
            self.write(entry + 4, 4, 0);
            self.write(entry + 8, 4, 0x21 + vector);
            self.write(entry + 12, 4, 0);
        }
        self.cfg_write(MSIX_CAP + 2, 2, 0x8000);
        let asked = u32::from(count - 1) << 16 | u32::from(count - 1);
        let got = self.admin("Number of Queues", sqe(admin::SET_FEATURES, 0, 0, [0x07, asked]))?.dw0;
        let count = count.min(got as u16 + 1).min((got >> 16) as u16 + 1);
        for qid in 1..=count {
            let depth = IO_DEPTH.min(*self.controller.profile().limits.max_queue_entries);
            let pair = self.pair(qid, depth);
            let size = (depth - 1) << 16 | u32::from(qid);
            let (vector, ien) = (u32::from(qid) << 16, u32::from(self.manners.interrupts) << 1);
            self.admin("Create I/O CQ", sqe(admin::CREATE_IO_CQ, 0, pair.cq, [size, vector | ien | 1]))?;
            self.admin("Create I/O SQ", sqe(admin::CREATE_IO_SQ, 0, pair.sq, [size, vector | 1]))?;
            self.queues.push(pair);
        }
        Ok(())
    }

    fn pair(&mut self, qid: u16, depth: u32) -> QueuePair {
        let sq = self.memory.allocate(64 * u64::from(depth));
        let cq = self.memory.allocate(16 * u64::from(depth));
        let free_cids = (0..depth as u16 - 1).rev().collect();
        QueuePair { qid, sq, cq, depth, tail: 0, head: 0, phase: true, free_cids }
    }

    fn cfg_read(&mut self, register: u16) -> u32 {
        let (value, done) = self.controller.cfg_read(self.now, register, 4, &mut self.memory);
        self.now = done;
        value
    }

    fn cfg_write(&mut self, register: u16, size: u8, value: u32) {
        self.now = self.controller.cfg_write(self.now, register, size, value, &mut self.memory);
    }

    fn read(&mut self, offset: u64, size: u8) -> u64 {
        let (value, done) = self.controller.mmio_read(self.now, offset, size, &mut self.memory);
        self.now = done;
        value
    }

    fn write(&mut self, offset: u64, size: u8, value: u64) -> Ps {
        self.controller.mmio_write(self.now, offset, size, value, &mut self.memory)
    }

    /// Lets `time` pass.
    pub fn sleep(&mut self, time: Ps) {
        self.now += time;
        self.controller.advance(self.now, &mut self.memory);
    }

    /// Puts a command into queue `index` and rings its doorbell at `at`. Returns its identifier and the time of the doorbell's first
    /// symbol. The caller must ensure that the queue has room.
    pub(crate) fn submit(&mut self, index: usize, at: Ps, mut entry: [u8; 64]) -> (u16, Ps) {
        let queue = &mut self.queues[index];
        let cid = queue.free_cids.pop().expect("the caller looked for room");
        entry[2..4].copy_from_slice(&cid.to_le_bytes());
        let slot = queue.sq + 64 * u64::from(queue.tail);
        queue.tail = (queue.tail + 1) % queue.depth;
        let (offset, tail) = (DOORBELLS + 8 * u64::from(queue.qid), queue.tail);
        self.memory.at(slot, 64).copy_from_slice(&entry);
        (cid, self.controller.mmio_write(at, offset, 4, u64::from(tail), &mut self.memory))
    }

    /// Takes the new completions from completion queue `index` and rings its head doorbell at `at`.
    pub(crate) fn reap(&mut self, index: usize, at: Ps, out: &mut Vec<Completion>) {
        let queue = &mut self.queues[index];
        let before = out.len();
        loop {
            let entry = self.memory.at(queue.cq + 16 * u64::from(queue.head), 16);
            let word = |i: usize| number(&entry[i..i + 2]) as u16;
            let status = word(14);
            if (status & 1 == 1) != queue.phase {
                break;
            }
            out.push(Completion { cid: word(12), dw0: number(&entry[..4]) as u32, status: status >> 1 });
            queue.free_cids.push(word(12));
            queue.head += 1;
            if queue.head == queue.depth {
                queue.head = 0;
                queue.phase = !queue.phase;
            }
        }
        if out.len() > before {
            let (offset, head) = (DOORBELLS + 8 * u64::from(queue.qid) + 4, queue.head);
            self.controller.mmio_write(at, offset, 4, u64::from(head), &mut self.memory);
        }
    }

    /// Sends one command on queue `index` and waits for it. Returns the completion, the doorbell's time, the handler's time.
    pub fn command(&mut self, index: usize, entry: [u8; 64]) -> Result<(Completion, Ps, Ps), DriverError> {
        self.command_with(index, entry, |_, _| {})
    }

    /// Sends a command as the function above does. `rung` sees the controller and the doorbell's time before the drive acts on the
    /// doorbell.
    fn command_with(
        &mut self,
        index: usize,
        entry: [u8; 64],
        rung: impl FnOnce(&mut Controller<S>, Ps),
    ) -> Result<(Completion, Ps, Ps), DriverError> {
        let (cid, doorbell) = self.submit(index, self.now + cpu::SUBMIT, entry);
        rung(&mut self.controller, doorbell);
        let mut done = Vec::new();
        loop {
            let Some(at) = self.controller.next_event_ps() else {
                return Err(DriverError::Stuck(format!("opcode {:#04x}", entry[0])));
            };
            self.controller.advance(at, &mut self.memory);
            // Before MSI-X is enabled the completion queue is polled, as a boot loader does.
            let called = self.memory.handlers.pop_front().map(|(_, t)| t);
            let polled = self.queues.len() == 1;
            let Some(handler) = called.or(polled.then_some(at)) else { continue };
            self.reap(index, handler.max(self.controller.now_ps()), &mut done);
            if let Some(completion) = done.iter().find(|c| c.cid == cid) {
                self.now = handler.max(self.controller.now_ps()) + cpu::COMPLETE;
                return Ok((*completion, doorbell, handler));
            }
        }
    }

    /// Sends an admin command that must succeed.
    pub fn admin(&mut self, what: &str, entry: [u8; 64]) -> Result<Completion, DriverError> {
        let (completion, ..) = self.command(0, entry)?;
        match completion.status {
            0 => Ok(completion),
            status => Err(DriverError::Refused { what: what.into(), status }),
        }
    }

    /// Sends the in-band marker `value`: Get Features with FID D0h, which every drive refuses. `rung` sees the sink and
    /// the time of the first symbol of the doorbell, which is also returned, before the drive acts on it.
    pub fn marker(&mut self, value: u32, rung: impl FnOnce(&mut Controller<S>, Ps)) -> Result<Ps, DriverError> {
        let (_, doorbell, _) = self.command_with(0, sqe(admin::GET_FEATURES, 0, 0, [0xD0, value]), rung)?;
        Ok(doorbell)
    }

    /// Turns APST on with the table that Linux 6.12 makes of the declared latencies, or off.
    pub fn set_apst(&mut self, enabled: bool) -> Result<(), DriverError> {
        let table = if enabled { linux_apst(&self.identity) } else { [0; APST_BYTES] };
        self.memory.at(self.scratch, APST_BYTES).copy_from_slice(&table);
        self.admin("APST", sqe(admin::SET_FEATURES, 0, self.scratch, [0x0C, u32::from(enabled)])).map(drop)
    }

    /// Returns the table that [`Self::set_apst`] programs: from which state, to which state, after how many ms of idle time.
    pub fn apst_table(&self) -> Vec<(u8, u8, u32)> {
        let table = linux_apst(&self.identity);
        let entry = |(state, e): (usize, &[u8])| (state as u8, e[0] >> 3, u32::from_le_bytes([e[1], e[2], e[3], 0]));
        table.chunks(8).enumerate().map(entry).filter(|&(_, _, wait_ms)| wait_ms > 0).collect()
    }

    /// Asks for a power state.
    pub fn set_power_state(&mut self, state: u8) -> Result<(), DriverError> {
        let entry = sqe(admin::SET_FEATURES, 0, 0, [0x02, u32::from(state)]);
        self.admin(&format!("power state {state}"), entry).map(drop)
    }

    /// Formats namespace `nsid`; `ses` 0, 1 or 2 says what becomes of the data.
    pub fn format(&mut self, nsid: u32, ses: u8) -> Result<(), DriverError> {
        self.admin("Format NVM", sqe(admin::FORMAT_NVM, nsid, 0, [u32::from(ses) << 9, 0])).map(drop)
    }

    /// Starts a sanitize operation (SANACT 2 block erase, 3 overwrite once, 4 crypto erase) and waits until it is over.
    pub fn sanitize(&mut self, action: u8) -> Result<(), DriverError> {
        let passes = if action == 3 { 1 << 4 } else { 0 };
        self.admin("Sanitize", sqe(admin::SANITIZE, 0, 0, [u32::from(action) | passes, 0]))?;
        const STATUS_LOG: u32 = 0x81;
        for _ in 0..100_000 {
            self.sleep(100 * MS);
            let page = self.scratch;
            self.admin("Sanitize Status", sqe(admin::GET_LOG_PAGE, u32::MAX, page, [7 << 16 | STATUS_LOG, 0]))?;
            let status = self.memory.at(page, 4)[2] & 7;
            if status != 2 {
                return match status {
                    3 => Err(DriverError::Stuck("the end of Sanitize: it failed".into())),
                    _ => Ok(()),
                };
            }
        }
        Err(DriverError::Stuck("the end of Sanitize".into()))
    }

    /// Switches the volatile write cache on or off.
    pub fn set_write_cache(&mut self, on: bool) -> Result<(), DriverError> {
        self.admin("write cache", sqe(admin::SET_FEATURES, 0, 0, [0x06, u32::from(on)])).map(drop)
    }

    /// Allows link power states, as Linux does: L1 substates first, then ASPM; the other way round to forbid them.
    pub fn set_aspm(&mut self, aspm: Aspm) {
        let substates = if aspm == Aspm::L1_2 { 0x4 } else { 0 };
        self.cfg_write(PCIE_CAP + 0x10, 2, 0);
        self.cfg_write(L1SS_CAP + 8, 4, substates);
        if aspm != Aspm::Off {
            self.cfg_write(PCIE_CAP + 0x10, 2, 0x0142); // ASPM L1, common clock, clock power management
        }
    }

    /// Notifies the drive of a shutdown and waits until the drive is ready for it. Returns when CC was written.
    fn shut_down(&mut self) -> Ps {
        let told = self.write(0x14, 4, 6 << 16 | 4 << 20 | 1 << 14 | 1);
        for _ in 0..1000 {
            if self.read(0x1C, 4) & 0xC == 0x8 {
                break;
            }
            self.sleep(10 * MS);
        }
        told
    }

    /// Powers down as a host does: shutdown notification, then off. Returns the sink.
    pub fn stop(mut self) -> S {
        self.shut_down();
        let now = self.now;
        self.controller.finish(now, &mut self.memory)
    }
}

/// A submission queue entry with PRP1 and CDW10, CDW11.
pub(crate) fn sqe(opcode: u8, nsid: u32, prp1: u64, cdw: [u32; 2]) -> [u8; 64] {
    let mut e = [0; 64];
    e[0] = opcode;
    e[4..8].copy_from_slice(&nsid.to_le_bytes());
    e[24..32].copy_from_slice(&prp1.to_le_bytes());
    e[40..44].copy_from_slice(&cdw[0].to_le_bytes());
    e[44..48].copy_from_slice(&cdw[1].to_le_bytes());
    e
}

/// Returns the table of `nvme_configure_apst` with the kernel's defaults. States that enter and leave within 15 ms follow after 100 ms of
/// idle time. Slower states (100 ms) follow after 2000 ms. Only the deepest state of each kind is used.
fn linux_apst(identity: &[u8]) -> [u8; APST_BYTES] {
    let mut table = [0; APST_BYTES];
    let (mut target, mut last) = (0u32, u32::MAX);
    for state in (0..=usize::from(identity[263])).rev() {
        table[8 * state..8 * state + 4].copy_from_slice(&target.to_le_bytes());
        let psd = &identity[2048 + 32 * state..];
        let word = |at: usize| number(&psd[at..at + 4]) as u32;
        let (operational, total) = (psd[3] & 2 == 0, word(4).saturating_add(word(8)));
        let class = match total {
            0..=15_000 => 1,
            15_001..=100_000 => 2,
            _ => u32::MAX,
        };
        if operational || class >= last || word(8) > 100_000 {
            continue;
        }
        last = class;
        let wait_ms = if class == 1 { 100 } else { 2000 };
        target = (state as u32) << 3 | wait_ms << 8;
    }
    table
}
