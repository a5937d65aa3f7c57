//! Feature 0Eh, Timestamp (NVM Express, Timestamp feature).

use crate::nvme::number;
use crate::profile::{Ps, MS};

/// Bytes of the Timestamp structure.
pub const TIMESTAMP_BYTES: u32 = 8;
const MASK: u64 = (1 << 48) - 1;

/// Milliseconds since 1970 as the host set them, or since power-on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timestamp {
    value_ms: u64,
    set_at: Ps,
    by_host: bool,
}

impl Timestamp {
    /// Sets the timestamp from the host's structure.
    pub fn set(&mut self, now: Ps, data: &[u8]) {
        *self = Self { value_ms: number(&data[..8]) & MASK, set_at: now, by_host: true };
    }

    /// Milliseconds at `now`, and whether they count from a time that the host has set.
    pub fn at(&self, now: Ps) -> (u64, bool) {
        (self.value_ms.wrapping_add(now.saturating_sub(self.set_at) / MS) & MASK, self.by_host)
    }

    /// The structure as a number: 48 bits of time, then the origin.
    pub fn number(&self, now: Ps) -> u64 {
        let (ms, by_host) = self.at(now);
        ms | u64::from(by_host) << 1 << 48
    }

    /// The structure.
    pub fn get(&self, now: Ps) -> Vec<u8> {
        self.number(now).to_le_bytes().to_vec()
    }
}
