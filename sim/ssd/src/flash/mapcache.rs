//! The cached part of the map of a drive without DRAM: in the controller, and in the host memory buffer.
//!
//! The controller reads the map from flash in pages of 1024 entries. A direct-mapped table of page numbers models the cache.

/// Entries of a map page: 4 KiB of 4-byte entries, which cover 4 MiB of the drive.
const ENTRIES: u64 = 1024;

/// The cached map pages, each with a mark if it was changed.
pub struct MapCache {
    pages: Vec<(u32, bool)>,
}

/// Result of looking up a unit in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The map page is at hand.
    Hit,
    /// It must be read from flash; `write_back`: the one that makes room for it was changed and must be written before.
    Miss {
        /// See above.
        write_back: bool,
    },
}

impl MapCache {
    /// A cache of this many bytes, nothing in it.
    pub fn new(bytes: u64) -> Self {
        Self { pages: vec![(u32::MAX, false); (bytes / 4096).max(1) as usize] }
    }

    /// The map page of a unit.
    pub fn page_of(unit: u64) -> u64 {
        unit / ENTRIES
    }

    /// Looks a unit up, for changing its entry or not; its map page is at hand afterwards.
    pub fn look_up(&mut self, unit: u64, change: bool) -> Lookup {
        let page = Self::page_of(unit) as u32;
        let index = page as usize % self.pages.len();
        let (held, changed) = &mut self.pages[index];
        if *held == page {
            *changed |= change;
            return Lookup::Hit;
        }
        let write_back = *changed;
        (*held, *changed) = (page, change);
        Lookup::Miss { write_back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_written_back_once_and_what_was_read_is_not() {
        let (clean, dirty) = (Lookup::Miss { write_back: false }, Lookup::Miss { write_back: true });
        let mut cache = MapCache::new(2 * 4096);
        let unit = |page: u64| page * ENTRIES + 5;
        assert_eq!(cache.look_up(unit(0), false), clean);
        assert_eq!(cache.look_up(unit(0), true), Lookup::Hit);
        assert_eq!(cache.look_up(unit(1), false), clean, "another place");
        assert_eq!(cache.look_up(unit(2), false), dirty, "page 0 was changed");
        assert_eq!(cache.look_up(unit(4), true), clean, "page 2 was not");
        assert_eq!(cache.look_up(unit(0), false), dirty);
        assert_eq!(cache.look_up(unit(1), false), Lookup::Hit);
    }
}
