//! Settings of the rail path as register values.

use crate::adc::{CURRENT_LSB_A, VOLTAGE_LSB_V};
use crate::calibration::{Calibration, Line};
use wattbell_spec::{registers as reg, units};

/// Fraction bits of the DECIM_MUL register and of the units of OFFSET and GAIN (docs/registers.md).
const DECIM_FRACTION: u32 = units::DECIM_FRACTION_BITS;
const OFFSET_UNITS: f64 = (1u32 << units::OFFSET_FRACTION_BITS) as f64;
const GAIN_UNITS: f64 = (1u32 << units::GAIN_FRACTION_BITS) as f64;
/// Largest value of the ADC_PERIOD register.
const PERIOD_CLOCKS_MAX: u64 = (1 << 20) - 1;
/// Shortest conversion period: the ADCs are 1 MSPS parts.
pub const INTERVAL_MIN_S: f64 = 1e-6;

/// Unit of a corrected voltage in volts, and of a corrected current in amperes (the wire format's LSBs).
pub const OUTPUT_VOLTAGE_LSB_V: f64 = units::VOLTAGE_LSB_UV as f64 / 1e6;
/// See [`OUTPUT_VOLTAGE_LSB_V`].
pub const OUTPUT_CURRENT_LSB_A: f64 = units::CURRENT_LSB_NA as f64 / 1e9;

/// The rail settings of the software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Conversions per sample.
    pub decimation: u32,
    /// Cycles between conversions.
    pub period_clocks: u64,
}

impl Sweep {
    /// 1 MSPS, not decimated.
    pub fn new(clock_ticks: u64) -> Self {
        Self { decimation: 1, period_clocks: 1000 / clock_ticks }
    }

    /// The period nearest to `seconds` that is a whole number of cycles.
    pub fn set_interval(&mut self, seconds: f64, clock_ticks: u64) -> Result<(), String> {
        let clocks = (seconds * 1e9 / clock_ticks as f64).round();
        let longest = PERIOD_CLOCKS_MAX as f64;
        // 1 us is a whole number of cycles in every build; half a cycle less still counts as 1 us.
        let shortest = (INTERVAL_MIN_S * 1e9 / clock_ticks as f64).round();
        if !(shortest..=longest).contains(&clocks) {
            let longest_s = longest * clock_ticks as f64 * 1e-9;
            return Err(format!("the interval must be {INTERVAL_MIN_S} to {longest_s} s, not {seconds}"));
        }
        self.checked(Self { period_clocks: clocks as u64, ..*self }, clock_ticks)
    }

    /// `n` conversions per sample.
    pub fn set_decimation(&mut self, n: u32, clock_ticks: u64) -> Result<(), String> {
        self.checked(Self { decimation: n, ..*self }, clock_ticks)
    }

    fn checked(&mut self, wanted: Self, clock_ticks: u64) -> Result<(), String> {
        if wanted.period_clocks * clock_ticks * u64::from(wanted.decimation) >= 1 << 32 {
            return Err("interval x decimation must be below 4.29 s".into());
        }
        *self = wanted;
        Ok(())
    }

    /// Seconds between conversions.
    pub fn interval_s(&self, clock_ticks: u64) -> f64 {
        (self.period_clocks * clock_ticks) as f64 / 1e9
    }

    /// Register writes for these settings, without COMMAND.RAIL_APPLY.
    pub fn writes(&self) -> [(u8, u32); 4] {
        let (mul, shift) = decimator(self.decimation);
        [
            (reg::ADC_PERIOD, self.period_clocks as u32),
            (reg::DECIMATION, self.decimation),
            (reg::DECIM_MUL, mul),
            (reg::DECIM_SHIFT, shift),
        ]
    }
}

/// DECIM_MUL and DECIM_SHIFT for `r` conversions per sample: unity gain of a CIC-3, `round(2^(23 + shift) / r^3)` with
/// `shift = ceil(3 log2 r)`.
fn decimator(r: u32) -> (u32, u32) {
    let cube = u64::from(r).pow(3);
    let shift = if cube == 1 { 0 } else { 64 - (cube - 1).leading_zeros() };
    let numerator = 1u128 << (DECIM_FRACTION + shift);
    let cube = u128::from(cube);
    (((numerator + cube / 2) / cube) as u32, shift)
}

/// Register writes of a calibration. The lines are rounded to the registers' resolution, far below the noise.
pub fn calibration_writes(calibration: &Calibration) -> Vec<(u8, u32)> {
    let pair = |line: &Line, unit: f64, offset: u8, gain: u8| {
        let offset_value = (line.offset * OFFSET_UNITS).round() as i64 as u32;
        [(offset, offset_value), (gain, (line.scale / unit * GAIN_UNITS).round() as u32)]
    };
    let [vo, vg] = pair(&calibration.voltage, OUTPUT_VOLTAGE_LSB_V, reg::V_OFFSET, reg::V_GAIN);
    let [io, ig] = pair(&calibration.current, OUTPUT_CURRENT_LSB_A, reg::I_OFFSET, reg::I_GAIN);
    let fine = calibration.fine.iter().flat_map(|l| pair(l, OUTPUT_CURRENT_LSB_A, reg::F_OFFSET, reg::F_GAIN));
    [vo, vg, io, ig].into_iter().chain(fine).collect()
}

/// Nominal lines, which the reset values of the registers represent.
pub fn nominal_calibration() -> Calibration {
    Calibration {
        voltage: Line { offset: 0.0, scale: VOLTAGE_LSB_V },
        current: Line { offset: 0.0, scale: CURRENT_LSB_A },
        fine: None,
        delay: [None; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nominal_lines_are_the_reset_values() {
        let resets = [reg::V_OFFSET_RESET, reg::V_GAIN_RESET, reg::I_OFFSET_RESET, reg::I_GAIN_RESET];
        let writes = calibration_writes(&nominal_calibration());
        assert_eq!(writes.iter().map(|(_, v)| *v).collect::<Vec<_>>(), resets);
    }

    #[test]
    fn the_decimator_has_unity_gain() {
        assert_eq!(decimator(1), (reg::DECIM_MUL_RESET, reg::DECIM_SHIFT_RESET));
        for r in 1..=4096u32 {
            let (mul, shift) = decimator(r);
            let gain = f64::from(mul) * f64::from(r).powi(3) / 2f64.powi((23 + shift) as i32);
            assert!((gain - 1.0).abs() <= 2f64.powi(-23), "{r}: {gain}");
            assert!((1 << 23..1 << 25).contains(&mul), "{r}: {mul}");
        }
    }

    #[test]
    fn intervals_are_whole_clocks_within_limits() {
        let mut sweep = Sweep::new(4);
        sweep.set_interval(100e-6, 4).unwrap();
        assert_eq!((sweep.period_clocks, sweep.interval_s(4)), (25_000, 1e-4));
        assert!(sweep.set_interval(0.9e-6, 4).unwrap_err().contains("interval must be"));
        assert!(sweep.set_interval(1.0, 4).unwrap_err().contains("interval must be"));
        sweep.set_interval(4e-3, 4).unwrap();
        assert!(sweep.set_decimation(4096, 4).unwrap_err().contains("4.29"));
        assert_eq!(sweep.decimation, 1);
    }
}
