//! fio job files: the parser, the offsets of the jobs, and the figures that fio reports.

mod between;
mod blocks;
mod distribution;
mod effectless;
mod expand;
mod iolog;
mod job;
mod offsets;
mod options;
mod parse;
mod reading;
mod refusal;
mod stats;
mod targets;
mod units;

pub use blocks::BlockSize;
pub use distribution::Distribution;
pub use iolog::{trace_job, Ask, Entries, Entry};
pub use job::{Direction, ExitWhat, JobFile, JobSpec, LatencyTarget, Pattern, SteadyFigure, SteadyState, TraceSpec};
pub use offsets::{Offsets, Placement, Spread};
pub use parse::{parse_file, parse_text, FioError};
pub use reading::Reading;
pub use stats::{report, JobResult, Samples};
pub use units::size;
