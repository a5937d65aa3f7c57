//! The command line.

use crate::adc::BoardOptions;
use crate::afe::{FrontEnd, REFERENCE_C};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};

/// The Wattbell instrument, Verilated, behind two pseudo-terminals: data (the block stream) and control (SCPI).
#[derive(Debug, Parser)]
#[command(name = "wattbell-rig", version)]
pub struct Cli {
    /// The task.
    #[command(subcommand)]
    pub command: Task,
}

/// A task of the program.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Play a bus trace into the instrument and serve both ports.
    Play(Box<Play>),
    /// Measure how fast the simulation runs; prints one JSON object.
    Bench(Bench),
    /// Print the board's properties as JSON: the values that a calibration should find.
    Board(Box<Model>),
    /// Play a bus trace in both fidelities and name the first byte, or clock, in which they differ.
    Compare(Compare),
}

/// How the instrument is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fidelity {
    /// The gateware itself, with every register.
    Rtl,
    /// A model of the gateware's clocks: the same bytes, some hundred times faster. Also plays command summaries.
    Fast,
}

/// How the ADCs are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdcBuild {
    /// Conversion results are handed in whole: fast.
    Word,
    /// The bit-serial pins of both ADCs are simulated; the output is the same.
    Serial,
}

/// Whether the factory has calibrated the rig.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CalibrationKind {
    /// Two points a channel, through the rig's own noisy ADCs.
    Factory,
    /// Registers keep their reset values; RAIL blocks say UNCALIBRATED.
    None,
}

/// Options of the board and of how it is simulated.
#[derive(Debug, Clone, Args)]
pub struct Model {
    /// How the instrument is simulated; the output is the same
    #[arg(long, value_enum, default_value_t = Fidelity::Rtl)]
    pub fidelity: Fidelity,
    /// How the ADCs are connected
    #[arg(long, value_enum, default_value_t = AdcBuild::Word)]
    pub adc: AdcBuild,
    /// Library of the Verilated instrument [default: lib_x4_<adc>.so in WATTBELL_RTL_DIR, else in build/rtl of the checkout]
    #[arg(long, value_name = "FILE")]
    pub lib: Option<PathBuf>,
    /// Evaluate every clock, also those in which nothing changes; the output is the same
    #[arg(long)]
    pub no_skip: bool,
    /// Which board: its gain, offset and noise follow from this number
    #[arg(long, value_name = "N", default_value_t = BoardOptions::default().seed)]
    pub seed: u64,
    /// Time constant of the anti-alias filter in seconds
    #[arg(long, value_name = "S", default_value_t = BoardOptions::default().tau_s, allow_negative_numbers = true)]
    pub tau: f64,
    /// Noise of a conversion, RMS, in ADC codes (current 31.25 uA, voltage 19.07 uV)
    #[arg(long, value_name = "LSB", default_value_t = BoardOptions::default().noise_lsb, allow_negative_numbers = true)]
    pub noise: f64,
    /// Gain, offset and calibration errors: 1 as drawn for a board, 0 for none
    #[arg(long, value_name = "SCALE", default_value_t = BoardOptions::default().errors, allow_negative_numbers = true)]
    pub errors: f64,
    /// Full scale of the voltage channel in volts: 5 as on the M.2 board, 20 for rails of 12 V
    #[arg(long, value_name = "V", default_value_t = BoardOptions::default().voltage_range_v)]
    pub voltage_range: f64,
    /// Draw the board from this model of the front end (hw/afe/model.toml), in place of --tau and --noise
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tau", "noise", "voltage_range"])]
    pub afe: Option<PathBuf>,
    /// Temperature of the board in degrees Celsius; the factory calibrated it at 25
    #[arg(long, value_name = "C", default_value_t = REFERENCE_C, allow_negative_numbers = true, requires = "afe")]
    pub temperature: f64,
    /// Longest pause between two records of the trace. A longer one is taken for damage, for simulating it takes its time
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, allow_negative_numbers = true)]
    pub longest_gap: f64,
    /// Whether the factory has calibrated the rig
    #[arg(long, value_enum, default_value_t = CalibrationKind::Factory)]
    pub calibration: CalibrationKind,
}

impl Model {
    /// Returns the board, or the reason why the options are invalid.
    pub fn board(&self) -> Result<BoardOptions, String> {
        for (name, value) in [("--tau", self.tau), ("--noise", self.noise), ("--errors", self.errors)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("{name} must be a number of 0 or more, not {value}"));
            }
        }
        if !(1.0..=100.0).contains(&self.voltage_range) {
            return Err(format!("--voltage-range must be 1 to 100 V, not {}", self.voltage_range));
        }
        if !(-40.0..=125.0).contains(&self.temperature) {
            return Err(format!("--temperature must be -40 to 125 C, not {}", self.temperature));
        }
        let front_end = self.afe.as_deref().map(FrontEnd::load).transpose()?;
        Ok(BoardOptions {
            seed: self.seed,
            tau_s: self.tau,
            noise_lsb: self.noise,
            errors: self.errors,
            voltage_range_v: self.voltage_range,
            front_end,
        })
    }

    /// Returns the longest pause in picoseconds, or the reason why the option is invalid.
    pub fn longest_gap_ps(&self) -> Result<u64, String> {
        if !(self.longest_gap.is_finite() && self.longest_gap > 0.0) {
            return Err(format!("--longest-gap must be hours, more than 0, not {}", self.longest_gap));
        }
        Ok((self.longest_gap * 3.6e15) as u64)
    }

    /// Path of the instrument's library.
    pub fn library(&self) -> PathBuf {
        if let Some(path) = &self.lib {
            return path.clone();
        }
        let name = match self.adc {
            AdcBuild::Word => "lib_x4_word.so",
            AdcBuild::Serial => "lib_x4_serial.so",
        };
        built(name)
    }

    /// Path of the controller's library.
    pub fn controller(&self) -> PathBuf {
        built("lib_controller.so")
    }

    /// Path of the controller's firmware.
    pub fn firmware(&self) -> PathBuf {
        built("firmware.bin")
    }
}

/// A file made by `make rtl`, or packed into the wheel with this program.
fn built(name: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os("WATTBELL_RTL_DIR") {
        return PathBuf::from(dir).join(name);
    }
    // This program lies in <checkout>/sim/target/<profile>, or in wattbell_sim/bin of an installed wheel, beside wattbell_sim/rtl.
    let exe = std::env::current_exe().unwrap_or_default();
    let wheel = exe.parent().and_then(Path::parent).map(|package| package.join("rtl"));
    let checkout = exe.ancestors().skip(1).map(|dir| dir.join("build/rtl"));
    let found = wheel.into_iter().chain(checkout).map(|dir| dir.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from("build/rtl").join(name))
}

/// Options of `play`.
#[derive(Debug, Args)]
pub struct Play {
    /// Bus trace (docs/bus-trace.md); `-` reads it from standard input as it is written
    pub trace: PathBuf,
    /// Serial number [default: that in the EEPROM's file, else VR and the board's number]
    #[arg(long)]
    pub serial: Option<String>,
    /// Keep the EEPROM (identity, calibration, saved settings) in this file of its bytes; made as the factory leaves it where there is none
    #[arg(long, value_name = "FILE")]
    pub eeprom: Option<PathBuf>,
    /// Write the stream to a file in place of the data port
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Make links DIR/data and DIR/control to the ports
    #[arg(long, value_name = "DIR")]
    pub link_dir: Option<PathBuf>,
    /// Capture at once, not at INITiate. A host that opens the data port later misses the beginning
    #[arg(long)]
    pub autostart: bool,
    /// End when the trace was played and the host has read everything
    #[arg(long)]
    pub exit_on_done: bool,
    /// Answer the control port for so many seconds after the trace, then end [default: until killed]
    #[arg(long, value_name = "S", conflicts_with = "exit_on_done")]
    pub linger: Option<f64>,
    /// Do not let virtual time run ahead of wall time
    #[arg(long)]
    pub realtime: bool,
    /// Let the stream out at so many MB/s of virtual time, as a USB link would; then the rig may overflow [default: no limit]
    #[arg(long, value_name = "MBPS", allow_negative_numbers = true)]
    pub usb_mbps: Option<f64>,
    /// Board and simulation
    #[command(flatten)]
    pub model: Model,
}

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// Bus trace to play [default: a drive that sleeps at a constant 10 mW]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Virtual seconds to simulate
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub seconds: f64,
    /// Seconds between conversions
    #[arg(long, value_name = "S", default_value_t = 1e-6)]
    pub interval: f64,
    /// With the controller and its firmware, as `play` has them; without, the instrument alone
    #[arg(long)]
    pub controller: bool,
    /// Board and simulation
    #[command(flatten)]
    pub model: Model,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Bus trace
    pub trace: PathBuf,
    /// Seconds between conversions
    #[arg(long, value_name = "S", default_value_t = 1e-6)]
    pub interval: f64,
    /// Conversions a sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub decimation: u32,
    /// Board and simulation
    #[command(flatten)]
    pub model: Model,
}
