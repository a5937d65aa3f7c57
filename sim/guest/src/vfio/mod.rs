//! The SSD model as a PCI NVMe device of a QEMU guest, over vfio-user (`-device vfio-user-pci`).
//!
//! The guest's Linux decides traffic, ordering, queues and power policy; the model decides timing and power. Time 0 is the start of the
//! server. Model time follows the machine's monotonic clock. The model's actions reach guest memory when they are due, or as soon after as
//! this process gets the processor.

mod backend;
mod drive;
mod guest;

pub use drive::{Clock, Drive};

use backend::Backend;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfio_user::Server;
use wattbell_bus::{create_trace, TraceHeader};
use wattbell_ssd::driver::TruthSink;
use wattbell_ssd::{Aspm, Controller, Options, Profile, TraceSink};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of a built-in profile, or a path.
    pub profile: String,
    /// Unix socket to listen on; must not exist.
    pub socket: PathBuf,
    /// Bus trace to write.
    pub trace: PathBuf,
    /// The model's truth about the run, to be written at its end.
    pub truth: Option<PathBuf>,
    /// Every command as the model saw it, to be written as they end.
    pub truth_commands: Option<PathBuf>,
    /// Keep and return written data.
    pub store: bool,
    /// Link power states: a guest's root complex offers none, so they are set here.
    pub aspm: Aspm,
    /// Seed of everything random.
    pub seed: u64,
}

/// Reasons why a drive cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The profile is missing or broken.
    #[error("{0}")]
    Profile(#[from] wattbell_ssd::ProfileError),
    /// The trace cannot be written.
    #[error("{path}: {source}")]
    Trace {
        /// The file.
        path: String,
        /// The cause.
        source: wattbell_bus::Error,
    },
    /// The truth cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The trace or the truth could not be written to its end.
    #[error("{0}")]
    Output(String),
    /// The socket.
    #[error("socket {path}: {source}")]
    Socket {
        /// The socket's path.
        path: String,
        /// The cause.
        source: vfio_user::Error,
    },
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
}

/// Serves one guest until it hangs up; the trace is then complete.
pub fn serve(config: &Config) -> Result<(), Error> {
    let profile = Profile::load(&config.profile)?;
    let trace_error = |source| Error::Trace { path: config.trace.display().to_string(), source };
    let socket_error = |source| Error::Socket { path: config.socket.display().to_string(), source };
    let vectors = u32::from(*profile.limits.io_queues) + 1;
    let writer = create_trace(&config.trace, &header(config, &profile)).map_err(trace_error)?;
    let commands = config.truth_commands.as_deref().map(create).transpose()?;
    let options = Options { seed: config.seed, store: config.store, msix_outside: true, ..Options::default() };
    let controller = Controller::new(profile, options, TruthSink::new(TraceSink::new(writer), commands));
    let server =
        Server::new(&config.socket, false, backend::irqs(vectors), backend::regions()).map_err(socket_error)?;
    let drive = Arc::new(Drive::start(controller, config.aspm));
    let clock = {
        let drive = Arc::clone(&drive);
        std::thread::Builder::new().name("model".into()).spawn(move || drive.run()).map_err(Error::Thread)?
    };
    let served = server.run(&mut Backend::new(Arc::clone(&drive)));
    drive.stop();
    if clock.join().is_err() {
        eprintln!("error: the model's thread failed; the trace ends there");
    }
    if let Some(sink) = drive.finish() {
        let truth = sink.finish(&[]).map_err(Error::Output)?;
        if let Some(path) = &config.truth {
            let io_error = |source| Error::Io { path: path.display().to_string(), source };
            std::fs::write(path, format!("{truth:#}\n")).map_err(io_error)?;
        }
    }
    // QEMU hanging up without notice is an end like any other: the trace is complete.
    match served {
        Ok(())
        | Err(
            vfio_user::Error::ReceiveWithFd(_) | vfio_user::Error::StreamRead(_) | vfio_user::Error::StreamWrite(_),
        ) => Ok(()),
        Err(source) => Err(socket_error(source)),
    }
}

/// A new file, or a reason why there is none.
fn create(path: &Path) -> Result<Box<dyn Write + Send>, Error> {
    let file = File::create(path).map_err(|source| Error::Io { path: path.display().to_string(), source })?;
    Ok(Box::new(BufWriter::new(file)))
}

fn header(config: &Config, profile: &Profile) -> TraceHeader {
    let mut extra = serde_json::Map::new();
    extra.insert("link_power".into(), format!("{:?}", config.aspm).into());
    TraceHeader {
        source: "vfio-user".into(),
        profile: profile.name.clone(),
        timing: "model".into(),
        summaries: false,
        notes: vec![
            "traffic, queues and power policy are those of Linux in a guest; timing and power are the model's".into(),
            "the guest runs on an emulated processor: time between commands is its, not a computer's".into(),
            "configuration writes of QEMU itself and bulk reads of configuration space are not on the trace".into(),
        ],
        extra,
    }
}

/// Removes a socket left by a killed server; a socket in use, or anything else, stays.
pub fn clear_stale_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        let _ = std::fs::remove_file(path);
    }
}
