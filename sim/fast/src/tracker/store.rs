//! The engine's tables, with the sizes of the hardware's.

use super::record::UNKNOWN;
use crate::status::{QUEUES, SLOTS};
use std::collections::VecDeque;

/// Places per way of pages; also the length of the loop that clears the tables.
pub const SETS: usize = 1024;
/// Ways of the page map whose entries hold to the end of a page.
pub const PAGE_WAYS: usize = 8;
/// Places per way of pieces.
pub const PIECE_SETS: usize = 512;
/// Number of ways of both kinds, those of pages first.
pub const WAYS: usize = PAGE_WAYS + 4;
/// 2**GRANULE_BITS double words (512 bytes) are a granule: an entry in a way of pieces does not hold beyond its own.
pub const GRANULE_BITS: u32 = 7;
/// Tags of reads.
pub const TAGS: usize = 1024;
/// Number of interrupt messages that can be known.
pub const MESSAGES: usize = 64;

/// A command's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Not in use.
    #[default]
    Free,
    /// Announced by an SQ tail doorbell.
    Announced,
    /// The read of its SQE was seen.
    Fetching,
    /// Its SQE is known.
    InFlight,
    /// Its CQE was seen, but not yet its CQ head doorbell.
    Completed,
}

/// A command in flight.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Slot {
    pub state: State,
    pub generation: u16,
    pub epoch: u16,
    pub qid: u8,
    pub index: u16,
    pub flags: u8,
    pub doorbell: u64,
    pub fetch: u64,
    pub first_data: u64,
    pub last_data: u64,
    pub cqe: u64,
    pub msix: u64,
    pub opcode: u8,
    pub cid: u16,
    pub status: u16,
    pub nsid: u16,
    pub lba: u64,
    pub blocks: u32,
    pub prp1: u64,
    pub ranges: u16,
    pub ranges_expected: u16,
    pub pages_sure: u32,
}

impl Slot {
    /// Nothing known.
    pub const EMPTY: Self = Self {
        state: State::Free,
        generation: 0,
        epoch: 0,
        qid: 0,
        index: 0,
        flags: 0,
        doorbell: UNKNOWN,
        fetch: UNKNOWN,
        first_data: UNKNOWN,
        last_data: UNKNOWN,
        cqe: UNKNOWN,
        msix: UNKNOWN,
        opcode: 0,
        cid: 0,
        status: 0,
        nsid: 0,
        lba: 0,
        blocks: 0,
        prp1: 0,
        ranges: 0,
        ranges_expected: 0,
        pages_sure: 0,
    };
}

/// What a page of host memory is known to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Page {
    /// Data of a command.
    #[default]
    Data,
    /// Data or PRP list.
    Either,
    /// PRP list.
    List,
    /// DSM range list.
    Ranges,
    /// Submission queue.
    Sq,
    /// Completion queue.
    Cq,
    /// Shadow doorbells and event indexes.
    Ignore,
}

impl Page {
    /// Never displaced by a command's page.
    pub fn is_pinned(self) -> bool {
        matches!(self, Self::Sq | Self::Cq | Self::Ignore)
    }
}

/// An entry of the page map.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct PageEntry {
    pub key: u64,
    pub valid: bool,
    pub kind: Page,
    pub start: u16,
    pub slot: u16,
    pub generation: u16,
    pub index: u16,
    /// The command may not use this.
    pub doubtful: bool,
}

/// What the completions of a read carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum Carries {
    #[default]
    Unknown,
    Sqe,
    Data,
    Either,
    List,
    Ranges,
}

/// A read by the drive.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Tag {
    pub valid: bool,
    pub kind: Carries,
    pub slot: u16,
    pub generation: u16,
    pub qid: u8,
    pub index: u16,
    pub place: u16,
    pub left: u16,
    pub remaining: u16,
}

/// Base, size and link of a queue.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct QueueShape {
    pub base: u64,
    pub size: u32,
    pub link: u16,
}

/// Positions of a submission queue, and its list of announced commands.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Sq {
    pub tail: u16,
    pub tail_known: bool,
    pub fetch: u16,
    pub fetch_known: bool,
    pub head: u16,
    pub last: u16,
    pub count: u16,
    pub epoch: u16,
}

/// Positions of a completion queue, and its list of completed commands.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Cq {
    pub tail: u16,
    pub known: bool,
    pub phase: bool,
    pub head: u16,
    pub last: u16,
    pub count: u16,
    pub waiting: u16,
}

/// An interrupt message and the vector it was learnt to belong to.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Message {
    pub valid: bool,
    pub address: u64,
    pub data: u32,
    pub vector: u16,
    pub trust: u8,
}

/// All tables.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Tables {
    pub slots: Vec<Slot>,
    pub next: Vec<u16>,
    pub hash_head: Vec<Option<u16>>,
    pub hash_next: Vec<Option<u16>>,
    pub free: VecDeque<u16>,
    pub pages: Vec<PageEntry>,
    pub tags: Vec<Tag>,
    pub sq_shape: [QueueShape; QUEUES],
    pub cq_shape: [QueueShape; QUEUES],
    pub sq: [Sq; QUEUES],
    pub cq: [Cq; QUEUES],
    pub sq_valid: u64,
    pub cq_valid: u64,
    pub cq_filled: u64,
    pub cq_waiting: u64,
    pub messages: [Message; MESSAGES],
}

/// Completions of reads from before are not losses: tags start as reads that matched nothing.
pub const CLEARED_TAG: Tag = Tag {
    valid: true,
    kind: Carries::Unknown,
    slot: 0,
    generation: 0,
    qid: 0,
    index: 0,
    place: 0,
    left: 0,
    remaining: 2047,
};

impl Default for Tables {
    fn default() -> Self {
        Self {
            slots: vec![Slot::EMPTY; SLOTS],
            next: vec![0; SLOTS],
            hash_head: vec![None; SETS],
            hash_next: vec![None; SLOTS],
            free: (0..SLOTS as u16).collect(),
            pages: vec![PageEntry::default(); SETS * PAGE_WAYS + PIECE_SETS * (WAYS - PAGE_WAYS)],
            tags: vec![CLEARED_TAG; TAGS],
            sq_shape: [QueueShape::default(); QUEUES],
            cq_shape: [QueueShape::default(); QUEUES],
            sq: [Sq::default(); QUEUES],
            cq: [Cq::default(); QUEUES],
            sq_valid: 0,
            cq_valid: 0,
            cq_filled: 0,
            cq_waiting: 0,
            messages: [Message::default(); MESSAGES],
        }
    }
}

/// Where `way` keeps page `key`; in a way of pieces, that page's granule with `offset` (in double words).
#[inline]
pub fn place(way: usize, key: u64, offset: u16) -> usize {
    let rotate = |x: u64, bits: usize, n: usize| {
        let n = n % bits;
        (x << n | x >> (bits - n)) & ((1 << bits) - 1)
    };
    if way < PAGE_WAYS {
        let part = |k: u32| key >> (10 * k) & 0x3FF;
        let at = part(0) ^ rotate(part(1), 10, way) ^ rotate(part(2), 10, 2 * way + 1) ^ part(3);
        return way * SETS + at as usize;
    }
    let turn = way - PAGE_WAYS;
    let part = |k: u32| key >> (9 * k) & 0x1FF;
    // The granule's number with its bits reversed, in the upper seven of nine.
    let granule = u64::from((offset >> GRANULE_BITS) as u8 & 0x7F).reverse_bits() >> (64 - 9);
    let at = part(0) ^ rotate(part(1), 9, turn + 1) ^ rotate(part(2), 9, 2 * turn) ^ part(3) ^ rotate(granule, 9, turn);
    PAGE_WAYS * SETS + turn * PIECE_SETS + at as usize
}

/// Start of the chain of (`qid`, `cid`).
#[inline]
pub fn hash(qid: u8, cid: u16) -> usize {
    usize::from((cid & 0x3FF) ^ (cid >> 10) ^ (u16::from(qid & 0x3F) << 4))
}

/// `difference` of two queue positions modulo `size`.
#[inline]
pub fn modulo(difference: i64, size: u32) -> u32 {
    (if difference < 0 { difference + i64::from(size) } else { difference }) as u32 & 0x1_FFFF
}
