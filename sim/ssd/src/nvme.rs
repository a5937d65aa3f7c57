//! Submission and completion queue entries and status codes (NVM Express 1.4, figures 104-128).

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

/// Status field of a completion, bits 14:0 as in CQE bits 127:113.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16);

const DNR: u16 = 1 << 14;
const MORE: u16 = 1 << 13;
const SPECIFIC: u16 = 1 << 8;
const MEDIA: u16 = 2 << 8;

#[allow(missing_docs)] // names are those of the specification
impl Status {
    pub const SUCCESS: Self = Self(0x00);
    pub const INVALID_OPCODE: Self = Self(0x01 | DNR);
    pub const INVALID_FIELD: Self = Self(0x02 | DNR);
    pub const DATA_TRANSFER_ERROR: Self = Self(0x04);
    pub const ABORTED_BY_REQUEST: Self = Self(0x07);
    pub const INVALID_NAMESPACE: Self = Self(0x0B | DNR);
    pub const SEQUENCE_ERROR: Self = Self(0x0C | DNR);
    pub const SANITIZE_IN_PROGRESS: Self = Self(0x1D);
    pub const SGL_NOT_SUPPORTED: Self = Self(0x11 | DNR);
    pub const INVALID_PRP_OFFSET: Self = Self(0x13 | DNR);
    /// With More: the error information log has an entry.
    pub const LBA_OUT_OF_RANGE: Self = Self(0x80 | DNR | MORE);
    pub const FORMAT_IN_PROGRESS: Self = Self(0x84);
    pub const CQ_INVALID: Self = Self(SPECIFIC | DNR);
    pub const QID_INVALID: Self = Self(SPECIFIC | 0x01 | DNR);
    pub const QUEUE_SIZE_INVALID: Self = Self(SPECIFIC | 0x02 | DNR);
    pub const AER_LIMIT: Self = Self(SPECIFIC | 0x05 | DNR);
    pub const VECTOR_INVALID: Self = Self(SPECIFIC | 0x08 | DNR);
    pub const LOG_PAGE_INVALID: Self = Self(SPECIFIC | 0x09 | DNR);
    pub const QUEUE_DELETION_INVALID: Self = Self(SPECIFIC | 0x0C | DNR);
    pub const NOT_SAVEABLE: Self = Self(SPECIFIC | 0x0D | DNR);
    pub const INVALID_FORMAT: Self = Self(SPECIFIC | 0x0A | DNR);
    pub const INSUFFICIENT_CAPACITY: Self = Self(SPECIFIC | 0x15 | DNR);
    pub const NSID_UNAVAILABLE: Self = Self(SPECIFIC | 0x16 | DNR);
    pub const ALREADY_ATTACHED: Self = Self(SPECIFIC | 0x18 | DNR);
    pub const NOT_ATTACHED: Self = Self(SPECIFIC | 0x1A | DNR);
    pub const THIN_PROVISIONING: Self = Self(SPECIFIC | 0x1B | DNR);
    pub const CONTROLLER_LIST_INVALID: Self = Self(SPECIFIC | 0x1C | DNR);
    pub const SELF_TEST_IN_PROGRESS: Self = Self(SPECIFIC | 0x1D | DNR);
    pub const UNRECOVERED_READ: Self = Self(MEDIA | 0x81 | DNR | MORE);
    pub const COMPARE_FAILURE: Self = Self(MEDIA | 0x85 | DNR | MORE);

    pub fn is_success(self) -> bool {
        self.0 == 0
    }
    pub fn has_more(self) -> bool {
        self.0 & MORE != 0
    }
}

/// A completion queue entry.
pub fn cqe(dw0: u32, sq_head: u16, sqid: u16, cid: u16, status: Status, phase: bool) -> [u8; 16] {
    let mut out = [0; 16];
    out[0..4].copy_from_slice(&dw0.to_le_bytes());
    out[8..10].copy_from_slice(&sq_head.to_le_bytes());
    out[10..12].copy_from_slice(&sqid.to_le_bytes());
    out[12..14].copy_from_slice(&cid.to_le_bytes());
    out[14..16].copy_from_slice(&(status.0 << 1 | u16::from(phase)).to_le_bytes());
    out
}

/// Admin opcodes.
#[allow(missing_docs)]
pub mod admin {
    pub const DELETE_SQ: u8 = 0x00;
    pub const CREATE_SQ: u8 = 0x01;
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const DELETE_CQ: u8 = 0x04;
    pub const CREATE_CQ: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0A;
    pub const ASYNC_EVENT: u8 = 0x0C;
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0D;
    pub const DEVICE_SELF_TEST: u8 = 0x14;
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    pub const FORMAT: u8 = 0x80;
    pub const SANITIZE: u8 = 0x84;
}

/// NVM command set opcodes.
#[allow(missing_docs)]
pub mod io {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const WRITE_UNCORRECTABLE: u8 = 0x04;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}
