//! The host memory buffer (NVMe, Host Memory Buffer): memory of the host that the drive uses as its own.

/// Units of addresses here: 16 bytes.
pub const UNIT_BITS: u32 = 4;

/// Host memory that is lent, or the list that says which.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub count: u64,
    pub list: bool,
}

/// Ranges of the host memory buffer, and its list of descriptors.
#[derive(Debug, Default)]
pub struct HostBuffer {
    pub ranges: Vec<Range>,
}

impl HostBuffer {
    /// Returns the range of a byte address.
    pub fn find(&self, address: u64) -> Option<Range> {
        let at = address >> UNIT_BITS;
        self.ranges.iter().find(|range| at.wrapping_sub(range.start) < range.count).copied()
    }
}
