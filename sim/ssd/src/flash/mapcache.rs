//! The cached part of the map of a drive without DRAM: in the controller, and in the host memory buffer.
//!
//! The controller reads the map from flash in pages of 1024 entries. A direct-mapped table of page numbers models the cache. Its first pages
//! lie in lent memory, which the drive reaches over the bus. The others lie in the controller.

use crate::profile::Ps;
use std::collections::VecDeque;

/// Entries of a map page: 4 KiB of 4-byte entries, which cover 4 MiB of the drive.
const ENTRIES: u64 = 1024;
/// Bytes of an entry, of a page, and of the piece of lent memory that a look-up reads.
const ENTRY: u64 = 4;
const PAGE: u64 = ENTRIES * ENTRY;
const LINE: u64 = 64;

/// An access to lent memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Place in the lent memory, in bytes.
    pub offset: u64,
    /// Bytes; an access lies in one page.
    pub len: u32,
    /// The drive writes, or else reads.
    pub write: bool,
}

/// The cached map pages, each with a mark if it was changed.
pub struct MapCache {
    pages: Vec<(u32, bool)>,
    /// Bytes of the pages in lent memory.
    lent: u64,
    /// Line of lent memory that the controller read last.
    line: Option<u64>,
    accesses: VecDeque<(Ps, Access)>,
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
    /// An empty cache of `own` bytes in the controller and `lent` bytes in lent memory.
    pub fn new(own: u64, lent: u64) -> Self {
        let pages = vec![(u32::MAX, false); ((own + lent) / PAGE).max(1) as usize];
        Self { pages, lent, line: None, accesses: VecDeque::new() }
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

    /// Place of a unit's map page in lent memory, unless the page lies in the controller.
    fn lent_page(&self, unit: u64) -> Option<u64> {
        let place = Self::page_of(unit) % self.pages.len() as u64 * PAGE;
        (place < self.lent).then_some(place)
    }

    /// Lists the accesses of a hit to lent memory. A look-up reads the line of the entry, unless it was read last. A change writes the
    /// entry, together with its neighbours of the same time.
    pub fn hit(&mut self, now: Ps, unit: u64, change: bool) {
        let Some(page) = self.lent_page(unit) else { return };
        let entry = page + unit % ENTRIES * ENTRY;
        let line = entry / LINE * LINE;
        if !change {
            if self.line.replace(line) != Some(line) {
                self.accesses.push_back((now, Access { offset: line, len: LINE as u32, write: false }));
            }
            return;
        }
        match self.accesses.back_mut() {
            Some((at, a)) if a.write && *at == now && a.offset + u64::from(a.len) == entry && entry > line => {
                a.len += ENTRY as u32;
            }
            _ => self.accesses.push_back((now, Access { offset: entry, len: ENTRY as u32, write: true })),
        }
    }

    /// Lists the accesses of a miss to lent memory. A changed page is read back at `now`; the new page is written when it is `known`.
    pub fn miss(&mut self, now: Ps, known: Ps, unit: u64, write_back: bool) {
        let Some(offset) = self.lent_page(unit) else { return };
        self.line = None;
        let page = |write| Access { offset, len: PAGE as u32, write };
        if write_back {
            self.accesses.push_back((now, page(false)));
        }
        self.accesses.push_back((known, page(true)));
    }

    /// Takes the next access to lent memory, and its time.
    pub fn next_access(&mut self) -> Option<(Ps, Access)> {
        self.accesses.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_written_back_once_and_what_was_read_is_not() {
        let (clean, dirty) = (Lookup::Miss { write_back: false }, Lookup::Miss { write_back: true });
        let mut cache = MapCache::new(2 * 4096, 0);
        let unit = |page: u64| page * ENTRIES + 5;
        assert_eq!(cache.look_up(unit(0), false), clean);
        assert_eq!(cache.look_up(unit(0), true), Lookup::Hit);
        assert_eq!(cache.look_up(unit(1), false), clean, "another place");
        assert_eq!(cache.look_up(unit(2), false), dirty, "page 0 was changed");
        assert_eq!(cache.look_up(unit(4), true), clean, "page 2 was not");
        assert_eq!(cache.look_up(unit(0), false), dirty);
        assert_eq!(cache.look_up(unit(1), false), Lookup::Hit);
    }

    fn accesses(cache: &mut MapCache) -> Vec<(Ps, u64, u32, bool)> {
        std::iter::from_fn(|| cache.next_access()).map(|(at, a)| (at, a.offset, a.len, a.write)).collect()
    }

    #[test]
    fn only_pages_in_lent_memory_are_reached_over_the_bus() {
        let mut cache = MapCache::new(2 * 4096, 4096);
        let unit = |page: u64| page * ENTRIES + 37;
        for page in [1, 2, 4] {
            cache.hit(1, unit(page), true);
            cache.miss(2, 3, unit(page), true);
        }
        assert_eq!(accesses(&mut cache), []);
        cache.miss(2, 5, unit(0), false);
        cache.miss(7, 9, unit(3), true);
        assert_eq!(accesses(&mut cache), [(5, 0, 4096, true), (7, 0, 4096, false), (9, 0, 4096, true)]);
    }

    #[test]
    fn a_line_is_read_once_in_a_row_and_neighbours_are_written_together() {
        let mut cache = MapCache::new(4096, 2 * 4096);
        (0..20).for_each(|unit| cache.hit(1, unit, false));
        assert_eq!(accesses(&mut cache), [(1, 0, 64, false), (1, 64, 64, false)]);
        (3..20).for_each(|unit| cache.hit(2, unit, true));
        cache.hit(3, 20, true);
        assert_eq!(accesses(&mut cache), [(2, 12, 52, true), (2, 64, 16, true), (3, 80, 4, true)]);
    }
}
