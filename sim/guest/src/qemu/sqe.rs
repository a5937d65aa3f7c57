//! Submission and completion queue entries (NVM Express, Submission Queue Entry and Completion Queue Entry; NVM Command Set).

/// A 64-byte submission queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sqe(pub [u8; 64]);

impl Sqe {
    /// Opcode, command identifier, namespace; everything else zero (PRPs, no fusing).
    pub fn new(opc: u8, cid: u16, nsid: u32) -> Self {
        let mut sqe = Self([0; 64]);
        sqe.0[0] = opc;
        sqe.0[2..4].copy_from_slice(&cid.to_le_bytes());
        sqe.0[4..8].copy_from_slice(&nsid.to_le_bytes());
        sqe
    }

    /// Command dword `n` (10..=15).
    pub fn dword(mut self, n: usize, value: u32) -> Self {
        self.0[4 * n..4 * n + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// PRP entries 1 and 2.
    pub fn prp(mut self, prp1: u64, prp2: u64) -> Self {
        self.0[24..32].copy_from_slice(&prp1.to_le_bytes());
        self.0[32..40].copy_from_slice(&prp2.to_le_bytes());
        self
    }

    /// One SGL descriptor instead of PRPs (PSDT 01b): `kind` 0 data block, 2 segment, 3 last segment.
    pub fn sgl(mut self, address: u64, len: u32, kind: u8) -> Self {
        self.0[1] |= 0x40;
        self.0[24..40].copy_from_slice(&sgl_descriptor(address, len, kind));
        self
    }

    /// Starting LBA (dwords 10 and 11) and a number of blocks (dword 12 15:0, zero-based).
    pub fn blocks(self, slba: u64, blocks: u32) -> Self {
        self.dword(10, slba as u32).dword(11, (slba >> 32) as u32).dword(12, blocks.saturating_sub(1) & 0xFFFF)
    }
}

/// An SGL descriptor: address, length, type in the upper half of the last byte.
pub fn sgl_descriptor(address: u64, len: u32, kind: u8) -> [u8; 16] {
    let mut d = [0; 16];
    d[..8].copy_from_slice(&address.to_le_bytes());
    d[8..12].copy_from_slice(&len.to_le_bytes());
    d[15] = kind << 4;
    d
}

/// A completion queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cqe {
    /// Command specific.
    pub dw0: u32,
    /// Command specific.
    pub dw1: u32,
    /// Submission queue the command came from.
    pub sqid: u16,
    /// Its command identifier.
    pub cid: u16,
    /// Status field (SC 7:0, SCT 10:8, ..., DNR 14).
    pub status: u16,
}

impl Cqe {
    /// The 16 bytes, with the submission queue's head and the phase tag of the slot.
    pub fn bytes(&self, sq_head: u16, phase: bool) -> [u8; 16] {
        let mut b = [0; 16];
        b[..4].copy_from_slice(&self.dw0.to_le_bytes());
        b[4..8].copy_from_slice(&self.dw1.to_le_bytes());
        b[8..10].copy_from_slice(&sq_head.to_le_bytes());
        b[10..12].copy_from_slice(&self.sqid.to_le_bytes());
        b[12..14].copy_from_slice(&self.cid.to_le_bytes());
        b[14..].copy_from_slice(&(self.status << 1 | u16::from(phase)).to_le_bytes());
        b
    }
}

/// One 16-byte range of Dataset Management: blocks at 4, first block at 8.
pub fn dsm_range(slba: u64, blocks: u32) -> [u8; 16] {
    let mut r = [0; 16];
    r[4..8].copy_from_slice(&blocks.to_le_bytes());
    r[8..].copy_from_slice(&slba.to_le_bytes());
    r
}
