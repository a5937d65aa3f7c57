//! Real Linux traffic for the virtual rig.
//!
//! * [`qemu`]: the trace log of QEMU's own NVMe device as a bus trace.

pub mod qemu;
