//! The virtual rig: the Verilated Wattbell instrument in a process with two pseudo-terminals.
//!
//! A bus trace goes in ([`feed`]), becomes beats on the TLP streams ([`beats`]) and codes of the ADCs ([`adc`],
//! [`serial_adc`]), is clocked through the gateware ([`rtl`], [`engine`]), and comes out as the block stream on the data
//! port ([`output`], [`pty`]). The control port speaks SCPI ([`scpi`]); [`session`] holds it all together.

pub mod adc;
pub mod beats;
pub mod calibration;
pub mod engine;
pub mod feed;
pub mod registers;
pub mod rtl;
pub mod scpi;
pub mod serial_adc;
