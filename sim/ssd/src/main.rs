//! `wattbell-ssd`: fio jobs and plans on the SSD model in virtual time.

use clap::{Parser, Subcommand};
use serde_json::{json, Value};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattbell_bus::{create_trace, TraceHeader};
use wattbell_ssd::driver::{self, Fidelity, Plan};
use wattbell_ssd::{fio, Profile, LBA};

/// The Wattbell SSD model in virtual time: runs fio job files or a plan on a drive's profile. Writes the activity at the drive's connector
/// as a bus trace, with the model's own truth beside it.
#[derive(Parser)]
#[command(name = "wattbell-ssd", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a plan or job files.
    Run(Box<RunArgs>),
    /// List the drives in the program.
    Profiles {
        /// Print JSON: every figure with its source.
        #[arg(long)]
        json: bool,
    },
    /// Read job files and print their jobs, or their errors.
    Check {
        /// Job files.
        #[arg(required = true)]
        jobs: Vec<PathBuf>,
        /// Drive that size percentages refer to.
        #[arg(long, default_value = "intel-660p-1tb")]
        profile: String,
        /// Take jobs that go through the page cache as jobs with direct=1.
        #[arg(long)]
        as_direct: bool,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// Drive: a name from `wattbell-ssd profiles`, or the path of a TOML file.
    #[arg(long, default_value = "intel-660p-1tb")]
    profile: String,
    /// Plan of steps (TOML): fio jobs, idle times, wake-ups.
    #[arg(long, required_unless_present = "job", conflicts_with = "job")]
    plan: Option<PathBuf>,
    /// fio job file; may be given several times.
    #[arg(long)]
    job: Vec<PathBuf>,
    /// Run jobs that go through the page cache as with direct=1: the model has no page cache.
    #[arg(long)]
    as_direct: bool,
    /// File for the bus trace; `-` is standard output.
    #[arg(long)]
    trace: PathBuf,
    /// Truth of each phase, as JSON.
    #[arg(long)]
    truth: Option<PathBuf>,
    /// Truth of each command, as CSV.
    #[arg(long)]
    truth_commands: Option<PathBuf>,
    /// Since when each part of the drive was in which state, as CSV.
    #[arg(long)]
    truth_states: Option<PathBuf>,
    /// fio's figures, in the layout of its JSON output.
    #[arg(long)]
    fio_json: Option<PathBuf>,
    /// The phases, as JSON.
    #[arg(long)]
    phases: Option<PathBuf>,
    /// Folder for the log pages that the plan's steps read: log-25h.bin, log-c3h.bin.
    #[arg(long)]
    logs: Option<PathBuf>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One SUMMARY record for each I/O command instead of its TLPs (fast fidelity): for long runs.
    #[arg(long)]
    summaries: bool,
    /// With --summaries: width in microseconds of the steps over which the rail is averaged. Steps that differ by less than a tenth are
    /// joined, up to a millisecond.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=200))]
    rail_step_us: u64,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Profiles { json } => profiles(json),
        Command::Check { jobs, profile, as_direct } => check(&jobs, &profile, as_direct),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wattbell-ssd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    let profile = Profile::load(&args.profile)?;
    let bytes = *profile.namespace.lbas_512 * LBA;
    let reading = fio::Reading { as_direct: args.as_direct, ..fio::Reading::on(bytes) };
    let plan = match &args.plan {
        Some(path) => Plan::load(path, profile.power_state.len(), &reading)?,
        None => Plan::of_jobs(args.job.iter().map(|j| fio::parse_file(j, &reading)).collect::<Result<_, _>>()?),
    };
    if plan.reads_logs() && args.logs.is_none() {
        return Err("a step of the plan reads log pages: give their folder with --logs".into());
    }
    for file in plan.job_files() {
        for (kind, said) in about(file) {
            eprintln!("wattbell-ssd: {kind}: {}: {said}", file.path);
        }
    }
    let mut header = TraceHeader {
        source: concat!("wattbell-ssd ", env!("CARGO_PKG_VERSION")).into(),
        profile: profile.name.clone(),
        timing: "model".into(),
        notes: vec![format!("bus, timing and power are those of a model of the {}", profile.title)],
        ..TraceHeader::default()
    };
    header.extra.insert("seed".into(), json!(args.seed));
    header.summaries = args.summaries;
    if args.summaries {
        header.notes.push(format!("the rail is given as means over {} us or more", args.rail_step_us));
    }
    let fidelity = match args.summaries {
        true => Fidelity::Summaries { rail_step_us: args.rail_step_us },
        false => Fidelity::Tlps,
    };
    let trace = create_trace(&args.trace, &header).map_err(|e| format!("{}: {e}", args.trace.display()))?;
    let commands = args.truth_commands.as_ref().map(|path| create(path).map(BufWriter::new)).transpose()?;
    let outcome = driver::run(profile, &plan, args.seed, trace, commands, fidelity, args.truth_states.is_some())?;
    if let (Some(path), Some(states)) = (&args.truth_states, &outcome.states) {
        states.write(BufWriter::new(create(path)?)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if let Some(folder) = &args.logs {
        for (name, bytes) in &outcome.logs {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    for (path, value) in
        [(&args.truth, &outcome.truth), (&args.phases, &outcome.phases), (&args.fio_json, &fio::report(&outcome.jobs))]
    {
        if let Some(path) = path {
            write_json(path, value)?;
        }
    }
    Ok(())
}

fn profiles(as_json: bool) -> Result<(), Failure> {
    let mut listed = Vec::new();
    for name in Profile::built_in() {
        let profile = Profile::load(name)?;
        if as_json {
            listed.push(serde_json::to_value(&profile)?);
        } else {
            println!("{name}: {}, {} GB", profile.title, *profile.namespace.lbas_512 * LBA / 1_000_000_000);
        }
    }
    if as_json {
        println!("{:#}", Value::Array(listed));
    }
    Ok(())
}

fn check(jobs: &[PathBuf], profile: &str, as_direct: bool) -> Result<(), Failure> {
    let profile = Profile::load(profile)?;
    for path in jobs {
        let reading = fio::Reading { as_direct, ..fio::Reading::on(*profile.namespace.lbas_512 * LBA) };
        let file = fio::parse_file(path, &reading)?;
        for (group, jobs) in file.groups().iter().enumerate() {
            for job in *jobs {
                let p = job.pattern;
                let kinds = [(p.read, "read"), (p.write, "write"), (p.trim, "trim")];
                let kinds: Vec<&str> = kinds.into_iter().filter(|k| k.0).map(|k| k.1).collect();
                println!(
                    "{}: group {group}, job {}: {} {}, {}, depth {}",
                    path.display(),
                    job.name,
                    if p.random { "random" } else { "sequential" },
                    kinds.join(" and "),
                    sizes(&job.block_size[if p.read { 0 } else { 1 }]),
                    job.iodepth
                );
            }
        }
        for (kind, said) in about(&file) {
            println!("{}: {kind}: {said}", path.display());
        }
    }
    Ok(())
}

/// Returns the notes about a job file: the options without effect, and the differences from fio.
fn about(file: &fio::JobFile) -> Vec<(&'static str, String)> {
    let once = |list: Vec<&String>| {
        let mut once: Vec<&str> = Vec::new();
        list.into_iter().for_each(|s| {
            if !once.contains(&s.as_str()) {
                once.push(s)
            }
        });
        once.into_iter().map(str::to_string).collect::<Vec<String>>()
    };
    let departures = once(file.jobs.iter().flat_map(|j| &j.departures).collect());
    let nothing = once(file.jobs.iter().flat_map(|j| &j.without_effect).collect());
    let mut out: Vec<_> = departures.into_iter().map(|d| ("warning", d)).collect();
    if !nothing.is_empty() {
        out.push(("note", format!("without effect at the drive: {}", nothing.join(", "))));
    }
    out
}

fn sizes(sizes: &fio::BlockSize) -> String {
    match sizes.min() == sizes.max() {
        true => format!("{} bytes", sizes.min()),
        false => format!("{} to {} bytes", sizes.min(), sizes.max()),
    }
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write_json(path: &Path, value: &Value) -> Result<(), String> {
    let mut out = BufWriter::new(create(path)?);
    writeln!(out, "{value:#}").and_then(|()| out.flush()).map_err(|e| format!("{}: {e}", path.display()))
}
