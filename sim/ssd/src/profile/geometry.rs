//! The sizes of a drive's flash, worked out from its profile.

use super::{Profile, LBA, UNIT};

/// Sizes, in units or superblocks.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Logical units.
    pub units: u64,
    /// Base-2 logarithm of the units of a superblock in dense mode.
    pub shift: u32,
    /// Superblocks.
    pub blocks: u32,
    /// Units of a superblock in SLC mode.
    pub slc_block: u32,
}

impl Geometry {
    /// The sizes of a profile's flash.
    pub fn of(profile: &Profile) -> Self {
        let f = &profile.flash;
        let units = (*profile.namespace.lbas_512 * LBA).div_ceil(UNIT);
        let shift = (*f.superblock_mib * 256).ilog2();
        let row = *f.stripe_kib / 4 * *f.channels * *f.dies_per_channel;
        let slc_block = (((1u64 << shift) / *f.bits_per_cell) / row * row).max(row).min(1 << shift);
        let blocks = (*f.raw_gib * 262_144) >> shift;
        Self { units, shift, blocks: blocks as u32, slc_block: slc_block as u32 }
    }

    /// Whether the flash holds the namespace, the smallest SLC cache and what moving data needs.
    pub fn fits(&self, profile: &Profile) -> bool {
        let filled = self.units.div_ceil(1 << self.shift);
        let cache = *profile.flash.slc_cache_full_gb * 1e9 / UNIT as f64 / f64::from(self.slc_block);
        let spare = if *profile.flash.in_place { 0 } else { cache.ceil() as u64 + 8 };
        u64::from(self.blocks) >= filled + spare
    }
}
