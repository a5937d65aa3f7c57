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

    /// The structure: 48 bits of time, then the origin.
    pub fn get(&self, now: Ps) -> Vec<u8> {
        let ms = self.value_ms.wrapping_add((now - self.set_at) / MS) & MASK;
        let origin = u64::from(self.by_host) << 1;
        (ms | origin << 48).to_le_bytes().to_vec()
    }
}
