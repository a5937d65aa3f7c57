//! Delay of the current paths, as measured by the factory: with the board's test load, through the board's own noisy
//! ADCs.

use crate::adc::Adc;
use wattbell_bus::Rail;

/// A path's delay and its uncertainty (k = 2), in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathDelay {
    /// Delay from the current to the code.
    pub delay_s: f64,
    /// Its uncertainty.
    pub u_s: f64,
}

/// Edges per path; edge k comes k + 1/2 ns after a conversion, so the edges span a microsecond.
const EDGES: u64 = 1000;
const PERIOD_PS: u64 = 1_000_000;
const PHASE_PS: u64 = PERIOD_PS / EDGES;
/// Conversions before an edge, while the path settles after the edge, and from then on.
const BEFORE: u64 = 40;
const SETTLES: u64 = 40;
const AFTER: u64 = 40;
/// Groups of edges; the scatter of the groups gives the uncertainty.
const GROUPS: usize = 10;
const SUPPLY_NV: i64 = 3_300_000_000;

/// Measures the delays on a copy of `adc`, so that the noise of `adc` stays as it was.
pub fn calibrate(adc: &Adc) -> [Option<PathDelay>; 2] {
    [Some(path(adc.clone(), false)), adc.fine.is_some().then(|| path(adc.clone(), true))]
}

/// Integrates, over all edges, the step response's distance from its final value. The integral is the sum of the path's time constants.
fn path(mut adc: Adc, fine: bool) -> PathDelay {
    let which = if fine { 2 } else { 1 };
    adc.push(0, Rail { voltage_nv: SUPPLY_NV, current_na: 0 });
    let mut conversion = 0;
    let mut missing = [0.0; GROUPS];
    for edge in 0..EDGES {
        let mut mean = |adc: &mut Adc, count: u64| {
            let sum: f64 = (0..count)
                .map(|_| {
                    conversion += 1;
                    let [_, coarse, through_fine] = adc.sample(conversion * PERIOD_PS);
                    let code = if fine { through_fine } else { coarse };
                    f64::from(adc.current.value_of(code))
                })
                .sum();
            (sum / count as f64, conversion)
        };
        mean(&mut adc, BEFORE); // settles from the previous edge
        let (before, last) = mean(&mut adc, BEFORE);
        adc.load(last * PERIOD_PS + edge * PHASE_PS + PHASE_PS / 2, which);
        let (during, _) = mean(&mut adc, SETTLES);
        let (after, last) = mean(&mut adc, AFTER);
        adc.load(last * PERIOD_PS, 0);
        // Conversions are whole periods apart, the first a fraction of a period after the edge: over all phases a sum
        // is an integral.
        // Back and forth, so that the phases of each group have the same mean.
        let (turn, place) = (edge as usize / GROUPS, edge as usize % GROUPS);
        missing[if turn % 2 == 0 { place } else { GROUPS - 1 - place }] +=
            (after - during) / (after - before) * SETTLES as f64 * PERIOD_PS as f64 * 1e-12;
    }
    let groups = missing.map(|sum| sum / (EDGES as f64 / GROUPS as f64));
    let mean = groups.iter().sum::<f64>() / GROUPS as f64;
    let spread = groups.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / (GROUPS as f64 - 1.0);
    PathDelay { delay_s: mean.max(0.0), u_s: 2.0 * (spread / GROUPS as f64).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adc::BoardOptions;
    use crate::afe::FrontEnd;

    #[test]
    fn a_board_of_known_poles_is_found_within_its_uncertainty() {
        for tau_s in [0.5e-6, 2e-6, 3.7e-6] {
            let adc = Adc::new(&BoardOptions { tau_s, ..BoardOptions::default() });
            let [Some(found), None] = calibrate(&adc) else { panic!("one path") };
            assert!((found.delay_s - tau_s).abs() < 2.0 * found.u_s + 0.1e-9, "{tau_s} {found:?}");
            assert!(found.u_s < 2e-9);
        }
    }

    #[test]
    fn both_paths_of_drawn_boards() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hw/afe/model.toml");
        let front_end = Some(FrontEnd::load(&file).unwrap());
        for seed in 1..6 {
            let adc = Adc::new(&BoardOptions { front_end, seed, ..BoardOptions::default() });
            let (coarse, fine) = adc.delays_s();
            for (found, truth) in calibrate(&adc).iter().zip([coarse, fine.unwrap()]) {
                let found = found.unwrap();
                assert!((found.delay_s - truth).abs() < 50e-9, "seed {seed}: {found:?} {truth}");
                assert!((found.delay_s - truth).abs() < 2.0 * found.u_s, "seed {seed}: {found:?} {truth}");
            }
        }
    }

    #[test]
    fn the_boards_noise_goes_on_as_if_nothing_had_been() {
        let mut adc = Adc::new(&BoardOptions::default());
        let mut other = adc.clone();
        calibrate(&adc);
        assert_eq!(adc.sample(1_000_000), other.sample(1_000_000));
    }
}
