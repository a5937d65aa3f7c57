//! Calibration as done by the factory: known inputs, noisy conversions, a straight line.
//!
//! Nothing here looks at the board's errors. The calibration source sits at the connector, so its (small) own error
//! ends
//! up in the result, as does the noise that averaging leaves.

use crate::adc::{Adc, Channel, ADC_BITS};
use crate::delay::{self, PathDelay};

/// Conversions averaged at each point; more for a board drawn from a front end, which is noisier.
pub const CONVERSIONS: u32 = 16_384;
/// See [`CONVERSIONS`].
pub const CONVERSIONS_OF_FRONT_END: u32 = 1 << 20;
/// Calibration points of the voltage channel as fractions of its full scale: 1.0 V and 4.5 V of 5 V.
pub const VOLTAGE_POINTS: [f64; 2] = [0.2, 0.9];
/// Calibration points of the current channel in amperes: open circuit, and near the end of the scale.
pub const CURRENT_POINTS_A: [f64; 2] = [0.0, 3.5];

/// Calibration points of the fine current channel in amperes.
pub const FINE_POINTS_A: [f64; 2] = [0.0, 0.1];

/// A straight line from code to physical quantity: `quantity = (code - offset) * scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Code at zero input.
    pub offset: f64,
    /// Volts or amperes per code.
    pub scale: f64,
}

/// Lines of all channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Line of the voltage channel.
    pub voltage: Line,
    /// Line of the current channel.
    pub current: Line,
    /// Line of the fine current channel, if there is one.
    pub fine: Option<Line>,
    /// Delay of the coarse and the fine current path.
    pub delay: [Option<PathDelay>; 2],
}

/// Calibrates `adc`. The ADC's noise sequence continues after the calibration's conversions.
pub fn calibrate(adc: &mut Adc) -> Calibration {
    let count = if adc.fine.is_some() { CONVERSIONS_OF_FRONT_END } else { CONVERSIONS };
    let delay = delay::calibrate(adc);
    let scale_v = adc.voltage.lsb() * f64::from(1 << ADC_BITS);
    Calibration {
        voltage: two_points(&mut adc.voltage, count, &mut || 0.0, VOLTAGE_POINTS.map(|share| share * scale_v)),
        current: two_points(&mut adc.current, count, &mut || adc.shared.of_the_next(), CURRENT_POINTS_A),
        fine: adc.fine.as_mut().map(|fine| two_points(fine, count, &mut || adc.shared.of_the_next(), FINE_POINTS_A)),
        delay,
    }
}

fn two_points(channel: &mut Channel, count: u32, shared: &mut dyn FnMut() -> f64, nominal: [f64; 2]) -> Line {
    let codes = nominal.map(|value| {
        let applied = value * (1.0 + channel.source_error);
        let sum: i64 = (0..count)
            .map(|_| {
                let code = channel.convert(applied, shared());
                i64::from(channel.value_of(code))
            })
            .sum();
        sum as f64 / f64::from(count)
    });
    let scale = (nominal[1] - nominal[0]) / (codes[1] - codes[0]);
    Line { offset: codes[0] - nominal[0] / scale, scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adc::{BoardOptions, CURRENT_LSB_A, VOLTAGE_LSB_V};

    #[test]
    fn the_line_undoes_the_boards_errors_to_within_noise_and_source() {
        for seed in 0..20 {
            let mut adc = Adc::new(&BoardOptions { seed, ..BoardOptions::default() });
            let Calibration { voltage, current, .. } = calibrate(&mut adc);
            for (line, channel, lsb) in [(voltage, &adc.voltage, VOLTAGE_LSB_V), (current, &adc.current, CURRENT_LSB_A)]
            {
                let true_scale = lsb / (1.0 + channel.gain_error);
                // noise of an average: 1 LSB / sqrt(16384), twice, over more than 1e5 codes of lever; source: 30 ppm
                assert!((line.scale / true_scale - 1.0).abs() < 5.0 * 30e-6, "seed {seed}");
                assert!((line.offset - channel.offset_lsb).abs() < 5.0 * 0.01 * 1.6, "seed {seed}");
            }
        }
    }

    #[test]
    fn it_is_measured_not_looked_up() {
        let mut adc = Adc::new(&BoardOptions::default());
        let (gain_error, offset) = (adc.current.gain_error, adc.current.offset_lsb);
        let line = calibrate(&mut adc).current;
        assert_ne!(line.scale, CURRENT_LSB_A / (1.0 + gain_error));
        assert_ne!(line.offset, offset);
    }
}
