//! The drive's own latency monitor: feature C5h and log page C3h of the OCP Datacenter NVMe SSD Specification 2.0 (4.8.8, 4.8.9, 4.12.10,
//! appendix C).
//!
//! A latency is the time from the fetch of a command's entry to the writing of its CQE. Public text of the specification lacks the order of
//! counters and stamps; the order here is the one in which nvme-cli's plugin `ocp` reads them.

use crate::nvme::{io, Status};
use crate::profile::{OwnMonitorFacts, Profile, Ps, MS, S as SECOND};

/// Bytes of the structure of Set Features.
pub const CONFIGURATION_BYTES: u32 = 4096;
const PAGE_BYTES: usize = 512;
const BUCKETS: usize = 4;
const KINDS: usize = 3;
/// Unit of a threshold, which counts from one unit on.
const STEP: Ps = 5 * MS;
/// Unit of the minimum window.
const WINDOW_STEP: Ps = 100 * MS;
/// Unit of the active bucket timer.
const TIMER_STEP: Ps = 300 * SECOND;
const NO_STAMP: u64 = u64::MAX;
/// Mode 1 and measured latencies are supported (bits 1 and 2 of the feature status).
const SUPPORTS: u8 = 0x06;
const VERSION: u16 = 1;
const GUID: u128 = 0x85D4_5E58_D4E6_4370_9C6C_84D0_8CC0_7A92;

/// The kinds of commands that have counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Dataset Management with its attribute to deallocate.
    Deallocate,
}

impl Kind {
    /// The kind of an I/O command; `None`: it has no counter.
    #[inline]
    pub fn of(opcode: u8, deallocates: bool) -> Option<Self> {
        match opcode {
            io::READ => Some(Self::Read),
            io::WRITE => Some(Self::Write),
            io::DSM if deallocates => Some(Self::Deallocate),
            _ => None,
        }
    }
}

/// A command that is over.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// Its kind.
    pub kind: Kind,
    /// Its entry was fetched then.
    pub fetch: Ps,
    /// Its CQE was written then.
    pub cqe: Ps,
    /// The drive's time at its CQE in milliseconds, and whether the host has set that clock.
    pub stamp: (u64, bool),
}

/// Settings of the host.
#[derive(Debug, Clone, Copy)]
struct Configuration {
    timer: u16,
    thresholds: [u8; BUCKETS],
    /// Mode by bucket and kind, three bits a bucket: 1 reports the largest latency, 0 the first.
    largest: u16,
    window: u8,
    enabled: bool,
}

/// The defaults of nvme-cli's plugin: a week, and 30, 100, 155 and 235 ms. The monitor is on (LMDATA-1, factory default 07h).
const FACTORY: Configuration =
    Configuration { timer: 0x7E0, thresholds: [0x05, 0x13, 0x1E, 0x2E], largest: 0xFFF, window: 10, enabled: true };

/// A counter with the latency and the stamp of one of its commands.
#[derive(Debug, Clone, Copy)]
struct Entry {
    count: u32,
    latency: Ps,
    stamp: (u64, bool),
    /// When latency and stamp were set.
    set_at: Option<Ps>,
}

const EMPTY: Entry = Entry { count: 0, latency: 0, stamp: (NO_STAMP, false), set_at: None };
type Buckets = [[Entry; KINDS]; BUCKETS];

/// The monitor.
#[derive(Debug)]
pub struct LatencyMonitor {
    facts: OwnMonitorFacts,
    configuration: Configuration,
    active: Buckets,
    moved: Buckets,
    /// Since when the active buckets count.
    since: Ps,
}

impl LatencyMonitor {
    /// The monitor of a profile, as it comes; `None` if the drive has none.
    pub fn of(profile: &Profile) -> Option<Self> {
        profile.offer.latency_monitor.then(|| Self {
            facts: profile.own_monitor.clone().unwrap_or_default(),
            configuration: FACTORY,
            active: [[EMPTY; KINDS]; BUCKETS],
            moved: [[EMPTY; KINDS]; BUCKETS],
            since: 0,
        })
    }

    /// Set Features C5h: takes the host's structure and clears all buckets. There is no debug log, so a trigger for it is refused.
    pub fn configure(&mut self, now: Ps, d: &[u8]) -> Result<(), Status> {
        let (debug_trigger, discard, enable) = (u16::from_le_bytes([d[9], d[10]]), d[11], d[12]);
        if discard == 2 {
            return Ok(()); // only the debug log is discarded: no other field is valid
        }
        let thresholds = [d[2], d[3], d[4], d[5]];
        let ascending = thresholds.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || debug_trigger != 0 || discard > 2 || enable > 1 {
            return Err(Status::INVALID_FIELD);
        }
        self.configuration = Configuration {
            timer: u16::from_le_bytes([d[0], d[1]]),
            thresholds,
            largest: u16::from_le_bytes([d[6], d[7]]),
            window: d[8],
            enabled: enable == 1,
        };
        (self.active, self.moved, self.since) = ([[EMPTY; KINDS]; BUCKETS], [[EMPTY; KINDS]; BUCKETS], now);
        Ok(())
    }

    /// Counts a command.
    #[inline]
    pub fn served(&mut self, command: &Served) {
        let latency = command.cqe.saturating_sub(command.fetch);
        if self.configuration.enabled && latency >= threshold(self.configuration.thresholds[0]) {
            self.count(command, latency);
        }
    }

    fn count(&mut self, command: &Served, latency: Ps) {
        self.turn(command.cqe);
        let c = &self.configuration;
        let bucket = c.thresholds.iter().take_while(|&&code| latency >= threshold(code)).count() - 1;
        let largest = c.largest >> (KINDS * bucket + command.kind as usize) & 1 == 1;
        let entry = &mut self.active[bucket][command.kind as usize];
        let first = entry.count == 0;
        let more = if first { 1u32.saturating_add(*self.facts.extra) } else { 1 };
        entry.count = entry.count.saturating_add(more);
        let window = u64::from(c.window) * WINDOW_STEP;
        let free = entry.set_at.is_none_or(|at| command.cqe >= at + window);
        if first || largest && latency > entry.latency && free {
            (entry.latency, entry.stamp, entry.set_at) = (latency, command.stamp, Some(command.cqe));
        } else if *self.facts.stamps_last {
            entry.stamp = command.stamp;
        }
    }

    /// Moves the active buckets if their time is over.
    fn turn(&mut self, now: Ps) {
        let period = u64::from(self.configuration.timer) * TIMER_STEP;
        if period == 0 || !self.configuration.enabled || now < self.since + period {
            return;
        }
        let periods = (now - self.since) / period;
        self.moved = if periods == 1 { self.active } else { [[EMPTY; KINDS]; BUCKETS] };
        (self.active, self.since) = ([[EMPTY; KINDS]; BUCKETS], self.since + periods * period);
    }

    /// Latency Monitor, log page C3h: 512 bytes.
    pub fn page(&mut self, now: Ps) -> Vec<u8> {
        self.turn(now);
        let c = self.configuration;
        let mut d = vec![0; PAGE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| d[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x00, &[SUPPORTS | u8::from(c.enabled)]);
        let timer = (now.saturating_sub(self.since) / TIMER_STEP).min(u64::from(u16::MAX)) as u16;
        put(0x02, &timer.to_le_bytes());
        put(0x04, &c.timer.to_le_bytes());
        put(0x06, &c.thresholds);
        put(0x0A, &c.largest.to_le_bytes());
        put(0x0C, &[c.window]);
        for (at, buckets) in [(0x020, &self.active), (0x0F0, &self.moved)] {
            let mut by_host = 0u16;
            for (place, (bucket, kind)) in places().enumerate() {
                let entry = &buckets[bucket][kind];
                // Counters ascend by bucket; those of a bucket follow a reserved dword in the order deallocate, write, read.
                put(at + 16 * bucket + 4 * (KINDS - kind), &entry.count.to_le_bytes());
                put(at + 0x40 + 8 * place, &entry.stamp.0.to_le_bytes());
                let ms = ((entry.latency + MS / 2) / MS).min(u64::from(u16::MAX)) as u16;
                put(at + 0xA0 + 2 * place, &ms.to_le_bytes());
                by_host |= u16::from(entry.stamp.1) << (KINDS * bucket + kind);
            }
            put(at + 0xB8, &by_host.to_le_bytes());
        }
        put(0x1C4, &NO_STAMP.to_le_bytes()); // of the debug log
        put(0x1EE, &VERSION.to_le_bytes());
        put(0x1F0, &GUID.to_le_bytes());
        d
    }
}

/// The latency from which a threshold counts.
fn threshold(code: u8) -> Ps {
    (u64::from(code) + 1) * STEP
}

/// Buckets and kinds in the order of the page's stamps and latencies: from bucket 3 down, in each from deallocate down.
fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..BUCKETS).rev().flat_map(|bucket| (0..KINDS).rev().map(move |kind| (bucket, kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of 5, 10, 95 and 385 ms.
    const CODES: [u8; 4] = [0, 1, 18, 76];

    fn structure(timer: u16, codes: [u8; 4], modes: u16, window: u8) -> Vec<u8> {
        let mut d = vec![0; 4096];
        d[0..2].copy_from_slice(&timer.to_le_bytes());
        d[2..6].copy_from_slice(&codes);
        d[6..8].copy_from_slice(&modes.to_le_bytes());
        (d[8], d[12]) = (window, 1);
        d
    }

    fn as_it_comes(change: impl FnOnce(&mut OwnMonitorFacts)) -> LatencyMonitor {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        profile.offer.latency_monitor.value = true;
        let mut facts = OwnMonitorFacts::default();
        change(&mut facts);
        profile.own_monitor = Some(facts);
        LatencyMonitor::of(&profile).unwrap()
    }

    fn monitor(timer: u16, codes: [u8; 4], modes: u16, window: u8) -> LatencyMonitor {
        let mut m = as_it_comes(|_| {});
        m.configure(0, &structure(timer, codes, modes, window)).unwrap();
        m
    }

    /// A command of this latency in microseconds that ends `end_ms` after power-on; the host has set no clock.
    fn serve(m: &mut LatencyMonitor, kind: Kind, latency_us: u64, end_ms: u64) {
        let cqe = end_ms * MS;
        m.served(&Served { kind, fetch: cqe - latency_us * MS / 1000, cqe, stamp: (end_ms, false) });
    }

    fn word(d: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(d[at..at + 4].try_into().unwrap())
    }

    fn short(d: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(d[at..at + 2].try_into().unwrap())
    }

    /// Addresses as in nvme-cli's `ssd_latency_monitor_log`: counters [bucket][reserved, trim, write, read] from 20h, stamps
    /// [3 - bucket][trim, write, read] from 60h, latencies likewise from C0h.
    #[test]
    fn a_latency_counts_in_the_bucket_that_begins_at_or_below_it() {
        let mut m = monitor(0, CODES, 0xFFF, 0);
        for latency_us in [4_999, 5_000, 9_999, 10_000, 94_999, 95_000, 384_999, 385_000, 70_000_000] {
            serve(&mut m, Kind::Read, latency_us, 100_000 + latency_us / 1000);
        }
        serve(&mut m, Kind::Write, 12_400, 200_000);
        serve(&mut m, Kind::Deallocate, 500_600, 200_001);
        let d = m.page(300 * SECOND);
        assert_eq!([0x2C, 0x3C, 0x4C, 0x5C].map(|at| word(&d, at)), [2; 4], "reads");
        assert_eq!((word(&d, 0x38), word(&d, 0x54), word(&d, 0x20)), (1, 1, 0));
        let others = (0x20..0x60).step_by(4).map(|at| word(&d, at)).sum::<u32>();
        assert_eq!(others, 10);
        assert_eq!([0xD6, 0xD0, 0xCA, 0xC4].map(|at| short(&d, at)), [10, 95, 385, 65_535], "milliseconds, rounded");
        assert_eq!((short(&d, 0xCE), short(&d, 0xC0)), (12, 501));
        assert_eq!((word(&d, 0xB8), word(&d, 0xA0), word(&d, 0x60)), (100_009, 100_094, 200_001));
        assert_eq!(d[0x68..0x70], [0xFF; 8], "no write in bucket 3");
        assert_eq!(
            (d[0], short(&d, 2), short(&d, 4), &d[6..10], short(&d, 10), d[12]),
            (7, 1, 0, &CODES[..], 0xFFF, 0)
        );
        assert_eq!((short(&d, 0x1EE), d.len(), d[0x1F0], d[0x1FF]), (1, 512, 0x92, 0x85));
    }

    /// Example 1 of appendix C.2.3.6: a window of 5 s, bucket 2 from 40 to 400 ms.
    #[test]
    fn the_largest_waits_for_the_window() {
        let mut m = monitor(0, [1, 3, 7, 79], 0xFFF, 50);
        for (end_ms, latency_ms, reported) in [(500, 50, (50, 500)), (5250, 100, (50, 500)), (6000, 75, (75, 6000))] {
            serve(&mut m, Kind::Read, latency_ms * 1000, end_ms);
            let d = m.page(6 * SECOND);
            assert_eq!((short(&d, 0xCA), word(&d, 0x88)), reported); // [3 - 2][read]
        }
        assert_eq!(word(&m.page(6 * SECOND), 0x4C), 3);
    }

    /// Example 2 of the same.
    #[test]
    fn the_first_stays() {
        let mut m = monitor(0, [1, 3, 7, 79], 0, 50);
        for (end_ms, latency_ms) in [(500, 150), (10_000, 200), (15_000, 75)] {
            serve(&mut m, Kind::Read, latency_ms * 1000, end_ms);
        }
        let d = m.page(15 * SECOND);
        assert_eq!((short(&d, 0xCA), word(&d, 0x88), word(&d, 0x4C)), (150, 500, 3));
    }

    /// Bits as in illumos' `ocp_lat_alc_t`: reads of bucket 1 are bit 3, its writes bit 4.
    #[test]
    fn each_counter_has_its_own_mode() {
        let mut m = monitor(0, CODES, 1 << 4, 0);
        for kind in [Kind::Read, Kind::Write] {
            serve(&mut m, kind, 20_000, 1000);
            serve(&mut m, kind, 30_000, 2000);
        }
        let d = m.page(3 * SECOND);
        assert_eq!((short(&d, 0xD0), short(&d, 0xCE)), (20, 30));
    }

    #[test]
    fn buckets_move_when_their_time_is_over() {
        let mut m = monitor(1, CODES, 0xFFF, 0);
        serve(&mut m, Kind::Write, 20_000, 60_000);
        let counts = |m: &mut LatencyMonitor, s: u64| {
            let d = m.page(s * SECOND);
            (word(&d, 0x38), word(&d, 0x108), short(&d, 0x19E), word(&d, 0x168))
        };
        assert_eq!(counts(&mut m, 299), (1, 0, 0, u32::MAX));
        assert_eq!(counts(&mut m, 300), (0, 1, 20, 60_000));
        serve(&mut m, Kind::Write, 30_000, 310_000);
        assert_eq!(counts(&mut m, 600), (0, 1, 30, 310_000));
        assert_eq!(counts(&mut m, 1200), (0, 0, 0, u32::MAX));
    }

    #[test]
    fn a_clock_that_the_host_has_set_is_told_by_counter() {
        let mut m = monitor(0, CODES, 0xFFF, 0);
        m.served(&Served { kind: Kind::Write, fetch: 0, cqe: 20 * MS, stamp: (1_700_000_000_000, true) });
        serve(&mut m, Kind::Read, 20_000, 50);
        assert_eq!(short(&m.page(SECOND), 0xD8), 1 << 4);
    }

    #[test]
    fn a_configuration_that_makes_no_sense_changes_nothing() {
        let mut m = monitor(0, CODES, 0xFFF, 0);
        serve(&mut m, Kind::Read, 6000, 50);
        let good = structure(7, CODES, 0, 9);
        for (at, value) in [(3, 0), (4, 1), (5, 18), (9, 1), (10, 1), (11, 3), (12, 2)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(m.configure(0, &bad), Err(Status::INVALID_FIELD), "byte {at}");
        }
        let mut discard = structure(7, [9; 4], 0, 9);
        discard[11] = 2;
        assert_eq!(m.configure(0, &discard), Ok(()));
        let d = m.page(SECOND);
        assert_eq!((word(&d, 0x2C), short(&d, 4), d[12]), (1, 0, 0));
        assert_eq!(m.configure(SECOND, &good), Ok(()));
        let d = m.page(SECOND);
        assert_eq!((word(&d, 0x2C), short(&d, 4), d[12]), (0, 7, 9));
    }

    #[test]
    fn it_comes_enabled_with_nvme_clis_defaults_and_can_be_disabled() {
        let mut m = as_it_comes(|_| {});
        let d = m.page(0);
        assert_eq!((d[0], short(&d, 4), &d[6..10], d[12]), (7, 0x7E0, &[5, 0x13, 0x1E, 0x2E][..], 10));
        let mut off = structure(0, CODES, 0, 0);
        off[12] = 0;
        m.configure(0, &off).unwrap();
        serve(&mut m, Kind::Read, 6000, 50);
        assert_eq!((m.page(SECOND)[0], word(&m.page(SECOND), 0x2C)), (6, 0));
    }

    #[test]
    fn its_faults_are_in_the_page() {
        let mut m = as_it_comes(|facts| (facts.extra.value, facts.stamps_last.value) = (1, true));
        m.configure(0, &structure(0, CODES, 0xFFF, 0)).unwrap();
        for (latency_us, end_ms) in [(20_000, 100), (15_000, 200), (12_000, 300)] {
            serve(&mut m, Kind::Read, latency_us, end_ms);
        }
        let d = m.page(SECOND);
        assert_eq!((word(&d, 0x3C), short(&d, 0xD0), word(&d, 0xA0)), (4, 20, 300));
        let mut full = as_it_comes(|facts| facts.extra.value = u32::MAX);
        full.configure(0, &structure(0, CODES, 0xFFF, 0)).unwrap();
        (0..3).for_each(|k| serve(&mut full, Kind::Read, 6000, 50 + k));
        assert_eq!(word(&full.page(SECOND), 0x2C), u32::MAX);
    }
}
