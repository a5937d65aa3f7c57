//! Submission queues: round robin between them in bursts (feature 01h), reading entries, and the firmware taking commands up.

use crate::controller::{Command, Controller, Event, Want};
use crate::host::{BusSink, CommandTruth};
use crate::nvme::{Sqe, Status};
use crate::profile::{Ps, NS};

/// SQE reads outstanding at a time.
const FETCHES: usize = 4;

impl<S: BusSink> Controller<S> {
    pub(crate) fn want_arbitration(&mut self, at: Ps) {
        if !self.arbitrating {
            self.arbitrating = true;
            self.at(at, Event::Arbitrate);
        }
    }

    /// Reads a batch of entries of the next queue in turn.
    pub(crate) fn arbitrate(&mut self) {
        self.arbitrating = false;
        let waiting = |(&qid, sq): (&u16, &crate::nvme::queue::Sq)| (sq.waiting() > 0).then_some(qid);
        let last = self.last_served;
        let same = self.burst_left.is_none_or(|left| left > 0).then(|| self.sqs.get(&last)).flatten();
        let same = same.and_then(|sq| waiting((&last, sq)));
        let after = || self.sqs.range(last + 1..).find_map(waiting);
        let Some(qid) = same.or_else(after).or_else(|| self.sqs.iter().find_map(waiting)) else {
            self.burst_left = Some(0);
            return self.settle();
        };
        if self.reads_outstanding >= FETCHES + self.timing.dma_reads {
            return self.want_arbitration(self.now + 200 * NS);
        }
        if same.is_none() {
            (self.last_served, self.burst_left) = (qid, self.features.arbitration_burst());
        }
        let batch = self.burst_left.unwrap_or(u32::MAX).min(*self.profile.limits.fetch_batch);
        let Some(sq) = self.sqs.get_mut(&qid) else { return };
        let in_page = 64 - sq.next % 64;
        let count = sq.waiting().min(batch).min(sq.size - sq.next).min(in_page);
        let address = sq.base + 64 * u64::from(sq.next);
        let announced: Vec<Ps> = (0..count).map(|_| sq.ask()).collect();
        self.burst_left = self.burst_left.map(|left| left - count);
        let more = self.sqs.values().any(|sq| sq.waiting() > 0);
        self.in_hand += count;
        self.read_host(Want::Sqes { qid, announced, first: 0 }, address, 64 * count);
        if more {
            self.want_arbitration(self.now + 50 * NS);
        }
    }

    pub(crate) fn sqes_in(&mut self, qid: u16, announced: &[Ps], first: Ps, bytes: &[u8]) {
        let count = announced.len() as u32;
        let Some(sq) = self.sqs.get_mut(&qid) else {
            self.in_hand -= count; // the queue was deleted meanwhile
            return self.settle();
        };
        sq.fetched(count);
        for (entry, &doorbell_ps) in bytes.chunks_exact(64).zip(announced) {
            let mut sqe = [0; 64];
            sqe.copy_from_slice(entry);
            let sqe = Sqe(sqe);
            let truth = CommandTruth {
                qid,
                cid: sqe.cid(),
                opcode: sqe.opcode(),
                nsid: sqe.nsid(),
                slba: u64::from(sqe.cdw(10)),
                blocks: u64::from(sqe.cdw(11)),
                doorbell_ps,
                fetch_ps: first,
                ..CommandTruth::default()
            };
            let id = self.new_command(Command {
                sqe,
                qid,
                pieces: Vec::new(),
                len: 0,
                done: 0,
                dw0: 0,
                status: Status::SUCCESS,
                data: Vec::new(),
                buffered: 0,
                at: 0,
                shift: 9,
                truth,
            });
            if qid != 0 {
                self.health.io_begins(self.now);
            }
            let at = self.understood_ps();
            self.at(at, Event::Execute(id));
        }
    }

    /// When the command that was just fetched is understood. Commands stay in the order of their fetch.
    pub(crate) fn understood_ps(&mut self) -> Ps {
        let slow = self.states.slowdown();
        let start = self.now.max(self.cpu_free);
        self.cpu_free = start + (self.timing.occupancy as f64 * slow) as Ps;
        let time = self.timing.command as f64 * slow * self.command_variation.factor();
        self.last_understood = self.last_understood.max(start + time as Ps);
        self.last_understood
    }

    fn new_command(&mut self, command: Command) -> u32 {
        if let Some(id) = self.spare.pop() {
            self.commands[id as usize] = Some(command);
            id
        } else {
            self.commands.push(Some(command));
            self.commands.len() as u32 - 1
        }
    }

    /// The command `id`, which is in hand.
    pub(crate) fn command(&mut self, id: u32) -> &mut Command {
        self.commands[id as usize].as_mut().expect("an event names a command in hand")
    }
}
