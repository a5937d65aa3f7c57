//! `wattbell-bus-dump TRACE`: the events of a trace, bursts expanded, one JSON object per line. `-` reads standard
//! input.

use serde_json::json;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::process::ExitCode;
use wattbell_bus::summary::Instants;
use wattbell_bus::{Direction, Item, Player, TraceReader};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

fn run(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let input: Box<dyn Read> = if path == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let reader = TraceReader::new(BufReader::with_capacity(1 << 18, input))?;
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{}", json!({"header": reader.header()}))?;
    let mut player = Player::new(reader);
    for event in &mut player {
        let event = event?;
        let time_ps = event.time_ps;
        let line = match event.item {
            Item::Tlp(direction, tlp) => {
                let (direction, left_out) = (name(direction), tlp.payload.is_none());
                json!({"time_ps": time_ps, "direction": direction, "left_out": left_out, "tlp": hex(&tlp.to_bytes())})
            }
            Item::Rail(r) => {
                json!({"time_ps": time_ps, "rail": {"current_na": r.current_na, "voltage_nv": r.voltage_nv}})
            }
            Item::Sideband(signal, value) => {
                json!({"time_ps": time_ps, "sideband": format!("{signal:?}"), "value": value})
            }
            Item::Summary(s) => {
                let at = |t: u64| if t == Instants::ABSENT { None } else { Some(t) };
                let i = s.instants;
                json!({"time_ps": time_ps, "summary": {
                    "opcode": s.opcode, "qid": s.qid, "cid": s.cid, "status": s.status, "nsid": s.nsid,
                    "slba": s.slba, "blocks": s.blocks, "flags": s.flags,
                    "doorbell_ps": at(i.doorbell_ps), "fetch_ps": at(i.fetch_ps),
                    "first_data_ps": at(i.first_data_ps), "last_data_ps": at(i.last_data_ps),
                    "cqe_ps": at(i.cqe_ps), "msix_ps": at(i.msix_ps), "cq_head_ps": at(i.cq_head_ps),
                }})
            }
            Item::Missed(direction) => json!({"time_ps": time_ps, "missed": name(direction)}),
            Item::End => json!({"time_ps": time_ps, "end": true}),
        };
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    if !player.reader().ended() {
        return Err("the trace has no END: its writer was cut off; all that it holds is above".into());
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(path), None) = (args.next(), args.next()) else {
        eprintln!("usage: wattbell-bus-dump TRACE.wbt (or - for standard input)");
        return ExitCode::from(2);
    };
    match run(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("wattbell-bus-dump: {path}: {e}");
            ExitCode::FAILURE
        }
    }
}
