//! The options by which a job searches for a depth (`latency_target`) or ends when it is steady (`steadystate`).

use super::job::{LatencyTarget, SteadyFigure, SteadyState};
use super::refusal::{refuse, Refusal};
use super::units::{flag, size, time_us};

const SECOND_US: u64 = 1_000_000;

/// Both, while the options of a job are read.
pub struct Targets {
    target_us: u64,
    window_us: u64,
    percentile: f64,
    run: bool,
    steady: Option<SteadyState>,
    steady_us: u64,
    ramp_us: u64,
    interval_us: u64,
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            target_us: 0,
            window_us: 0,
            percentile: 100.0,
            run: false,
            steady: None,
            steady_us: 0,
            ramp_us: 0,
            interval_us: SECOND_US,
        }
    }
}

impl Targets {
    /// Whether an option is one of these.
    pub fn takes(&self, key: &str) -> bool {
        matches!(key, "latency_target" | "latency_window" | "latency_percentile" | "latency_run" | "ss" | "ss_dur")
            || matches!(key, "ss_ramp" | "ss_interval" | "steadystate" | "steadystate_duration")
            || matches!(key, "steadystate_ramp_time" | "steadystate_check_interval")
    }

    /// Takes an option up.
    pub fn option(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "latency_target" => self.target_us = time_us(text, 1)?,
            "latency_window" => self.window_us = time_us(text, 1)?,
            "latency_percentile" => {
                self.percentile = float(text)?;
                if !(0.0..=100.0).contains(&self.percentile) {
                    return Err(format!("`{text}` is not 0 to 100"));
                }
            }
            "latency_run" => self.run = flag(Some(text))?,
            "steadystate" | "ss" => self.steady = steady(text)?,
            "steadystate_duration" | "ss_dur" => self.steady_us = time_us(text, SECOND_US)?,
            "steadystate_ramp_time" | "ss_ramp" => self.ramp_us = time_us(text, SECOND_US)?,
            _ => self.interval_us = time_us(text, SECOND_US)?,
        }
        Ok(())
    }

    /// Returns the targets that the job pursues. Adds an option that does nothing to `without_effect`.
    pub fn finish(
        &self,
        without_effect: &mut Vec<String>,
    ) -> Result<(Option<LatencyTarget>, Option<SteadyState>), Refusal> {
        let latency = (self.target_us > 0).then_some(LatencyTarget {
            target_ns: self.target_us * 1000,
            window_us: self.window_us,
            percentile: self.percentile,
            run: self.run,
        });
        let Some(steady) = &self.steady else { return Ok((latency, None)) };
        if self.steady_us == 0 {
            // fio's default of the duration is 0, which switches the detection off.
            without_effect.push("steadystate".into());
            return Ok((latency, None));
        }
        if self.interval_us < SECOND_US {
            let names = &["steadystate_check_interval", "ss_interval"];
            return refuse(names, "steadystate_check_interval must be at least 1 s");
        }
        if self.steady_us % self.interval_us != 0 || self.steady_us <= self.interval_us {
            let names = &["steadystate_duration", "ss_dur", "steadystate_check_interval", "ss_interval"];
            return refuse(names, "steadystate_duration must be a multiple of steadystate_check_interval, and longer");
        }
        let (window_us, ramp_us, interval_us) = (self.steady_us, self.ramp_us, self.interval_us);
        Ok((latency, Some(SteadyState { window_us, ramp_us, interval_us, ..steady.clone() })))
    }
}

/// `iops:10%`, `bw_slope:1m`, `lat:20us`; `None` for `0`.
fn steady(text: &str) -> Result<Option<SteadyState>, String> {
    if text == "0" {
        return Ok(None);
    }
    let (word, limit) = text.split_once(':').ok_or_else(|| format!("`{text}` has no limit: iops:2%"))?;
    let (figure, slope) = match word {
        "iops" => (SteadyFigure::Iops, false),
        "iops_slope" => (SteadyFigure::Iops, true),
        "bw" => (SteadyFigure::Bandwidth, false),
        "bw_slope" => (SteadyFigure::Bandwidth, true),
        "lat" => (SteadyFigure::Latency, false),
        "lat_slope" => (SteadyFigure::Latency, true),
        _ => return Err(format!("`{word}` is none of iops, bw, lat, iops_slope, bw_slope, lat_slope")),
    };
    let (limit, percent) = match (limit.strip_suffix('%'), figure) {
        (Some(share), _) => (float(share)?, true),
        (None, SteadyFigure::Iops) => (float(limit)?, false),
        (None, SteadyFigure::Bandwidth) => (size(limit)? as f64, false),
        (None, SteadyFigure::Latency) => (time_us(limit, 1)? as f64 * 1e3, false),
    };
    if limit < 0.0 {
        return Err(format!("`{text}`: the limit is below 0"));
    }
    let text = text.to_string();
    Ok(Some(SteadyState { text, figure, slope, percent, limit, window_us: 0, ramp_us: 0, interval_us: 0 }))
}

fn float(text: &str) -> Result<f64, String> {
    text.trim().parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| format!("`{text}` is not a number"))
}
