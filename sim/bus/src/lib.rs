//! Activity at the drive's connector, as data: the bus trace of `docs/bus-trace.md` and its TLPs.
//!
//! - [`TraceWriter`] / [`SortingWriter`] write a trace to any `io::Write`; [`TraceReader`] iterates its records.
//! - [`Player`] expands bursts and yields every TLP, rail and sideband change in time order.
//! - [`tlp`] makes the header bytes that a host root complex and an NVMe drive send.
//! - [`split`] cuts a transfer into the TLPs that the bus rules demand.
//! - [`packet`] reads the headers of TLPs that arrive.
//! - [`link`] gives the time for which a TLP occupies the lanes.
//!
//! Times are picoseconds since power-on, as `u64`. Nothing here knows NVMe.

pub mod link;
pub mod packet;
mod player;
mod reader;
mod record;
pub mod split;
pub mod summary;
pub mod tlp;
mod writer;

pub use player::{Event, Item, Player};
pub use reader::TraceReader;
pub use record::{Body, Burst, Direction, Error, LinkState, Rail, Record, Result, Signal, TraceHeader};
pub use summary::Summary;
pub use tlp::{Header, Tlp};
pub use writer::{create_trace, SortingWriter, TraceWriter};
