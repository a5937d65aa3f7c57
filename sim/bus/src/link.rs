//! How long a TLP occupies the lanes of one direction.

use crate::tlp::Header;

/// Bytes added to a TLP by the data link layer and framing at 8 GT/s: STP token with sequence number (4), LCRC (4).
pub const OVERHEAD_BYTES: u64 = 8;

/// Rate and width of a link with 128b/130b coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Transfers per second and lane, in units of 1e6: 8000 for 8 GT/s.
    pub rate_mts: u32,
    /// Number of lanes.
    pub lanes: u32,
}

impl Link {
    /// 8 GT/s, four lanes.
    pub const GEN3_X4: Self = Self { rate_mts: 8000, lanes: 4 };

    /// Time taken by `tlp_len` bytes of header and payload plus framing, rounded up to a picosecond.
    pub fn bytes_ps(&self, tlp_len: usize) -> u64 {
        let bits = 8 * (tlp_len as u64 + OVERHEAD_BYTES) * 130 * 1_000_000;
        bits.div_ceil(128 * u64::from(self.rate_mts) * u64::from(self.lanes))
    }

    /// Time taken by the TLP with this header.
    pub fn tlp_ps(&self, header: &Header) -> u64 {
        self.bytes_ps(header.tlp_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gen3_x4_carries_3_938_gb_per_second() {
        // 8 GT/s x 4 x 128/130 / 8 bit = 3.93846 GB/s: 1 MiB (framing included) takes 266 240 ns.
        assert_eq!(Link::GEN3_X4.bytes_ps((1 << 20) - OVERHEAD_BYTES as usize), 266_240_000);
    }
}
