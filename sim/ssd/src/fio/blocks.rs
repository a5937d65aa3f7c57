//! Block sizes of one direction of a job: one size, a range, or a split.

use super::units::{number, size};

/// How large the I/Os of a direction are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockSize {
    /// All the same: `bs`.
    Fixed(u64),
    /// Between two sizes, in multiples of the smaller: `bsrange`.
    Range {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A choice of sizes, each with its percent of the I/Os, rarest first: `bssplit`.
    Split(Vec<(u64, u32)>),
}

impl BlockSize {
    /// The smallest size, in bytes.
    pub fn min(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range { min, .. } => *min,
            Self::Split(list) => list.iter().map(|e| e.0).min().unwrap_or(0),
        }
    }

    /// The largest size, in bytes.
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range { max, .. } => *max,
            Self::Split(list) => list.iter().map(|e| e.0).max().unwrap_or(0),
        }
    }

    /// Whether every size of this is a multiple of 512 bytes.
    pub fn whole_blocks(&self) -> bool {
        let whole = |bytes: u64| bytes > 0 && bytes % 512 == 0;
        match self {
            Self::Fixed(bytes) => whole(*bytes),
            Self::Range { min, max } => whole(*min) && whole(*max),
            Self::Split(list) => !list.is_empty() && list.iter().all(|e| whole(e.0)),
        }
    }

    /// Draws a size of at most `room` bytes, as fio's `get_next_buflen`; `None` where not even the smallest fits.
    pub fn draw(&self, room: u64, rng: &mut fastrand::Rng) -> Option<u64> {
        let min = self.min();
        if min > room {
            return None;
        }
        if min == self.max() {
            return Some(min);
        }
        loop {
            let share = rng.f64();
            let bytes = match self {
                Self::Fixed(bytes) => *bytes,
                // fio adds a share of the largest, not of the difference: the largest size comes more often than the others.
                Self::Range { min, max } => min + (*max as f64 * share) as u64,
                Self::Split(list) => split(list, share, room),
            };
            let bytes = (bytes - bytes % min).min(self.max());
            if bytes <= room {
                return Some(bytes);
            }
        }
    }
}

/// Returns the first size that fits and that has a summed percentage of at least `share`. Returns the last size of the list if there is no
/// such size.
fn split(list: &[(u64, u32)], share: f64, room: u64) -> u64 {
    let (mut percent, mut bytes) = (0, 0);
    for &(size, part) in list.iter().filter(|e| e.1 > 0) {
        (bytes, percent) = (size, percent + part);
        if share * 100.0 <= f64::from(percent) && bytes <= room {
            break;
        }
    }
    bytes
}

/// Parses `min-max`, or a single size.
pub fn range(text: &str) -> Result<BlockSize, String> {
    match text.split_once('-') {
        None => Ok(BlockSize::Fixed(size(text)?)),
        Some((min, max)) => match (size(min)?, size(max)?) {
            (min, max) if min == max => Ok(BlockSize::Fixed(min)),
            (min, max) if min < max => Ok(BlockSize::Range { min, max }),
            _ => Err(format!("`{text}`: the first size is larger than the second")),
        },
    }
}

/// Parses `4k/60:64k/40`. Sizes without a percentage share the remaining percentage.
pub fn split_of(text: &str) -> Result<BlockSize, String> {
    let mut list = Vec::new();
    for entry in text.split(':').filter(|e| !e.is_empty()) {
        let (bytes, percent) = match entry.split_once('/') {
            None | Some((_, "")) => (size(entry.trim_end_matches('/'))?, None),
            Some((bytes, percent)) => (size(bytes)?, Some(number(percent)?).filter(|&p| p > 0)),
        };
        list.push((bytes, percent));
    }
    let given: u64 = list.iter().filter_map(|e| e.1).sum();
    let open = list.iter().filter(|e| e.1.is_none()).count() as u64;
    if list.is_empty() || given > 100 || (open == 0 && given != 100) {
        return Err(format!("`{text}`: the percentages make {given}, not 100"));
    }
    let share = (100 - given).checked_div(open).unwrap_or(0);
    let mut list: Vec<(u64, u32)> = list.into_iter().map(|(b, p)| (b, p.unwrap_or(share) as u32)).collect();
    list.sort_by_key(|e| e.1);
    match list[..] {
        [(only, _)] => Ok(BlockSize::Fixed(only)),
        _ => Ok(BlockSize::Split(list)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_has_its_percentages() {
        let sizes = split_of("4k/60:64k/30:1m").unwrap();
        assert_eq!(sizes, BlockSize::Split(vec![(1 << 20, 10), (65536, 30), (4096, 60)]));
        let mut rng = fastrand::Rng::with_seed(1);
        let drawn: Vec<u64> = (0..100_000).filter_map(|_| sizes.draw(1 << 30, &mut rng)).collect();
        for (bytes, percent) in [(4096, 60.0), (65536, 30.0), (1 << 20, 10.0)] {
            let share = drawn.iter().filter(|&&b| b == bytes).count() as f64 / 1000.0;
            assert!((share - percent).abs() < 0.6, "{bytes}: {share} %");
        }
        assert_eq!(sizes.draw(4096, &mut rng), Some(4096));
        assert_eq!(sizes.draw(4095, &mut rng), None);
    }

    #[test]
    fn a_split_that_is_none_is_refused() {
        for bad in ["4k/60:8k/30", "4k/60:8k/60", "", "4k/x", "x/50:4k/50"] {
            assert!(split_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_range_has_multiples_of_its_smallest_size() {
        let sizes = range("4k-16k").unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        let drawn: Vec<u64> = (0..40_000).filter_map(|_| sizes.draw(1 << 30, &mut rng)).collect();
        // 4 KiB + 16 KiB x share, rounded down to 4 KiB: each of 4, 8, 12 KiB a quarter, and 16 KiB the rest
        for bytes in [4096, 8192, 12288, 16384] {
            let share = drawn.iter().filter(|&&b| b == bytes).count() as f64 / 40_000.0;
            assert!((share - 0.25).abs() < 0.01, "{bytes}: {share}");
        }
        assert_eq!(range("4k-4k"), Ok(BlockSize::Fixed(4096)));
        assert!(range("8k-4k").is_err());
    }
}
