//! Reads a trace as a stream of records.

use crate::record::*;
use crate::summary::{self, Summary};
use crate::tlp::{Header, Tlp};
use std::io::{self, Read};

/// Iterates the records of a trace, bursts unexpanded (see [`crate::Player`]). Reads in small pieces: give it a
/// buffered reader. After an error, or END, it yields nothing more.
pub struct TraceReader<R: Read> {
    input: R,
    header: TraceHeader,
    offset: u64,
    records: u64,
    longest_ps: u64,
    last_ps: u64,
    ended: bool,
    done: bool,
    body: Vec<u8>,
}

impl<R: Read> TraceReader<R> {
    /// Reads the file header.
    pub fn new(mut input: R) -> Result<Self> {
        let not = |reason: &str| Error::NotATrace(reason.into());
        let mut head = [0; 12];
        if fill(&mut input, &mut head)? < head.len() {
            return Err(not("it is shorter than a file header"));
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if &head[..4] != MAGIC {
            return Err(not("it does not start with WBBT"));
        }
        if word(4) != VERSION {
            return Err(Error::NotATrace(format!("its version is {}, this program reads {VERSION}", word(4))));
        }
        if word(8) > MAX_JSON {
            return Err(Error::NotATrace(format!("its JSON header would be {} bytes", word(8))));
        }
        let mut json = vec![0; word(8) as usize];
        if fill(&mut input, &mut json)? < json.len() {
            return Err(not("its JSON header is cut short"));
        }
        let header =
            serde_json::from_slice(&json).map_err(|e| Error::NotATrace(format!("its JSON header is broken: {e}")))?;
        let offset = 12 + json.len() as u64;
        Ok(Self {
            input,
            header,
            offset,
            records: 0,
            longest_ps: LAST_PS,
            last_ps: 0,
            ended: false,
            done: false,
            body: Vec::new(),
        })
    }

    /// Treats a record more than this many picoseconds after the previous one as an error.
    pub fn refusing_gaps_over(mut self, longest_ps: u64) -> Self {
        self.longest_ps = longest_ps;
        self
    }

    /// The JSON header.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Whether END was read. A trace without it was truncated, for example because its writer was killed.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Time of the last record read, in picoseconds.
    pub fn last_ps(&self) -> u64 {
        self.last_ps
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record>> {
        let mut head = [0; RECORD_HEADER];
        let start = self.offset;
        let damaged = |reason: String| Error::Damaged { offset: start, reason };
        match fill(&mut self.input, &mut head)? {
            0 => return Ok(None),
            RECORD_HEADER => {}
            n => return Err(damaged(format!("the file ends {n} bytes into a record"))),
        }
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let mut time = [0; 8];
        time.copy_from_slice(&head[4..]);
        let time_ps = u64::from_le_bytes(time);
        if self.body.len() < len {
            self.body.resize(len, 0);
        }
        let got = fill(&mut self.input, &mut self.body[..len])?;
        if got < len {
            return Err(damaged(format!("the file ends {got} bytes into a body of {len}")));
        }
        if time_ps < self.last_ps {
            return Err(damaged(format!("its time {time_ps} ps is before {} ps", self.last_ps)));
        }
        self.records += 1;
        if time_ps > LAST_PS {
            return Err(damaged(format!("its time {time_ps} ps is beyond the {LAST_PS} ps that a trace may last")));
        }
        if time_ps - self.last_ps > self.longest_ps {
            let record = self.records;
            return Err(Error::Gap {
                record,
                offset: start,
                gap_ps: time_ps - self.last_ps,
                longest_ps: self.longest_ps,
            });
        }
        let body = decode(head[0], head[1], &self.body[..len]).map_err(damaged)?;
        if let Body::Summary(summary) = &body {
            if !self.header.summaries {
                return Err(damaged("a SUMMARY in a trace whose header does not say \"summaries\": true".into()));
            }
            if let Some(fault) = summary.fault(time_ps) {
                return Err(damaged(fault));
            }
        }
        self.offset += (RECORD_HEADER + len) as u64;
        self.last_ps = time_ps;
        self.ended = matches!(body, Body::End);
        Ok(Some(Record { time_ps, body }))
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Record>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.read().transpose();
        self.done = self.ended || !matches!(item, Some(Ok(_)));
        item
    }
}

/// Reads until `buffer` is full or the input ends; returns the number of bytes read.
#[inline]
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

fn direction(number: u8) -> std::result::Result<Direction, String> {
    match number {
        1 => Ok(Direction::Down),
        2 => Ok(Direction::Up),
        other => Err(format!("direction {other}")),
    }
}

#[inline]
fn decode(kind: u8, flags: u8, body: &[u8]) -> std::result::Result<Body, String> {
    let want = |n: usize| if body.len() == n { Ok(()) } else { Err(format!("type {kind} of {} bytes", body.len())) };
    Ok(match kind {
        TLP_DOWN | TLP_UP => {
            let tlp = Tlp::from_bytes(body, flags & FLAG_LEFT_OUT != 0)?;
            Body::Tlp(if kind == TLP_DOWN { Direction::Down } else { Direction::Up }, tlp)
        }
        BURST => {
            if body.len() < 12 {
                return Err(format!("a burst of {} bytes", body.len()));
            }
            let word = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
            let direction = direction(body[0])?;
            let header = Header::from_bytes(&body[12..]).ok_or("a burst shorter than its TLP header")?;
            let length = header.as_bytes().len();
            let count = u16::from_le_bytes([body[2], body[3]]);
            if usize::from(body[1]) != length || body.len() != 12 + length || count == 0 || !header.can_burst() {
                return Err(format!("a burst of {count} TLPs with header {header:?}"));
            }
            Body::Burst(Burst { direction, header, count, step_ps: word(4), step_bytes: word(8) })
        }
        RAIL => {
            want(16)?;
            let number = |at: usize| {
                let mut b = [0; 8];
                b.copy_from_slice(&body[at..at + 8]);
                i64::from_le_bytes(b)
            };
            Body::Rail(Rail { current_na: number(0), voltage_nv: number(8) })
        }
        SIDEBAND => {
            want(2)?;
            let signal = Signal::from_u8(body[0]).ok_or_else(|| format!("sideband signal {}", body[0]))?;
            Body::Sideband(signal, body[1])
        }
        SUMMARY => {
            let body: &[u8; summary::BODY] =
                body.try_into().map_err(|_| format!("type {kind} of {} bytes", body.len()))?;
            Body::Summary(Summary::decode(body))
        }
        MISSED => {
            want(1)?;
            Body::Missed(direction(body[0])?)
        }
        END => {
            want(0)?;
            Body::End
        }
        other => return Err(format!("unknown record type {other}")),
    })
}
