//! fio job files: what they say, the offsets they ask for, and the figures fio reports.

mod iolog;
mod job;
mod offsets;
mod parse;
mod stats;
mod units;

pub use iolog::{trace_job, Ask, Entries, Entry};
pub use job::{Direction, JobFile, JobSpec, Pattern, TraceSpec};
pub use offsets::Offsets;
pub use parse::{parse_file, parse_text, FioError};
pub use stats::{report, JobResult, Samples};
pub use units::size;
