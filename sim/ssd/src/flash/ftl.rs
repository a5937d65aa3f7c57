//! The flash translation layer's state: the place of each logical unit, the contents of each superblock, and the free superblocks.
//!
//! This module knows no time: `super` decides when data moves, and the cost. A unit is 4 KiB. Both directions of the map are flat tables
//! of 4 bytes a unit. The operating system commits a table page when it is first written, so a partly used drive costs little memory. Each
//! direction takes at most 1 GB for each TB of the drive.

use crate::profile::Geometry;
use std::collections::VecDeque;

/// Map entry: as the drive's condition says. Tables start as zeroes.
const AS_BEFORE: u32 = 0;
/// Map entry: deallocated.
const GONE: u32 = 1;
/// Reverse entry of a slot that was left out when a page was programmed before it was full.
const PADDING: u32 = u32::MAX;

/// Base-2 logarithm of the map entries that a bit of `touched` covers: a page of memory.
const LUMP_BITS: u32 = 10;

/// Units of a stripe, for choosing the stripes in SLC before the run.
const STRIPE: u64 = 64;

/// Assumed state of units untouched in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// So many units written sequentially from the drive's beginning: unit u lies in slot u, in dense flash.
    Filled(u64),
    /// Written sequentially over the whole drive, with this many of 256 stripes in SLC and the others in dense flash. The data takes no
    /// space that new data needs. This state applies where the amount of data is unknown.
    Aside(u16),
}

/// A number of 32 bits that looks random, the same for all units of a stripe.
fn scatter(unit: u64) -> u32 {
    ((unit / STRIPE) as u32).wrapping_mul(0x9E37_79B1)
}

/// Who writes: each has a superblock of its own to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// New data into the SLC cache.
    Cache = 0,
    /// New data straight into dense flash.
    Direct = 1,
    /// Data moved by folding and garbage collection.
    Moved = 2,
}

/// Place of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Slot number: superblock and offset.
    pub slot: u32,
    /// Whether it is in SLC mode.
    pub slc: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed,
}

/// A block of every plane of every die, erased and filled together.
#[derive(Debug, Clone, Copy)]
struct Superblock {
    state: State,
    slc: bool,
    written: u32,
    valid: u32,
}

/// A superblock being emptied, and how far.
#[derive(Debug, Clone, Copy)]
pub struct Victim {
    block: u32,
    next: u32,
}

/// The map and the superblocks.
pub struct Ftl {
    geometry: Geometry,
    before: Before,
    map: Vec<u32>,
    /// A bit for each [`LUMP`] of the map's entries, set once an entry in the lump is written. A clear bit saves a lookup: a cache miss,
    /// and a page of memory.
    touched: Vec<u64>,
    reverse: Vec<u32>,
    blocks: Vec<Superblock>,
    free: VecDeque<u32>,
    open: [Option<u32>; 3],
    slc_blocks: u32,
    dense_valid: u64,
    slc_valid: u64,
}

impl Ftl {
    /// A drive in this condition.
    pub fn new(geometry: Geometry, before: Before) -> Self {
        let empty = Superblock { state: State::Free, slc: false, written: 0, valid: 0 };
        let size = 1u64 << geometry.shift;
        let filled = if let Before::Filled(units) = before { units.min(geometry.units) } else { 0 };
        let blocks: Vec<Superblock> = (0..u64::from(geometry.blocks))
            .map(|i| match filled.saturating_sub(i * size).min(size) as u32 {
                0 => empty,
                held => Superblock { state: State::Closed, slc: false, written: held, valid: held },
            })
            .collect();
        let free = (0..geometry.blocks).filter(|&b| blocks[b as usize].state == State::Free).collect();
        Self {
            geometry,
            before,
            map: vec![AS_BEFORE; geometry.units as usize],
            touched: vec![0; (geometry.units >> LUMP_BITS) as usize / 64 + 1],
            reverse: vec![0; (u64::from(geometry.blocks) << geometry.shift) as usize],
            blocks,
            free,
            open: [None; 3],
            slc_blocks: 0,
            dense_valid: filled,
            slc_valid: 0,
        }
    }

    /// Places the last `units` of the drive's first contents in the SLC cache instead of dense flash.
    pub fn hold_in_cache(&mut self, units: u64) {
        let Before::Filled(end) = self.before else { return };
        for unit in end.saturating_sub(units)..end {
            if self.open[Stream::Cache as usize].is_none() && !self.open(Stream::Cache) {
                return;
            }
            self.append(Stream::Cache, unit);
        }
    }

    /// Units `0 .. units` hold data: `share` of their stripes, spread over them, in the SLC cache, the others in dense flash.
    /// New data begins with a page of `page` units.
    pub fn hold_data(&mut self, units: u64, share: f64, page: u64) {
        let share = (share * f64::from(1u32 << 24)).round() as u32;
        for unit in 0..units.min(self.geometry.units) {
            let slc = scatter(unit) >> 8 < share;
            let stream = if slc { Stream::Cache } else { Stream::Direct };
            if self.open[stream as usize].is_none() && !self.open(stream) {
                return;
            }
            self.append(stream, unit);
        }
        for stream in [Stream::Cache, Stream::Direct] {
            if let Some(open) = self.open[stream as usize] {
                let written = u64::from(self.blocks[open as usize].written);
                self.pad(stream, written.next_multiple_of(page) - written);
            }
        }
    }

    /// Removes all data, as a format or a sanitize does.
    pub fn clear(&mut self) {
        *self = Self::new(self.geometry, Before::Nothing);
    }

    /// Returns the place of a unit, or `None` if the unit holds nothing.
    #[inline]
    pub fn place(&self, unit: u64) -> Option<Place> {
        match self.entry(unit) {
            AS_BEFORE => match self.before {
                Before::Nothing => None,
                Before::Filled(end) => (unit < end).then_some(Place { slot: unit as u32, slc: false }),
                Before::Aside(share) => Some(Place { slot: unit as u32, slc: scatter(unit) >> 24 < u32::from(share) }),
            },
            GONE => None,
            v => {
                let slot = v - 2;
                Some(Place { slot, slc: self.blocks[(slot >> self.geometry.shift) as usize].slc })
            }
        }
    }

    #[inline]
    fn entry(&self, unit: u64) -> u32 {
        let lump = unit >> LUMP_BITS;
        if self.touched[(lump / 64) as usize] >> (lump % 64) & 1 == 0 {
            return AS_BEFORE;
        }
        self.map[unit as usize]
    }

    /// Sets the map's entry of a unit and returns the previous entry.
    #[inline]
    fn enter(&mut self, unit: u64, entry: u32) -> u32 {
        let lump = unit >> LUMP_BITS;
        self.touched[(lump / 64) as usize] |= 1 << (lump % 64);
        std::mem::replace(&mut self.map[unit as usize], entry)
    }

    /// Units that lie in SLC; in dense flash.
    pub fn valid(&self) -> (u64, u64) {
        (self.slc_valid, self.dense_valid)
    }

    /// Superblocks in SLC mode.
    pub fn slc_blocks(&self) -> u32 {
        self.slc_blocks
    }

    /// Superblocks that are free.
    pub fn free_blocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// Whether a stream can take a unit without a new superblock.
    pub fn has_open(&self, stream: Stream) -> bool {
        self.open[stream as usize].is_some()
    }

    /// Gives a stream a superblock to write to; false if there is none.
    pub fn open(&mut self, stream: Stream) -> bool {
        let Some(block) = self.free.pop_front() else { return false };
        let slc = stream == Stream::Cache;
        self.blocks[block as usize] = Superblock { state: State::Open, slc, written: 0, valid: 0 };
        self.slc_blocks += u32::from(slc);
        self.open[stream as usize] = Some(block);
        true
    }

    /// Writes a unit to a stream that has an open superblock, and returns its slot. The unit's previous data becomes void.
    #[inline]
    pub fn append(&mut self, stream: Stream, unit: u64) -> u32 {
        let slot = self.take_slot(stream);
        self.reverse[slot as usize] = unit as u32;
        let block = &mut self.blocks[(slot >> self.geometry.shift) as usize];
        block.valid += 1;
        if block.slc {
            self.slc_valid += 1;
        } else {
            self.dense_valid += 1;
        }
        let old = self.enter(unit, slot + 2);
        self.void(unit, old);
        slot
    }

    /// Leaves `count` slots of a stream's open superblock unused.
    pub fn pad(&mut self, stream: Stream, count: u64) {
        for _ in 0..count {
            if self.open[stream as usize].is_none() {
                return;
            }
            let slot = self.take_slot(stream);
            self.reverse[slot as usize] = PADDING;
            let index = slot >> self.geometry.shift;
            let block = self.blocks[index as usize];
            if block.state == State::Closed && block.valid == 0 {
                self.release(index);
            }
        }
    }

    fn take_slot(&mut self, stream: Stream) -> u32 {
        let index = self.open[stream as usize].expect("the caller opened a superblock");
        let block = &mut self.blocks[index as usize];
        let slot = (index << self.geometry.shift) + block.written;
        block.written += 1;
        let size = if block.slc { self.geometry.slc_block } else { 1 << self.geometry.shift };
        if block.written == size {
            block.state = State::Closed;
            self.open[stream as usize] = None;
        }
        slot
    }

    /// A unit holds nothing any more.
    pub fn deallocate(&mut self, unit: u64) {
        let old = self.enter(unit, GONE);
        self.void(unit, old);
    }

    /// The copy that `old` names is void.
    fn void(&mut self, unit: u64, old: u32) {
        let slot = match (old, self.before) {
            (GONE, _) | (AS_BEFORE, Before::Nothing | Before::Aside(_)) => return,
            (AS_BEFORE, Before::Filled(end)) if unit >= end => return,
            (AS_BEFORE, Before::Filled(_)) => unit as u32,
            (v, _) => v - 2,
        };
        let index = slot >> self.geometry.shift;
        let block = &mut self.blocks[index as usize];
        block.valid -= 1;
        if block.slc {
            self.slc_valid -= 1;
        } else {
            self.dense_valid -= 1;
        }
        if block.valid == 0 && block.state == State::Closed {
            self.release(index);
        }
    }

    fn release(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        block.state = State::Free;
        self.slc_blocks -= u32::from(block.slc);
        block.slc = false;
        self.free.push_back(index);
    }

    /// The closed superblock of that kind with the fewest valid units (greedy choice), and their share.
    pub fn victim(&self, slc: bool) -> Option<(Victim, f64)> {
        let candidates = self.blocks.iter().enumerate().filter(|(_, b)| b.state == State::Closed && b.slc == slc);
        let (index, block) = candidates.min_by_key(|(_, b)| b.valid)?;
        Some((Victim { block: index as u32, next: 0 }, f64::from(block.valid) / f64::from(block.written)))
    }

    /// The least valid share of a closed superblock of that kind; 1 if there is none.
    pub fn best_share(&self, slc: bool) -> f64 {
        let closed = self.blocks.iter().filter(|b| b.state == State::Closed && b.slc == slc);
        closed.map(|b| f64::from(b.valid) / f64::from(b.written)).fold(1.0, f64::min)
    }

    /// Units of a superblock in SLC mode.
    pub fn slc_block(&self) -> u32 {
        self.geometry.slc_block
    }

    /// Notes that a unit is held in the slot of its own number: memory that is written in place.
    pub fn hold_in_place(&mut self, unit: u64) {
        if self.entry(unit) <= GONE {
            self.enter(unit, unit as u32 + 2);
            let block = &mut self.blocks[(unit >> self.geometry.shift) as usize];
            block.state = State::Open; // never a victim, never free
            block.valid += 1;
            self.dense_valid += 1;
        }
    }

    /// The next valid unit of a superblock being emptied, and its slot; `None` when all were seen.
    pub fn next_valid(&self, victim: &mut Victim) -> Option<(u64, u32)> {
        let block = self.blocks[victim.block as usize];
        if block.state != State::Closed {
            return None; // it became empty, and was perhaps taken up again
        }
        while victim.next < block.written {
            let slot = (victim.block << self.geometry.shift) + victim.next;
            victim.next += 1;
            let unit = self.reverse[slot as usize];
            if unit == PADDING {
                continue;
            }
            // Slots filled before the run have no reverse entry (0), and hold the unit of their own number.
            if self.map[unit as usize] == slot + 2 {
                return Some((u64::from(unit), slot));
            }
            let Before::Filled(end) = self.before else { continue };
            if u64::from(slot) < end && self.map[slot as usize] == AS_BEFORE {
                return Some((u64::from(slot), slot));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const GEOMETRY: Geometry = Geometry { units: 200, shift: 4, blocks: 20, slc_block: 4 };

    fn write(ftl: &mut Ftl, stream: Stream, unit: u64) {
        while !ftl.has_open(stream) {
            if ftl.free_blocks() > 1 || (stream == Stream::Moved && ftl.free_blocks() > 0) {
                assert!(ftl.open(stream));
                continue;
            }
            let slc = ftl.slc_blocks() > 2;
            let (mut victim, _) = ftl.victim(slc).expect("something is closed");
            while let Some((unit, _)) = ftl.next_valid(&mut victim) {
                write(ftl, Stream::Moved, unit);
            }
        }
        ftl.append(stream, unit);
    }

    /// Checks the state after a format, whatever the drive held before and whatever was written since.
    #[test]
    fn nothing_is_stored_after_a_format() {
        for before in [Before::Nothing, Before::Filled(150), Before::Aside(256), Before::Aside(0)] {
            let mut ftl = Ftl::new(GEOMETRY, before);
            for unit in 0..40 {
                write(&mut ftl, if unit < 20 { Stream::Cache } else { Stream::Direct }, unit);
            }
            assert!(ftl.place(0).is_some() && ftl.valid().0 == 20);
            ftl.clear();
            assert!((0..200).all(|unit| ftl.place(unit).is_none()), "{before:?}");
            assert_eq!((ftl.valid(), ftl.slc_blocks(), ftl.free_blocks()), ((0, 0), 0, 20), "{before:?}");
            assert!(ftl.victim(true).is_none() && ftl.victim(false).is_none());
            write(&mut ftl, Stream::Direct, 7);
            assert!(ftl.place(7).is_some() && ftl.place(8).is_none());
        }
    }

    #[test]
    fn what_was_there_before_lies_where_the_condition_says() {
        let filled = Ftl::new(GEOMETRY, Before::Filled(150));
        assert_eq!(filled.place(149), Some(Place { slot: 149, slc: false }));
        assert_eq!((filled.place(150), filled.valid(), filled.free_blocks()), (None, (0, 150), 10));
        let aside = |share| Ftl::new(GEOMETRY, Before::Aside(share));
        assert!((0..200).all(|u| aside(0).place(u) == Some(Place { slot: u as u32, slc: false })));
        assert!((0..200).all(|u| aside(256).place(u) == Some(Place { slot: u as u32, slc: true })));
        assert_eq!((aside(256).valid(), aside(256).free_blocks()), ((0, 0), 20));
        assert!((0..200).all(|u| Ftl::new(GEOMETRY, Before::Nothing).place(u).is_none()));
    }

    #[test]
    fn the_cache_holds_whole_stripes_spread_over_the_drive() {
        let units = 4000 * STRIPE;
        let ftl = Ftl::new(Geometry { units, ..GEOMETRY }, Before::Aside(64));
        let slc = |unit| ftl.place(unit).unwrap().slc;
        let stripes: Vec<bool> = (0..units).step_by(STRIPE as usize).map(slc).collect();
        assert!(
            (0..units).all(|unit| slc(unit) == stripes[(unit / STRIPE) as usize]),
            "64 of 256 stripes, each as a whole"
        );
        for part in stripes.chunks(1000) {
            assert!((200..300).contains(&part.iter().filter(|slc| **slc).count()), "about 250 of each 1000");
        }
        let longest = stripes.split(|slc| !slc).map(<[bool]>::len).max().unwrap();
        assert!(longest < 20, "in no large pieces: {longest}");
    }

    /// A padded superblock is freed only if nothing in it holds data any more.
    #[test]
    fn padding_closes_a_superblock_and_frees_only_an_empty_one() {
        for holds in [true, false] {
            let mut ftl = Ftl::new(GEOMETRY, Before::Nothing);
            for unit in 0..3 {
                write(&mut ftl, Stream::Direct, unit);
            }
            for unit in u64::from(holds)..3 {
                ftl.deallocate(unit);
            }
            ftl.pad(Stream::Direct, 12);
            assert_eq!((ftl.has_open(Stream::Direct), ftl.free_blocks()), (true, 19), "one slot is left");
            ftl.pad(Stream::Direct, 5);
            assert!(!ftl.has_open(Stream::Direct));
            assert_eq!((ftl.free_blocks(), ftl.valid()), (if holds { 19 } else { 20 }, (0, u64::from(holds))));
            assert_eq!(ftl.place(0).is_some(), holds);
            let mut left = Vec::new();
            while let Some((mut victim, _)) = ftl.victim(false) {
                while let Some((unit, _)) = ftl.next_valid(&mut victim) {
                    left.push(unit);
                    ftl.deallocate(unit);
                }
            }
            assert_eq!(left, if holds { vec![0] } else { vec![] });
        }
    }

    proptest! {
        #[test]
        fn every_unit_is_where_its_last_write_put_it(
            filled in 0u64..=200,
            ops in prop::collection::vec((0u8..8, 0u64..200), 1..2000),
        ) {
            let mut ftl = Ftl::new(GEOMETRY, Before::Filled(filled));
            let mut want: HashMap<u64, bool> = (0..200).map(|u| (u, u < filled)).collect();
            for (op, unit) in ops {
                match op {
                    0 => ftl.deallocate(unit),
                    1 if ftl.slc_blocks() < 5 => write(&mut ftl, Stream::Cache, unit),
                    _ => write(&mut ftl, Stream::Direct, unit),
                }
                want.insert(unit, op != 0);
            }
            let mut slots = std::collections::HashSet::new();
            for (&unit, &held) in &want {
                let place = ftl.place(unit);
                prop_assert_eq!(place.is_some(), held);
                prop_assert!(place.is_none_or(|p| slots.insert(p.slot)), "two units in one slot");
            }
            let held = want.values().filter(|h| **h).count() as u64;
            let (slc, dense) = ftl.valid();
            prop_assert_eq!(slc + dense, held);
            let counted: u64 = ftl.blocks.iter().filter(|b| b.state != State::Free).map(|b| u64::from(b.valid)).sum();
            prop_assert_eq!(counted, held);
        }
    }
}
