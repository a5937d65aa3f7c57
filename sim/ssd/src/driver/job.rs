//! One job of fio: the sequence and times of its I/Os, its slots, and its results.

use super::device::{Device, DriverError};
use super::latency::{DepthSearch, Found};
use super::replay::{Replay, Wait};
use super::steady::Done;
use super::verify::Written;
use crate::fio::{BlockSize, Direction, Distribution, JobResult, JobSpec, Offsets, Pattern, Placement, Spread};
use crate::host::BusSink;
use crate::nvme::prp::PAGE;
use crate::profile::{Ps, NS, S as SECOND, US};

/// One I/O in flight: a single command, or several beyond the drive's largest transfer.
#[derive(Clone, Default)]
pub(super) struct Slot {
    pub buffer: u64,
    pub lists: Vec<u64>,
    start: Ps,
    submitted: Ps,
    offset: u64,
    bytes: u64,
    direction: Option<Direction>,
    /// Offset and length of each range of a trim.
    pub ranges: Vec<(u64, u64)>,
    pub left: u32,
}

/// Error of a job that misses its latency target, with the number that Linux uses.
const ETIMEDOUT: i32 = 110;

pub(super) struct Job {
    pub spec: JobSpec,
    result: JobResult,
    pub queue: usize,
    offsets: [Offsets; 3],
    rng: fastrand::Rng,
    pub slots: Vec<Slot>,
    pub free: Vec<usize>,
    pub start: Ps,
    /// Start of the job's figures: completions before this time are in no figure.
    figures_from: Ps,
    pub cpu_free: Ps,
    last_done: Ps,
    total: u64,
    issued_bytes: u64,
    issued_by: [u64; 3],
    issued_ios: [u64; 3],
    /// The next I/O: direction, offset and length in bytes.
    next: Option<(Direction, u64, u64)>,
    /// Offset and length of each range of the next trim, where a trim has several.
    ranges: Vec<(u64, u64)>,
    /// The next I/O reads back written data, between writes.
    next_checks: bool,
    /// Direction of the last completion.
    last_completed: Option<Direction>,
    /// Area of the last trim, if a write is to follow there.
    trimmed: Option<(u64, u64)>,
    /// When a rate allows the next I/O of each direction.
    due: [Ps; 3],
    thought_at: u64,
    writes_unsynced: u64,
    /// A flush is due at the end (`end_fsync`), or before written data is read back.
    last_flush: bool,
    written: Option<Written>,
    pub syncing: bool,
    pub stopped: bool,
    /// The job issues nothing more: another job, its latency target, a steady state, or its runtime ended it.
    ended: bool,
    /// It begins when another job is over.
    pub waits: bool,
    /// Its share of a flow is used up.
    pub parked: bool,
    /// Its share of a flow was used up then: it goes on so long after its last completion.
    dozing: Option<(Ps, Ps)>,
    /// The job must be looked at when its runtime is over, because other jobs depend on its end.
    pub timely: bool,
    search: Option<DepthSearch>,
    /// All that is complete.
    pub done: Done,
    trace: Option<Replay>,
}

/// Returns the direction of an I/O of this pattern; `trimmed`: the last I/O was a trim that a write is to follow.
fn choose(pattern: Pattern, read_percent: u8, trimmed: bool, rng: &mut fastrand::Rng) -> Direction {
    match (pattern.read, pattern.write, pattern.trim) {
        (_, true, true) if !trimmed => Direction::Trim,
        (true, true, false) if rng.u8(..100) < read_percent => Direction::Read,
        (_, true, _) => Direction::Write,
        (true, false, _) => Direction::Read,
        (false, false, _) => Direction::Trim,
    }
}

impl Job {
    fn issued(&self) -> u64 {
        self.issued_ios.iter().sum()
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns when the next I/O (or flush) may start. Returns `None` while another I/O must complete first, or nothing is left.
    pub fn next_start(&mut self) -> Option<Ps> {
        if self.stopped || self.free.is_empty() || self.syncing || self.waits && !self.ended {
            return None;
        }
        if self.ended && !self.last_flush {
            return self.end();
        }
        if self.parked {
            return self.deadline().map(|at| at.max(self.cpu_free));
        }
        if self.search.as_ref().is_some_and(|s| !s.has_room(self.in_flight())) {
            return None;
        }
        if self.flush_waits() {
            return (self.in_flight() == 0).then_some(self.cpu_free);
        }
        let mut at = self.cpu_free.max(self.start);
        if let Some((since, sleep)) = self.dozing {
            if self.in_flight() > 0 {
                return None;
            }
            at = at.max(since.max(self.last_done) + sleep);
        }
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
        if self.written.as_ref().is_some_and(Written::is_being_read) {
            return self.next_verify(at);
        }
        let (direction, _, _) = match self.next {
            Some(next) => next,
            None => self.choose_next(),
        };
        let (spec, d) = (&self.spec, direction as usize);
        let rates = [(self.issued_by[d], spec.rate[d]), (self.issued_ios[d], spec.rate_iops[d])];
        for (done, rate) in rates.into_iter().filter_map(|(done, rate)| Some((done, rate?))) {
            let due = if spec.poisson {
                self.due[d]
            } else {
                (u128::from(done) * u128::from(SECOND) / u128::from(rate)) as Ps
            };
            at = at.max(self.start + due);
        }
        let ended = !spec.time_based && self.issued_bytes >= self.total;
        let ended = !self.next_checks && (ended || spec.number_ios.is_some_and(|n| issued >= n) || self.is_through(d));
        if ended {
            return self.read_back(at);
        }
        self.unless_late(at)
    }

    /// When the runtime is over.
    fn deadline(&self) -> Option<Ps> {
        self.spec.runtime_us.map(|r| self.start + (self.spec.ramp_us + r) * US)
    }

    /// The time of the next I/O, unless the runtime is over then.
    fn unless_late(&mut self, at: Ps) -> Option<Ps> {
        match self.deadline().filter(|&end| at >= end) {
            Some(end) if self.timely => Some(end.max(self.cpu_free)),
            Some(_) => self.end(),
            None => Some(at),
        }
    }

    /// Whether an I/O may start at `at`, as far as the job itself knows; it may be that the runtime is over.
    pub fn may_start(&mut self, at: Ps) -> bool {
        self.dozing = None;
        let late = self.timely && !self.last_flush && self.deadline().is_some_and(|end| at >= end);
        self.ended |= late;
        !late
    }

    /// Delays the job's next I/O until all its other I/Os are complete, and for `sleep` more.
    pub fn sleep_after_all(&mut self, at: Ps, sleep: Ps) {
        self.dozing = Some((at, sleep));
    }

    /// Begins the job at `at`, or later if it has a delay.
    pub fn begin_at(&mut self, at: Ps) {
        self.waits = false;
        self.start = self.start.max(at);
        (self.cpu_free, self.last_done) = (self.start, self.start);
        self.figures_from = self.start + self.spec.ramp_us * US;
        if let Some(search) = &mut self.search {
            search.restart(self.figures_from);
        }
    }

    /// Ends the job: it issues only the commands that must follow its writes.
    pub fn terminate(&mut self) {
        self.ended = true;
    }

    /// Whether nothing of the job is left to do.
    pub fn is_over(&self) -> bool {
        self.stopped && self.in_flight() == 0 && !self.syncing
    }

    /// Whether it ended with an error.
    pub fn has_failed(&self) -> bool {
        self.result.errors > 0 || self.result.error != 0
    }

    /// Number of its group in the report.
    pub fn report_group(&self) -> usize {
        self.result.group
    }

    /// Whether a flush must go before anything else.
    fn flush_waits(&self) -> bool {
        self.last_flush || self.spec.fsync > 0 && self.writes_unsynced >= self.spec.fsync
    }

    /// Handles a job that has issued everything: a job with `verify` flushes, and reads back its data.
    fn read_back(&mut self, at: Ps) -> Option<Ps> {
        if self.written.is_some() && self.in_flight() > 0 {
            return None;
        }
        let Some(written) = &mut self.written else { return self.end() };
        written.begin_reading();
        (self.next, self.last_flush) = (None, written.is_left());
        if self.last_flush {
            return Some(at);
        }
        self.end()
    }

    fn next_verify(&mut self, at: Ps) -> Option<Ps> {
        if self.next.is_none() {
            self.next = self.written.as_mut().and_then(Written::next_extent);
        }
        if self.next.is_none() {
            return self.end();
        }
        self.unless_late(at)
    }

    /// The job issues nothing more, but perhaps a flush.
    fn end(&mut self) -> Option<Ps> {
        if self.spec.end_fsync && self.issued_ios[Direction::Write as usize] > 0 {
            if self.in_flight() > 0 {
                return None;
            }
            (self.spec.end_fsync, self.last_flush) = (false, true);
            return Some(self.cpu_free);
        }
        self.stopped = true;
        None
    }

    /// Returns whether sequential offsets with gaps have reached the end of the area as often as `loops` says.
    fn is_through(&self, direction: usize) -> bool {
        let spec = &self.spec;
        let once = spec.pattern.stride != 0 && !spec.pattern.random && !spec.time_based && spec.io_size.is_none();
        once && self.offsets[direction].wraps() >= spec.loops
    }

    fn choose_next(&mut self) -> (Direction, u64, u64) {
        let last = self.last_completed;
        if let Some(read) = self.written.as_mut().and_then(|w| w.next_of_backlog(last)) {
            (self.next, self.next_checks) = (Some(read), true);
            return read;
        }
        let spec = &self.spec;
        let direction = choose(spec.pattern, spec.read_percent, self.trimmed.is_some(), &mut self.rng);
        let (offset, bytes) = match self.trimmed.take() {
            Some(same) if direction == Direction::Write => same,
            _ => self.offsets[direction as usize].next_extent(),
        };
        let mut next = (direction, spec.offset + offset, bytes);
        if direction == Direction::Trim && spec.pattern.write {
            self.trimmed = Some((offset, bytes));
        }
        if direction == Direction::Trim && spec.ranges > 1 {
            self.ranges = vec![(next.1, bytes)];
            while self.ranges.len() < spec.ranges as usize
                && (spec.time_based || self.issued_bytes + next.2 < self.total)
            {
                let (offset, bytes) = self.offsets[direction as usize].next_extent();
                self.ranges.push((spec.offset + offset, bytes));
                next.2 += bytes;
            }
        }
        self.next = Some(next);
        next
    }

    /// Whether a flush comes before the next I/O.
    pub fn flush_is_due(&self) -> bool {
        if let Some(trace) = &self.trace {
            return trace.flush_is_next();
        }
        self.flush_waits()
    }

    /// Slot `id` becomes a flush.
    pub fn begin_flush(&mut self, id: usize, at: Ps, submitted: Ps) {
        (self.writes_unsynced, self.last_flush, self.syncing) = (0, false, true);
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
        let (direction, offset, bytes) = self.next.take().expect("the caller asked when it may start");
        let d = direction as usize;
        self.thought_at = self.issued();
        let checks = std::mem::take(&mut self.next_checks) || self.written.as_ref().is_some_and(Written::is_being_read);
        if !checks {
            self.count(direction, offset, bytes);
        }
        let slot = &mut self.slots[id];
        (slot.start, slot.submitted, slot.bytes, slot.direction) = (at, submitted, bytes, Some(direction));
        slot.offset = offset;
        slot.ranges = std::mem::take(&mut self.ranges);
        if self.spec.poisson {
            let rate = self.spec.rate_iops[d].or(self.spec.rate[d].map(|r| (r / self.spec.block_size[d].min()).max(1)));
            let mean_s = rate.map_or(0.0, |r| 1.0 / r as f64);
            self.due[d] += (-(1.0 - self.rng.f64()).ln() * mean_s * SECOND as f64) as Ps;
        }
        (direction, offset, bytes)
    }

    fn count(&mut self, direction: Direction, offset: u64, bytes: u64) {
        let d = direction as usize;
        let pair = self.spec.pattern.trim && self.spec.pattern.write;
        self.issued_bytes += if pair && direction == Direction::Trim { 0 } else { bytes };
        self.issued_by[d] += bytes;
        self.issued_ios[d] += 1;
        if direction == Direction::Write {
            self.writes_unsynced += 1;
            if let Some(written) = &mut self.written {
                written.add(offset, bytes);
            }
        }
    }

    /// Notes that one command of slot `id` is complete at `now`, as the application sees it.
    pub fn end_command(&mut self, id: usize, now: Ps, failed: bool) {
        self.result.errors += u64::from(failed);
        let slot = &mut self.slots[id];
        slot.left -= 1;
        if slot.left > 0 {
            return;
        }
        let (slat, clat) = ((slot.submitted - slot.start) / NS, (now - slot.submitted) / NS);
        match slot.direction {
            Some(direction) if now < self.figures_from => self.result.add_ramp(direction, slot.bytes),
            Some(direction) => self.result.add(direction, slot.bytes, slat, clat),
            None => {
                self.result.sync.add(slat + clat);
                self.syncing = false;
            }
        }
        if slot.direction == Some(Direction::Write) {
            if let Some(written) = &mut self.written {
                written.complete(slot.offset);
            }
        }
        if slot.direction.is_some() {
            self.last_completed = slot.direction;
            self.done.ios += 1;
            self.done.bytes += slot.bytes;
            self.done.clat_ns += u128::from(clat);
        }
        let of_search = slot.direction.is_some() && now >= self.figures_from;
        self.free.push(id);
        self.last_done = now;
        self.cpu_free = self.cpu_free.max(now);
        if of_search {
            self.search_on(slat + clat, now);
        }
    }

    /// Reports an I/O that took `ns` to the search for a depth.
    fn search_on(&mut self, ns: u64, now: Ps) {
        let in_flight = self.in_flight();
        let Some(search) = &mut self.search else { return };
        match search.completed(ns, now, in_flight) {
            Found::Nothing => {}
            Found::LastWindow => {
                self.result.begin_anew();
                self.figures_from = now;
            }
            Found::Done => self.ended = true,
            Found::Failed => (self.ended, self.result.error) = (true, ETIMEDOUT),
        }
    }
    /// Returns the result of a finished job.
    pub fn finish(mut self) -> JobResult {
        self.result.runtime_ns = self.last_done.saturating_sub(self.figures_from) / NS;
        if let Some(search) = &self.search {
            self.result.note_depth(search.spec(), search.depth());
        }
        self.result
    }
}

/// Numbers of a run and of its reporting groups.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// Number of this run; the seeds derive from this number.
    pub run: usize,
    /// Number of the file's first reporting group, in the report.
    pub first: usize,
}

/// The most commands an I/O of this job becomes.
pub(super) fn commands(spec: &JobSpec, mdts: u8) -> usize {
    spec.largest().div_ceil(PAGE << mdts).max(1) as usize
}

/// The job with number `index` of this run.
pub(super) fn make_job<S: BusSink>(
    device: &mut Device<S>,
    spec: &JobSpec,
    index: usize,
    numbers: Numbers,
    seed: u64,
) -> Result<Job, DriverError> {
    // As in fio, a job's sequence depends on its number. With the same blocks in the same order, each group would overwrite the blocks
    // that the group before it wrote last.
    let number = (numbers.run as u64) << 32 | index as u64;
    let seed = spec.randseed.unwrap_or(seed) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let size = spec.size.unwrap_or(device.drive_bytes() - spec.offset);
    let largest = spec.largest();
    let count = commands(spec, *device.controller.profile().limits.mdts);
    let slots: Vec<Slot> = (0..spec.iodepth)
        .map(|_| {
            let buffer = device.memory.allocate_user(largest);
            let lists = (0..count).map(|_| device.memory.allocate(PAGE)).collect();
            Slot { buffer, lists, ..Slot::default() }
        })
        .collect();
    let offsets = [0, 1, 2].map(|d| Offsets::new(placement(spec, d, size), seed.wrapping_mul(3) + d as u64));
    // A pass over the area ends with its last whole block, unless blocks may come again.
    let again =
        spec.pattern.random && (spec.norandommap || spec.distribution != [(); 3].map(|()| Distribution::Uniform));
    let least = spec.block_size.iter().map(BlockSize::min).min().unwrap_or(1);
    let pass = if again { size } else { size / least * least };
    let start = device.now + spec.startdelay_us * US;
    Ok(Job {
        result: JobResult::new(spec, numbers.first + spec.report_group),
        queue: 1 + index % (device.queues.len() - 1),
        offsets,
        rng: fastrand::Rng::with_seed(seed),
        free: (0..slots.len()).rev().collect(),
        slots,
        start,
        figures_from: start + spec.ramp_us * US,
        cpu_free: start,
        last_done: start,
        total: spec.io_size.unwrap_or(pass).saturating_mul(spec.loops),
        issued_bytes: 0,
        issued_by: [0; 3],
        issued_ios: [0; 3],
        next: None,
        ranges: Vec::new(),
        next_checks: false,
        last_completed: None,
        trimmed: None,
        due: [0; 3],
        thought_at: 0,
        writes_unsynced: 0,
        last_flush: false,
        written: spec.verify.then(|| {
            let overlaps = again || spec.pattern.stride != 0 || spec.pattern.every > 1;
            Written::new(overlaps, spec.verify_backlog, spec.verify_batch)
        }),
        syncing: false,
        stopped: false,
        ended: false,
        waits: false,
        parked: false,
        dozing: None,
        timely: false,
        search: spec.latency.as_ref().map(|l| DepthSearch::new(l, spec.iodepth, start + spec.ramp_us * US)),
        done: Done::default(),
        trace: spec.trace.as_ref().map(Replay::new).transpose()?,
        spec: spec.clone(),
    })
}

/// Returns the placement of the I/Os of direction `d` in an area of `size` bytes.
fn placement(spec: &JobSpec, d: usize, size: u64) -> Placement {
    let distribution = spec.distribution[d].clone();
    let random = spec.pattern.random.then(|| Spread {
        map: distribution == Distribution::Uniform && !spec.norandommap,
        distribution,
        percent: spec.percent_random[d],
        every: spec.pattern.every,
    });
    let sizes = spec.block_size[d].clone();
    let align = spec.align[d].unwrap_or(sizes.min());
    Placement { area: size, sizes, align, stride: spec.pattern.stride, random, zones: spec.zones }
}
