//! Plays one trace in both fidelities at once and requires identical streams. The streams must agree byte for byte, with the last word of
//! each block in the same cycle.

use crate::build;
use crate::cli::{AdcBuild, Compare, Fidelity, Model};
use crate::config::{calibration_writes, Sweep};
use crate::machine::{Limits, Machine, Pause, Until};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use wattbell_spec::registers as reg;
use wattbell_spec::wire;

/// Cycles evaluated before the other side continues.
const SLICE: u64 = 200_000;
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes shown on both sides of the first difference.
const CONTEXT: usize = 16;

/// One side: a machine and its output that was not compared yet.
struct Side<'a> {
    name: &'static str,
    machine: &'a mut dyn Machine,
    stream: VecDeque<u8>,
    stopping: bool,
    done: bool,
}

impl Side<'_> {
    /// Runs for a while.
    fn run(&mut self) -> Result<(), String> {
        if self.done {
            return Ok(());
        }
        let limits =
            Limits { clocks: SLICE, tick: u64::MAX, until: if self.stopping { Until::Stopped } else { Until::End } };
        match self.machine.run(limits, PATIENCE) {
            Pause::End => {
                self.machine.write(reg::CONTROL, 0);
                self.stopping = true;
            }
            Pause::Stopped => self.done = true,
            Pause::Failed(reason) => return Err(reason),
            Pause::Budget
            | Pause::Full
            | Pause::Input
            | Pause::Tick
            | Pause::Idle
            | Pause::Rail(_)
            | Pause::Completed(_)
            | Pause::Levels => {}
        }
        self.stream.extend(self.machine.take_words());
        Ok(())
    }
}

/// How much was compared so far.
#[derive(Debug, Default)]
struct Tally {
    blocks: u64,
    bytes: u64,
}

/// Runs the comparison described by `options` and returns a JSON summary; an error names the first difference.
pub fn run(options: &Compare) -> Result<String, String> {
    let of_rtl = Model { fidelity: Fidelity::Rtl, ..options.model.clone() };
    // How the RTL is simulated does not concern the other side.
    let of_fast =
        Model { fidelity: Fidelity::Fast, adc: AdcBuild::Word, no_skip: false, lib: None, ..options.model.clone() };
    let (mut rtl, calibration) = build::rtl(&of_rtl, open(&options.trace)?, 0)?;
    let (mut fast, _) = build::fast(&of_fast, open(&options.trace)?, 0)?;
    rtl.note_ends();
    fast.note_ends();
    let mut sweep = Sweep::new(rtl.clock_ticks());
    sweep.set_interval(options.interval, rtl.clock_ticks())?;
    sweep.set_decimation(options.decimation, rtl.clock_ticks())?;
    let machines: [&mut dyn Machine; 2] = [&mut rtl, &mut fast];
    for machine in machines {
        calibration.iter().flat_map(calibration_writes).for_each(|(a, v)| machine.write(a, v));
        sweep.writes().into_iter().for_each(|(a, v)| machine.write(a, v));
        machine.write(reg::COMMAND, reg::COMMAND_RAIL_APPLY);
        machine.write(reg::RUN_ID, 0x8C0F_FEE1);
        machine.write(reg::CONTROL, reg::CONTROL_RUN);
    }
    let mut tally = Tally::default();
    let (mut rtl_stream, mut fast_stream) = (VecDeque::new(), VecDeque::new());
    let (mut rtl_state, mut fast_state) = ((false, false), (false, false));
    let (mut rtl_ends, mut fast_ends) = (VecDeque::new(), VecDeque::new());
    loop {
        let mut a =
            Side { name: "rtl", machine: &mut rtl, stream: rtl_stream, stopping: rtl_state.0, done: rtl_state.1 };
        let mut b =
            Side { name: "fast", machine: &mut fast, stream: fast_stream, stopping: fast_state.0, done: fast_state.1 };
        // The side that is behind goes first, so that neither piles up output that cannot be compared yet.
        let behind = if !a.done && (b.done || a.machine.now() <= b.machine.now()) { &mut a } else { &mut b };
        behind.run().map_err(|e| format!("{}: {e}", behind.name))?;
        let over = a.done && b.done;
        (rtl_state, fast_state) = ((a.stopping, a.done), (b.stopping, b.done));
        (rtl_stream, fast_stream) = (a.stream, b.stream);
        rtl_ends.extend(rtl.take_ends());
        fast_ends.extend(fast.take_ends());
        let ends = (&mut rtl_ends, &mut fast_ends);
        if let Err(difference) = compare(&mut rtl_stream, &mut fast_stream, ends, &mut tally, over) {
            let caveat = fast.caveat().map_or(String::new(), |c| format!("\n  outside the claim of equality: {c}"));
            return Err(format!("{difference}{caveat}"));
        }
        if over {
            break;
        }
    }
    let (rtl_commands, fast_commands) = (rtl.commands(), fast.commands());
    let json = serde_json::json!({
        "equal": true,
        "blocks": tally.blocks,
        "bytes": tally.bytes,
        "seconds": rtl.now() as f64 * 1e-9,
        "conversions": rtl.sampled(),
        "commands": rtl_commands,
        "caveat": fast.caveat(),
    });
    if rtl_commands != fast_commands & 0xFFFF_FFFF {
        return Err(format!("rtl made {rtl_commands} command records, fast {fast_commands}"));
    }
    Ok(json.to_string())
}

/// Compares whole blocks at the front of both streams and removes them.
fn compare(
    rtl: &mut VecDeque<u8>,
    fast: &mut VecDeque<u8>,
    (rtl_ends, fast_ends): (&mut VecDeque<u64>, &mut VecDeque<(u64, u8)>),
    tally: &mut Tally,
    over: bool,
) -> Result<(), String> {
    loop {
        let (a, b) = (front(rtl), front(fast));
        let (Some(a), Some(b)) = (a, b) else {
            if over && (a.is_some() || b.is_some() || !rtl.is_empty() || !fast.is_empty()) {
                let longer = if rtl.len() > fast.len() { "rtl" } else { "fast" };
                return Err(format!("{} blocks are equal, then {longer} goes on alone", tally.blocks));
            }
            return Ok(());
        };
        let (x, y): (Vec<u8>, Vec<u8>) = (rtl.drain(..a).collect(), fast.drain(..b).collect());
        if x != y {
            return Err(describe(&x, &y, tally));
        }
        // The last word is in the output register in the cycle after the one that computed it.
        let (at, want) = (rtl_ends.pop_front().unwrap_or_default(), fast_ends.pop_front().unwrap_or_default().0 + 1);
        if at != want {
            let kind = kind_name(x[wire::header::KIND.0 / 8]);
            return Err(format!(
                "block {} ({kind}) is equal, but rtl sends its last word in clock {at}, fast in clock {want}",
                tally.blocks
            ));
        }
        tally.blocks += 1;
        tally.bytes += a as u64;
    }
}

/// Length of the first block of `stream`, if it is complete.
fn front(stream: &VecDeque<u8>) -> Option<usize> {
    let at = wire::header::LENGTH.0 / 8;
    let payload = u16::from_le_bytes([*stream.get(at)?, *stream.get(at + 1)?]);
    let length = wire::HEADER_SIZE + usize::from(payload) + wire::CRC_SIZE;
    (stream.len() >= length).then_some(length)
}

fn kind_name(kind: u8) -> &'static str {
    match kind {
        wire::block_content_code::COMMANDS => "COMMANDS",
        wire::block_content_code::RAIL => "RAIL",
        wire::block_content_code::EVENTS => "EVENTS",
        wire::block_content_code::TLP => "TLP",
        wire::block_content_code::STATUS => "STATUS",
        _ => "unknown",
    }
}

/// Names the first byte in which two blocks differ, and its surroundings.
fn describe(rtl: &[u8], fast: &[u8], tally: &Tally) -> String {
    let kind = |block: &[u8]| kind_name(block[wire::header::KIND.0 / 8]);
    let tick = |block: &[u8]| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&block[wire::header::FIRST_TICK.0 / 8..][..8]);
        u64::from_le_bytes(bytes)
    };
    let at = rtl.iter().zip(fast).position(|(x, y)| x != y).unwrap_or(rtl.len().min(fast.len()));
    // A length or a tick that differs says less than the first record that does.
    let body = wire::HEADER_SIZE;
    let in_body = rtl[body..].iter().zip(&fast[body..]).position(|(x, y)| x != y).map(|p| p + body);
    let shown = if kind(rtl) == kind(fast) { in_body.unwrap_or(at) } else { at };
    let size = match rtl[wire::header::KIND.0 / 8] {
        wire::block_content_code::COMMANDS => wire::COMMAND_SIZE,
        wire::block_content_code::EVENTS => wire::EVENT_SIZE,
        _ => 0,
    };
    let record = if size != 0 && shown >= body { format!(", record {}", (shown - body) / size) } else { String::new() };
    let hex = |block: &[u8]| {
        let from = shown.saturating_sub(CONTEXT);
        let to = (shown + CONTEXT).min(block.len());
        block.get(from..to).unwrap_or_default().iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
    };
    format!(
        "block {} (byte {} of the stream) differs, first in byte {at} of the block; shown around byte {shown}{record}\n  \
         rtl:  {:8} of {:4} bytes, first tick {:12}: {}\n  fast: {:8} of {:4} bytes, first tick {:12}: {}",
        tally.blocks,
        tally.bytes,
        kind(rtl),
        rtl.len(),
        tick(rtl),
        hex(rtl),
        kind(fast),
        fast.len(),
        tick(fast),
        hex(fast),
    )
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| format!("cannot read the bus trace {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut b = vec![0; wire::HEADER_SIZE];
        b[wire::header::KIND.0 / 8] = kind;
        b[wire::header::LENGTH.0 / 8] = payload.len() as u8;
        b.extend_from_slice(payload);
        b.extend_from_slice(&[0; wire::CRC_SIZE]);
        b
    }

    fn held(rtl: &[u8], fast: &[u8], rtl_end: u64) -> Result<u64, String> {
        let mut tally = Tally::default();
        let mut ends = (VecDeque::from([rtl_end]), VecDeque::from([(9, 0)]));
        let (mut a, mut b) = (rtl.iter().copied().collect(), fast.iter().copied().collect());
        compare(&mut a, &mut b, (&mut ends.0, &mut ends.1), &mut tally, true).map(|()| tally.blocks)
    }

    #[test]
    fn equal_streams_are_equal_and_the_rest_is_told_apart() {
        let a = block(wire::block_content_code::EVENTS, &[1; 32]);
        let mut other = a.clone();
        other[wire::HEADER_SIZE + 20] = 7;
        assert_eq!(held(&a, &a, 10), Ok(1));
        assert!(held(&a, &other, 10).unwrap_err().contains("record 1"));
        assert!(held(&a, &a, 11).unwrap_err().contains("in clock 11, fast in clock 10"));
        assert!(held(&a, &[], 10).unwrap_err().contains("rtl goes on alone"));
    }
}
