//! PCI configuration space of the drive: type 0 header, power management, PCIe and MSI-X capabilities, L1 substates.

use crate::pcie::port::Aspm;
use crate::profile::Profile;

/// Size of BAR0 in bytes: registers, doorbells, MSI-X table and PBA.
pub const BAR0_SIZE: u64 = 0x4000;
/// Offset of the MSI-X table in BAR0.
pub const MSIX_TABLE: u64 = 0x2000;
/// Offset of the MSI-X pending bit array in BAR0.
pub const MSIX_PBA: u64 = 0x3000;
/// Offset of the PCIe capability.
pub const PCIE_CAP: u16 = 0x70;
/// Initiate Function Level Reset, in Device Control. Reads as 0.
pub const FLR: u32 = 0x8000;
/// Offset of the MSI-X capability.
pub const MSIX_CAP: u16 = 0xB0;
/// Offset of the L1 PM substates extended capability.
pub const L1SS_CAP: u16 = 0x100;

const PM_CAP: u16 = 0x40;
const BAR0: usize = 0x10;

/// The 4096 bytes, and which of their bits the host may write.
pub struct ConfigSpace {
    bytes: Vec<u8>,
    writable: Vec<u8>,
}

impl ConfigSpace {
    /// Configuration space of a drive after reset, with `vectors` MSI-X vectors.
    pub fn new(profile: &Profile, vectors: u16) -> Self {
        let mut c = Self { bytes: vec![0; 4096], writable: vec![0; 4096] };
        let id = &profile.identity;
        c.put16(0x00, *id.vendor_id);
        c.put16(0x02, *id.device_id);
        c.allow(0x04, 2, 0x0546); // memory space, bus master, parity, SERR#, INTx disable
        c.put16(0x06, 0x0010); // capabilities list
        c.put(0x08, &[0x03, 0x02, 0x08, 0x01]); // revision; NVM Express, non-volatile memory, mass storage
        c.allow(0x0C, 1, 0xFF);
        c.put(BAR0, &[0x04]); // 64-bit memory
        c.allow(BAR0, 8, !(BAR0_SIZE - 1));
        c.put16(0x2C, *id.vendor_id);
        c.put16(0x2E, 0x390D);
        c.put(0x34, &[PM_CAP as u8]);
        c.allow(0x3C, 1, 0xFF);

        let pm = usize::from(PM_CAP);
        c.put(pm, &[0x01, PCIE_CAP as u8, 0x03, 0x00, 0x08]); // version 3; no soft reset
        c.allow(pm + 4, 2, 0x0003);

        let pcie = usize::from(PCIE_CAP);
        let mps = profile.link.max_payload.trailing_zeros() - 7;
        c.put(pcie, &[0x10, MSIX_CAP as u8, 0x02, 0x00]); // version 2, endpoint
        c.put32(pcie + 0x04, 0x1000_8020 | mps); // function level reset, role-based errors, extended tags
        c.put16(pcie + 0x08, 0x2010);
        c.allow(pcie + 0x08, 2, 0x7FFF);
        c.put32(pcie + 0x0C, 0x0047_F843); // 8 GT/s x4, ASPM L1, exit latencies, clock power management
        c.allow(pcie + 0x10, 2, 0x01FB);
        c.put16(pcie + 0x12, 0x1043); // 8 GT/s x4, common clock
        c.put32(pcie + 0x24, 0x0000_0812); // completion timeout, LTR
        c.allow(pcie + 0x28, 2, 0x041F);
        c.put32(pcie + 0x2C, 0x0000_000E); // 2.5, 5, 8 GT/s
        c.put16(pcie + 0x30, 0x0003);
        c.allow(pcie + 0x30, 2, 0x000F);

        let msix = usize::from(MSIX_CAP);
        c.put(msix, &[0x11, 0x00]);
        c.put16(msix + 2, vectors - 1);
        c.allow(msix + 2, 2, 0xC000);
        c.put32(msix + 4, MSIX_TABLE as u32);
        c.put32(msix + 8, MSIX_PBA as u32);

        let l1ss = usize::from(L1SS_CAP);
        c.put32(l1ss, 0x0001_001E); // L1 PM substates, version 1, last
        c.put32(l1ss + 4, 0x0028_3C1F); // all substates; T_power_on 50 us, common mode restore 60 us
        c.allow(l1ss + 8, 4, 0xE3FF_FF0F);
        c.allow(l1ss + 12, 4, 0xFB);
        c
    }

    /// Returns to the state after power-on by a function level reset, which leaves payload sizes and ASPM as they are (PCI Express Base
    /// Specification 4.0, 6.6.2).
    pub fn reset_function(&mut self, profile: &Profile, vectors: u16) {
        let kept = [(PCIE_CAP + 0x08, 2), (PCIE_CAP + 0x10, 2), (L1SS_CAP + 8, 8)];
        let before = std::mem::replace(self, Self::new(profile, vectors));
        for (at, len) in kept.map(|(at, len)| (usize::from(at), len)) {
            self.put(at, &before.bytes[at..at + len]);
        }
    }

    /// All 4096 bytes, as a vfio-user server hands them out.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The DW at `register` (multiple of 4).
    pub fn read(&self, register: u16) -> u32 {
        let b = &self.bytes[usize::from(register & 0xFFC)..];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    /// Writes the bytes of the DW at `register` that `byte_enables` selects.
    pub fn write(&mut self, register: u16, byte_enables: u8, value: u32) {
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            let at = usize::from(register & 0xFFC) + i;
            if byte_enables >> i & 1 == 1 {
                let mask = self.writable[at];
                self.bytes[at] = self.bytes[at] & !mask | byte & mask;
            }
        }
    }

    /// Base address of BAR0.
    pub fn bar0(&self) -> u64 {
        (u64::from(self.read(0x14)) << 32 | u64::from(self.read(0x10))) & !0xF
    }

    /// Memory Space Enable, in Command.
    pub fn memory_enabled(&self) -> bool {
        self.read(4) & 2 != 0
    }

    /// Bus Master Enable, in Command.
    pub fn bus_master(&self) -> bool {
        self.read(4) & 4 != 0
    }

    /// MSI-X enable and function mask.
    pub fn msix(&self) -> (bool, bool) {
        let control = self.read(MSIX_CAP) >> 16;
        (control & 0x8000 != 0, control & 0x4000 != 0)
    }

    /// Returns the link states that Link Control and L1 PM Substates Control 1 allow.
    pub fn aspm(&self) -> Aspm {
        let l1 = self.read(PCIE_CAP + 0x10) & 2 != 0;
        let l1_2 = self.read(L1SS_CAP + 8) & 4 != 0;
        match (l1, l1_2) {
            (false, _) => Aspm::Off,
            (true, false) => Aspm::L1,
            (true, true) => Aspm::L1_2,
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn allow(&mut self, at: usize, len: usize, mask: u64) {
        self.writable[at..at + len].copy_from_slice(&mask.to_le_bytes()[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar0_is_sized_and_placed_as_enumeration_does() {
        let mut c = ConfigSpace::new(&Profile::load("intel-660p-1tb").unwrap(), 17);
        for register in [0x10, 0x14] {
            c.write(register, 0xF, 0xFFFF_FFFF);
        }
        assert_eq!((c.read(0x14), c.read(0x10)), (0xFFFF_FFFF, 0xFFFF_C004));
        c.write(0x10, 0xF, 0xFE00_0000);
        c.write(0x14, 0xF, 0x12);
        assert_eq!(c.bar0(), 0x12_FE00_0000);
        c.write(0x04, 0b0001, 0xFFFF_FFFF);
        assert_eq!(c.read(0x04) & 0xFFFF, 0x0046);
    }

    #[test]
    fn the_capability_list_ends() {
        let c = ConfigSpace::new(&Profile::load("intel-660p-1tb").unwrap(), 17);
        let (mut at, mut seen) = (c.bytes()[0x34], vec![]);
        while at != 0 {
            seen.push(c.bytes()[usize::from(at)]);
            at = c.bytes()[usize::from(at) + 1];
        }
        assert_eq!(seen, [0x01, 0x10, 0x11]);
    }
}
