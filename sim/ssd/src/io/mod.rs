//! What I/O commands work on.

pub mod uncorrectable;
