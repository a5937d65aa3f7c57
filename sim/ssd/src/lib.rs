//! An NVMe SSD as a model: a controller in the sense of NVM Express 1.4, the flash behind it, and the power of all parts.
//!
//! Callers drive [`Controller`] by configuration, register and doorbell accesses and by [`Controller::advance`]. The controller reads and
//! writes host memory through [`Host`], and shows its activity at the connector to a [`BusSink`]. It knows no clock except the times that
//! callers give. The same code therefore serves virtual time (the driver of the `wattbell-ssd` program), real time (a vfio-user server), and
//! a simulator whose host has nothing but TLPs ([`Endpoint`]).
//!
//! Each room keeps its own state and uses only rooms before it: `profile`, then `nvme` (queues, commands, registers), `pcie` and `power`,
//! then `flash`, then `admin` and `io`. The rooms meet in `controller`, which carries out the steps that they return. `driver`, a host in
//! virtual time with the jobs of `fio`, drives the controller.

mod admin;
mod controller;
pub mod driver;
mod endpoint;
pub mod fio;
mod flash;
mod host;
mod io;
mod nvme;
mod pcie;
mod power;
mod profile;
mod sink;
#[cfg(test)]
mod tests;
mod variation;

pub use controller::{Controller, Options};
pub use endpoint::{Endpoint, EndpointError, EndpointOptions, GuardedEndpoint, LAST_PS};
pub use flash::Condition;
pub use host::{BusSink, CommandTruth, Host, LentTraffic};
pub use nvme::registers::DOORBELLS;
pub use pcie::config_space::BAR0_SIZE;
pub use pcie::port::Aspm;
pub use power::thermal::Throttle;
pub use profile::{Fact, Offer, Profile, ProfileError, Ps, Way, LBA, MS, NS, S, US};
pub use sink::TraceSink;
pub use wattbell_bus::Rail;
