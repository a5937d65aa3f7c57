//! Corrupted QEMU logs: a trace that reads back, or an error.

#[path = "../../bus/tests/common/fuzz.rs"]
mod fuzz;

use fuzz::{each, spoil_text};
use wattbell_bus::{Player, TraceReader};
use wattbell_guest::qemu::{convert::convert, survey::survey};

const LOG: &str = include_str!("data/all-events.log");

#[test]
fn spoilt_logs_are_traces_or_errors() {
    let path = std::env::temp_dir().join(format!("wattbell-fuzz-{}.log", std::process::id()));
    let mut converted = 0;
    each(400, |rng| {
        let lines: Vec<&str> = LOG.lines().collect();
        let from = if rng.bool() { 0 } else { rng.usize(..lines.len()) };
        let part = lines[from..(from + rng.usize(1..120)).min(lines.len())].join("\n");
        std::fs::write(&path, spoil_text(rng, &part)).unwrap();
        let Ok(found) = survey(&path) else { return };
        let mut trace = Vec::new();
        if convert(&path, &found, None, &mut trace).is_err() {
            return;
        }
        assert!(trace.len() < 100 << 20, "{} bytes of trace for one of {} bytes of log", trace.len(), part.len());
        for event in Player::new(TraceReader::new(&trace[..]).unwrap()).take(1_000_000) {
            event.unwrap();
        }
        converted += 1;
    });
    std::fs::remove_file(&path).unwrap();
    assert!(converted > 0, "no log was good enough to be converted: this tests nothing");
}
