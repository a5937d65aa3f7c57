//! The block writer and the banks before it: who goes next, and when a bank is free again.

use crate::field::put;
use crate::time::{Clock, NEVER};
use std::collections::VecDeque;
use wattbell_spec::wire;

/// Banks of a block buffer: one fills while the other waits or is sent.
const BANKS: usize = 2;
/// Cycles from choosing a block to its CRC, not counting its payload.
const OVERHEAD: Clock = 10;

/// A closed block.
#[derive(Debug)]
pub struct Block {
    /// Whole words.
    pub payload: Vec<u8>,
    /// Time base.
    pub first_tick: u64,
    /// Records lost before it.
    pub dropped: u32,
    /// First cycle in which the writer sees it.
    pub ready: Clock,
}

/// Blocks of one kind queued for the writer.
#[derive(Debug, Default)]
pub struct Buffer {
    closed: VecDeque<Block>,
    /// The bank being sent is returned at the end of this cycle.
    sending_until: Option<Clock>,
    spare: Vec<Vec<u8>>,
}

impl Buffer {
    /// Queues a block.
    pub fn close(&mut self, block: Block) {
        self.closed.push_back(block);
    }

    /// An empty payload to fill.
    pub fn payload(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(wire::MAX_PAYLOAD))
    }

    /// First cycle, from `clock` on, in which there is a bank to fill; [`NEVER`] while the writer has not got that far.
    pub fn free_from(&self, clock: Clock) -> Clock {
        let sending = usize::from(self.sending_until.is_some_and(|until| until >= clock));
        if self.closed.len() + sending < BANKS {
            return clock;
        }
        match self.sending_until {
            Some(until) if sending == 1 && self.closed.len() < BANKS => until + 1,
            _ => NEVER,
        }
    }

    /// Whether nothing is closed in `clock`.
    pub fn is_empty(&self, clock: Clock) -> bool {
        self.sending_until.is_none_or(|until| until < clock) && self.closed.front().is_none_or(|b| b.ready > clock)
    }

    fn ready(&self) -> Clock {
        self.closed.front().map_or(NEVER, |block| block.ready)
    }
}

/// Kinds of blocks by descending priority.
pub const KINDS: [u8; 5] = [
    wire::block_content_code::STATUS,
    wire::block_content_code::EVENTS,
    wire::block_content_code::RAIL,
    wire::block_content_code::COMMANDS,
    wire::block_content_code::TLP,
];

/// Indices into [`Writer::buffers`], in the order of [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Source {
    Status,
    Events,
    Rail,
    Commands,
    Raw,
}

/// Puts blocks into the stream, one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    /// One per kind.
    pub buffers: [Buffer; 5],
    /// First cycle in which it looks for the next block.
    free: Clock,
    sequence: u32,
    /// Identifier of the run, in every header.
    pub run: u32,
    stream: Vec<u8>,
    ends: Option<Vec<(Clock, u8)>>,
}

impl Writer {
    /// The buffer of `source`.
    #[inline]
    pub fn buffer(&mut self, source: Source) -> &mut Buffer {
        &mut self.buffers[source as usize]
    }

    /// The cycle in which it chooses the next block.
    #[inline]
    pub fn next(&self) -> Clock {
        self.buffers.iter().map(Buffer::ready).min().map_or(NEVER, |ready| ready.max(self.free))
    }

    /// Chooses and sends the block of [`Self::next`].
    pub fn step(&mut self) {
        let clock = self.next();
        let chosen = self.buffers.iter().position(|b| b.ready() <= clock).expect("next() saw one");
        let buffer = &mut self.buffers[chosen];
        let block = buffer.closed.pop_front().expect("it is ready");
        let words = block.payload.len() as u64 / 4;
        let last = clock + OVERHEAD + words;
        buffer.sending_until = Some(last);
        self.free = last + 1;

        let start = self.stream.len();
        let mut header = [0; wire::HEADER_SIZE];
        put(&mut header, wire::header::MAGIC, u64::from(u32::from_le_bytes(wire::MAGIC)));
        put(&mut header, wire::header::VERSION, u64::from(wire::VERSION));
        put(&mut header, wire::header::KIND, u64::from(KINDS[chosen]));
        put(&mut header, wire::header::LENGTH, block.payload.len() as u64);
        put(&mut header, wire::header::SEQUENCE, u64::from(self.sequence));
        put(&mut header, wire::header::DROPPED, u64::from(block.dropped));
        put(&mut header, wire::header::FIRST_TICK, block.first_tick);
        put(&mut header, wire::header::RUN, u64::from(self.run));
        self.stream.extend_from_slice(&header);
        self.stream.extend_from_slice(&block.payload);
        let crc = crc32fast::hash(&self.stream[start..]);
        self.stream.extend_from_slice(&crc.to_le_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        if let Some(ends) = &mut self.ends {
            ends.push((last, KINDS[chosen]));
        }
        let mut payload = block.payload;
        payload.clear();
        self.buffers[chosen].spare.push(payload);
    }

    /// Whether nothing is closed, being sent, or waiting to be taken in `clock`.
    pub fn is_idle(&self, clock: Clock) -> bool {
        self.free < clock && self.buffers.iter().all(|b| b.ready() > clock)
    }

    /// Notes, from now on, the cycle of each block's last word and its kind.
    pub fn note_ends(&mut self) {
        self.ends = Some(Vec::new());
    }

    /// Notes since the last call.
    pub fn take_ends(&mut self) -> Vec<(Clock, u8)> {
        self.ends.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The stream since the last call.
    pub fn take_stream(&mut self) -> Vec<u8> {
        let next = Vec::with_capacity(self.stream.capacity());
        std::mem::replace(&mut self.stream, next)
    }

    /// Bytes waiting for [`Self::take_stream`].
    pub fn waiting(&self) -> usize {
        self.stream.len()
    }

    /// Blocks sent.
    pub fn sent(&self) -> u32 {
        self.sequence
    }
}
