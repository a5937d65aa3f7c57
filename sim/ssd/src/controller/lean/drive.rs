//! The drive's side of the lean path: the work of `fetch`, `io`, `transfer` and `complete`, without TLPs or host memory.
//!
//! Flash, power states, rail and port are the controller's own. Only the queues of events differ. Most events are due within a
//! microsecond, so few wait at a time. Most of the others arrive in order of time.

use super::out::Merger;
use super::steps::{kind, Later, Piece, Read, Soon, Want};
use super::stream::{self, Heap, Near, Stream, NEVER, NO_KEY};
use crate::controller::agenda::Event;
use crate::controller::fetch::{CROWDED, NEXT_TURN};
use crate::controller::Controller;
use crate::host::{see_data, BusSink, CommandTruth};
use crate::io::reads::HostReads;
use crate::nvme::io;
use crate::nvme::prp::PAGE;
use crate::nvme::queues::Turn;
use crate::profile::{Ps, LBA, MS};
use std::collections::VecDeque;
use wattbell_bus::Direction::{Down, Up};

/// Virtual time between handing out records.
const HAND_OUT: Ps = MS;

/// A command in hand.
#[derive(Clone, Copy, Default)]
pub struct Command {
    pub truth: CommandTruth,
    pub(super) len: u32,
    pub(super) done: u32,
    /// Reading of the energy account when the command's doorbell was rung, in joule.
    begun_j: f64,
    /// The command's owner: job and slot.
    pub owner: (u32, u32),
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u32>,
    rung: u32,
    head: u32,
    size: u32,
    /// Commands with a written CQE, oldest first, and how many of these the host can see.
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
    pub(super) c: &'a mut Controller<S>,
    pub commands: Vec<Command>,
    spare: Vec<u32>,
    queues: Vec<Queue>,
    pub(super) soon: Near<Soon>,
    execute: Stream<u32>,
    pub(super) path: Stream<Piece>,
    pub(super) later: Heap<Later>,
    /// When interrupt handlers run, and their queues.
    pub handlers: VecDeque<(Ps, u16)>,
    pub(super) waiting_writes: VecDeque<u32>,
    /// Reads of host memory (what for, bytes), and write data to read (command, bytes).
    pub(super) reads: HostReads<(Want, u32), (u32, u32)>,
    in_hand: u32,
    arbitrating: bool,
    turn: Turn,
    pub(super) runs: Vec<(Ps, u64, u64)>,
    /// Key of the controller's next own action.
    pub(super) own: u64,
    /// The drive's events from this time on wait for the host.
    pub limit: Ps,
    pub(super) times: Times,
    pub(super) write_through: bool,
    pub(super) base: u64,
    interrupt_latency: Ps,
    merger: Merger,
    handed_out: Ps,
}

impl<'a, S: BusSink> Drive<'a, S> {
    /// Takes over the controller and its running programs. Returns `None` if the controller has other work in hand. It also returns `None`
    /// if namespace 1 has blocks of another size than 512 bytes, or if a command needs an individual check.
    ///
    /// `interrupt_latency`: time from an interrupt message to the host's handler.
    pub fn new(c: &'a mut Controller<S>, queues: usize, interrupt_latency: Ps) -> Option<Self> {
        let base = c.admin.namespaces.named(1).ok().filter(|n| n.shift == 9)?.base;
        let plain = c.media.is_plain() && !c.admin.maintenance.busy();
        let awaits_event = c.admin.features.power_threshold().is_some();
        if !plain
            || awaits_event
            || !c.commands.idle()
            || (1..queues).any(|q| c.admin.features.coalescing(q as u16).is_some())
        {
            return None;
        }
        let mut later = Heap::new(kind::LATER);
        for (at, event) in c.agenda.take_rest()? {
            match event {
                Event::Programmed(units) => later.push(at, Later::Programmed(units)),
                Event::Lent(access) => later.push(at, Later::Lent(access)),
                Event::LentAnswer => later.push(at, Later::LentAnswer),
                _ => {}
            }
        }
        let bytes = |n: u32| c.pcie.port.tlp_ps(n as usize);
        let (max_payload, max_read) = c.pcie.port.limits();
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
            let (head, size) = c.queues.sq(q as u16).unwrap_or((0, 2));
            Queue { head, size, ..Queue::default() }
        });
        let (queues, write_through) = (list.collect(), !c.admin.features.write_cache());
        let mut drive = Self {
            commands: Vec::new(),
            spare: Vec::new(),
            queues,
            soon: Near::new(),
            execute: Stream::new(kind::EXECUTE),
            path: Stream::new(kind::PATH),
            later,
            handlers: VecDeque::new(),
            waiting_writes: VecDeque::new(),
            reads: HostReads::new(*c.profile.controller.dma_reads as usize),
            in_hand: 0,
            arbitrating: false,
            turn: c.queues.turn(),
            runs: Vec::with_capacity(64),
            own: NO_KEY,
            limit: NEVER,
            times,
            write_through,
            base,
            interrupt_latency,
            merger: Merger::default(),
            handed_out: c.now,
            c,
        };
        drive.look_again();
        Some(drive)
    }

    /// Time up to which everything has happened.
    pub fn now_ps(&self) -> Ps {
        self.c.now
    }

    /// Hands out what cannot change any more, if it is time for that.
    pub fn hand_out_in_time(&mut self) {
        if self.c.now >= self.handed_out + HAND_OUT {
            self.hand_out();
        }
    }

    fn hand_out(&mut self) {
        let c = &mut *self.c;
        c.warm();
        c.power.meter.advance(c.now);
        let horizon = c.power.meter.horizon().min(c.now);
        self.merger.hand_out(horizon, &mut c.pcie.port, &mut c.power.meter, &mut c.sink);
        self.handed_out = c.now;
    }

    /// Hands out everything and returns the unfinished work to the controller.
    pub fn give_back(mut self) {
        self.hand_out();
        self.merger.finish(&mut self.c.sink);
        while let Some((at, event)) = self.later.pop() {
            let event = match event {
                Later::Programmed(units) => Event::Programmed(units),
                Later::Lent(access) => Event::Lent(access),
                Later::LentAnswer => Event::LentAnswer,
                Later::Page { .. } | Later::Complete(_) => continue,
            };
            self.c.agenda.at(at, event);
        }
        self.c.queues.set_turn(self.turn);
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
        self.own = stream::key(self.c.own_ps().unwrap_or(NEVER), kind::OWN);
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

    /// Executes every event due before [`Drive::limit`]. Stops earlier, after all events of one instant, when records that can no longer
    /// change should be handed out.
    pub fn run(&mut self) {
        let rest = self.handed_out + HAND_OUT;
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
                    self.c.media.flash.programmed(units);
                    self.admit_writes();
                    self.settle();
                }
                Some((_, Later::Lent(access))) => {
                    let answer = self.c.reach_lent(access, None);
                    self.expect_lent(answer);
                }
                Some((_, Later::LentAnswer)) => {
                    let answer = self.c.lent_answered(None);
                    self.expect_lent(answer);
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

    /// Performs the controller's own action that is due. Does nothing if the action was postponed since its time was computed.
    fn act(&mut self) {
        if let Some(program) = self.c.act(self.c.now) {
            self.later.push(program.end, Later::Programmed(program.units));
        }
        self.look_again();
    }

    #[inline]
    pub(super) fn lane(&mut self, at: Ps, direction: wattbell_bus::Direction, time: Ps) -> Ps {
        let at = self.c.wake_link(at);
        self.c.pcie.port.claim(at, direction, time)
    }

    /// The host has put a command into a queue and rings its doorbell at `at`.
    pub fn submit(&mut self, at: Ps, mut truth: CommandTruth, owner: (u32, u32)) {
        self.run_to(at);
        let first = self.lane(self.c.now, Down, self.times.doorbell);
        truth.doorbell_ps = first;
        let command = Command { truth, len: (truth.blocks * LBA) as u32, done: 0, begun_j: 0.0, owner };
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
        let rung = first + self.times.doorbell + self.c.pcie.port.flight;
        self.soon.push(rung, kind::BELL, Soon::Bell(truth.qid));
    }

    fn bell(&mut self, queue: u16) {
        self.queues[usize::from(queue)].rung += 1;
        let now = self.c.now;
        let ready = self.c.power.states.busy(now, true, &mut self.c.power.meter);
        self.c.power.meter.account.rung(now, queue, 1);
        if !self.arbitrating {
            self.arbitrate_at(ready.max(now + self.c.processor.to_fetch));
        }
        if ready > now {
            self.look_again();
        }
    }

    fn arbitrate_at(&mut self, at: Ps) {
        self.arbitrating = true;
        self.soon.push(at, kind::ARBITRATE, Soon::Arbitrate);
    }

    fn arbitrate(&mut self) {
        self.arbitrating = false;
        let (count, last) = (self.queues.len(), usize::from(self.turn.qid));
        let waits = |q: usize| (self.queues[q].rung > 0).then_some(q);
        let same = self.turn.left.is_none_or(|left| left > 0).then(|| waits(last)).flatten();
        let next = || (1..=count).find_map(|i| waits((last + i) % count));
        let Some(index) = same.or_else(next) else {
            self.turn.left = Some(0);
            return self.settle();
        };
        let now = self.c.now;
        if self.reads.crowded() {
            return self.arbitrate_at(now + CROWDED);
        }
        if same.is_none() {
            self.turn = Turn { qid: index as u16, left: self.c.admin.features.arbitration_burst() };
        }
        let q = &mut self.queues[index];
        let taken = self.turn.take(q.rung, q.head, q.size, *self.c.profile.limits.fetch_batch);
        q.head = (q.head + taken) % q.size;
        q.rung -= taken;
        self.in_hand += taken;
        self.read_host(Want::Sqes { queue: index as u16, count: taken as u16 }, 64 * taken);
        if self.queues.iter().any(|q| q.rung > 0) {
            self.arbitrate_at(now + NEXT_TURN);
        }
    }

    pub(super) fn read_host(&mut self, want: Want, len: u32) {
        if let Some(read) = self.reads.begin((want, len)) {
            self.request(read);
        }
    }

    fn request(&mut self, (want, len): (Want, u32)) {
        let each = if matches!(want, Want::Data { .. }) { self.times.data_request } else { self.times.sqe_request };
        let time = each * u64::from(len.div_ceil(self.times.max_read));
        let first = self.lane(self.c.now, Up, time);
        let answer = first + time + self.c.pcie.port.flight + self.c.pcie.port.host_read;
        self.soon.push(answer, kind::ANSWER, Soon::Answer(Read { want, len, first }));
    }

    /// The root complex answers: structures and lists begin at multiples of the largest payload, user data too.
    fn answered(&mut self, read: Read) {
        self.reads.answered();
        let (whole, rest) = (read.len / self.times.max_payload, read.len % self.times.max_payload);
        let tail = if rest > 0 { self.c.pcie.port.tlp_ps(12 + rest as usize) } else { 0 };
        let time = self.times.payload_answer * u64::from(whole) + tail;
        let first = self.c.pcie.port.claim(self.c.now, Down, time);
        let arrival = first + time + self.c.pcie.port.flight;
        match read.want {
            Want::Data { id, len } => {
                let last = first + time - if rest > 0 { tail } else { self.times.payload_answer };
                see_data(&mut self.commands[id as usize].truth, first, last);
                let before = self.c.power.meter.account.own_fj();
                let through = self.c.data_path.carry(arrival, len, true, &mut self.c.power);
                let own = self.c.power.meter.account.own_fj() - before;
                self.commands[id as usize].truth.own_fj += own as u64;
                self.path.push(through, Piece { id, len, inward: true });
            }
            want => self.soon.push(arrival, kind::ARRIVED, Soon::Arrived(want, read.first)),
        }
        while let Some(read) = self.reads.next() {
            self.request(read);
        }
    }

    fn sqes_in(&mut self, queue: u16, count: u16, first: Ps) {
        for _ in 0..count {
            let Some(id) = self.queues[usize::from(queue)].waiting.pop_front() else { return };
            self.commands[id as usize].truth.fetch_ps = first;
            self.commands[id as usize].begun_j = self.c.power.meter.account.fetched(queue);
            self.c.admin.health.io_begins(self.c.now);
            let slow = self.c.power.states.slowdown();
            self.execute.push(self.c.processor.understood_ps(self.c.now, slow), id);
        }
    }

    fn execute(&mut self, id: u32) {
        let (truth, len) = (self.commands[id as usize].truth, u64::from(self.commands[id as usize].len));
        match truth.opcode {
            io::FLUSH => {
                let mut done = self.c.now;
                if !self.write_through {
                    self.flush();
                    done = self.c.media.flash.programmed_ps().max(done);
                }
                self.later.push(done + self.c.processor.completion, Later::Complete(id));
                return;
            }
            io::READ => self.c.admin.health.read(truth.blocks),
            _ => {
                self.c.admin.health.write(truth.blocks);
                self.c.admin.maintenance.data_written();
            }
        }
        let pages = len.div_ceil(PAGE);
        if pages > 2 {
            let list = (8 * (pages - 1)).next_multiple_of(*self.c.profile.controller.list_read_bytes);
            self.read_host(Want::List(id), list as u32);
        } else {
            self.transfer(id);
        }
    }

    fn complete(&mut self, id: u32) {
        let first = self.lane(self.c.now, Up, self.times.cqe);
        let share_fj = self.c.power.meter.account.over(self.c.now, self.commands[id as usize].begun_j);
        let truth = &mut self.commands[id as usize].truth;
        (truth.cqe_ps, truth.share_fj) = (first, share_fj);
        self.c.admin.note_latency(truth, false);
        self.c.admin.health.io_ends(self.c.now, 1);
        self.queues[usize::from(truth.qid)].posted.push_back(id);
        self.soon.push(first + self.times.cqe + self.c.processor.msix, kind::POST, Soon::Post(id));
    }

    fn post(&mut self, id: u32) {
        let queue = self.commands[id as usize].truth.qid;
        self.in_hand -= 1;
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
        let handler = first + self.times.msix + self.c.pcie.port.flight + self.interrupt_latency;
        self.handlers.push_back((handler, queue));
        self.limit = self.limit.min(handler);
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        if self.in_hand == 0 {
            if !self.arbitrating {
                self.c.settle();
            }
            self.look_again();
        }
    }

    /// Takes the completions that the host sees out of a completion queue, and rings the queue's head doorbell at `at`. Appends the
    /// commands' numbers to `out`. The numbers index `commands` and hold until the next command is submitted.
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
            let truth = &mut self.commands[id as usize].truth;
            truth.cq_head_ps = Some(first);
            self.merger.command(truth);
            self.c.sink.command(truth);
            self.spare.push(id);
            out.push(id);
        }
    }
}
