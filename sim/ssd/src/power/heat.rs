//! Heat: one mass, warmed by the drive's power, cooled by the air.

use crate::power::thermal::Throttle;
use crate::profile::{Profile, Ps, MS};

/// How often the temperature is worked out.
const STEP: Ps = 20 * MS;
/// Light throttling by the host's management: with little effect on performance. Assumed.
const LIGHT: f64 = 1.25;
/// Heavy throttling by it: whatever it costs. Assumed.
const HEAVY: f64 = 4.0;

/// Temperature, and its effect on speed.
pub struct Heat {
    temperature_c: f64,
    ambient_c: f64,
    resistance_k_per_w: f64,
    capacity_j_per_k: f64,
    warning_c: f64,
    throttle_per_k: f64,
    at: Ps,
    energy_j: f64,
    /// An outside source sets the temperature.
    told: bool,
}

impl Heat {
    /// Creates a drive as warm as its surroundings, at time 0.
    pub fn new(profile: &Profile) -> Self {
        let t = &profile.thermal;
        Self {
            temperature_c: *t.ambient_c,
            ambient_c: *t.ambient_c,
            resistance_k_per_w: *t.resistance_k_per_w,
            capacity_j_per_k: *t.capacity_j_per_k,
            warning_c: *profile.limits.warning_temperature_c as f64,
            throttle_per_k: *t.throttle_per_k,
            at: 0,
            energy_j: 0.0,
            told: false,
        }
    }

    /// Takes the temperature from outside from now on.
    pub fn leave_to_others(&mut self) {
        self.told = true;
    }

    /// The composite temperature.
    pub fn temperature_c(&self) -> f64 {
        self.temperature_c
    }

    /// Changes the air's temperature.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.ambient_c = ambient_c;
    }

    /// Goes to `now`, by which `energy_j` was drawn since power-on; whether the temperature was worked out anew.
    pub fn update(&mut self, now: Ps, energy_j: f64) -> bool {
        if self.told || now < self.at + STEP {
            return false;
        }
        let seconds = (now - self.at) as f64 * 1e-12;
        let watt = ((energy_j - self.energy_j) / seconds).max(0.0);
        // The exact solution for constant power: towards its final value with the time constant R C.
        let last = self.ambient_c + watt * self.resistance_k_per_w;
        let decay = (-seconds / (self.resistance_k_per_w * self.capacity_j_per_k)).exp();
        self.temperature_c = last + (self.temperature_c - last) * decay;
        (self.at, self.energy_j) = (now, energy_j);
        true
    }

    /// Returns how many times slower the drive works, because of its temperature and of the throttling that the host's management
    /// requests.
    pub fn slowdown(&self, managed: Throttle) -> f64 {
        let managed = match managed {
            Throttle::None => 1.0,
            Throttle::Light => LIGHT,
            Throttle::Heavy => HEAVY,
        };
        managed * (1.0 + (self.temperature_c - self.warning_c).max(0.0) * self.throttle_per_k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::S;

    #[test]
    fn light_and_heavy_throttling_have_their_factors() {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        profile.thermal.throttle_per_k.value = 0.25;
        let cold = Heat::new(&profile);
        let factors = [Throttle::None, Throttle::Light, Throttle::Heavy].map(|level| cold.slowdown(level));
        assert_eq!(factors, [1.0, 1.25, 4.0]); // docs/ssd-behaviour.md, "Heat"
        profile.thermal.ambient_c.value = profile.limits.warning_temperature_c.value as f64 + 4.0;
        let hot = Heat::new(&profile);
        let factors = [Throttle::None, Throttle::Light, Throttle::Heavy].map(|level| hot.slowdown(level));
        assert_eq!(factors, [2.0, 2.5, 8.0]);
    }

    #[test]
    fn warming_takes_the_time_constant() {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        (profile.thermal.resistance_k_per_w.value, profile.thermal.capacity_j_per_k.value) = (10.0, 2.0);
        let mut t = Heat::new(&profile);
        assert!(!t.update(19 * MS, 1.0), "worked out every 20 ms");
        assert!(!t.update(20 * MS - 1, 1.0) && t.update(20 * MS, 0.0));
        let mut t = Heat::new(&profile);
        assert!(t.update(20 * S, 40.0)); // 2 W for R C = 20 s: 1 - 1/e of 20 K
        assert!((t.temperature_c() - 25.0 - 20.0 * (1.0 - (-1.0f64).exp())).abs() < 1e-9);
        t.leave_to_others();
        assert!(!t.update(100 * S, 400.0));
    }
    #[test]
    fn it_settles_at_power_times_resistance_and_throttles_above_the_warning_temperature() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let mut t = Heat::new(&profile);
        let r = *profile.thermal.resistance_k_per_w;
        for second in 1..=2000u64 {
            t.update(second * S, 4.0 * second as f64);
        }
        assert!((t.temperature_c() - 25.0 - 4.0 * r).abs() < 0.01);
        assert_eq!(t.slowdown(Throttle::None), 1.0);
        t.set_ambient_c(60.0);
        for second in 2001..=4000u64 {
            t.update(second * S, 4.0 * second as f64);
        }
        assert!(t.temperature_c() > 77.0 && t.slowdown(Throttle::None) > 1.5);
    }

    #[test]
    fn one_long_step_is_many_short_ones() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let (mut a, mut b) = (Heat::new(&profile), Heat::new(&profile));
        a.update(100 * S, 300.0);
        for i in 1..=1000u64 {
            b.update(i * S / 10, 0.3 * i as f64);
        }
        assert!((a.temperature_c() - b.temperature_c()).abs() < 1e-9);
    }
}
