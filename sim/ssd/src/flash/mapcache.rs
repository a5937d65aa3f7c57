//! The part of the map that a drive without DRAM keeps at hand: in the controller, and in the host memory buffer.
//!
//! The map is read from flash in pages of 1024 entries. A direct-mapped table of page numbers stands for the cache.

/// Entries of a map page: 4 KiB of 4-byte entries, which cover 4 MiB of the drive.
const ENTRIES: u64 = 1024;

/// Which map pages are at hand.
pub struct MapCache {
    pages: Vec<u32>,
}

impl MapCache {
    /// A cache of this many bytes, nothing in it.
    pub fn new(bytes: u64) -> Self {
        Self { pages: vec![u32::MAX; (bytes / 4096).max(1) as usize] }
    }

    /// The map page of a unit.
    pub fn page_of(unit: u64) -> u64 {
        unit / ENTRIES
    }

    /// Whether the map page of a unit is at hand; it is afterwards.
    pub fn hit(&mut self, unit: u64) -> bool {
        let page = Self::page_of(unit);
        let index = page as usize % self.pages.len();
        std::mem::replace(&mut self.pages[index], page as u32) == page as u32
    }
}
