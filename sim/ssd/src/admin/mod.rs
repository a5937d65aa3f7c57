//! What admin commands manage: features, namespaces, logs, asynchronous events, and the operations that take long.

pub mod async_events;
pub mod features;
pub mod hmb;
pub mod identify;
pub mod logs;
pub mod maintenance;
pub mod namespaces;
pub mod selftest;
