//! Runs a plan: every phase between its two in-band markers.

use super::accounts::OwnAccount;
use super::actions::Action;
use super::cpu;
use super::device::{sqe, Completion, Device, DriverError, Manners};
use super::engine::{run_group, GroupOutcome};
use super::job::Numbers;
use super::lean;
use super::plan::{Idle, Plan, Step};
use super::truth::{Phase, TruthSink};
use crate::controller::{Controller, Options};
use crate::fio::{JobResult, JobSpec};
use crate::nvme::io;
use crate::pcie::port::Aspm;
use crate::power::log::StateLog;
use crate::profile::{ps, Profile, S as SECOND, US};
use crate::sink::TraceSink;
use serde_json::{json, Value};
use std::io::Write;
use wattbell_bus::TraceWriter;

/// I/O queues of the virtual host: a desktop with that many CPUs.
const IO_QUEUES: u16 = 4;
/// Between the end of a phase and the start of the next.
const PAUSE_US: u64 = 200;

/// Form of I/O commands in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fidelity {
    /// Every TLP, and power steps of a microsecond.
    Tlps,
    /// One SUMMARY for each command, and the rail as means over steps.
    Summaries {
        /// Width of the steps in microseconds.
        rail_step_us: u64,
    },
}

/// The results of a run.
pub struct Outcome {
    /// The phases of `docs/capture.md`.
    pub phases: Value,
    /// The model's truth.
    pub truth: Value,
    /// fio's results, in order.
    pub jobs: Vec<JobResult>,
    /// When each part was in which state, if that was asked for.
    pub states: Option<Box<StateLog>>,
    /// Log pages that the plan's steps read: names of files, and their contents.
    pub logs: Vec<(String, Vec<u8>)>,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The driver gave up.
    #[error("{0}")]
    Driver(#[from] DriverError),
    /// Something could not be written.
    #[error("{0}")]
    Output(String),
}

/// Runs `plan` on a drive of `profile`. The bus trace goes to `trace`, one CSV line for each command to `commands`; with `states`
/// [`Outcome`] has when each part was in which.
pub fn run<T: Write, C: Write>(
    profile: Profile,
    plan: &Plan,
    seed: u64,
    trace: TraceWriter<T>,
    commands: Option<C>,
    fidelity: Fidelity,
    states: bool,
) -> Result<Outcome, RunError> {
    for step in &plan.steps {
        if let Action::Own(account) = &step.action {
            if let Some(entry) = account.lacks(&profile.offer) {
                return Err(DriverError::NotOffered(entry).into());
            }
        }
    }
    let options = Options { seed, condition: plan.condition, data_bytes: plan.data_bytes, ..Options::default() };
    let sink = TruthSink::new(TraceSink::new(trace), commands);
    let mut controller = Controller::new(profile, options, sink);
    if let Fidelity::Summaries { rail_step_us } = fidelity {
        controller.use_rail_steps(rail_step_us * US);
    }
    if states {
        controller.keep_states();
    }
    let device = Device::start_with(controller, IO_QUEUES, plan.manners)?;
    let mut session = Session {
        device,
        phases: Vec::new(),
        jobs: Vec::new(),
        group: 0,
        reported: 0,
        seed,
        idle: Idle::default(),
        kept_ps: false,
        fidelity,
        logs: Vec::new(),
    };
    for step in &plan.steps {
        session.step(step)?;
        if let Some(error) = session.device.controller.sink().error() {
            return Err(RunError::Output(error));
        }
    }
    let Session { mut device, phases, jobs, logs, .. } = session;
    let states = device.controller.take_states();
    let truth = device.stop().finish(&phases).map_err(RunError::Output)?;
    let listed = phases
        .iter()
        .map(|p| {
            let mut out = json!({"phase": p.phase, "name": p.name, "kind": p.kind});
            if let (Value::Object(out), Value::Object(detail)) = (&mut out, &p.detail) {
                out.extend(detail.clone());
            }
            out
        })
        .collect();
    Ok(Outcome { phases: Value::Array(listed), truth, jobs, states, logs })
}

struct Session<T: Write, C: Write> {
    device: Device<TruthSink<T, C>>,
    phases: Vec<Phase>,
    jobs: Vec<JobResult>,
    group: usize,
    /// Reporting groups of the files before.
    reported: usize,
    seed: u64,
    idle: Idle,
    kept_ps: bool,
    fidelity: Fidelity,
    logs: Vec<(String, Vec<u8>)>,
}

impl<T: Write, C: Write> Session<T, C> {
    fn step(&mut self, step: &Step) -> Result<(), RunError> {
        self.prepare(step)?;
        match &step.action {
            Action::Fio(file) => {
                let groups = file.groups();
                for (number, group) in groups.iter().enumerate() {
                    let name =
                        if groups.len() > 1 { format!("{}/{}", step.name, names(group)) } else { step.name.clone() };
                    let ends_all = self.fio(name, &file.path, group, step)?;
                    self.rest(step);
                    if ends_all {
                        self.leave_out(&groups[number + 1..].concat());
                        break;
                    }
                }
                self.reported += file.jobs.last().map_or(0, |job| job.report_group + 1);
                Ok(())
            }
            Action::Idle { seconds } => {
                let detail = detail(step, *seconds);
                self.phase(step.name.clone(), step.kind, detail, |s| {
                    s.device.sleep(ps(*seconds, SECOND));
                    let settled_w = s.device.controller.power_w();
                    let state = s.device.controller.power_state();
                    Ok(json!({"power_state": state, "link_state": link(s), "settled_w": settled_w}))
                })
            }
            Action::Wake { seconds, slba } => {
                let detail = detail(step, *seconds);
                self.phase(step.name.clone(), step.kind, detail, |s| s.wake(*seconds, *slba))
            }
            Action::Restart { off_s } => {
                let mut about = json!({"apst": step.idle.apst, "aspm": aspm(step.idle), "ps": step.idle.power_state,
                    "measured": step.measured});
                about["off_s"] = json!(off_s);
                self.phase(step.name.clone(), step.kind, about, |s| s.restart(*off_s))
            }
            Action::ResetFunction => {
                let about =
                    json!({"apst": step.idle.apst, "aspm": aspm(step.idle), "reset": "flr", "measured": step.measured});
                self.phase(step.name.clone(), step.kind, about, Self::reset_function)
            }
            Action::Format { nsid, ses } => {
                let detail = json!({"format": {"nsid": nsid, "ses": ses}, "measured": step.measured});
                self.phase(step.name.clone(), step.kind, detail, |s| {
                    s.device.format(*nsid, *ses)?;
                    Ok(json!({}))
                })
            }
            Action::Sanitize(action) => {
                let detail = json!({"sanitize_action": action, "measured": step.measured});
                self.phase(step.name.clone(), step.kind, detail, |s| {
                    s.device.sanitize(*action)?;
                    Ok(json!({}))
                })
            }
            Action::Own(account) => {
                let detail = json!({"measured": step.measured});
                self.phase(step.name.clone(), step.kind, detail, |s| s.own_account(account))
            }
        }
    }

    /// Works with the drive's own accounts; the result names the files of log pages.
    fn own_account(&mut self, account: &OwnAccount) -> Result<Value, RunError> {
        let mut files = Vec::new();
        match account {
            OwnAccount::StartMeter(minutes) => self.device.start_own_meter(*minutes)?,
            OwnAccount::StopMeter => self.device.stop_own_meter()?,
            OwnAccount::Threshold(word) => self.device.enable_threshold(*word)?,
            OwnAccount::Monitor(structure) => self.device.configure_monitor(structure)?,
            OwnAccount::Read(pages) => {
                for page in pages {
                    let bytes = self.device.read_log(*page)?;
                    let is_new = |name: &String| !self.logs.iter().any(|(known, _)| known == name);
                    let name = (1..).map(|number| page.file_name(number)).find(is_new).unwrap_or_default();
                    files.push(name.clone());
                    self.logs.push((name, bytes));
                }
            }
        }
        Ok(json!({"log_files": files}))
    }

    /// Sets power management before a phase, outside it.
    fn prepare(&mut self, step: &Step) -> Result<(), RunError> {
        let idle = step.idle;
        if let Some(ambient_c) = step.temperature_c {
            self.device.controller.set_ambient_c(ambient_c);
        }
        if let Some(on) = step.write_cache {
            self.device.set_write_cache(on)?;
        }
        if idle.aspm != self.idle.aspm {
            self.device.set_aspm(idle.aspm);
        }
        if idle.apst != self.idle.apst {
            self.device.set_apst(idle.apst)?;
        }
        if let Some(state) = idle.power_state {
            self.device.set_power_state(state)?;
            self.kept_ps = true;
        } else if self.kept_ps {
            self.device.set_power_state(0)?;
            self.kept_ps = false;
        }
        self.idle = idle;
        Ok(())
    }

    /// Runs a group of jobs; returns whether the group ended all jobs that were to follow.
    fn fio(&mut self, name: String, path: &str, group: &[JobSpec], step: &Step) -> Result<bool, RunError> {
        let idle = step.idle;
        let jobs: Vec<&str> = group.iter().map(|j| j.name.as_str()).collect();
        let mut detail = json!({"file": path, "jobs": jobs, "apst": idle.apst, "aspm": aspm(idle),
                "measured": step.measured});
        if let [first, .., last] | [first @ last] = group {
            // Jobs of several groups of the report are known by their names.
            if first.report_group == last.report_group {
                detail["fio_group"] = json!(self.reported + first.report_group);
            }
        }
        note(&mut detail, "options_without_effect", group.iter().flat_map(|j| &j.without_effect));
        note(&mut detail, "departures", group.iter().flat_map(|j| &j.departures));
        let ramp_us = group.iter().map(|j| j.ramp_us).max().unwrap_or(0);
        if ramp_us > 0 {
            detail["ramp_s"] = json!(ramp_us as f64 * 1e-6);
        }
        let numbers = Numbers { run: self.group, first: self.reported };
        self.group += 1;
        let mut ends_all = false;
        self.phase(name, step.kind, detail, |s| {
            let before = s.device.controller.holdings();
            let GroupOutcome { results, ends_all: all } = s.run_group(group, numbers)?;
            ends_all = all;
            let mut summary = summary(&results);
            summary["flash"] = s.device.controller.holdings().json_since(&before);
            summary["temperature_c"] = json!(s.device.controller.temperature_c());
            s.jobs.extend(results);
            Ok(summary)
        })?;
        Ok(ends_all)
    }

    /// Notes jobs that another job ended before they began.
    fn leave_out(&mut self, jobs: &[JobSpec]) {
        let Some(phase) = self.phases.last_mut().filter(|_| !jobs.is_empty()) else { return };
        phase.detail["never_ran"] = json!(jobs.iter().map(|j| j.name.as_str()).collect::<Vec<_>>());
        for job in jobs {
            let empty = JobResult::new(job, self.reported + job.report_group);
            self.jobs.extend(std::iter::repeat_n(empty, job.numjobs as usize));
        }
    }

    /// Leaves the drive alone after a group, and notes the pause's length in the group's phase.
    fn rest(&mut self, step: &Step) {
        if let (Some(rest), Some(phase)) = (step.rest, self.phases.last_mut()) {
            let seconds = rest.after((phase.end_tick - phase.start_tick) as f64 * 1e-9);
            phase.detail["idle_after_s"] = json!(seconds);
            let pause = PAUSE_US * US; // it is part of the rest
            self.device.sleep(ps(seconds, SECOND).saturating_sub(pause));
        }
    }

    fn run_group(&mut self, group: &[JobSpec], numbers: Numbers) -> Result<GroupOutcome, RunError> {
        let plain = self.device.manners == Manners::default();
        if self.fidelity != Fidelity::Tlps && plain && lean::can_run(group) {
            if let Some(outcome) = lean::run_group(&mut self.device, group, numbers, self.seed)? {
                return Ok(outcome);
            }
        }
        Ok(run_group(&mut self.device, group, numbers, self.seed)?)
    }

    /// Restarts the drive. Afterwards the drive and its link are as after power-on: the settings of earlier steps are lost.
    fn restart(&mut self, off_s: Option<f64>) -> Result<Value, RunError> {
        let done = self.device.restart(off_s.map(|s| ps(s, SECOND)))?;
        (self.idle, self.kept_ps) = (Idle::default(), false);
        let (completion, doorbell, handler) = self.read_4k(0)?;
        let off_on = done.restart.off_on.map(|(off, on)| json!({"off_ps": off, "on_ps": on}));
        Ok(json!({
            "shutdown_ps": done.shutdown, "supply": off_on, "perst_low_ps": done.restart.perst_low,
            "perst_high_ps": done.restart.perst_high, "link_up_ps": done.restart.link_up, "enabled_ps": done.enabled,
            "ready_ps": done.ready, "doorbell_ps": doorbell, "handler_ps": handler, "status": completion.status,
        }))
    }

    /// Resets the function. Afterwards features are as after power-on; payload sizes and ASPM are as before.
    fn reset_function(&mut self) -> Result<Value, RunError> {
        let [shutdown, reset, enabled, ready] = self.device.reset_function()?;
        (self.idle.apst, self.kept_ps) = (false, false);
        let (completion, doorbell, handler) = self.read_4k(0)?;
        Ok(json!({
            "shutdown_ps": shutdown, "reset_ps": reset, "enabled_ps": enabled, "ready_ps": ready,
            "doorbell_ps": doorbell, "handler_ps": handler, "status": completion.status,
        }))
    }

    fn read_4k(&mut self, slba: u64) -> Result<(Completion, u64, u64), RunError> {
        let buffer = self.device.memory.allocate_user(4096);
        let mut entry = sqe(io::READ, 1, buffer, [slba as u32, (slba >> 32) as u32]);
        entry[48] = 7;
        Ok(self.device.command(1, entry)?)
    }

    fn wake(&mut self, seconds: f64, slba: u64) -> Result<Value, RunError> {
        self.device.sleep(ps(seconds, SECOND));
        let before = json!({"power_state": self.device.controller.power_state(), "link_state": link(self)});
        let asked = self.device.now;
        let (completion, doorbell, handler) = self.read_4k(slba)?;
        Ok(json!({
            "before": before, "asked_ps": asked, "doorbell_ps": doorbell, "handler_ps": handler,
            "status": completion.status,
            "host_latency_s": (handler + cpu::COMPLETE - asked) as f64 * 1e-12,
        }))
    }

    /// Marker, body, marker.
    fn phase(
        &mut self,
        name: String,
        kind: &'static str,
        mut detail: Value,
        body: impl FnOnce(&mut Self) -> Result<Value, RunError>,
    ) -> Result<(), RunError> {
        if self.idle.apst {
            detail["apst_table"] = json!(self.device.apst_table());
        }
        let phase = self.phases.len() as u32 + 1;
        let start_tick = self.mark(phase << 8 | 1)?;
        let result = body(self)?;
        let end_tick = self.mark(phase << 8 | 2)?;
        self.phases.push(Phase { phase, name, kind, start_tick, end_tick, detail, result });
        self.device.sleep(PAUSE_US * US);
        Ok(())
    }

    /// Sends a marker and notes its tick as a bound, before the rail is integrated past it.
    fn mark(&mut self, value: u32) -> Result<u64, RunError> {
        let doorbell = self.device.marker(value, |controller, first| {
            let account = controller.account(first / 1000 * 1000);
            controller.sink().bound(first / 1000, account);
        })?;
        Ok(doorbell / 1000)
    }
}

fn names(group: &[JobSpec]) -> String {
    group.iter().map(|j| j.name.as_str()).collect::<Vec<_>>().join("+")
}

/// Notes the entries of `list` under `key`, each once. Writes no key for an empty list.
fn note<'a>(detail: &mut Value, key: &str, list: impl Iterator<Item = &'a String>) {
    let list: std::collections::BTreeSet<&String> = list.collect();
    if !list.is_empty() {
        detail[key] = json!(list);
    }
}

fn aspm(idle: Idle) -> &'static str {
    match idle.aspm {
        Aspm::Off => "off",
        Aspm::L1 => "l1",
        Aspm::L1_2 => "l1.2",
    }
}

fn detail(step: &Step, seconds: f64) -> Value {
    let idle = step.idle;
    json!({"idle_s": seconds, "apst": idle.apst, "aspm": aspm(idle), "ps": idle.power_state,
        "measured": step.measured})
}

fn link<T: Write, C: Write>(session: &Session<T, C>) -> String {
    format!("{:?}", session.device.controller.link_state()).replace("L1_", "L1.")
}

/// Counts, bytes and latencies of a group of jobs, by direction.
fn summary(results: &[JobResult]) -> Value {
    let mut out = json!({});
    for (index, key) in ["read", "write", "trim"].into_iter().enumerate() {
        // All that the phase holds: what fio leaves out as the ramp is on the bus too, and costs energy.
        let ios: u64 = results.iter().map(|r| r.directions[index].ios + r.directions[index].ramp.1).sum();
        let bytes: u64 = results.iter().map(|r| r.directions[index].bytes + r.directions[index].ramp.0).sum();
        if ios > 0 {
            let mut lat = crate::fio::Samples::default();
            results.iter().for_each(|r| lat.merge(&r.directions[index].lat));
            let (min, max) = lat.range();
            out[key] = json!({"count": ios, "bytes": bytes,
                "lat_ns": {"min": min, "mean": lat.mean(), "max": max, "p99": lat.percentile(99.0)}});
        }
    }
    out["runtime_s"] = json!(results.iter().map(|r| r.runtime_ns).max().unwrap_or(0) as f64 * 1e-9);
    out["flushes"] = json!(results.iter().map(|r| r.sync.count()).sum::<u64>());
    let of_rules: Vec<Value> = results
        .iter()
        .filter(|r| !r.about.is_empty())
        .map(|r| {
            let mut about = r.about.clone();
            about.insert("job".into(), json!(r.name));
            Value::Object(about)
        })
        .collect();
    if !of_rules.is_empty() {
        out["targets"] = json!(of_rules);
    }
    out["errors"] = json!(results.iter().map(|r| r.errors).sum::<u64>());
    out
}
