//! Parts that I/O commands use: the media behind the controller, and the paths to the media.

pub mod data_path;
pub mod media;
pub mod reads;
mod store;
mod uncorrectable;
