//! Events of a drive on the lean path.

use crate::flash::Access;
use crate::profile::Ps;

/// The purpose of a read of host memory.
#[derive(Clone, Copy)]
pub enum Want {
    Sqes { queue: u16, count: u16 },
    List(u32),
    Data { id: u32, len: u32 },
}

/// A read that the root complex will answer, or that waits for its turn.
#[derive(Clone, Copy)]
pub struct Read {
    pub want: Want,
    pub len: u32,
    pub first: Ps,
}

/// Kinds of events; of those due at the same time, the lower comes first.
pub mod kind {
    pub const EXECUTE: u8 = 0;
    pub const LATER: u8 = 1;
    pub const PATH: u8 = 2;
    pub const COMPLETE_READ: u8 = 3;
    pub const COMPLETE_WRITE: u8 = 4;
    pub const POST: u8 = 5;
    pub const BELL: u8 = 6;
    pub const ARBITRATE: u8 = 7;
    pub const ANSWER: u8 = 8;
    pub const ARRIVED: u8 = 9;
    pub const OWN: u8 = 10;
}

/// An event due within about a microsecond.
#[derive(Clone, Copy)]
pub enum Soon {
    Bell(u16),
    Arbitrate,
    Answer(Read),
    Arrived(Want, Ps),
    Complete(u32),
    Post(u32),
}

/// An event that may be far off; such events arrive in any order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Later {
    Page { id: u32, len: u32 },
    Complete(u32),
    Programmed(u64),
    Lent(Access),
    LentAnswer,
}

/// A piece on its way through the controller's data path.
#[derive(Clone, Copy)]
pub struct Piece {
    pub id: u32,
    pub len: u32,
    pub inward: bool,
}
