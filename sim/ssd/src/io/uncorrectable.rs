//! Blocks that Write Uncorrectable marked: byte ranges of the media that do not overlap.

use std::collections::BTreeMap;

/// The marked ranges: end by start.
#[derive(Debug, Default)]
pub struct Uncorrectable(BTreeMap<u64, u64>);

impl Uncorrectable {
    /// Marks bytes `from .. to`.
    pub fn mark(&mut self, from: u64, to: u64) {
        self.clear(from, to);
        self.0.insert(from, to);
    }

    /// Bytes `from .. to` are written, or deallocated: they can be read again.
    pub fn clear(&mut self, from: u64, to: u64) {
        if self.0.is_empty() {
            return;
        }
        let touched: Vec<u64> = self.0.range(..to).rev().take_while(|r| *r.1 > from).map(|r| *r.0).collect();
        for start in touched {
            let Some(end) = self.0.remove(&start) else { continue };
            if start < from {
                self.0.insert(start, from);
            }
            if end > to {
                self.0.insert(to, end);
            }
        }
    }

    /// Whether nothing is marked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any byte of `from .. to` is marked.
    pub fn any(&self, from: u64, to: u64) -> bool {
        self.0.range(..to).next_back().is_some_and(|r| *r.1 > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(ops in prop::collection::vec((0u8..3, 0u64..60, 1u64..30), 1..60)) {
            let mut flat = [false; 100];
            let mut marked = Uncorrectable::default();
            for (op, from, len) in ops {
                let range = from as usize..(from + len) as usize;
                match op {
                    0 => {
                        marked.mark(from, from + len);
                        flat[range].fill(true);
                    }
                    1 => {
                        marked.clear(from, from + len);
                        flat[range].fill(false);
                    }
                    _ => prop_assert_eq!(marked.any(from, from + len), flat[range].contains(&true)),
                }
            }
        }
    }
}
