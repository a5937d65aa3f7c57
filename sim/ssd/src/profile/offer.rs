//! Functions that a drive's controller offers beyond reading and writing: the table `[offer]` of a profile. Every entry may be left out;
//! the defaults are assumed and typical of client drives.

use super::fact::{Fact, Int};
use serde::{Deserialize, Serialize};

/// Ways to sanitize (NVM Express, Sanitize command).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Block erase.
    Block,
    /// The key is changed.
    Crypto,
    /// Every block is overwritten.
    Overwrite,
}

/// Optional parts of the controller, and how long they take.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offer {
    /// Highest namespace identifier (Identify Controller NN).
    pub namespaces: Fact<u32>,
    /// Whether the host may create, delete, attach and detach namespaces.
    pub namespace_management: Fact<bool>,
    /// Sizes of the namespaces the drive comes with, in units of 512 bytes; none: one of the whole capacity.
    pub initial_lbas_512: Fact<Vec<u64>>,
    /// Sizes of logical blocks, as powers of two.
    pub lba_formats: Fact<Vec<u8>>,
    /// Ways of the Sanitize command; none: the command is not offered.
    pub sanitize: Fact<Vec<Way>>,
    /// Whether Write Uncorrectable is offered.
    pub write_uncorrectable: Fact<bool>,
    /// Format NVM without erasure, in milliseconds.
    pub format_ms: Int,
    /// Erasing all blocks (Format NVM with SES 1, Sanitize), in milliseconds.
    pub erase_ms: Int,
    /// Changing the key (Format NVM with SES 2, Sanitize), in milliseconds.
    pub crypto_ms: Int,
    /// Rate of an overwrite pass of Sanitize, in MB/s.
    pub overwrite_mb_per_s: Int,
    /// Short self-test, in seconds (at most 120); 0: Device Self-test is not offered.
    pub self_test_short_s: Int,
    /// Extended self-test (EDSTT), in minutes.
    pub self_test_extended_min: Int,
    /// Host Memory Buffer the drive asks for (HMPRE), in MiB; 0: none.
    pub hmb_preferred_mib: Fact<u32>,
    /// Least Host Memory Buffer of use to the drive (HMMIN), in MiB.
    pub hmb_minimum_mib: Fact<u32>,
    /// Host controlled thermal management: least temperature (MNTMT) in degrees Celsius; 0: not offered.
    pub hctm_minimum_c: Fact<u16>,
    /// Host controlled thermal management: highest temperature (MXTMT) in degrees Celsius.
    pub hctm_maximum_c: Fact<u16>,
    /// Whether background work may exceed a non-operational state's power when the host permits it (CTRATT bit 1).
    pub permissive_mode: Fact<bool>,
    /// Whether completed writes may be volatile until Flush (VWC). Without it a write completes when it is programmed.
    pub volatile_write_cache: Fact<bool>,
    /// Whether I/O commands may have SGLs (SGLS).
    pub sgls: Fact<bool>,
    /// Most commands of one submission queue served in a row (RAB), as a power of two.
    pub arbitration_burst: Fact<u8>,
    /// Whether the drive measures its power on demand (feature and log page 25h).
    pub power_measurement: Fact<bool>,
    /// Whether the SMART / Health log has energy and power (bytes 243:232).
    pub smart_power: Fact<bool>,
    /// Whether the host may limit the drive's power (feature 23h).
    pub power_limit: Fact<bool>,
    /// Whether an event can report a second above a threshold (feature 24h).
    pub power_threshold: Fact<bool>,
    /// Whether OCP's latency monitor is there (feature C5h, log page C3h).
    pub latency_monitor: Fact<bool>,
}

pub(super) fn assumed<T>(value: T) -> Fact<T> {
    Fact { value, source: "assumed: default of the model".into(), fitted: false }
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            namespaces: assumed(1),
            namespace_management: assumed(false),
            initial_lbas_512: assumed(Vec::new()),
            lba_formats: assumed(vec![9, 12]),
            sanitize: assumed(vec![Way::Block, Way::Crypto, Way::Overwrite]),
            write_uncorrectable: assumed(true),
            format_ms: assumed(300),
            erase_ms: assumed(2500),
            crypto_ms: assumed(150),
            overwrite_mb_per_s: assumed(500),
            self_test_short_s: assumed(60),
            self_test_extended_min: assumed(15),
            hmb_preferred_mib: assumed(0),
            hmb_minimum_mib: assumed(0),
            hctm_minimum_c: assumed(0),
            hctm_maximum_c: assumed(0),
            permissive_mode: assumed(false),
            volatile_write_cache: assumed(true),
            sgls: assumed(false),
            arbitration_burst: assumed(2),
            power_measurement: assumed(false),
            smart_power: assumed(false),
            power_limit: assumed(false),
            power_threshold: assumed(false),
            latency_monitor: assumed(false),
        }
    }
}

impl Offer {
    /// Checks the table's conditions; `capacity_lbas_512` is the drive's capacity.
    pub fn check(&self, capacity_lbas_512: u64) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(format!("offer.{what}")) };
        must((1..=128).contains(&*self.namespaces), "namespaces must be 1 to 128")?;
        must(
            self.initial_lbas_512.len() <= *self.namespaces as usize,
            "initial_lbas_512 names more than offer.namespaces",
        )?;
        let sum = self.initial_lbas_512.iter().try_fold(0u64, |sum, &n| sum.checked_add(n.next_multiple_of(8)));
        must(sum.is_some_and(|n| n <= capacity_lbas_512), "initial_lbas_512 is more than the drive's capacity")?;
        must(self.initial_lbas_512.iter().all(|&n| n > 0), "initial_lbas_512 must not hold a 0")?;
        must(!self.lba_formats.is_empty() && self.lba_formats.len() <= 16, "lba_formats must be 1 to 16 formats")?;
        must(self.lba_formats.iter().all(|f| (9..=12).contains(f)), "lba_formats must be 9 to 12")?;
        must(*self.overwrite_mb_per_s > 0, "overwrite_mb_per_s must be above 0")?;
        must(*self.self_test_short_s <= 120, "self_test_short_s must be at most 120")?;
        must((1..=65535).contains(&*self.self_test_extended_min), "self_test_extended_min must be 1 to 65535")?;
        must(*self.hmb_minimum_mib <= *self.hmb_preferred_mib, "hmb_minimum_mib must not exceed hmb_preferred_mib")?;
        must(*self.hctm_minimum_c <= *self.hctm_maximum_c, "hctm_minimum_c must not exceed hctm_maximum_c")?;
        must(*self.arbitration_burst <= 7, "arbitration_burst must be 0 to 7")
    }

    /// Whether Sanitize is offered in this way.
    pub fn sanitizes(&self, way: Way) -> bool {
        self.sanitize.contains(&way)
    }

    /// Whether Device Self-test is offered.
    pub fn self_test(&self) -> bool {
        *self.self_test_short_s > 0
    }

    /// Whether a function needs the drive's own power meter.
    pub fn measures_power(&self) -> bool {
        *self.power_measurement || *self.smart_power || *self.power_threshold
    }

    /// Whether host controlled thermal management is offered.
    pub fn hctm(&self) -> bool {
        *self.hctm_minimum_c > 0
    }
}
