//! The NVMe tracker: TLPs of both directions to command records, events and raw TLPs.
//!
//! What it makes follows from the order of the ticks alone: of TLPs, of marks (PERST#, late attach, a request for the
//! counters), and of sweeps. It is released [`DELAY_TICKS`] after the tick of whatever completed it, so how long the
//! hardware takes does not show, up to a [`load`] that it cannot carry.

mod completions;
mod control;
mod descriptors;
mod fetch;
mod header;
mod hostbuffer;
mod insert;
mod lane;
mod lengths;
mod lent;
mod load;
mod messages;
mod namespaces;
mod pages;
mod queues;
mod slots;
mod store;

use crate::builder::Record;
use crate::command::{self, Command};
use crate::events::{event, Event};
use crate::raw::RawTlp;
use crate::registers::Attach;
use crate::status::{Counters, SLOTS};
use crate::time::{clock_at, tick, Clock, DELAY_TICKS, NEVER};
use header::{Header, Kind};
use lane::Lane;
use lent::HostBuffer;
use load::Load;
use messages::Messages;
use namespaces::Namespaces;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use store::{Controller, Holds, Slot, Tables};
use wattbell_spec::wire::{
    event_type_code as kind, guess_reason_code as guess, reset_cause_code as cause, COMMAND_SIZE,
};

/// Something of some tick is worked on so many cycles later: every mark up to that tick is known then, and it is when the
/// hardware has got to a CQE that waits for no other TLP.
pub const LATENCY: Clock = 76;
/// Completed commands are looked through at multiples of `1 << SWEEP_BITS` ticks.
const SWEEP_BITS: u32 = 22;

/// Input that takes its place among the TLPs though it comes another way; of the same tick, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// PERST# fell.
    Perst,
    /// The link went to Detect.
    Unlinked,
    /// Late attach.
    Attach(Attach),
    /// The counters are asked for.
    Snapshot,
}

/// Next step of the tracker; of the same tick, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Sweep,
    Down,
    Up,
    Summary,
    Mark,
}

/// Output of the tracker.
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

/// See the module.
#[derive(Debug, Default)]
pub struct Tracker {
    /// TLPs to come, host to drive and drive to host.
    pub lanes: [Lane; 2],
    /// Commands without TLPs, each with its tick; these do not decrease.
    pub summaries: VecDeque<(u64, Command)>,
    marks: BTreeSet<(u64, Mark)>,
    /// PERST#.
    level: u8,
    /// The link is in Detect.
    unlinked: bool,
    /// The last sweep, in its units.
    swept: u64,
    /// Records, events and raw TLPs are made of what completes in these ticks.
    pub window: Range<u64>,
    /// Output since this was last emptied.
    pub made: Made,
    counters: Counters,
    /// The counters when they were last asked for.
    pub snapshot: Counters,
    tables: Tables,
    namespaces: Namespaces,
    messages: Messages,
    host_buffer: HostBuffer,
    /// The drive uses translated addresses (PCIe, Address Translation Services), or a process's (PCIe, PASID TLP Prefix).
    translated: bool,
    /// Something is in the tables.
    dirty: bool,
    /// Slots that were ever used, and those that are free again, in the order in which they are taken.
    slots: Vec<Slot>,
    free: VecDeque<u16>,
    /// Commands in flight without a slot.
    unheld: u16,
    /// Generation of the next command.
    generation: u16,
    /// Tick of what is being worked on, and the cycles that the hardware takes for it.
    tick: u64,
    clocks: Clock,
    load: Load,
    /// Hardly a slot was left, where clocks count.
    slots_short: bool,
    /// Moves on when TLPs were lost, the last ones at `loss_tick`.
    epoch: u16,
    loss_tick: Option<u64>,
    /// Memory page size, in 2**(12 + mps) bytes.
    mps: u32,
    bar0: u64,
    /// The function that is followed: the low byte of its identifier.
    function: Option<u8>,
    /// Whether an event GUESSING of this capture gives a reason, by its code.
    told: [bool; guess::ADDRESS_SPACES as usize + 1],
    /// There is another function behind the link.
    other_functions: bool,
    /// The drive reads SQEs beyond the tail, or twice.
    reads_ahead: bool,
    /// A request of a process (PCIe, PASID TLP Prefix) was seen.
    spaces: bool,
    /// The size of SQEs in I/O queues was neither seen nor told.
    sqes_unsized: bool,
    dstrd: u8,
    /// Whether `dstrd` was seen or told, and whether it was said that it was not.
    stride_known: bool,
    stride_told: bool,
    controller: Controller,
    /// Long writes may be Identify data: an admin command was announced and none completed since, or there are Identify
    /// commands in flight.
    announced: bool,
    identifies: u8,
    /// Doorbells may be in memory, and where.
    shadow: bool,
    doorbell_buffers: [u64; 2],
    last_cq: u8,
    victim: usize,
    /// A page that could not hold everything that began in it, and the tick when.
    crowded: Option<(u64, u64)>,
    /// Commands in flight, none from before a loss, with a page that another one took over.
    ousted: u16,
    /// Whether there is a queue beyond the table.
    untracked: bool,
}

impl Tracker {
    /// A tracker at power-on that sees its first TLP in `clock` at the earliest.
    pub fn new(clock: Clock) -> Self {
        let slots = vec![Slot::default(); SLOTS];
        let mut new = Self { slots, free: (0..SLOTS as u16).collect(), ..Self::default() };
        new.lanes.iter_mut().for_each(|lane| lane.free = clock);
        new
    }

    /// PERST# takes a new level in `clock`.
    pub fn perst(&mut self, clock: Clock, level: u8) {
        if level < std::mem::replace(&mut self.level, level) {
            self.marks.insert((tick(clock + 1), Mark::Perst));
        }
    }

    /// The link goes to Detect in `clock`, or leaves it.
    pub fn unlinked(&mut self, clock: Clock, unlinked: bool) {
        if !std::mem::replace(&mut self.unlinked, unlinked) && unlinked {
            self.marks.insert((tick(clock + 1), Mark::Unlinked));
        }
    }

    /// A late-attach fact is offered in `clock`.
    pub fn attach(&mut self, clock: Clock, fact: Attach) {
        self.marks.insert((tick(clock), Mark::Attach(fact)));
    }

    /// Begins or ends the run: records are made of whatever completes while it lasts.
    pub fn set_run(&mut self, clock: Clock, run: bool) {
        self.window = if run { tick(clock)..NEVER } else { self.window.start..tick(clock) };
        if run {
            self.told = Default::default();
        }
    }

    /// The counters are asked for in `clock`. Those of TLPs are known at once, the others from `snapshot` when what was
    /// made up to then is released.
    pub fn request(&mut self, clock: Clock) -> Counters {
        self.marks.insert((tick(clock + 1), Mark::Snapshot));
        self.counters(clock)
    }

    /// The counters in `clock`, which does not decrease from call to call.
    pub fn counters(&mut self, clock: Clock) -> Counters {
        self.counters.tlps_down += self.lanes[0].count(clock, &mut self.counters);
        self.counters.tlps_up += self.lanes[1].count(clock, &mut self.counters);
        self.counters.in_flight = (self.slots.len() - self.free.len()) as u32 + u32::from(self.unheld);
        Counters { bar0: self.bar0, dstrd: self.dstrd, ..self.counters }
    }

    /// Number of command records so far.
    pub fn commands(&self) -> u64 {
        self.counters.commands
    }

    /// Names the first event that could not be modelled exactly.
    pub fn inexact(&self) -> Option<&'static str> {
        let slots = self.slots_short.then_some("all slots of the tracker were in use");
        let cut = "a TLP was on the pins, or some were missed, when the self-test began or ended";
        self.load.exceeded.or(slots).or(self.lanes.iter().any(|lane| lane.cut).then_some(cut))
    }

    /// Returns the next step, and its tick.
    #[inline]
    fn next(&self) -> (u64, Next) {
        let [down, up] = self.lanes.each_ref().map(|lane| lane.head_tick().unwrap_or(NEVER));
        let candidates = [
            ((self.swept + 1) << SWEEP_BITS, Next::Sweep),
            (down, Next::Down),
            (up, Next::Up),
            (self.summaries.front().map_or(NEVER, |s| s.0), Next::Summary),
            (self.marks.first().map_or(NEVER, |m| m.0), Next::Mark),
        ];
        candidates.into_iter().min().unwrap_or((NEVER, Next::Mark))
    }

    /// The cycle in which it next does something.
    #[inline]
    pub fn due(&self) -> Clock {
        clock_at(self.next().0) + LATENCY
    }

    /// Does what is due up to cycle `until`; everything up to `now` has happened.
    pub fn step(&mut self, now: Clock, until: Clock) {
        self.counters(now);
        loop {
            let (tick, next) = self.next();
            if clock_at(tick) + LATENCY > until {
                return;
            }
            self.tick = tick;
            match next {
                Next::Sweep => self.sweep(),
                Next::Down | Next::Up => {
                    if let Some(mut header) = self.lanes[usize::from(next == Next::Up)].take() {
                        self.clocks = if header.kind == Kind::Other { load::OTHER } else { load::TLP };
                        self.take(&mut header);
                        self.load.take(header.up, tick, std::mem::take(&mut self.clocks));
                    }
                }
                Next::Summary => {
                    if let Some((_, command)) = self.summaries.pop_front() {
                        self.record(&command);
                        self.made.completions.push(command);
                    }
                }
                Next::Mark => match self.marks.pop_first() {
                    Some((_, Mark::Attach(fact))) => self.take_fact(&fact),
                    Some((_, Mark::Snapshot)) => self.snapshot = self.counters(now),
                    Some((_, Mark::Perst)) => self.reset(cause::PERST),
                    Some((_, Mark::Unlinked)) => self.reset(cause::LINK),
                    None => {}
                },
            }
            self.load.add(tick, std::mem::take(&mut self.clocks));
        }
    }

    /// Takes a TLP.
    fn take(&mut self, h: &mut Header) {
        if h.lost {
            self.epoch = self.epoch.wrapping_add(1);
            self.loss_tick = Some(self.tick);
            self.ousted = 0;
            self.messages.lose(h.up);
        }
        if h.is_of_drive() && self.function.is_some_and(|function| function != h.requester as u8) {
            return self.of_another_function(h);
        }
        if h.bad {
            return self.bad(h);
        }
        match (h.up, h.kind) {
            (false, Kind::ConfigRead) => self.config_read(h),
            (false, Kind::ConfigWrite) => self.config_write(h),
            (false, Kind::MemRead) => self.host_read(h),
            (false, Kind::MemWrite) => self.host_write(h),
            (false, Kind::Completion) => self.failed_completion(h),
            (false, Kind::CompletionData) => self.completion(h),
            (true, Kind::MemRead) => self.drive_read(h),
            (true, Kind::MemWrite) => {
                h.kept |= self.announced || self.identifies != 0;
                self.drive_write(h);
            }
            (true, Kind::Message) => self.wire(h),
            (true, Kind::CompletionData) => self.drive_completion(h),
            _ => {}
        }
    }

    /// A rejected or poisoned TLP. A poisoned one moves data, and its content is not used (PCIe, Error Forwarding).
    fn bad(&mut self, h: &mut Header) {
        self.event(kind::MALFORMED, u8::from(h.up), h.why.into(), 0);
        match (h.up, h.kind) {
            (true, Kind::MemWrite) => self.drive_write(h),
            (false, Kind::CompletionData) => match self.tables.tags[usize::from(h.tag)].returns {
                Holds::Sq | Holds::List | Holds::Segment | Holds::BufferList => self.failed_completion(h),
                _ => self.completion(h),
            },
            _ => {}
        }
    }

    /// Whether what is completed now is passed on.
    fn wanted(&self) -> bool {
        self.window.contains(&self.tick)
    }

    /// Makes an event, of another tick than now's.
    fn event_at(&mut self, tick: u64, kind: u8, arg8: u8, arg16: u16, arg32: u32) {
        if self.wanted() {
            self.made.events.push((self.tick + DELAY_TICKS, event(tick, kind, arg8, arg16, arg32)));
        }
    }

    fn event(&mut self, kind: u8, arg8: u8, arg16: u16, arg32: u32) {
        self.event_at(self.tick, kind, arg8, arg16, arg32);
    }

    /// Makes a record.
    fn record(&mut self, command: &Command) {
        if self.wanted() {
            self.made.records.push((self.tick + DELAY_TICKS, command::encode(command)));
            self.counters.commands += 1;
        }
    }

    fn lose(&mut self, source: u8) {
        self.made.losses.push((source, self.tick));
    }

    /// Makes an event GUESSING with `reason` if it is the capture's first.
    fn tell_once(&mut self, reason: u8, arg16: u16) {
        let wanted = self.wanted();
        if !std::mem::replace(&mut self.told[usize::from(reason)], wanted) {
            self.event(kind::GUESSING, reason, arg16, 0);
        }
    }

    /// A TLP of a function that is not followed.
    fn of_another_function(&mut self, h: &Header) {
        if h.kind == Kind::MemRead {
            self.unmatched_read();
        } else {
            self.unmatched();
        }
        self.other_functions = true;
        self.tell_once(guess::SECOND_FUNCTION, h.requester);
    }

    /// A read of the drive fits nothing.
    fn unmatched_read(&mut self) {
        self.counters.unmatched_reads = self.counters.unmatched_reads.wrapping_add(1);
        self.unmatched();
    }

    /// A TLP fits nothing.
    fn unmatched(&mut self) {
        self.counters.unmatched = self.counters.unmatched.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capture_gives_a_reason_once() {
        let mut tracker = Tracker::new(0);
        let mut told = |clock, run| {
            tracker.set_run(clock, run);
            tracker.tick = tick(clock + 1);
            tracker.tell_once(guess::SECOND_FUNCTION, 0x0101);
            tracker.tell_once(guess::SECOND_FUNCTION, 0x0101);
            tracker.made.events.len()
        };
        assert_eq!([told(10, true), told(20, true)], [1, 2], "a capture begins without one in between");
        assert_eq!([told(30, false), told(40, true)], [2, 3]);
    }
}
