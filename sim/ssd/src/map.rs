//! Where logical units lie: a table in chunks, so that a whole drive can be deallocated without a billion entries.

use std::collections::HashMap;

const CHUNK: u64 = 4096;
const AS_BEFORE: u32 = 0;
const GONE: u32 = 1;

/// Page and kind of flash of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Physical page number, below 2^30.
    pub page: u32,
    /// Whether it is in the SLC cache.
    pub slc: bool,
}

/// What the table knows of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Not touched in this run.
    AsBefore,
    /// Deallocated.
    Gone,
    /// Written.
    At(Place),
}

enum Chunk {
    Gone,
    Each(Box<[u32]>),
}

/// The table.
#[derive(Default)]
pub struct Map {
    chunks: HashMap<u64, Chunk>,
}

impl Map {
    /// What is known of `unit`.
    pub fn get(&self, unit: u64) -> Entry {
        match self.chunks.get(&(unit / CHUNK)) {
            None => Entry::AsBefore,
            Some(Chunk::Gone) => Entry::Gone,
            Some(Chunk::Each(units)) => decode(units[(unit % CHUNK) as usize]),
        }
    }

    /// Records that `unit` was written; what was known before.
    pub fn put(&mut self, unit: u64, place: Place) -> Entry {
        self.set(unit, (place.page << 1 | u32::from(place.slc)) + 2)
    }

    /// Deallocates units `first .. first + count`; how many of those written in this run were in SLC.
    pub fn remove(&mut self, first: u64, count: u64) -> u64 {
        let (mut at, end, mut slc) = (first, first + count, 0);
        while at < end {
            if at % CHUNK == 0 && end - at >= CHUNK {
                if let Some(Chunk::Each(units)) = self.chunks.insert(at / CHUNK, Chunk::Gone) {
                    slc += units.iter().filter(|&&u| matches!(decode(u), Entry::At(p) if p.slc)).count() as u64;
                }
                at += CHUNK;
            } else {
                slc += u64::from(matches!(self.set(at, GONE), Entry::At(p) if p.slc));
                at += 1;
            }
        }
        slc
    }

    fn set(&mut self, unit: u64, value: u32) -> Entry {
        let chunk =
            self.chunks.entry(unit / CHUNK).or_insert_with(|| Chunk::Each(vec![AS_BEFORE; CHUNK as usize].into()));
        if matches!(chunk, Chunk::Gone) {
            *chunk = Chunk::Each(vec![GONE; CHUNK as usize].into());
        }
        let Chunk::Each(units) = chunk else { unreachable!("just made so") };
        decode(std::mem::replace(&mut units[(unit % CHUNK) as usize], value))
    }
}

fn decode(value: u32) -> Entry {
    match value {
        AS_BEFORE => Entry::AsBefore,
        GONE => Entry::Gone,
        v => Entry::At(Place { page: (v - 2) >> 1, slc: (v - 2) & 1 == 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_units() {
        let mut map = Map::default();
        let place = Place { page: 77, slc: true };
        assert_eq!(map.put(5000, place), Entry::AsBefore);
        assert_eq!(map.get(5000), Entry::At(place));
        assert_eq!(map.get(5001), Entry::AsBefore);
        assert_eq!(map.remove(4095, 3 * CHUNK), 1);
        assert_eq!(
            [4094, 4095, 5000, 4094 + 3 * CHUNK].map(|u| map.get(u)),
            [Entry::AsBefore, Entry::Gone, Entry::Gone, Entry::Gone]
        );
        assert_eq!(map.get(4095 + 3 * CHUNK), Entry::AsBefore);
        assert_eq!(map.put(5000, place), Entry::Gone);
        assert_eq!(map.get(5001), Entry::Gone);
    }
}
