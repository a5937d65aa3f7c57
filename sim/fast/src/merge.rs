//! Merges two gain paths into one current, as the gateware's `rail/merge.py` does.

/// Level up to which only the fine path counts, and from which only the coarse one does, in wire units (500 nA).
const LOW: i32 = 5 << 15;
const BAND: i32 = 1 << 15;
/// Full weight; number of conversions for which the fine path does not count after an overload; largest increase per
/// conversion afterwards.
const WEIGHT: i32 = 256;
const HOLD: u32 = 24;
const RISE: i32 = 16;

/// Whether a level is above the band, where the coarse path alone counts.
pub fn above_band(level: i32) -> bool {
    level > LOW + BAND
}

/// State of the merge: how long ago the fine path was overloaded.
#[derive(Debug)]
pub struct Merge {
    hold: u32,
    ceiling: i32,
}

impl Default for Merge {
    fn default() -> Self {
        Self { hold: 0, ceiling: WEIGHT }
    }
}

impl Merge {
    /// The current of a conversion, given both paths' currents, and whether it comes from the fine path alone.
    #[inline(always)]
    pub fn step(&mut self, coarse: i32, fine: i32, fine_overload: bool) -> (i32, bool) {
        if fine_overload {
            (self.hold, self.ceiling) = (HOLD, 0);
        } else if self.hold > 0 {
            self.hold -= 1;
        } else if self.ceiling < WEIGHT {
            self.ceiling += RISE;
        }
        let by_level = ((LOW + BAND - coarse.abs()) >> 7).clamp(0, WEIGHT);
        let weight = by_level.min(self.ceiling);
        let share = (i64::from(fine - coarse) * i64::from(weight) + i64::from(WEIGHT / 2)) >> 8;
        (coarse + share as i32, weight == WEIGHT)
    }
}
