//! Effects of simultaneous jobs on each other: `exitall`, `wait_for`, `flow`, and `steadystate`.

use super::job::Job;
use super::steady::{Done, SteadyWatch};
use crate::fio::ExitWhat;
use crate::profile::{Ps, US};
use serde_json::Value;
use std::collections::BTreeMap;

/// I/Os of the jobs that share a `flow_id`, and the sum of their weights.
struct Flow {
    started: u64,
    weights: u64,
}

/// A watch and its jobs.
struct Watched {
    jobs: Vec<usize>,
    watch: SteadyWatch,
}

/// The rules between the jobs of a group.
pub(super) struct Together {
    /// Whether there is any rule.
    pub any: bool,
    over: Vec<bool>,
    flows: BTreeMap<u64, Flow>,
    started: Vec<u64>,
    watched: Vec<Watched>,
    /// A job ended all that was to follow.
    pub ends_all: bool,
}

impl Together {
    /// Creates the shared state of these jobs.
    pub fn new(jobs: &mut [Job]) -> Self {
        let mut flows: BTreeMap<u64, Flow> = BTreeMap::new();
        let mut watched: Vec<Watched> = Vec::new();
        let mut any = false;
        let groups: Vec<usize> = jobs.iter().map(Job::report_group).collect();
        for (index, job) in jobs.iter_mut().enumerate() {
            let spec = &job.spec;
            job.waits = spec.wait_for.is_some();
            job.timely = spec.exitall || spec.exitall_on_error || spec.flow > 0 || spec.steady.is_some();
            any |= job.timely || job.waits;
            if spec.flow > 0 {
                flows.entry(spec.flow_id).or_insert(Flow { started: 1, weights: 0 }).weights += spec.flow;
            }
            let Some(steady) = &spec.steady else { continue };
            match watched.last_mut() {
                Some(w) if spec.group_reporting && w.jobs.iter().all(|&i| groups[i] == groups[index]) => {
                    w.jobs.push(index);
                }
                _ => watched.push(Watched { jobs: vec![index], watch: SteadyWatch::new(steady, job.start) }),
            }
        }
        let waited_for = |name: &str| jobs.iter().any(|j| j.spec.wait_for.as_deref() == Some(name));
        let timely: Vec<bool> = jobs.iter().map(|j| waited_for(&j.spec.name)).collect();
        jobs.iter_mut().zip(timely).for_each(|(job, timely)| job.timely |= timely);
        let count = jobs.len();
        let mut made = Self { any, over: vec![false; count], flows, started: vec![0; count], watched, ends_all: false };
        // A job that is waited for may be of an earlier group, and done.
        made.release(jobs, 0);
        made
    }

    /// Looks at what time has brought by `now`; whether a job was ended.
    pub fn pass(&mut self, jobs: &mut [Job], now: Ps) -> bool {
        let mut ended = false;
        for Watched { jobs: members, watch } in &mut self.watched {
            while !watch.is_attained() && watch.next_check() <= now && members.iter().any(|&i| !self.over[i]) {
                let mut done = Done::default();
                for job in members.iter().map(|&i| &jobs[i]) {
                    done.ios += job.done.ios;
                    done.bytes += job.done.bytes;
                    done.clat_ns += job.done.clat_ns;
                }
                if watch.check(done) {
                    members.iter().for_each(|&i| jobs[i].terminate());
                    ended = true;
                }
            }
        }
        ended
    }

    /// Returns whether job `index` may start an I/O at `at`. A job that has used up its share of its flow may not.
    pub fn admits(&mut self, jobs: &mut [Job], index: usize, at: Ps) -> bool {
        let job = &mut jobs[index];
        if !job.may_start(at) {
            return false;
        }
        let spec = &job.spec;
        if spec.flow == 0 {
            return true;
        }
        let Some(flow) = self.flows.get_mut(&spec.flow_id) else { return true };
        // started / flow.started > weight / weights, in whole numbers
        if u128::from(self.started[index]) * u128::from(flow.weights) > u128::from(spec.flow) * u128::from(flow.started)
        {
            match spec.flow_sleep_us {
                0 => job.parked = true,
                us => job.sleep_after_all(at, us * US),
            }
            return false;
        }
        flow.started += 1;
        self.started[index] += 1;
        let id = spec.flow_id;
        jobs.iter_mut().filter(|j| j.spec.flow > 0 && j.spec.flow_id == id).for_each(|j| j.parked = false);
        true
    }

    /// Notes jobs that are over at `now`, and starts the jobs that wait for them. Returns whether that changed anything for other jobs.
    pub fn settle(&mut self, jobs: &mut [Job], now: Ps) -> bool {
        let mut changed = false;
        for index in 0..jobs.len() {
            if self.over[index] || !jobs[index].is_over() {
                continue;
            }
            self.over[index] = true;
            changed |= self.leave_flow(jobs, index);
            let spec = &jobs[index].spec;
            if spec.exitall || spec.exitall_on_error && jobs[index].has_failed() {
                let (what, group) = (spec.exit_what, jobs[index].report_group());
                for (i, other) in jobs.iter_mut().enumerate() {
                    let meant = match what {
                        ExitWhat::Group => other.report_group() == group,
                        // One that has not begun is not among those that run.
                        ExitWhat::Stonewall => !other.waits && other.start <= now,
                        ExitWhat::All => true,
                    };
                    if meant && !self.over[i] {
                        other.terminate();
                    }
                }
                self.ends_all |= what == ExitWhat::All;
                changed = true;
            }
        }
        if changed {
            // Others may be over by that.
            self.settle(jobs, now);
        }
        self.release(jobs, now) || changed
    }

    fn leave_flow(&mut self, jobs: &mut [Job], index: usize) -> bool {
        let (id, weight) = (jobs[index].spec.flow_id, jobs[index].spec.flow);
        if weight == 0 {
            return false;
        }
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.started -= self.started[index];
            flow.weights -= weight;
        }
        jobs.iter_mut().filter(|j| j.spec.flow > 0 && j.spec.flow_id == id).for_each(|j| j.parked = false);
        true
    }

    /// Starts jobs when the job named in their `wait_for` is over.
    fn release(&mut self, jobs: &mut [Job], now: Ps) -> bool {
        let mut released = false;
        for index in 0..jobs.len() {
            if !jobs[index].waits {
                continue;
            }
            let name = jobs[index].spec.wait_for.clone();
            let runs = |(other, over): (&Job, &bool)| Some(&other.spec.name) == name.as_ref() && !over;
            if jobs.iter().zip(&self.over).any(runs) {
                continue;
            }
            jobs[index].begin_at(now);
            let start = jobs[index].start;
            for watched in self.watched.iter_mut().filter(|w| w.jobs.first() == Some(&index)) {
                watched.watch.restart(start);
            }
            released = true;
        }
        released
    }

    /// Returns the results of the watches, each with the number of its last job.
    pub fn steady(&self) -> Vec<(usize, Value)> {
        self.watched.iter().map(|w| (w.jobs.last().copied().unwrap_or(0), w.watch.json())).collect()
    }
}
