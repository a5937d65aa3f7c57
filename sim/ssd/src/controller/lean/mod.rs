//! The controller without TLPs, for traces that hold I/O commands as SUMMARY records.

mod data;
mod drive;
mod out;
mod steps;
mod stream;

pub use drive::Drive;
pub use stream::NEVER;
