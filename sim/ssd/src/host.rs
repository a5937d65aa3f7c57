//! The controller's outside: host memory and interrupts, and the bus trace.

use crate::profile::Ps;
use wattbell_bus::{Body, Record, Summary};
pub use wattbell_spec::command::CommandTruth;

/// Host memory, and where interrupts go.
pub trait Host {
    /// Reads memory at `address`; false if there is none.
    fn read(&mut self, address: u64, data: &mut [u8]) -> bool;
    /// Writes memory at `address`; false if there is none.
    fn write(&mut self, address: u64, data: &[u8]) -> bool;
    /// The message of MSI-X vector `vector` arrived at `time_ps`.
    fn interrupt(&mut self, vector: u16, time_ps: Ps);
    /// Completion queue `cqid`, which has no interrupts, has a new entry from `time_ps` on.
    fn posted(&mut self, _cqid: u16, _time_ps: Ps) {}
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

/// A host outside the model. A write has gone out as a TLP, and no memory can be read at once.
pub(crate) struct OutsideHost;

impl Host for OutsideHost {
    fn read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn write(&mut self, _: u64, _: &[u8]) -> bool {
        true
    }
    fn interrupt(&mut self, _: u16, _: Ps) {}
}

/// TLPs and bytes between the drive and the memory that the host lends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LentTraffic {
    /// Read requests.
    pub reads: u64,
    /// Bytes that the read requests ask for.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
    /// Bytes read with values known from the drive's own writes.
    pub known_bytes: u64,
    /// Bytes of reads asked before a reset, or before the host took the memory back, and answered behind it.
    pub forgotten_bytes: u64,
    /// Known bytes with another value.
    pub wrong_bytes: u64,
    /// Accesses to addresses where the host has no memory.
    pub unreachable: u64,
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
    /// Takes the traffic to lent memory of the whole run, at its end.
    fn lent(&mut self, _traffic: &LentTraffic) {}
}

/// Takes note of a TLP span that carries data of a command.
pub(crate) fn see_data(command: &mut CommandTruth, first: Ps, last: Ps) {
    command.first_data_ps.get_or_insert(first);
    command.last_data_ps = Some(last);
}
