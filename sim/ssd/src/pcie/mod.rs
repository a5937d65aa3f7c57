//! The drive as a PCIe endpoint: its port on the link and its configuration space.

pub mod config_space;
pub mod port;
