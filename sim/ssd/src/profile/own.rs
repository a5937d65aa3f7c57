//! The drive's own accounts of its power and its latencies: the tables `[own_meter]` and `[own_monitor]` of a profile.
//!
//! A profile may leave out a table, or any entry. The defaults describe a drive without faults.

use super::fact::{Fact, Int, Num};
use super::offer::{assumed, Offer};
use serde::{Deserialize, Serialize};

/// Most bins of the histogram: they reach 256 W.
const MOST_BINS: u64 = 1024;
/// Largest factor, largest offset in watt, and largest lag in seconds that a meter may have.
const MOST: (f64, f64, f64) = (10.0, 100.0, 60.0);
/// Units of Interval Power Measurement Sample Rate (IPMSR) in microseconds, by its scale from 1 on.
const SAMPLE_UNITS_US: [u64; 5] = [1, 10, 100, 1000, 10_000];
/// The value of `claimed_error_percent` for a drive that claims none.
const NO_CLAIM: u8 = 255;

/// The drive's power meter, and its faults.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnMeterFacts {
    /// Factor of every reading.
    pub gain: Num,
    /// Power that every reading has too much, in watt.
    pub offset_w: Num,
    /// From the end of an interval until the meter takes it up, in seconds: stamps, counts and events are late by that.
    pub lag_s: Num,
    /// Intervals that a measurement leaves out, by their number from 1.
    pub dropped_s: Fact<Vec<u32>>,
    /// Whether the log page then says that its intervals are not contiguous.
    pub tells_gaps: Fact<bool>,
    /// Largest error that the drive claims, in percent; 255: none.
    pub claimed_error_percent: Fact<u8>,
    /// Interval between samples that the drive declares, in microseconds.
    pub sample_us: Int,
    /// Bins of 250 mW that the histogram may have; 0: no histogram.
    pub bins: Int,
}

impl Default for OwnMeterFacts {
    fn default() -> Self {
        Self {
            gain: assumed(1.0),
            offset_w: assumed(0.0),
            lag_s: assumed(0.0),
            dropped_s: assumed(Vec::new()),
            tells_gaps: assumed(true),
            claimed_error_percent: assumed(5),
            sample_us: assumed(1000),
            bins: assumed(64),
        }
    }
}

impl OwnMeterFacts {
    /// Checks the table's conditions.
    fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: String| if ok { Ok(()) } else { Err(format!("own_meter.{what}")) };
        let (gain, offset_w, lag_s) = MOST;
        must((0.0..=gain).contains(&*self.gain), format!("gain must be 0 to {gain}"))?;
        must((-offset_w..=offset_w).contains(&*self.offset_w), format!("offset_w must be -{offset_w} to {offset_w}"))?;
        must((0.0..=lag_s).contains(&*self.lag_s), format!("lag_s must be 0 to {lag_s}"))?;
        must(!self.dropped_s.contains(&0), "dropped_s must hold numbers from 1 on".into())?;
        let percent = *self.claimed_error_percent;
        must(percent <= 100 || percent == NO_CLAIM, format!("claimed_error_percent must be 0 to 100, or {NO_CLAIM}"))?;
        must(self.sample_rate().is_some(), "sample_us must be 1 to 255 times 1, 10, 100, 1000 or 10000".into())?;
        must(*self.bins <= MOST_BINS, format!("bins must be at most {MOST_BINS}"))
    }

    /// Scale and value of IPMSR. `None`: no scale can express the interval.
    pub fn sample_rate(&self) -> Option<(u8, u8)> {
        let us = *self.sample_us;
        let fits = |unit: u64| us > 0 && us % unit == 0 && us / unit <= 255;
        let place = SAMPLE_UNITS_US.iter().position(|&unit| fits(unit))?;
        Some((place as u8 + 1, (us / SAMPLE_UNITS_US[place]) as u8))
    }
}

/// The drive's latency monitor, and its faults.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnMonitorFacts {
    /// Commands that each counter has too many, from its first command on.
    pub extra: Fact<u32>,
    /// Whether a bucket's last command sets its time stamp, and not the command with the reported latency.
    pub stamps_last: Fact<bool>,
}

impl Default for OwnMonitorFacts {
    fn default() -> Self {
        Self { extra: assumed(0), stamps_last: assumed(false) }
    }
}

/// Checks both tables, and that the drive offers the functions that they are about.
pub fn check(offer: &Offer, meter: Option<&OwnMeterFacts>, monitor: Option<&OwnMonitorFacts>) -> Result<(), String> {
    if let Some(meter) = meter {
        if !offer.measures_power() {
            return Err("[own_meter] needs offer.power_measurement, power_threshold or smart_power = true".into());
        }
        meter.check()?;
    }
    if monitor.is_some() && !*offer.latency_monitor {
        return Err("[own_monitor] needs offer.latency_monitor = true".into());
    }
    Ok(())
}
