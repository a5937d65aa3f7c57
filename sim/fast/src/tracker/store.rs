//! The tracker's tables, with the sizes of the hardware's.

use crate::command::Command;
use crate::status::{QUEUES, SLOTS};
use std::collections::VecDeque;

/// Places per way of pages.
const SETS: usize = 1024;
/// Ways of the page map whose entries hold to the end of a page.
pub const PAGE_WAYS: usize = 8;
/// Places per way of pieces.
const PIECE_SETS: usize = 512;
/// Number of ways of both kinds, those of pages first.
pub const WAYS: usize = PAGE_WAYS + 4;
/// 2**GRANULE_BITS double words (512 bytes) are a granule: an entry in a way of pieces does not hold beyond its own.
pub const GRANULE_BITS: u32 = 7;
/// Tags of reads.
const TAGS: usize = 1024;
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
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    pub state: State,
    /// Sets apart commands that had this slot one after the other.
    pub generation: u16,
    /// Losses of TLPs before it began.
    pub epoch: u16,
    /// Its place in the SQ; once completed, in the CQ.
    pub index: u16,
    /// Slot of the next SQE that the same read returns.
    pub next: u16,
    pub prp1: u64,
    pub ranges: u16,
    pub ranges_expected: u16,
    /// Pages its data certainly has.
    pub pages_sure: u32,
    /// What its record will say.
    pub command: Command,
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
pub struct PageEntry {
    pub valid: bool,
    pub key: u64,
    pub kind: Page,
    /// The double word from which on it holds.
    pub start: u16,
    /// The command, or the queue.
    pub slot: u16,
    pub generation: u16,
    /// Number of the list entry (8 bytes) at `start`.
    pub index: u16,
    /// The command may not use this.
    pub doubtful: bool,
}

/// What the completions of a read carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
pub struct Tag {
    pub valid: bool,
    pub kind: Carries,
    /// The command; of SQEs, the next one.
    pub slot: u16,
    pub generation: u16,
    pub qid: u8,
    /// Of the next SQE in its queue; of the next 8 bytes of a list.
    pub index: u16,
    /// In its page, of the next 8 bytes of a list.
    pub place: u16,
    /// Slots that still wait for their SQE.
    pub left: u16,
    /// Double words still to come.
    pub remaining: u16,
}

impl Tag {
    /// A read that matched nothing.
    pub fn unknown(remaining: u16) -> Self {
        Self { valid: true, remaining, ..Self::default() }
    }
}

/// A submission queue, with the commands that were announced and not yet fetched.
#[derive(Debug, Clone, Default)]
pub struct Sq {
    pub valid: bool,
    pub base: u64,
    pub size: u32,
    pub tail: Option<u16>,
    pub fetch: Option<u16>,
    pub epoch: u16,
    pub announced: VecDeque<u16>,
}

/// A completion queue, with the commands whose CQ head doorbell has not come.
#[derive(Debug, Clone, Default)]
pub struct Cq {
    pub valid: bool,
    pub base: u64,
    pub size: u32,
    /// Its interrupt vector.
    pub link: u16,
    pub tail: Option<u16>,
    pub phase: bool,
    pub completed: VecDeque<u16>,
    /// So many of them, the first ones, had their interrupt.
    pub marked: usize,
}

impl Cq {
    /// Removes the oldest completed command.
    pub fn pop(&mut self) {
        self.completed.pop_front();
        self.marked = self.marked.saturating_sub(1);
    }
}

/// An interrupt message and the vector it was learnt to belong to.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    pub address: u64,
    pub data: u32,
    pub vector: u16,
    pub trust: u8,
}

/// All tables.
#[derive(Debug)]
pub struct Tables {
    pub slots: Vec<Slot>,
    pub free: VecDeque<u16>,
    /// Slot + 1 of the command in flight, by queue and CID.
    in_flight: Vec<u16>,
    pub pages: Vec<PageEntry>,
    pub tags: Vec<Tag>,
    pub sq: Vec<Sq>,
    pub cq: Vec<Cq>,
    /// Completion queues with completed commands, and with some that had no interrupt: a bit each.
    pub filled: u64,
    pub waiting: u64,
    pub messages: [Option<Message>; MESSAGES],
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS],
            free: (0..SLOTS as u16).collect(),
            in_flight: vec![0; QUEUES << 16],
            pages: vec![PageEntry::default(); SETS * PAGE_WAYS + PIECE_SETS * (WAYS - PAGE_WAYS)],
            // Completions of reads from before are not losses.
            tags: vec![Tag::unknown(2047); TAGS],
            sq: vec![Sq::default(); QUEUES],
            cq: vec![Cq::default(); QUEUES],
            filled: 0,
            waiting: 0,
            messages: [None; MESSAGES],
        }
    }
}

impl Tables {
    fn place_of(&mut self, qid: u8, cid: u16) -> &mut u16 {
        &mut self.in_flight[usize::from(qid) << 16 | usize::from(cid)]
    }

    /// The command (`qid`, `cid`) is in flight, in `slot`.
    pub fn set_in_flight(&mut self, qid: u8, cid: u16, slot: u16) {
        *self.place_of(qid, cid) = slot + 1;
    }

    /// The slot of (`qid`, `cid`), if it is in flight, which it no longer is.
    pub fn take_in_flight(&mut self, qid: u8, cid: u16) -> Option<u16> {
        std::mem::take(self.place_of(qid, cid)).checked_sub(1)
    }

    /// The completed commands of CQ `qid` have changed.
    pub fn note(&mut self, qid: usize) {
        let cq = &self.cq[qid];
        let bit = |is: bool| u64::from(is && cq.valid) << qid;
        self.filled = self.filled & !(1 << qid) | bit(!cq.completed.is_empty());
        self.waiting = self.waiting & !(1 << qid) | bit(cq.marked < cq.completed.len());
    }
}

/// The numbers of the bits of `set` that are 1.
pub fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
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

/// The place after `index` in a queue of `size`.
#[inline]
pub fn after(index: u16, size: u32) -> u16 {
    if u32::from(index) + 1 == size {
        0
    } else {
        index.wrapping_add(1)
    }
}

/// How far `to` is behind `from` in a queue of `size`.
#[inline]
pub fn distance(from: u16, to: u16, size: u32) -> u32 {
    let difference = i64::from(to) - i64::from(from);
    (if difference < 0 { difference + i64::from(size) } else { difference }) as u32 & 0x1_FFFF
}
