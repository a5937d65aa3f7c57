//! `wattbell-rig`: see `wattbell_rig`.

use clap::Parser;
use crossbeam_channel::bounded;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;
use wattbell_rig::cli::{Cli, Play, Task};
use wattbell_rig::eeprom::{self, NAME_MAX};
use wattbell_rig::eeprom_file::EepromFile;
use wattbell_rig::i2c::I2c;
use wattbell_rig::output::{Output, Sink};
use wattbell_rig::pty::{listen, speak, Pty};
use wattbell_rig::registration::{rigs_dir, Ports, Registration};
use wattbell_rig::rig::{Rig, ORIGIN_TICK};
use wattbell_rig::session::{Control, Options, Session};
use wattbell_rig::status::Status;
use wattbell_rig::{bench, build, compare};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Task::Play(options) => play(&options),
        Task::Compare(options) => compare::run(&options).map(|json| println!("{json}")),
        Task::Board(model) => build::describe(&model).map(|json| println!("{json}")),
        Task::Bench(options) => bench::run(&options).map(|json| println!("{json}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("wattbell-rig: error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn play(options: &Play) -> Result<(), String> {
    let seconds = |value: f64, name: &str| {
        Duration::try_from_secs_f64(value).map_err(|_| format!("{name} must be seconds, 0 or more, not {value}"))
    };
    let linger = options.linger.map(|value| seconds(value, "--linger")).transpose()?;
    if let Some(mbps) = options.usb_mbps {
        // One word per cycle is the gateware's maximum; a thousandth of a byte per second is no link.
        if !(1e-3..=1e6).contains(&mbps) {
            return Err(format!("--usb-mbps must be 0.001 to 1000000, not {mbps}"));
        }
    }
    let bytes_per_s = options.usb_mbps.map(|mbps| mbps * 1e6);
    let mut serial = options.serial.clone().unwrap_or_else(|| format!("VR{:04}", options.model.seed));
    if !is_name(&serial) {
        return Err(format!("--serial must be 1 to {NAME_MAX} letters, digits, '-', '_' and '.', not {serial:?}"));
    }
    let (machine, calibration) = build::machine(&options.model, open(&options.trace)?, bytes_per_s, ORIGIN_TICK)?;
    let soc = build::soc(&options.model)?;
    let factory = eeprom::image("virtual-rig", &serial, calibration.as_ref());
    let kept = options.eeprom.as_ref().map(|path| EepromFile::open(path, || factory.clone())).transpose()?;
    let eeprom = kept.as_ref().map_or(factory, |file| file.bytes().to_vec());
    if options.serial.is_none() {
        serial = eeprom::serial(&eeprom).filter(|name| is_name(name)).unwrap_or(serial);
    }
    let rig = Rig::new(machine, soc, I2c::new(eeprom, options.model.temperature), !options.model.no_skip);

    let quit = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&quit)).map_err(|e| format!("signal handler: {e}"))?;
    }
    let no_pty = |e| format!("cannot make a pseudo-terminal: {e}");
    let (sink, data) = match &options.output {
        Some(path) => {
            let file = File::create(path).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
            (Sink::File(Arc::new(file)), path.display().to_string())
        }
        None => {
            let pty = Pty::open_for_writing().map_err(no_pty)?;
            let path = pty.path().to_owned();
            (Sink::Pty(Arc::new(pty)), path)
        }
    };
    let output = Output::start(sink).map_err(|e| e.to_string())?;
    let control_pty = Arc::new(Pty::open().map_err(no_pty)?);
    let status = Status::default();
    let socket = status.serve().map_err(|e| format!("cannot make a socket: {e}"))?;
    let ports = Ports { serial, data, control: control_pty.path().to_owned(), status: socket };
    let (heard_in, heard) = bounded(16);
    let (said, said_out) = bounded(16);
    let mouth = Arc::clone(&control_pty);
    thread("listen", move || listen(&control_pty, &heard_in))?;
    thread("speak", move || speak(&mouth, &said_out))?;
    let dir = rigs_dir();
    let session_options = Options {
        autostart: options.autostart,
        exit_on_done: options.exit_on_done,
        linger,
        realtime: options.realtime,
    };
    let session = Session::new(rig, output, Control { heard, said }, session_options, status, quit).keeping(kept);
    let registration = Registration::new(&dir, &ports, options.link_dir.as_deref())
        .map_err(|e| format!("cannot register the rig in {}: {e}", dir.display()))?;
    println!("{}", ports.to_json());
    let _ = std::io::stdout().flush();
    let done = session.run();
    drop(registration);
    done
}

/// Whether a rig may have this serial number, which is also a file name.
fn is_name(serial: &str) -> bool {
    (1..=NAME_MAX).contains(&serial.len())
        && serial.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !serial.starts_with('.')
}

/// A thread for one direction of the control port.
fn thread(name: &str, work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), String> {
    let work = move || {
        if let Err(error) = work() {
            eprintln!("wattbell-rig: error: control port: {error}");
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop).map_err(|e| e.to_string())
}

fn open(path: &Path) -> Result<Box<dyn Read + Send>, String> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(format!("cannot read the bus trace {}: {error}", path.display())),
    }
}
