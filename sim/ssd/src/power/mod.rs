//! What the drive draws, and its power states and temperature.

pub mod bins;
pub mod heat;
pub mod meter;
pub mod states;
pub mod thermal;
