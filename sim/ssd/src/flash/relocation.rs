//! Moving data: its rules and its state.

use super::ftl::Victim;
use crate::profile::{ps, Geometry, Profile, Ps, MS, UNIT};
use std::cell::Cell;

/// Destination of new data while the SLC cache is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// Straight to dense flash.
    Direct,
    /// Straight to dense flash, while a part of the cache is folded; then through the cache again.
    Drain,
    /// Into the cache all the same: for each page as much is folded as makes room for it.
    Fold,
}

/// State and constants of moving.
pub struct Relocation {
    pub(super) fold: Option<Victim>,
    pub(super) collect: Option<Victim>,
    pub(super) collect_share: f64,
    pub(super) credit: f64,
    pub(super) idle_fold: bool,
    pub(super) idle_until: Ps,
    /// Count of units written and moved at which a round in idle time found nothing to move.
    pub(super) stuck: Option<u64>,
    /// SLC superblocks of an empty and of a full drive.
    pub(super) cache_blocks: [f64; 2],
    /// Units in dense flash when the drive is full.
    pub(super) dense_units: f64,
    pub(super) past: Past,
    pub(super) refill: u32,
    /// Whether the cache is being emptied by `refill` superblocks and is shut until then.
    pub(super) draining: bool,
    /// Valid share of the superblock of the cache that is being folded.
    pub(super) fold_share: f64,
    /// Pages folded for each page of new data meanwhile.
    pub(super) drain_share: f64,
    pub(super) drain_credit: f64,
    /// How many times as fast as keeps up with the host a cycle of collection goes; 0: no cycles, it keeps up.
    pub(super) cycle_share: f64,
    pub(super) in_cycle: bool,
    pub(super) fold_idle: Ps,
    pub(super) fold_at: f64,
    pub(super) fold_to: f64,
    pub(super) sources: Vec<(u64, u32)>,
    /// Whether collection in idle time is worth it, and the count of units written and moved for which that is known.
    pub(super) worth: Cell<(u64, bool)>,
}

impl Relocation {
    /// The rules of a profile.
    pub fn new(profile: &Profile, geometry: Geometry) -> Self {
        let f = &profile.flash;
        let blocks = |gb: f64| gb * 1e9 / UNIT as f64 / f64::from(geometry.slc_block);
        Self {
            fold: None,
            collect: None,
            collect_share: 0.0,
            credit: 0.0,
            idle_fold: false,
            stuck: None,
            idle_until: 0,
            cache_blocks: [blocks(*f.slc_cache_empty_gb), blocks(*f.slc_cache_full_gb)],
            dense_units: geometry.units as f64 - *f.slc_cache_full_gb * 1e9 / UNIT as f64,
            past: match f.past_cache.as_str() {
                "drain" => Past::Drain,
                "fold" => Past::Fold,
                _ => Past::Direct,
            },
            draining: false,
            fold_share: 1.0,
            drain_share: *f.drain_share,
            drain_credit: 0.0,
            cycle_share: *f.gc_cycle_share,
            in_cycle: false,
            refill: (blocks(*f.fold_burst_gb).round() as u32).max(1),
            fold_idle: ps(*f.fold_idle_ms, MS),
            fold_at: *f.fold_at,
            fold_to: *f.fold_to,
            sources: Vec::with_capacity(64),
            worth: Cell::new((u64::MAX, false)),
        }
    }

    /// Returns the SLC superblocks of the cache when `dense` units lie in dense flash. The number shrinks linearly. It is smallest when
    /// dense flash holds all data that the cache then cannot hold.
    pub fn limit(&self, dense: u64) -> f64 {
        let [empty, full] = self.cache_blocks;
        full + (empty - full) * (1.0 - dense as f64 / self.dense_units).max(0.0)
    }

    /// Drops the relocation in hand: the superblocks no longer hold anything.
    pub fn forget(&mut self) {
        (self.fold, self.collect, self.credit, self.idle_fold) = (None, None, 0.0, false);
        (self.draining, self.in_cycle) = (false, false);
        (self.fold_share, self.drain_credit) = (1.0, 0.0);
    }
}
