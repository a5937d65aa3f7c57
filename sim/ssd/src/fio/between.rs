//! Dependencies between the jobs of a file: `exitall`, `wait_for`, `flow`, steady states of a reporting group, and their one drive.

use super::job::{JobFile, JobSpec};
use super::refusal::{refuse, Refusal};

/// Applies the settings that hold for all jobs, and refuses impossible ones. The error has the number of its job.
pub fn settle(file: &mut JobFile) -> Result<(), (usize, Refusal)> {
    // In fio the option sets one switch for all jobs.
    let exitall = file.jobs.iter().any(|job| job.exitall);
    file.jobs.iter_mut().for_each(|job| job.exitall = exitall);
    let walls = walls(&file.jobs);
    let mut group = 0;
    for (index, job) in file.jobs.iter_mut().enumerate() {
        group += usize::from(index > 0 && (job.stonewall || job.new_group));
        job.report_group = group;
    }
    for (index, job) in file.jobs.iter().enumerate() {
        let checked = waits(&file.jobs, index).and_then(|()| flows(&file.jobs, &walls, index));
        checked.and_then(|()| one_drive(&file.jobs, index)).map_err(|refusal| (index, refusal))?;
        if let Some(before) = index.checked_sub(1).map(|i| &file.jobs[i]) {
            let one_group = job.report_group == before.report_group && job.group_reporting && before.group_reporting;
            if one_group && job.steady != before.steady {
                let names = &["steadystate", "ss", "steadystate_duration", "ss_dur"];
                return Err((
                    index,
                    Refusal {
                        reason: "the jobs of a reporting group need the same steadystate options".into(),
                        options: names,
                    },
                ));
            }
        }
    }
    Ok(())
}

/// Returns, for each job, the number of stonewalls before it.
fn walls(jobs: &[JobSpec]) -> Vec<usize> {
    let mut wall = 0;
    let count = |(index, job): (usize, &JobSpec)| {
        wall += usize::from(index > 0 && job.stonewall);
        wall
    };
    jobs.iter().enumerate().map(count).collect()
}

fn waits(jobs: &[JobSpec], index: usize) -> Result<(), Refusal> {
    let Some(name) = &jobs[index].wait_for else { return Ok(()) };
    match jobs[..index].iter().filter(|job| job.name == *name).count() {
        1 => Ok(()),
        0 => refuse(&["wait_for"], format!("wait_for={name}: no job before this one has that name")),
        _ => refuse(&["wait_for"], format!("wait_for={name}: several jobs have that name; give each its own")),
    }
}

/// Refuses a job on another drive than a job before it: the model is one drive, and would take the load of both.
fn one_drive(jobs: &[JobSpec], index: usize) -> Result<(), Refusal> {
    let Some(here) = drive_of(&jobs[index]) else { return Ok(()) };
    match jobs[..index].iter().find_map(|job| drive_of(job).filter(|other| *other != here)) {
        None => Ok(()),
        Some(other) => refuse(
            &["filename"],
            format!("the job is on the drive {here}, and a job before it on {other}; keep the jobs of one drive"),
        ),
    }
}

/// Returns the drive that a job names: for a namespace or partition of an NVMe drive its controller, for a partition of a SCSI disk the disk.
/// None without a device.
fn drive_of(job: &JobSpec) -> Option<String> {
    let name = &job.options.iter().rev().find(|(key, _)| key == "filename")?.1;
    let device = name.strip_prefix("/dev/")?;
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let nvme = device.strip_prefix("nvme").or_else(|| device.strip_prefix("ng")).map(number).filter(|n| !n.is_empty());
    Some(match nvme {
        Some(controller) => format!("nvme{controller}"),
        None if device.starts_with("sd") => device.trim_end_matches(|c: char| c.is_ascii_digit()).into(),
        None => device.into(),
    })
}

/// Refuses a flow across two stonewall groups. fio counts the shares of jobs that have not begun, so the two groups would wait for each
/// other for ever.
fn flows(jobs: &[JobSpec], walls: &[usize], index: usize) -> Result<(), Refusal> {
    let job = &jobs[index];
    let shares = |other: &JobSpec| other.flow > 0 && other.flow_id == job.flow_id;
    if job.flow > 0 && (0..index).any(|i| shares(&jobs[i]) && walls[i] != walls[index]) {
        let reason = format!(
            "flow_id={} has jobs on both sides of a stonewall, which wait for each other for ever: give each side a flow_id",
            job.flow_id
        );
        return refuse(&["flow", "flow_id", "stonewall"], reason);
    }
    Ok(())
}
