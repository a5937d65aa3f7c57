//! Namespaces, as far as reads and writes tell of them.

/// What is known of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Bytes of a logical block, from `count` / `nlb` of a read or write (metadata not counted): the smallest there was.
    pub lba_size_bytes: Option<u32>,
    /// First block behind the highest one that was touched.
    pub end_lba: u64,
    /// Reads and writes that show another block size than the first one.
    pub conflicts: u64,
}

/// LBA size where the log shows none.
pub const DEFAULT_LBA_SIZE: u32 = 512;

impl Namespace {
    /// Bytes of a logical block.
    pub fn lba_size(&self) -> u32 {
        self.lba_size_bytes.unwrap_or(DEFAULT_LBA_SIZE)
    }
}

/// Bytes of a logical block, from the bytes of `nlb` of them. With metadata in line a block is 512 + 8 bytes or so: the
/// data part is the power of two below.
pub fn lba_size(nlb: u32, bytes: u64) -> Option<u32> {
    let per_block = bytes.checked_div(nlb.into())?;
    (512..=1 << 20).contains(&per_block).then(|| 1 << per_block.ilog2())
}
