//! Read-ahead: a controller that sees a sequential read fetches what comes next into its buffer.
//!
//! A few streams are followed at a time, each by the unit it would go on with. Once a read goes on where one ended, the units
//! behind it are read from flash at once and stand in the stream's window until they are asked for. A write ends all of
//! them: the buffer is the writes', and so mixed sequential loads lose most of the gain.

use crate::profile::Ps;
use std::collections::VecDeque;

/// Streams followed at a time; the one unused for longest gives way.
const STREAMS: usize = 4;

/// A sequence of reads.
#[derive(Debug, Default)]
pub struct Stream {
    /// The unit it would go on with, which is the first of the window.
    pub(super) next: u64,
    /// When each unit of the window is in the buffer.
    pub(super) window: VecDeque<Ps>,
    /// Reads seen when it was used last.
    pub(super) used: u64,
}

/// The streams of a drive.
#[derive(Debug)]
pub struct Ahead {
    /// Units of a window; 0: no read-ahead.
    pub(super) depth: u64,
    pub(super) streams: Vec<Stream>,
    pub(super) reads: u64,
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

    /// A read that goes on nothing: perhaps the first of a sequence.
    pub fn follow(&mut self, next: u64) {
        let new = Stream { next, window: VecDeque::new(), used: self.reads };
        if self.streams.len() < STREAMS {
            self.streams.push(new);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = new;
        }
    }
}
