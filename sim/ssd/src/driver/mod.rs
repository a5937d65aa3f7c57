//! A host in virtual time: a small NVMe driver, fio's way of making I/O, plans of phases, and the truth about the phases.

mod accounts;
mod actions;
mod cpu;
pub mod device;
mod engine;
mod job;
mod latency;
mod lean;
mod memory;
mod plan;
mod replay;
mod session;
mod steady;
mod together;
mod truth;
mod verify;

pub use actions::{Action, Rest};
pub use device::{Device, DriverError, Manners};
pub use engine::{run_group, GroupOutcome};
pub use job::Numbers;
pub use memory::Memory;
pub use plan::{Idle, Plan, PlanError, Step};
pub use session::{run, Fidelity, Outcome, RunError};
pub use truth::{Phase, TruthSink};
