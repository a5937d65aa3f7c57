//! Host Memory Buffer (NVM Express, feature and section of this name): memory the host lends the controller.

use crate::nvme::prp::PAGE;
use crate::nvme::{number, Sqe, Status};

/// Most descriptors the controller takes (HMMAXD); their list is read in one piece.
pub const DESCRIPTORS: u32 = 64;
/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = 16;

/// A host's request by Set Features 0Dh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Loan {
    /// Pages of 4096 bytes.
    pub pages: u32,
    /// Address of the descriptor list.
    pub list: u64,
    /// Its entries.
    pub entries: u32,
    /// The host returns memory that still holds the controller's earlier contents.
    pub returned: bool,
}

/// The lent memory.
#[derive(Debug, Default)]
pub struct Hmb {
    minimum_pages: u32,
    offered: bool,
    enabled: bool,
    last: Loan,
    ranges: Vec<(u64, u64)>,
}

impl Hmb {
    /// A buffer the drive wants at least `minimum_pages` of; nothing is lent yet.
    pub fn new(offered: bool, minimum_pages: u32) -> Self {
        Self { minimum_pages, offered, ..Self::default() }
    }

    /// Whether the drive has a use for it.
    pub fn offered(&self) -> bool {
        self.offered
    }

    /// Address of the lent memory's byte `offset`, if that much is lent.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let mut rest = offset;
        for &(address, len) in &self.ranges {
            match rest.checked_sub(len) {
                None => return Some(address + rest),
                Some(beyond) => rest = beyond,
            }
        }
        None
    }

    /// The lent memory: address and length in bytes. Empty when none is lent.
    #[cfg(test)]
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// How much is lent, in bytes.
    pub fn lent(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }

    /// A Set Features command: address and length of the descriptors that have to be read, or `None` if the memory was given
    /// back.
    pub fn ask(&mut self, sqe: &Sqe) -> Result<Option<(u64, u32)>, Status> {
        let loan = self.asked(sqe)?;
        if loan.is_none() {
            self.give_back();
        }
        Ok(loan.map(|loan| (loan.list, loan.entries * DESCRIPTOR_BYTES)))
    }

    /// The loan that a Set Features command asks for, or `None` to give the memory back.
    fn asked(&self, sqe: &Sqe) -> Result<Option<Loan>, Status> {
        if !self.offered {
            return Err(Status::INVALID_FIELD);
        }
        if sqe.cdw(11) & 1 == 0 {
            return Ok(None);
        }
        if self.enabled {
            return Err(Status::SEQUENCE_ERROR);
        }
        let loan = Loan {
            pages: sqe.cdw(12),
            list: u64::from(sqe.cdw(13)) | u64::from(sqe.cdw(14)) << 32,
            entries: sqe.cdw(15),
            returned: sqe.cdw(11) & 2 != 0,
        };
        let fits = loan.pages >= self.minimum_pages.max(1) && (1..=DESCRIPTORS).contains(&loan.entries);
        if fits && loan.list % u64::from(DESCRIPTOR_BYTES) == 0 {
            Ok(Some(loan))
        } else {
            Err(Status::INVALID_FIELD)
        }
    }

    /// Takes the memory that the descriptors in `list` give. The descriptors must be page aligned, and their sizes must add up to the
    /// announced size.
    pub fn take(&mut self, sqe: &Sqe, list: &[u8]) -> Result<(), Status> {
        let Some(loan) = self.asked(sqe)? else { return Ok(()) };
        let mut ranges = Vec::with_capacity(loan.entries as usize);
        for entry in list.chunks_exact(DESCRIPTOR_BYTES as usize) {
            let (address, pages) = (number(&entry[..8]), number(&entry[8..12]));
            if address % PAGE != 0 {
                return Err(Status::INVALID_FIELD);
            }
            if pages > 0 {
                ranges.push((address, pages * PAGE));
            }
        }
        if ranges.iter().map(|r| r.1).sum::<u64>() != u64::from(loan.pages) * PAGE {
            return Err(Status::INVALID_FIELD);
        }
        (self.enabled, self.last, self.ranges) = (true, loan, ranges);
        Ok(())
    }

    /// Ends the loan: the host takes its memory back, or a reset ended the loan.
    pub fn give_back(&mut self) {
        self.enabled = false;
        self.ranges.clear();
    }

    /// Data structure of Get Features: 4096 bytes.
    pub fn attributes(&self) -> Vec<u8> {
        let mut d = vec![0; 4096];
        d[0..4].copy_from_slice(&self.last.pages.to_le_bytes());
        d[4..12].copy_from_slice(&self.last.list.to_le_bytes());
        d[12..16].copy_from_slice(&self.last.entries.to_le_bytes());
        d
    }

    /// DW0 of Get Features.
    pub fn dw0(&self) -> u32 {
        u32::from(self.enabled) | u32::from(self.enabled && self.last.returned) << 1
    }
}
