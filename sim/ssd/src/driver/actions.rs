//! The action of a plan's step, and the step's form in the file.

use super::accounts::{threshold_word, LogPage, OwnAccount, RawMonitor};
use crate::fio::{parse_file, parse_text, trace_job, JobFile, Reading};
use crate::profile::LBA;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Idle time of a trace is cut to this, in seconds.
const IDLE_CUT_S: f64 = 0.025;

/// The action of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Runs a job file, or a fill or trace as one.
    Fio(JobFile),
    /// Leaves the drive alone.
    Idle {
        /// For how long, in seconds.
        seconds: f64,
    },
    /// Leaves the drive alone, then reads 4 KiB.
    Wake {
        /// For how long, in seconds.
        seconds: f64,
        /// First block to read.
        slba: u64,
    },
    /// Shuts the drive down and brings it up again, then reads 4 KiB.
    Restart {
        /// Time in seconds for which the supply is off; `None`: the supply stays on, and PERST# alone resets the drive.
        off_s: Option<f64>,
    },
    /// Shuts the drive down, resets its function (FLR), brings it up again, then reads 4 KiB.
    ResetFunction,
    /// Formats a namespace.
    Format {
        /// Which.
        nsid: u32,
        /// Secure erase setting.
        ses: u8,
    },
    /// Sanitizes the drive, with this action code.
    Sanitize(u8),
    /// Works with the drive's own accounts of power and latency.
    Own(OwnAccount),
}

/// Pause of the drive after a group of jobs: so long that the drive was busy for `duty` of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    /// Share of the time, above 0 and at most 1.
    pub duty: f64,
    /// But not longer than this, in seconds.
    pub longest_s: f64,
}

impl Rest {
    /// Seconds of rest after having been busy for `busy_s`.
    pub fn after(self, busy_s: f64) -> f64 {
        (busy_s * (1.0 - self.duty) / self.duty).min(self.longest_s)
    }
}

/// A `[[step]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawStep {
    pub name: Option<String>,
    fio: Option<PathBuf>,
    idle_s: Option<f64>,
    wake: Option<RawWake>,
    restart: Option<RawRestart>,
    reset: Option<String>,
    format: Option<RawFormat>,
    sanitize: Option<String>,
    own_meter: Option<String>,
    own_meter_min: Option<u16>,
    power_threshold_w: Option<f64>,
    latency_monitor: Option<RawMonitor>,
    read_logs: Option<Vec<LogPage>>,
    fill: Option<RawFill>,
    trace: Option<PathBuf>,
    trace_idle_cut_s: Option<f64>,
    duty: Option<f64>,
    duty_idle_max_s: Option<f64>,
    pub measured: Option<bool>,
    pub temperature_c: Option<f64>,
    pub write_cache: Option<bool>,
    #[serde(default)]
    pub apst: bool,
    pub aspm: Option<String>,
    pub ps: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWake {
    idle_s: f64,
    #[serde(default)]
    slba: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRestart {
    off_s: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFormat {
    nsid: u32,
    #[serde(default)]
    ses: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFill {
    #[serde(default = "whole")]
    span: f64,
    #[serde(default = "large")]
    bs: String,
}

fn whole() -> f64 {
    1.0
}

fn large() -> String {
    "128k".into()
}

/// A step's action, and its default name.
pub struct RawAction {
    pub action: Action,
    pub kind: &'static str,
    pub name: String,
    /// Whether such a step counts unless it says otherwise.
    pub measured: bool,
}

impl RawStep {
    /// The step's work with the drive's own accounts, and its default name.
    fn own_account(&self) -> Result<Option<(OwnAccount, &'static str)>, String> {
        if let Some(watt) = self.power_threshold_w {
            return Ok(Some((OwnAccount::Threshold(threshold_word(watt)?), "power threshold")));
        }
        Ok(match (self.own_meter.as_deref(), &self.latency_monitor, &self.read_logs) {
            (Some("start"), ..) => {
                Some((OwnAccount::StartMeter(self.own_meter_min.unwrap_or(0)), "start of own meter"))
            }
            (Some("stop"), ..) => Some((OwnAccount::StopMeter, "stop of own meter")),
            (Some(other), ..) => return Err(format!("own_meter `{other}` is none of start, stop")),
            (_, Some(monitor), _) => Some((OwnAccount::Monitor(monitor.structure()?), "latency monitor")),
            (_, _, Some(pages)) if pages.is_empty() => return Err("read_logs names no log page".into()),
            (_, _, Some(pages)) => Some((OwnAccount::Read(pages.clone()), "logs")),
            _ => None,
        })
    }

    /// Rest after each group of jobs.
    pub fn rest(&self) -> Result<Option<Rest>, String> {
        let Some(duty) = self.duty else {
            return match self.duty_idle_max_s {
                None => Ok(None),
                Some(_) => Err("duty_idle_max_s goes with duty".into()),
            };
        };
        if !(duty > 0.0 && duty <= 1.0) {
            return Err(format!("duty = {duty} is not above 0 and at most 1"));
        }
        Ok(Some(Rest { duty, longest_s: self.duty_idle_max_s.map_or(Ok(f64::INFINITY), time)? }))
    }
}

impl RawAction {
    /// The one action of a step; files are looked for in `folder`.
    pub fn of(step: &RawStep, folder: &Path, reading: &Reading) -> Result<Self, String> {
        let drive_bytes = reading.drive_bytes;
        let given = [
            step.fio.is_some(),
            step.idle_s.is_some(),
            step.wake.is_some(),
            step.restart.is_some(),
            step.reset.is_some(),
            step.format.is_some(),
            step.sanitize.is_some(),
            step.fill.is_some(),
            step.trace.is_some(),
            step.own_meter.is_some(),
            step.power_threshold_w.is_some(),
            step.latency_monitor.is_some(),
            step.read_logs.is_some(),
        ];
        if given.iter().filter(|g| **g).count() != 1 {
            return Err("must have exactly one of fio, idle_s, wake, restart, reset, format, sanitize, fill, trace, own_meter, \
                        power_threshold_w, latency_monitor, read_logs"
                .into());
        }
        if step.own_meter_min.is_some() && step.own_meter.as_deref() != Some("start") {
            return Err("own_meter_min goes with own_meter = \"start\"".into());
        }
        if step.trace_idle_cut_s.is_some() && step.trace.is_none() {
            return Err("trace_idle_cut_s goes with trace".into());
        }
        if (step.duty.is_some() || step.duty_idle_max_s.is_some()) && step.fio.is_none() {
            return Err("duty and duty_idle_max_s go with fio".into());
        }
        let made = |action, kind, name: &str, measured| Ok(Self { action, kind, name: name.into(), measured });
        if let Some(file) = &step.fio {
            let file = folder.join(file);
            let name = stem(&file, "fio");
            return made(Action::Fio(parse_file(&file, reading).map_err(|e| e.to_string())?), "fio", &name, true);
        }
        if let Some(file) = &step.trace {
            let (file, cut) = (folder.join(file), time(step.trace_idle_cut_s.unwrap_or(IDLE_CUT_S))?);
            let job = trace_job(&file, (cut * 1e6).round() as u64, drive_bytes).map_err(|e| e.to_string())?;
            let jobs = JobFile { path: file.display().to_string(), jobs: vec![job] };
            return made(Action::Fio(jobs), "trace", &stem(&file, "trace"), true);
        }
        if let Some(fill) = &step.fill {
            return made(Action::Fio(fill.job(reading)?), "fill", "fill", false);
        }
        if let Some(seconds) = step.idle_s {
            return made(Action::Idle { seconds: time(seconds)? }, "idle", "idle", true);
        }
        if let Some(wake) = &step.wake {
            if wake.slba.saturating_add(8) > drive_bytes / LBA {
                return Err("wake.slba is beyond the end of the drive".into());
            }
            return made(Action::Wake { seconds: time(wake.idle_s)?, slba: wake.slba }, "wake", "wake-up", true);
        }
        if let Some(restart) = &step.restart {
            let off_s = restart.off_s.map(time).transpose()?;
            return made(Action::Restart { off_s }, "restart", "restart", true);
        }
        if let Some(kind) = &step.reset {
            if kind != "flr" {
                return Err(format!("reset `{kind}` is not flr"));
            }
            return made(Action::ResetFunction, "reset", "reset", true);
        }
        if let Some(format) = &step.format {
            if format.ses > 2 {
                return Err("format.ses must be 0, 1 (user data erase) or 2 (cryptographic erase)".into());
            }
            return made(Action::Format { nsid: format.nsid, ses: format.ses }, "format", "format", false);
        }
        if let Some((account, name)) = step.own_account()? {
            return made(Action::Own(account), "own-account", name, false);
        }
        let action = match step.sanitize.as_deref() {
            Some("block") => 2,
            Some("overwrite") => 3,
            Some("crypto") => 4,
            other => return Err(format!("sanitize `{}` is none of block, crypto, overwrite", other.unwrap_or(""))),
        };
        made(Action::Sanitize(action), "sanitize", "sanitize", false)
    }
}

impl RawFill {
    /// Sequential writes at depth 32, once over the span.
    fn job(&self, reading: &Reading) -> Result<JobFile, String> {
        if !(self.span > 0.0 && self.span <= 1.0) {
            return Err(format!("fill.span = {} is not above 0 and at most 1", self.span));
        }
        let block = crate::fio::size(&self.bs)?.max(512);
        let size = ((reading.drive_bytes as f64 * self.span) as u64 / block * block).max(block);
        let text = format!("[fill]\nrw=write\ndirect=1\nioengine=libaio\niodepth=32\nbs={block}\nsize={size}\n");
        parse_text("fill", &text, reading).map_err(|e| e.to_string())
    }
}

fn time(seconds: f64) -> Result<f64, String> {
    if (0.0..=1e6).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("{seconds} s is not between 0 and 1e6"))
    }
}

fn stem(file: &Path, otherwise: &str) -> String {
    file.file_stem().map_or_else(|| otherwise.into(), |s| s.to_string_lossy().into_owned())
}
