//! The flash array and the write buffer in front of it: who is busy until when.
//!
//! Pages are striped over channels first, then dies, then planes, in the order of writing. A die does one array
//! operation at a time; a channel one transfer. What lies where is known for logical pages written in this run; for
//! all others the profile's condition says whether they were written sequentially to SLC or to QLC.

use crate::map::{Entry, Map, Place};
use crate::meter::Meter;
use crate::profile::{ps, Profile, Ps, US};

/// Logical pages are mapped in units of this many bytes.
pub const UNIT: u64 = 4096;

/// What the drive held before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Only the test's data, sequentially written, all of it still in the (largest) SLC cache.
    #[default]
    TestData,
    /// Filled to the end: data in QLC, the SLC cache at its smallest.
    Full,
    /// Nothing: reads of what was not written answer zeroes without touching flash.
    Empty,
}

/// Flash, mapping and write buffer.
pub struct Flash {
    channels: u64,
    dies: u64,
    planes: u64,
    units_per_page: u64,
    channel_free: Vec<Ps>,
    die_free: Vec<Ps>,
    unit_transfer: Ps,
    read_slc: Ps,
    read_qlc: Ps,
    read_spread: f64,
    program_slc: Ps,
    program_full: Ps,
    channel_w: f64,
    die_read_w: f64,
    die_program_w: f64,
    condition: Condition,
    map: Map,
    next_page: u64,
    slc_units: u64,
    slc_used: u64,
    open: u64,
    opened: Ps,
    flush_idle: Ps,
    buffer_units: u64,
    buffered: u64,
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

impl Flash {
    /// An array of this profile in this condition; `seed` for the spread of read times.
    pub fn new(profile: &Profile, condition: Condition, seed: u64) -> Self {
        let f = &profile.flash;
        let dies = *f.channels * *f.dies_per_channel;
        let cache_gb = if condition == Condition::Full { *f.slc_cache_full_gb } else { *f.slc_cache_empty_gb };
        Self {
            channels: *f.channels,
            dies,
            planes: *f.planes,
            units_per_page: *f.page_kib / 4,
            channel_free: vec![0; *f.channels as usize],
            die_free: vec![0; dies as usize],
            unit_transfer: ps(UNIT as f64 / *f.channel_mb_per_s, US),
            read_slc: ps(*f.read_slc_us, US),
            read_qlc: ps(*f.read_qlc_us, US),
            read_spread: *f.read_spread,
            program_slc: ps(*f.program_slc_us, US),
            program_full: ps(*f.program_full_us, US),
            channel_w: *profile.power.channel_w,
            die_read_w: *profile.power.die_read_w,
            die_program_w: *profile.power.die_program_w,
            condition,
            map: Map::default(),
            next_page: 1 << 24, // apart from the pages that sequentially written data is taken to lie in
            slc_units: (cache_gb * 1e9) as u64 / UNIT,
            slc_used: 0,
            open: 0,
            opened: 0,
            flush_idle: *profile.controller.flush_idle_us * US,
            buffer_units: *profile.controller.write_buffer_kib / 4,
            buffered: 0,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    fn place(&self, unit: u64) -> Option<Place> {
        match self.map.get(unit) {
            Entry::At(place) => Some(place),
            Entry::Gone => None,
            Entry::AsBefore if self.condition == Condition::Empty => None,
            Entry::AsBefore => {
                let page = (unit / self.units_per_page) as u32;
                Some(Place { page, slc: self.condition == Condition::TestData })
            }
        }
    }

    /// Reads units `first .. first + count` from `now` on: pushes `(ready, unit, count)` for each run of them that comes
    /// out of one page. Unmapped units are ready at once.
    pub fn read(
        &mut self,
        now: Ps,
        first: u64,
        count: u64,
        slow: f64,
        meter: &mut Meter,
        out: &mut Vec<(Ps, u64, u64)>,
    ) {
        let mut at = first;
        while at < first + count {
            let place = self.place(at);
            let mut n = 1;
            while at + n < first + count && self.place(at + n) == place && (place.is_none() || n < self.units_per_page)
            {
                n += 1;
            }
            let ready = place.map_or(now, |p| self.read_page(now, p, n, slow, meter));
            out.push((ready, at, n));
            at += n;
        }
    }

    fn read_page(&mut self, now: Ps, place: Place, units: u64, slow: f64, meter: &mut Meter) -> Ps {
        let (channel, die) = self.stripe(u64::from(place.page));
        let nominal = if place.slc { self.read_slc } else { self.read_qlc } as f64;
        let spread = 1.0 + self.read_spread * (2.0 * self.rng.f64() - 1.0);
        let start = now.max(self.die_free[die]);
        let sensed = start + (nominal * spread * slow) as Ps;
        self.die_free[die] = sensed;
        meter.pulse(start, sensed, self.die_read_w / slow);
        self.transfer(sensed, channel, units, slow, meter)
    }

    fn transfer(&mut self, at: Ps, channel: usize, units: u64, slow: f64, meter: &mut Meter) -> Ps {
        let start = at.max(self.channel_free[channel]);
        let end = start + (self.unit_transfer as f64 * units as f64 * slow) as Ps;
        self.channel_free[channel] = end;
        meter.pulse(start, end, self.channel_w / slow);
        end
    }

    fn stripe(&self, page: u64) -> (usize, usize) {
        let die = page % self.dies;
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

    /// Units in the buffer, on their way in, waiting or being programmed.
    pub fn buffered(&self) -> u64 {
        self.buffered
    }

    /// A unit of new data is in the buffer. A full multi-plane page is programmed at once.
    pub fn write(&mut self, now: Ps, unit: u64, slow: f64, meter: &mut Meter) -> Option<Program> {
        let stripe_units = self.planes * self.units_per_page;
        if self.open == 0 {
            self.opened = now;
        }
        let slc = self.slc_used < self.slc_units;
        let die = self.next_page % self.dies;
        let page = die + self.dies * (self.next_page / self.dies * self.planes + self.open / self.units_per_page);
        let page = (page % (1 << 30)) as u32; // page numbers are reused: only their die and their equality matter
        if matches!(self.map.put(unit, Place { page, slc }), Entry::At(old) if old.slc) {
            self.slc_used -= 1;
        }
        self.slc_used += u64::from(slc);
        self.open += 1;
        (self.open == stripe_units).then(|| self.program(now, slow, meter))
    }

    /// When a partly filled page is programmed for want of more data.
    pub fn next_flush_ps(&self) -> Option<Ps> {
        (self.open > 0).then(|| self.opened + self.flush_idle)
    }

    /// Programs what is waiting for its page to fill.
    pub fn flush(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Option<Program> {
        (self.open > 0).then(|| self.program(now, slow, meter))
    }

    /// When everything handed to the dies so far is programmed.
    pub fn programmed_ps(&self) -> Ps {
        self.die_free.iter().copied().max().unwrap_or(0)
    }

    fn program(&mut self, now: Ps, slow: f64, meter: &mut Meter) -> Program {
        let (channel, die) = self.stripe(self.next_page);
        let units = std::mem::take(&mut self.open);
        self.next_page += 1;
        // The cache register takes the next page while the array still programs the last: transfer first, then wait.
        let ready = self.transfer(now, channel, units, slow, meter);
        let start = ready.max(self.die_free[die]);
        let time = if self.slc_used < self.slc_units { self.program_slc } else { self.program_full };
        let end = start + (time as f64 * slow) as Ps;
        self.die_free[die] = end;
        meter.pulse(start, end, self.die_program_w / slow);
        Program { end, units }
    }

    /// Units `first .. first + count` hold nothing any more.
    pub fn deallocate(&mut self, first: u64, count: u64) {
        self.slc_used -= self.map.remove(first, count);
    }
}
