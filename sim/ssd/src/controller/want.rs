//! Purposes of reads of host memory.

use crate::profile::Ps;

/// The purpose of a read of host memory.
pub enum Want {
    Sqes {
        qid: u16,
        announced: Vec<Ps>,
        first: Ps,
    },
    List {
        command: u32,
        /// Bytes that the command needs; a drive may read more.
        needed: u32,
    },
    Structure {
        command: u32,
        left: u32,
    },
    Data {
        command: u32,
        offset: u32,
        len: u32,
    },
    /// Lent memory, of a host outside the model: see [`super::lending::Asked`].
    Lent {
        address: u64,
        life: u32,
    },
    /// The command is gone (reset); the answer still comes.
    Nothing,
}
