//! The records of a bus trace, and the errors in one.

use crate::summary::Summary;
use crate::tlp::{Header, Tlp};
use serde::{Deserialize, Serialize};

/// First bytes of a trace file.
pub(crate) const MAGIC: &[u8; 4] = b"WBBT";
/// Version of the format this crate reads and writes.
pub(crate) const VERSION: u32 = 1;
/// Bytes of type, flags, body length and time before each body.
pub(crate) const RECORD_HEADER: usize = 12;
/// Latest time of a record: 106 days, half the range of 64 bits of picoseconds.
pub(crate) const LAST_PS: u64 = i64::MAX as u64;
/// Upper bound of the JSON header: anything larger is damage, not notes.
pub(crate) const MAX_JSON: u32 = 1 << 20;

pub(crate) const TLP_DOWN: u8 = 1;
pub(crate) const TLP_UP: u8 = 2;
pub(crate) const BURST: u8 = 3;
pub(crate) const RAIL: u8 = 4;
pub(crate) const SIDEBAND: u8 = 5;
pub(crate) const END: u8 = 6;
pub(crate) const SUMMARY: u8 = 7;
pub(crate) const MISSED: u8 = 8;
/// Flag of a TLP record: the payload is omitted and plays as zeros.
pub(crate) const FLAG_LEFT_OUT: u8 = 1;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors in a trace. `offset` is the byte of the file at which the offending record starts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file is not a bus trace, or has another version.
    #[error("not a bus trace this program can read: {0}")]
    NotATrace(String),
    /// A record that violates `docs/bus-trace.md`.
    #[error("bus trace damaged at byte {offset}: {reason}")]
    Damaged {
        /// Offset of the record's start.
        offset: u64,
        /// The reason.
        reason: String,
    },
    /// Nothing happens for longer than the reader's limit.
    #[error(
        "record {record} (byte {offset}) comes {:.1} h after the one before it, and at most {:.1} h are taken for a pause",
        hours(*gap_ps), hours(*longest_ps)
    )]
    Gap {
        /// Number of the record after the pause, from 1.
        record: u64,
        /// Offset of the start.
        offset: u64,
        /// How long the pause is.
        gap_ps: u64,
        /// The limit.
        longest_ps: u64,
    },
    /// The caller's records go back in time, or TLPs of one direction overlap a burst.
    #[error("bus trace order: {0}")]
    Order(String),
}

fn hours(ps: u64) -> f64 {
    ps as f64 / 3.6e15
}

/// JSON at the start of a trace: the program that wrote it, and the notes that a report must carry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Program that wrote the trace.
    #[serde(default)]
    pub source: String,
    /// Profile of the drive model, or a description of the drive.
    #[serde(default)]
    pub profile: String,
    /// `model` (picoseconds of the model) or `qemu-log` (microseconds of a log).
    #[serde(default)]
    pub timing: String,
    /// Statements that a report over this trace must repeat.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether SUMMARY records replace the TLPs of I/O commands. Such a trace plays only in fast fidelity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summaries: bool,
    /// Anything else the writer wants to keep.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Which way a TLP travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Host to drive.
    Down,
    /// Drive to host.
    Up,
}

/// A sideband line, numbered as in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Signal {
    /// PERST#: value is the level, 0 in reset.
    PerstN = 1,
    /// CLKREQ#: value is the level, 0 while the clock is requested.
    ClkreqN = 2,
    /// Link state: value is a [`LinkState`].
    LinkState = 3,
}

impl Signal {
    pub(crate) fn from_u8(value: u8) -> Option<Self> {
        [Self::PerstN, Self::ClkreqN, Self::LinkState].into_iter().find(|s| *s as u8 == value)
    }
}

/// State of the link, numbered as in the wire format's `LinkState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum LinkState {
    Unknown = 0,
    L0 = 1,
    L0s = 2,
    L1 = 3,
    L1_1 = 4,
    L1_2 = 5,
    Recovery = 6,
    Detect = 7,
}

/// The 3.3 V rail from some time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rail {
    /// Current in nanoampere.
    pub current_na: i64,
    /// Voltage in nanovolt.
    pub voltage_nv: i64,
}

/// `count` TLPs of equal length without payload, `step_ps` apart; [`Header::advanced`] says how they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Which way they travel.
    pub direction: Direction,
    /// Header of the first: a memory write or a completion with data.
    pub header: Header,
    /// How many, at least 1.
    pub count: u16,
    /// From first symbol to first symbol.
    pub step_ps: u32,
    /// Increment per TLP of the address (MWr) or lower address (CplD); decrement of the byte count.
    pub step_bytes: u32,
}

impl Burst {
    /// Time of TLP number `index` relative to the record.
    pub fn offset_ps(&self, index: u16) -> u64 {
        u64::from(self.step_ps) * u64::from(index)
    }
}

/// One record of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Picoseconds since power-on; for a TLP, of its first symbol.
    pub time_ps: u64,
    /// The content.
    pub body: Body,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A TLP.
    Tlp(Direction, Tlp),
    /// Several TLPs with their payload omitted.
    Burst(Burst),
    /// The rail changed.
    Rail(Rail),
    /// A sideband changed to this level or [`LinkState`] number.
    Sideband(Signal, u8),
    /// A command in place of its TLPs.
    Summary(Summary),
    /// The tap knows that it missed TLPs of this direction before its next TLP.
    Missed(Direction),
    /// Nothing more happens until this time, and nothing after.
    End,
}
