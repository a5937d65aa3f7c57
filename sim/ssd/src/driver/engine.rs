//! Runs jobs the way fio does, all jobs of a group at the same time, each with its own CPU.

use super::device::{cpu, sqe, Completion, Device, DriverError};
use super::replay::{Replay, Wait};
use crate::fio::{Direction, JobResult, JobSpec, Offsets, Pattern};
use crate::host::BusSink;
use crate::nvme::io;
use crate::nvme::prp::PAGE;
use crate::profile::{Ps, LBA, NS, S as SECOND, US};
use std::collections::VecDeque;

/// One I/O in flight: of one or, beyond the drive's largest transfer, several commands.
#[derive(Clone, Default)]
pub(super) struct Slot {
    buffer: u64,
    lists: Vec<u64>,
    start: Ps,
    submitted: Ps,
    bytes: u64,
    direction: Option<Direction>,
    pub left: u32,
}

pub(super) struct Job {
    pub spec: JobSpec,
    result: JobResult,
    pub queue: usize,
    offsets: [Offsets; 3],
    rng: fastrand::Rng,
    pub slots: Vec<Slot>,
    pub free: Vec<usize>,
    start: Ps,
    pub cpu_free: Ps,
    last_done: Ps,
    total: u64,
    issued_bytes: u64,
    issued_by: [u64; 3],
    issued_ios: [u64; 3],
    next: Option<Direction>,
    thought_at: u64,
    writes_unsynced: u64,
    pub syncing: bool,
    pub stopped: bool,
    trace: Option<Replay>,
}

/// Which direction an I/O of this pattern takes.
fn choose(pattern: Pattern, read_percent: u8, rng: &mut fastrand::Rng) -> Direction {
    match (pattern.read, pattern.write) {
        (true, true) if rng.u8(..100) < read_percent => Direction::Read,
        (_, true) => Direction::Write,
        (true, false) => Direction::Read,
        (false, false) => Direction::Trim,
    }
}

impl Job {
    fn issued(&self) -> u64 {
        self.issued_ios.iter().sum()
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// When the next I/O (or flush) may start; `None` while something must complete first, or nothing is left.
    pub fn next_start(&mut self) -> Option<Ps> {
        if self.stopped || self.free.is_empty() || self.syncing {
            return None;
        }
        if self.spec.fsync > 0 && self.writes_unsynced >= self.spec.fsync {
            return (self.in_flight() == 0).then_some(self.cpu_free);
        }
        let mut at = self.cpu_free.max(self.start);
        if let Some(trace) = &self.trace {
            return match trace.next_start(at, self.in_flight()) {
                Some(Wait::Until(at)) => Some(at),
                Some(Wait::ForOthers) => None,
                None => {
                    self.stopped = true;
                    None
                }
            };
        }
        let (issued, spec) = (self.issued(), &self.spec);
        if spec.thinktime_us > 0 && issued > self.thought_at && issued % spec.thinktime_blocks == 0 {
            if self.in_flight() > 0 {
                return None;
            }
            at = at.max(self.last_done + spec.thinktime_us * US);
        }
        let direction = *self.next.get_or_insert_with(|| choose(spec.pattern, spec.read_percent, &mut self.rng));
        let d = direction as usize;
        if let Some(rate) = spec.rate[d] {
            at = at.max(self.start + (u128::from(self.issued_by[d]) * u128::from(SECOND) / u128::from(rate)) as Ps);
        }
        if let Some(rate) = spec.rate_iops[d] {
            at = at.max(self.start + (u128::from(self.issued_ios[d]) * u128::from(SECOND) / u128::from(rate)) as Ps);
        }
        let done = !spec.time_based && self.issued_bytes + spec.block_size[d] > self.total;
        let done = done || spec.number_ios.is_some_and(|n| issued >= n);
        let late = spec.runtime_us.is_some_and(|r| at >= self.start + r * US);
        if done || late {
            self.stopped = true;
            return None;
        }
        Some(at)
    }

    /// Whether a flush comes before the next I/O.
    pub fn flush_is_due(&self) -> bool {
        if let Some(trace) = &self.trace {
            return trace.flush_is_next();
        }
        self.spec.fsync > 0 && self.writes_unsynced >= self.spec.fsync
    }

    /// Slot `id` becomes a flush.
    pub fn begin_flush(&mut self, id: usize, at: Ps, submitted: Ps) {
        (self.writes_unsynced, self.syncing) = (0, true);
        if let Some(trace) = &mut self.trace {
            trace.take(at);
        }
        let slot = &mut self.slots[id];
        (slot.start, slot.submitted, slot.bytes, slot.direction, slot.left) = (at, submitted, 0, None, 1);
    }

    /// Slot `id` becomes the job's next I/O: direction, offset and length in bytes.
    pub fn begin_io(&mut self, id: usize, at: Ps, submitted: Ps) -> (Direction, u64, u64) {
        if let Some(trace) = &mut self.trace {
            let (direction, offset, bytes) = trace.take(at);
            self.issued_ios[direction as usize] += 1;
            let slot = &mut self.slots[id];
            (slot.start, slot.submitted, slot.bytes, slot.direction) = (at, submitted, bytes, Some(direction));
            return (direction, offset, bytes);
        }
        let direction = self.next.take().expect("the caller asked when it may start");
        let d = direction as usize;
        let bytes = self.spec.block_size[d];
        let offset = self.spec.offset + self.offsets[d].next_block() * bytes;
        self.thought_at = self.issued();
        self.issued_bytes += bytes;
        self.issued_by[d] += bytes;
        self.issued_ios[d] += 1;
        self.writes_unsynced += u64::from(direction == Direction::Write);
        let slot = &mut self.slots[id];
        (slot.start, slot.submitted, slot.bytes, slot.direction) = (at, submitted, bytes, Some(direction));
        (direction, offset, bytes)
    }

    /// One of the commands of slot `id` is complete at `now`, as the application sees it.
    pub fn end_command(&mut self, id: usize, now: Ps, failed: bool) {
        self.result.errors += u64::from(failed);
        let slot = &mut self.slots[id];
        slot.left -= 1;
        if slot.left > 0 {
            return;
        }
        let (slat, clat) = ((slot.submitted - slot.start) / NS, (now - slot.submitted) / NS);
        match slot.direction {
            Some(direction) => self.result.add(direction, slot.bytes, slat, clat),
            None => {
                self.result.sync.add(slat + clat);
                self.syncing = false;
            }
        }
        self.free.push(id);
        self.last_done = now;
        self.cpu_free = self.cpu_free.max(now);
    }
}

/// Whose a command identifier is.
type Owners = Vec<Vec<Option<(usize, usize)>>>;

/// Runs `specs` together and returns their results, one for each of their `numjobs`. `group` numbers the group in the
/// report; `seed` is used where a job names none.
pub fn run_group<S: BusSink>(
    device: &mut Device<S>,
    specs: &[JobSpec],
    group: usize,
    seed: u64,
) -> Result<Vec<JobResult>, DriverError> {
    let mut jobs = make_jobs(device, specs, group, seed)?;
    let mut owners: Owners = device.queues.iter().map(|_| vec![None; 1024]).collect();
    let mut handlers: VecDeque<(Ps, u16)> = VecDeque::new();
    loop {
        let (memory, controller, queues) = (&mut device.memory, &mut device.controller, &device.queues);
        handlers.extend(memory.interrupts.drain(..).map(|(vector, at)| (at + cpu::INTERRUPT, vector)));
        let handler = handlers.front().map(|h| h.0);
        let event = controller.next_event_ps();
        let room = |j: &Job| queues[j.queue].room() >= commands(&j.spec, controller.profile().limits.mdts.value);
        let issue =
            jobs.iter_mut().enumerate().filter(|(_, j)| room(j)).filter_map(|(i, j)| Some((j.next_start()?, i))).min();
        let soonest = [handler, event].into_iter().flatten().min();
        match issue {
            Some((at, index)) if soonest.is_none_or(|s| at <= s) => {
                device.now = device.now.max(at);
                start_io(device, &mut jobs[index], index, at, &mut owners);
            }
            _ if handler.is_some() && handler <= event.or(handler) => {
                let Some((at, vector)) = handlers.pop_front() else { continue };
                handle(device, &mut jobs, usize::from(vector), at, &mut owners);
            }
            _ if jobs.iter().all(|j| j.stopped && j.in_flight() == 0 && !j.syncing) => break,
            _ => match event {
                Some(at) => controller.advance(at, memory),
                None => return Err(DriverError::Stuck("I/O".into())),
            },
        }
    }
    device.now = device.now.max(device.controller.now_ps());
    Ok(finish_jobs(jobs))
}

/// A job for each of the specs' `numjobs`.
pub(super) fn make_jobs<S: BusSink>(
    device: &mut Device<S>,
    specs: &[JobSpec],
    group: usize,
    seed: u64,
) -> Result<Vec<Job>, DriverError> {
    let mut jobs = Vec::new();
    for spec in specs {
        for clone in 0..spec.numjobs {
            let index = jobs.len();
            jobs.push(make_job(device, spec, index, group, seed ^ u64::from(clone))?);
        }
    }
    Ok(jobs)
}

/// The results of jobs that are done.
pub(super) fn finish_jobs(jobs: Vec<Job>) -> Vec<JobResult> {
    let finish = |mut job: Job| {
        job.result.runtime_ns = job.last_done.saturating_sub(job.start) / NS;
        job.result
    };
    jobs.into_iter().map(finish).collect()
}

/// The most commands an I/O of this job becomes.
pub(super) fn commands(spec: &JobSpec, mdts: u8) -> usize {
    let largest = spec.block_size.iter().copied().max().unwrap_or(0);
    largest.div_ceil(PAGE << mdts).max(1) as usize
}

fn make_job<S: BusSink>(
    device: &mut Device<S>,
    spec: &JobSpec,
    index: usize,
    group: usize,
    seed: u64,
) -> Result<Job, DriverError> {
    // As in fio, a job's sequence goes by its number: the same blocks in the same order, group after group, would let each write over
    // what the one before it wrote last.
    let number = (group as u64) << 32 | index as u64;
    let seed = spec.randseed.unwrap_or(seed) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let size = spec.size.unwrap_or(device.drive_bytes() - spec.offset);
    let largest = *spec.block_size.iter().max().expect("there are three");
    let count = commands(spec, *device.controller.profile().limits.mdts);
    let slots: Vec<Slot> = (0..spec.iodepth)
        .map(|_| {
            let buffer = device.memory.allocate_user(largest);
            let lists = (0..count).map(|_| device.memory.allocate(PAGE)).collect();
            Slot { buffer, lists, ..Slot::default() }
        })
        .collect();
    let offsets = [0u64, 1, 2].map(|d| {
        let blocks = size / spec.block_size[d as usize];
        if spec.pattern.random {
            Offsets::random(blocks, seed.wrapping_mul(3) + d, spec.norandommap)
        } else {
            Offsets::sequential(blocks)
        }
    });
    let start = device.now + spec.startdelay_us * US;
    Ok(Job {
        result: JobResult::new(spec, group),
        queue: 1 + index % (device.queues.len() - 1),
        offsets,
        rng: fastrand::Rng::with_seed(seed),
        free: (0..slots.len()).rev().collect(),
        slots,
        start,
        cpu_free: start,
        last_done: start,
        total: spec.io_size.unwrap_or(size).saturating_mul(spec.loops),
        issued_bytes: 0,
        issued_by: [0; 3],
        issued_ios: [0; 3],
        next: None,
        thought_at: 0,
        writes_unsynced: 0,
        syncing: false,
        stopped: false,
        trace: spec.trace.as_ref().map(Replay::new).transpose()?,
        spec: spec.clone(),
    })
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
    let most = if direction == Direction::Trim { bytes } else { PAGE << *device.controller.profile().limits.mdts };
    let slot = &mut job.slots[id];
    slot.left = bytes.div_ceil(most) as u32;
    for part in 0..u64::from(slot.left) {
        let from = part * most;
        let list = slot.lists[part as usize % slot.lists.len()];
        let entry = entry(device, direction, offset + from, most.min(bytes - from), slot.buffer + from, list);
        let (cid, _) = device.submit(queue, submitted, entry);
        owners[queue][usize::from(cid)] = Some((index, id));
    }
}

/// The submission queue entry of a transfer, with its PRP list or range in memory at `list`.
fn entry<S: BusSink>(
    device: &mut Device<S>,
    direction: Direction,
    offset: u64,
    bytes: u64,
    buffer: u64,
    list: u64,
) -> [u8; 64] {
    let (slba, blocks) = (offset / LBA, bytes / LBA);
    if direction == Direction::Trim {
        let range = device.memory.at(list, 16);
        range[0..4].fill(0);
        range[4..8].copy_from_slice(&(blocks as u32).to_le_bytes());
        range[8..16].copy_from_slice(&slba.to_le_bytes());
        return sqe(io::DSM, 1, list, [0, 4]);
    }
    let opcode = if direction == Direction::Read { io::READ } else { io::WRITE };
    let mut entry = sqe(opcode, 1, buffer, [slba as u32, (slba >> 32) as u32]);
    entry[48..52].copy_from_slice(&(blocks as u32 - 1).to_le_bytes());
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

/// The interrupt handler of a queue, and what it wakes.
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
