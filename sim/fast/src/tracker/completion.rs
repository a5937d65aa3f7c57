//! What the instrument reports of a command to its controller at the CQE.

use super::record::UNKNOWN;
use wattbell_bus::summary::{Instants, Summary};
use wattbell_spec::wire::TICK_PS;

/// See COMPLETION of nvme/layouts.py.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Completion {
    pub tick: u64,
    pub latency: u32,
    pub lba: u64,
    pub blocks: u32,
    pub opcode: u8,
    pub admin: bool,
    pub error: bool,
}

const LBA_BITS: u32 = 40;
const BLOCKS_BITS: u32 = 17;

impl Completion {
    /// From the doorbell at `doorbell` to the CQE at `tick`; 0 if unknown.
    pub fn latency(tick: u64, doorbell: u64) -> u32 {
        match tick.checked_sub(doorbell) {
            Some(age) if tick != UNKNOWN && doorbell != UNKNOWN => age.min(u32::MAX.into()) as u32,
            _ => 0,
        }
    }

    /// As above for a command without TLPs, whose instants count from tick `origin`.
    pub fn of_summary(s: &Summary, origin: u64) -> Self {
        let tick = |t: u64| if t == Instants::ABSENT { UNKNOWN } else { t / TICK_PS + origin };
        let cqe = tick(s.instants.cqe_ps);
        Self {
            tick: cqe,
            latency: Self::latency(cqe, tick(s.instants.doorbell_ps)),
            lba: s.slba,
            blocks: s.blocks,
            opcode: s.opcode,
            admin: s.qid == 0,
            error: s.status & 0x7FF != 0,
        }
    }

    /// Its bits as packed by the gateware, lowest first.
    pub fn words(&self) -> [u32; 6] {
        let lba = self.lba & ((1 << LBA_BITS) - 1);
        let blocks = u64::from(self.blocks) & ((1 << BLOCKS_BITS) - 1);
        let upper = lba >> 32 | blocks << 8 | u64::from(self.opcode) << 25;
        let flags = u64::from(self.admin) << 33 | u64::from(self.error) << 34;
        let upper = upper | flags;
        [self.tick as u32, (self.tick >> 32) as u32, self.latency, lba as u32, upper as u32, (upper >> 32) as u32]
    }
}
