//! Reads a log line by line, both times the same way.

use super::event::{parse, Event};
use super::line::segments;
use super::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Longer lines are no log lines; only so much of one is looked at.
const MAX_LINE: usize = 1 << 16;

/// What became of the lines of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// All lines.
    pub lines: u64,
    /// Lines without an NVMe event: other devices, messages, garbage.
    pub foreign: u64,
    /// NVMe events.
    pub events: u64,
    /// Events whose arguments are cut or unreadable; they are left out.
    pub damaged: u64,
    /// Events without a time; they take that of the event before.
    pub untimed: u64,
}

/// Calls `each` with every readable event and its time (microseconds since 1970, where the line has one).
pub fn read(path: &Path, mut each: impl FnMut(Option<i64>, Event) -> Result<(), Error>) -> Result<Lines, Error> {
    let io = |source| Error::Io { path: path.display().to_string(), source };
    let mut input = BufReader::with_capacity(1 << 20, File::open(path).map_err(io)?);
    let mut counts = Lines::default();
    let mut raw = Vec::new();
    loop {
        raw.clear();
        if input.read_until(b'\n', &mut raw).map_err(io)? == 0 {
            return Ok(counts);
        }
        counts.lines += 1;
        let whole = raw.ends_with(b"\n");
        raw.truncate(MAX_LINE);
        let text = String::from_utf8_lossy(&raw);
        let found = segments(text.trim_end_matches(['\n', '\r']));
        if found.is_empty() {
            counts.foreign += 1;
        }
        for (i, segment) in found.iter().enumerate() {
            counts.events += 1;
            counts.untimed += u64::from(segment.time_us.is_none());
            // Without its newline the last line may be cut in a number that still reads as one.
            let event = if i + 1 == found.len() && !whole { None } else { parse(segment) };
            match event {
                Some(event) => each(segment.time_us, event)?,
                None => counts.damaged += 1,
            }
        }
    }
}
