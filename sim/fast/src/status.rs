//! STATUS blocks.

use crate::field::put;
use crate::time::{Clock, TICKS};
use wattbell_spec::units::{CURRENT_LSB_NA, VOLTAGE_LSB_UV};
use wattbell_spec::wire::{status as f, STATUS_SIZE, TICK_PS};

/// Width of the TLP datapath and of a conversion; sizes of the tracker's tables.
const TLP_WIDTH: u64 = 128;
const ADC_BITS: u64 = 18;
/// Entries of the queue table.
pub const QUEUES: usize = 64;
/// Maximum number of commands in flight.
pub const SLOTS: usize = 1024;

/// The tracker's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the fields of the wire format's STATUS
pub struct Counters {
    pub tlps_down: u64,
    pub tlps_up: u64,
    pub commands: u64,
    pub in_flight: u32,
    pub malformed: u32,
    pub unmatched: u32,
    pub lost_tlps: u32,
    pub lost_commands: u32,
    pub lost_records: u32,
    pub lost_events: u32,
    pub lost_pages: u32,
    pub bar0: u64,
    pub dstrd: u8,
    pub unmatched_reads: u32,
    pub hmb_reads: u32,
    pub hmb_writes: u32,
    pub hmb_read_bytes: u64,
    pub hmb_written_bytes: u64,
}

impl Counters {
    /// Returns these counters, with the tracker's counters taken from `engine`.
    pub fn with(&self, engine: &Self) -> Self {
        Self {
            tlps_down: self.tlps_down,
            tlps_up: self.tlps_up,
            malformed: self.malformed,
            lost_tlps: self.lost_tlps,
            lost_commands: self.lost_commands,
            lost_records: self.lost_records,
            lost_events: self.lost_events,
            lost_pages: self.lost_pages,
            ..*engine
        }
    }
}

/// The other contents of a STATUS block.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Rig {
    pub version: [u8; 3],
    pub run: bool,
    pub period_clocks: u32,
    pub decimation: u16,
    pub lost_records: u32,
    pub lost_events: u32,
    pub lost_samples: u32,
}

/// A STATUS block that waits until everything made before it is released. Only then are the tracker's counters known.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Pending {
    pub closes: Clock,
    pub first_tick: u64,
    pub counters: Counters,
    pub rig: Rig,
}

/// The payload of a STATUS block.
pub fn payload(counters: &Counters, rig: &Rig) -> Vec<u8> {
    let mut s = vec![0; STATUS_SIZE];
    let [major, minor, patch] = rig.version.map(u64::from);
    put(&mut s, f::GATEWARE_VERSION, major << 16 | minor << 8 | patch);
    put(&mut s, f::TICK_PS, TICK_PS);
    put(&mut s, f::CLOCK_TICKS, TICKS);
    put(&mut s, f::TLP_WIDTH, TLP_WIDTH);
    put(&mut s, f::QUEUES, QUEUES as u64);
    put(&mut s, f::SLOTS, SLOTS as u64);
    put(&mut s, f::ADC_BITS, ADC_BITS);
    put(&mut s, f::RUN, rig.run.into());
    put(&mut s, f::DSTRD, counters.dstrd.into());
    put(&mut s, f::VOLTAGE_LSB_UV, VOLTAGE_LSB_UV.into());
    put(&mut s, f::CURRENT_LSB_NA, CURRENT_LSB_NA.into());
    put(&mut s, f::ADC_PERIOD_TICKS, u64::from(rig.period_clocks) * TICKS);
    put(&mut s, f::DECIMATION, rig.decimation.into());
    put(&mut s, f::TLPS_DOWN, counters.tlps_down);
    put(&mut s, f::TLPS_UP, counters.tlps_up);
    put(&mut s, f::COMMANDS, counters.commands);
    put(&mut s, f::IN_FLIGHT, counters.in_flight.into());
    put(&mut s, f::MALFORMED, counters.malformed.into());
    put(&mut s, f::UNMATCHED, counters.unmatched.into());
    put(&mut s, f::LOST_TLPS, counters.lost_tlps.into());
    put(&mut s, f::LOST_COMMANDS, counters.lost_commands.into());
    put(&mut s, f::LOST_RECORDS, counters.lost_records.wrapping_add(rig.lost_records).into());
    put(&mut s, f::LOST_EVENTS, counters.lost_events.wrapping_add(rig.lost_events).into());
    put(&mut s, f::LOST_SAMPLES, rig.lost_samples.into());
    put(&mut s, f::LOST_PAGES, counters.lost_pages.into());
    put(&mut s, f::BAR0, counters.bar0);
    put(&mut s, f::HMB_READ_BYTES, counters.hmb_read_bytes);
    put(&mut s, f::HMB_WRITTEN_BYTES, counters.hmb_written_bytes);
    put(&mut s, f::HMB_READS, counters.hmb_reads.into());
    put(&mut s, f::HMB_WRITES, counters.hmb_writes.into());
    put(&mut s, f::UNMATCHED_READS, counters.unmatched_reads.into());
    s
}
