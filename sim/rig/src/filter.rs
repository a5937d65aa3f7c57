//! The front end's effect on the rail before it is sampled.

/// A single-pole low-pass on each channel for a piecewise constant input: exact, whatever the spacing.
#[derive(Debug, Clone)]
pub struct Filter {
    tau_ps: [f64; 3],
    /// The stage before the fine current filter saturates at this many amperes, of either sign.
    limit_a: f64,
    /// The time of `value`.
    pub time_ps: u64,
    /// Output: volts, amperes, amperes of the fine path.
    pub value: [f64; 3],
    /// Input.
    pub target: [f64; 3],
}

/// Time constants after which the rest of a full-scale step is below 1e-13 of the step.
const SETTLED_TAUS: f64 = 30.0;

impl Filter {
    /// Starts at 0 V and 0 A; `tau_s` per channel.
    pub fn new(tau_s: [f64; 3], limit_a: f64) -> Self {
        Self { tau_ps: tau_s.map(|tau| tau * 1e12), limit_a, time_ps: 0, value: [0.0; 3], target: [0.0; 3] }
    }

    /// Time constants in seconds.
    pub fn tau_s(&self) -> [f64; 3] {
        self.tau_ps.map(|tau| tau * 1e-12)
    }

    /// Sets the input from now on.
    pub fn aim(&mut self, volts: f64, amperes: f64) {
        self.target = [volts, amperes, amperes.clamp(-self.limit_a, self.limit_a)];
    }

    /// Advances time.
    #[inline(always)]
    pub fn advance(&mut self, time_ps: u64) {
        let since = std::mem::replace(&mut self.time_ps, time_ps);
        if self.value != self.target {
            self.follow((time_ps - since) as f64); // else settled, as in most conversions of a sleeping drive
        }
    }

    fn follow(&mut self, dt: f64) {
        for ((value, target), tau_ps) in self.value.iter_mut().zip(self.target).zip(self.tau_ps) {
            if dt >= SETTLED_TAUS * tau_ps {
                *value = target;
                continue;
            }
            *value = target + (*value - target) * (-dt / tau_ps).exp();
            // Otherwise an exponential tail of denormal differences would keep exp() busy forever.
            if (*value - target).abs() < 1e-12 {
                *value = target;
            }
        }
    }
}
