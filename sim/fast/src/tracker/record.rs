//! Command records as on the wire.

use crate::builder::Record;
use crate::field::put;
use wattbell_bus::summary::{Instants, Summary};
use wattbell_spec::wire::{command as f, COMMAND_SIZE, TICK_PS};

/// A tick that was not observed.
pub const UNKNOWN: u64 = u64::MAX;
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
fn age(later: u64, earlier: u64, known: bool, bits: u32) -> u64 {
    let unknown = (1 << bits) - 1;
    match later.checked_sub(earlier) {
        Some(age) if known => age.min(unknown - 1),
        _ => unknown,
    }
}

/// Contents of a record, with ticks not yet converted to ages.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the fields of the wire format's COMMAND; ticks, UNKNOWN if not observed
pub struct Fields {
    pub cqe: u64,
    pub doorbell: u64,
    pub fetch: u64,
    pub first_data: u64,
    pub last_data: u64,
    pub msix: u64,
    pub cq_head: u64,
    pub opcode: u8,
    pub qid: u8,
    pub cid: u16,
    pub status: u16,
    pub nsid: u16,
    pub blocks: u32,
    pub slba: u64,
    pub flags: u8,
}

impl Fields {
    /// The record; its first field is filled in by the block builder.
    #[inline]
    pub fn encode(&self) -> Record<COMMAND_SIZE> {
        let mut b = [0; COMMAND_SIZE];
        let before = |t: u64| age(self.cqe, t, t != UNKNOWN, 32);
        let after = |t: u64| age(t, self.cqe, t != UNKNOWN, 24);
        put(&mut b, f::DOORBELL_BEFORE, before(self.doorbell));
        put(&mut b, f::FETCH_BEFORE, before(self.fetch));
        put(&mut b, f::FIRST_DATA_BEFORE, before(self.first_data));
        put(&mut b, f::LAST_DATA_BEFORE, before(self.last_data));
        put(&mut b, f::MSIX_AFTER, after(self.msix));
        put(&mut b, f::CQ_HEAD_AFTER, after(self.cq_head));
        put(&mut b, f::OPCODE, self.opcode.into());
        put(&mut b, f::QID, self.qid.into());
        put(&mut b, f::CID, self.cid.into());
        put(&mut b, f::STATUS, self.status.into());
        put(&mut b, f::NSID, self.nsid.into());
        put(&mut b, f::BLOCKS, self.blocks.into());
        put(&mut b, f::SLBA, self.slba);
        put(&mut b, f::FLAGS, self.flags.into());
        Record { tick: self.cqe, bytes: b, dropped: 0 }
    }
}

/// The record of a command that has no TLPs; its instants count from tick `origin`.
#[inline]
pub fn of_summary(s: &Summary, origin: u64) -> Record<COMMAND_SIZE> {
    let tick = |t: u64| if t == Instants::ABSENT { UNKNOWN } else { t / TICK_PS + origin };
    let i = &s.instants;
    Fields {
        cqe: tick(i.cqe_ps),
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
    }
    .encode()
}
