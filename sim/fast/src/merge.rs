//! Two gain paths become one current, as the gateware's `rail/merge.py` does it.

/// Level up to which the fine path counts alone, and from there to where the coarse one does, in units of the wire (500 nA).
const LOW: i32 = 5 << 15;
const BAND: i32 = 1 << 15;
/// The whole weight; conversions in which the fine path does not count after an overload; by how much it may rise then.
const WEIGHT: i32 = 256;
const HOLD: u32 = 24;
const RISE: i32 = 16;

/// What the merge remembers: how long ago the fine path was overloaded.
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
    /// The current of a conversion, of which both paths' currents are given, and whether it is the fine path's alone.
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
