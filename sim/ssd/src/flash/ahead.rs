//! Read-ahead: a controller that sees a sequential read fetches what comes next into its buffer.
//!
//! A few streams are followed at a time, each by the unit it would go on with. Once a read goes on where one ended, the units
//! behind it are read from flash at once and stand in the stream's window until they are asked for. A write ends all of
//! them: the buffer is the writes', and so mixed sequential loads lose most of the gain.

use super::{Flash, Place};
use crate::power::meter::Meter;
use crate::profile::Ps;
use std::collections::VecDeque;

/// Streams followed at a time; the one unused for longest gives way.
const STREAMS: usize = 4;

/// A sequence of reads.
#[derive(Debug, Default)]
struct Stream {
    /// The unit it would go on with, which is the first of the window.
    next: u64,
    /// When each unit of the window is in the buffer.
    window: VecDeque<Ps>,
    /// Reads seen when it was used last.
    used: u64,
}

/// The streams of a drive.
#[derive(Debug)]
pub struct Ahead {
    /// Units of a window; 0: no read-ahead.
    depth: u64,
    streams: Vec<Stream>,
    reads: u64,
}

impl Ahead {
    pub fn new(depth: u64) -> Self {
        Self { depth, streams: Vec::new(), reads: 0 }
    }

    /// A write or a deallocation comes in between: no sequence any more, and what was read ahead may be out of date.
    #[inline]
    pub fn forget(&mut self) {
        self.streams.clear();
    }
}

impl Flash {
    /// Reads units `first .. first + count` from `now` on: pushes `(ready, unit, count)` for each run of them that comes
    /// out of one array operation, or out of the buffer. Units that hold nothing are ready at once.
    pub fn read(
        &mut self,
        now: Ps,
        first: u64,
        count: u64,
        slow: f64,
        meter: &mut Meter,
        out: &mut Vec<(Ps, u64, u64)>,
    ) {
        if self.ahead.depth == 0 {
            return self.read_flash(now, first, count, slow, meter, out);
        }
        self.ahead.reads += 1;
        let reads = self.ahead.reads;
        let Some(at) = self.ahead.streams.iter().position(|s| s.next == first) else {
            self.follow(first + count);
            return self.read_flash(now, first, count, slow, meter, out);
        };
        let mut stream = std::mem::take(&mut self.ahead.streams[at]);
        let held = count.min(stream.window.len() as u64);
        for (unit, ready) in (first..).zip(stream.window.drain(..held as usize)) {
            match out.last_mut() {
                // neighbours that came out of one operation are one run
                Some((last, from, n)) if *last == ready.max(now) && *from + *n == unit => *n += 1,
                _ => out.push((ready.max(now), unit, 1)),
            }
        }
        if held < count {
            self.read_flash(now, first + held, count - held, slow, meter, out);
        }
        stream.next = first + count;
        stream.used = reads;
        let begin = stream.next + stream.window.len() as u64;
        let end = (stream.next + self.ahead.depth).min(self.units);
        if end > begin {
            let mut fetched = std::mem::take(&mut self.fetched);
            fetched.clear();
            self.read_flash(now, begin, end - begin, slow, meter, &mut fetched);
            for &(ready, _, n) in &fetched {
                stream.window.extend(std::iter::repeat_n(ready, n as usize));
            }
            self.fetched = fetched;
        }
        self.ahead.streams[at] = stream;
    }

    /// A read that goes on nothing: perhaps the first of a sequence.
    fn follow(&mut self, next: u64) {
        let ahead = &mut self.ahead;
        let new = Stream { next, window: VecDeque::new(), used: ahead.reads };
        if ahead.streams.len() < STREAMS {
            ahead.streams.push(new);
        } else if let Some(oldest) = ahead.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = new;
        }
    }

    /// The same out of flash.
    fn read_flash(
        &mut self,
        now: Ps,
        first: u64,
        count: u64,
        slow: f64,
        meter: &mut Meter,
        out: &mut Vec<(Ps, u64, u64)>,
    ) {
        let (mut at, end) = (first, first + count);
        let mut here = self.ftl.place(at);
        while at < end {
            let mut n = 1;
            let mut next = None;
            while at + n < end {
                next = self.ftl.place(at + n);
                if !together(here, next, n, self.page) {
                    break;
                }
                n += 1;
            }
            let ready = match here {
                None => now,
                Some(place) => {
                    let known = self.look_up(now, at, slow, meter);
                    self.read_page(known, place, n, slow, meter)
                }
            };
            out.push((ready, at, n));
            at += n;
            here = next;
        }
    }
}

/// Whether the unit `n` behind another comes out of the same array operation.
#[inline]
fn together(here: Option<Place>, next: Option<Place>, n: u64, page: u64) -> bool {
    match (here, next) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            u64::from(b.slot) == u64::from(a.slot) + n && u64::from(a.slot) / page == u64::from(b.slot) / page
        }
        _ => false,
    }
}
