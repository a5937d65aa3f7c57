//! The controller's data path between host and flash: one after the other.

use crate::power::Power;
use crate::profile::{ps, Profile, Ps, US};

/// What all user data goes through.
pub struct DataPath {
    free: Ps,
    /// Time for 4096 bytes.
    page: Ps,
    watt: f64,
}

impl DataPath {
    /// That of a profile.
    pub fn new(profile: &Profile) -> Self {
        let page = ps(4096.0 / *profile.controller.data_path_mb_per_s, US);
        Self { free: 0, page, watt: *profile.power.data_path_w }
    }

    /// Carries `bytes` from `at` on; when they are through.
    #[inline]
    pub fn carry(&mut self, at: Ps, bytes: u32, power: &mut Power) -> Ps {
        let (slow, meter) = power.load();
        let start = at.max(self.free);
        self.free = start + (self.page as f64 * f64::from(bytes) / 4096.0 * slow) as Ps;
        meter.pulse(start, self.free, self.watt / slow);
        self.free
    }
}
