//! The flash array and the write buffer in front: each part's time until it is free.
//!
//! Data is laid out in stripes. A stripe stays on one die; the next stripe is on the next channel, then on the next die of each channel. A
//! die does one array operation at a time, on all its planes. A channel does one transfer at a time. `relocate` moves data in the
//! background (folding of the SLC cache, garbage collection).

mod ahead;
mod ftl;
mod mapcache;
mod read;
mod relocate;
mod relocation;
#[cfg(test)]
mod tests;

use crate::power::account::{Purpose, Unit};
use crate::power::meter::Meter;
use crate::profile::{ps, Geometry, Profile, Ps, UNIT, US};
use ahead::Ahead;
use ftl::{Before, Ftl, Place, Stream};
pub use mapcache::Access;
use mapcache::{Lookup, MapCache};
use relocation::Relocation;

/// Contents of the drive before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Only the test's data, sequentially written, with a share in the SLC cache.
    #[default]
    TestData,
    /// Just filled: data in dense flash, and in an SLC cache at its smallest that is full, too.
    Full,
    /// Nothing: reads of unwritten data return zeroes without touching flash.
    Empty,
}

/// Flash, mapping and write buffer.
pub struct Flash {
    channels: u64,
    dies: u64,
    /// Units of a stripe, of a multi-plane page, of the whole drive.
    stripe: u64,
    page: u64,
    units: u64,
    shift: u32,
    in_place: bool,
    channel_free: Vec<Ps>,
    /// End of the last transfer of data that is moved.
    channel_moved: Vec<Ps>,
    /// End of everything a die has to do; end of the last read it has to do.
    die_free: Vec<Ps>,
    die_read: Vec<Ps>,
    /// End of the last page that a die senses because it is moved.
    die_moved: Vec<Ps>,
    unit_transfer: Ps,
    read_slc: Ps,
    read_dense: Ps,
    read_spread: f64,
    program_slc: Ps,
    program_dense: Ps,
    suspend: Ps,
    channel_w: f64,
    die_read_w: f64,
    program_w: [f64; 2],
    ftl: Ftl,
    map_cache: Option<MapCache>,
    ahead: Ahead,
    /// The units read ahead last; the vector is kept to reuse its memory.
    fetched: Vec<(Ps, u64, u64)>,
    map_own: u64,
    /// Map pages that wait to be written back together, and pages of the array written for them so far.
    map_changed: u64,
    map_writes: u64,
    map_lent: u64,
    relocation: Relocation,
    stream: Stream,
    open: u64,
    first_slot: u32,
    opened: Ps,
    flush_idle: Ps,
    buffer_units: u64,
    buffered: u64,
    programming: u64,
    written: u64,
    moved: u64,
    rng: fastrand::Rng,
}

/// A program operation: when the buffer gets its units back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// End of the array operation.
    pub end: Ps,
    /// Units it frees in the buffer then.
    pub units: u64,
}

/// Work and contents of the flash, in units of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    /// Written by the host.
    pub written: u64,
    /// Moved by folding and garbage collection.
    pub moved: u64,
    /// Lying in the SLC cache.
    pub in_slc: u64,
    /// Lying in dense flash.
    pub in_dense: u64,
}

impl Holdings {
    /// Returns the data written and moved since `before`, and the present contents, as JSON, in bytes.
    pub fn json_since(&self, before: &Self) -> serde_json::Value {
        let (written, moved) = (self.written - before.written, self.moved - before.moved);
        let amplification = (written > 0).then(|| (written + moved) as f64 / written as f64);
        serde_json::json!({
            "written_bytes": written * UNIT, "moved_bytes": moved * UNIT, "write_amplification": amplification,
            "in_slc_bytes": self.in_slc * UNIT, "in_dense_bytes": self.in_dense * UNIT,
        })
    }
}

impl Flash {
    /// Creates an array of this profile in this condition; `seed` gives the spread of read times. `data_bytes`: size of the data, from the
    /// drive's beginning.
    /// Without `data_bytes`, a full drive is full to its end. Test data is then wherever a command reads, but takes no room, neither in
    /// the SLC cache nor elsewhere.
    pub fn new(profile: &Profile, condition: Condition, data_bytes: Option<u64>, seed: u64) -> Self {
        let (f, p) = (&profile.flash, &profile.power);
        let dies = *f.channels * *f.dies_per_channel;
        let page = *f.planes * *f.page_kib / 4;
        let stripe = if *f.in_place { 1 } else { *f.stripe_kib / 4 };
        let geometry = Geometry::of(profile);
        let in_slc = (*f.test_data_slc_share * 256.0).round() as u16;
        let data = data_bytes.map(|bytes| bytes.div_ceil(UNIT).min(geometry.units));
        let before = match condition {
            Condition::Empty => Before::Nothing,
            Condition::Full | Condition::TestData if *f.in_place => Before::Aside(0),
            Condition::Full => Before::Filled(data.unwrap_or(geometry.units)),
            Condition::TestData if data.is_some() => Before::Nothing,
            Condition::TestData => Before::Aside(in_slc),
        };
        let map_own = *f.map_cache_kib * 1024;
        let mut ftl = Ftl::new(geometry, before);
        let relocation = Relocation::new(profile, geometry);
        let slc_block = u64::from(geometry.slc_block);
        if let Before::Filled(units) = before {
            // The data written last lies in the cache and fills it, as far as the rest of the data leaves room.
            let mut held = 0;
            while held + slc_block <= units
                && (held / slc_block + 1) as f64 <= relocation.limit(units - held - slc_block)
            {
                held += slc_block;
            }
            ftl.hold_in_cache(held);
        }
        if let (Condition::TestData, Before::Nothing, Some(units)) = (condition, before, data) {
            // The cache keeps what folding in idle time does not begin with.
            let dense = (units as f64 * (1.0 - *f.test_data_slc_share)) as u64;
            let room = (relocation.limit(dense) * *f.fold_at) as u64 * slc_block;
            ftl.hold_data(units, f.test_data_slc_share.min(room as f64 / units.max(1) as f64), page);
        }
        Self {
            channels: *f.channels,
            dies,
            stripe,
            page: if *f.in_place { 1 } else { page },
            units: geometry.units,
            shift: geometry.shift,
            in_place: *f.in_place,
            channel_free: vec![0; *f.channels as usize],
            channel_moved: vec![0; *f.channels as usize],
            die_free: vec![0; dies as usize],
            die_read: vec![0; dies as usize],
            die_moved: vec![0; dies as usize],
            unit_transfer: ps(UNIT as f64 / *f.channel_mb_per_s, US),
            read_slc: ps(*f.read_slc_us, US),
            read_dense: ps(*f.read_dense_us, US),
            read_spread: *f.read_spread,
            program_slc: ps(*f.program_slc_us, US),
            program_dense: ps(*f.program_dense_us, US),
            suspend: ps(*f.suspend_us, US),
            channel_w: *p.channel_w,
            die_read_w: *p.die_read_w,
            program_w: [*p.die_program_slc_w, *p.die_program_dense_w],
            ftl,
            map_cache: (map_own > 0).then(|| MapCache::new(map_own, 0)),
            ahead: Ahead::new(*f.read_ahead_kib / 4),
            fetched: Vec::new(),
            map_own,
            map_lent: 0,
            relocation,
            map_changed: 0,
            map_writes: 0,
            stream: Stream::Direct,
            open: 0,
            first_slot: 0,
            opened: 0,
            flush_idle: *profile.controller.flush_idle_us * US,
            buffer_units: *profile.controller.write_buffer_kib / 4,
            buffered: 0,
            programming: 0,
            written: 0,
            moved: 0,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Lends this many bytes for the map (Host Memory Buffer), or takes them back (0). The cached pages must then be read again.
    pub fn lend(&mut self, bytes: u64) {
        if bytes != self.map_lent {
            self.map_lent = bytes;
            self.map_cache = (self.map_own > 0).then(|| MapCache::new(self.map_own, bytes));
        }
    }

    /// Takes the next access to lent memory that earlier calls made necessary, and its time.
    #[inline]
    pub fn next_access(&mut self) -> Option<(Ps, Access)> {
        self.map_cache.as_mut()?.next_access()
    }

    /// Returns the data written and moved, and the present places of data.
    pub fn holdings(&self) -> Holdings {
        let (in_slc, in_dense) = self.ftl.valid();
        Holdings { written: self.written, moved: self.moved, in_slc, in_dense }
    }

    /// Removes all data, as a format or a sanitize does. Running programs run to their end.
    pub fn clear(&mut self) {
        self.ftl.clear();
        self.ahead.forget();
        self.buffered -= std::mem::take(&mut self.open);
        self.relocation.forget();
    }

    /// When the place of a unit is known: at once, or after a read of the map's own page.
    #[inline]
    fn look_up(&mut self, now: Ps, unit: u64, slow: f64, meter: &mut Meter) -> Ps {
        self.look_up_for(now, unit, false, slow, meter)
    }

    /// Looks up a map page as above, for changing the entry or not. Changed pages that are evicted are collected until they fill a page of
    /// the array. That page is then programmed in SLC mode. It takes no room there, because the map is a thousandth of the data.
    fn look_up_for(&mut self, now: Ps, unit: u64, change: bool, slow: f64, meter: &mut Meter) -> Ps {
        let Some(cache) = &mut self.map_cache else { return now };
        let Lookup::Miss { write_back } = cache.look_up(unit, change) else {
            cache.hit(now, unit, change);
            return now;
        };
        self.map_changed += u64::from(write_back);
        if self.map_changed >= self.page {
            self.map_changed = 0;
            self.map_writes += 1;
            let slot = (self.map_writes * self.stripe) as u32;
            let before = meter.account.turn_to(Purpose::MapWriteBack);
            self.program_page(now, slot, self.page, true, slow, meter);
            meter.account.turn_to(before);
        }
        let slot = MapCache::page_of(unit).wrapping_mul(0x9E37_79B1) as u32;
        let before = meter.account.turn_to(Purpose::Map);
        let known = self.read_page(now, Place { slot, slc: true }, 1, slow, meter);
        meter.account.turn_to(before);
        if let Some(cache) = &mut self.map_cache {
            cache.miss(now, known, unit, write_back);
        }
        known
    }

    fn read_page(&mut self, now: Ps, place: Place, units: u64, slow: f64, meter: &mut Meter) -> Ps {
        let (channel, die) = self.stripe_of(place.slot);
        let sensed = self.sense(now, die, place.slc, slow, meter);
        self.transfer(sensed, channel, units, slow, meter)
    }

    /// An array read on a die; when the data is in its page register. A read passes programs and erases (they are
    /// suspended for it), but not other reads.
    fn sense(&mut self, now: Ps, die: usize, slc: bool, slow: f64, meter: &mut Meter) -> Ps {
        let time = self.read_time(slc, slow);
        let (free, read) = (self.die_free[die], self.die_read[die]);
        let passing = (now + self.suspend).max(read);
        let start = if free > passing && self.suspend > 0 {
            self.die_free[die] = free + time; // until it is suspended the program goes on
            passing
        } else {
            let start = now.max(free);
            self.die_free[die] = start + time;
            start
        };
        self.die_read[die] = start + time;
        meter.pulse(start, start + time, self.die_read_w / slow, Unit::Die);
        start + time
    }

    fn read_time(&mut self, slc: bool, slow: f64) -> Ps {
        let nominal = if slc { self.read_slc } else { self.read_dense } as f64;
        let spread = 1.0 + self.read_spread * (2.0 * self.rng.f64() - 1.0);
        (nominal * spread * slow) as Ps
    }

    fn transfer(&mut self, at: Ps, channel: usize, units: u64, slow: f64, meter: &mut Meter) -> Ps {
        let start = at.max(self.channel_free[channel]);
        let end = start + (self.unit_transfer as f64 * units as f64 * slow) as Ps;
        self.channel_free[channel] = end;
        meter.pulse(start, end, self.channel_w / slow, Unit::Channel);
        end
    }

    /// Channel and die of a slot.
    #[inline]
    fn stripe_of(&self, slot: u32) -> (usize, usize) {
        let die = u64::from(slot) / self.stripe % self.dies;
        ((die % self.channels) as usize, die as usize)
    }

    /// Whether the buffer takes `units` more.
    pub fn has_room(&self, units: u64) -> bool {
        self.buffered + units <= self.buffer_units
    }

    /// Claims buffer space for data on its way.
    pub fn claim(&mut self, units: u64) {
        self.buffered += units;
    }

    /// Gives back buffer space that a program, or a command that failed, no longer needs.
    pub fn free(&mut self, units: u64) {
        self.buffered -= units;
    }

    /// A program has ended: its units leave the buffer.
    pub fn programmed(&mut self, units: u64) {
        self.programming -= units;
        self.free(units);
    }

    /// Whether the buffer will get no room by itself: nothing is being programmed, so what fills it may be a page that
    /// waits for more.
    pub fn is_stuck(&self) -> bool {
        self.programming == 0
    }

    /// Units in the buffer, on their way in, waiting or being programmed.
    pub fn buffered(&self) -> u64 {
        self.buffered
    }

    /// A unit of new data is in the buffer. A full multi-plane page is programmed at once.
    pub fn write(&mut self, now: Ps, unit: u64, slow: f64, meter: &mut Meter) -> Option<Program> {
        self.written += 1;
        self.ahead.forget();
        // The entry is changed in the cache. Reading it from flash takes the die's time and does not hold the write up.
        self.look_up_for(now, unit, true, slow, meter);
        if self.open == 0 {
            self.opened = now;
            if !self.in_place {
                self.choose_stream(now, slow, meter);
            }
        }
        let slot = if self.in_place { unit as u32 } else { self.ftl.append(self.stream, unit) };
        if self.in_place {
            self.ftl.hold_in_place(unit);
        }
        if self.open == 0 {
            self.first_slot = slot;
        }
        self.open += 1;
        let channel_j = self.channel_w * self.unit_transfer as f64 * 1e-12;
        meter.account.owe(channel_j + self.program_j() / self.page as f64);
        (self.open == self.page).then(|| self.program(now, slow, meter))
    }

    /// When a partly filled page is programmed for want of more data.
    pub fn next_flush_ps(&self) -> Option<Ps> {
        (self.open > 0).then(|| self.opened + self.flush_idle)
    }

    /// Programs the data that waits for its page to fill.
    pub fn flush(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Option<Program> {
        (self.open > 0).then(|| {
            self.ftl.pad(self.stream, self.page - self.open);
            self.program(now, slow, meter)
        })
    }

    /// When everything handed to the dies so far is programmed.
    pub fn programmed_ps(&self) -> Ps {
        self.die_free.iter().copied().max().unwrap_or(0)
    }

    fn program(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Program {
        let units = std::mem::take(&mut self.open);
        self.programming += units;
        let slc = self.stream == Stream::Cache;
        let before = meter.account.turn_to(Purpose::Write);
        let end = self.program_page(now, self.first_slot, units, slc, slow, meter);
        if units < self.page {
            meter.account.pad(self.program_j() * (self.page - units) as f64 / self.page as f64);
        }
        meter.account.turn_to(before);
        if !self.in_place {
            self.relocate_for(now, units, slow, meter);
        }
        Program { end, units }
    }

    /// Energy of programming a page of new data, however slowly.
    fn program_j(&self) -> f64 {
        let (time, dense) = match self.stream {
            Stream::Cache => (self.program_slc, 0),
            _ => (self.program_dense, 1),
        };
        self.program_w[dense] * time as f64 * 1e-12
    }

    /// Programs the multi-plane page of this slot; the end of the array operation.
    fn program_page(&mut self, now: Ps, slot: u32, units: u64, slc: bool, slow: f64, meter: &mut Meter) -> Ps {
        let (channel, die) = self.stripe_of(slot);
        // The cache register takes the next page while the array still programs the last: transfer first, then wait.
        let ready = self.transfer(now, channel, units, slow, meter);
        self.program_die(ready, die, slc, slow, meter)
    }

    /// Programs a page that is in the die's register at `ready`.
    fn program_die(&mut self, ready: Ps, die: usize, slc: bool, slow: f64, meter: &mut Meter) -> Ps {
        let start = ready.max(self.die_free[die]);
        let time = if slc { self.program_slc } else { self.program_dense };
        let end = start + (time as f64 * slow) as Ps;
        self.die_free[die] = end;
        meter.pulse(start, end, self.program_w[usize::from(!slc)] / slow, Unit::Die);
        end
    }

    /// Units `first .. first + count` hold nothing any more.
    pub fn deallocate(&mut self, first: u64, count: u64) {
        if first == 0 && count >= self.units {
            return self.clear();
        }
        self.ahead.forget();
        for unit in first..(first + count).min(self.units) {
            self.ftl.deallocate(unit);
        }
    }
}
