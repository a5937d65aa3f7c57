//! The engine: takes one TLP at a time, in the order of their ticks, and keeps every table.

use super::header::{Header, Kind};
use super::store::*;
use crate::builder::Record;
use crate::command::Command;
use crate::events::{event, Event};
use crate::raw::RawTlp;
use crate::status::Counters;
use crate::time::DELAY_TICKS;
use wattbell_spec::nvme::io;
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, reset_cause_code as cause, COMMAND_SIZE,
};

/// A completed command is released at this age, looked for at multiples of `1 << SWEEP_BITS` ticks.
const AGE_TICKS: u64 = 1 << 24;
const SWEEP_BITS: u32 = 22;

/// What the engine makes.
#[derive(Debug, Default)]
pub struct Made {
    /// Command records, each with the tick of its release.
    pub records: Vec<(u64, Record<COMMAND_SIZE>)>,
    /// Events, likewise.
    pub events: Vec<(u64, Event)>,
    /// Raw TLPs.
    pub raws: Vec<RawTlp>,
    /// Losses: source and tick.
    pub losses: Vec<(u8, u64)>,
    /// Commands at their CQEs.
    pub completions: Vec<Command>,
}

/// What the host has told the drive's controller, as far as seen.
#[derive(Debug, Default)]
pub(super) struct Controller {
    pub enabled: bool,
    pub aqa: u32,
    pub asq: u64,
    pub acq: u64,
    /// Tag and requester of a read of CAP, and where in what it returns the upper half is.
    pub cap: Option<(u16, u16, usize)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Engine {
    pub tables: Tables,
    /// Records, events and raw TLPs are made from the first tick on, and no longer from the second.
    pub window: (u64, u64),
    pub made: Made,
    /// Number of records, commands in flight, TLPs that fitted nothing.
    pub commands: u64,
    in_flight: u32,
    unmatched: u32,
    /// Tick of what is being worked on.
    pub tick: u64,
    /// Moves on when TLPs were lost, the last ones at `loss_tick`.
    pub epoch: u16,
    pub loss_tick: Option<u64>,
    /// Generation of the next slot.
    serial: u16,
    /// Memory page size, in 2**(12 + mps) bytes.
    pub mps: u32,
    pub bar0: u64,
    pub dstrd: u8,
    pub stride_known: bool,
    pub stride_told: bool,
    pub controller: Controller,
    /// Long writes may be Identify data: an admin command was announced and none completed since, or there are Identify
    /// commands in flight.
    pub announced: bool,
    pub identifies: u8,
    /// Something is in the tables.
    pub dirty: bool,
    pub shadow: bool,
    pub db_buffers: [u64; 2],
    pub last_cq: u8,
    /// The last sweep, in its units.
    swept: u64,
    pub victim: usize,
    /// A page that could not hold everything that began in it, and the tick when.
    pub crowded: Option<(u64, u64)>,
    /// Whether there is a queue beyond the table.
    pub untracked: bool,
    /// Whether hardly a slot was left, where clocks count.
    pub slots_short: bool,
    /// How often all slots were looked at, one after the other.
    pub walks: u64,
}

impl Engine {
    /// Processes a TLP.
    pub fn take(&mut self, h: &mut Header) {
        self.tick = h.tick;
        h.kept |= h.kept_if_armed && (self.announced || self.identifies != 0);
        let h = &*h;
        if h.lost {
            self.epoch = self.epoch.wrapping_add(1);
            self.loss_tick = Some(h.tick);
        }
        if h.bad {
            self.event(kind::MALFORMED, u8::from(h.up), 0, 0);
        }
        match (h.up, h.kind) {
            (false, Kind::ConfigWrite) => self.config_write(h),
            (false, Kind::MemRead) => self.host_read(h),
            (false, Kind::MemWrite) => self.host_write(h),
            (false, Kind::Completion) => self.failed_completion(h),
            (false, Kind::CompletionData) => self.completion(h),
            (true, Kind::MemRead | Kind::MemWrite) => self.page(h),
            (true, Kind::CompletionData) => self.drive_completion(h),
            _ => {}
        }
    }

    /// Whether what is completed now is passed on.
    pub fn wanted(&self) -> bool {
        self.window.0 <= self.tick && self.tick < self.window.1
    }

    pub fn event_at(&mut self, tick: u64, kind: u8, arg8: u8, arg16: u16, arg32: u32) {
        if self.wanted() {
            self.made.events.push((self.tick + DELAY_TICKS, event(tick, kind, arg8, arg16, arg32)));
        }
    }

    pub fn event(&mut self, kind: u8, arg8: u8, arg16: u16, arg32: u32) {
        self.event_at(self.tick, kind, arg8, arg16, arg32);
    }

    /// Makes a record.
    pub fn record(&mut self, command: &Command) {
        if self.wanted() {
            self.made.records.push((self.tick + DELAY_TICKS, command.encode()));
            self.commands += 1;
        }
    }

    /// A command without TLPs completes at tick `now`.
    pub fn summary(&mut self, now: u64, command: Command) {
        self.tick = now;
        self.record(&command);
        self.made.completions.push(command);
    }

    pub fn lose(&mut self, source: u8) {
        self.made.losses.push((source, self.tick));
    }

    pub fn unmatched(&mut self) {
        self.unmatched = self.unmatched.wrapping_add(1);
    }

    /// The engine's part of the counters.
    pub fn counters(&self) -> Counters {
        Counters {
            commands: self.commands,
            in_flight: self.in_flight,
            unmatched: self.unmatched,
            bar0: self.bar0,
            dstrd: self.dstrd,
            ..Counters::default()
        }
    }

    pub fn page_key(&self, address: u64) -> u64 {
        address >> (12 + self.mps) << self.mps
    }

    /// Offset within its page in double words.
    pub fn page_offset(&self, address: u64) -> u16 {
        (address >> 2 & (self.page_words() - 1)) as u16
    }

    pub fn page_words(&self) -> u64 {
        1 << (self.mps + 10)
    }

    // --- slots --------------------------------------------------------------------------------------------------

    pub fn slot(&mut self, slot: u16) -> &mut Slot {
        &mut self.tables.slots[usize::from(slot)]
    }

    /// Takes a slot, if one is free, for a command that is in `state` and has place `index` in its queue.
    pub fn allocate(&mut self, state: State, index: u16, command: Command) -> Option<u16> {
        self.slots_short |= self.tables.free.len() < 2;
        let number = self.tables.free.pop_front()?;
        let (generation, epoch) = (self.serial, self.epoch);
        *self.slot(number) = Slot { state, index, generation, epoch, command, ..Slot::default() };
        self.serial = self.serial.wrapping_add(1);
        self.in_flight += 1;
        Some(number)
    }

    pub fn release(&mut self, slot: u16) {
        self.slot(slot).state = State::Free;
        self.tables.free.push_back(slot);
        self.in_flight -= 1;
    }

    /// Makes the record of a command that has completed, and releases its slot.
    pub fn emit(&mut self, slot: u16, cq_head: Option<u64>) {
        let s = self.tables.slots[usize::from(slot)];
        let mut command = Command { cq_head, ..s.command };
        let set = |flag: u8, is: bool| if is { flag } else { 0 };
        let dsm = command.qid != 0 && command.opcode == io::DSM;
        command.flags |= set(flag::NO_SQE, matches!(s.state, State::Announced | State::Fetching))
            | set(flag::NO_RANGES, dsm && s.ranges != s.ranges_expected)
            | set(flag::LOSS, s.epoch != self.epoch);
        self.record(&command);
        self.release(slot);
    }

    /// The same of one that has not.
    pub fn abort(&mut self, slot: u16, flags: u8) {
        let tick = self.tick;
        let command = &mut self.slot(slot).command;
        command.flags |= flag::ABORTED | flags;
        command.cqe = tick;
        self.emit(slot, None);
    }

    /// A data TLP of the command in `slot`.
    pub fn see_data(&mut self, slot: u16) {
        let tick = Some(self.tick);
        let command = &mut self.slot(slot).command;
        command.first_data = command.first_data.or(tick);
        command.last_data = tick;
    }

    // --- sweep and reset ----------------------------------------------------------------------------------------

    /// The first completed command is there: sweeps begin.
    pub fn begin_sweeps(&mut self) {
        self.swept = self.tick >> SWEEP_BITS;
    }

    /// The tick of the next sweep.
    pub fn next_sweep(&self) -> Option<u64> {
        (self.tables.filled != 0).then_some((self.swept + 1) << SWEEP_BITS)
    }

    /// Releases completed commands whose CQ head doorbell does not come; at tick `now`.
    pub fn sweep(&mut self, now: u64) {
        self.tick = now;
        self.begin_sweeps();
        for qid in bits(self.tables.filled) {
            while let Some(&head) = self.tables.cq[qid].completed.front() {
                if now < self.slot(head).command.cqe + AGE_TICKS {
                    break;
                }
                self.tables.cq[qid].pop();
                self.emit(head, None);
            }
            self.tables.note(qid);
        }
    }

    /// Forgets everything tracked; what is in flight goes out as aborted.
    pub fn reset(&mut self, cause: u8) {
        if self.dirty {
            self.walks += 1;
            for slot in 0..self.tables.slots.len() as u16 {
                match self.slot(slot).state {
                    State::Free => {}
                    State::Completed => self.emit(slot, None),
                    _ => self.abort(slot, 0),
                }
            }
            let Tables { slots, free, .. } = std::mem::take(&mut self.tables);
            (self.tables.slots, self.tables.free) = (slots, free);
        }
        self.event(kind::TRACKER_RESET, cause, 0, 0);
        (self.shadow, self.announced, self.identifies, self.dirty) = (false, false, 0, false);
        (self.crowded, self.untracked) = (None, false);
        if cause == cause::PERST {
            self.bar0 = 0;
            self.controller = Controller::default();
        }
    }
}
