//! vfio-user requests as accesses to the model: configuration space, BAR0, memory maps, interrupt descriptors.

use super::drive::Drive;
use std::fs::File;
use std::io;
use std::sync::Arc;
use vfio_bindings::bindings::vfio::{
    vfio_region_info, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion};
use wattbell_ssd::BAR0_SIZE;

const CONFIG_SIZE: u64 = 4096;

/// Regions of the device: BAR0 and configuration space.
pub fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_BAR0_REGION_INDEX => BAR0_SIZE,
                VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_SIZE,
                _ => 0,
            };
            let flags = if size > 0 { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE } else { 0 };
            let argsz = size_of::<vfio_region_info>() as u32;
            let region_info = vfio_region_info { argsz, index, size, flags, ..Default::default() };
            ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
        })
        .collect()
}

/// Interrupts of the device: `vectors` of MSI-X.
pub fn irqs(vectors: u32) -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| match index {
            VFIO_PCI_MSIX_IRQ_INDEX => {
                IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE, count: vectors }
            }
            _ => IrqInfo { index, flags: 0, count: 0 },
        })
        .collect()
}

/// Callbacks of the server.
pub struct Backend {
    drive: Arc<Drive>,
}

impl Backend {
    /// Creates a device that has its state in `drive`.
    pub fn new(drive: Arc<Drive>) -> Self {
        Self { drive }
    }
}

fn gone() -> io::Error {
    io::Error::other("the drive has been switched off")
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let size = data.len();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX if offset + size as u64 <= CONFIG_SIZE => {
                self.drive.access(|model, now, guest| {
                    if size <= 4 && offset % 4 + size as u64 <= 4 {
                        let (value, _) = model.cfg_read(now, offset as u16, size as u8, guest);
                        data.copy_from_slice(&value.to_le_bytes()[..size]);
                    } else {
                        // QEMU's own look at the whole space: no host does that on a bus
                        data.copy_from_slice(&model.cfg_bytes()[offset as usize..offset as usize + size]);
                    }
                })
            }
            VFIO_PCI_BAR0_REGION_INDEX if size <= 8 => self.drive.access(|model, now, guest| {
                let (value, _) = model.mmio_read(now, offset, size as u8, guest);
                data.copy_from_slice(&value.to_le_bytes()[..size]);
            }),
            _ => {
                data.fill(0xFF);
                Some(())
            }
        }
        .ok_or_else(gone)
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = [0; 8];
        let size = data.len().min(8);
        bytes[..size].copy_from_slice(&data[..size]);
        let value = u64::from_le_bytes(bytes);
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX if size <= 4 && offset % 4 + size as u64 <= 4 && offset < CONFIG_SIZE => {
                self.drive.access(|model, now, guest| {
                    model.cfg_write(now, offset as u16, size as u8, value as u32, guest);
                })
            }
            VFIO_PCI_BAR0_REGION_INDEX => self.drive.access(|model, now, guest| {
                model.mmio_write(now, offset, size as u8, value, guest);
            }),
            _ => Some(()),
        }
        .ok_or_else(gone)
    }

    fn dma_map(&mut self, _: DmaMapFlags, offset: u64, address: u64, size: u64, fd: Option<File>) -> io::Result<()> {
        self.drive.guest(|guest| guest.map(address, size, fd, offset))
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.drive.guest(|guest| {
            if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
                guest.unmap_all();
            } else {
                guest.unmap(address, size);
            }
        });
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        Err(io::Error::other("no device reset: the guest resets the controller with CC.EN"))
    }

    fn set_irqs(&mut self, index: u32, flags: u32, start: u32, count: u32, fds: Vec<File>) -> io::Result<()> {
        if index != VFIO_PCI_MSIX_IRQ_INDEX || flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return Ok(());
        }
        self.drive.guest(|guest| {
            if flags & VFIO_IRQ_SET_DATA_NONE != 0 && count == 0 {
                guest.clear_vectors();
            } else if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
                guest.set_vectors(start as usize, fds);
            }
        });
        Ok(())
    }
}
