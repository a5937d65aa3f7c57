//! The tracker's tables, with the sizes of the hardware's.

use crate::command::Command;
use crate::status::{QUEUES, SLOTS};
use std::collections::{HashMap, VecDeque};

/// Ways of the page map whose entries hold to the end of a page, and all of them: those of pieces come last.
pub const PAGE_WAYS: usize = 8;
pub const WAYS: usize = PAGE_WAYS + 4;
/// A way of pages has 2**PAGE_BITS places, one of pieces 2**PIECE_BITS.
const PAGE_BITS: usize = 10;
const PIECE_BITS: usize = 9;
/// 2**GRANULE_BITS double words (512 bytes) are a granule: an entry in a way of pieces does not hold beyond its own.
pub const GRANULE_BITS: u32 = 7;
/// Tags of reads; interrupt messages that can be known.
const TAGS: usize = 1024;
pub const MESSAGES: usize = 64;

/// A command's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// The slot is not in use.
    #[default]
    Free,
    /// There was an SQ tail doorbell.
    Announced,
    /// The read of its SQE was seen.
    Fetching,
    /// Its SQE is known.
    InFlight,
    /// Its CQE was seen, but not yet its CQ head doorbell.
    Completed,
}

/// A command by its slot; `generation` sets apart those that had the slot one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Id {
    pub slot: u16,
    pub generation: u16,
}

/// A command in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    pub state: State,
    pub id: Id,
    /// Losses of TLPs before it began.
    pub epoch: u16,
    /// Its place in the SQ; once completed, in the CQ.
    pub index: u16,
    pub prp1: u64,
    /// Ranges of a DSM that were seen, and that it has.
    pub ranges: u16,
    pub ranges_expected: u16,
    /// Pages its data certainly has.
    pub pages_sure: u64,
    /// Double words of data that are due, if that is known; those that came, up to a limit.
    pub due: Option<u32>,
    pub words: u32,
    /// Those that bit buckets discard.
    pub discarded: u32,
    /// The last double word in its page of its data's last page; without a known length: of the data that it surely has.
    pub last: u16,
    /// Another command in flight may have the same pages, and its data may count as this command's.
    pub shared: bool,
    /// Another command in flight took over one of its pages.
    pub ousted: bool,
    /// It was a command without a slot.
    pub held: bool,
    /// It has completed, and its interrupt is due.
    pub untold: bool,
    /// Contents of its record.
    pub command: Command,
}

impl Slot {
    /// Whether its data differs from the due data; a command that `failed` may move less. Without a known length: whether it has no data.
    /// Where no number shows the data of another command, a shared page is enough.
    pub fn is_partial(&self, failed: bool) -> bool {
        if self.shared && (failed || self.due.is_none()) {
            return true;
        }
        let Some(due) = self.due else { return self.pages_sure != 0 && self.command.first_data.is_none() && !failed };
        let came = u64::from(self.words) + u64::from(self.discarded);
        came > due.into() || (came < due.into() && !failed)
    }
}

/// Known content of a page of host memory, or of a read by the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Holds {
    #[default]
    Unknown,
    Data,
    /// Data, or a PRP list.
    Either,
    List,
    /// Ranges of a DSM.
    Ranges,
    /// Descriptors of a scatter gather list.
    Segment,
    /// Descriptors of a host memory buffer; of a read alone.
    BufferList,
    Sq,
    Cq,
    /// Shadow doorbells and event indexes.
    Ignored,
}

/// An entry of the page map.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageEntry {
    pub key: u64,
    pub holds: Holds,
    /// The double word from which on it holds.
    pub start: u16,
    /// The command; of a queue, its number in place of the slot.
    pub of: Id,
    /// Number of the list entry (8 bytes) at `start`.
    pub index: u16,
    /// Last double word of the page that holds data of the command.
    pub last: u16,
    /// The command may not use this.
    pub doubtful: bool,
}

impl PageEntry {
    /// Never displaced by a command's page.
    pub fn is_pinned(&self) -> bool {
        matches!(self.holds, Holds::Sq | Holds::Cq | Holds::Ignored)
    }

    /// Whether data at `offset` in its page is the command's, as far as is known.
    pub fn covers(&self, offset: u16) -> bool {
        self.holds == Holds::Data && !self.doubtful && offset <= self.last
    }
}

/// A read by the drive.
#[derive(Debug, Clone, Default)]
pub struct Tag {
    pub returns: Holds,
    /// The command.
    pub of: Id,
    /// Number of the next SQE in its queue, of the next 8 bytes in a list.
    pub index: u16,
    /// Place in its page of the next 8 bytes of a list.
    pub place: u16,
    /// The SQ, and the slots that still wait for their SQEs.
    pub qid: u8,
    pub slots: VecDeque<u16>,
    /// Double words still to come; without any it is over.
    pub remaining: u16,
}

/// A queue.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    pub valid: bool,
    pub base: u64,
    pub size: u32,
    /// Place at which the host, or for CQEs the drive, puts the next entry, if known.
    pub tail: Option<u16>,
    /// Slots of an SQ's commands that were announced and not fetched; of a CQ's whose CQ head doorbell has not come.
    pub commands: VecDeque<u16>,
    /// Whether the drive announces completions on a CQ, and how many, the last ones, it has not announced.
    pub tells: bool,
    pub untold: usize,
    /// State of an SQ: the drive's next fetch, and losses of TLPs before its last doorbell.
    pub fetch: Option<u16>,
    pub epoch: u16,
    /// A doorbell of this SQ has come.
    pub rung: bool,
    /// State of a CQ: its interrupt vector, and the phase of the next CQE.
    pub vector: u16,
    pub phase: bool,
}

impl Queue {
    /// An empty one; `guess`: where its entries begin is not known.
    pub fn new(base: u64, size: u32, vector: u16, guess: bool) -> Self {
        let first = (!guess).then_some(0);
        Self { valid: true, base, size, tail: first, fetch: first, vector, phase: true, ..Self::default() }
    }

    /// The same with interrupts enabled, or not.
    pub fn telling(self, tells: bool) -> Self {
        Self { tells, ..self }
    }
}

/// Settings that the host gave the drive's controller, as far as seen.
#[derive(Debug, Default)]
pub struct Controller {
    pub enabled: bool,
    /// Its register CC as written.
    pub cc: u32,
    /// Its registers of the admin queues: AQA, and two each of ASQ and ACQ.
    pub admin_queues: [u32; 5],
    /// A read of CAP, CC or CSTS that the drive has yet to answer.
    pub asked: Option<Asked>,
    pub shutdown: Shutdown,
}

/// A register that is read; the one that matters most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Register {
    Cap,
    Cc,
    Csts,
}

/// A shutdown, as host and drive tell it. NVMe: CC, SHN; CSTS, SHST.
#[derive(Debug, Default)]
pub struct Shutdown {
    pub notified: u32,
    pub status: u32,
    /// When the drive last answered with its status.
    pub answered: Option<u64>,
}

/// A read of a register: `index` is the double word of the answer with CAP.DSTRD, CC or CSTS.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub tag: u16,
    pub requester: u16,
    pub of: Register,
    pub index: usize,
}

impl Controller {
    /// The host says that it is enabled.
    pub fn be_enabled(&mut self) {
        (self.enabled, self.cc) = (true, self.cc | 1);
    }
}

/// An interrupt message and the vector that it was learnt to be of.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    pub address: u64,
    pub data: u32,
    pub vector: u16,
    pub trust: u8,
}

/// All that is forgotten at a reset.
#[derive(Debug)]
pub struct Tables {
    /// Slots of commands in flight, by SQ and CID.
    pub in_flight: HashMap<(u8, u16), u16>,
    pub pages: Vec<Option<PageEntry>>,
    pub tags: Vec<Tag>,
    pub sqs: Vec<Queue>,
    pub cqs: Vec<Queue>,
    pub messages: [Option<Message>; MESSAGES],
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            in_flight: HashMap::with_capacity(SLOTS),
            pages: vec![None; PAGE_WAYS << PAGE_BITS | (WAYS - PAGE_WAYS) << PIECE_BITS],
            // Completions of reads from before are not losses.
            tags: vec![Tag { remaining: 2047, ..Tag::default() }; TAGS],
            sqs: vec![Queue::default(); QUEUES],
            cqs: vec![Queue::default(); QUEUES],
            messages: [None; MESSAGES],
        }
    }
}

/// Returns the place at which each way keeps page `key`; a way of pieces, that page's granule with `offset` (in double words).
#[inline]
pub fn places(key: u64, offset: u16) -> [usize; WAYS] {
    // The granule's number with its bits reversed, in the upper seven of nine.
    let granule = u64::from((offset >> GRANULE_BITS) as u8 & 0x7F).reverse_bits() >> (64 - PIECE_BITS);
    std::array::from_fn(|way| {
        let bits = if way < PAGE_WAYS { PAGE_BITS } else { PIECE_BITS };
        let part = |k: usize| key >> (bits * k) & ((1 << bits) - 1);
        let rotate = |x: u64, n: usize| (x << (n % bits) | x >> (bits - n % bits)) & ((1 << bits) - 1);
        let (first, at) = if way < PAGE_WAYS {
            (way << bits, rotate(part(1), way) ^ rotate(part(2), 2 * way + 1))
        } else {
            let turn = way - PAGE_WAYS;
            let first = (PAGE_WAYS << PAGE_BITS) + (turn << bits);
            (first, rotate(part(1), turn + 1) ^ rotate(part(2), 2 * turn) ^ rotate(granule, turn))
        };
        first + (at ^ part(0) ^ part(3)) as usize
    })
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
    (u32::from(to) + if to < from { size } else { 0 }).wrapping_sub(from.into()) & 0x1_FFFF
}
