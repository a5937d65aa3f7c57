//! Which blocks come next.

use super::blocks::BlockSize;
use super::distribution::{Chooser, Distribution};
use std::collections::HashMap;

/// Placement of the I/Os of one direction of a job.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Bytes of the area.
    pub area: u64,
    /// Their sizes.
    pub sizes: BlockSize,
    /// `blockalign`: random I/Os begin at multiples of this.
    pub align: u64,
    /// Bytes added to each sequential offset: `rw=read:8k`.
    pub stride: i64,
    /// How random I/Os are spread; `None`: they are sequential.
    pub random: Option<Spread>,
    /// `zonemode=strided`.
    pub zones: Option<Zones>,
}

/// How random I/Os are spread.
#[derive(Debug, Clone)]
pub struct Spread {
    /// Distribution of the offsets.
    pub distribution: Distribution,
    /// Whether every block is hit once before any is hit twice.
    pub map: bool,
    /// `percentage_random`; the other I/Os continue at the end of the last I/O.
    pub percent: u8,
    /// I/Os in a row: the first at a random offset, the others continue from there: `rw=randread:8`.
    pub every: u64,
}

/// Used strips and the gaps between them, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zones {
    /// `zonesize`: so much is moved in a zone.
    pub size: u64,
    /// `zonerange`: so large a zone is.
    pub range: u64,
    /// `zoneskip`: so much lies between two zones.
    pub skip: u64,
}

/// Offsets and sizes of one direction of a job, in bytes from the start of its area.
pub struct Offsets {
    place: Placement,
    sizes: fastrand::Rng,
    start: u64,
    position: u64,
    moved: u64,
    count: u64,
    wraps: u64,
    random: Option<Random>,
}

struct Random {
    rng: fastrand::Rng,
    chooser: Chooser,
    blocks: u64,
    map: Option<Map>,
}

/// Blocks hit so far: every block once a round, in an order that the seed chooses.
struct Map {
    seed: u64,
    round: u64,
    next: u64,
    /// Blocks that an I/O larger than a block covered, 64 in a word; empty where all I/Os are one block.
    covered: HashMap<u64, u64>,
}

impl Offsets {
    /// From the start of the area.
    pub fn new(place: Placement, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let span = place.zones.map_or(place.area, |z| z.range);
        let blocks = (span.saturating_sub(place.sizes.min().saturating_sub(place.align)) / place.align).max(1);
        let random = place.random.as_ref().map(|spread| Random {
            chooser: Chooser::new(&spread.distribution, blocks, place.align, &mut rng),
            rng,
            blocks,
            map: spread.map.then(|| Map { seed, round: 0, next: 0, covered: HashMap::new() }),
        });
        let sizes = fastrand::Rng::with_seed(seed.rotate_left(32) ^ 0xB10C);
        Self { place, sizes, start: 0, position: 0, moved: 0, count: 0, wraps: 0, random }
    }

    /// How often sequential offsets began anew.
    pub fn wraps(&self) -> u64 {
        self.wraps
    }

    /// Offset and bytes of the next I/O.
    pub fn next_extent(&mut self) -> (u64, u64) {
        if let Some(zones) = self.place.zones {
            self.change_zone(zones);
        }
        let least = self.place.sizes.min();
        let end = self.place.zones.map_or(self.place.area, |z| (self.start + z.range).min(self.place.area));
        let follows = self.follows(end - self.start);
        let (offset, most) = match &mut self.random {
            Some(random) if !follows => {
                let (block, blocks) = random.next_run(self.place.sizes.max().div_ceil(self.place.align));
                let offset = self.start + block * self.place.align;
                let offset = if offset + least > end { self.start } else { offset };
                (offset, (end - offset).min(blocks * self.place.align.max(least)))
            }
            _ => {
                let offset = self.next_sequential(end);
                (offset, end - offset)
            }
        };
        let bytes = match &self.place.sizes {
            BlockSize::Fixed(bytes) => *bytes,
            // With a map, blocks already hit are left out, as in fio: the I/O is shorter.
            sizes => sizes.draw(end - offset, &mut self.sizes).unwrap_or(least).min(most.max(least)),
        };
        if let Some(map) = self.random.as_mut().and_then(|r| r.map.as_mut()) {
            if !follows && self.place.sizes.max() > self.place.align {
                map.cover(offset.saturating_sub(self.start) / self.place.align, bytes.div_ceil(self.place.align));
            }
        }
        self.position = offset + bytes;
        self.moved += bytes;
        self.count += 1;
        (offset, bytes)
    }

    /// Whether the next I/O of a random job goes on where the last one ended.
    fn follows(&mut self, span: u64) -> bool {
        let (Some(spread), Some(random)) = (&self.place.random, &mut self.random) else { return false };
        let within = self.count % spread.every != 0;
        let chance = spread.percent < 100 && random.rng.u8(1..=100) > spread.percent;
        (within || chance) && self.position + self.place.sizes.min() <= self.start + span
    }

    fn next_sequential(&mut self, end: u64) -> u64 {
        let (least, stride) = (self.place.sizes.min(), self.place.stride);
        let at = self.position as i64 + if self.count > 0 { stride } else { 0 };
        if at >= self.start as i64 && at as u64 + least <= end {
            return at as u64;
        }
        // fio reads a file backwards from its first block, then from its end.
        self.wraps += u64::from(self.count > 1 || stride >= 0);
        if stride < 0 {
            (end as i64 + stride).max(self.start as i64) as u64
        } else {
            self.start
        }
    }

    fn change_zone(&mut self, zones: Zones) {
        if self.moved >= zones.size {
            self.moved = 0;
            self.start += zones.range + zones.skip;
            if self.start + self.place.sizes.max() > self.place.area {
                self.start = 0;
            }
            self.position = self.start;
        }
        if self.moved % zones.range == 0 {
            if let Some(map) = self.random.as_mut().and_then(|r| r.map.as_mut()) {
                map.restart();
            }
        }
    }
}

impl Random {
    /// A block, and how many from it on may be used, at most `most`.
    fn next_run(&mut self, most: u64) -> (u64, u64) {
        match &mut self.map {
            Some(map) => map.next_run(self.blocks, most),
            None => (self.chooser.next_block(&mut self.rng), most),
        }
    }
}

impl Map {
    fn next_run(&mut self, blocks: u64, most: u64) -> (u64, u64) {
        loop {
            if self.next == blocks {
                self.restart();
            }
            let index = self.next;
            let block = permute(index, blocks, self.seed ^ self.round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            self.next += 1;
            if self.is_covered(block) {
                continue;
            }
            let free = (1..most).take_while(|&n| block + n < blocks && !self.is_covered(block + n)).count() as u64;
            return (block, 1 + free);
        }
    }

    /// Another round.
    fn restart(&mut self) {
        (self.next, self.round) = (0, self.round + 1);
        self.covered.clear();
    }

    fn is_covered(&self, block: u64) -> bool {
        self.covered.get(&(block / 64)).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    fn cover(&mut self, block: u64, blocks: u64) {
        for block in block..block + blocks {
            *self.covered.entry(block / 64).or_default() |= 1 << (block % 64);
        }
    }
}

/// Returns a permutation of `0 .. n` chosen by `seed`: a Feistel network over the next even number of bits, walked until the value is in
/// range. This permutation replaces fio's random map and needs no memory.
fn permute(index: u64, n: u64, seed: u64) -> u64 {
    let half = (64 - (n - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut value = index;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 0..4u64 {
            let mixed = mix(right ^ seed.rotate_left(13 * round as u32) ^ round << 56);
            (left, right) = (right, left ^ (mixed & mask));
        }
        value = left << half | right;
        if value < n {
            return value;
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn sequential(area: u64, sizes: BlockSize) -> Placement {
        let align = sizes.min();
        Placement { area, sizes, align, stride: 0, random: None, zones: None }
    }

    fn random(area: u64, sizes: BlockSize, distribution: Distribution, map: bool) -> Placement {
        let spread = Spread { distribution, map, percent: 100, every: 1 };
        Placement { random: Some(spread), ..sequential(area, sizes) }
    }

    fn sectors(place: Placement, count: usize) -> Vec<u64> {
        let mut offsets = Offsets::new(place, 1);
        (0..count).map(|_| offsets.next_extent().0 / 512).collect()
    }

    proptest! {
        #[test]
        fn each_block_once_a_round(n in 1u64..3000, seed in any::<u64>()) {
            let place = random(n * 4096, BlockSize::Fixed(4096), Distribution::Uniform, true);
            let mut offsets = Offsets::new(place, seed);
            for _ in 0..2 {
                let round: HashSet<u64> = (0..n).map(|_| offsets.next_extent().0 / 4096).collect();
                prop_assert!(round.len() as u64 == n && round.iter().all(|&b| b < n));
            }
        }

        #[test]
        fn mixed_sizes_cover_every_block_once_a_round(n in 16u64..600, seed in any::<u64>()) {
            let sizes = BlockSize::Split(vec![(16384, 40), (4096, 60)]);
            let mut offsets = Offsets::new(random(n * 4096, sizes, Distribution::Uniform, true), seed);
            let mut covered = HashSet::new();
            let mut blocks = 0;
            while blocks < n {
                let (offset, bytes) = offsets.next_extent();
                prop_assert!(bytes > 0 && bytes % 4096 == 0 && offset + bytes <= n * 4096);
                for block in offset / 4096..(offset + bytes) / 4096 {
                    prop_assert!(covered.insert(block), "{} twice", block);
                }
                blocks += bytes / 4096;
            }
        }

        #[test]
        fn every_extent_lies_within_the_area(
            area in 64u64..4096, kind in 0usize..6, percent in 0u8..=100, every in 1u64..9, align in 1u64..16, seed in any::<u64>()
        ) {
            let zones = vec![(50, 5), (30, 20), (20, 100)];
            let distribution = [
                Distribution::Uniform, Distribution::Zipf(1.2, None), Distribution::Pareto(0.2, Some(0.5)),
                Distribution::Normal(10.0, None), Distribution::Zoned(zones), Distribution::Zipf(0.5, Some(1.0)),
            ][kind].clone();
            let sizes = BlockSize::Range { min: 512, max: 8192 };
            let mut place = random(area * 512, sizes, distribution, kind == 0 && align == 1);
            place.align = align * 512;
            place.random = place.random.map(|s| Spread { percent, every, ..s });
            let mut offsets = Offsets::new(place, seed);
            for _ in 0..300 {
                let (offset, bytes) = offsets.next_extent();
                prop_assert!((512..=8192).contains(&bytes) && bytes % 512 == 0 && offset + bytes <= area * 512);
            }
        }
    }

    #[test]
    fn random_is_spread_and_differs_by_seed() {
        let take = |seed| {
            let place = random(1 << 36, BlockSize::Fixed(4096), Distribution::Uniform, true);
            let mut offsets = Offsets::new(place, seed);
            (0..10_000).map(|_| offsets.next_extent().0 / 4096).collect::<Vec<_>>()
        };
        let (a, b) = (take(1), take(2));
        assert_ne!(a, b);
        let mean = a.iter().sum::<u64>() as f64 / a.len() as f64 / f64::from(1 << 24);
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let neighbours = a.windows(2).filter(|w| w[0].abs_diff(w[1]) <= 8).count();
        assert!(neighbours < 5, "{neighbours}");
    }

    /// Compares the sectors with fio 3.33 (`--write_iolog`, engine null) for 4 KiB I/Os over 64 KiB.
    #[test]
    fn sequences_are_those_of_fio() {
        let place = |stride, zones| Placement { stride, zones, ..sequential(65536, BlockSize::Fixed(4096)) };
        assert_eq!(sectors(place(8192, None), 8), [0, 24, 48, 72, 96, 120, 0, 24]);
        assert_eq!(sectors(place(-8192, None), 5), [0, 112, 104, 96, 88]);
        let zones = Some(Zones { size: 8192, range: 8192, skip: 16384 });
        assert_eq!(sectors(place(0, zones), 9), [0, 8, 48, 56, 96, 104, 0, 8, 48]);
    }

    #[test]
    fn one_random_offset_is_followed_by_the_rest_of_its_run() {
        let mut place = random(1 << 30, BlockSize::Fixed(4096), Distribution::Uniform, true);
        place.random = place.random.map(|s| Spread { every: 4, ..s });
        for run in sectors(place, 40).chunks(4) {
            assert!(run.windows(2).all(|w| w[1] == w[0] + 8), "{run:?}");
        }
    }
}
