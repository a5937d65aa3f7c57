//! The media: flash, the data itself if it is kept, and blocks that cannot be read.

use super::store::Store;
use super::uncorrectable::Uncorrectable;
use crate::flash::Flash;
use crate::profile::{LBA, UNIT};

/// Units that bytes `from .. to` of the media touch: first, count.
#[inline]
pub fn units(from: u64, to: u64) -> (u64, u64) {
    let first = from / UNIT;
    (first, to.div_ceil(UNIT) - first)
}

/// The media.
pub struct Media {
    /// Flash and write buffer: where data is and how long it takes.
    pub flash: Flash,
    store: Option<Store>,
    uncorrectable: Uncorrectable,
}

impl Media {
    /// Media with this flash; `keep`: the data itself is kept, too.
    pub fn new(flash: Flash, keep: bool) -> Self {
        Self { flash, store: keep.then(Store::default), uncorrectable: Uncorrectable::default() }
    }

    /// Whether the data itself is kept.
    pub fn keeps_data(&self) -> bool {
        self.store.is_some()
    }

    /// Whether reading and writing is a matter of flash alone: no data is kept and all blocks can be read.
    pub fn is_plain(&self) -> bool {
        self.store.is_none() && self.uncorrectable.is_empty()
    }

    /// Bytes `from .. to` (whole blocks) hold nothing any more. Only whole units leave the map; blocks at the edges are zeroed
    /// in the store.
    pub fn discard(&mut self, from: u64, to: u64) {
        self.uncorrectable.clear(from, to);
        if let Some(store) = &mut self.store {
            store.discard(from / LBA, (to - from) / LBA);
        }
        let (first, end) = (from.div_ceil(UNIT), to / UNIT);
        if end > first {
            self.flash.deallocate(first, end - first);
        }
    }

    /// Write Uncorrectable: bytes `from .. to` cannot be read until they are written.
    pub fn spoil(&mut self, from: u64, to: u64) {
        self.uncorrectable.mark(from, to);
    }

    /// Bytes `from .. to` are written.
    pub fn written(&mut self, from: u64, to: u64) {
        self.uncorrectable.clear(from, to);
    }

    /// Whether bytes `from .. to` can be read.
    pub fn readable(&self, from: u64, to: u64) -> bool {
        !self.uncorrectable.any(from, to)
    }

    /// The data from byte `at` on, if it is kept.
    #[inline]
    pub fn data(&self, at: u64, len: u32) -> Option<Vec<u8>> {
        let store = self.store.as_ref()?;
        let mut bytes = vec![0; len as usize];
        store.read(at, &mut bytes);
        Some(bytes)
    }

    /// Keeps the data from byte `at` on, if data is kept.
    pub fn keep(&mut self, at: u64, bytes: &[u8]) {
        if let Some(store) = &mut self.store {
            store.write(at, bytes);
        }
    }
}
