//! The guest's side: its memory, mapped from the descriptors QEMU hands over, and its interrupts.

use std::fs::File;
use std::io::{self, Write};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryRegion, GuestRegionMmap, MmapRegion};
use wattbell_ssd::{Host, Ps};

/// Guest memory and MSI-X vectors.
#[derive(Default)]
pub struct Guest {
    regions: Vec<GuestRegionMmap>,
    vectors: Vec<Option<File>>,
}

impl Guest {
    /// QEMU maps `size` bytes of `file` from `offset` at `address`. Memory without a descriptor cannot be reached.
    pub fn map(&mut self, address: u64, size: u64, file: Option<File>, offset: u64) -> io::Result<()> {
        let Some(file) = file else { return Ok(()) };
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::new(file, offset), size).map_err(io::Error::other)?;
        let region = GuestRegionMmap::new(region, GuestAddress(address))
            .ok_or_else(|| io::Error::other("a mapping that wraps around"))?;
        self.regions.push(region);
        Ok(())
    }

    /// Removes the mapping at `address`.
    pub fn unmap(&mut self, address: u64, size: u64) {
        self.regions.retain(|r| r.start_addr().0 < address || r.start_addr().0 + r.len() > address + size);
    }

    /// Removes all mappings.
    pub fn unmap_all(&mut self) {
        self.regions.clear();
    }

    /// Sets the descriptors of MSI-X vectors from `start` on; no descriptors, no vectors.
    pub fn set_vectors(&mut self, start: usize, files: Vec<File>) {
        if self.vectors.len() < start + files.len() {
            self.vectors.resize_with(start + files.len(), || None);
        }
        for (i, file) in files.into_iter().enumerate() {
            self.vectors[start + i] = Some(file);
        }
    }

    /// The guest turns MSI-X off.
    pub fn clear_vectors(&mut self) {
        self.vectors.clear();
    }

    /// Returns the mapping that holds all of `len` bytes at `address`, and the offset in the mapping.
    fn find(&self, address: u64, len: usize) -> Option<(&GuestRegionMmap, vm_memory::MemoryRegionAddress)> {
        let region = self.regions.iter().find(|r| {
            let start = r.start_addr().0;
            address >= start && address + len as u64 <= start + r.len()
        })?;
        Some((region, vm_memory::MemoryRegionAddress(address - region.start_addr().0)))
    }
}

impl Host for Guest {
    fn read(&mut self, address: u64, data: &mut [u8]) -> bool {
        self.find(address, data.len()).is_some_and(|(region, at)| region.read_slice(data, at).is_ok())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        self.find(address, data.len()).is_some_and(|(region, at)| region.write_slice(data, at).is_ok())
    }

    fn interrupt(&mut self, vector: u16, _time_ps: Ps) {
        if let Some(Some(file)) = self.vectors.get_mut(usize::from(vector)) {
            // An eventfd takes 8 bytes; it fails only when 2^64 - 2 signals are pending, and then another says nothing
            // new.
            let _ = file.write_all(&1u64.to_ne_bytes());
        }
    }
}
