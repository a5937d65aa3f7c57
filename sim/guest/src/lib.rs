//! Real Linux traffic for the virtual rig.
//!
//! * [`qemu`]: the trace log of QEMU's own NVMe device as a bus trace.
//! * [`vfio`]: the SSD model as a PCI device of a QEMU guest, in real time.

pub mod qemu;
pub mod vfio;
