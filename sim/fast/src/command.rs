//! A command as the instrument tells of it: as a record on the wire, and at its CQE to the controller.

use crate::builder::Record;
use crate::field::put;
use wattbell_bus::summary::{Instants, Summary};
use wattbell_spec::wire::{command as f, COMMAND_SIZE, TICK_PS};

const NSID_BROADCAST: u16 = 0xFFFF;
const NSID_LARGE: u16 = 0xFFFE;

/// An NSID in 16 bits.
pub fn short_nsid(nsid: u32) -> u16 {
    match nsid {
        u32::MAX => NSID_BROADCAST,
        n if n >= u32::from(NSID_LARGE) => NSID_LARGE,
        n => n as u16,
    }
}

/// `later` - `earlier` in `bits`, or the codes for unknown (also if negative) and saturated.
#[inline]
fn age(later: Option<u64>, earlier: Option<u64>, bits: u32) -> u64 {
    let unknown = (1 << bits) - 1;
    match (later, earlier) {
        (Some(later), Some(earlier)) if later >= earlier => (later - earlier).min(unknown - 1),
        _ => unknown,
    }
}

/// Contents of a record, with the ticks that were observed.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // the fields of the wire format's COMMAND
pub struct Command {
    pub cqe: u64,
    pub doorbell: Option<u64>,
    pub fetch: Option<u64>,
    pub first_data: Option<u64>,
    pub last_data: Option<u64>,
    pub msix: Option<u64>,
    pub cq_head: Option<u64>,
    pub opcode: u8,
    pub qid: u8,
    pub cid: u16,
    pub status: u16,
    pub nsid: u16,
    pub blocks: u32,
    pub slba: u64,
    pub flags: u8,
    pub length_checked: bool,
}

impl Command {
    /// The one that a summary tells of, whose instants count from tick `origin`.
    pub fn of_summary(s: &Summary, origin: u64) -> Self {
        let tick = |t: u64| (t != Instants::ABSENT).then_some(t / TICK_PS + origin);
        let i = &s.instants;
        Self {
            cqe: tick(i.cqe_ps).unwrap_or(u64::MAX),
            doorbell: tick(i.doorbell_ps),
            fetch: tick(i.fetch_ps),
            first_data: tick(i.first_data_ps),
            last_data: tick(i.last_data_ps),
            msix: tick(i.msix_ps),
            cq_head: tick(i.cq_head_ps),
            opcode: s.opcode,
            qid: s.qid as u8,
            cid: s.cid,
            status: s.status & 0x7FFF,
            nsid: short_nsid(s.nsid),
            blocks: s.blocks,
            slba: s.slba & 0xFF_FFFF_FFFF,
            flags: s.flags,
            length_checked: false,
        }
    }

    /// The record; its first field is filled in by the block builder.
    #[inline]
    pub fn encode(&self) -> Record<COMMAND_SIZE> {
        let mut b = [0; COMMAND_SIZE];
        let before = |t| age(Some(self.cqe), t, 32);
        let after = |t| age(t, Some(self.cqe), 24);
        put(&mut b, f::DOORBELL_BEFORE, before(self.doorbell));
        put(&mut b, f::FETCH_BEFORE, before(self.fetch));
        put(&mut b, f::FIRST_DATA_BEFORE, before(self.first_data));
        put(&mut b, f::LAST_DATA_BEFORE, before(self.last_data));
        put(&mut b, f::MSIX_AFTER, after(self.msix));
        put(&mut b, f::CQ_HEAD_AFTER, after(self.cq_head));
        put(&mut b, f::OPCODE, self.opcode.into());
        put(&mut b, f::QID, self.qid.into());
        put(&mut b, f::CID, self.cid.into());
        // The two share bytes.
        let whole = (f::STATUS.0, f::STATUS.1 + f::LENGTH_CHECKED.1);
        put(&mut b, whole, u64::from(self.status) | u64::from(self.length_checked) << f::STATUS.1);
        put(&mut b, f::NSID, self.nsid.into());
        put(&mut b, f::BLOCKS, self.blocks.into());
        put(&mut b, f::SLBA, self.slba);
        put(&mut b, f::FLAGS, self.flags.into());
        Record { tick: self.cqe, bytes: b, dropped: 0 }
    }

    /// Its bits at the CQE, lowest first, as in COMPLETION of nvme/layouts.py.
    pub fn completion(&self) -> [u32; 6] {
        let latency = self.doorbell.and_then(|doorbell| self.cqe.checked_sub(doorbell)).unwrap_or(0);
        let blocks = u64::from(self.blocks) & 0x1_FFFF;
        let flags = u64::from(self.qid == 0) << 33 | u64::from(self.status & 0x7FF != 0) << 34;
        let upper = self.slba >> 32 & 0xFF | blocks << 8 | u64::from(self.opcode) << 25 | flags;
        let latency = latency.min(u32::MAX.into()) as u32;
        let (tick, lba) = (self.cqe, self.slba as u32);
        [tick as u32, (tick >> 32) as u32, latency, lba, upper as u32, (upper >> 32) as u32]
    }
}
