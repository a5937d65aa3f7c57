//! The drive as a PCIe endpoint: its port on the link, its configuration space and MSI-X.

pub mod config_space;
mod msix;
pub mod port;

use crate::profile::Profile;
use config_space::ConfigSpace;
use msix::Msix;
use port::Port;

/// The endpoint.
pub struct Pcie {
    /// The link, as the drive sees it.
    pub port: Port,
    /// Configuration space.
    pub config: ConfigSpace,
    /// MSI-X table and pending bits.
    pub msix: Msix,
}

impl Pcie {
    /// Creates an endpoint; its link is down.
    pub fn new(profile: &Profile, msix_outside: bool) -> Self {
        let vectors = *profile.limits.io_queues + 1;
        Self {
            port: Port::new(profile),
            config: ConfigSpace::new(profile, vectors),
            msix: Msix::new(vectors, msix_outside),
        }
    }

    /// After a conventional reset: link down, configuration space and MSI-X table as after power-on.
    pub fn reset(&mut self, profile: &Profile) {
        let vectors = *profile.limits.io_queues + 1;
        self.config = ConfigSpace::new(profile, vectors);
        self.msix.reset();
        self.port.reset();
    }

    /// After a function level reset: the link stays up.
    pub fn reset_function(&mut self, profile: &Profile) {
        self.config.reset_function(profile, *profile.limits.io_queues + 1);
        self.msix.reset();
    }

    /// Returns address and data of a vector's message, if the message may be sent now.
    pub fn message(&mut self, vector: u16) -> Option<(u64, u32)> {
        let (enabled, function_mask) = self.config.msix();
        self.msix.message(vector, enabled, function_mask)
    }
}
