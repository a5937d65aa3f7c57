//! Reads a log line by line, identically in both passes.

use super::event::{parse, Event};
use super::line::segments;
use super::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Longest line in bytes. Longer lines are not log lines, and only this much of each is looked at.
const MAX_LINE: usize = 1 << 16;

/// Counts of a log's lines, by their fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// All lines.
    pub lines: u64,
    /// Lines without an NVMe event: other devices, messages, garbage.
    pub foreign: u64,
    /// NVMe events.
    pub events: u64,
    /// Events left out because their arguments are truncated or unreadable.
    pub damaged: u64,
    /// Events without a time; each takes the previous event's time.
    pub untimed: u64,
    /// The last line is an event without a line end: it may be truncated, even in a number that still reads as one.
    pub unfinished: bool,
}

/// Calls `each` with every readable event and its time (microseconds since 1970, where the line has one).
pub fn read(path: &Path, mut each: impl FnMut(Option<i64>, Event) -> Result<(), Error>) -> Result<Lines, Error> {
    let io = |source| Error::Io { path: path.display().to_string(), source };
    // checked before opening, which on a pipe may block forever
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(Error::NoFile(path.display().to_string()));
    }
    let mut input = BufReader::with_capacity(1 << 20, File::open(path).map_err(io)?);
    if let Some((kind, remedy)) = no_text(input.fill_buf().map_err(io)?) {
        return Err(Error::NoText(path.display().to_string(), kind, remedy));
    }
    let mut counts = Lines::default();
    let mut raw = Vec::new();
    while let Some(whole) = next_line(&mut input, &mut raw).map_err(io)? {
        if raw.is_empty() {
            continue; // between CR and LF
        }
        counts.lines += 1;
        let text = String::from_utf8_lossy(&raw);
        let found = segments(&text);
        if found.is_empty() {
            counts.foreign += 1;
        }
        for segment in &found {
            counts.events += 1;
            counts.untimed += u64::from(segment.time_us.is_none());
            match parse(segment) {
                Some(event) => each(segment.time_us, event)?,
                None => counts.damaged += 1,
            }
        }
        counts.unfinished |= !whole && !found.is_empty();
    }
    Ok(counts)
}

/// Reads up to the next LF or CR into `line`, keeping at most [`MAX_LINE`] bytes. `None` at the end of the file,
/// `false` for a last line without an end.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<bool>> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(any.then_some(false));
        }
        any = true;
        let end = buffer.iter().position(|b| matches!(b, b'\n' | b'\r'));
        let text = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&text[..text.len().min(MAX_LINE - line.len())]);
        let used = text.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(true));
        }
    }
}

/// Returns the kind of a file that starts with `head`, and the remedy, unless the file is single-byte text.
fn no_text(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const KINDS: [(&[u8], &str, &str); 9] = [
        (b"\x1f\x8b", "gzip data", "gunzip first"),
        (b"\xfd7zXZ\0", "xz data", "unxz first"),
        (b"\x28\xb5\x2f\xfd", "zstd data", "unzstd first"),
        (b"BZh", "bzip2 data", "bunzip2 first"),
        (b"\x04\x22\x4d\x18", "lz4 data", "unlz4 first"),
        (b"PK\x03\x04", "a zip archive", "unzip first"),
        (b"\xff\xfe", "UTF-16 text", "iconv -f UTF-16 -t UTF-8 first"),
        (b"\xfe\xff", "UTF-16 text", "iconv -f UTF-16 -t UTF-8 first"),
        (b"WBBT", "a bus trace, no log", "wattbell sim replay --bus-trace"),
    ];
    KINDS.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, kind, remedy)| (kind, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_cr_or_both_and_the_last_may_lack_its_end() {
        let mut input = BufReader::with_capacity(3, &b"one\r\ntwo\rthree\n\nfour"[..]);
        let mut line = Vec::new();
        let mut found = Vec::new();
        while let Some(whole) = next_line(&mut input, &mut line).unwrap() {
            if !line.is_empty() {
                found.push((String::from_utf8(line.clone()).unwrap(), whole));
            }
        }
        let want = [("one", true), ("two", true), ("three", true), ("four", false)];
        assert_eq!(found, want.map(|(text, whole)| (text.to_owned(), whole)));
    }

    #[test]
    fn of_a_line_without_end_only_the_start_is_kept() {
        let zeros = std::io::Read::take(std::io::repeat(0), 10 * MAX_LINE as u64);
        let mut line = Vec::new();
        assert_eq!(next_line(&mut BufReader::new(zeros), &mut line).unwrap(), Some(false));
        assert_eq!(line.len(), MAX_LINE);
    }
}
