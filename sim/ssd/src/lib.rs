//! An NVMe SSD as a model: a controller in the sense of NVM Express 1.4, flash behind it, and the power all of it draws.
//!
//! [`Controller`] is driven from outside by configuration, register and doorbell accesses and by
//! [`Controller::advance`]; it reads and writes host memory through [`Host`] and shows what happens at its connector
//! to a [`BusSink`]. It knows no clock but the times it is given, so the same code serves virtual time (the driver of
//! the `wattbell-ssd` program) and real time (a vfio-user server).

mod admin;
mod admin_features;
mod admin_namespaces;
mod admin_queues;
mod agenda;
mod bins;
mod complete;
pub mod config_space;
mod controller;
pub mod driver;
mod events;
mod features;
mod fetch;
pub mod fio;
mod flash;
mod heat;
mod hmb;
mod host;
mod identify;
mod io;
mod logs;
mod maintenance;
mod meter;
mod mmio;
mod namespaces;
mod nvme;
mod offer;
mod port;
mod profile;
mod prp;
mod queue;
mod selftest;
mod sink;
mod states;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_offer;
mod thermal;
mod transfer;
mod uncorrectable;
mod variation;

pub use controller::{Controller, Options};
pub use flash::Condition;
pub use host::{BusSink, CommandTruth, Host, Store};
pub use mmio::DOORBELLS;
pub use offer::{Offer, Way};
pub use port::Aspm;
pub use profile::{Fact, Profile, ProfileError, Ps, LBA, MS, NS, S, US};
pub use sink::TraceSink;
pub use thermal::Throttle;
