//! Namespaces, as far as reads and writes reveal them.

/// Known facts about a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Size of a logical block in bytes, from `count` / `nlb` of a read or write (metadata not counted): the smallest
    /// seen.
    pub lba_size_bytes: Option<u32>,
    /// First block after the highest one accessed.
    pub end_lba: u64,
    /// Reads and writes that show another block size than the first.
    pub conflicts: u64,
}

/// LBA size where the log shows none.
pub const DEFAULT_LBA_SIZE: u32 = 512;

impl Namespace {
    /// Size of a logical block in bytes.
    pub fn lba_size(&self) -> u32 {
        self.lba_size_bytes.unwrap_or(DEFAULT_LBA_SIZE)
    }
}

/// Returns the size of a logical block, from the bytes of `nlb` blocks. With inline metadata a block has 512 + 8 bytes or so. Its data
/// part is the next lower power of two.
pub fn lba_size(nlb: u32, bytes: u64) -> Option<u32> {
    let per_block = bytes.checked_div(nlb.into())?;
    (512..=1 << 20).contains(&per_block).then(|| 1 << per_block.ilog2())
}
