//! The drive's side of the lean path: what `fetch`, `io`, `transfer` and `complete` do, without TLPs or host memory.
//!
//! Flash, power states, rail and port are the controller's own. What differs is only how events wait: most are over within
//! a microsecond, so there are few of them at a time; of the others, most come in order of time by themselves.

use super::steps::{kind, Later, Piece, Read, Soon, Want};
use super::stream::{self, Heap, Near, Stream, NEVER, NO_KEY};
use crate::controller::{Controller, Event};
use crate::host::{BusSink, CommandTruth};
use crate::nvme::io;
use crate::nvme::prp::PAGE;
use crate::profile::{Ps, LBA, NS};
use std::collections::VecDeque;
use wattbell_bus::Direction::{Down, Up};

/// SQE reads outstanding at a time, as in `fetch`.
const FETCHES: usize = 4;
/// Reads of host memory outstanding at a time, as in `transfer`.
const MAX_READS: usize = 12;

/// A command in hand.
#[derive(Clone, Copy, Default)]
pub struct Command {
    pub truth: CommandTruth,
    pub(super) len: u32,
    pub(super) done: u32,
    /// Whose it is: job and slot.
    pub owner: (u32, u32),
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u32>,
    rung: u32,
    head: u32,
    size: u32,
    /// Commands whose CQE is written, oldest first, and how many of them the host can see.
    posted: VecDeque<u32>,
    visible: usize,
}

/// Symbol times of TLPs, in picoseconds.
pub(super) struct Times {
    doorbell: Ps,
    sqe_request: Ps,
    cqe: Ps,
    msix: Ps,
    data_request: Ps,
    pub payload_write: Ps,
    payload_answer: Ps,
    pub max_payload: u32,
    max_read: u32,
}

/// The drive while jobs run on it.
pub struct Drive<'a, S: BusSink> {
    pub c: &'a mut Controller<S>,
    pub commands: Vec<Command>,
    spare: Vec<u32>,
    queues: Vec<Queue>,
    pub(super) soon: Near<Soon>,
    execute: Stream<u32>,
    pub(super) path: Stream<Piece>,
    pub(super) later: Heap<Later>,
    /// When interrupt handlers run, and their queues.
    pub handlers: VecDeque<(Ps, u16)>,
    pub(super) dma_queue: VecDeque<(u32, u32)>,
    deferred: VecDeque<(Want, u32)>,
    pub(super) runs: Vec<(Ps, u64, u64)>,
    /// Key of what the controller does of its own accord.
    pub(super) own: u64,
    /// The drive's events from this time on wait for the host.
    pub limit: Ps,
    pub(super) times: Times,
    pub(super) write_through: bool,
    pub(super) base: u64,
    last_queue: usize,
    interrupt_latency: Ps,
}

impl<'a, S: BusSink> Drive<'a, S> {
    /// Takes the controller over, with the programs it has under way; `None` if it has anything else in hand.
    /// `interrupt_latency`: from an interrupt message to the host's handler.
    pub fn new(c: &'a mut Controller<S>, queues: usize, interrupt_latency: Ps) -> Option<Self> {
        let base = c.lean_base()?;
        if c.in_hand != 0 || !c.only_programs_wait() || (1..queues).any(|q| c.features.coalescing(q as u16).1 != 0) {
            return None;
        }
        let mut later = Heap::new(kind::LATER);
        for (at, units) in c.take_programs() {
            later.push(at, Later::Programmed(units));
        }
        let bytes = |n: u32| c.port.tlp_ps(n as usize);
        let (max_payload, max_read) = c.port.limits();
        let times = Times {
            doorbell: bytes(12 + 4),
            sqe_request: bytes(12),
            cqe: bytes(12 + 16),
            msix: bytes(12 + 4),
            data_request: bytes(16),
            payload_write: bytes(16 + max_payload),
            payload_answer: bytes(12 + max_payload),
            max_payload,
            max_read,
        };
        let list = (0..queues).map(|q| {
            let sq = c.sqs.get(&(q as u16));
            Queue { head: sq.map_or(0, |s| s.next), size: sq.map_or(2, |s| s.size), ..Queue::default() }
        });
        let (queues, write_through) = (list.collect(), !c.features.write_cache());
        let mut drive = Self {
            commands: Vec::new(),
            spare: Vec::new(),
            queues,
            soon: Near::new(),
            execute: Stream::new(kind::EXECUTE),
            path: Stream::new(kind::PATH),
            later,
            handlers: VecDeque::new(),
            dma_queue: VecDeque::new(),
            deferred: VecDeque::new(),
            runs: Vec::with_capacity(64),
            own: NO_KEY,
            limit: NEVER,
            times,
            write_through,
            base,
            last_queue: usize::from(c.last_served),
            interrupt_latency,
            c,
        };
        drive.look_again();
        Some(drive)
    }

    /// Gives the controller back what is still under way.
    pub fn give_back(mut self) {
        while let Some((at, event)) = self.later.pop() {
            if let Later::Programmed(units) = event {
                self.c.at(at, Event::Programmed(units));
            }
        }
        self.c.last_served = self.last_queue as u16;
    }

    #[inline]
    fn next(&self) -> u64 {
        self.soon.head.min(self.execute.head).min(self.path.head).min(self.later.head.min(self.own))
    }

    /// When the drive does something next.
    #[inline]
    pub fn next_ps(&self) -> Ps {
        stream::time(self.next())
    }

    /// When the controller does something of its own accord: flush, power states, link, moving data. Too early a time is
    /// harmless ([`Drive::act`] looks again), too late a time is not.
    pub(super) fn look_again(&mut self) {
        let c = &self.c;
        let own = [c.flash.next_flush_ps(), c.states.next_ps(), c.link_ps(), c.relocation_ps()];
        self.own = stream::key(own.into_iter().flatten().min().unwrap_or(NEVER), kind::OWN);
    }

    /// Does everything that is due up to and including `now`.
    #[inline]
    pub fn run_to(&mut self, now: Ps) {
        loop {
            let next = self.next();
            if stream::time(next) > now {
                break;
            }
            self.step(next);
        }
        self.c.now = self.c.now.max(now);
    }

    /// Does everything that is due before [`Drive::limit`], but stops after what happens at one time if that is not
    /// before `rest`.
    pub fn run(&mut self, rest: Ps) {
        let mut next = self.next();
        while stream::time(next) < self.limit {
            self.step(next);
            let after = self.next();
            if self.c.now >= rest && stream::time(after) > stream::time(next) {
                break;
            }
            next = after;
        }
    }

    /// Does the event of this key, which is the next.
    #[inline]
    fn step(&mut self, next: u64) {
        self.c.now = self.c.now.max(stream::time(next));
        match stream::kind(next) {
            kind::EXECUTE => {
                if let Some(id) = self.execute.pop() {
                    self.execute(id);
                }
            }
            kind::LATER => match self.later.pop() {
                Some((_, Later::Page { id, len })) => self.page_ready(id, len),
                Some((_, Later::Complete(id))) => self.complete(id),
                Some((_, Later::Programmed(units))) => {
                    self.c.flash.programmed(units);
                    self.admit_writes();
                    self.settle();
                }
                None => {}
            },
            kind::PATH => {
                if let Some(piece) = self.path.pop() {
                    self.through(piece);
                }
            }
            kind::OWN => self.act(),
            _ => match self.soon.pop() {
                Some(Soon::Complete(id)) => self.complete(id),
                Some(Soon::Post(id)) => self.post(id),
                Some(Soon::Bell(queue)) => self.bell(queue),
                Some(Soon::Arbitrate) => self.arbitrate(),
                Some(Soon::Answer(read)) => self.answered(read),
                Some(Soon::Arrived(Want::Sqes { queue, count }, first)) => self.sqes_in(queue, count, first),
                Some(Soon::Arrived(Want::List(id), _)) => self.transfer(id),
                _ => {}
            },
        }
    }

    /// What the controller does of its own accord, in the order of `Controller::run_to`.
    fn act(&mut self) {
        let now = self.c.now;
        if self.c.flash.next_flush_ps().is_some_and(|t| t <= now) {
            self.flush();
        } else if self.c.relocation_ps().is_some_and(|t| t <= now) {
            self.c.relocate_idle();
        } else if self.c.link_ps().is_some_and(|t| t <= now) {
            self.c.port.go_idle(now);
            self.c.draw_link();
        } else if self.c.states.next_ps().is_some_and(|t| t <= now) {
            self.c.states.step(now, &mut self.c.meter);
        } // else what was due has moved on since it was looked for
        self.look_again();
    }

    #[inline]
    pub(super) fn lane(&mut self, at: Ps, direction: wattbell_bus::Direction, time: Ps) -> Ps {
        let at = self.c.wake_link(at);
        self.c.port.claim(at, direction, time)
    }

    /// The host has put a command into a queue and rings its doorbell at `at`.
    pub fn submit(&mut self, at: Ps, mut truth: CommandTruth, owner: (u32, u32)) {
        self.run_to(at);
        let first = self.lane(self.c.now, Down, self.times.doorbell);
        truth.doorbell_ps = first;
        let command = Command { truth, len: (truth.blocks * LBA) as u32, done: 0, owner };
        let id = match self.spare.pop() {
            Some(id) => {
                self.commands[id as usize] = command;
                id
            }
            None => {
                self.commands.push(command);
                self.commands.len() as u32 - 1
            }
        };
        self.queues[usize::from(truth.qid)].waiting.push_back(id);
        let rung = first + self.times.doorbell + self.c.port.flight;
        self.soon.push(rung, kind::BELL, Soon::Bell(truth.qid));
    }

    fn bell(&mut self, queue: u16) {
        self.queues[usize::from(queue)].rung += 1;
        let now = self.c.now;
        let ready = self.c.states.busy(now, true, &mut self.c.meter);
        if !self.c.arbitrating {
            self.arbitrate_at(ready.max(now + self.c.timing.to_fetch));
        }
        if ready > now {
            self.look_again();
        }
    }

    fn arbitrate_at(&mut self, at: Ps) {
        self.c.arbitrating = true;
        self.soon.push(at, kind::ARBITRATE, Soon::Arbitrate);
    }

    fn arbitrate(&mut self) {
        self.c.arbitrating = false;
        let count = self.queues.len();
        let waits = |q: usize| (self.queues[q].rung > 0).then_some(q);
        let same = self.c.burst_left.is_none_or(|left| left > 0).then(|| waits(self.last_queue)).flatten();
        let next = || (1..=count).find_map(|i| waits((self.last_queue + i) % count));
        let Some(index) = same.or_else(next) else {
            self.c.burst_left = Some(0);
            return self.settle();
        };
        let now = self.c.now;
        if self.c.reads_outstanding >= FETCHES + self.c.timing.dma_reads {
            return self.arbitrate_at(now + 200 * NS);
        }
        if same.is_none() {
            (self.last_queue, self.c.burst_left) = (index, self.c.features.arbitration_burst());
        }
        let batch = self.c.burst_left.unwrap_or(u32::MAX).min(*self.c.profile.limits.fetch_batch);
        let q = &mut self.queues[index];
        let taken = q.rung.min(batch).min(q.size - q.head).min(64 - q.head % 64);
        q.head = (q.head + taken) % q.size;
        q.rung -= taken;
        self.c.burst_left = self.c.burst_left.map(|left| left - taken);
        self.c.in_hand += taken;
        self.read_host(Want::Sqes { queue: index as u16, count: taken as u16 }, 64 * taken);
        if self.queues.iter().any(|q| q.rung > 0) {
            self.arbitrate_at(now + 50 * NS);
        }
    }

    pub(super) fn read_host(&mut self, want: Want, len: u32) {
        if self.c.reads_outstanding >= MAX_READS {
            self.deferred.push_back((want, len));
            return;
        }
        self.c.reads_outstanding += 1;
        let each = if matches!(want, Want::Data { .. }) { self.times.data_request } else { self.times.sqe_request };
        let time = each * u64::from(len.div_ceil(self.times.max_read));
        let first = self.lane(self.c.now, Up, time);
        let answer = first + time + self.c.port.flight + self.c.port.host_read;
        self.soon.push(answer, kind::ANSWER, Soon::Answer(Read { want, len, first }));
    }

    /// The root complex answers: structures and lists begin at multiples of the largest payload, user data too.
    fn answered(&mut self, read: Read) {
        self.c.reads_outstanding -= 1;
        let (whole, rest) = (read.len / self.times.max_payload, read.len % self.times.max_payload);
        let tail = if rest > 0 { self.c.port.tlp_ps(12 + rest as usize) } else { 0 };
        let time = self.times.payload_answer * u64::from(whole) + tail;
        let first = self.c.port.claim(self.c.now, Down, time);
        let arrival = first + time + self.c.port.flight;
        match read.want {
            Want::Data { id, len } => {
                let last = first + time - if rest > 0 { tail } else { self.times.payload_answer };
                self.commands[id as usize].truth.data(first, last);
                let through = self.c.data_path(arrival, len);
                self.path.push(through, Piece { id, len, inward: true });
            }
            want => self.soon.push(arrival, kind::ARRIVED, Soon::Arrived(want, read.first)),
        }
        while self.c.reads_outstanding < MAX_READS {
            let Some((want, len)) = self.deferred.pop_front() else { break };
            self.read_host(want, len);
        }
    }

    fn sqes_in(&mut self, queue: u16, count: u16, first: Ps) {
        for _ in 0..count {
            let Some(id) = self.queues[usize::from(queue)].waiting.pop_front() else { return };
            self.commands[id as usize].truth.fetch_ps = first;
            self.c.health.io_begins(self.c.now);
            self.execute.push(self.c.understood_ps(), id);
        }
    }

    fn execute(&mut self, id: u32) {
        let (truth, len) = (self.commands[id as usize].truth, u64::from(self.commands[id as usize].len));
        match truth.opcode {
            io::FLUSH => {
                let mut done = self.c.now;
                if !self.write_through {
                    self.flush();
                    done = self.c.flash.programmed_ps().max(done);
                }
                self.later.push(done + self.c.timing.completion, Later::Complete(id));
                return;
            }
            io::READ => {
                self.c.health.reads += 1;
                self.c.health.read_units += truth.blocks;
            }
            _ => {
                self.c.health.writes += 1;
                self.c.health.written_units += truth.blocks;
                self.c.maintenance.data_written();
            }
        }
        let pages = len.div_ceil(PAGE);
        if pages > 2 {
            self.read_host(Want::List(id), 8 * (pages as u32 - 1));
        } else {
            self.transfer(id);
        }
    }

    fn complete(&mut self, id: u32) {
        let first = self.lane(self.c.now, Up, self.times.cqe);
        let truth = &mut self.commands[id as usize].truth;
        truth.cqe_ps = first;
        self.c.health.io_ends(self.c.now, 1);
        self.queues[usize::from(truth.qid)].posted.push_back(id);
        self.soon.push(first + self.times.cqe + self.c.timing.msix, kind::POST, Soon::Post(id));
    }

    fn post(&mut self, id: u32) {
        let queue = self.commands[id as usize].truth.qid;
        self.c.in_hand -= 1;
        let first = self.lane(self.c.now, Up, self.times.msix);
        let q = &mut self.queues[usize::from(queue)];
        q.visible += 1;
        for &id in q.posted.iter().rev() {
            let truth = &mut self.commands[id as usize].truth;
            if truth.msix_ps.is_some() {
                break;
            }
            if truth.cqe_ps < first {
                truth.msix_ps = Some(first);
            }
        }
        let handler = first + self.times.msix + self.c.port.flight + self.interrupt_latency;
        self.handlers.push_back((handler, queue));
        self.limit = self.limit.min(handler);
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        if self.c.in_hand == 0 {
            self.c.settle();
            self.look_again();
        }
    }

    /// What the host sees in a completion queue is taken out and its head doorbell rung at `at`. The commands' numbers in
    /// `commands`, which hold until the next one is submitted, are put into `out`.
    pub fn reap(&mut self, queue: u16, at: Ps, out: &mut Vec<u32>) {
        let q = &mut self.queues[usize::from(queue)];
        let visible = std::mem::take(&mut q.visible);
        if visible == 0 {
            return;
        }
        self.run_to(at);
        let first = self.lane(self.c.now, Down, self.times.doorbell);
        let q = &mut self.queues[usize::from(queue)];
        for id in q.posted.drain(..visible.min(q.posted.len())) {
            self.commands[id as usize].truth.cq_head_ps = Some(first);
            self.spare.push(id);
            out.push(id);
        }
    }
}
