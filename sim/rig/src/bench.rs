//! Measures the speed of the simulation, without ports: a trace in memory, the stream counted and discarded.

use crate::build;
use crate::cli::Bench;
use crate::config::{calibration_writes, Sweep};
use crate::eeprom;
use crate::i2c::I2c;
use crate::machine::{Limits, Pause, Until};
use crate::rig::{Rig, ORIGIN_TICK};
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;
use std::io::{Cursor, Read};
use std::time::{Duration, Instant};
use wattbell_bus::{LinkState, Rail, Signal, TraceHeader, TraceWriter};
use wattbell_spec::registers as reg;

const PS_PER_S: f64 = 1e12;

/// Runs the benchmark described by `options` and returns its JSON.
pub fn run(options: &Bench) -> Result<String, String> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(format!("--seconds must be above 0 and at most 3600, not {}", options.seconds));
    }
    let trace: Box<dyn Read + Send> = match &options.trace {
        Some(path) => {
            Box::new(Cursor::new(std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?))
        }
        None => Box::new(Cursor::new(sleeping_drive(options.seconds).map_err(|e| e.to_string())?)),
    };
    if options.controller {
        return with_controller(options, trace);
    }
    let (mut engine, calibration) = build::machine(&options.model, trace, None, 0)?;
    let clock_ticks = engine.clock_ticks();
    let mut sweep = Sweep::new(clock_ticks);
    sweep.set_interval(options.interval, clock_ticks)?;
    calibration.iter().flat_map(calibration_writes).for_each(|(a, v)| engine.write(a, v));
    sweep.writes().into_iter().for_each(|(a, v)| engine.write(a, v));
    engine.write(reg::COMMAND, reg::COMMAND_RAIL_APPLY);
    engine.write(reg::CONTROL, reg::CONTROL_RUN);
    let limits = Limits { clocks: u64::MAX / 2, tick: (options.seconds * 1e9) as u64, until: Until::End };
    let mut bytes = 0u64;
    let (start, cpu_before_s) = (Instant::now(), cpu_s());
    loop {
        let pause = engine.run(limits, Duration::from_secs(1));
        bytes += engine.take_words().len() as u64;
        if ended(pause)? {
            break;
        }
    }
    let (wall_s, cpu_s) = (start.elapsed().as_secs_f64(), cpu_s() - cpu_before_s);
    let simulated_s = engine.now() as f64 * 1e-9;
    let clocks = engine.now() / clock_ticks;
    let commands = engine.commands();
    Ok(serde_json::json!({
        "fidelity": if options.model.fidelity == crate::cli::Fidelity::Fast { "fast" } else { "rtl" },
        "adc": if options.model.adc == crate::cli::AdcBuild::Serial { "serial" } else { "word" },
        "skip": !options.model.no_skip,
        "interval_s": sweep.interval_s(clock_ticks),
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "simulated_s": simulated_s,
        "simulated_to_wall": simulated_s / wall_s,
        "simulated_to_cpu": simulated_s / cpu_s,
        "clocks_evaluated": engine.evaluated(),
        "clocks_evaluated_per_s": engine.evaluated() as f64 / wall_s,
        "clocks_simulated_per_s": clocks as f64 / wall_s,
        "conversions": engine.sampled(),
        "commands": commands,
        "commands_per_simulated_s": commands as f64 / simulated_s,
        "stream_bytes": bytes,
    })
    .to_string())
}

/// Whether a run that returned with this pause is over.
fn ended(pause: Pause) -> Result<bool, String> {
    match pause {
        Pause::Full
        | Pause::Budget
        | Pause::Input
        | Pause::Idle
        | Pause::Rail(_)
        | Pause::Completed(_)
        | Pause::Levels => Ok(false),
        Pause::Tick | Pause::End | Pause::Stopped => Ok(true),
        Pause::Failed(reason) => Err(reason),
    }
}

/// Measures the speed of a whole rig, controlled by SCPI.
fn with_controller(options: &Bench, trace: Box<dyn Read + Send>) -> Result<String, String> {
    let (machine, calibration) = build::machine(&options.model, trace, None, ORIGIN_TICK)?;
    let eeprom = eeprom::image("virtual-rig", "BENCH", calibration.as_ref());
    let lines = I2c::new(eeprom, options.model.temperature);
    let mut rig = Rig::new(machine, build::soc(&options.model)?, lines, !options.model.no_skip);
    rig.tell(format!("SENS:SWE:TINT {:e};:INIT\n", options.interval).as_bytes());
    let limits = Limits { clocks: u64::MAX / 2, tick: ORIGIN_TICK + (options.seconds * 1e9) as u64, until: Until::End };
    let (before, evaluated) = (rig.controller_clocks(), rig.machine().evaluated());
    let (start, cpu_before_s) = (Instant::now(), cpu_s());
    let mut bytes = 0u64;
    loop {
        let pause = rig.run(limits, Duration::from_secs(1));
        bytes += rig.machine().take_words().len() as u64;
        if ended(pause)? {
            break;
        }
    }
    let (wall_s, cpu_s) = (start.elapsed().as_secs_f64(), cpu_s() - cpu_before_s);
    let simulated_s = (rig.machine().now() - ORIGIN_TICK) as f64 * 1e-9;
    Ok(serde_json::json!({
        "interval_s": options.interval,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "simulated_s": simulated_s,
        "simulated_to_wall": simulated_s / wall_s,
        "simulated_to_cpu": simulated_s / cpu_s,
        "clocks_evaluated": rig.machine().evaluated() - evaluated,
        "controller_clocks_evaluated": rig.controller_clocks() - before,
        "conversions": rig.machine().sampled(),
        "commands": rig.machine().commands(),
        "stream_bytes": bytes,
    })
    .to_string())
}

/// Processor time this process has used, in seconds: the wall time on an otherwise idle machine.
fn cpu_s() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_SELF).map(|u| u.user_time() + u.system_time());
    used.map_or(f64::NAN, |t| t.num_microseconds() as f64 * 1e-6)
}

/// A trace of a drive in L1.2 at 3.3 V and 10 mW.
fn sleeping_drive(seconds: f64) -> wattbell_bus::Result<Vec<u8>> {
    let header = TraceHeader { source: "wattbell-rig bench".into(), timing: "model".into(), ..TraceHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header)?;
    writer.rail(0, Rail { voltage_nv: 3_300_000_000, current_na: 3_030_303 })?;
    writer.sideband(1_000_000, Signal::PerstN, 1)?;
    writer.sideband(2_000_000, Signal::LinkState, LinkState::L1_2 as u8)?;
    writer.finish((seconds * PS_PER_S) as u64 + 1_000_000)
}
