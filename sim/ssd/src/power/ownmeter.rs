//! The drive's own power meter (NVM Express Base Specification 2.3, 8.1.19): intervals of one second, measurements that collect them, and
//! fields of the SMART / Health log.
//!
//! The intervals follow each other from the time when the supply is there, whatever the host asks for. A measurement collects those that
//! begin while it runs. Their energy comes from the account, which agrees with the rail. The profile adds the meter's faults.

use crate::profile::{ps, OwnMeterFacts, Profile, Ps, S as SECOND};
use std::collections::VecDeque;

/// Length of an interval.
const INTERVAL: Ps = SECOND;
const MINUTE: Ps = 60 * SECOND;
/// Longest time that a host may ask for (MSMT), in minutes.
pub const LONGEST_MIN: u16 = 1440;
/// Width of a bin of the histogram in milliwatt, and in units of 0.1 mW.
const BIN_MW: u16 = 250;
const BIN: u64 = BIN_MW as u64 * 10;
/// Bytes of the log page before its descriptors, and of a descriptor.
const HEAD_BYTES: usize = 64;
const DESCRIPTOR_BYTES: usize = 8;
/// A watt-hour in units of 0.1 mJ.
const WATT_HOUR: u128 = 36_000_000;

/// A power in units of 0.1 mW, as the meter reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading(u64);

impl Reading {
    fn of_watt(watt: f64) -> Self {
        Self((watt * 1e4).round().max(0.0) as u64)
    }

    /// The power in units of 0.1 mW.
    pub fn tenth_mw(self) -> u64 {
        self.0
    }

    /// Value in bits 15:0, and scale in bits 17:16: 1 is 0.0001 W, 2 is 0.01 W. The finer scale is used where it reaches.
    pub fn field(self) -> u32 {
        match self.0 {
            fine @ 0..=0xFFFF => 1 << 16 | fine as u32,
            more => 2 << 16 | (more.saturating_add(50) / 100).min(0xFFFF) as u32,
        }
    }
}

/// An interval: when it ended, when the meter takes it up, and its power.
#[derive(Debug, Clone, Copy)]
struct Interval {
    due: Ps,
    reading: Reading,
}

/// Results of a measurement so far.
#[derive(Debug, Clone, Default)]
struct Collected {
    generation: u8,
    /// When it began, while it runs.
    since: Option<Ps>,
    /// When it stops by itself.
    until: Option<Ps>,
    /// Time stamp of its stop.
    stopped_stamp: u64,
    /// Intervals that came, and those that were counted.
    came: u32,
    count: u32,
    gaps: bool,
    sum: u128,
    largest: Option<(Reading, u64)>,
    bins: Vec<u32>,
    above: u32,
}

/// The meter.
pub struct OwnMeter {
    facts: OwnMeterFacts,
    lag: Ps,
    /// End of the present interval, while there is a supply.
    ends: Option<Ps>,
    /// Reading of the energy account at its begin, in joule.
    begun_j: f64,
    /// Intervals that are over and were not taken up yet.
    late: VecDeque<Interval>,
    latest: Option<Reading>,
    /// Energy of all intervals, in units of 0.1 mJ.
    lifetime: u128,
    collected: Collected,
}

impl OwnMeter {
    /// The meter of a profile; `None` where nothing that the drive offers needs one.
    pub fn of(profile: &Profile) -> Option<Self> {
        let facts = profile.own_meter_facts();
        profile.offer.measures_power().then(|| Self {
            lag: ps(*facts.lag_s, SECOND),
            facts,
            ends: None,
            begun_j: 0.0,
            late: VecDeque::new(),
            latest: None,
            lifetime: 0,
            collected: Collected::default(),
        })
    }

    /// The supply is there from `now` on; `energy_j` is the account's sum.
    pub fn supply_on(&mut self, now: Ps, energy_j: f64) {
        (self.ends, self.begun_j) = (Some(now + INTERVAL), energy_j);
    }

    /// The supply is gone: the present interval and those not taken up yet are lost.
    pub fn supply_off(&mut self) {
        self.ends = None;
        self.late.clear();
        self.collected.gaps |= self.collected.since.is_some();
    }

    /// When [`OwnMeter::step`] has something to do.
    #[inline]
    pub fn next_ps(&self) -> Option<Ps> {
        let late = self.late.front().map(|interval| interval.due);
        [self.ends, late, self.collected.until].into_iter().flatten().min()
    }

    /// Ends intervals and measurements that are due at `now`. `energy_j` is the account's sum at `now`, and `stamp` the drive's time stamp of `now`.
    /// Returns the reading that the meter took up, if any.
    pub fn step(&mut self, now: Ps, energy_j: f64, stamp: u64) -> Option<Reading> {
        let mut taken = None;
        if self.ends.is_some_and(|end| end <= now) {
            let watt = (energy_j - self.begun_j) / (INTERVAL as f64 * 1e-12);
            let read_w = *self.facts.gain * watt + *self.facts.offset_w;
            self.late.push_back(Interval { due: now + self.lag, reading: Reading::of_watt(read_w) });
            (self.ends, self.begun_j) = (Some(now + INTERVAL), energy_j);
        }
        while let Some(interval) = self.late.front().copied().filter(|interval| interval.due <= now) {
            self.late.pop_front();
            self.take_up(interval, stamp);
            taken = Some(interval.reading);
        }
        if self.collected.until.is_some_and(|end| end <= now) {
            self.stop(stamp);
        }
        taken
    }

    fn take_up(&mut self, interval: Interval, stamp: u64) {
        let reading = interval.reading;
        self.latest = Some(reading);
        self.lifetime += u128::from(reading.0);
        let log = &mut self.collected;
        if log.since.is_none_or(|begin| interval.due < begin + INTERVAL) {
            return; // no measurement runs, or it did not when the interval began
        }
        log.came += 1;
        if self.facts.dropped_s.contains(&log.came) {
            log.gaps |= *self.facts.tells_gaps;
            return;
        }
        log.count = log.count.saturating_add(1);
        log.sum += u128::from(reading.0);
        if log.largest.is_none_or(|(largest, _)| reading > largest) {
            log.largest = Some((reading, stamp));
        }
        let place = (reading.0 / BIN) as usize;
        if place as u64 >= *self.facts.bins {
            log.above = log.above.saturating_add(1);
            return;
        }
        if place >= log.bins.len() {
            log.bins.resize(place + 1, 0);
        }
        log.bins[place] = log.bins[place].saturating_add(1);
    }

    /// Set Features 25h, Start Power Measurements, for `minutes`; 0: until the host stops it.
    pub fn start(&mut self, now: Ps, minutes: u16) {
        self.collected = Collected {
            generation: self.collected.generation.wrapping_add(1),
            since: Some(now),
            until: (minutes > 0).then_some(now + u64::from(minutes) * MINUTE),
            ..Collected::default()
        };
    }

    /// Set Features 25h, Stop Power Measurements, at the drive's time stamp `stamp`. It is no error where nothing runs.
    pub fn stop(&mut self, stamp: u64) {
        if self.collected.since.take().is_some() {
            (self.collected.until, self.collected.stopped_stamp) = (None, stamp);
        }
    }

    /// Minutes until the measurement stops, begun ones counted as whole; 0: no time was given.
    fn remaining_min(&self, now: Ps) -> u16 {
        self.collected.until.map_or(0, |end| end.saturating_sub(now).div_ceil(MINUTE) as u16)
    }

    /// DW0 of Get Features 25h: SMTR, PMGN, PME.
    pub fn state(&self, now: Ps) -> u32 {
        let log = &self.collected;
        u32::from(self.remaining_min(now)) << 16 | u32::from(log.generation) << 8 | u32::from(log.since.is_some())
    }

    /// Operational Lifetime Energy Consumed in watt-hours, rounded up, and Interval Power Measurement; 0: not reported yet.
    pub fn health(&self) -> (u64, u32) {
        (self.lifetime.div_ceil(WATT_HOUR) as u64, self.latest.map_or(0, Reading::field))
    }

    /// Power Measurement, log page 25h.
    pub fn page(&self, now: Ps) -> Vec<u8> {
        let log = &self.collected;
        let running = log.since.is_some();
        let mut d = vec![0; HEAD_BYTES + DESCRIPTOR_BYTES * log.bins.len()];
        let mut put = |at: usize, bytes: &[u8]| d[at..at + bytes.len()].copy_from_slice(bytes);
        const STAMPS_LARGEST: u16 = 1 << 3;
        let gaps = u16::from(log.gaps && log.count > 0) << 1;
        let overflow = u16::from(log.above > 0 && *self.facts.bins > 0) << 4;
        put(1, &[log.generation]);
        put(2, &(u16::from(running) | gaps | STAMPS_LARGEST | overflow).to_le_bytes()); // PMA; type 0, the whole subsystem
        put(4, &((HEAD_BYTES + DESCRIPTOR_BYTES * log.bins.len()) as u32).to_le_bytes()); // SZE
        put(8, &log.count.to_le_bytes()); // PMC
        put(12, &(log.bins.len() as u16).to_le_bytes()); // NPHD
        put(14, &self.remaining_min(now).to_le_bytes()); // SMTR
        put(16, &log.stopped_stamp.to_le_bytes()); // SMTS
        put(24, &(DESCRIPTOR_BYTES as u16).to_le_bytes()); // PHDS
        put(26, &BIN_MW.to_le_bytes()); // PHBS
        put(28, &(*self.facts.bins as u16).to_le_bytes()); // NPHDS
        put(32, &if overflow > 0 { log.above } else { 0 }.to_le_bytes()); // PHDOC
        if let Some((largest, stamp)) = log.largest {
            let mean = (log.sum + u128::from(log.count / 2)) / u128::from(log.count);
            put(40, &Reading(mean as u64).field().to_le_bytes()); // AIPWR
            put(44, &largest.field().to_le_bytes()); // MIPWR
            put(48, &stamp.to_le_bytes()); // MIPWRT
        }
        put(56, &[*self.facts.claimed_error_percent]); // IPWPE
        for (bin, count) in log.bins.iter().enumerate() {
            let at = HEAD_BYTES + DESCRIPTOR_BYTES * bin;
            put(at, &count.to_le_bytes());
            put(at + 4, &Reading(bin as u64 * BIN).field().to_le_bytes());
        }
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::MS;

    fn meter(change: impl FnOnce(&mut OwnMeterFacts)) -> OwnMeter {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        profile.offer.power_measurement.value = true;
        let mut facts = OwnMeterFacts::default();
        change(&mut facts);
        profile.own_meter = Some(facts);
        let mut meter = OwnMeter::of(&profile).unwrap();
        meter.supply_on(0, 0.0);
        meter
    }

    /// Lets seconds of these powers pass from `from` seconds on, after `before_j`; the drive's stamp counts milliseconds.
    fn pass(meter: &mut OwnMeter, from: u64, before_j: f64, watts: &[f64]) {
        let mut sum = before_j;
        let end = (from + watts.len() as u64) * SECOND;
        let mut seconds = (from + 1..).zip(watts);
        while let Some(now) = meter.next_ps().filter(|&at| at <= end) {
            if now % SECOND == 0 {
                sum += seconds.next().unwrap().1;
            }
            meter.step(now, sum, now / MS);
        }
    }

    fn word(d: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(d[at..at + 4].try_into().unwrap())
    }

    fn short(d: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(d[at..at + 2].try_into().unwrap())
    }

    #[test]
    fn a_power_has_the_finer_scale_as_far_as_it_reaches() {
        let fields = [1.2345, 6.5535, 6.5536, 25.0, 0.0, -3.0].map(|watt| Reading::of_watt(watt).field());
        assert_eq!(fields, [0x1_3039, 0x1_FFFF, 0x2_028F, 0x2_09C4, 0x1_0000, 0x1_0000]);
    }

    /// Three seconds of 1, 0.2 and 3 W; the second in which the measurement begins does not count. Addresses are the specification's.
    #[test]
    fn the_page_of_three_known_seconds() {
        let mut m = meter(|_| {});
        assert_eq!((m.page(0).len(), word(&m.page(0), 4), short(&m.page(0), 12), m.state(0)), (64, 64, 0, 0));
        m.start(SECOND / 2, 0);
        pass(&mut m, 0, 0.0, &[9.0, 1.0, 0.2, 3.0]);
        let running = m.page(4 * SECOND);
        assert_eq!((short(&running, 2), &running[16..24], m.state(4 * SECOND)), (0x0009, &[0; 8][..], 0x0000_0101));
        m.stop(4250);
        let d = m.page(5 * SECOND);
        assert_eq!((d[0], d[1], short(&d, 2), d.len()), (0, 1, 0x0008, 168));
        assert_eq!((word(&d, 4), word(&d, 8), short(&d, 12), short(&d, 14)), (168, 3, 13, 0));
        assert_eq!((word(&d, 16), short(&d, 24), short(&d, 26), short(&d, 28)), (4250, 8, 250, 64));
        assert_eq!((short(&d, 30), word(&d, 32), word(&d, 36)), (0, 0, 0));
        assert_eq!((word(&d, 40), word(&d, 44), word(&d, 48), d[56]), (0x1_36B0, 0x1_7530, 4000, 5));
        let bins: Vec<_> = (0..13).map(|bin| (word(&d, 64 + 8 * bin), word(&d, 68 + 8 * bin))).collect();
        let counts: Vec<u32> = bins.iter().map(|bin| bin.0).collect();
        assert_eq!(counts, [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((bins[0].1, bins[1].1, bins[12].1), (0x1_0000, 0x1_09C4, 0x1_7530)); // 0, 0.25 and 3 W
        assert_eq!(m.state(5 * SECOND), 0x0000_0100);
        m.start(5 * SECOND, 0);
        let again = m.page(5 * SECOND);
        assert_eq!((again[1], again.len(), word(&again, 8), word(&again, 16), word(&again, 40)), (2, 64, 0, 0, 0));
    }

    #[test]
    fn an_edge_belongs_to_the_bin_above_it_and_powers_beyond_the_last_bin_are_counted_apart() {
        let mut m = meter(|facts| facts.bins.value = 4);
        m.start(0, 0);
        pass(&mut m, 0, 0.0, &[0.2499, 0.25, 0.75, 1.0, 40.0]);
        let d = m.page(6 * SECOND);
        let counts: Vec<u32> = (0..4).map(|bin| word(&d, 64 + 8 * bin)).collect();
        assert_eq!((short(&d, 2), short(&d, 12), counts, word(&d, 32)), (0x0019, 4, vec![1, 1, 0, 1], 2));
        assert_eq!((word(&d, 8), word(&d, 44)), (5, 0x2_0FA0));
        let mut none = meter(|facts| facts.bins.value = 0);
        none.start(0, 0);
        pass(&mut none, 0, 0.0, &[1.0]);
        let d = none.page(SECOND);
        assert_eq!((d.len(), short(&d, 2), short(&d, 12), short(&d, 28), word(&d, 32)), (64, 0x0009, 0, 0, 0));
    }

    #[test]
    fn gain_and_offset_are_in_all_that_the_drive_reports() {
        let mut m = meter(|facts| (facts.gain.value, facts.offset_w.value) = (1.15, 0.05));
        m.start(0, 0);
        pass(&mut m, 0, 0.0, &[2.0, 2.0]);
        let d = m.page(2 * SECOND);
        assert_eq!((word(&d, 40), word(&d, 44), m.health().1), (0x1_5BCC, 0x1_5BCC, 0x1_5BCC));
        // 2.35 W
    }

    #[test]
    fn a_lagging_meter_counts_an_earlier_second_and_stamps_it_late() {
        let mut m = meter(|facts| facts.lag_s.value = 0.5);
        m.start(SECOND / 2, 0);
        pass(&mut m, 0, 0.0, &[5.0, 1.0, 2.0]);
        let d = m.page(3 * SECOND);
        assert_eq!((word(&d, 8), word(&d, 44), word(&d, 48)), (2, 0x1_C350, 1500));
        // 5 W, of the second before the start
    }

    #[test]
    fn a_dropped_second_is_told_or_not() {
        for (tells, attributes) in [(true, 0x000B), (false, 0x0009)] {
            let mut m = meter(|facts| (facts.dropped_s.value, facts.tells_gaps.value) = (vec![2], tells));
            m.start(0, 0);
            pass(&mut m, 0, 0.0, &[1.0, 6.0, 3.0]);
            let d = m.page(3 * SECOND);
            assert_eq!((short(&d, 2), word(&d, 8), word(&d, 40), word(&d, 44)), (attributes, 2, 0x1_4E20, 0x1_7530));
            assert_eq!(m.lifetime, 100_000, "10 J: the energy has it");
        }
    }

    #[test]
    fn a_measurement_stops_when_its_time_is_over() {
        let mut m = meter(|_| {});
        m.start(SECOND / 2, 2);
        let remaining = |m: &OwnMeter, now: Ps| (m.state(now) >> 16, short(&m.page(now), 14));
        assert_eq!((remaining(&m, SECOND), remaining(&m, 61 * SECOND)), ((2, 2), (1, 1)));
        pass(&mut m, 0, 0.0, &[1.0; 130]);
        let d = m.page(130 * SECOND);
        assert_eq!((short(&d, 2), word(&d, 8), word(&d, 16), short(&d, 14)), (0x0008, 119, 120_500, 0));
    }

    #[test]
    fn a_lost_supply_leaves_a_gap() {
        let mut m = meter(|_| {});
        m.start(0, 0);
        pass(&mut m, 0, 0.0, &[1.0]);
        m.supply_off();
        assert_eq!(m.next_ps(), None);
        m.supply_on(10 * SECOND, 1.4);
        pass(&mut m, 10, 1.4, &[2.0]);
        let d = m.page(11 * SECOND);
        assert_eq!((short(&d, 2), word(&d, 8), word(&d, 40)), (0x000B, 2, 0x1_3A98));
    }

    #[test]
    fn the_lifetime_is_rounded_up_to_watt_hours() {
        let mut m = meter(|_| {});
        assert_eq!(m.health(), (0, 0));
        pass(&mut m, 0, 0.0, &[4.0; 900]);
        assert_eq!(m.health(), (1, 0x1_9C40)); // 3600 J
        pass(&mut m, 900, 3600.0, &[0.1]);
        assert_eq!(m.health(), (2, 0x1_03E8));
    }

    #[test]
    fn the_generation_rolls_over() {
        let mut m = meter(|_| {});
        (0..257).for_each(|_| m.start(0, 0));
        assert_eq!(m.page(0)[1], 1);
    }
}
