//! Blocks of fixed-size records: COMMANDS and EVENTS.

use crate::fifo::Fifo;
use crate::time::{clock_at, tick, Clock, NEVER};
use crate::writer::{Block, Buffer};
use wattbell_spec::wire::{FLUSH_TICKS, MAX_PAYLOAD};

/// Maximum number of cycles a block stays open.
pub const FLUSH_CLOCKS: Clock = FLUSH_TICKS / crate::time::TICKS;

/// A record of `N` bytes as passed to the builder.
#[derive(Debug, Clone)]
pub struct Record<const N: usize> {
    /// Its tick.
    pub tick: u64,
    /// Its bytes; where ticks are relative, the first four become the offset from the block's first tick.
    pub bytes: [u8; N],
    /// Records lost before it.
    pub dropped: u32,
}

#[derive(Debug)]
struct Open {
    payload: Vec<u8>,
    first_tick: u64,
    dropped: u32,
    close_at: Clock,
    count: usize,
}

/// Writes records into blocks, one word per cycle and one cycle between records.
#[derive(Debug)]
pub struct Builder<const N: usize> {
    /// Records queued for it.
    pub queue: Fifo<Record<N>>,
    relative: bool,
    open: Option<Open>,
    idle_from: Clock,
}

impl<const N: usize> Builder<N> {
    const WORDS: Clock = N as Clock / 4;
    const CAPACITY: usize = MAX_PAYLOAD / N;

    /// Creates a builder. Its records carry absolute ticks, or (`relative`) offsets from the block's first tick.
    pub fn new(relative: bool) -> Self {
        Self { queue: Fifo::default(), relative, open: None, idle_from: 0 }
    }

    /// Returns the next cycle in which the builder acts, with the present queue.
    #[inline]
    pub fn next(&self, buffer: &Buffer) -> Clock {
        let shows = self.queue.shows();
        match &self.open {
            Some(open) => self.idle_from.max(shows.min(open.close_at)),
            None if shows == NEVER => NEVER,
            None => buffer.free_from(self.idle_from.max(shows)),
        }
    }

    fn close(&mut self, clock: Clock, buffer: &mut Buffer) {
        if let Some(open) = self.open.take() {
            let Open { payload, first_tick, dropped, .. } = open;
            buffer.close(Block { payload, first_tick, dropped, ready: clock + 1 });
        }
        self.idle_from = clock + 1;
    }

    /// Acts in `clock`, which must be [`Self::next`].
    #[inline]
    pub fn step(&mut self, clock: Clock, buffer: &mut Buffer) {
        let head = self.queue.front();
        let mut begin = clock;
        if let Some(open) = &mut self.open {
            let far = |tick: u64| self.relative && i32::try_from(tick.wrapping_sub(open.first_tick) as i64).is_err();
            if open.close_at <= clock {
                return self.close(clock + 1, buffer);
            }
            begin += 1; // LOOK
            if head.is_some_and(|r| r.dropped != 0 || far(r.tick)) {
                return self.close(begin + 1, buffer);
            }
        } else if let Some(record) = head {
            self.open = Some(Open {
                payload: buffer.payload(),
                first_tick: record.tick,
                dropped: record.dropped,
                close_at: clock_at(tick(clock) + FLUSH_TICKS),
                count: 0,
            });
        }
        let (Some(record), Some(open)) = (self.queue.pop(begin + Self::WORDS), &mut self.open) else { return };
        let start = open.payload.len();
        open.payload.extend_from_slice(&record.bytes);
        if self.relative {
            let offset = record.tick.wrapping_sub(open.first_tick) as u32;
            open.payload[start..start + 4].copy_from_slice(&offset.to_le_bytes());
        }
        open.count += 1;
        self.idle_from = begin + Self::WORDS + 1;
        if open.count == Self::CAPACITY {
            self.close(self.idle_from, buffer);
        }
    }

    /// `flush` is high in `clock`: closes the open block if nothing is queued.
    pub fn flush(&mut self, clock: Clock, buffer: &mut Buffer) {
        if self.idle_from <= clock && self.queue.shows() > clock && self.open.is_some() {
            self.close(clock + 1, buffer);
        }
    }

    /// Whether it is idle in `clock`; a block may be open.
    pub fn is_quiet(&self, clock: Clock) -> bool {
        self.idle_from <= clock && self.queue.shows() > clock && self.open.as_ref().is_none_or(|o| o.close_at > clock)
    }

    /// Whether no block is open and nothing is queued in `clock`.
    pub fn is_idle(&self, clock: Clock) -> bool {
        self.idle_from <= clock && self.queue.shows() > clock && self.open.is_none()
    }
}
