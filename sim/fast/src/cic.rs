//! Decimation: a third-order cascaded integrator-comb filter (E. B. Hogenauer, IEEE Trans. ASSP-29 no. 2, 1981).

/// Width of a value, fraction bits kept before the normalisation, and the normalisation's total shift.
const TOP: i64 = 1 << 23;
const FRACTION: u32 = 12;
const NORMAL: u32 = 23 + FRACTION;

#[derive(Debug, Default, Clone, Copy)]
struct Channel {
    integrators: [i64; 3],
    delays: [i64; 3],
}

impl Channel {
    #[inline(always)]
    fn integrate(&mut self, value: i32) {
        let [a, b, c] = &mut self.integrators;
        *a = a.wrapping_add(i64::from(value));
        *b = b.wrapping_add(*a);
        *c = c.wrapping_add(*b);
    }

    fn comb(&mut self) -> i64 {
        let mut value = self.integrators[2];
        for delay in &mut self.delays {
            (value, *delay) = (value.wrapping_sub(*delay), value);
        }
        value
    }
}

/// The filter for both channels. Its gain of R**3 is undone by `mul / 2**(23 + shift)`.
#[derive(Debug, Default)]
pub struct Cic {
    channels: [Channel; 2],
    decimation: u16,
    mul: i64,
    shift: u32,
    /// Conversions until the next comb step, and comb steps until the filter has filled.
    phase: u16,
    skip: u8,
}

impl Cic {
    /// Restarts it. The first sample comes with conversion 3R - 3.
    pub fn clear(&mut self, decimation: u16, mul: u32, shift: u8) {
        let (phase, skip) = if decimation == 2 { (1, 1) } else { (decimation.wrapping_sub(3) & 0x1FFF, 2) };
        *self = Self {
            channels: [Channel::default(); 2],
            decimation,
            mul: i64::from(mul),
            shift: shift.into(),
            phase,
            skip,
        };
    }

    /// Number of conversions before the comb stages move.
    #[inline]
    pub fn phase(&self) -> usize {
        self.phase.into()
    }

    /// Takes in one of those conversions.
    #[inline(always)]
    pub fn integrate(&mut self, voltage: i32, current: i32) {
        self.channels[0].integrate(voltage);
        self.channels[1].integrate(current);
        self.phase -= 1;
    }

    /// Takes in a conversion. Returns whether the comb stages moved, and the sample if one is complete.
    #[inline]
    pub fn take(&mut self, voltage: i32, current: i32) -> (bool, Option<(i32, i32)>) {
        self.channels[0].integrate(voltage);
        self.channels[1].integrate(current);
        if self.phase != 0 {
            self.phase -= 1;
            return (false, None);
        }
        self.phase = self.decimation - 1;
        let sums = [self.channels[0].comb(), self.channels[1].comb()];
        if self.skip != 0 {
            self.skip -= 1;
            return (true, None);
        }
        (true, Some((self.normalise(sums[0]), self.normalise(sums[1]))))
    }

    fn normalise(&self, sum: i64) -> i32 {
        let scaled =
            if self.shift <= FRACTION { sum << (FRACTION - self.shift) } else { sum >> (self.shift - FRACTION) };
        let rounded = (scaled * self.mul + (1 << (NORMAL - 1))) >> NORMAL;
        rounded.clamp(-TOP, TOP - 1) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// DECIM_MUL and DECIM_SHIFT by their definition.
    fn constants(r: u64) -> (u32, u8) {
        let cube = u128::from(r).pow(3);
        let shift = (0..64).find(|&s| 1u128 << s >= cube).unwrap();
        (((2 * (1u128 << (23 + shift)) + cube) / (2 * cube)) as u32, shift as u8)
    }

    proptest! {
        /// The filter is the triple convolution of a box of R with itself, sampled every R.
        #[test]
        fn it_is_a_cubed_moving_average(r in 2usize..40, values in prop::collection::vec(-(1i32 << 23)..1 << 23, 200)) {
            let (mul, shift) = constants(r as u64);
            let mut cic = Cic::default();
            cic.clear(r as u16, mul, shift);
            let mut taps = vec![1i64];
            for _ in 0..3 {
                taps = (0..taps.len() + r - 1).map(|n| (0..r).filter_map(|k| taps.get(n.wrapping_sub(k))).sum()).collect();
            }
            let mut seen = 0;
            for (n, &value) in values.iter().enumerate() {
                let (_, out) = cic.take(value, -value);
                prop_assert_eq!(out.is_some(), n + 3 >= 3 * r && (n + 3 - 3 * r) % r == 0);
                if let Some((a, b)) = out {
                    let sum: i64 = taps.iter().enumerate().map(|(k, t)| t * i64::from(values[n - k])).sum();
                    let mean = sum as f64 / (r as f64).powi(3);
                    prop_assert!((f64::from(a) - mean).abs() <= 1.5 && (f64::from(b) + mean).abs() <= 1.5);
                    seen += 1;
                }
            }
            prop_assert!(seen > 0);
        }
    }
}
