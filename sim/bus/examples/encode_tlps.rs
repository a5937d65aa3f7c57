//! Makes TLPs for the witness test: JSON lines with fields on standard input, a bus trace on standard output, one TLP
//! or burst per microsecond.

use serde::Deserialize;
use std::io::{self, BufRead, BufWriter, Write};
use wattbell_bus::tlp::{self, CplStatus, Route};
use wattbell_bus::{Body, Burst, Direction, Record, Tlp, TraceHeader, TraceWriter};

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Order {
    MemRead { requester: u16, tag: u16, address: u64, len: u32 },
    MemWrite { requester: u16, tag: u16, address: u64, data: Vec<u8> },
    CfgRead { requester: u16, tag: u16, target: u16, register: u16 },
    CfgWrite { requester: u16, tag: u16, target: u16, register: u16, byte_enables: u8, value: u32 },
    Completion { completer: u16, requester: u16, tag: u16, status: u8 },
    CompletionData { completer: u16, requester: u16, tag: u16, lower_address: u64, remaining: u32, data: Vec<u8> },
    WriteBurst { requester: u16, tag: u16, address: u64, len: u32, count: u16 },
    CompletionBurst { completer: u16, requester: u16, tag: u16, address: u64, len: u32, count: u16, remaining: u32 },
}

const STEP_PS: u32 = 1000;

fn body(order: Order) -> Body {
    let up = |tlp: Tlp| Body::Tlp(Direction::Up, tlp);
    let burst = |header, count, len| {
        Body::Burst(Burst { direction: Direction::Up, header, count, step_ps: STEP_PS, step_bytes: len })
    };
    match order {
        Order::MemRead { requester, tag, address, len } => up(tlp::mem_read(requester, tag, address, len)),
        Order::MemWrite { requester, tag, address, data } => up(tlp::mem_write(requester, tag, address, &data)),
        Order::CfgRead { requester, tag, target, register } => up(tlp::cfg_read0(requester, tag, target, register)),
        Order::CfgWrite { requester, tag, target, register, byte_enables, value } => {
            up(tlp::cfg_write0(requester, tag, target, register, byte_enables, value))
        }
        Order::Completion { completer, requester, tag, status } => {
            let status = [CplStatus::Success, CplStatus::Unsupported, CplStatus::Retry, CplStatus::Abort]
                .into_iter()
                .find(|s| *s as u8 == status)
                .expect("a completion status");
            up(tlp::completion(Route { completer, requester, tag }, status))
        }
        Order::CompletionData { completer, requester, tag, lower_address, remaining, data } => {
            up(tlp::completion_data(Route { completer, requester, tag }, lower_address, &data, remaining))
        }
        Order::WriteBurst { requester, tag, address, len, count } => {
            burst(tlp::mem_write_header(requester, tag, address, len), count, len)
        }
        Order::CompletionBurst { completer, requester, tag, address, len, count, remaining } => {
            let route = Route { completer, requester, tag };
            burst(tlp::completion_data_header(route, address, len, remaining), count, len)
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let header = TraceHeader { source: "encode_tlps".into(), ..TraceHeader::default() };
    let mut writer = TraceWriter::new(BufWriter::new(io::stdout().lock()), &header)?;
    let mut time_ps = 0;
    for line in io::stdin().lock().lines() {
        let body = body(serde_json::from_str(&line?)?);
        let count = if let Body::Burst(b) = &body { u64::from(b.count) } else { 1 };
        writer.record(&Record { time_ps, body })?;
        time_ps += count * u64::from(STEP_PS);
    }
    writer.finish(time_ps)?.flush()?;
    Ok(())
}
