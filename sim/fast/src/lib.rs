//! The Wattbell instrument as a model of its clocks: fed with the same TLPs, conversions, sidebands and register writes,
//! it gives the same stream of blocks as the gateware, byte for byte, without simulating the gateware.
//!
//! Every part computes in which clock the hardware does something, not what its wires do in between: a block is the same
//! bytes because it is closed in the same clock. Parts meet in [`Instrument`], which lets the one whose next clock is the
//! earliest go first. What crosses from one part to another carries the clock in which it becomes visible, so parts may
//! run ahead of each other.
//!
//! Numbers (of the wire format, the registers, NVMe) come from `wattbell_spec`. Nothing else does: the logic is written anew from
//! `docs/gateware.md` and `docs/wire-format.md`, with the gateware as the judge.

pub mod builder;
pub mod cic;
pub mod events;
mod field;
pub mod fifo;
mod instrument;
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
