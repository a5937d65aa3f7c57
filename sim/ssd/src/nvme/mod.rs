//! Parts of NVM Express that every command uses: entries (Submission Queue Entry, Completion Queue Entry), queues, PRPs, registers.

mod async_event;
pub mod commands;
pub mod prp;
mod queue;
pub mod queues;
pub mod registers;
pub mod sgl;

pub use async_event::AsyncEvent;
pub use wattbell_spec::nvme::{admin, feature, io, log_page};
pub use wattbell_spec::Status;

/// The little-endian number that these bytes, at most 8, are.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A submission queue entry.
#[derive(Clone, Copy)]
pub struct Sqe(pub [u8; 64]);

#[allow(missing_docs)] // names are those of the specification
impl Sqe {
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }
    pub fn fuse_psdt(&self) -> u8 {
        self.0[1]
    }
    pub fn cid(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }
    pub fn nsid(&self) -> u32 {
        self.dword(1)
    }
    pub fn prp1(&self) -> u64 {
        self.qword(24)
    }
    pub fn prp2(&self) -> u64 {
        self.qword(32)
    }
    /// Command dword `n`, 10 to 15.
    pub fn cdw(&self, n: usize) -> u32 {
        self.dword(n)
    }
    pub fn slba(&self) -> u64 {
        self.qword(40)
    }
    fn dword(&self, n: usize) -> u32 {
        let b = &self.0[4 * n..];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }
    fn qword(&self, at: usize) -> u64 {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(b)
    }
}

/// A completion queue entry.
pub fn cqe([dw0, dw1]: [u32; 2], sq_head: u16, sqid: u16, cid: u16, status: Status, phase: bool) -> [u8; 16] {
    let mut out = [0; 16];
    out[0..4].copy_from_slice(&dw0.to_le_bytes());
    out[4..8].copy_from_slice(&dw1.to_le_bytes());
    out[8..10].copy_from_slice(&sq_head.to_le_bytes());
    out[10..12].copy_from_slice(&sqid.to_le_bytes());
    out[12..14].copy_from_slice(&cid.to_le_bytes());
    out[14..16].copy_from_slice(&(status.0 << 1 | u16::from(phase)).to_le_bytes());
    out
}
