//! Runs jobs the way fio does, all jobs of a group at the same time, each with its own CPU.

use super::cpu;
use super::device::{sqe, Completion, Device, DriverError};
use super::job::{commands, make_job, Job, Numbers};
use super::together::Together;
use crate::fio::{Direction, JobResult, JobSpec};
use crate::host::BusSink;
use crate::nvme::io;
use crate::nvme::prp::PAGE;
use crate::nvme::sgl;
use crate::profile::{Ps, LBA};
use std::collections::VecDeque;

/// Largest data block that the host describes by one SGL descriptor, in bytes.
const SGL_BLOCK: u64 = 64 << 10;

/// Owner of each command identifier.
type Owners = Vec<Vec<Option<(usize, usize)>>>;

/// Results of jobs that ran together.
pub struct GroupOutcome {
    /// Their results.
    pub results: Vec<JobResult>,
    /// One of these jobs ended all jobs that were to follow.
    pub ends_all: bool,
}

/// Runs `specs` together and returns their results, one for each of their `numjobs`. `seed` is used where a job names none.
pub fn run_group<S: BusSink>(
    device: &mut Device<S>,
    specs: &[JobSpec],
    numbers: Numbers,
    seed: u64,
) -> Result<GroupOutcome, DriverError> {
    let mut jobs = make_jobs(device, specs, numbers, seed)?;
    let mut together = Together::new(&mut jobs);
    let mut owners: Owners = device.queues.iter().map(|_| vec![None; 1024]).collect();
    let mut handlers: VecDeque<(Ps, u16)> = VecDeque::new();
    loop {
        let (memory, controller, queues) = (&mut device.memory, &mut device.controller, &device.queues);
        handlers.extend(memory.handlers.drain(..).map(|(queue, at)| (at, queue)));
        let handler = handlers.front().map(|h| h.0);
        let event = controller.next_event_ps();
        let room = |j: &Job| queues[j.queue].room() >= commands(&j.spec, controller.profile().limits.mdts.value);
        let issue =
            jobs.iter_mut().enumerate().filter(|(_, j)| room(j)).filter_map(|(i, j)| Some((j.next_start()?, i))).min();
        if together.any && together.settle(&mut jobs, device.now) {
            continue;
        }
        let soonest = [handler, event].into_iter().flatten().min();
        match issue {
            Some((at, index)) if soonest.is_none_or(|s| at <= s) => {
                device.now = device.now.max(at);
                if together.any && (together.pass(&mut jobs, at) || !together.admits(&mut jobs, index, at)) {
                    continue;
                }
                start_io(device, &mut jobs[index], index, at, &mut owners);
            }
            _ if handler.is_some() && handler <= event.or(handler) => {
                let Some((at, queue)) = handlers.pop_front() else { continue };
                together.pass(&mut jobs, at);
                handle(device, &mut jobs, usize::from(queue), at, &mut owners);
            }
            _ if jobs.iter().all(Job::is_over) => break,
            _ => match event {
                Some(at) => controller.advance(at, memory),
                None => return Err(DriverError::Stuck("I/O".into())),
            },
        }
    }
    device.now = device.now.max(device.controller.now_ps());
    Ok(finish_jobs(jobs, &together))
}

/// A job for each of the specs' `numjobs`.
pub(super) fn make_jobs<S: BusSink>(
    device: &mut Device<S>,
    specs: &[JobSpec],
    numbers: Numbers,
    seed: u64,
) -> Result<Vec<Job>, DriverError> {
    let mut jobs = Vec::new();
    for spec in specs {
        for clone in 0..spec.numjobs {
            let index = jobs.len();
            jobs.push(make_job(device, &nth(spec, clone), index, numbers, seed ^ u64::from(clone))?);
        }
    }
    Ok(jobs)
}

/// The `clone`th of a spec's `numjobs`.
fn nth(spec: &JobSpec, clone: u32) -> JobSpec {
    JobSpec { offset: spec.offset + spec.offset_increment * u64::from(clone), ..spec.clone() }
}

/// The results of jobs that are done.
pub(super) fn finish_jobs(jobs: Vec<Job>, together: &Together) -> GroupOutcome {
    let mut results: Vec<JobResult> = jobs.into_iter().map(Job::finish).collect();
    for (index, found) in together.steady() {
        results[index].about.insert("steadystate".into(), found);
    }
    GroupOutcome { results, ends_all: together.ends_all }
}

fn start_io<S: BusSink>(device: &mut Device<S>, job: &mut Job, index: usize, at: Ps, owners: &mut Owners) {
    let id = job.free.pop().expect("the caller looked for a free slot");
    let submitted = at + cpu::SUBMIT;
    job.cpu_free = submitted;
    let queue = job.queue;
    if job.flush_is_due() {
        job.begin_flush(id, at, submitted);
        let (cid, _) = device.submit(queue, submitted, sqe(io::FLUSH, 1, 0, [0, 0]));
        owners[queue][usize::from(cid)] = Some((index, id));
        return;
    }
    let (direction, offset, bytes) = job.begin_io(id, at, submitted);
    let most = PAGE << *device.controller.profile().limits.mdts;
    let slot = &mut job.slots[id];
    if direction == Direction::Trim {
        let one = [(offset, bytes)];
        let ranges = if slot.ranges.is_empty() { &one } else { &slot.ranges[..] };
        slot.left = 1;
        let entry = trim(device, ranges, slot.lists[0]);
        let (cid, _) = device.submit(queue, submitted, entry);
        owners[queue][usize::from(cid)] = Some((index, id));
        return;
    }
    slot.left = bytes.div_ceil(most) as u32;
    for part in 0..u64::from(slot.left) {
        let from = part * most;
        let list = slot.lists[part as usize % slot.lists.len()];
        let entry = entry(device, direction, offset + from, most.min(bytes - from), slot.buffer + from, list);
        let (cid, _) = device.submit(queue, submitted, entry);
        owners[queue][usize::from(cid)] = Some((index, id));
    }
}

/// The submission queue entry of a trim, with its ranges (offset and length in bytes) in memory at `list`.
fn trim<S: BusSink>(device: &mut Device<S>, ranges: &[(u64, u64)], list: u64) -> [u8; 64] {
    let memory = device.memory.at(list, 16 * ranges.len());
    for (range, (offset, bytes)) in memory.chunks_exact_mut(16).zip(ranges) {
        range[0..4].fill(0);
        range[4..8].copy_from_slice(&((bytes / LBA) as u32).to_le_bytes());
        range[8..16].copy_from_slice(&(offset / LBA).to_le_bytes());
    }
    sqe(io::DSM, 1, list, [ranges.len() as u32 - 1, 4])
}

/// The submission queue entry of a transfer, with its PRP list in memory at `list`.
fn entry<S: BusSink>(
    device: &mut Device<S>,
    direction: Direction,
    offset: u64,
    bytes: u64,
    buffer: u64,
    list: u64,
) -> [u8; 64] {
    let (slba, blocks) = (offset / LBA, bytes / LBA);
    let opcode = if direction == Direction::Read { io::READ } else { io::WRITE };
    let mut entry = sqe(opcode, 1, buffer, [slba as u32, (slba >> 32) as u32]);
    entry[48..52].copy_from_slice(&(blocks as u32 - 1).to_le_bytes());
    if device.manners.sgls {
        let memory = device.memory.at(list, sgl::BYTES * bytes.div_ceil(SGL_BLOCK) as usize);
        sgl::write(&mut entry, buffer, bytes, SGL_BLOCK, list, memory);
        return entry;
    }
    let pages = bytes.div_ceil(PAGE);
    let prp2 = match pages {
        1 => 0,
        2 => buffer + PAGE,
        _ => {
            let memory = device.memory.at(list, 8 * (pages as usize - 1));
            for (i, bytes) in memory.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&(buffer + PAGE * (i as u64 + 1)).to_le_bytes());
            }
            list
        }
    };
    entry[32..40].copy_from_slice(&prp2.to_le_bytes());
    entry
}

/// Runs the interrupt handler of a queue, and resumes the jobs that it wakes.
fn handle<S: BusSink>(device: &mut Device<S>, jobs: &mut [Job], queue: usize, at: Ps, owners: &mut Owners) {
    let at = at.max(device.controller.now_ps());
    let mut done: Vec<Completion> = Vec::new();
    device.reap(queue, at, &mut done);
    let mut now = at;
    for completion in done {
        let Some((index, id)) = owners[queue][usize::from(completion.cid)].take() else { continue };
        now += cpu::COMPLETE;
        jobs[index].end_command(id, now, completion.status != 0);
    }
    device.now = device.now.max(now);
}
