//! `wattbell-guest`: real Linux traffic as bus traces. See docs/real-traffic.md.

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattbell_guest::qemu::{convert, survey, Error};
use wattbell_guest::vfio;
use wattbell_ssd::Aspm;

#[derive(Parser)]
#[command(name = "wattbell-guest", version, about = "Real Linux traffic as bus traces")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Convert the trace log of QEMU's own NVMe device (-trace 'pci_nvme_*' -D LOG -msg timestamp=on)
    Qemu2bus {
        /// The log, of QEMU 10.0 or 11.1 form
        log: PathBuf,
        /// Bus trace to write
        #[arg(long)]
        out: PathBuf,
        /// Phases of the workload (docs/capture.md), kept in the trace's header
        #[arg(long)]
        phases: Option<PathBuf>,
        /// Write counts straight from the log, and the converter's additions, as JSON
        #[arg(long)]
        stats: Option<PathBuf>,
    },
    /// Serve the SSD model to one QEMU guest (-device vfio-user-pci), until it hangs up
    ServeVfio {
        /// Profile of the drive
        #[arg(long, default_value = "intel-660p-1tb")]
        profile: String,
        /// Unix socket to listen on
        #[arg(long)]
        socket: PathBuf,
        /// Bus trace to write
        #[arg(long)]
        trace: PathBuf,
        /// Write the model's truth as JSON when the guest hangs up
        #[arg(long)]
        truth: Option<PathBuf>,
        /// Write every command as the model saw it as CSV
        #[arg(long)]
        truth_commands: Option<PathBuf>,
        /// Keep written data and return it (what fio's verify needs)
        #[arg(long)]
        store: bool,
        /// Deepest link power state
        #[arg(long, value_enum, default_value = "l1.2")]
        link: Link,
        /// Seed of everything random in the model
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Link {
    #[value(name = "l0")]
    L0,
    #[value(name = "l1")]
    L1,
    #[value(name = "l1.2")]
    L1_2,
}

fn qemu2bus(log: &Path, out: &Path, phases: Option<&Path>, stats: Option<&Path>) -> Result<(), Error> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::Io { path, source }
    };
    let phases = phases
        .map(|path| {
            let text = std::fs::read_to_string(path).map_err(io(path))?;
            serde_json::from_str(&text).map_err(|e| Error::Phases(path.display().to_string(), e.to_string()))
        })
        .transpose()?;
    let survey = survey::survey(log)?;
    // Under a temporary name until complete: a failed conversion leaves no trace that looks good.
    let partial = out.with_extension("wbt.part");
    let file = std::io::BufWriter::with_capacity(1 << 18, std::fs::File::create(&partial).map_err(io(&partial))?);
    let outcome = convert::convert(log, &survey, phases, file)?;
    std::fs::rename(&partial, out).map_err(io(out))?;
    let json = convert::stats_json(&survey, &outcome);
    if let Some(path) = stats {
        std::fs::write(path, format!("{json:#}\n")).map_err(io(path))?;
    }
    if survey.lines.damaged > 0 {
        eprintln!("warning: {} of {} NVMe events are damaged and left out", survey.lines.damaged, survey.lines.events);
    }
    Ok(())
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Qemu2bus { log, out, phases, stats } => {
            qemu2bus(&log, &out, phases.as_deref(), stats.as_deref()).map_err(|e| e.to_string())
        }
        Command::ServeVfio { profile, socket, trace, truth, truth_commands, store, link, seed } => {
            vfio::clear_stale_socket(&socket);
            let aspm = match link {
                Link::L0 => Aspm::Off,
                Link::L1 => Aspm::L1,
                Link::L1_2 => Aspm::L1_2,
            };
            let config = vfio::Config { profile, socket, trace, truth, truth_commands, store, aspm, seed };
            vfio::serve(&config).map_err(|e| e.to_string())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
