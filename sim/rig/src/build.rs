//! From the command line's options to an instrument ready to run.

use crate::adc::Adc;
use crate::afe::REFERENCE_C;
use crate::calibration::{calibrate, Calibration};
use crate::cli::{AdcBuild, CalibrationKind, Fidelity, Model};
use crate::engine::Engine;
use crate::fast::Fast;
use crate::feed::{Feed, Summaries};
use crate::machine::Machine;
use crate::rtl::{Outputs, Rtl};
use crate::soc::Soc;
use std::io::Read;

/// The controller described by `model`.
pub fn soc(model: &Model) -> Result<Soc, String> {
    Soc::load(&model.controller(), &model.firmware()).map_err(|e| e.to_string())
}

/// The instrument described by `model`, with `trace` to play from tick `origin` on, and the result of the factory's
/// calibration. With `bytes_per_s`, its stream leaves no faster (in virtual time).
pub fn machine<R: Read + Send + 'static>(
    model: &Model,
    trace: R,
    bytes_per_s: Option<f64>,
    origin: u64,
) -> Result<(Box<dyn Machine>, Option<Calibration>), String> {
    if model.fidelity == Fidelity::Fast {
        let (fast, calibration) = fast(model, trace, origin)?;
        if bytes_per_s.is_some() {
            return Err("--usb-mbps needs --fidelity rtl: the fast model's stream leaves at once".into());
        }
        return Ok((Box::new(fast), calibration));
    }
    let (mut engine, calibration) = rtl(model, trace, origin)?;
    if let Some(bytes_per_s) = bytes_per_s {
        engine.set_pace(bytes_per_s);
    }
    Ok((Box::new(engine), calibration))
}

/// Describes the board of `model` as JSON: `delay_s` by path.
pub fn describe(model: &Model) -> Result<String, String> {
    let (coarse, fine) = Adc::new(&model.board()?).delays_s();
    let fine = fine.map_or(String::new(), |delay| format!(r#", "fine": {delay:e}"#));
    Ok(format!(r#"{{"delay_s": {{"coarse": {coarse:e}{fine}}}}}"#))
}

fn board(model: &Model) -> Result<(Adc, Option<Calibration>), String> {
    let mut adc = Adc::new(&model.board()?);
    let calibration = (model.calibration == CalibrationKind::Factory).then(|| calibrate(&mut adc));
    adc.warm_to(model.temperature - REFERENCE_C);
    Ok((adc, calibration))
}

/// The gateware itself.
pub fn rtl<R: Read + Send + 'static>(
    model: &Model,
    trace: R,
    origin: u64,
) -> Result<(Engine, Option<Calibration>), String> {
    let (adc, calibration) = board(model)?;
    let mut outputs = Outputs::default();
    let rtl = Rtl::load(&model.library(), &mut outputs).map_err(|e| e.to_string())?;
    let feed = Feed::start(trace, Summaries::Refused, model.longest_gap_ps()?)
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    let mut engine = Engine::new(rtl, outputs, adc, feed, origin);
    engine.set_skip(!model.no_skip);
    Ok((engine, calibration))
}

/// The cycle-level model.
pub fn fast<R: Read + Send + 'static>(
    model: &Model,
    trace: R,
    origin: u64,
) -> Result<(Fast, Option<Calibration>), String> {
    if model.adc == AdcBuild::Serial || model.no_skip || model.lib.is_some() {
        return Err(
            "--adc serial, --no-skip and --lib choose how the RTL is simulated: they need --fidelity rtl".into()
        );
    }
    let (adc, calibration) = board(model)?;
    let feed = Feed::start(trace, Summaries::Taken, model.longest_gap_ps()?)
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    Ok((Fast::new(adc, feed, origin), calibration))
}
