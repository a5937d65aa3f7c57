//! Jobs without TLPs, for traces that hold I/O commands as SUMMARY records.
//!
//! Host and drive act as in `engine` and in the controller, at the same times; only the transport is leaner. Instants agree to the
//! picosecond, with two exceptions. Two events at the same instant may change their order. The doorbells of several threads may meet on
//! the link. Work that the lean path cannot do (trims, interrupt coalescing) runs through the controller with its TLPs.

use super::cpu;
use super::device::{Device, DriverError};
use super::engine::{finish_jobs, make_jobs, GroupOutcome};
use super::job::{commands, Job, Numbers};
use super::together::Together;
use crate::controller::lean::{Drive, NEVER};
use crate::fio::{Direction, JobSpec};
use crate::host::{BusSink, CommandTruth};
use crate::nvme::io;
use crate::nvme::prp::PAGE;
use crate::profile::{Ps, LBA};

/// Whether these jobs can run without TLPs.
pub fn can_run(specs: &[JobSpec]) -> bool {
    specs.iter().all(|s| !s.trims())
}

/// Runs a group of jobs as `engine::run_group` does, without TLPs. Returns `None` if the controller has work in hand that needs TLPs.
pub fn run_group<S: BusSink>(
    device: &mut Device<S>,
    specs: &[JobSpec],
    numbers: Numbers,
    seed: u64,
) -> Result<Option<GroupOutcome>, DriverError> {
    device.controller.advance(device.now, &mut device.memory);
    let mut jobs = make_jobs(device, specs, numbers, seed)?;
    let (now, mdts) = (device.now, *device.controller.profile().limits.mdts);
    let Device { controller, queues, .. } = device;
    let Some(drive) = Drive::new(controller, queues.len(), cpu::INTERRUPT) else { return Ok(None) };
    let together = Together::new(&mut jobs);
    let mut host = JobLoop {
        together,
        next: jobs.iter_mut().map(|j| j.next_start()).collect(),
        need: jobs.iter().map(|j| commands(&j.spec, mdts)).collect(),
        drive,
        queues,
        now,
        done: Vec::with_capacity(64),
        largest: PAGE << mdts,
    };
    host.run(&mut jobs)?;
    let end = host.now.max(host.drive.now_ps());
    let JobLoop { drive, together, .. } = host;
    drive.give_back();
    device.now = end;
    Ok(Some(finish_jobs(jobs, &together)))
}

/// Whether no job has anything left to do.
fn all_done(jobs: &[Job]) -> bool {
    jobs.iter().all(Job::is_over)
}

struct JobLoop<'a, S: BusSink> {
    drive: Drive<'a, S>,
    queues: &'a mut Vec<super::device::QueuePair>,
    /// For each job, the time of its next I/O, and the number of commands that this I/O may take.
    next: Vec<Option<Ps>>,
    need: Vec<usize>,
    now: Ps,
    done: Vec<u32>,
    /// Most bytes of a command.
    largest: u64,
    together: Together,
}

impl<S: BusSink> JobLoop<'_, S> {
    fn run(&mut self, jobs: &mut [Job]) -> Result<(), DriverError> {
        let (mut issue, mut index) = self.next_issue(jobs);
        let mut over = all_done(jobs);
        loop {
            let handler = self.drive.handlers.front().map_or(NEVER, |h| h.0);
            let event = self.drive.next_ps();
            if event < issue.min(handler) && !over {
                self.drive.limit = issue.min(handler);
                self.drive.run();
            } else if issue != NEVER && issue <= handler.min(event) {
                self.now = self.now.max(issue);
                if !self.together.any || !self.together.pass(jobs, issue) && self.together.admits(jobs, index, issue) {
                    self.start_io(&mut jobs[index], index, issue);
                }
                self.next[index] = jobs[index].next_start();
                self.settle(jobs);
                ((issue, index), over) = (self.next_issue(jobs), all_done(jobs));
            } else if handler != NEVER && handler <= event {
                let Some((_, queue)) = self.drive.handlers.pop_front() else { continue };
                self.together.pass(jobs, handler);
                self.handle(jobs, queue, handler);
                self.settle(jobs);
                ((issue, index), over) = (self.next_issue(jobs), all_done(jobs));
            } else if over {
                return Ok(());
            } else {
                return Err(DriverError::Stuck("I/O".into()));
            }
            self.drive.hand_out_in_time();
        }
    }

    /// Applies the effects of the jobs on each other. Any such effect may change when another job continues.
    fn settle(&mut self, jobs: &mut [Job]) {
        if !self.together.any {
            return;
        }
        loop {
            self.next = jobs.iter_mut().map(Job::next_start).collect();
            if !self.together.settle(jobs, self.now) {
                return;
            }
        }
    }

    /// Returns when the next I/O of a job with room in its queue can start, and the job's number.
    fn next_issue(&self, jobs: &[Job]) -> (Ps, usize) {
        let (mut issue, mut index) = (NEVER, 0);
        for (i, next) in self.next.iter().enumerate() {
            let Some(at) = *next else { continue };
            if at < issue && self.queues[jobs[i].queue].room() >= self.need[i] {
                (issue, index) = (at, i);
            }
        }
        (issue, index)
    }

    fn start_io(&mut self, job: &mut Job, index: usize, at: Ps) {
        let id = job.free.pop().expect("the caller looked for a free slot");
        let submitted = at + cpu::SUBMIT;
        job.cpu_free = submitted;
        let queue = job.queue;
        let owner = (index as u32, id as u32);
        if job.flush_is_due() {
            job.begin_flush(id, at, submitted);
            return self.submit(queue, submitted, io::FLUSH, 0, 0, owner);
        }
        let (direction, offset, bytes) = job.begin_io(id, at, submitted);
        let most = self.largest;
        let parts = bytes.div_ceil(most);
        job.slots[id].left = parts as u32;
        let opcode = if direction == Direction::Read { io::READ } else { io::WRITE };
        for part in 0..parts {
            let from = part * most;
            let len = most.min(bytes - from);
            self.submit(queue, submitted, opcode, (offset + from) / LBA, len / LBA, owner);
        }
    }

    fn submit(&mut self, queue: usize, at: Ps, opcode: u8, slba: u64, blocks: u64, owner: (u32, u32)) {
        let pair = &mut self.queues[queue];
        let cid = pair.take_cid();
        let truth = CommandTruth { qid: pair.qid, cid, opcode, nsid: 1, slba, blocks, ..CommandTruth::default() };
        self.drive.submit(at, truth, owner);
    }

    /// Runs the interrupt handler of a queue, and resumes the jobs that it wakes.
    fn handle(&mut self, jobs: &mut [Job], queue: u16, at: Ps) {
        let at = at.max(self.drive.now_ps());
        let mut done = std::mem::take(&mut self.done);
        self.drive.reap(queue, at, &mut done);
        let mut now = at;
        for id in done.drain(..) {
            let command = &self.drive.commands[id as usize];
            self.queues[usize::from(queue)].give_cid(command.truth.cid);
            let (index, slot) = (command.owner.0 as usize, command.owner.1 as usize);
            let job = &mut jobs[index];
            now += cpu::COMPLETE;
            job.end_command(slot, now, command.truth.status != 0);
            self.next[index] = job.next_start();
        }
        self.done = done;
        self.now = self.now.max(now);
    }
}
