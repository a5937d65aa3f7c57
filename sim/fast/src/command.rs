//! A command as the instrument tells of it: as a record on the wire, and at its CQE to the controller.

use crate::builder::Record;
use crate::field::put;
use wattbell_bus::summary::{Instants, Summary};
pub use wattbell_spec::command::Command;
use wattbell_spec::wire::{COMMAND_SIZE, TICK_PS};

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

/// Returns the command that a summary describes; its instants count from tick `origin`. Fields that a summary lacks are 0.
pub fn of_summary(s: &Summary, origin: u64) -> Command {
    let tick = |t: u64| (t != Instants::ABSENT).then_some(t / TICK_PS + origin);
    let i = &s.instants;
    Command {
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
        ..Command::default()
    }
}

/// The record of a command; its first field is filled in by the block builder.
#[inline]
pub fn encode(command: &Command) -> Record<COMMAND_SIZE> {
    let mut b = [0; COMMAND_SIZE];
    let cqe = Some(command.cqe);
    for (field, instant, behind) in command.ages() {
        let (earlier, later) = if behind { (cqe, instant) } else { (instant, cqe) };
        put(&mut b, field, age(later, earlier, field.1 as u32));
    }
    for (field, value) in command.facts() {
        put(&mut b, field, value);
    }
    Record { tick: command.cqe, bytes: b, dropped: 0 }
}

/// The bits of a command at its CQE, lowest first, as in COMPLETION of nvme/layouts.py.
pub fn completion(command: &Command) -> [u32; 6] {
    let latency = command.doorbell.and_then(|doorbell| command.cqe.checked_sub(doorbell)).unwrap_or(0);
    let blocks = u64::from(command.blocks) & 0x1_FFFF;
    let flags = u64::from(command.qid == 0) << 33 | u64::from(command.status & 0x7FF != 0) << 34;
    let upper = command.slba >> 32 & 0xFF | blocks << 8 | u64::from(command.opcode) << 25 | flags;
    let latency = latency.min(u32::MAX.into()) as u32;
    let (tick, lba) = (command.cqe, command.slba as u32);
    [tick as u32, (tick >> 32) as u32, latency, lba, upper as u32, (upper >> 32) as u32]
}
