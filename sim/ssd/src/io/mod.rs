//! What I/O commands work on: the media behind the controller, and the ways to them.

pub mod data_path;
pub mod media;
pub mod reads;
mod store;
mod uncorrectable;
