//! fio's iologs of version 3 (`timestamp filename action [offset length]`, time stamps in microseconds) as a job.

use super::blocks::BlockSize;
use super::job::{Direction, JobSpec, TraceSpec};
use super::parse::FioError;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// First line of such a log.
const HEADER: &str = "fio version 3 iolog";
/// Most I/Os of a trace in flight. At this number, the traced application waits for a completion.
const DEPTH: u32 = 256;

/// The action that an entry asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A transfer or trim.
    Io(Direction),
    /// A flush.
    Sync,
}

/// An entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Microseconds from the start of the log.
    pub at_us: u64,
    /// The action.
    pub ask: Ask,
    /// Offset, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub bytes: u64,
}

/// Reads a log entry by entry.
pub struct Entries {
    path: String,
    lines: BufReader<File>,
    line: usize,
    buffer: String,
}

impl Entries {
    /// Opens a log and checks its first line.
    pub fn open(path: &Path) -> Result<Self, FioError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| FioError { path: name.clone(), line: 0, reason: e.to_string() })?;
        let mut entries =
            Self { path: name, lines: BufReader::with_capacity(1 << 18, file), line: 0, buffer: String::new() };
        entries.read_line()?;
        if entries.buffer.trim() != HEADER {
            return Err(entries.fail(format!("the first line is not `{HEADER}`")));
        }
        Ok(entries)
    }

    fn fail(&self, reason: String) -> FioError {
        FioError { path: self.path.clone(), line: self.line, reason }
    }

    fn read_line(&mut self) -> Result<bool, FioError> {
        self.buffer.clear();
        self.line += 1;
        let read = self.lines.read_line(&mut self.buffer).map_err(|e| self.fail(e.to_string()))?;
        Ok(read > 0)
    }

    /// Returns the next entry with an I/O for the drive; `None` at the end.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, FioError> {
        while self.read_line()? {
            if let Some(entry) = parse(&self.buffer).map_err(|reason| self.fail(reason))? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Reads a line; returns `None` for a line without an I/O for the drive.
fn parse(line: &str) -> Result<Option<Entry>, String> {
    let mut words = line.split_ascii_whitespace();
    let Some(stamp) = words.next() else { return Ok(None) };
    let fault = || format!("`{}` is no entry of an iolog: timestamp filename action [offset length]", line.trim());
    let at_us: u64 = stamp.parse().map_err(|_| fault())?;
    let (_, action) = (words.next().ok_or_else(fault)?, words.next().ok_or_else(fault)?);
    let ask = match action {
        "add" | "open" | "close" | "wait" => return Ok(None),
        "sync" | "datasync" => return Ok(Some(Entry { at_us, ask: Ask::Sync, offset: 0, bytes: 0 })),
        "read" => Ask::Io(Direction::Read),
        "write" => Ask::Io(Direction::Write),
        "trim" => Ask::Io(Direction::Trim),
        _ => return Err(fault()),
    };
    let mut number = || words.next().and_then(|w| w.parse::<u64>().ok()).ok_or_else(fault);
    let (offset, bytes) = (number()?, number()?);
    if offset % 512 != 0 || bytes % 512 != 0 || bytes == 0 {
        return Err(format!("{bytes} bytes at {offset}: both must be multiples of 512"));
    }
    Ok(Some(Entry { at_us, ask, offset, bytes }))
}

/// Returns a job that replays the log at `path`. Reads the whole log once, so that an error in the log is reported first.
pub fn trace_job(path: &Path, cut_us: u64, drive_bytes: u64) -> Result<JobSpec, FioError> {
    let mut entries = Entries::open(path)?;
    let mut trace = TraceSpec { path: path.into(), cut_us, largest: 4096, trims: false };
    let (mut count, mut last) = (0u64, 0);
    while let Some(entry) = entries.next_entry()? {
        if entry.at_us < last {
            return Err(entries.fail(format!("time goes back from {last} to {} us", entry.at_us)));
        }
        if entry.offset.saturating_add(entry.bytes) > drive_bytes {
            let reason = format!("{} bytes at {} are beyond the drive's {drive_bytes}", entry.bytes, entry.offset);
            return Err(entries.fail(reason));
        }
        last = entry.at_us;
        count += 1;
        trace.trims |= entry.ask == Ask::Io(Direction::Trim);
        trace.largest = trace.largest.max(entry.bytes);
    }
    if count == 0 {
        return Err(entries.fail("there is no I/O in it".into()));
    }
    let name = path.file_stem().map_or("trace".into(), |s| s.to_string_lossy().into_owned());
    Ok(JobSpec {
        block_size: [trace.largest; 3].map(BlockSize::Fixed),
        iodepth: DEPTH,
        trace: Some(trace),
        ..JobSpec::new(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_of_a_log() {
        let entry = |at_us, ask, offset, bytes| Some(Entry { at_us, ask, offset, bytes });
        assert_eq!(parse("0 /dev/nvme0n1 add\n"), Ok(None));
        assert_eq!(parse("17 f write 4096 8192"), Ok(entry(17, Ask::Io(Direction::Write), 4096, 8192)));
        assert_eq!(parse("18 f datasync 0 0"), Ok(entry(18, Ask::Sync, 0, 0)));
        for bad in ["x f read 0 512", "1 f read 0", "1 f read 1 512", "1 f read 0 0", "1 f fly 0 512", "1 f"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_line_gives_an_entry_or_an_error(line in ".{0,80}") {
            let _ = parse(&line);
        }
    }
}
