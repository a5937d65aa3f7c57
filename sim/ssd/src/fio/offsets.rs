//! Which block comes next.

/// Offsets of one direction of a job, in blocks of its size within its area.
pub struct Offsets {
    blocks: u64,
    next: u64,
    random: Option<Random>,
}

struct Random {
    seed: u64,
    round: u64,
    repeat: bool,
    rng: fastrand::Rng,
}

impl Offsets {
    /// Sequential, from the start, over `blocks` (at least 1) blocks, again and again.
    pub fn sequential(blocks: u64) -> Self {
        Self { blocks, next: 0, random: None }
    }

    /// Random; every block once before any comes again, unless `repeat`.
    pub fn random(blocks: u64, seed: u64, repeat: bool) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { blocks, next: 0, random: Some(Random { seed, round: 0, repeat, rng }) }
    }

    /// The next block number.
    pub fn next_block(&mut self) -> u64 {
        let index = self.next;
        self.next += 1;
        if self.next == self.blocks {
            self.next = 0;
        }
        let Some(random) = &mut self.random else { return index };
        if random.repeat {
            return random.rng.u64(..self.blocks);
        }
        let block = permute(index, self.blocks, random.seed ^ random.round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if self.next == 0 {
            random.round += 1;
        }
        block
    }
}

/// A permutation of `0 .. n` chosen by `seed`: a Feistel network over the next even number of bits, walked until the
/// value is in range. It stands for fio's random map without its memory.
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

    proptest! {
        #[test]
        fn each_block_once_a_round(n in 1u64..3000, seed in any::<u64>()) {
            let mut offsets = Offsets::random(n, seed, false);
            for _ in 0..2 {
                let round: HashSet<u64> = (0..n).map(|_| offsets.next_block()).collect();
                prop_assert!(round.len() as u64 == n && round.iter().all(|&b| b < n));
            }
        }
    }

    #[test]
    fn random_is_spread_and_differs_by_seed() {
        let take = |seed| {
            let mut offsets = Offsets::random(1 << 24, seed, false);
            (0..10_000).map(|_| offsets.next_block()).collect::<Vec<_>>()
        };
        let (a, b) = (take(1), take(2));
        assert_ne!(a, b);
        let mean = a.iter().sum::<u64>() as f64 / a.len() as f64 / f64::from(1 << 24);
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let neighbours = a.windows(2).filter(|w| w[0].abs_diff(w[1]) <= 8).count();
        assert!(neighbours < 5, "{neighbours}");
    }
}
