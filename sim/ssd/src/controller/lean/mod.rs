//! The controller without TLPs, for traces whose I/O commands are SUMMARY records.

mod data;
pub mod drive;
pub mod out;
mod steps;
pub mod stream;
