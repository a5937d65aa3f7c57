//! A host in virtual time: a small NVMe driver, fio's way of making I/O, plans of phases, and what is true of them.

pub mod device;
mod engine;
mod memory;
mod plan;
mod session;
mod truth;

pub use device::{Device, DriverError};
pub use engine::run_group;
pub use memory::Memory;
pub use plan::{Action, Idle, Plan, PlanError, Step};
pub use session::{run, Outcome, RunError};
pub use truth::{Phase, TruthSink};
