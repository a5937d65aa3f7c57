//! Asynchronous events as DW0 shows them (NVM Express, Asynchronous Event Request command).

use super::log_page;

/// Types, bits 2:0 of DW0.
const ERROR: u32 = 0;
const HEALTH: u32 = 1;
const NOTICE: u32 = 2;
/// Events that reporting clears: no type of events is masked behind them.
const ONE_SHOT: u32 = 4;
const IO_COMMAND_SET: u32 = 6;

/// An event as DW0 shows it, and its parameter in DW1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent(pub u32, pub u32);

#[allow(missing_docs)] // names are those of the specification
impl AsyncEvent {
    pub const INVALID_DOORBELL_REGISTER: Self = Self::new(ERROR, 0x00, log_page::ERRORS);
    pub const INVALID_DOORBELL_VALUE: Self = Self::new(ERROR, 0x01, log_page::ERRORS);
    pub const TEMPERATURE: Self = Self::new(HEALTH, 0x01, log_page::HEALTH);
    pub const NAMESPACE_CHANGED: Self = Self::new(NOTICE, 0x00, log_page::CHANGED_NAMESPACES);
    pub const SANITIZED: Self = Self::new(IO_COMMAND_SET, 0x01, log_page::SANITIZE);

    const fn new(kind: u32, information: u32, log: u8) -> Self {
        Self((log as u32) << 16 | information << 8 | kind, 0)
    }

    /// Power Threshold Exceeded, with the power of the second as value and scale. Its number is that of a public header for revision 2.3,
    /// since public text of the specification lacks the figure.
    pub const fn power_threshold(field: u32) -> Self {
        Self(0x02 << 8 | ONE_SHOT, field)
    }

    /// Whether the event is cleared by its report, and not by reading a log page.
    pub fn one_shot(self) -> bool {
        self.kind() == ONE_SHOT
    }

    /// Returns the bit of feature 0Bh that enables the event; `None`: no bit can hold the event back.
    pub fn enable(self) -> Option<u32> {
        match self {
            Self::TEMPERATURE => Some(1 << 1),
            Self::NAMESPACE_CHANGED => Some(1 << 8),
            _ => None,
        }
    }

    /// Its type.
    pub fn kind(self) -> u32 {
        self.0 & 7
    }

    /// Returns the log page with the details.
    pub fn log(self) -> u8 {
        (self.0 >> 16) as u8
    }
}
