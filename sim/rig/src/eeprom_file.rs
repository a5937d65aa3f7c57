//! The EEPROM's file: what the chip holds, byte for byte, kept from one run of the rig to the next.
//!
//! It is written as soon as the chip is, as a whole and under another name first: a rig that is killed leaves what the chip had last.

use crate::i2c::EEPROM_SIZE;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file and what it holds.
#[derive(Debug)]
pub struct EepromFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl EepromFile {
    /// Reads the chip's bytes from `path`; where there is no such file it is made, of what `factory` gives.
    pub fn open(path: &Path, factory: impl FnOnce() -> Vec<u8>) -> Result<Self, String> {
        let file = path.display();
        match fs::read(path) {
            Ok(bytes) if bytes.len() == EEPROM_SIZE => Ok(Self { path: path.to_owned(), bytes }),
            Ok(bytes) => Err(format!(
                "{file} has {} bytes, the EEPROM {EEPROM_SIZE}: it is not the file of one; name another, or remove it",
                bytes.len()
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut made = Self { path: path.to_owned(), bytes: Vec::new() };
                made.keep(&factory())?;
                Ok(made)
            }
            Err(error) => Err(format!("cannot read the EEPROM's file {file}: {error}")),
        }
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The chip holds `bytes` now.
    pub fn keep(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.bytes == bytes {
            return Ok(());
        }
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let fresh = self.path.with_file_name(name);
        fs::write(&fresh, bytes)
            .and_then(|()| fs::rename(&fresh, &self.path))
            .map_err(|error| format!("cannot write the EEPROM's file {}: {error}", self.path.display()))?;
        self.bytes = bytes.to_vec();
        Ok(())
    }
}
