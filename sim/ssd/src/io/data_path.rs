//! The controller's data path between host and flash: one after the other.

use crate::power::account::{Purpose, Unit};
use crate::power::Power;
use crate::profile::{ps, Profile, Ps, US};

/// The data path that all user data passes.
pub struct DataPath {
    free: Ps,
    /// Time for 4096 bytes.
    page: Ps,
    watt: f64,
}

impl DataPath {
    /// Creates the data path of a profile.
    pub fn new(profile: &Profile) -> Self {
        let page = ps(4096.0 / *profile.controller.data_path_mb_per_s, US);
        Self { free: 0, page, watt: *profile.power.data_path_w }
    }

    /// Carries `bytes` from `at` on; when they are through. The energy is their command's own.
    #[inline]
    pub fn carry(&mut self, at: Ps, bytes: u32, inward: bool, power: &mut Power) -> Ps {
        let (slow, meter) = power.load();
        let start = at.max(self.free);
        self.free = start + (self.page as f64 * f64::from(bytes) / 4096.0 * slow) as Ps;
        let before = meter.account.turn_to(if inward { Purpose::Write } else { Purpose::Read });
        meter.pulse(start, self.free, self.watt / slow, Unit::DataPath);
        if inward {
            meter.account.owe((self.free - start) as f64 * 1e-12 * self.watt / slow);
        }
        meter.account.turn_to(before);
        self.free
    }
}
