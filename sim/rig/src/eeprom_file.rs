//! The EEPROM's file: the chip's contents, byte for byte, kept from one run of the rig to the next.
//!
//! Each write to the chip writes the whole file, under a temporary name first. A killed rig therefore leaves the chip's last contents.

use crate::i2c::EEPROM_SIZE;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file and its contents.
#[derive(Debug)]
pub struct EepromFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl EepromFile {
    /// Reads the chip's bytes from `path`. Makes a missing file from the result of `factory`.
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

    /// Present contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The chip now holds `bytes`.
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
