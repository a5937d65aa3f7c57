//! The analog front end as its circuit determines it: boards drawn from `hw/afe/model.toml` (docs/front-end.md).
//!
//! The model takes from the file: gain, offset, their drift with temperature, noise, delay, code size. For the current paths it also takes
//! the shares that both paths have in common, the shunt's self-heating, and the fine path's saturation.
//!
//! The model simplifies four points. One pole with the path's whole delay replaces the poles in series. The shunt heats up at once. The
//! fine path saturates before that pole and recovers at once after it. Nonlinearity is left out.

use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use std::path::Path;

/// Temperature at which a board is drawn, and calibrated by the factory.
pub const REFERENCE_C: f64 = 25.0;

/// Contents of the file; its comments explain the fields. Standard deviations are from board to board.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct FrontEnd {
    common: Common,
    coarse: Channel,
    fine: Channel,
    voltage: Channel,
    calibrator: Calibrator,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Common {
    gain_sigma: f64,
    offset_sigma: f64,
    gain_tc_sigma: f64,
    offset_tc_sigma: f64,
    shunt_ohm: f64,
    shunt_heating_k_per_w: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Channel {
    lsb: f64,
    front_end_rms: f64,
    converter_rms: f64,
    delay_s: f64,
    delay_sigma: f64,
    gain_sigma: f64,
    offset_sigma: f64,
    gain_tc_sigma: f64,
    offset_tc_sigma: f64,
    /// Input at which the stages before the converter saturate.
    #[serde(default = "never")]
    limit: f64,
}

fn never() -> f64 {
    f64::INFINITY
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Calibrator {
    current_gain_sigma: f64,
    voltage_gain_sigma: f64,
}

/// One channel of a drawn board.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Input per code, in volts or amperes.
    pub lsb: f64,
    /// Relative gain error at [`REFERENCE_C`], and its drift per kelvin.
    pub gain: (f64, f64),
    /// Offset in codes at [`REFERENCE_C`], and its drift per kelvin.
    pub offset_lsb: (f64, f64),
    /// Change of the gain by self-heating, per square ampere.
    pub heating: f64,
    /// Noise of a conversion, RMS, in codes: the channel's own, and that common to both current paths.
    pub noise_lsb: (f64, f64),
    /// Time constant of the pole in seconds.
    pub tau_s: f64,
    /// Relative error of the factory's source.
    pub source_error: f64,
    /// Input in amperes, of either sign, at which the stages before the filter saturate.
    pub limit: f64,
}

impl FrontEnd {
    /// Reads the file.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        toml::from_str(&text).map_err(|e| format!("{} is no model of a front end: {}", path.display(), e.message()))
    }

    /// A board: voltage, current, fine current. `scale` multiplies its errors.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus, scale: f64) -> [Drawn; 3] {
        let mut normal = |sigma: f64| {
            let x: f64 = StandardNormal.sample(random);
            x * sigma * scale
        };
        let mut channel = |own: &Channel, source_sigma: f64| {
            let (gain, gain_tc) = (normal(own.gain_sigma), normal(own.gain_tc_sigma));
            let (offset, offset_tc) = (normal(own.offset_sigma), normal(own.offset_tc_sigma));
            Drawn {
                lsb: own.lsb,
                gain: (gain, gain_tc),
                offset_lsb: (offset / own.lsb, offset_tc / own.lsb),
                heating: 0.0,
                noise_lsb: (own.converter_rms / own.lsb, own.front_end_rms / own.lsb),
                tau_s: (own.delay_s + normal(own.delay_sigma)).max(0.0),
                source_error: normal(source_sigma),
                limit: own.limit,
            }
        };
        let voltage = channel(&self.voltage, self.calibrator.voltage_gain_sigma);
        let mut current = channel(&self.coarse, self.calibrator.current_gain_sigma);
        let mut fine = channel(&self.fine, 0.0);
        fine.source_error = current.source_error; // the same source
        let (gain, gain_tc) = (normal(self.common.gain_sigma), normal(self.common.gain_tc_sigma));
        let (offset, offset_tc) = (normal(self.common.offset_sigma), normal(self.common.offset_tc_sigma));
        for path in [&mut current, &mut fine] {
            path.gain.0 += gain;
            path.gain.1 += gain_tc;
            path.offset_lsb.0 += offset / path.lsb;
            path.offset_lsb.1 += offset_tc / path.lsb;
            // the shunt's own temperature coefficient is the largest shared part of both paths
            path.heating = gain_tc * self.common.shunt_ohm * self.common.shunt_heating_k_per_w;
        }
        [voltage, current, fine]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn file() -> FrontEnd {
        FrontEnd::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hw/afe/model.toml")).unwrap()
    }

    #[test]
    fn boards_spread_as_the_file_says() {
        let (file, mut random) = (file(), Xoshiro256PlusPlus::seed_from_u64(1));
        let boards: Vec<[Drawn; 3]> = (0..4000).map(|_| file.draw(&mut random, 1.0)).collect();
        let spread =
            |f: &dyn Fn(&[Drawn; 3]) -> f64| (boards.iter().map(|b| f(b).powi(2)).sum::<f64>() / 4000.0).sqrt();
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.06, "{value} {expected}");
        near(spread(&|b| b[0].gain.0), file.voltage.gain_sigma);
        near(spread(&|b| b[1].gain.0), file.common.gain_sigma.hypot(file.coarse.gain_sigma));
        near(spread(&|b| b[1].offset_lsb.0 * b[1].lsb), file.common.offset_sigma.hypot(file.coarse.offset_sigma));
        near(spread(&|b| b[1].gain.1), file.common.gain_tc_sigma.hypot(file.coarse.gain_tc_sigma));
        near(spread(&|b| b[0].source_error), file.calibrator.voltage_gain_sigma);
        let noise = boards[0].map(|channel| channel.noise_lsb.0.hypot(channel.noise_lsb.1));
        near(noise[1], 9.34); // docs/front-end.md, in codes
        near(noise[2] * boards[0][2].lsb, 298e-6);
        // the paths differ by their own parts
        near(spread(&|b| b[2].gain.0 - b[1].gain.0), file.fine.gain_sigma.hypot(file.coarse.gain_sigma));
        assert!((1.2..2.0).contains(&(file.fine.limit / (file.fine.lsb * 131_072.0))));
    }

    #[test]
    fn what_is_no_such_file_is_said() {
        let path = std::env::temp_dir().join("wattbell-no-model.toml");
        assert!(FrontEnd::load(&path).unwrap_err().contains("cannot read"));
        std::fs::write(&path, "[common]\ngain_sigma = 1\n").unwrap();
        assert!(FrontEnd::load(&path).unwrap_err().contains("no model of a front end"));
        std::fs::remove_file(&path).unwrap();
    }
}
