//! From the command line's options to an engine that is ready to run.

use crate::adc::Adc;
use crate::calibration::{calibrate, Calibration};
use crate::cli::{CalibrationKind, Model};
use crate::engine::Engine;
use crate::feed::Feed;
use crate::rtl::{Outputs, Rtl};
use std::io::Read;

/// The rig that `model` describes, with `trace` to play, and what the factory found when it calibrated it.
pub fn rig<R: Read + Send + 'static>(model: &Model, trace: R) -> Result<(Engine, Option<Calibration>), String> {
    let mut adc = Adc::new(&model.board()?);
    let calibration = (model.calibration == CalibrationKind::Factory).then(|| calibrate(&mut adc));
    let mut outputs = Outputs::default();
    let rtl = Rtl::load(&model.library(), &mut outputs).map_err(|e| e.to_string())?;
    let feed = Feed::start(trace).map_err(|e| format!("cannot start a thread: {e}"))?;
    let mut engine = Engine::new(rtl, outputs, adc, feed);
    engine.set_skip(!model.no_skip);
    Ok((engine, calibration))
}
