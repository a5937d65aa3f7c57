//! The engine: takes one TLP at a time and keeps every table. It counts the cycles of its own states, so that its
//! output
//! carries the cycle in which the hardware produces it.
//!
//! A method stands for a sequence of states. `self.t` is the cycle of the state being executed; [`Engine::go`] moves on
//! to
//! the next one. A method returns in the cycle of its last state.

use super::completion::Completion;
use super::header::{Header, Kind};
use super::losses::Losses;
use super::record::{Fields, UNKNOWN};
use super::store::*;
use crate::builder::Record;
use crate::events::{event, Event};
use crate::raw::RawTlp;
use crate::status::{Counters, SLOTS};
use crate::time::{tick, Clock, NEVER};
use wattbell_spec::nvme::io;
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, loss_source_code as source, COMMAND_SIZE,
};

/// A counter as it was before some cycle.
#[derive(Debug, Clone, Copy)]
pub(super) enum Before {
    Command,
    InFlight(i32),
    Unmatched,
    Bar0(u64),
    Dstrd(u8),
}

/// The engine's output, each with the cycle in which it is written to its queue.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub records: Vec<(Clock, Record<COMMAND_SIZE>)>,
    pub events: Vec<(Clock, Event)>,
    pub raws: Vec<RawTlp>,
    /// With the cycle in which it becomes visible outside.
    pub completions: Vec<(Clock, Completion)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Engine {
    pub tables: Tables,
    /// The cycle of the present state.
    pub t: Clock,
    /// Records and events are made from the first cycle on, and no longer from the second.
    pub run: (Clock, Clock),
    pub made: Made,
    /// Output made while none was to be, by what is in progress now: its cycle may still fall into a time when some is.
    withheld: Made,
    pub counters: Counters,
    pub journal: Vec<(Clock, Before)>,
    pub losses: Losses,
    /// Cycles in which `armed` changed, and its new value.
    pub armed: Vec<(Clock, bool)>,
    pub arm: bool,
    pub identifies: u8,
    pub epoch: u16,
    pub loss_seen: bool,
    pub loss_tick: u64,
    pub serial: u16,
    pub mps: u32,
    /// Tick of the TLP (or request) being worked on.
    pub tick: u64,
    pub bar0: u64,
    pub enabled: bool,
    pub dstrd: u8,
    pub stride_known: bool,
    pub stride_told: bool,
    pub cap: Option<(u16, u16, usize)>,
    pub aqa: u32,
    pub asq: u64,
    pub acq: u64,
    pub dirty: bool,
    pub shadow: bool,
    pub db_buffers: [u64; 2],
    pub last_cq: u8,
    pub next_sweep: u64,
    pub victim: usize,
    /// A page that could not hold everything that began in it, and the tick when.
    pub crowded: Option<(u64, u64)>,
    /// Whether there is a queue beyond the table.
    pub untracked: bool,
    pub inexact: Option<&'static str>,
}

/// A command that was looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub slot: u16,
    previous: Option<u16>,
}

impl Engine {
    pub fn new() -> Self {
        Self {
            tables: Tables::default(),
            t: 0,
            run: (NEVER, NEVER),
            made: Made::default(),
            withheld: Made::default(),
            counters: Counters::default(),
            journal: Vec::new(),
            losses: Losses::default(),
            armed: Vec::new(),
            arm: false,
            identifies: 0,
            epoch: 0,
            loss_seen: false,
            loss_tick: 0,
            serial: 0,
            mps: 0,
            tick: 0,
            bar0: 0,
            enabled: false,
            dstrd: 0,
            stride_known: false,
            stride_told: false,
            cap: None,
            aqa: 0,
            asq: 0,
            acq: 0,
            dirty: false,
            shadow: false,
            db_buffers: [0; 2],
            last_cq: 0,
            next_sweep: 0,
            victim: 0,
            crowded: None,
            untracked: false,
            inexact: None,
        }
    }

    /// Moves on to the next state.
    #[inline(always)]
    pub fn go(&mut self) {
        self.t += 1;
    }

    /// Work on something new begins.
    pub fn begin(&mut self) {
        self.journal.clear();
        self.withheld.records.clear();
        self.withheld.events.clear();
    }

    /// Records and events are made from `clock` on. The engine has run ahead: what it has made for then counts.
    pub fn start(&mut self, clock: Clock) {
        self.run = (clock, NEVER);
        self.made.events.extend(self.withheld.events.drain(..).filter(|(at, _)| *at >= clock));
        for (at, record) in self.withheld.records.drain(..).filter(|(at, _)| *at >= clock) {
            self.made.records.push((at, record));
            self.counters.commands += 1;
            self.journal.push((at + 1, Before::Command));
        }
    }

    pub fn runs(&self) -> bool {
        self.run.0 <= self.t && self.t < self.run.1
    }

    /// Processes `h`, which is accepted in cycle `accepted`; returns in the cycle in which the next may be.
    pub fn take(&mut self, h: &Header, accepted: Clock) {
        self.begin();
        self.t = accepted + 1;
        self.tick = h.tick;
        if h.lost {
            self.epoch = self.epoch.wrapping_add(1);
            (self.loss_tick, self.loss_seen) = (h.tick, true);
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

    /// Makes an event in the present cycle.
    pub fn event_at(&mut self, tick: u64, kind: u8, arg8: u8, arg16: u16, arg32: u32) {
        let made = if self.runs() { &mut self.made } else { &mut self.withheld };
        made.events.push((self.t, event(tick, kind, arg8, arg16, arg32)));
    }

    pub fn event(&mut self, kind: u8, arg8: u8, arg16: u16, arg32: u32) {
        self.event_at(self.tick, kind, arg8, arg16, arg32);
    }

    pub fn lose(&mut self, source: u8) {
        self.losses.lose(source, self.t, self.tick);
    }

    pub fn unmatched(&mut self) {
        self.counters.unmatched = self.counters.unmatched.wrapping_add(1);
        self.journal.push((self.t + 1, Before::Unmatched));
    }

    pub fn note_armed(&mut self) {
        let now = self.arm || self.identifies != 0;
        if self.armed.last().is_none_or(|(_, before)| *before != now) {
            if self.armed.len() > 64 {
                self.armed.drain(..32);
            }
            self.armed.push((self.t + 1, now));
        }
    }

    pub fn armed_in(&self, clock: Clock) -> bool {
        self.armed.iter().rev().find(|(from, _)| *from <= clock).is_some_and(|(_, armed)| *armed)
    }

    /// The counters as visible in `clock`, which is not before the last TLP was accepted.
    pub fn counters(&self, clock: Clock) -> Counters {
        let mut c = self.counters;
        (c.bar0, c.dstrd) = (self.bar0, self.dstrd);
        for (_, before) in self.journal.iter().rev().filter(|(from, _)| *from > clock) {
            match before {
                Before::Command => c.commands -= 1,
                Before::InFlight(change) => c.in_flight = c.in_flight.wrapping_add_signed(-change),
                Before::Unmatched => c.unmatched = c.unmatched.wrapping_sub(1),
                Before::Bar0(bar0) => c.bar0 = *bar0,
                Before::Dstrd(dstrd) => c.dstrd = *dstrd,
            }
        }
        c.lost_tlps = self.losses.count(source::TLP_DOWN, clock).wrapping_add(self.losses.count(source::TLP_UP, clock));
        c.lost_commands = self.losses.count(source::SLOTS, clock);
        c.lost_pages = self.losses.count(source::PAGES, clock);
        c
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

    pub fn slot_is_free(&mut self) -> bool {
        if self.tables.free.len() < 2 {
            self.inexact = Some("all slots of the tracker were in use");
        }
        !self.tables.free.is_empty()
    }

    /// Takes a free slot (there is one) for a command.
    pub fn allocate(&mut self, slot: Slot) -> u16 {
        let number = self.tables.free.pop_front().unwrap_or(0);
        *self.slot(number) = Slot { generation: self.serial, epoch: self.epoch, ..slot };
        self.serial = self.serial.wrapping_add(1);
        self.counters.in_flight += 1;
        self.journal.push((self.t + 1, Before::InFlight(1)));
        number
    }

    pub fn release(&mut self, slot: u16) {
        self.slot(slot).state = State::Free;
        self.tables.free.push_back(slot);
        self.counters.in_flight = self.counters.in_flight.wrapping_sub(1);
        self.journal.push((self.t + 1, Before::InFlight(-1)));
    }

    /// Makes the record of `slot` and releases it: two states, started after the present one. Ends in the second.
    pub fn emit(&mut self, slot: u16, aborted: Option<u64>, reused: bool, cq_head: u64) {
        self.go();
        let s = self.tables.slots[usize::from(slot)];
        let mut flags = s.flags;
        if aborted.is_some() {
            flags |= flag::ABORTED;
        }
        if reused {
            flags |= flag::CID_REUSED;
        }
        if matches!(s.state, State::Announced | State::Fetching) {
            flags |= flag::NO_SQE;
        }
        if s.qid != 0 && s.opcode == io::DSM && s.ranges != s.ranges_expected {
            flags |= flag::NO_RANGES;
        }
        if s.epoch != self.epoch {
            flags |= flag::LOSS;
        }
        let record = Fields {
            cqe: aborted.unwrap_or(s.cqe),
            doorbell: s.doorbell,
            fetch: s.fetch,
            first_data: s.first_data,
            last_data: s.last_data,
            msix: if aborted.is_some() { UNKNOWN } else { s.msix },
            cq_head,
            opcode: s.opcode,
            qid: s.qid,
            cid: s.cid,
            status: s.status,
            nsid: s.nsid,
            blocks: s.blocks,
            slba: s.lba,
            flags,
        };
        self.go();
        if self.runs() {
            self.made.records.push((self.t, record.encode()));
            self.counters.commands += 1;
            self.journal.push((self.t + 1, Before::Command));
        } else {
            self.withheld.records.push((self.t, record.encode()));
        }
        self.release(slot);
    }

    /// Looks up the command (`qid`, `cid`): states started after the present one. Ends in the last of them.
    pub fn find(&mut self, qid: u8, cid: u16) -> Option<Found> {
        self.go();
        self.go();
        let mut at = self.tables.hash_head[hash(qid, cid)]?;
        let mut previous = None;
        loop {
            self.go();
            let s = &self.tables.slots[usize::from(at)];
            if s.qid == qid && s.cid == cid {
                return Some(Found { slot: at, previous });
            }
            previous = Some(at);
            at = self.tables.hash_next[usize::from(at)]?;
        }
    }

    /// Removes the command just found from its chain.
    pub fn unlink(&mut self, qid: u8, cid: u16, found: Found) {
        let rest = self.tables.hash_next[usize::from(found.slot)];
        match found.previous {
            Some(previous) => self.tables.hash_next[usize::from(previous)] = rest,
            None => self.tables.hash_head[hash(qid, cid)] = rest,
        }
    }

    /// A data TLP of the command in `slot`.
    pub fn see_data(&mut self, slot: u16) {
        let tick = self.tick;
        let s = self.slot(slot);
        if s.first_data == UNKNOWN {
            s.first_data = tick;
        }
        s.last_data = tick;
    }

    // --- sweep and reset ----------------------------------------------------------------------------------------

    /// Releases completed commands whose CQ head doorbell does not come; decided in cycle `begun`.
    pub fn sweep(&mut self, begun: Clock) {
        const AGE: u64 = 1 << 24;
        self.begin();
        self.t = begun;
        for qid in 0..self.tables.cq.len() {
            self.go(); // SWEEP
            self.go(); // SWEEP_LOAD
            if self.tables.cq_filled >> qid & 1 == 0 {
                continue;
            }
            let mut cq = self.tables.cq[qid];
            loop {
                self.go(); // SWEEP_NEXT
                self.go(); // SWEEP_ENTRY
                let old = self.tables.slots[usize::from(cq.head)].cqe.wrapping_add(AGE);
                if cq.count == 0 || tick(self.t) < old {
                    break;
                }
                let head = cq.head;
                cq.count -= 1;
                cq.head = self.tables.next[usize::from(head)];
                if cq.waiting == head {
                    cq.waiting = cq.head;
                }
                self.emit(head, None, false, UNKNOWN);
            }
            if cq.count == 0 {
                self.tables.cq_filled &= !(1 << qid);
                self.tables.cq_waiting &= !(1 << qid);
            }
            self.tables.cq[qid] = cq;
        }
        self.go(); // SWEEP, to its end
        self.schedule_sweep();
    }

    pub fn schedule_sweep(&mut self) {
        const BITS: u32 = 22;
        self.next_sweep = ((tick(self.t) >> BITS) + 1) << BITS;
    }

    /// Forgets everything tracked; what is in flight goes out as aborted: states started after the present one. Ends in
    /// the last of them.
    pub fn reset(&mut self, cause: u8, reset_tick: u64) {
        if self.dirty {
            for i in 0..SETS {
                self.go(); // RESET
                self.go(); // RESET_SLOT
                for way in 0..PAGE_WAYS {
                    self.tables.pages[way * SETS + i] = PageEntry::default();
                }
                for turn in 0..WAYS - PAGE_WAYS {
                    let at = PAGE_WAYS * SETS + turn * PIECE_SETS + i % PIECE_SETS;
                    self.tables.pages[at] = PageEntry::default();
                }
                self.tables.hash_head[i] = None;
                self.tables.tags[i] = CLEARED_TAG;
                if i < SLOTS && self.tables.slots[i].state != State::Free {
                    let aborted = (self.tables.slots[i].state != State::Completed).then_some(reset_tick);
                    self.emit(i as u16, aborted, false, UNKNOWN);
                }
            }
        }
        self.go(); // RESET, to its end
        self.go(); // RESET_DONE
        self.event_at(reset_tick, kind::TRACKER_RESET, cause, 0, 0);
        let t = &mut self.tables;
        (t.sq_valid, t.cq_valid, t.cq_filled, t.cq_waiting) = (0, 0, 0, 0);
        t.messages.iter_mut().for_each(|m| m.valid = false);
        (self.shadow, self.arm, self.identifies, self.dirty) = (false, false, 0, false);
        (self.crowded, self.untracked) = (None, false);
        self.note_armed();
        if cause == wattbell_spec::wire::reset_cause_code::PERST {
            self.set_bar0(0);
            (self.enabled, self.aqa, self.asq, self.acq, self.cap) = (false, 0, 0, 0, None);
        }
        self.go(); // RESET_RETURN
    }

    pub fn set_bar0(&mut self, bar0: u64) {
        self.journal.push((self.t + 1, Before::Bar0(self.bar0)));
        self.bar0 = bar0;
    }

    pub fn set_dstrd(&mut self, dstrd: u8) {
        self.journal.push((self.t + 1, Before::Dstrd(self.dstrd)));
        self.dstrd = dstrd;
    }
}
