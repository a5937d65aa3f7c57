//! A plan: steps of fio jobs, idle times and wake-ups, in TOML.

use crate::fio::{parse_file, FioError, JobFile};
use crate::flash::Condition;
use crate::port::Aspm;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The plan.
    #[error("plan {0}: {1}")]
    Plan(String, String),
    /// A job file of it.
    #[error(transparent)]
    Fio(#[from] FioError),
}

/// What the drive and its link may do while nothing is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Idle {
    /// Whether APST is on, with Linux's table.
    pub apst: bool,
    /// What the link may do.
    pub aspm: Aspm,
    /// Power state to ask for.
    pub power_state: Option<u8>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Runs a job file.
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
        /// Where to read.
        slba: u64,
    },
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Power management while it runs.
    pub idle: Idle,
    /// What it does.
    pub action: Action,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// What the drive held before.
    pub condition: Condition,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    #[serde(default)]
    condition: Option<String>,
    step: Vec<RawStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    name: Option<String>,
    fio: Option<PathBuf>,
    idle_s: Option<f64>,
    wake: Option<RawWake>,
    #[serde(default)]
    apst: bool,
    aspm: Option<String>,
    ps: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWake {
    idle_s: f64,
    #[serde(default)]
    slba: u64,
}

impl Plan {
    /// A plan of job files alone.
    pub fn of_jobs(files: Vec<JobFile>) -> Self {
        let steps = files
            .into_iter()
            .map(|file| {
                let name = Path::new(&file.path).file_stem().map_or(file.path.clone(), |s| s.to_string_lossy().into());
                Step { name, idle: Idle::default(), action: Action::Fio(file) }
            })
            .collect();
        Self { condition: Condition::default(), steps }
    }

    /// Reads a plan; job files are looked for beside it. `power_states` and `drive_bytes` are the drive's.
    pub fn load(path: &Path, power_states: usize, drive_bytes: u64) -> Result<Self, PlanError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| PlanError::Plan(name.clone(), e.to_string()))?;
        let raw: RawPlan = toml::from_str(&text).map_err(|e| PlanError::Plan(name.clone(), e.to_string()))?;
        let fail = |reason: String| PlanError::Plan(name.clone(), reason);
        let condition = match raw.condition.as_deref() {
            None | Some("test-data") => Condition::TestData,
            Some("full") => Condition::Full,
            Some("empty") => Condition::Empty,
            Some(other) => return Err(fail(format!("condition `{other}` is none of test-data, full, empty"))),
        };
        let mut steps = Vec::new();
        for (index, step) in raw.step.into_iter().enumerate() {
            let number = index + 1;
            let fail = |reason: String| fail(format!("step {number}: {reason}"));
            let aspm = match step.aspm.as_deref() {
                None | Some("off") => Aspm::Off,
                Some("l1") => Aspm::L1,
                Some("l1.2") => Aspm::L1_2,
                Some(other) => return Err(fail(format!("aspm `{other}` is none of off, l1, l1.2"))),
            };
            if step.ps.is_some_and(|ps| usize::from(ps) >= power_states) {
                return Err(fail(format!("ps must be below {power_states}, the drive's number of power states")));
            }
            let time = |seconds: f64| {
                if (0.0..=1e6).contains(&seconds) {
                    Ok(seconds)
                } else {
                    Err(fail(format!("idle_s = {seconds} is not between 0 and 1e6")))
                }
            };
            let (action, default_name) = match (step.fio, step.idle_s, step.wake) {
                (Some(file), None, None) => {
                    let file = path.parent().unwrap_or(Path::new("")).join(file);
                    let stem = file.file_stem().map_or_else(|| "fio".into(), |s| s.to_string_lossy().into_owned());
                    (Action::Fio(parse_file(&file, drive_bytes)?), stem)
                }
                (None, Some(seconds), None) => (Action::Idle { seconds: time(seconds)? }, "idle".into()),
                (None, None, Some(wake)) => {
                    if wake.slba.saturating_add(8) > drive_bytes / crate::profile::LBA {
                        return Err(fail("wake.slba is beyond the end of the drive".into()));
                    }
                    (Action::Wake { seconds: time(wake.idle_s)?, slba: wake.slba }, "wake-up".into())
                }
                _ => return Err(fail("must have exactly one of fio, idle_s, wake".into())),
            };
            let idle = Idle { apst: step.apst, aspm, power_state: step.ps };
            steps.push(Step { name: step.name.unwrap_or(default_name), idle, action });
        }
        Ok(Self { condition, steps })
    }
}
