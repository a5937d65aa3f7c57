//! TLP blocks: raw TLPs that carry Identify data.

use crate::builder::FLUSH_CLOCKS;
use crate::field::put;
use crate::time::{Clock, NEVER};
use crate::writer::{Block, Buffer};
use std::collections::VecDeque;
use wattbell_spec::wire::{tlp_header, MAX_PAYLOAD, TLP_HEADER_SIZE};

/// Bytes of a TLP that fit an empty block.
const LONGEST: usize = MAX_PAYLOAD - TLP_HEADER_SIZE;
const CUT_SHORT: u8 = 1;
const HEADER_CLOCKS: Clock = TLP_HEADER_SIZE as Clock / 4;

/// A TLP passed on by the tracker, one word per cycle.
#[derive(Debug)]
pub struct RawTlp {
    /// Cycle in which its first word becomes visible, if it is the oldest then.
    pub released: Clock,
    /// Tick of its first symbol.
    pub tick: u64,
    /// Its bytes, whole words.
    pub bytes: Vec<u8>,
    /// 1: drive to host.
    pub direction: u8,
    /// Flags as in the wire format.
    pub flags: u8,
}

#[derive(Debug)]
struct Open {
    payload: Vec<u8>,
    first_tick: u64,
    dropped: u32,
    close_at: Clock,
}

/// Puts raw TLPs into blocks.
#[derive(Debug, Default)]
pub struct RawBuilder {
    queue: VecDeque<RawTlp>,
    taken: Clock,
    open: Option<Open>,
    idle_from: Clock,
    reported: u32,
}

impl RawBuilder {
    /// The TLP in progress.
    pub fn push(&mut self, tlp: RawTlp) {
        self.queue.push_back(tlp);
    }

    fn shows(&self) -> Clock {
        self.queue.front().map_or(NEVER, |tlp| tlp.released.max(self.taken + 1))
    }

    /// The cycle in which it next does something.
    pub fn next(&self, buffer: &Buffer) -> Clock {
        match &self.open {
            Some(open) => self.idle_from.max(self.shows().min(open.close_at)),
            None if self.queue.is_empty() => NEVER,
            None => buffer.free_from(self.idle_from.max(self.shows())),
        }
    }

    fn close(&mut self, clock: Clock, buffer: &mut Buffer) {
        if let Some(Open { payload, first_tick, dropped, .. }) = self.open.take() {
            buffer.close(Block { payload, first_tick, dropped, ready: clock + 1 });
        }
        self.idle_from = clock + 1;
    }

    /// Acts in `clock`, which must be [`Self::next`]; `lost` raw TLPs were lost before.
    pub fn step(&mut self, clock: Clock, lost: u32, buffer: &mut Buffer) {
        let Some(tlp) = self.queue.front() else { return self.close(clock + 1, buffer) };
        let size = tlp.bytes.len().min(LONGEST);
        let mut begin = clock;
        if let Some(open) = &self.open {
            let far = i32::try_from(tlp.tick.wrapping_sub(open.first_tick) as i64).is_err();
            let full = open.payload.len() + TLP_HEADER_SIZE + size > MAX_PAYLOAD;
            if open.close_at <= clock {
                return self.close(clock + 1, buffer);
            }
            begin += 1; // LOOK
            if far || full {
                return self.close(begin + 1, buffer);
            }
        } else {
            self.open = Some(Open {
                payload: buffer.payload(),
                first_tick: tlp.tick,
                dropped: lost.wrapping_sub(self.reported),
                close_at: clock + FLUSH_CLOCKS,
            });
            self.reported = lost;
        }
        let (Some(tlp), Some(open)) = (self.queue.pop_front(), &mut self.open) else { return };
        let mut header = [0; TLP_HEADER_SIZE];
        put(&mut header, tlp_header::OFFSET, tlp.tick.wrapping_sub(open.first_tick));
        put(&mut header, tlp_header::LENGTH, size as u64);
        put(&mut header, tlp_header::DIRECTION, u64::from(tlp.direction));
        let cut = if tlp.bytes.len() > LONGEST { CUT_SHORT } else { 0 };
        put(&mut header, tlp_header::FLAGS, u64::from(tlp.flags | cut));
        open.payload.extend_from_slice(&header);
        open.payload.extend_from_slice(&tlp.bytes[..size]);
        self.taken = begin + HEADER_CLOCKS + tlp.bytes.len() as Clock / 4;
        self.idle_from = self.taken + 1;
    }

    /// `flush` is high in `clock`.
    pub fn flush(&mut self, clock: Clock, buffer: &mut Buffer) {
        if self.idle_from <= clock && self.shows() > clock && self.open.is_some() {
            self.close(clock + 1, buffer);
        }
    }

    /// Whether no word of a TLP is queued in `clock`.
    pub fn is_empty(&self, clock: Clock) -> bool {
        self.shows() > clock && self.taken < clock
    }

    /// Whether no block is open and nothing is queued in `clock`.
    pub fn is_idle(&self, clock: Clock) -> bool {
        self.idle_from <= clock && self.shows() > clock && self.open.is_none()
    }

    /// Words of TLPs that are to be released by `clock`, and were not taken.
    pub fn level(&self, clock: Clock) -> usize {
        self.queue.iter().take_while(|tlp| tlp.released <= clock).map(|tlp| tlp.bytes.len() / 4).sum()
    }
}
