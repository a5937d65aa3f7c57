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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::Condition;
    use crate::profile::Profile;

    fn media(keep: bool) -> Media {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        Media::new(Flash::new(&profile, Condition::Full, Some(64 * UNIT), 1), keep)
    }

    #[test]
    fn bytes_touch_every_unit_that_they_have_a_part_of() {
        assert_eq!(units(0, 4096), (0, 1));
        assert_eq!(units(4095, 4097), (0, 2));
        assert_eq!(units(8192, 8704), (2, 1));
        assert_eq!(units(512, 20_480), (0, 5));
    }

    #[test]
    fn only_whole_units_are_given_up() {
        for (from, to, freed) in [
            (0, 4096, 1),
            (512, 4096, 0),
            (512, 8192, 1),
            (512, 12_800, 2),
            (4096, 4608, 0),
            (3584, 4608, 0),
            (8192, 40_960, 8),
        ] {
            let mut media = media(false);
            let held = |media: &Media| media.flash.holdings().in_dense + media.flash.holdings().in_slc;
            let before = held(&media);
            media.discard(from, to);
            assert_eq!(before - held(&media), freed, "{from} .. {to}");
        }
    }

    #[test]
    fn data_that_is_kept_is_zero_where_it_was_given_up() {
        let mut media = media(true);
        assert!(media.keeps_data() && !media.is_plain());
        media.keep(0, &[7; 3 * 512]);
        media.discard(512, 1024);
        assert_eq!(media.data(511, 514).unwrap(), [&[7][..], &[0; 512], &[7]].concat());
        let none = self::media(false);
        assert!(!none.keeps_data() && none.is_plain() && none.data(0, 512).is_none());
    }

    #[test]
    fn what_is_spoilt_cannot_be_read_until_it_is_written_or_given_up() {
        let mut media = media(false);
        assert!(media.readable(0, 8192));
        media.spoil(1024, 2048);
        assert!(!media.is_plain() && !media.readable(1536, 4096));
        assert!(media.readable(0, 1024) && media.readable(2048, 4096));
        media.written(1024, 1536);
        assert!(media.readable(1024, 1536) && !media.readable(1024, 2048));
        media.discard(0, 4096);
        assert!(media.readable(0, 4096) && media.is_plain());
    }
}
