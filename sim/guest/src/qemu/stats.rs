//! Commands and bytes counted straight from the log's lines: a cross-check of everything behind the converter.
//!
//! Nothing here looks at queues, slots or times; phases are told by the in-band marker (docs/capture.md).

use super::event::{opcode, Event};
use super::survey::{opcode_name, Namespace};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// Feature identifier of the in-band marker.
const MARKER_FID: u8 = 0xD0;

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    count: u64,
    bytes: u64,
}

/// Counts of a whole log.
#[derive(Debug, Default)]
pub struct Counts {
    phase: u32,
    tallies: BTreeMap<(u32, bool, u8), Tally>,
    /// Blocks whose bytes the log does not give, by phase, namespace and opcode.
    blocks: BTreeMap<(u32, u32, u8), u64>,
    dsm: (u32, u32),
    completions: u64,
    failed: u64,
}

impl Counts {
    /// Takes an event of the log.
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::IoCmd { nsid, opc, .. } => {
                self.tallies.entry((self.phase, true, opc)).or_default().count += 1;
                if opc == opcode::DSM {
                    self.dsm = (self.phase, nsid);
                }
            }
            Event::AdminCmd { opc, .. } => self.tallies.entry((self.phase, false, opc)).or_default().count += 1,
            Event::Blocks { count: Some(count), opc, .. } => {
                self.tallies.entry((self.phase, true, opc)).or_default().bytes += count;
            }
            Event::Blocks { count: None, nsid, nlb, opc, .. } => {
                *self.blocks.entry((self.phase, nsid, opc)).or_default() += u64::from(nlb);
            }
            Event::DsmRange { nlb, .. } => {
                *self.blocks.entry((self.dsm.0, self.dsm.1, opcode::DSM)).or_default() += u64::from(nlb);
            }
            Event::GetFeature { fid: MARKER_FID, cdw11, .. } => match cdw11 & 0xFF {
                1 => self.phase = cdw11 >> 8,
                2 => self.phase = 0,
                _ => {}
            },
            Event::Complete { status, .. } => {
                self.completions += 1;
                self.failed += u64::from(status & 0x7FF != 0);
            }
            _ => {}
        }
    }

    /// Turns blocks into bytes where the log gives blocks only (Dataset Management, Compare, Verify).
    pub fn finish(&mut self, namespaces: &BTreeMap<u32, Namespace>) {
        for (&(phase, nsid, opc), blocks) in &self.blocks {
            let size = namespaces.get(&nsid).copied().unwrap_or_default().lba_size();
            self.tallies.entry((phase, true, opc)).or_default().bytes += blocks * u64::from(size);
        }
    }

    fn table(&self, io: bool, phase: Option<u32>) -> Value {
        let mut out: BTreeMap<String, Tally> = BTreeMap::new();
        for (&(at, is_io, opc), tally) in &self.tallies {
            if is_io == io && phase.is_none_or(|p| p == at) {
                let sum = out.entry(opcode_name(io, opc)).or_default();
                sum.count += tally.count;
                sum.bytes += tally.bytes;
            }
        }
        let entry = |t: Tally| if io { json!({"count": t.count, "bytes": t.bytes}) } else { json!({"count": t.count}) };
        Value::Object(out.into_iter().map(|(name, t)| (name, entry(t))).collect::<Map<_, _>>())
    }

    /// `io`, `admin`, `completions`, `failed`, and `phases` by number (phase 0 is what lies between them).
    pub fn to_json(&self) -> Value {
        let numbers: std::collections::BTreeSet<u32> = self.tallies.keys().map(|k| k.0).collect();
        let phases: Map<String, Value> =
            numbers.into_iter().map(|p| (p.to_string(), self.table(true, Some(p)))).collect();
        json!({
            "io": self.table(true, None),
            "admin": self.table(false, None),
            "completions": self.completions,
            "failed": self.failed,
            "phases": phases,
        })
    }
}
