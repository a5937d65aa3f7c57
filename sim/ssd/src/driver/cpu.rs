//! Time that the virtual host takes. These are the figures of a fast desktop CPU, and assumed.

use crate::profile::{Ps, NS};

/// Time from the start of an I/O to its doorbell.
pub const SUBMIT: Ps = 900 * NS;
/// Time from an interrupt message to its handler.
pub const INTERRUPT: Ps = 1_100 * NS;
/// Time until a poll of a completion queue sees a new entry.
pub const POLL: Ps = 150 * NS;
/// From the handler to the application, for each completion.
pub const COMPLETE: Ps = 450 * NS;
