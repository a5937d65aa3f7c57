//! Converts QEMU's NVMe trace log to a bus trace: the view of a tap at the drive's connector.
//!
//! The converter reads the log twice. [`survey`] learns facts that need the whole log: LBA sizes, which events were enabled, the ranges of
//! each Dataset Management. [`convert`] writes the trace. `docs/real-traffic.md` lists the facts from the log and the rebuilt facts.

pub mod clock;
mod command;
pub mod convert;
pub mod event;
mod identify;
mod intake;
pub mod line;
mod merge;
pub mod namespace;
mod queues;
mod registers;
mod setup;
mod sqe;
pub mod stats;
pub mod survey;
mod twins;
mod wire;

use std::io;

/// Reasons why a log cannot become a trace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the log or writing a result failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The trace could not be written.
    #[error("{0}")]
    Trace(#[from] wattbell_bus::Error),
    /// A folder, a pipe or a device.
    #[error("{0}: no regular file; the log is read twice, so save what a pipe gives as a file first")]
    NoFile(String),
    /// Compressed, or of wide characters.
    #[error("{0} is {1}: use {2}")]
    NoText(String, &'static str, &'static str),
    /// There is nothing to convert.
    #[error(
        "{0}: no NVMe event in {1} lines. Run QEMU with -trace 'pci_nvme_*' -D LOG -msg timestamp=on, and its own \
         `nvme` device"
    )]
    NoEvents(String, u64),
    /// Its events have no times.
    #[error("{0}: {1} NVMe events, but none with a time. Run QEMU with -msg timestamp=on")]
    NoTimes(String, u64),
    /// The phases file is unusable.
    #[error("{0}: {1}")]
    Phases(String, String),
}
