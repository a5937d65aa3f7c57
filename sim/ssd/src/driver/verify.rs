//! Data that a job with `verify` wrote. The job reads the data again at its end, or after the number of writes in `verify_backlog`.

use crate::fio::Direction;
use std::collections::{BTreeMap, VecDeque};

/// An extent that was written, and whether the write is complete.
#[derive(Debug, Clone, Copy)]
struct Piece {
    bytes: u64,
    complete: bool,
}

/// Extents in the order in which fio reads them: as they were written, or by offset where blocks may have been written twice.
pub struct Written {
    sorted: Option<BTreeMap<u64, Piece>>,
    queue: VecDeque<(u64, Piece)>,
    reading: bool,
    backlog: u64,
    batch: u64,
    /// Reads that are left of the present batch.
    left: u64,
}

impl Written {
    /// Nothing yet; `overlaps`: blocks may be written twice. Reads of `batch` extents begin after `backlog` writes, where that is not 0.
    pub fn new(overlaps: bool, backlog: u64, batch: u64) -> Self {
        let batch = if batch == 0 { backlog } else { batch };
        let sorted = overlaps.then(BTreeMap::new);
        Self { sorted, queue: VecDeque::new(), reading: false, backlog, batch, left: 0 }
    }

    /// Takes up a write that is issued; one that it overlaps is no longer read.
    pub fn add(&mut self, offset: u64, bytes: u64) {
        let piece = Piece { bytes, complete: false };
        let Some(sorted) = &mut self.sorted else { return self.queue.push_back((offset, piece)) };
        while let Some((&at, &old)) = sorted.range(..offset + bytes).next_back() {
            if at + old.bytes <= offset {
                break;
            }
            sorted.remove(&at);
        }
        sorted.insert(offset, piece);
    }

    /// The write at `offset` is complete.
    pub fn complete(&mut self, offset: u64) {
        if self.backlog == 0 {
            return;
        }
        match &mut self.sorted {
            Some(sorted) => sorted.get_mut(&offset).into_iter().for_each(|piece| piece.complete = true),
            None => {
                self.queue.iter_mut().filter(|(at, _)| *at == offset).for_each(|(_, piece)| piece.complete = true);
            }
        }
    }

    /// The read that comes before the next write, if one does; `last`: what completed last. The rule is fio's
    /// (`check_get_verify`): a batch begins at each multiple of the backlog, unless a read completed last.
    pub fn next_of_backlog(&mut self, last: Option<Direction>) -> Option<(Direction, u64, u64)> {
        let waiting = self.sorted.as_ref().map_or(self.queue.len(), BTreeMap::len) as u64;
        if self.backlog == 0 || self.reading || waiting == 0 {
            return None;
        }
        if self.left == 0 {
            if waiting % self.backlog != 0 || last == Some(Direction::Read) {
                return None;
            }
            self.left = self.batch;
        }
        let first = match &self.sorted {
            Some(sorted) => sorted.first_key_value().map(|(&at, &piece)| (at, piece)),
            None => self.queue.front().copied(),
        };
        let (offset, piece) = first.filter(|(_, piece)| piece.complete)?;
        match &mut self.sorted {
            Some(sorted) => sorted.remove(&offset).map(drop),
            None => self.queue.pop_front().map(drop),
        };
        self.left -= 1;
        Some((Direction::Read, offset, piece.bytes))
    }

    /// Begins to read the written data back.
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
        self.queue.pop_front().map(|(offset, piece)| (Direction::Read, offset, piece.bytes))
    }
}
