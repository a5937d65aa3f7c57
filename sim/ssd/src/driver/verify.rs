//! What a job with `verify` wrote, to be read again when all of it is written.

use crate::fio::Direction;
use std::collections::{BTreeMap, VecDeque};

/// Extents in the order in which fio reads them: as they were written, or by offset where blocks may have been written twice.
pub struct Written {
    sorted: Option<BTreeMap<u64, u64>>,
    queue: VecDeque<(u64, u64)>,
    reading: bool,
}

impl Written {
    /// Nothing yet; `overlaps`: blocks may be written twice.
    pub fn new(overlaps: bool) -> Self {
        Self { sorted: overlaps.then(BTreeMap::new), queue: VecDeque::new(), reading: false }
    }

    /// Takes up a write; one that it overlaps is no longer read.
    pub fn add(&mut self, offset: u64, bytes: u64) {
        let Some(sorted) = &mut self.sorted else { return self.queue.push_back((offset, bytes)) };
        while let Some((&at, &len)) = sorted.range(..offset + bytes).next_back() {
            if at + len <= offset {
                break;
            }
            sorted.remove(&at);
        }
        sorted.insert(offset, bytes);
    }

    /// From here on it is read.
    pub fn begin_reading(&mut self) {
        self.queue.extend(self.sorted.take().into_iter().flatten());
        self.reading = true;
    }

    /// Whether it is being read.
    pub fn is_being_read(&self) -> bool {
        self.reading
    }

    /// Whether something is left to read.
    pub fn is_left(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next read.
    pub fn next_extent(&mut self) -> Option<(Direction, u64, u64)> {
        self.queue.pop_front().map(|(offset, bytes)| (Direction::Read, offset, bytes))
    }
}
