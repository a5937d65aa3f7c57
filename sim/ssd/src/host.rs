//! The three sides a controller touches: host memory and interrupts, the bus trace, and user data.

use crate::profile::{Ps, LBA};
use std::collections::HashMap;
use wattbell_bus::{Body, Record, Summary};

/// Host memory, and where interrupts go.
pub trait Host {
    /// Reads memory at `address`; false if there is none.
    fn read(&mut self, address: u64, data: &mut [u8]) -> bool;
    /// Writes memory at `address`; false if there is none.
    fn write(&mut self, address: u64, data: &[u8]) -> bool;
    /// The message of MSI-X vector `vector` arrived at `time_ps`.
    fn interrupt(&mut self, vector: u16, time_ps: Ps);
}

/// Stands in while nothing can reach the host.
pub(crate) struct NoHost;

impl Host for NoHost {
    fn read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn interrupt(&mut self, _: u16, _: Ps) {}
}

/// Where the controller's view of the connector goes.
pub trait BusSink {
    /// Something happens at the connector. Records come out of order, but never before the last released time.
    fn record(&mut self, record: Record);
    /// The same, for a source that knows that this record comes next in order of time.
    fn record_in_order(&mut self, record: &Record) {
        self.record(record.clone());
    }
    /// The same, for a command's summary at the time of its last instant.
    fn summary_in_order(&mut self, time_ps: Ps, summary: &Summary) {
        self.record(Record { time_ps, body: Body::Summary(*summary) });
    }
    /// No record with a time below `horizon_ps` will come any more.
    fn release(&mut self, horizon_ps: Ps);
    /// A command is over: its completion was released by the CQ head doorbell, or can no more be.
    fn command(&mut self, _command: &CommandTruth) {}
}

/// What the model knows of a command. Times are those of first symbols, in picoseconds since power-on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandTruth {
    /// Submission queue.
    pub qid: u16,
    /// Command identifier.
    pub cid: u16,
    /// Opcode.
    pub opcode: u8,
    /// Namespace.
    pub nsid: u32,
    /// Starting LBA; CDW10 of commands that have none; of DSM, that of the first range.
    pub slba: u64,
    /// Logical blocks; CDW11 of commands that have none; of DSM, the sum over the ranges; of Flush, 0.
    pub blocks: u64,
    /// Status field as in CQE bits 127:113.
    pub status: u16,
    /// SQ tail doorbell that announced it.
    pub doorbell_ps: Ps,
    /// Read of its SQE.
    pub fetch_ps: Ps,
    /// First TLP that carries its data (memory write, or completion of a read by the drive).
    pub first_data_ps: Option<Ps>,
    /// Last such TLP.
    pub last_data_ps: Option<Ps>,
    /// Its CQE.
    pub cqe_ps: Ps,
    /// The interrupt message that followed.
    pub msix_ps: Option<Ps>,
    /// CQ head doorbell that released the CQE.
    pub cq_head_ps: Option<Ps>,
}

impl CommandTruth {
    /// Takes note of a TLP span that carries data.
    pub(crate) fn data(&mut self, first: Ps, last: Ps) {
        self.first_data_ps.get_or_insert(first);
        self.last_data_ps = Some(last);
    }
}

const UNIT: u64 = 4096;

/// User data, kept sparsely: what was never written reads as zeroes.
#[derive(Default)]
pub struct Store {
    units: HashMap<u64, Box<[u8]>>,
}

impl Store {
    /// Reads from byte `at` of the namespace.
    pub fn read(&self, at: u64, data: &mut [u8]) {
        pieces(at, data.len(), |unit, from, range| match self.units.get(&unit) {
            Some(bytes) => {
                let n = range.len();
                data[range].copy_from_slice(&bytes[from..from + n]);
            }
            None => data[range].fill(0),
        });
    }

    /// Writes from byte `at` of the namespace.
    pub fn write(&mut self, at: u64, data: &[u8]) {
        pieces(at, data.len(), |unit, from, range| {
            let bytes = self.units.entry(unit).or_insert_with(|| vec![0; UNIT as usize].into());
            bytes[from..from + range.len()].copy_from_slice(&data[range]);
        });
    }

    /// Forgets `blocks` logical blocks from `slba` on.
    pub fn discard(&mut self, slba: u64, blocks: u64) {
        let (at, end) = (slba * LBA, (slba + blocks) * LBA);
        if blocks * LBA / UNIT > self.units.len() as u64 {
            self.units.retain(|&u, _| (u + 1) * UNIT <= at || u * UNIT >= end || u * UNIT < at || (u + 1) * UNIT > end);
        } else {
            for unit in at.div_ceil(UNIT)..end / UNIT {
                self.units.remove(&unit);
            }
        }
        for edge in [at / UNIT, end / UNIT] {
            if let Some(bytes) = self.units.get_mut(&edge) {
                let from = at.clamp(edge * UNIT, (edge + 1) * UNIT) - edge * UNIT;
                let to = end.clamp(edge * UNIT, (edge + 1) * UNIT) - edge * UNIT;
                bytes[from as usize..to as usize].fill(0);
            }
        }
    }
}

/// Cuts a byte range into units: unit number, offset in it, range of the buffer.
fn pieces(at: u64, len: usize, mut f: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let here = at + done as u64;
        let from = (here % UNIT) as usize;
        let n = (UNIT as usize - from).min(len - done);
        f(here / UNIT, from, done..done + n);
        done += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_store_is_a_flat_memory(ops in prop::collection::vec((0u8..3, 0u64..60, 1u64..40, any::<u8>()), 1..40)) {
            let mut flat = vec![0u8; 100 * 512];
            let mut store = Store::default();
            for (op, slba, blocks, value) in ops {
                let range = (slba * 512) as usize..((slba + blocks) * 512) as usize;
                match op {
                    0 => {
                        flat[range.clone()].fill(value);
                        store.write(slba * 512, &flat[range]);
                    }
                    1 => {
                        flat[range].fill(0);
                        store.discard(slba, blocks);
                    }
                    _ => {
                        let mut got = vec![1; range.len()];
                        store.read(slba * 512, &mut got);
                        prop_assert_eq!(&got, &flat[range]);
                    }
                }
            }
        }
    }
}
