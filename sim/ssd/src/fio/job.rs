//! A job file as data.

use super::blocks::BlockSize;
use super::distribution::Distribution;
use super::offsets::Zones;
use std::path::PathBuf;

/// Direction of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Trim: Dataset Management, deallocate.
    Trim,
}

/// The `rw` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Offsets are random.
    pub random: bool,
    /// Reads are asked for.
    pub read: bool,
    /// Writes are asked for.
    pub write: bool,
    /// Trims are asked for; with `write`, each is followed by a write of the same blocks.
    pub trim: bool,
    /// Bytes added to each sequential offset: `rw=read:8k`.
    pub stride: i64,
    /// I/Os for each random offset: `rw=randread:8`.
    pub every: u64,
}

/// `exit_what`: the jobs that end with the first finished job, where `exitall` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitWhat {
    /// The jobs of the same reporting group.
    Group,
    /// Those that run; the next `stonewall` group follows.
    Stonewall,
    /// The running jobs, and the jobs that were to follow.
    All,
}

/// `latency_target` with its window and percentile: the search for a depth.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyTarget {
    /// `latency_target` in nanoseconds.
    pub target_ns: u64,
    /// `latency_window` in microseconds.
    pub window_us: u64,
    /// `latency_percentile`.
    pub percentile: f64,
    /// `latency_run`: the search continues to the job's end.
    pub run: bool,
}

/// The figure that `steadystate` checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteadyFigure {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean completion latency in nanoseconds.
    Latency,
}

/// `steadystate`: the job ends when its figures are steady.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// The option's text.
    pub text: String,
    /// The checked figure.
    pub figure: SteadyFigure,
    /// The slope over the window is limited, not the largest distance from the mean.
    pub slope: bool,
    /// The limit is a percentage of the mean.
    pub percent: bool,
    /// The limit; of a latency in nanoseconds.
    pub limit: f64,
    /// `steadystate_duration` in microseconds.
    pub window_us: u64,
    /// `steadystate_ramp_time` in microseconds.
    pub ramp_us: u64,
    /// `steadystate_check_interval` in microseconds.
    pub interval_us: u64,
}

/// A trace to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpec {
    /// The log.
    pub path: PathBuf,
    /// Longer times between two entries are cut to this, in microseconds.
    pub cut_us: u64,
    /// Size of its largest entry, in bytes.
    pub largest: u64,
    /// Whether it trims.
    pub trims: bool,
}

/// One section of a job file with the globals before it taken in.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// Section name, or `name`.
    pub name: String,
    /// Options as written, for the report.
    pub options: Vec<(String, String)>,
    /// `rw`.
    pub pattern: Pattern,
    /// `bs`, `bsrange` or `bssplit`: reads, writes, trims.
    pub block_size: [BlockSize; 3],
    /// `blockalign` in bytes: reads, writes, trims; the smallest block where it is not given.
    pub align: [Option<u64>; 3],
    /// `random_distribution`: reads, writes, trims.
    pub distribution: [Distribution; 3],
    /// `percentage_random`: reads, writes, trims.
    pub percent_random: [u8; 3],
    /// `zonemode=strided`.
    pub zones: Option<Zones>,
    /// `iodepth`; 1 for synchronous engines.
    pub iodepth: u32,
    /// `offset` in bytes.
    pub offset: u64,
    /// `offset_increment` in bytes: each of the `numjobs` copies begins this much after the previous copy.
    pub offset_increment: u64,
    /// `size` in bytes; the rest of the drive if not given.
    pub size: Option<u64>,
    /// `io_size` in bytes.
    pub io_size: Option<u64>,
    /// `loops`.
    pub loops: u64,
    /// `runtime` in microseconds.
    pub runtime_us: Option<u64>,
    /// `ramp_time` in microseconds: completions within the ramp are in no figure, and `runtime` begins after the ramp.
    pub ramp_us: u64,
    /// `time_based`.
    pub time_based: bool,
    /// `rate` in bytes per second: reads, writes, trims.
    pub rate: [Option<u64>; 3],
    /// `rate_iops`: reads, writes, trims.
    pub rate_iops: [Option<u64>; 3],
    /// `rate_process=poisson`: the times between I/Os of a rate vary exponentially.
    pub poisson: bool,
    /// `thinktime` in microseconds.
    pub thinktime_us: u64,
    /// `thinktime_blocks`.
    pub thinktime_blocks: u64,
    /// `rwmixread` in percent.
    pub read_percent: u8,
    /// `startdelay` in microseconds.
    pub startdelay_us: u64,
    /// `stonewall`: starts when all jobs before it are done.
    pub stonewall: bool,
    /// `numjobs`.
    pub numjobs: u32,
    /// `fsync`: a flush after that many writes; 0 is never.
    pub fsync: u64,
    /// `end_fsync`: a flush when all is written.
    pub end_fsync: bool,
    /// `verify`: written data is read again at the end.
    pub verify: bool,
    /// `verify_backlog`: written data is read again after this number of writes; 0 is at the end.
    pub verify_backlog: u64,
    /// `verify_backlog_batch`: number of writes that are then read again; 0 reads all of the backlog's writes.
    pub verify_batch: u64,
    /// `norandommap`: blocks may be hit twice before all were hit once.
    pub norandommap: bool,
    /// `randseed`.
    pub randseed: Option<u64>,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `number_ios`.
    pub number_ios: Option<u64>,
    /// `new_group`: another group of the report begins here.
    pub new_group: bool,
    /// Number of the job's group in the report, counted in the file. `stonewall` and `new_group` each begin a group.
    pub report_group: usize,
    /// `exitall`, of any job of the file: when a job is done, others end.
    pub exitall: bool,
    /// `exitall_on_error`: when this job ends with errors, others end.
    pub exitall_on_error: bool,
    /// `exit_what`.
    pub exit_what: ExitWhat,
    /// `wait_for`: the job that must end before this job starts.
    pub wait_for: Option<String>,
    /// `flow`: this job's share of the I/Os of its flow; 0 is no flow.
    pub flow: u64,
    /// `flow_id`.
    pub flow_id: u64,
    /// `flow_sleep` in microseconds.
    pub flow_sleep_us: u64,
    /// `latency_target`.
    pub latency: Option<LatencyTarget>,
    /// `steadystate`.
    pub steady: Option<SteadyState>,
    /// `num_range`: ranges of a trim.
    pub ranges: u32,
    /// Options that change nothing at the drive, in order.
    pub without_effect: Vec<String>,
    /// Differences between this model and fio.
    pub departures: Vec<String>,
    /// The log to replay, instead of everything above that says what to do.
    pub trace: Option<TraceSpec>,
}

impl JobSpec {
    /// A job of fio's defaults: sequential reads of 4 KiB over the whole drive.
    pub fn new(name: String) -> Self {
        Self {
            name,
            options: Vec::new(),
            pattern: Pattern { random: false, read: true, write: false, trim: false, stride: 0, every: 1 },
            block_size: [4096; 3].map(BlockSize::Fixed),
            align: [None; 3],
            distribution: [(); 3].map(|()| Distribution::Uniform),
            percent_random: [100; 3],
            zones: None,
            iodepth: 1,
            offset: 0,
            offset_increment: 0,
            size: None,
            io_size: None,
            loops: 1,
            runtime_us: None,
            ramp_us: 0,
            time_based: false,
            rate: [None; 3],
            rate_iops: [None; 3],
            poisson: false,
            thinktime_us: 0,
            thinktime_blocks: 1,
            read_percent: 50,
            startdelay_us: 0,
            stonewall: false,
            numjobs: 1,
            fsync: 0,
            end_fsync: false,
            verify: false,
            verify_backlog: 0,
            verify_batch: 0,
            norandommap: false,
            randseed: None,
            group_reporting: false,
            number_ios: None,
            new_group: false,
            report_group: 0,
            exitall: false,
            exitall_on_error: false,
            exit_what: ExitWhat::Group,
            wait_for: None,
            flow: 0,
            flow_id: 0,
            flow_sleep_us: 0,
            latency: None,
            steady: None,
            ranges: 1,
            without_effect: Vec::new(),
            departures: Vec::new(),
            trace: None,
        }
    }

    /// Returns the size of its largest I/O, in bytes.
    pub fn largest(&self) -> u64 {
        self.block_size.iter().map(BlockSize::max).max().unwrap_or(0)
    }

    /// Whether the job may trim.
    pub fn trims(&self) -> bool {
        self.pattern.trim || self.trace.as_ref().is_some_and(|t| t.trims)
    }
}

/// A job file.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// Path of the file.
    pub path: String,
    /// Its jobs, in order.
    pub jobs: Vec<JobSpec>,
}

impl JobFile {
    /// Jobs that run at the same time, group after group: a job with `stonewall` begins a group.
    pub fn groups(&self) -> Vec<&[JobSpec]> {
        let mut out = Vec::new();
        let mut start = 0;
        for i in 1..=self.jobs.len() {
            if i == self.jobs.len() || self.jobs[i].stonewall {
                out.push(&self.jobs[start..i]);
                start = i;
            }
        }
        out
    }
}
