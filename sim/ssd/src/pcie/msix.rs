//! MSI-X: the table, and the vectors with a message that waits for its mask to be cleared.

use super::config_space::{BAR0_SIZE, MSIX_PBA, MSIX_TABLE};

/// Table and pending bits.
pub struct Msix {
    table: Vec<[u32; 4]>,
    pending: Vec<bool>,
    outside: bool,
}

impl Msix {
    /// So many vectors, all masked. `outside`: see [`Options::msix_outside`](crate::Options::msix_outside).
    pub fn new(vectors: u16, outside: bool) -> Self {
        let vectors = usize::from(vectors);
        Self { table: vec![[0, 0, 0, 1]; vectors], pending: vec![false; vectors], outside }
    }

    /// All masked again.
    pub fn reset(&mut self) {
        *self = Self::new(self.table.len() as u16, self.outside);
    }

    /// How many vectors there are.
    pub fn vectors(&self) -> usize {
        self.table.len()
    }

    /// The byte at `offset` of BAR0, in the table or behind it.
    pub fn byte(&self, offset: u64) -> u8 {
        match offset {
            MSIX_TABLE..MSIX_PBA => {
                let (entry, byte) = ((offset - MSIX_TABLE) / 16, (offset - MSIX_TABLE) % 16);
                let entry = self.table.get(entry as usize);
                entry.map_or(0, |e| e[byte as usize / 4].to_le_bytes()[byte as usize % 4])
            }
            MSIX_PBA..BAR0_SIZE => {
                let first = (offset - MSIX_PBA) as usize * 8;
                (0..8).fold(0, |b, i| b | u8::from(self.pending.get(first + i).is_some_and(|&p| p)) << i)
            }
            _ => 0,
        }
    }

    /// Writes whole DWs at `offset` of BAR0.
    pub fn write(&mut self, offset: u64, size: u8, value: u64) {
        for i in 0..u64::from(size.min(8)) / 4 {
            let at = offset - MSIX_TABLE + 4 * i;
            if let Some(entry) = self.table.get_mut((at / 16) as usize) {
                entry[(at % 16 / 4) as usize] = (value >> (32 * i)) as u32;
            }
        }
    }

    /// Returns address and data of a vector's message. `None`: the vector is masked and becomes pending, or is not enabled.
    pub fn message(&mut self, vector: u16, enabled: bool, function_mask: bool) -> Option<(u64, u32)> {
        let &[low, high, data, control] = self.table.get(usize::from(vector))?;
        let open = enabled && !function_mask && control & 1 == 0;
        self.pending[usize::from(vector)] = enabled && !open && !self.outside;
        match self.outside {
            true => Some((0xFEE0_1000, u32::from(vector))),
            false => open.then_some((u64::from(high) << 32 | u64::from(low & !3), data)),
        }
    }

    /// Returns the vectors with a waiting message.
    pub fn pending(&self) -> Vec<u16> {
        (0..self.table.len() as u16).filter(|&vector| self.pending[usize::from(vector)]).collect()
    }
}
