//! Moving data: folding the SLC cache into dense flash, and garbage collection.
//!
//! Both empty a greedily chosen superblock: they read its valid data and program the data into dense flash. They use idle time when the
//! profile says so. Otherwise they run page by page between host writes, just fast enough to keep up, and cost these writes the dies'
//! time. Reads of the host pass relocation, as they pass programs. Moved data takes the channels' power but not their time, which is a
//! twentieth of the dies' time.

use super::ftl::{Stream, Victim};
use super::relocation::Past;
use super::Flash;
use crate::power::account::{Purpose, Unit};
use crate::power::meter::Meter;
use crate::profile::Ps;

/// Superblocks kept for data being moved: below this many, host writes wait for garbage collection.
const RESERVE: u32 = 2;
/// Superblocks that make garbage collection keep pace with the host; at twice as many it rests.
const LOW: f64 = 6.0;
/// Superblocks that garbage collection in idle time works towards.
const IDLE_FREE: f64 = 14.0;
/// The largest valid share at which emptying a superblock in idle time is worth its wear.
const IDLE_SHARE: f64 = 0.9;

impl Flash {
    /// SLC superblocks that the cache may have now.
    pub(super) fn cache_limit(&self) -> f64 {
        self.relocation.limit(self.ftl.valid().1)
    }

    /// Returns the number of free superblocks that dense flash may have. A drained cache gets its emptied superblocks back.
    pub(super) fn spare_blocks(&self) -> f64 {
        let kept = match self.relocation.past {
            Past::Direct | Past::Fold => 0.0,
            Past::Drain => (self.cache_limit() - f64::from(self.ftl.slc_blocks())).max(0.0),
        };
        f64::from(self.ftl.free_blocks()) - kept
    }

    /// Decides where the next page of new data goes, and makes sure that there is a superblock for it.
    pub(super) fn choose_stream(&mut self, now: Ps, slow: f64, meter: &mut Meter) {
        if self.ftl.has_open(Stream::Cache) {
            self.stream = Stream::Cache;
            return;
        }
        if self.relocation.past == Past::Fold {
            self.fold_for_room(now, slow, meter);
        }
        let limit = self.cache_limit();
        let used = f64::from(self.ftl.slc_blocks());
        let mut cached = used + 1.0 <= limit && self.ftl.free_blocks() > RESERVE;
        if self.relocation.past == Past::Drain {
            self.relocation.draining |= !cached;
            let low = limit - f64::from(self.relocation.refill);
            self.relocation.draining &= used > low.max(1.0);
            cached &= !self.relocation.draining;
        }
        self.stream = if cached { Stream::Cache } else { Stream::Direct };
        if !self.ftl.has_open(self.stream) {
            self.make_room(now, slow, meter);
            assert!(self.ftl.open(self.stream), "raw_gib leaves no superblock to write to");
        }
    }

    /// Folds until the cache has a superblock for new data, or nothing is left to fold. Folding page by page while the last superblock was
    /// written has already done most of this work.
    fn fold_for_room(&mut self, now: Ps, slow: f64, meter: &mut Meter) {
        while self.cache_excess() > 0.0 {
            self.make_room(now, slow, meter);
            if self.fold_step(now, slow, meter).is_none() {
                return;
            }
        }
        self.make_room(now, slow, meter);
    }

    /// How many superblocks too many the cache will have with one more.
    fn cache_excess(&self) -> f64 {
        f64::from(self.ftl.slc_blocks()) + 1.0 - self.cache_limit()
    }

    /// Garbage collection until the host may take a superblock.
    fn make_room(&mut self, now: Ps, slow: f64, meter: &mut Meter) {
        while self.spare_blocks() <= f64::from(RESERVE) {
            if self.collect_step(now, slow, meter).is_none() && self.fold_step(now, slow, meter).is_none() {
                return;
            }
        }
    }

    /// The share of moving that `units` of new data bring with them.
    pub(super) fn relocate_for(&mut self, now: Ps, units: u64, slow: f64, meter: &mut Meter) {
        let over = f64::from(self.ftl.slc_blocks()) - self.cache_limit();
        if over > 0.0 && self.stream == Stream::Direct {
            for _ in 0..1 + (over / 4.0) as u32 {
                self.fold_step(now, slow, meter);
            }
        }
        if self.relocation.past == Past::Fold && self.stream == Stream::Cache && self.cache_excess() > 0.0 {
            self.relocation.drain_credit += units as f64 * self.relocation.fold_share;
            while self.relocation.drain_credit >= self.page as f64 {
                self.relocation.drain_credit -= self.page as f64;
                self.fold_step(now, slow, meter);
            }
        }
        if self.relocation.draining && self.stream == Stream::Direct {
            self.relocation.drain_credit += units as f64 * self.relocation.drain_share;
            while self.relocation.drain_credit >= self.page as f64 {
                self.relocation.drain_credit -= self.page as f64;
                self.fold_step(now, slow, meter);
            }
        }
        let free = self.spare_blocks();
        if self.relocation.cycle_share > 0.0 {
            return self.collect_in_cycles(now, units, slow, meter);
        }
        if free < 2.0 * LOW {
            let urgency = ((2.0 * LOW - free) / LOW).max(0.0);
            let share = self.relocation.collect_share.clamp(0.05, 0.98);
            // New data in SLC takes up more room than its length. Collected data is dense.
            let room = if self.stream == Stream::Cache { self.dense_per_slc() } else { 1.0 };
            self.relocation.credit += units as f64 * room * urgency * share / (1.0 - share);
            while self.relocation.credit >= self.page as f64 {
                self.relocation.credit -= self.page as f64;
                if self.collect_step(now, slow, meter).is_none() {
                    self.relocation.credit = 0.0;
                }
            }
        }
    }

    /// Collection that begins late and then goes on until there is room again: rates rise and fall with it.
    fn collect_in_cycles(&mut self, now: Ps, units: u64, slow: f64, meter: &mut Meter) {
        let free = self.spare_blocks();
        let running = self.relocation.in_cycle;
        self.relocation.in_cycle = if running { free < 2.0 * LOW } else { free < LOW };
        if !self.relocation.in_cycle {
            self.relocation.credit = 0.0;
            return;
        }
        let share = self.relocation.collect_share.clamp(0.05, 0.98);
        self.relocation.credit += units as f64 * self.relocation.cycle_share * share / (1.0 - share);
        while self.relocation.credit >= self.page as f64 {
            self.relocation.credit -= self.page as f64;
            if self.collect_step(now, slow, meter).is_none() {
                self.relocation.credit = 0.0;
            }
        }
    }

    fn dense_per_slc(&self) -> f64 {
        f64::from(1u32 << self.shift) / f64::from(self.ftl.slc_block())
    }

    /// Moves one page's worth out of the SLC cache; when that is programmed, or `None` if there is nothing to fold.
    pub(super) fn fold_step(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Option<Ps> {
        loop {
            if self.relocation.fold.is_none() {
                let (victim, share) = self.ftl.victim(true)?;
                (self.relocation.fold, self.relocation.fold_share) = (Some(victim), share);
            }
            if !self.ftl.has_open(Stream::Moved) && self.ftl.free_blocks() == 0 {
                return None; // nowhere to
            }
            let mut victim = self.relocation.fold?;
            let done = self.move_page(now, &mut victim, true, slow, meter);
            self.relocation.fold = done.map(|_| victim);
            if done.is_some() {
                return done;
            }
        }
    }

    /// Moves one page's worth out of the emptiest dense superblock.
    pub(super) fn collect_step(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Option<Ps> {
        for _ in 0..3 {
            if self.relocation.collect.is_none() {
                let (victim, share) = self.ftl.victim(false)?;
                if share >= 1.0 {
                    return None; // nothing to gain
                }
                (self.relocation.collect, self.relocation.collect_share) = (Some(victim), share);
            }
            let mut victim = self.relocation.collect?;
            let done = self.move_page(now, &mut victim, false, slow, meter);
            self.relocation.collect = done.map(|_| victim);
            if done.is_some() {
                return done;
            }
        }
        None
    }

    fn move_page(&mut self, now: Ps, victim: &mut Victim, slc: bool, slow: f64, meter: &mut Meter) -> Option<Ps> {
        let before = meter.account.turn_to(if slc { Purpose::Fold } else { Purpose::Collect });
        let mut sources = std::mem::take(&mut self.relocation.sources);
        sources.clear();
        while (sources.len() as u64) < self.page {
            let Some(found) = self.ftl.next_valid(victim) else { break };
            sources.push(found);
        }
        let moved = sources.len() as u64;
        let mut end = None;
        if moved > 0 && (self.ftl.has_open(Stream::Moved) || self.ftl.open(Stream::Moved)) {
            let ready = self.read_sources(now, &sources, slc, slow, meter);
            let mut slot = None;
            for &(unit, _) in &sources {
                // A page begins at a multiple of its size, and superblocks hold whole pages: one is open throughout.
                slot.get_or_insert(self.ftl.append(Stream::Moved, unit));
            }
            self.ftl.pad(Stream::Moved, self.page - moved);
            self.moved += moved;
            end = slot.map(|slot| {
                let (channel, die) = self.stripe_of(slot);
                let in_register = self.move_across(ready, channel, moved, slow, meter);
                self.program_die(in_register, die, false, slow, meter)
            });
        }
        self.relocation.sources = sources;
        meter.account.turn_to(before);
        end
    }

    /// Reads the units to move: one array operation for each multi-plane page that holds some.
    fn read_sources(&mut self, now: Ps, sources: &[(u64, u32)], slc: bool, slow: f64, meter: &mut Meter) -> Ps {
        let page = |slot: u32| u64::from(slot) / self.page;
        let mut runs: [(u32, u64); 64] = [(0, 0); 64];
        let mut count = 0;
        for &(_, slot) in sources {
            if count > 0 && page(runs[count - 1].0) == page(slot) {
                runs[count - 1].1 += 1;
            } else if count < runs.len() {
                runs[count] = (slot, 1);
                count += 1;
            }
        }
        let mut ready = now;
        for &(slot, units) in &runs[..count] {
            let (channel, die) = self.stripe_of(slot);
            let time = self.read_time(slc, slow);
            let free = self.die_free[die];
            // Passes programs as the host's reads do, but not other reads of its kind: a die senses one page at a time.
            let passing = if self.suspend > 0 { (now + self.suspend).max(self.die_moved[die]) } else { Ps::MAX };
            let start = free.max(now).min(passing);
            self.die_free[die] = free.max(now) + time;
            let sensed = start + time;
            self.die_moved[die] = sensed;
            meter.pulse(start, sensed, self.die_read_w / slow, Unit::Die);
            ready = ready.max(self.move_across(sensed, channel, units, slow, meter));
        }
        ready
    }

    /// Moves relocated data to or from a die, from `at` on, behind other relocated data on this channel. Returns the time of arrival. The
    /// host's data does not wait for relocated data.
    fn move_across(&mut self, at: Ps, channel: usize, units: u64, slow: f64, meter: &mut Meter) -> Ps {
        let start = at.max(self.channel_moved[channel]);
        let end = start + (self.unit_transfer as f64 * units as f64 * slow) as Ps;
        self.channel_moved[channel] = end;
        meter.pulse(start, end, self.channel_w / slow, Unit::Channel);
        end
    }

    /// When moving in idle time goes on, if the host has been idle since then.
    pub fn next_relocation_ps(&self, idle_since: Ps) -> Option<Ps> {
        let r = &self.relocation;
        if self.in_place || self.buffered > 0 || !(self.wants_fold() || self.wants_collection()) {
            return None;
        }
        // The only superblock of the cache may still be written, or no free one is left to move to: nothing to do until data comes.
        if r.stuck == Some(self.written + self.moved) {
            return None;
        }
        // Moving itself puts off what counts as idle for the power states, and goes on without a pause.
        let under_way = r.idle_until >= idle_since && r.idle_until > 0;
        Some(if under_way { r.idle_until } else { idle_since + r.fold_idle })
    }

    fn wants_fold(&self) -> bool {
        let (used, limit) = (f64::from(self.ftl.slc_blocks()), self.cache_limit());
        let share = if self.relocation.idle_fold { self.relocation.fold_to } else { self.relocation.fold_at };
        used > share * limit && used >= 1.0
    }

    fn wants_collection(&self) -> bool {
        if self.spare_blocks() >= IDLE_FREE {
            return false;
        }
        let (count, worth) = self.relocation.worth.get();
        if count == self.written + self.moved {
            return worth;
        }
        let worth = self.ftl.best_share(false) < IDLE_SHARE;
        self.relocation.worth.set((self.written + self.moved, worth));
        worth
    }

    /// A round of moving in idle time, a stripe to each die, so that all are at work; until when it lasts. `now`: there was nothing to move.
    pub fn relocate_idle(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Ps {
        let mut end = now;
        for _ in 0..self.dies * self.stripe / self.page {
            let done = if self.wants_fold() {
                self.relocation.idle_fold = true;
                self.fold_step(now, slow, meter)
            } else {
                self.relocation.idle_fold = false;
                self.collect_step(now, slow, meter)
            };
            match done {
                Some(done) => end = end.max(done),
                None => break,
            }
        }
        if !self.wants_fold() {
            self.relocation.idle_fold = false;
        }
        if end == now {
            self.relocation.stuck = Some(self.written + self.moved);
        }
        self.relocation.idle_until = end;
        end
    }
}
