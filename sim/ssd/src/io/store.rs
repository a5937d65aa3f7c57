//! User data, kept.

use crate::profile::{LBA, UNIT};
use std::collections::HashMap;

/// User data, kept sparsely: unwritten data reads as zeroes.
#[derive(Default)]
pub struct Store {
    units: HashMap<u64, Box<[u8]>>,
}

impl Store {
    /// Reads from byte `at` of the namespace.
    pub fn read(&self, at: u64, data: &mut [u8]) {
        pieces(at, data.len(), |unit, from, range| match self.units.get(&unit) {
            Some(bytes) => {
                let n = range.len();
                data[range].copy_from_slice(&bytes[from..from + n]);
            }
            None => data[range].fill(0),
        });
    }

    /// Writes from byte `at` of the namespace.
    pub fn write(&mut self, at: u64, data: &[u8]) {
        pieces(at, data.len(), |unit, from, range| {
            let bytes = self.units.entry(unit).or_insert_with(|| vec![0; UNIT as usize].into());
            bytes[from..from + range.len()].copy_from_slice(&data[range]);
        });
    }

    /// Forgets `blocks` logical blocks from `slba` on.
    pub fn discard(&mut self, slba: u64, blocks: u64) {
        let (at, end) = (slba * LBA, (slba + blocks) * LBA);
        if blocks * LBA / UNIT > self.units.len() as u64 {
            self.units.retain(|&u, _| (u + 1) * UNIT <= at || u * UNIT >= end || u * UNIT < at || (u + 1) * UNIT > end);
        } else {
            for unit in at.div_ceil(UNIT)..end / UNIT {
                self.units.remove(&unit);
            }
        }
        for edge in [at / UNIT, end / UNIT] {
            if let Some(bytes) = self.units.get_mut(&edge) {
                let from = at.clamp(edge * UNIT, (edge + 1) * UNIT) - edge * UNIT;
                let to = end.clamp(edge * UNIT, (edge + 1) * UNIT) - edge * UNIT;
                bytes[from as usize..to as usize].fill(0);
            }
        }
    }
}

/// Cuts a byte range into units: unit number, offset in it, range of the buffer.
fn pieces(at: u64, len: usize, mut f: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let here = at + done as u64;
        let from = (here % UNIT) as usize;
        let n = (UNIT as usize - from).min(len - done);
        f(here / UNIT, from, done..done + n);
        done += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_store_is_a_flat_memory(ops in prop::collection::vec((0u8..3, 0u64..60, 1u64..40, any::<u8>()), 1..40)) {
            let mut flat = vec![0u8; 100 * 512];
            let mut store = Store::default();
            for (op, slba, blocks, value) in ops {
                let range = (slba * 512) as usize..((slba + blocks) * 512) as usize;
                match op {
                    0 => {
                        flat[range.clone()].fill(value);
                        store.write(slba * 512, &flat[range]);
                    }
                    1 => {
                        flat[range].fill(0);
                        store.discard(slba, blocks);
                    }
                    _ => {
                        let mut got = vec![1; range.len()];
                        store.read(slba * 512, &mut got);
                        prop_assert_eq!(&got, &flat[range]);
                    }
                }
            }
        }
    }
}
