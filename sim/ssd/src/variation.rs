//! Times that vary from one command, or one wake-up, to the next.
//!
//! The distribution is lognormal, as latencies of drives roughly are. A time is never below zero, and slow times lie further from the
//! middle than quick ones. The mean equals the profile's figure.

/// Factors with mean 1, one after the other, the same for the same seed.
pub struct Variation {
    sigma: f64,
    rng: fastrand::Rng,
    /// Box and Muller's transform gives two normal figures at a time.
    second: Option<f64>,
}

impl Variation {
    /// `sigma`: standard deviation of the factor's logarithm; with 0 every factor is 1.
    pub fn new(sigma: f64, seed: u64) -> Self {
        Self { sigma, rng: fastrand::Rng::with_seed(seed), second: None }
    }

    /// The next factor.
    pub fn factor(&mut self) -> f64 {
        if self.sigma == 0.0 {
            return 1.0;
        }
        (self.sigma * self.normal() - self.sigma * self.sigma / 2.0).exp()
    }

    fn normal(&mut self) -> f64 {
        if let Some(normal) = self.second.take() {
            return normal;
        }
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.rng.f64()).sin_cos();
        self.second = Some(radius * sin);
        radius * cos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_one_and_logarithms_spread_by_sigma() {
        let mut variation = Variation::new(0.2, 3);
        let logs: Vec<f64> = (0..100_000).map(|_| variation.factor().ln()).collect();
        let mean_factor = logs.iter().map(|l| l.exp()).sum::<f64>() / 1e5;
        let mean = logs.iter().sum::<f64>() / 1e5;
        let deviation = (logs.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / 1e5).sqrt();
        // Five standard errors of 100 000 draws.
        assert!((mean_factor - 1.0).abs() < 5.0 * 0.2 / 316.0, "{mean_factor}");
        assert!((deviation - 0.2).abs() < 5.0 * 0.2 / 447.0, "{deviation}");
        let beyond = logs.iter().filter(|l| (*l - mean).abs() > 0.4).count();
        assert!((4200..4900).contains(&beyond), "4.55 % of a normal distribution lie beyond two sigma: {beyond}");
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let mut variation = Variation::new(0.1, seed);
            (0..10).map(|_| variation.factor()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Variation::new(0.0, 1).factor(), 1.0);
    }
}
