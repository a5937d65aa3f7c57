//! The virtual rig: the Verilated Wattbell instrument in a process with two pseudo-terminals.
//!
//! A bus trace goes in ([`feed`]) and becomes beats on the TLP streams ([`beats`]) and codes of the ADCs ([`adc`], [`serial_adc`]). The
//! rig clocks them through the gateware ([`rtl`], [`engine`]). The block stream comes out on the data port ([`output`], [`pty`]). The
//! firmware serves the control port, on the Verilated controller ([`soc`], [`rig`], [`i2c`]). [`session`] ties the parts together.

pub mod adc;
pub mod afe;
pub mod beats;
pub mod bench;
pub mod build;
pub mod calibration;
pub mod cli;
pub mod compare;
pub mod config;
pub mod delay;
pub mod eeprom;
pub mod eeprom_file;
pub mod engine;
pub mod fast;
pub mod feed;
pub mod filter;
pub mod i2c;
pub mod input;
pub mod machine;
pub mod output;
pub mod pty;
pub mod registration;
pub mod rig;
pub mod rtl;
pub mod serial_adc;
pub mod session;
pub mod soc;
pub mod status;
