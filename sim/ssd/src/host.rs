//! The controller's outside: host memory and interrupts, and the bus trace.

use crate::profile::Ps;
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

/// A host for the time while nothing can reach the real host.
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

/// Receiver of the controller's activity at the connector.
pub trait BusSink {
    /// Something happens at the connector. Records come out of order, but never before the last released time.
    fn record(&mut self, record: Record);
    /// Takes a record as [`BusSink::record`] does, from a source that knows that this record is next in order of time.
    fn record_in_order(&mut self, record: &Record) {
        self.record(record.clone());
    }
    /// Takes a command's summary at the time of its last instant, from a source that knows that it is next in order of time.
    fn summary_in_order(&mut self, time_ps: Ps, summary: &Summary) {
        self.record(Record { time_ps, body: Body::Summary(*summary) });
    }
    /// No record with a time below `horizon_ps` will come any more.
    fn release(&mut self, horizon_ps: Ps);
    /// Takes the truth about a finished command: the CQ head doorbell released its completion, or can no longer do so.
    fn command(&mut self, _command: &CommandTruth) {}
}

/// The model's knowledge of a command. Times belong to first symbols, in picoseconds since power-on.
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
    /// Starting LBA; CDW10 for commands without one; for DSM, the first range's LBA.
    pub slba: u64,
    /// Logical blocks; CDW11 of commands that have none; of DSM, the sum over the ranges; of Flush, 0.
    pub blocks: u64,
    /// Status field as in CQE bits 127:113.
    pub status: u16,
    /// SQ tail doorbell that announced the command.
    pub doorbell_ps: Ps,
    /// Read of the command's SQE.
    pub fetch_ps: Ps,
    /// First TLP that carries the command's data (memory write, or completion of a read by the drive).
    pub first_data_ps: Option<Ps>,
    /// Last such TLP.
    pub last_data_ps: Option<Ps>,
    /// Its CQE.
    pub cqe_ps: Ps,
    /// The interrupt message that followed.
    pub msix_ps: Option<Ps>,
    /// CQ head doorbell that released the CQE.
    pub cq_head_ps: Option<Ps>,
    /// Energy that the command itself causes, in femtojoule: array reads, transfers of its data, its part of the programmed pages.
    pub own_fj: u64,
    /// Its share of the controller's draw while commands are in hand, in femtojoule.
    pub share_fj: u64,
}

impl CommandTruth {
    /// Takes note of a TLP span that carries data.
    pub(crate) fn data(&mut self, first: Ps, last: Ps) {
        self.first_data_ps.get_or_insert(first);
        self.last_data_ps = Some(last);
    }
}
