//! RAIL blocks: the samples of each block, preceded by its header.

use crate::builder::FLUSH_CLOCKS;
use crate::field::put;
use crate::time::{Clock, NEVER};
use crate::writer::{Block, Buffer};
use wattbell_spec::wire::{rail_flag_code, rail_header, MAX_PAYLOAD, RAIL_HEADER_SIZE, RAIL_SAMPLE_SIZE};

/// Samples per block.
const MAX_SAMPLES: usize = (MAX_PAYLOAD - RAIL_HEADER_SIZE) / RAIL_SAMPLE_SIZE;
/// Cycles from the decision to close a block to the cycle that closes it: padding, seven header words, the close
/// itself.
const CLOSING: Clock = 9;

/// A sample as it leaves the filter.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Corrected values.
    pub voltage: i32,
    /// See `voltage`.
    pub current: i32,
    /// Its time.
    pub tick: u64,
    /// Sum over all conversions up to the one that completed it.
    pub energy: i128,
    /// Number of those conversions.
    pub index: u64,
    /// The cycle in which it arrives.
    pub strobe: Clock,
}

/// Packs samples into blocks.
#[derive(Debug, Default)]
pub struct Packer {
    open: bool,
    /// The payload from its header on, followed by the bytes that the next sample overwrites.
    payload: Vec<u8>,
    length: usize,
    count: usize,
    first_tick: u64,
    close_at: Clock,
    block_flags: u8,
    new_flags: u8,
    energy: i128,
    index: u64,
    dropped: u32,
    restarted: bool,
    idle_from: Clock,
    still_from: Clock,
    lost: Option<(Clock, u32)>,
}

impl Packer {
    /// When the open block is closed, full or not.
    #[inline]
    pub fn close_at(&self) -> Clock {
        if self.open {
            self.close_at
        } else {
            NEVER
        }
    }

    /// First cycle in which it waits for something to do.
    pub fn idle_from(&self) -> Clock {
        self.idle_from
    }

    /// First cycle in which nothing of the last sample moves any more.
    pub fn still_from(&self) -> Clock {
        self.still_from
    }

    /// Flags of a conversion.
    #[inline]
    pub fn flags(&mut self, flags: u8) {
        self.new_flags |= flags;
    }

    /// The next block restarts.
    pub fn restart(&mut self) {
        self.restarted = true;
        self.new_flags = 0;
    }

    /// Samples lost, and when the last one was.
    pub fn take_lost(&mut self) -> Option<(Clock, u32)> {
        self.lost.take()
    }

    /// Closes the block; the decision falls in `decided`, a cycle in which nothing else is being done.
    fn close(&mut self, decided: Clock, interval: u64, buffer: &mut Buffer) {
        let p = &mut self.payload;
        // The last sample is followed by the two zero bytes that were written with it.
        p.truncate(self.length.next_multiple_of(4));
        put(p, rail_header::INTERVAL_TICKS, interval);
        put(p, rail_header::COUNT, self.count as u64);
        put(p, rail_header::FLAGS, u64::from(self.block_flags));
        put(p, rail_header::ADC_INDEX, self.index);
        put(p, rail_header::ENERGY, self.energy as u64);
        put(p, rail_header::ENERGY_HIGH, (self.energy >> 64) as u64);
        let closed = decided + CLOSING;
        buffer.close(Block {
            payload: std::mem::take(p),
            first_tick: self.first_tick,
            dropped: self.dropped,
            ready: closed + 1,
        });
        (self.open, self.dropped) = (false, 0);
        self.idle_from = closed + 1;
        self.still_from = self.still_from.max(closed + 1);
    }

    /// Closes the open block if its time was up before `clock`; returns whether it did.
    #[inline]
    pub fn settle(&mut self, clock: Clock, interval: u64, buffer: &mut Buffer) -> bool {
        let due = self.open && self.close_at < clock;
        if due {
            self.close((self.close_at + 1).max(self.idle_from), interval, buffer);
        }
        due
    }

    /// Nothing moves in `clock`: closes the open block, if any. Returns the first cycle in which nothing moves and none
    /// is open, and whether one was closed.
    pub fn flush(&mut self, clock: Clock, interval: u64, buffer: &mut Buffer) -> (Clock, bool) {
        if self.settle(clock, interval, buffer) {
            return (clock.max(self.idle_from), true);
        }
        if self.open {
            self.close(clock + 1, interval, buffer);
            return (self.idle_from, true);
        }
        (clock, false)
    }

    #[inline(always)]
    fn put(&mut self, voltage: i32, current: i32) {
        let (v, i) = (voltage as u64 & 0xFF_FFFF, current as u64 & 0xFF_FFFF);
        if let Some(place) = self.payload.get_mut(self.length..self.length + 8) {
            place.copy_from_slice(&(v | i << 24).to_le_bytes());
        }
        self.length += RAIL_SAMPLE_SIZE;
    }

    /// Samples that the open block takes without being closed, if they come before it is due.
    #[inline]
    pub fn room(&self) -> usize {
        if self.open {
            MAX_SAMPLES - 1 - self.count
        } else {
            0
        }
    }

    /// Takes one of these samples; the caller must call [`Self::packed`] after the last one.
    #[inline(always)]
    pub fn pack(&mut self, voltage: i32, current: i32) {
        self.put(voltage, current);
    }

    /// This many samples were packed, the last in the cycle of `strobe`; their conversions had `flags`.
    #[inline]
    pub fn packed(&mut self, count: usize, flags: u8, energy: i128, index: u64, strobe: Clock) {
        self.count += count;
        self.idle_from = strobe + 2 + ((self.count as Clock - 1) & 1);
        self.still_from = strobe + 3;
        self.block_flags |= self.new_flags | flags;
        self.new_flags = 0;
        (self.energy, self.index) = (energy, index);
    }

    /// Takes a sample; returns whether a block was closed.
    #[inline]
    pub fn take(&mut self, sample: &Sample, interval: u64, buffer: &mut Buffer) -> bool {
        let mut closed = self.settle(sample.strobe, interval, buffer);
        let clock = sample.strobe.max(self.idle_from);
        if !self.open {
            if buffer.free_from(clock) != clock {
                self.dropped = self.dropped.saturating_add(1);
                let lost = self.lost.map_or(0, |(_, n)| n);
                self.lost = Some((clock, lost + 1));
                return closed;
            }
            self.payload = buffer.payload();
            self.payload.resize(MAX_PAYLOAD + 8, 0);
            self.length = RAIL_HEADER_SIZE;
            self.open = true;
            self.count = 0;
            self.first_tick = sample.tick;
            self.close_at = clock + FLUSH_CLOCKS;
            self.block_flags = if self.restarted { rail_flag_code::RESTARTED } else { 0 };
            self.restarted = false;
        }
        self.put(sample.voltage, sample.current);
        // A sample is a word and a half: every other one takes two cycles.
        self.idle_from = clock + 2 + (self.count as Clock & 1);
        self.still_from = clock + 3;
        self.count += 1;
        self.block_flags |= self.new_flags;
        self.new_flags = 0;
        (self.energy, self.index) = (sample.energy, sample.index);
        if self.count == MAX_SAMPLES {
            self.close(self.idle_from - 1, interval, buffer);
            closed = true;
        }
        closed
    }
}
