//! A command as one record: the content of its TLPs, without the TLPs.

/// Size of the record's body in bytes.
pub(crate) const BODY: usize = 80;

/// An I/O command of a trace in which commands have no TLPs. Its fields have the meaning of the wire format's COMMANDS record, at full
/// width. Its instants are the first symbols of the TLPs that it replaces.
///
/// The record's own time is its last instant, so that records stay in time order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Summary {
    /// SQE byte 0.
    pub opcode: u8,
    /// Submission queue, 1 or more.
    pub qid: u16,
    /// Command identifier.
    pub cid: u16,
    /// CQE bits 127:113.
    pub status: u16,
    /// SQE bytes 7:4, at full width.
    pub nsid: u32,
    /// Logical blocks (NLB + 1; DSM: sum over its ranges; Flush: 0); other opcodes: CDW11.
    pub blocks: u32,
    /// Starting LBA (DSM: of its first range); other opcodes: CDW10.
    pub slba: u64,
    /// The wire format's CommandFlag bits; 0 for a command seen whole.
    pub flags: u8,
    /// Instants, in picoseconds since power-on.
    pub instants: Instants,
}

/// The seven instants of a command in picoseconds since power-on; [`Instants::ABSENT`] for those that did not occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instants {
    /// SQ tail doorbell that announced the command.
    pub doorbell_ps: u64,
    /// The drive's read of the SQE.
    pub fetch_ps: u64,
    /// First data TLP.
    pub first_data_ps: u64,
    /// Last data TLP (its first symbol).
    pub last_data_ps: u64,
    /// CQE write; never absent.
    pub cqe_ps: u64,
    /// Interrupt message.
    pub msix_ps: u64,
    /// CQ head doorbell that released the CQE.
    pub cq_head_ps: u64,
}

impl Instants {
    /// An instant that did not occur.
    pub const ABSENT: u64 = u64::MAX;

    fn all(&self) -> [u64; 7] {
        [
            self.doorbell_ps,
            self.fetch_ps,
            self.first_data_ps,
            self.last_data_ps,
            self.cqe_ps,
            self.msix_ps,
            self.cq_head_ps,
        ]
    }

    /// The last instant that occurred: the record's time in a trace.
    pub fn last_ps(&self) -> u64 {
        // ABSENT + 1 is 0.
        self.all().into_iter().fold(0, |last, t| last.max(t.wrapping_add(1))).saturating_sub(1)
    }
}

impl Summary {
    pub(crate) fn encode(&self) -> [u8; BODY] {
        let mut out = [0; BODY];
        (out[0], out[1]) = (self.opcode, self.flags);
        out[2..4].copy_from_slice(&self.qid.to_le_bytes());
        out[4..6].copy_from_slice(&self.cid.to_le_bytes());
        out[6..8].copy_from_slice(&self.status.to_le_bytes());
        out[8..12].copy_from_slice(&self.nsid.to_le_bytes());
        out[12..16].copy_from_slice(&self.blocks.to_le_bytes());
        out[16..24].copy_from_slice(&self.slba.to_le_bytes());
        for (place, instant) in out[24..].chunks_exact_mut(8).zip(self.instants.all()) {
            place.copy_from_slice(&instant.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(body: &[u8; BODY]) -> Self {
        fn bytes<const N: usize>(body: &[u8; BODY], at: usize) -> [u8; N] {
            let mut out = [0; N];
            out.copy_from_slice(&body[at..at + N]);
            out
        }
        let short = |at| u16::from_le_bytes(bytes(body, at));
        let word = |at| u32::from_le_bytes(bytes(body, at));
        let long = |at| u64::from_le_bytes(bytes(body, at));
        Self {
            opcode: body[0],
            flags: body[1],
            qid: short(2),
            cid: short(4),
            status: short(6),
            nsid: word(8),
            blocks: word(12),
            slba: long(16),
            instants: Instants {
                doorbell_ps: long(24),
                fetch_ps: long(32),
                first_data_ps: long(40),
                last_data_ps: long(48),
                cqe_ps: long(56),
                msix_ps: long(64),
                cq_head_ps: long(72),
            },
        }
    }

    /// Returns the fault of this summary as a record at `time_ps`, if there is one.
    pub(crate) fn fault(&self, time_ps: u64) -> Option<String> {
        if self.instants.cqe_ps == Instants::ABSENT {
            return Some("a SUMMARY without a CQE instant".into());
        }
        let last = self.instants.last_ps();
        (last != time_ps).then(|| format!("a SUMMARY at {time_ps} ps whose last instant is {last} ps"))
    }
}
