//! A cycle-level model of the Wattbell instrument. Fed with the same TLPs, conversions, sidebands and register writes, the model produces
//! the same stream of blocks as the gateware, byte for byte. It does not simulate the gateware.
//!
//! Every part but one computes the cycle in which the hardware acts, and ignores the wires in between. A block has the same bytes because
//! it is closed in the same cycle. Parts meet in [`Instrument`], which always advances the part with the earliest next cycle. Everything
//! that passes between parts carries the cycle in which it becomes visible, so parts may run ahead of each other.
//!
//! The exception is the [`tracker`]: its output depends only on the order of ticks, and is released a fixed time after them.
//!
//! Numbers (of the wire format, the registers, NVMe) come from `wattbell_spec`. Nothing else is shared: the logic is written anew from
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
