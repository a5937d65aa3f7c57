//! The controller without TLPs, for traces whose I/O commands are SUMMARY records.

mod data;
mod drive;
mod out;
mod steps;
mod stream;

pub use drive::Drive;
pub use stream::NEVER;
