//! Corrupted traces through the feed and the model of the instrument: played, or rejected with a message, and always
//! terminating.

#[path = "../../bus/tests/common/fuzz.rs"]
mod fuzz;

use clap::Parser;
use fuzz::{each, spoil};
use std::io::Cursor;
use std::time::Duration;
use wattbell_bus::{tlp, Body, Direction, Rail, Record, Signal, TraceHeader, TraceWriter};
use wattbell_rig::build;
use wattbell_rig::cli::{Cli, Model, Task};
use wattbell_rig::machine::{Limits, Machine, Pause, Until};
use wattbell_spec::registers as reg;

/// Returns the model that `wattbell-rig board` takes. A pause of more than a tenth of a second is rejected, so that no case takes long.
fn model() -> Model {
    match Cli::parse_from(["wattbell-rig", "board", "--fidelity", "fast", "--longest-gap", "3e-5"]).command {
        Task::Board(model) => *model,
        other => panic!("{other:?}"),
    }
}

fn trace(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &TraceHeader::default()).unwrap();
    let mut time_ps = 0;
    for _ in 0..rng.usize(..30) {
        time_ps += rng.u64(..1 << 30);
        let direction = if rng.bool() { Direction::Down } else { Direction::Up };
        let body = match rng.u8(..5) {
            0 => Body::Tlp(direction, tlp::mem_write(1, 2, u64::from(rng.u16(..)) & !3, &[rng.u8(..); 64])),
            1 => Body::Tlp(direction, tlp::mem_read(1, 0, rng.u64(..1 << 40) & !63, 64)),
            2 => Body::Missed(direction),
            3 => Body::Rail(Rail { current_na: rng.i64(..), voltage_nv: rng.i64(..) }),
            _ => Body::Sideband([Signal::PerstN, Signal::ClkreqN, Signal::LinkState][rng.usize(..3)], rng.u8(..8)),
        };
        writer.record(&Record { time_ps, body }).unwrap();
    }
    writer.finish(time_ps + 1000).unwrap()
}

#[test]
fn spoilt_traces_come_to_an_end() {
    each(150, |rng| {
        let mut file = trace(rng);
        spoil(rng, &mut file);
        let (mut rig, _) = build::fast(&model(), Cursor::new(file), 0).unwrap();
        rig.write(reg::CONTROL, reg::CONTROL_RUN);
        let limits = Limits { clocks: u64::MAX / 2, tick: u64::MAX / 2, until: Until::End };
        loop {
            match rig.run(limits, Duration::from_secs(20)) {
                Pause::End => break,
                Pause::Failed(reason) => {
                    assert!(!reason.is_empty());
                    break;
                }
                Pause::Input => panic!("the reader hangs"),
                _ => drop(rig.take_words()),
            }
        }
    });
}
