//! The virtual rig: the Verilated Wattbell instrument in a process with two pseudo-terminals.
//!
//! A bus trace goes in ([`feed`]), becomes beats on the TLP streams ([`beats`]) and codes of the ADCs ([`adc`],
//! [`serial_adc`]), is clocked through the gateware ([`rtl`], [`engine`]), and comes out as the block stream on the data
//! port ([`output`], [`pty`]). The control port speaks SCPI ([`scpi`]); [`session`] holds it all together.

pub mod adc;
pub mod beats;
pub mod bench;
pub mod build;
pub mod calibration;
pub mod cli;
pub mod compare;
pub mod config;
pub mod engine;
pub mod fast;
pub mod feed;
pub mod machine;
pub mod output;
pub mod pty;
pub mod registration;
#[rustfmt::skip]
/// The register map, as `python -m wattbell_gateware.generate` writes it; tests/sim/rig holds the copy equal.
pub mod registers;
pub mod rtl;
pub mod scpi;
pub mod serial_adc;
pub mod session;
