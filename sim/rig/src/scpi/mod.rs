//! The SCPI subset of the control port: [`parse`] splits a line into program message units, [`command`] gives them their
//! meaning, [`error`] holds the error numbers of SCPI-99 and the queue of `SYSTem:ERRor?`.

pub mod command;
pub mod error;
pub mod parse;

pub use command::{understand, Command, Queue, QueueKind};
pub use error::{ErrorQueue, ScpiError};
