//! One direction: its TLPs on their way to the engine, and their number as the parser counts them once they are whole.

use super::header::Header;
use crate::time::{clock_at, Clock};
use std::collections::VecDeque;
use wattbell_bus::Tlp;

const BEAT_DWS: usize = 4;
/// Cycles from a TLP's last beat at the pins to the one in which the parser has seen it whole.
const PARSED: Clock = 2;

/// TLPs seen whole, rejected, and how often some were missed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub tlps: u64,
    pub malformed: u32,
    pub lost: u32,
}

/// A TLP on the pins: the cycles of its first and last beat.
#[derive(Debug)]
struct Beats {
    first: Clock,
    last: Clock,
    bad: bool,
    lost: bool,
}

/// TLPs to come: those that the engine sees, each with the cycle of its first beat; and all, to be counted.
#[derive(Debug, Default)]
struct Coming {
    headers: VecDeque<(Clock, Header)>,
    beats: VecDeque<Beats>,
}

impl Coming {
    /// A TLP whose first beat is in cycle `first`; returns the cycle of its last.
    #[inline]
    fn push(&mut self, up: bool, tick: u64, first: Clock, tlp: Tlp, lost: bool) -> Clock {
        let payload = tlp.payload.as_ref().map_or(tlp.header.payload_len(), Vec::len);
        let dws = tlp.header.as_bytes().len() / 4 + payload / 4;
        let last = first + dws.div_ceil(BEAT_DWS).max(1) as Clock - 1;
        let header = Header::decode(up, tick, tlp, dws, lost);
        self.beats.push_back(Beats { first, last, bad: header.as_ref().is_some_and(|h| h.bad), lost });
        self.headers.extend(header.map(|h| (first, h)));
        last
    }

    /// Removes what begins in `clock` or later.
    fn split(&mut self, clock: Clock) -> Self {
        let headers = self.headers.partition_point(|(first, _)| *first < clock);
        let beats = self.beats.partition_point(|b| b.first < clock);
        Self { headers: self.headers.split_off(headers), beats: self.beats.split_off(beats) }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Lane {
    up: bool,
    /// First cycle in which the board's next TLP may begin.
    free: Clock,
    coming: Coming,
    counts: Counts,
    /// The board's next TLP comes after some that were missed.
    missed: bool,
    /// While a pattern replaces the board's TLPs: the board's own, from the cycle in which that began.
    held: Option<Coming>,
    /// Whether a TLP was on the pins when that began or ended, or some were missed meanwhile.
    pub cut: bool,
}

impl Lane {
    /// A direction whose first beat is seen in `clock` at the earliest.
    pub fn new(up: bool, clock: Clock) -> Self {
        let (coming, counts) = (Coming::default(), Counts::default());
        Self { up, free: clock, coming, counts, missed: false, held: None, cut: false }
    }

    /// The board's next TLP comes after some that were missed.
    pub fn miss(&mut self) {
        self.missed = true;
    }

    /// A TLP of the board, seen or held, whose first symbol is at `tick`. If some before it were missed, returns the
    /// cycle in which that is noticed.
    #[inline]
    pub fn push(&mut self, tick: u64, tlp: Tlp) -> Option<Clock> {
        let (first, lost) = (clock_at(tick).max(self.free), std::mem::take(&mut self.missed));
        self.cut |= lost && self.held.is_some();
        let coming = self.held.as_mut().unwrap_or(&mut self.coming);
        let last = coming.push(self.up, tick, first, tlp, lost);
        self.free = last + 1;
        lost.then_some(last + PARSED)
    }

    /// A TLP of the pattern, while the board's are held.
    pub fn play(&mut self, tick: u64, tlp: Tlp) {
        self.coming.push(self.up, tick, clock_at(tick), tlp, false);
    }

    /// From `clock` on the board's TLPs are not seen.
    pub fn hold(&mut self, clock: Clock) {
        let board = self.cut_at(clock);
        self.held.get_or_insert(board);
    }

    /// From `clock` on they are seen again, and none of the pattern that were to come.
    pub fn release(&mut self, clock: Clock) {
        if let Some(mut board) = self.held.take() {
            self.cut_at(clock);
            let mut rest = board.split(clock);
            self.coming.headers.append(&mut rest.headers);
            self.coming.beats.append(&mut rest.beats);
        }
    }

    fn cut_at(&mut self, clock: Clock) -> Coming {
        let rest = self.coming.split(clock);
        self.cut |= self.coming.beats.back().is_some_and(|b| b.last >= clock);
        rest
    }

    /// Tick of the oldest TLP for the engine.
    #[inline]
    pub fn head_tick(&self) -> Option<u64> {
        self.coming.headers.front().map(|(_, h)| h.tick)
    }

    /// Takes it.
    #[inline]
    pub fn take(&mut self) -> Option<Header> {
        self.coming.headers.pop_front().map(|(_, h)| h)
    }

    /// Cycle of the board's last beat at the pins.
    pub fn last_beat(&self) -> Clock {
        self.free - 1
    }

    /// What was counted before `clock`, which does not decrease from call to call.
    pub fn counts(&mut self, clock: Clock) -> Counts {
        let whole = self.coming.beats.partition_point(|b| b.last + PARSED < clock);
        for b in self.coming.beats.drain(..whole) {
            self.counts.tlps += 1;
            self.counts.malformed += u32::from(b.bad);
            self.counts.lost += u32::from(b.lost);
        }
        self.counts
    }
}
