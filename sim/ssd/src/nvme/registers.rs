//! Controller registers (NVM Express, Controller Properties).

use crate::profile::Profile;

/// Offset of the doorbells; the stride is 0.
pub const DOORBELLS: u64 = 0x1000;

const READY: u32 = 1;
const FATAL: u32 = 1 << 1;
const SHUTDOWN: u32 = 3 << 2;
const SHUTTING_DOWN: u32 = 1 << 2;
const SHUT_DOWN: u32 = 2 << 2;

/// VS register and VER field of "major.minor[.tertiary]".
pub fn version(text: &str) -> u32 {
    let mut parts = text.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    let (major, minor, tertiary) = (parts.next(), parts.next(), parts.next());
    major.unwrap_or(1) << 16 | minor.unwrap_or(0) << 8 | tertiary.unwrap_or(0)
}

/// The change that a write of CC asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// CC.EN changed to this.
    pub enable: Option<bool>,
    /// A shutdown is announced.
    pub shutdown: bool,
}

/// A queue as the registers describe it: base address and entries.
pub type AdminQueue = (u64, u32);

/// The registers.
pub struct Registers {
    cap: u64,
    vs: u32,
    cc: u32,
    csts: u32,
    aqa: u32,
    asq: u64,
    acq: u64,
    intms: u32,
}

impl Registers {
    /// After power-on. CAP: largest queue, contiguous queues required, time-out in 500 ms, stride 0, NVM command set, 4 KiB
    /// pages.
    pub fn new(profile: &Profile) -> Self {
        let entries = u64::from(*profile.limits.max_queue_entries - 1);
        let timeout = (*profile.limits.ready_ms / 500.0).ceil() as u64 * 4 + 16;
        let cap = entries | 1 << 16 | timeout.min(255) << 24 | 1 << 37;
        let vs = version(&profile.identity.nvme_version);
        Self { cap, vs, cc: 0, csts: 0, aqa: 0, asq: 0, acq: 0, intms: 0 }
    }

    /// The byte at `offset`.
    pub fn byte(&self, offset: u64) -> u8 {
        let dw = |at: u64, value: u32| value.to_le_bytes()[(offset - at) as usize];
        let qw = |at: u64, value: u64| value.to_le_bytes()[(offset - at) as usize];
        match offset {
            0x00..=0x07 => qw(0x00, self.cap),
            0x08..=0x0B => dw(0x08, self.vs),
            0x0C..=0x0F => dw(0x0C, self.intms),
            0x10..=0x13 => dw(0x10, self.intms),
            0x14..=0x17 => dw(0x14, self.cc),
            0x1C..=0x1F => dw(0x1C, self.csts),
            0x24..=0x27 => dw(0x24, self.aqa),
            0x28..=0x2F => qw(0x28, self.asq),
            0x30..=0x37 => qw(0x30, self.acq),
            _ => 0,
        }
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u64, size: u8, value: u64) -> Change {
        let low = value as u32;
        match (offset, size) {
            (0x0C, 4) => self.intms |= low,
            (0x10, 4) => self.intms &= !low,
            (0x14, 4) => return self.write_cc(low),
            (0x24, 4) => self.aqa = low & 0x0FFF_0FFF,
            (0x28, 8) => self.asq = value & !0xFFF,
            (0x30, 8) => self.acq = value & !0xFFF,
            (0x28, 4) => self.asq = self.asq >> 32 << 32 | u64::from(low & !0xFFF),
            (0x2C, 4) => self.asq = self.asq & 0xFFFF_FFFF | u64::from(low) << 32,
            (0x30, 4) => self.acq = self.acq >> 32 << 32 | u64::from(low & !0xFFF),
            (0x34, 4) => self.acq = self.acq & 0xFFFF_FFFF | u64::from(low) << 32,
            _ => {} // read-only or reserved
        }
        Change::default()
    }

    fn write_cc(&mut self, cc: u32) -> Change {
        let was = std::mem::replace(&mut self.cc, cc & 0x00FF_FFF1);
        let enable = (was & 1 != cc & 1).then_some(cc & 1 == 1);
        Change { enable, shutdown: cc >> 14 & 3 != 0 && was >> 14 & 3 == 0 }
    }

    /// The admin queues to begin with: submission, completion. `None`, and a fatal status, if CAP does not offer the page size,
    /// the command set or a queue's size.
    pub fn admin_queues(&mut self) -> Option<(AdminQueue, AdminQueue)> {
        let (sq, cq) = (self.aqa & 0xFFF, self.aqa >> 16 & 0xFFF);
        if sq > 0 && cq > 0 && self.cc >> 7 & 0xF == 0 && self.cc >> 4 & 7 == 0 {
            return Some(((self.asq, sq + 1), (self.acq, cq + 1)));
        }
        self.csts |= FATAL;
        None
    }

    /// The controller cannot go on (CSTS.CFS).
    pub fn fail(&mut self) {
        self.csts |= FATAL;
    }

    /// Whether the controller takes commands.
    pub fn ready(&self) -> bool {
        self.csts & READY != 0
    }

    /// The controller takes commands from now on.
    pub fn set_ready(&mut self) {
        self.csts |= READY;
    }

    /// A controller reset. AQA, ASQ and ACQ stay.
    pub fn reset(&mut self) {
        self.csts = 0;
    }

    /// Marks the announced shutdown as in progress, or as `complete`.
    pub fn shut_down(&mut self, complete: bool) {
        self.csts = self.csts & !SHUTDOWN | if complete { SHUT_DOWN } else { SHUTTING_DOWN };
    }
}
