//! Read-ahead: a controller that sees a sequential read fetches the following units into its buffer.
//!
//! The controller follows a few streams at a time, each by its next expected unit. A read that continues a stream fetches the units behind
//! it from flash at once. The stream's window holds these units until the host asks for them. A write ends all streams, because writes use
//! the buffer. Mixed sequential loads therefore lose most of the gain.

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

    /// Ends all sequences, at a write or a deallocation: the fetched units may be out of date.
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
