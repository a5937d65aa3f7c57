//! The instrument's visible state: counters, levels, whether it is busy or idle.

use super::Instrument;
use crate::events::Lost;
use crate::rail::Analog;
use crate::status::Counters;
use crate::time::{Clock, NEVER};
use crate::writer::Writer;

impl<A: Analog> Instrument<A> {
    /// Everything up to and including this cycle has happened.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Number of conversions so far.
    pub fn conversions(&self) -> u64 {
        self.rail.conversions()
    }

    /// Number of command records so far.
    pub fn commands(&self) -> u64 {
        self.tracker.commands()
    }

    /// The tracker's part of a STATUS block made now.
    pub fn counters(&mut self) -> Counters {
        self.tracker.counters(self.clock)
    }

    /// Command records, events and samples lost after the tracker.
    pub fn lost(&self) -> [u32; 3] {
        [Lost::Records, Lost::Events, Lost::Samples].map(|what| self.events.lost(what))
    }

    /// Number of blocks sent: the sequence number of the next one.
    pub fn blocks(&self) -> u32 {
        self.writer.sent()
    }

    /// PERST#, CLKREQ#, link state.
    pub fn levels(&self) -> (u8, u8, u8) {
        (self.levels.perst_n, self.levels.clkreq_n, self.levels.link_state)
    }

    /// Whether it captures or still sends, and whether a stop is in progress.
    pub fn state(&self) -> (bool, bool) {
        (self.run.active, self.run.active && self.run.is_stopping())
    }

    /// Whether rail settings wait for a conversion; whether a late-attach fact waits for the tracker.
    pub fn waits(&self) -> (bool, bool) {
        (self.rail.is_pending(self.clock), self.clock < self.attach_busy)
    }

    /// The cycle from which on every TLP, sideband and write handed in has been seen.
    pub fn seen_from(&self) -> Clock {
        if !self.writes.is_empty() || !self.sidebands.is_empty() {
            return NEVER;
        }
        let last_beat = self.tracker.lanes.iter().map(|lane| lane.free - 1).fold(0, Clock::max);
        last_beat.max(self.sidebands_at.saturating_sub(1)).max(self.write_at.saturating_sub(1))
    }

    /// Returns whether the instrument captures, or still sends the data left after a stop.
    pub fn is_active(&self) -> bool {
        self.run.active || !self.writes.is_empty() || self.run.wanted.1
    }

    /// The block writer, for its output.
    pub fn output(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Returns the reason if an event occurred that the model cannot reproduce exactly.
    pub fn inexact(&self) -> Option<&'static str> {
        self.tracker.inexact().or(self.full)
    }
}
