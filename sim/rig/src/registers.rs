//! Register map (placeholder until generated).
#![allow(missing_docs)]
pub const GATEWARE_VERSION: u32 = 0x000100;
pub const ID: u8 = 0x00;
pub const VERSION: u8 = 0x01;
pub const BUILD: u8 = 0x02;
pub const CONTROL: u8 = 0x03;
pub const COMMAND: u8 = 0x04;
pub const STATE: u8 = 0x05;
pub const STATE_RUNNING: u32 = 1;
