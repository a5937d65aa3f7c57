//! Reads of host memory: how many at a time, and what waits for its turn.

use std::collections::VecDeque;

/// Most reads outstanding at a time, of any kind; the limit leaves tags for the largest read.
const MOST: usize = 12;
/// Reads of submission queue entries that may be outstanding besides reads of data.
const FETCHES: usize = 4;

/// The account of reads. `W` is the purpose of a read; `D` is a piece of write data that waits for the DMA engine.
pub struct HostReads<W, D> {
    outstanding: usize,
    deferred: VecDeque<W>,
    data: VecDeque<D>,
    data_active: usize,
    data_most: usize,
}

impl<W, D> HostReads<W, D> {
    /// None yet; `data_most` reads of data at a time.
    pub fn new(data_most: usize) -> Self {
        Self { outstanding: 0, deferred: VecDeque::new(), data: VecDeque::new(), data_active: 0, data_most }
    }

    /// Begins a read and gives it back, or keeps it for later if too many are outstanding.
    #[inline]
    pub fn begin(&mut self, read: W) -> Option<W> {
        if self.outstanding >= MOST {
            self.deferred.push_back(read);
            return None;
        }
        self.outstanding += 1;
        Some(read)
    }

    /// A read was answered.
    #[inline]
    pub fn answered(&mut self) {
        self.outstanding -= 1;
    }

    /// Begins the next read that waited, if one can.
    #[inline]
    pub fn next(&mut self) -> Option<W> {
        if self.outstanding >= MOST {
            return None;
        }
        self.deferred.pop_front().inspect(|_| self.outstanding += 1)
    }

    /// Whether there are too many reads to fetch entries now.
    #[inline]
    pub fn crowded(&self) -> bool {
        self.outstanding >= FETCHES + self.data_most
    }

    /// Write data waits for the DMA engine.
    pub fn want_data(&mut self, pieces: impl IntoIterator<Item = D>) {
        self.data.extend(pieces);
    }

    /// The next piece of write data, if the DMA engine has room for it.
    #[inline]
    pub fn next_data(&mut self) -> Option<D> {
        if self.data_active >= self.data_most {
            return None;
        }
        self.data.pop_front().inspect(|_| self.data_active += 1)
    }

    /// A piece of write data is in the buffer.
    #[inline]
    pub fn data_in(&mut self) {
        self.data_active -= 1;
    }

    /// Forgets the waiting reads, at a controller reset. Outstanding reads are still answered.
    pub fn reset(&mut self) {
        self.deferred.clear();
        self.data.clear();
        self.data_active = 0;
    }
}
