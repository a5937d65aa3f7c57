//! The drive's side of the lean path: what `fetch`, `io`, `transfer` and `complete` do, without TLPs or host memory.
//!
//! Flash, power states, rail and port are the controller's own. What differs is only how events wait: nearly every kind
//! comes in order of time by itself, so it has a queue of its own, and the next event is the earliest of the heads.

use super::stream::{Heap, Stream, NEVER};
use crate::controller::{Controller, Event};
use crate::host::{BusSink, CommandTruth};
use crate::nvme::io;
use crate::profile::{Ps, LBA, NS};
use crate::prp::PAGE;
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

/// What a read of host memory was for.
#[derive(Clone, Copy)]
pub(super) enum Want {
    Sqes { queue: u16, count: u16 },
    List(u32),
    Data { id: u32, len: u32 },
}

/// A read that the root complex will answer, or that waits for its turn.
#[derive(Clone, Copy)]
struct Read {
    want: Want,
    len: u32,
    first: Ps,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Later {
    Page { id: u32, len: u32 },
    Complete(u32),
    Programmed(u64),
}

/// A piece on its way through the controller's data path.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub id: u32,
    pub len: u32,
    pub inward: bool,
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
    bells: Stream<(u16, Ps)>,
    arbitrate: Ps,
    answers: Stream<Read>,
    arrived: Stream<(Want, Ps)>,
    execute: Stream<u32>,
    pub(super) path: Stream<Piece>,
    pub(super) complete_reads: Stream<u32>,
    pub(super) complete_writes: Stream<u32>,
    posts: Stream<u32>,
    pub(super) later: Heap<Later>,
    /// Interrupts: when their message has arrived, and their queue.
    pub interrupts: VecDeque<(Ps, u16)>,
    pub(super) dma_queue: VecDeque<(u32, u32)>,
    deferred: VecDeque<(Want, u32)>,
    pub(super) runs: Vec<(Ps, u64, u64)>,
    pub(super) own: Ps,
    pub(super) times: Times,
    pub(super) write_through: bool,
    pub(super) base: u64,
    last_queue: usize,
}

impl<'a, S: BusSink> Drive<'a, S> {
    /// Takes the controller over, with the programs it has under way; `None` if it has anything else in hand.
    pub fn new(c: &'a mut Controller<S>, queues: usize) -> Option<Self> {
        let base = c.lean_base()?;
        if c.in_hand != 0 || !c.only_programs_wait() || (1..queues).any(|q| c.features.coalescing(q as u16).1 != 0) {
            return None;
        }
        let mut later = Heap::new();
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
            bells: Stream::new(),
            arbitrate: NEVER,
            answers: Stream::new(),
            arrived: Stream::new(),
            execute: Stream::new(),
            path: Stream::new(),
            complete_reads: Stream::new(),
            complete_writes: Stream::new(),
            posts: Stream::new(),
            later,
            interrupts: VecDeque::new(),
            dma_queue: VecDeque::new(),
            deferred: VecDeque::new(),
            runs: Vec::with_capacity(64),
            own: NEVER,
            times,
            write_through,
            base,
            last_queue: usize::from(c.last_served),
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

    /// When the drive does something next.
    #[inline]
    pub fn next_ps(&self) -> Ps {
        let a = self.bells.head.min(self.arbitrate).min(self.answers.head).min(self.arrived.head);
        let b = self.execute.head.min(self.path.head).min(self.complete_reads.head).min(self.complete_writes.head);
        a.min(b).min(self.posts.head).min(self.later.head).min(self.own)
    }

    /// When the controller does something of its own accord: flush, power states, link, moving data. Too early a time is
    /// harmless ([`Drive::act`] looks again), too late a time is not.
    pub(super) fn look_again(&mut self) {
        let c = &self.c;
        let own = [c.flash.next_flush_ps(), c.states.next_ps(), c.link_ps(), c.relocation_ps()];
        self.own = own.into_iter().flatten().min().unwrap_or(NEVER);
    }

    /// Does everything that is due up to and including `now`.
    #[inline]
    pub fn run_to(&mut self, now: Ps) {
        loop {
            let at = self.next_ps();
            if at > now {
                break;
            }
            self.c.now = self.c.now.max(at);
            self.step(at);
        }
        self.c.now = self.c.now.max(now);
    }

    /// The first event of those due at `at`.
    fn step(&mut self, at: Ps) {
        if self.execute.head == at {
            if let Some((_, id)) = self.execute.pop() {
                self.execute(id);
            }
        } else if self.later.head == at {
            match self.later.pop() {
                Some((_, Later::Page { id, len })) => self.page_ready(id, len),
                Some((_, Later::Complete(id))) => self.complete(id),
                Some((_, Later::Programmed(units))) => {
                    self.c.flash.programmed(units);
                    self.admit_writes();
                    self.settle();
                }
                None => {}
            }
        } else if self.path.head == at {
            if let Some((_, piece)) = self.path.pop() {
                self.through(piece);
            }
        } else if self.complete_reads.head == at {
            if let Some((_, id)) = self.complete_reads.pop() {
                self.complete(id);
            }
        } else if self.complete_writes.head == at {
            if let Some((_, id)) = self.complete_writes.pop() {
                self.complete(id);
            }
        } else if self.posts.head == at {
            if let Some((_, id)) = self.posts.pop() {
                self.post(id);
            }
        } else if self.bells.head == at {
            if let Some((_, (queue, first))) = self.bells.pop() {
                self.bell(queue, first);
            }
        } else if self.arbitrate == at {
            self.arbitrate();
        } else if self.answers.head == at {
            if let Some((_, read)) = self.answers.pop() {
                self.answered(read);
            }
        } else if self.arrived.head == at {
            match self.arrived.pop() {
                Some((_, (Want::Sqes { queue, count }, first))) => self.sqes_in(queue, count, first),
                Some((_, (Want::List(id), _))) => self.transfer(id),
                _ => {}
            }
        } else {
            self.act();
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
        self.bells.push(first + self.times.doorbell + self.c.port.flight, (truth.qid, first));
    }

    fn bell(&mut self, queue: u16, _first: Ps) {
        self.queues[usize::from(queue)].rung += 1;
        let now = self.c.now;
        let ready = self.c.states.busy(now, true, &mut self.c.meter);
        if self.arbitrate == NEVER {
            self.c.arbitrating = true;
            self.arbitrate = ready.max(now + self.c.timing.to_fetch);
        }
        if ready > now {
            self.look_again();
        }
    }

    fn arbitrate(&mut self) {
        (self.arbitrate, self.c.arbitrating) = (NEVER, false);
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
            (self.arbitrate, self.c.arbitrating) = (now + 200 * NS, true);
            return;
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
            (self.arbitrate, self.c.arbitrating) = (now + 50 * NS, true);
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
        self.answers.push(answer, Read { want, len, first });
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
            want => self.arrived.push(arrival, (want, read.first)),
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
            let slow = self.c.states.slowdown();
            let start = self.c.now.max(self.c.cpu_free);
            self.c.cpu_free = start + (self.c.timing.occupancy as f64 * slow) as Ps;
            self.execute.push(start + (self.c.timing.command as f64 * slow) as Ps, id);
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
        self.posts.push(first + self.times.cqe + self.c.timing.msix, id);
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
        self.interrupts.push_back((first + self.times.msix + self.c.port.flight, queue));
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        if self.c.in_hand == 0 {
            self.c.settle();
            self.look_again();
        }
    }

    /// What the host sees in a completion queue is taken out and its head doorbell rung at `at`.
    pub fn reap(&mut self, queue: u16, at: Ps, out: &mut Vec<Command>) {
        let q = &mut self.queues[usize::from(queue)];
        let visible = std::mem::take(&mut q.visible);
        if visible == 0 {
            return;
        }
        self.run_to(at);
        let first = self.lane(self.c.now, Down, self.times.doorbell);
        for _ in 0..visible {
            let Some(id) = self.queues[usize::from(queue)].posted.pop_front() else { return };
            let mut command = self.commands[id as usize];
            command.truth.cq_head_ps = Some(first);
            self.spare.push(id);
            out.push(command);
        }
    }
}
