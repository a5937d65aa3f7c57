//! A cycle-level model of the Wattbell instrument: fed with the same TLPs, conversions, sidebands and register writes,
//! it produces the same stream of blocks as the gateware, byte for byte, without simulating the gateware.
//!
//! Every part but one computes the cycle in which the hardware does something, not what its wires do in between: a
//! block has the same bytes because it is closed in the same cycle. Parts meet in [`Instrument`], which always advances
//! the one whose next cycle is earliest. Whatever passes from one part to another carries the cycle in which it becomes
//! visible, so parts may run ahead of each other.
//!
//! The exception is the [`tracker`]: what it makes depends on the order of ticks only, and is released a fixed time
//! after them.
//!
//! Numbers (of the wire format, the registers, NVMe) come from `wattbell_spec`. Nothing else is shared: the logic is
//! written anew from
//! `docs/gateware.md` and `docs/wire-format.md`, with the gateware as the judge.

pub mod builder;
pub mod cic;
pub mod command;
pub mod events;
mod field;
pub mod fifo;
mod instrument;
pub mod losses;
mod merge;
pub mod packer;
pub mod rail;
pub mod raw;
pub mod registers;
pub mod run;
mod selftest;
pub mod status;
pub mod time;
pub mod tracker;
mod watch;
pub mod writer;

pub use instrument::{Instrument, Listening, Told};
pub use rail::Analog;
pub use watch::{Conversion, Wanted};
