//! A plan: steps of fio jobs, idle times and wake-ups, in TOML.

use super::accounts::OwnAccount;
use super::actions::{Action, RawAction, RawStep, Rest};
use super::device::Manners;
use crate::fio::{FioError, JobFile, Reading};
use crate::flash::Condition;
use crate::pcie::port::Aspm;
use serde::Deserialize;
use std::path::Path;

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The plan.
    #[error("plan {0}: {1}")]
    Plan(String, String),
    /// An error in one of the plan's job files.
    #[error(transparent)]
    Fio(#[from] FioError),
}

/// Power saving that the drive and its link may use in idle time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Idle {
    /// Whether APST is on, with Linux's table.
    pub apst: bool,
    /// Link states that the host allows.
    pub aspm: Aspm,
    /// Power state to ask for.
    pub power_state: Option<u8>,
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Kind of the step's phases in phases.json: `fio`, `idle`, `wake`, `trace`, `own-account`, or `precondition`.
    pub kind: &'static str,
    /// Whether it counts; if not, it prepares the drive.
    pub measured: bool,
    /// Power management during the step.
    pub idle: Idle,
    /// Ambient temperature from here on, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Whether the volatile write cache is on from here on.
    pub write_cache: Option<bool>,
    /// Rest after each group of jobs.
    pub rest: Option<Rest>,
    /// The step's action.
    pub action: Action,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Contents of the drive before the run.
    pub condition: Condition,
    /// Size of the data before the run, from the drive's beginning; `None` where the plan gives no size.
    pub data_bytes: Option<u64>,
    /// Choices of the host's driver.
    pub manners: Manners,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    #[serde(default)]
    condition: Option<String>,
    #[serde(default)]
    data_bytes: Option<u64>,
    #[serde(default = "yes")]
    interrupts: bool,
    #[serde(default)]
    sgls: bool,
    step: Vec<RawStep>,
}

fn yes() -> bool {
    true
}

impl Plan {
    /// The job files of its steps.
    pub fn job_files(&self) -> impl Iterator<Item = &JobFile> {
        self.steps.iter().filter_map(|s| match &s.action {
            Action::Fio(file) => Some(file),
            _ => None,
        })
    }

    /// Whether a step reads log pages into files.
    pub fn reads_logs(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Own(OwnAccount::Read(_))))
    }

    /// A plan of job files alone.
    pub fn of_jobs(files: Vec<JobFile>) -> Self {
        let steps = files
            .into_iter()
            .map(|file| {
                let name = Path::new(&file.path).file_stem().map_or(file.path.clone(), |s| s.to_string_lossy().into());
                let (idle, action) = (Idle::default(), Action::Fio(file));
                Step {
                    name,
                    kind: "fio",
                    measured: true,
                    idle,
                    temperature_c: None,
                    write_cache: None,
                    rest: None,
                    action,
                }
            })
            .collect();
        Self { steps, ..Self::default() }
    }

    /// Reads a plan, and looks for job files beside it. `power_states`: the drive's number of power states.
    pub fn load(path: &Path, power_states: usize, reading: &Reading) -> Result<Self, PlanError> {
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
            if step.temperature_c.is_some_and(|t| !(-40.0..=100.0).contains(&t)) {
                return Err(fail("temperature_c must be -40 to 100".into()));
            }
            let folder = path.parent().unwrap_or(Path::new(""));
            let RawAction { action, kind, name, measured } = RawAction::of(&step, folder, reading).map_err(fail)?;
            let rest = step.rest().map_err(fail)?;
            let idle = Idle { apst: step.apst, aspm, power_state: step.ps };
            let measured = step.measured.unwrap_or(measured);
            steps.push(Step {
                name: step.name.unwrap_or(name),
                kind: if measured { kind } else { "precondition" },
                measured,
                idle,
                temperature_c: step.temperature_c,
                write_cache: step.write_cache,
                rest,
                action,
            });
        }
        let manners = Manners { interrupts: raw.interrupts, sgls: raw.sgls };
        Ok(Self { condition, data_bytes: raw.data_bytes, manners, steps })
    }
}
