//! The analog front end and its simultaneously sampling ADCs on one particular board. The channels are voltage, current and, with a front
//! end from a file, a second current path of higher gain.
//!
//! The model applies these steps between the connector and the code, in this order: single-pole anti-alias filter, gain error, offset
//! error, Gaussian noise, quantisation, clipping. Not modelled: integral and differential nonlinearity, settling of the sample capacitor,
//! crosstalk between the channels. Temperature drift is modelled only with a front end from a file ([`crate::afe`]).

use crate::afe::{Drawn, FrontEnd};
use crate::filter::Filter;
use crate::input::Input;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use wattbell_bus::Rail;

/// Bits per conversion.
pub const ADC_BITS: u32 = 18;
/// Full scale of the voltage channel of the M.2 board: straight binary codes from 0 V.
pub const VOLTAGE_RANGE_V: f64 = 5.0;
/// Volts per code of that channel.
pub const VOLTAGE_LSB_V: f64 = VOLTAGE_RANGE_V / 262_144.0;
/// Amperes per code of the current channel: two's complement, +-4.096 A over 2^18 codes.
pub const CURRENT_LSB_A: f64 = 31.25e-6;

/// Board-to-board standard deviation of the gain error (1), of the offset error (codes), and of the calibration
/// source's own gain error (1).
const GAIN_SPREAD: f64 = 2e-3;
const OFFSET_SPREAD_LSB: f64 = 20.0;
const SOURCE_SPREAD: f64 = 30e-6;

/// Bound on the noise in standard deviations: the tail of the ziggurat ends there, being made of 53 random bits.
const NOISE_MOST: f64 = 16.0;

/// How a board is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoardOptions {
    /// Seed of everything random about the board, its noise included.
    pub seed: u64,
    /// Time constant of the anti-alias filter in seconds; 0 for none.
    pub tau_s: f64,
    /// Noise of a conversion, RMS, in codes.
    pub noise_lsb: f64,
    /// Scale of the gain, offset and source errors: 1 for a real board, 0 for a perfect board.
    pub errors: f64,
    /// Full scale of the voltage channel in volts; for rails above 5 V, with another divider than the M.2 board's.
    pub voltage_range_v: f64,
    /// The front end that the board is drawn from, replacing the round figures here and `tau_s` and `noise_lsb`.
    pub front_end: Option<FrontEnd>,
}

impl Default for BoardOptions {
    fn default() -> Self {
        Self { seed: 1, tau_s: 2e-6, noise_lsb: 1.0, errors: 1.0, voltage_range_v: VOLTAGE_RANGE_V, front_end: None }
    }
}

/// One channel of a board.
#[derive(Debug, Clone)]
pub struct Channel {
    lsb: f64,
    signed: bool,
    /// The last input, and its code without noise and rounding.
    settled: (f64, f64),
    /// Relative gain error.
    pub gain_error: f64,
    /// Offset error in codes.
    pub offset_lsb: f64,
    /// Relative error that the calibration source had when it calibrated this channel.
    pub source_error: f64,
    noise_lsb: f64,
    /// Noise that both current paths share because it comes from the same amplifiers.
    shared_lsb: f64,
    noise: Xoshiro256PlusPlus,
    /// Change of the gain by self-heating, per unit of the input squared.
    heating: f64,
    /// Drift of gain and offset per kelvin, and the temperature rise already included in both.
    drift: (f64, f64, f64),
}

impl Channel {
    /// Converts the (already filtered) input, in volts or amperes, to a code: its 18 bits, right-aligned. `shared`: the
    /// noise in this conversion of the amplifiers common to both current paths, from [`Shared::next`].
    #[inline(always)]
    pub fn convert(&mut self, input: f64, shared: f64) -> u32 {
        let noise: f64 = if self.noise_lsb > 0.0 { StandardNormal.sample(&mut self.noise) } else { 0.0 };
        if input != self.settled.0 {
            let gain = 1.0 + self.gain_error + self.heating * input * input;
            self.settled = (input, input / self.lsb * gain + self.offset_lsb);
        }
        let exact = self.settled.1 + noise * self.noise_lsb + shared * self.shared_lsb;
        let (low, high) = self.range();
        round_to_bits(exact.clamp(f64::from(low), f64::from(high))) & ((1 << ADC_BITS) - 1)
    }

    fn from_front_end(drawn: &Drawn, signed: bool, noise: Xoshiro256PlusPlus) -> Self {
        Self {
            lsb: drawn.lsb,
            signed,
            settled: (f64::NAN, 0.0),
            gain_error: drawn.gain.0,
            offset_lsb: drawn.offset_lsb.0,
            source_error: drawn.source_error,
            // not hypot(), which glibc has anew since 2.35: the wheel is for 2.34 too
            noise_lsb: if signed {
                drawn.noise_lsb.0
            } else {
                (drawn.noise_lsb.0.powi(2) + drawn.noise_lsb.1.powi(2)).sqrt()
            },
            shared_lsb: if signed { drawn.noise_lsb.1 } else { 0.0 },
            noise,
            heating: drawn.heating,
            drift: (drawn.gain.1, drawn.offset_lsb.1, 0.0),
        }
    }

    fn warm_to(&mut self, kelvin: f64) {
        let more = kelvin - self.drift.2;
        self.gain_error += self.drift.0 * more;
        self.offset_lsb += self.drift.1 * more;
        self.drift.2 = kelvin;
        self.settled = (f64::NAN, 0.0);
    }

    /// The smallest and the largest code as numbers.
    pub fn range(&self) -> (i32, i32) {
        if self.signed {
            (-(1 << (ADC_BITS - 1)), (1 << (ADC_BITS - 1)) - 1)
        } else {
            (0, (1 << ADC_BITS) - 1)
        }
    }

    /// The number represented by the 18 bits of a code.
    pub fn value_of(&self, code: u32) -> i32 {
        if self.signed {
            ((code << (32 - ADC_BITS)) as i32) >> (32 - ADC_BITS)
        } else {
            code as i32
        }
    }

    /// Nominal input per code, in volts or amperes.
    pub fn lsb(&self) -> f64 {
        self.lsb
    }
}

/// Returns the integer nearest to `x` (below 2^31 in size; ties to even), in two's complement. Adding 1.5 * 2^52 leaves no room for a
/// fraction in the sum, so the low bits hold the integer. This is several times faster than `round`.
#[inline(always)]
fn round_to_bits(x: f64) -> u32 {
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    (x + ROUNDER).to_bits() as u32
}

/// Noise of the amplifiers common to both current paths, with unit variance.
#[derive(Debug, Clone)]
pub struct Shared(Option<Xoshiro256PlusPlus>);

impl Shared {
    /// Returns the shared noise of the next conversion. The noise is always 0 with a single current path, because that path has only its
    /// own noise.
    #[inline(always)]
    pub fn of_the_next(&mut self) -> f64 {
        self.0.as_mut().map_or(0.0, |random| StandardNormal.sample(random))
    }
}

/// The analog side of one board.
#[derive(Debug, Clone)]
pub struct Adc {
    /// The voltage channel.
    pub voltage: Channel,
    /// The current channel.
    pub current: Channel,
    /// The fine current channel.
    pub fine: Option<Channel>,
    /// Noise common to both current channels.
    pub shared: Shared,
    filter: Filter,
    /// Factors of the inputs: 0 for a shorted input, else 1.
    connected: [f64; 3],
    input: Input,
}

impl Adc {
    /// The board described by `options`, with its input at 0 V and 0 A.
    pub fn new(options: &BoardOptions) -> Self {
        let mut draw = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let noise = |stream: u64| Xoshiro256PlusPlus::seed_from_u64(options.seed ^ stream << 56);
        if let Some(front_end) = &options.front_end {
            let [v, i, f] = front_end.draw(&mut draw, options.errors);
            return Self {
                voltage: Channel::from_front_end(&v, false, noise(0xA5)),
                current: Channel::from_front_end(&i, true, noise(0x5A)),
                fine: Some(Channel::from_front_end(&f, true, noise(0x3C))),
                shared: Shared(Some(noise(0xC3))),
                filter: Filter::new([v.tau_s, i.tau_s, f.tau_s], f.limit),
                connected: [1.0; 3],
                input: Input::default(),
            };
        }
        let mut channel = |lsb: f64, signed: bool, stream: u64| {
            let mut normal = |spread: f64| -> f64 {
                let x: f64 = StandardNormal.sample(&mut draw);
                x * spread * options.errors
            };
            Channel {
                lsb,
                signed,
                settled: (f64::NAN, 0.0),
                gain_error: normal(GAIN_SPREAD),
                offset_lsb: normal(OFFSET_SPREAD_LSB),
                source_error: normal(SOURCE_SPREAD),
                noise_lsb: options.noise_lsb,
                shared_lsb: 0.0,
                noise: noise(stream),
                heating: 0.0,
                drift: (0.0, 0.0, 0.0),
            }
        };
        // The voltage scale begins at 0 V. The board's errors must not push the calibration's low point off the scale. The points are well
        // inside the scale (see calibration.rs), so no care is needed here.
        let voltage = channel(options.voltage_range_v / f64::from(1 << ADC_BITS), false, 0xA5);
        let current = channel(CURRENT_LSB_A, true, 0x5A);
        Self {
            voltage,
            current,
            fine: None,
            shared: Shared(None),
            // the input of an absent channel stays 0: nothing to follow
            filter: Filter::new([options.tau_s, options.tau_s, 0.0], 0.0),
            connected: [1.0; 3],
            input: Input::default(),
        }
    }

    /// Sets the board's temperature from now on: `kelvin` above that at which it was drawn.
    pub fn warm_to(&mut self, kelvin: f64) {
        self.voltage.warm_to(kelvin);
        self.current.warm_to(kelvin);
        self.fine.iter_mut().for_each(|fine| fine.warm_to(kelvin));
    }

    /// The rail takes a new value at `time_ps`; times do not decrease from call to call.
    pub fn push(&mut self, time_ps: u64, rail: Rail) {
        self.input.push(time_ps, rail);
    }

    /// Test loads that are on from `time_ps` on: 1 coarse, 2 fine. Their current adds to the rail's before the filters.
    /// Times do not decrease from call to call.
    pub fn load(&mut self, time_ps: u64, which: u8) {
        self.input.load(time_ps, which);
    }

    /// Delay of the current paths in seconds: coarse, and fine where there is one.
    pub fn delays_s(&self) -> (f64, Option<f64>) {
        let [_, coarse, fine] = self.filter.tau_s();
        (coarse, self.fine.is_some().then_some(fine))
    }

    /// Shorts inputs: bit 0 the voltage's input, bit 1 the inputs of both current paths.
    pub fn short(&mut self, inputs: u8) {
        self.connected = [0, 1, 1].map(|k| f64::from(1 - (inputs >> k & 1)));
    }

    /// Converts the filters' present values.
    #[inline(always)]
    fn convert(&mut self) -> [u32; 3] {
        let [v, i, f] = self.filter.value;
        let ([cv, ci, cf], shared) = (self.connected, self.shared.of_the_next());
        [
            self.voltage.convert(v * cv, 0.0),
            self.current.convert(i * ci, shared),
            self.fine.as_mut().map_or(0, |fine| fine.convert(f * cf, shared)),
        ]
    }

    /// Number of rail changes known beyond the last conversion.
    pub fn pending(&self) -> usize {
        self.input.pending()
    }

    /// Samples all channels at `time_ps` and returns the codes (voltage, current, fine current; 0 where there is none).
    /// All changes up to then must be known.
    #[inline(always)]
    pub fn sample(&mut self, time_ps: u64) -> [u32; 3] {
        if self.input.next_change() <= time_ps {
            self.input.change(time_ps, &mut self.filter);
        }
        self.filter.advance(time_ps);
        self.convert()
    }

    /// Whether no code of the (coarse) current can exceed `code` up to `until_ps`, up to which all changes are known.
    pub fn stays_below(&self, code: i32, until_ps: u64) -> bool {
        let Some(comes) = self.input.most_until(until_ps) else {
            return false;
        };
        let most = comes.max(self.filter.value[1]).max(self.filter.target[1]);
        let c = &self.current;
        let gain = 1.0 + c.gain_error + c.heating * most * most;
        most / c.lsb * gain + c.offset_lsb + NOISE_MOST * (c.noise_lsb + c.shared_lsb.abs()) < f64::from(code)
    }

    /// Samples at `first_ps` and every `step_ps` from then on, as [`Self::sample`] would, filling the slices.
    #[inline]
    pub fn sample_run(&mut self, first_ps: u64, step_ps: u64, [voltage, current, fine]: [&mut [u32]; 3]) {
        let mut time_ps = first_ps;
        let end_ps = first_ps + step_ps * voltage.len() as u64;
        let still = self.filter.value == self.filter.target && self.input.next_change() >= end_ps;
        if still {
            // Channels without shared noise may run ahead of one another.
            let ([v, i, f], [cv, ci, cf]) = (self.filter.value, self.connected);
            voltage.iter_mut().for_each(|code| *code = self.voltage.convert(v * cv, 0.0));
            match &mut self.fine {
                None => current.iter_mut().for_each(|code| *code = self.current.convert(i * ci, 0.0)),
                Some(path) => {
                    for (code, fine_code) in current.iter_mut().zip(fine) {
                        let shared = self.shared.of_the_next();
                        (*code, *fine_code) = (self.current.convert(i * ci, shared), path.convert(f * cf, shared));
                    }
                }
            }
            self.filter.time_ps = end_ps - step_ps;
            return;
        }
        for ((v, i), f) in voltage.iter_mut().zip(current).zip(fine) {
            [*v, *i, *f] = self.sample(time_ps);
            time_ps += step_ps;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(volts: f64, amps: f64) -> Rail {
        Rail { voltage_nv: (volts * 1e9) as i64, current_na: (amps * 1e9) as i64 }
    }

    fn perfect() -> BoardOptions {
        BoardOptions { noise_lsb: 0.0, errors: 0.0, ..BoardOptions::default() }
    }

    #[test]
    fn a_perfect_board_quantises_and_nothing_else() {
        let mut adc = Adc::new(&BoardOptions { tau_s: 0.0, ..perfect() });
        adc.push(0, rail(3.3, -1.0));
        let [v, i, _] = adc.sample(0);
        assert_eq!(v, (3.3f64 / VOLTAGE_LSB_V).round() as u32);
        assert_eq!(adc.current.value_of(i), -32_000);
    }

    #[test]
    fn rounding_is_to_the_nearest() {
        for x in [0.0, 0.4999, 0.5001, 1.5001, -0.5001, -0.4999, -131_072.0, 262_143.0, 99_999.499_9, -7.6] {
            assert_eq!(round_to_bits(x) as i32, f64::round(x) as i32, "{x}");
        }
    }

    #[test]
    fn codes_clip_at_both_ends_of_both_scales() {
        let mut adc = Adc::new(&BoardOptions { tau_s: 0.0, ..perfect() });
        adc.push(0, rail(6.0, 5.0));
        assert_eq!(adc.sample(0), [0x3FFFF, 0x1FFFF, 0]);
        adc.push(1, rail(-1.0, -5.0));
        assert_eq!(adc.sample(1), [0, 0x20000, 0]);
    }

    #[test]
    fn a_step_follows_the_exponential_at_any_sampling() {
        // closed form: i(t) = 1 A (1 - exp(-t / tau)), checked at two sampling rates
        for period_ps in [100_000u64, 1_700_000] {
            let mut adc = Adc::new(&perfect());
            adc.push(500_000, rail(3.3, 1.0));
            for k in 0..20 {
                let t = k * period_ps;
                let [_, i, _] = adc.sample(t);
                let dt_s = t.saturating_sub(500_000) as f64 * 1e-12;
                let expected = (1.0 - (-dt_s / 2e-6).exp()) / CURRENT_LSB_A;
                assert!((f64::from(adc.current.value_of(i)) - expected).abs() <= 0.5 + 1e-6, "t = {t} ps");
            }
        }
    }

    #[test]
    fn a_run_is_its_samples() {
        for options in [BoardOptions::default(), two_paths()] {
            let (mut one, mut run) = (Adc::new(&options), Adc::new(&options));
            for adc in [&mut one, &mut run] {
                adc.push(0, rail(3.3, 0.1));
                adc.push(100_500_000, rail(3.2, 1.0));
            }
            let [mut v, mut i, mut f] = [[0; 40]; 3];
            let mut time_ps = 0;
            for _ in 0..12 {
                run.sample_run(time_ps, 1_000_000, [&mut v, &mut i, &mut f]);
                for k in 0..40 {
                    assert_eq!(one.sample(time_ps), [v[k], i[k], f[k]], "at {time_ps} ps");
                    time_ps += 1_000_000;
                }
            }
        }
    }

    fn two_paths() -> BoardOptions {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hw/afe/model.toml");
        BoardOptions { front_end: Some(crate::afe::FrontEnd::load(&file).unwrap()), ..BoardOptions::default() }
    }

    #[test]
    fn the_fine_path_has_the_same_noise_on_a_finer_scale_and_saturates() {
        let mut adc = Adc::new(&BoardOptions { errors: 0.0, ..two_paths() });
        adc.push(0, rail(3.3, 0.05));
        let (mut apart, mut spread) = (0.0, 0.0);
        for k in 100..2100u64 {
            let [_, i, f] = adc.sample(k * 1_000_000);
            let fine = adc.fine.as_ref().unwrap();
            let (i, f) = (f64::from(adc.current.value_of(i)) * CURRENT_LSB_A, f64::from(fine.value_of(f)) * fine.lsb());
            spread += (f - 0.05).powi(2) / 2000.0;
            apart += (f - i).powi(2) / 2000.0;
        }
        assert!((spread.sqrt() / 298e-6 - 1.0).abs() < 0.1, "{spread}");
        assert!(apart.sqrt() < 45e-6, "{apart}"); // the converters' own, and half a code
        adc.push(2_200_000_000, rail(3.3, -1.0));
        adc.push(2_300_000_000, rail(3.3, 0.01));
        let ends: Vec<bool> = (2250..2350u64).map(|us| adc.sample(us * 1_000_000)[2] == 0x20000).collect();
        // saturated at 1.44 of the scale, so back within it a third of 2 us after the edge
        assert_eq!(ends.iter().filter(|end| **end).count(), 50 + 1);
    }

    #[test]
    fn a_short_pulse_keeps_its_charge() {
        // 100 mA for 300 ns, sampled every 50 ns: the sum of the filtered samples equals the pulse's charge.
        let mut adc = Adc::new(&perfect());
        adc.push(0, rail(3.3, 0.0));
        adc.push(1_000_000, rail(3.3, 4.0));
        adc.push(1_300_000, rail(3.3, 0.0));
        let sum: f64 = (0..2000u64)
            .map(|k| {
                let [_, i, _] = adc.sample(k * 50_000);
                f64::from(adc.current.value_of(i)) * CURRENT_LSB_A
            })
            .sum();
        let charge = sum * 50e-9;
        assert!((charge - 4.0 * 300e-9).abs() < 0.01 * 4.0 * 300e-9, "{charge}");
    }

    #[test]
    fn noise_has_the_asked_standard_deviation_and_no_mean() {
        let options = BoardOptions { noise_lsb: 3.0, errors: 0.0, tau_s: 0.0, seed: 7, ..BoardOptions::default() };
        let mut adc = Adc::new(&options);
        adc.push(0, rail(2.5, 0.0));
        let n = 40_000;
        let values: Vec<f64> = (0..n)
            .map(|k| {
                let [_, i, _] = adc.sample(k);
                f64::from(adc.current.value_of(i))
            })
            .collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        // Rounding adds 1/12 to the variance. Five standard errors either way.
        let expected = 9.0 + 1.0 / 12.0;
        assert!(mean.abs() < 5.0 * (expected / n as f64).sqrt(), "mean {mean}");
        assert!((variance - expected).abs() < 5.0 * expected * (2.0 / n as f64).sqrt(), "variance {variance}");
    }

    #[test]
    fn a_board_from_a_file_drifts_and_warms_its_shunt() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hw/afe/model.toml");
        let front_end = Some(FrontEnd::load(&file).unwrap());
        let mut adc = Adc::new(&BoardOptions { front_end, seed: 3, ..BoardOptions::default() });
        let mut again = Adc::new(&BoardOptions { front_end, seed: 3, ..BoardOptions::default() });
        assert_eq!(adc.current.convert(1.0, 0.0), again.current.convert(1.0, 0.0));
        adc.current.noise_lsb = 0.0;
        let cold = (adc.current.gain_error, adc.current.offset_lsb);
        adc.warm_to(20.0);
        adc.warm_to(25.0);
        let warm = (adc.current.gain_error, adc.current.offset_lsb);
        assert!(((warm.0 - cold.0) / (25.0 * adc.current.drift.0) - 1.0).abs() < 1e-9);
        assert!(((warm.1 - cold.1) / (25.0 * adc.current.drift.1) - 1.0).abs() < 1e-9);
        let code = adc.current.convert(4.0, 0.0);
        let expected = 4.0 / CURRENT_LSB_A * (1.0 + warm.0 + 16.0 * adc.current.heating) + warm.1;
        assert!((f64::from(adc.current.value_of(code)) - expected).abs() <= 0.5);
        assert!(adc.current.heating != 0.0);
        adc.warm_to(0.0);
        assert!((adc.current.gain_error - cold.0).abs() < 1e-15);
    }

    #[test]
    fn a_board_is_its_seed() {
        let run = |seed| {
            let mut adc = Adc::new(&BoardOptions { seed, ..BoardOptions::default() });
            adc.push(0, rail(3.3, 0.1));
            (0..100).map(|k| adc.sample(k * 1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }
}
