//! Commands and bytes counted straight from the log's lines, to cross-check everything downstream of the converter.
//!
//! Nothing here looks at queues, slots or times; phases are recognised by the in-band marker (docs/capture.md).

use super::event::Event;
use super::namespace::{lba_size, Namespace};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, HashMap};
use wattbell_spec::nvme::{self, feature, io};

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
    /// Current block size of each namespace in bytes.
    lba_sizes: HashMap<u32, u32>,
    /// Blocks from before the log revealed their size, by phase, namespace and opcode.
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
                if opc == io::DSM {
                    self.dsm = (self.phase, nsid);
                }
            }
            Event::AdminCmd { opc, .. } => self.tallies.entry((self.phase, false, opc)).or_default().count += 1,
            Event::Blocks { count: Some(count), nsid, nlb, opc, .. } => {
                if let Some(size) = lba_size(nlb, count) {
                    self.lba_sizes.insert(nsid, size);
                }
                self.tallies.entry((self.phase, true, opc)).or_default().bytes += count;
            }
            Event::Blocks { count: None, nsid, nlb, opc, .. } => self.add_blocks(self.phase, nsid, opc, nlb),
            Event::DsmRange { nlb, .. } => self.add_blocks(self.dsm.0, self.dsm.1, io::DSM, nlb),
            Event::GetFeature { fid: feature::MARKER, cdw11, .. } => match cdw11 & 0xFF {
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

    fn add_blocks(&mut self, phase: u32, nsid: u32, opc: u8, blocks: u32) {
        match self.lba_sizes.get(&nsid) {
            Some(&size) => {
                let bytes = u64::from(blocks) * u64::from(size);
                self.tallies.entry((phase, true, opc)).or_default().bytes += bytes;
            }
            None => *self.blocks.entry((phase, nsid, opc)).or_default() += u64::from(blocks),
        }
    }

    /// Converts blocks to bytes where the log gives only blocks (Dataset Management, Compare, Verify).
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

    /// `io`, `admin`, `completions`, `failed`, and `phases` by number (phase 0 is everything between them).
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

/// Name of an admin or I/O opcode, as in the analysis; `opcode_xx` where the log gives no more.
fn opcode_name(io: bool, opc: u8) -> String {
    let name = if io { nvme::io_name(opc) } else { nvme::admin_name(opc) };
    name.map_or_else(|| format!("opcode_{opc:02x}"), Into::into)
}
