//! The constants of `spec/`, and the fields of a command. `python -m wattbell_spec` writes every file here except this one.
//!
//! Only numbers and names are shared: each side writes its own code to pack or unpack a word.

/// A command as its record describes it, and as the SSD model knows it.
#[rustfmt::skip]
pub mod command;

/// The wire format.
#[rustfmt::skip]
#[allow(missing_docs)] // as in docs/wire-format.md
pub mod wire;

/// The controller's own registers.
#[rustfmt::skip]
pub mod controller;
/// Opcodes, features, log pages and statuses of NVM Express.
#[rustfmt::skip]
pub mod nvme;
/// The register map.
#[rustfmt::skip]
pub mod registers;
/// Units of samples, and fixed-point formats of their corrections.
#[rustfmt::skip]
pub mod units;

/// Status field of a completion, bits 14:0 as in CQE bits 127:113.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// Do Not Retry.
    pub const DNR: u16 = 1 << 14;
    /// More: the error information log has an entry.
    pub const MORE: u16 = 1 << 13;

    /// Whether the command succeeded.
    pub fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Whether the error information log has an entry.
    pub fn has_more(self) -> bool {
        self.0 & Self::MORE != 0
    }
}
