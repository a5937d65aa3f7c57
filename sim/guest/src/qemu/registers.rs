//! The drive's registers.

/// The drive's registers as left by the writes in the log.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // names as in the specification
pub struct Registers {
    pub cc: u32,
    pub aqa: u32,
    pub asq: u64,
    pub acq: u64,
    pub enumerated: bool,
}

impl Registers {
    pub fn enabled(&self) -> bool {
        self.cc & 1 != 0
    }

    /// Bytes of a memory page (CC.MPS).
    pub fn page_size(&self) -> u64 {
        4096 << (self.cc >> 7 & 0xF)
    }

    /// Value of the 4 bytes at `offset`.
    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            0x00 => 0x0F01_07FF, // MQES 2047, CQR, TO 7.5 s, as in QEMU's device
            0x04 => 0x0000_0020, // CSS: NVM command set; DSTRD 0
            0x08 => 0x0001_0400,
            0x14 => self.cc,
            0x1C => self.cc & 1,
            0x24 => self.aqa,
            0x28 => self.asq as u32,
            0x2C => (self.asq >> 32) as u32,
            0x30 => self.acq as u32,
            0x34 => (self.acq >> 32) as u32,
            _ => 0,
        }
    }
}
