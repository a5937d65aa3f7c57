//! One direction: its TLPs on their way to the tracker, and their number as the parser counts them once they are whole.

use super::header::Header;
use crate::status::Counters;
use crate::time::{clock_at, Clock};
use std::collections::VecDeque;
use wattbell_bus::Tlp;

const BEAT_BYTES: usize = 16;
/// Cycles from a TLP's last beat at the pins to the one in which the parser has seen it whole.
const PARSED: Clock = 2;

/// A TLP on the pins: the cycles of its first and last beat.
#[derive(Debug)]
struct Beats {
    first: Clock,
    last: Clock,
    bad: bool,
    lost: bool,
}

/// Whether a TLP of `length` bytes, of which `prefixes` are removed, reaches the parser a cycle late. `after`: the TLP just before
/// it does.
fn is_late(prefixes: usize, length: usize, after: bool) -> bool {
    let (start, shift, last) = (prefixes / BEAT_BYTES, prefixes % BEAT_BYTES, (length - 1) / BEAT_BYTES);
    if shift == 0 || start == last {
        after && start == 0
    } else {
        length - last * BEAT_BYTES > shift
    }
}

/// TLPs to come: to the tracker, each with the cycle of its first beat; and to be counted.
#[derive(Debug, Default)]
struct Coming {
    headers: VecDeque<(Clock, Header)>,
    beats: VecDeque<Beats>,
    /// The cycle in which the last beat of the latest TLP reaches the parser, if that is one after the pins.
    late_at: Option<Clock>,
}

impl Coming {
    /// A TLP whose first beat is in cycle `first`; returns the cycle of its last.
    #[inline]
    fn push(&mut self, up: bool, tick: u64, first: Clock, tlp: Tlp, lost: bool) -> Clock {
        let last = first + tlp.len().div_ceil(BEAT_BYTES) as Clock - 1;
        let late = Clock::from(is_late(tlp.prefixes().len(), tlp.len(), self.late_at == Some(first)));
        self.late_at = (late != 0).then_some(last + late);
        let header = Header::decode(up, tick, tlp, lost);
        self.beats.push_back(Beats { first, last: last + late, bad: header.bad, lost });
        self.headers.push_back((first, header));
        last
    }

    /// Removes what begins in `clock` or later.
    fn split(&mut self, clock: Clock) -> Self {
        let headers = self.headers.partition_point(|(first, _)| *first < clock);
        let beats = self.beats.partition_point(|b| b.first < clock);
        Self { headers: self.headers.split_off(headers), beats: self.beats.split_off(beats), late_at: None }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Lane {
    /// First cycle in which the board's next TLP may begin.
    pub free: Clock,
    coming: Coming,
    /// The board's next TLP comes after some that were missed.
    pub missed: bool,
    /// While a pattern replaces the board's TLPs: the board's own, from the cycle in which that began.
    held: Option<Coming>,
    /// Whether a TLP was on the pins when that began or ended, or some were missed meanwhile.
    pub cut: bool,
}

impl Lane {
    /// A TLP of the board, seen or held, whose first symbol is at `tick`. If some before it were missed, returns the
    /// cycle in which that is noticed.
    #[inline]
    pub fn push(&mut self, up: bool, tick: u64, tlp: Tlp) -> Option<Clock> {
        let (first, lost) = (clock_at(tick).max(self.free), std::mem::take(&mut self.missed));
        self.cut |= lost && self.held.is_some();
        let last = self.held.as_mut().unwrap_or(&mut self.coming).push(up, tick, first, tlp, lost);
        self.free = last + 1;
        lost.then_some(last + PARSED)
    }

    /// A TLP of the pattern, while the board's are held.
    pub fn play(&mut self, up: bool, tick: u64, tlp: Tlp) {
        self.coming.push(up, tick, clock_at(tick), tlp, false);
    }

    /// From `clock` on the board's TLPs are not seen (`hold`), or seen again, and none of the pattern's to come.
    pub fn hold(&mut self, clock: Clock, hold: bool) {
        self.cut |= self.coming.beats.iter().any(|b| b.first < clock && clock <= b.last);
        let rest = self.coming.split(clock);
        if hold {
            self.held = Some(rest);
        } else if let Some(mut board) = self.held.take() {
            let mut board = board.split(clock);
            self.coming.headers.append(&mut board.headers);
            self.coming.beats.append(&mut board.beats);
        }
    }

    /// Tick of the oldest TLP for the tracker.
    #[inline]
    pub fn head_tick(&self) -> Option<u64> {
        self.coming.headers.front().map(|(_, h)| h.tick)
    }

    /// Takes it.
    #[inline]
    pub fn take(&mut self) -> Option<Header> {
        self.coming.headers.pop_front().map(|(_, h)| h)
    }

    /// Counts what came whole before `clock` and was not counted; returns the number of TLPs.
    pub fn count(&mut self, clock: Clock, counters: &mut Counters) -> u64 {
        let whole = self.coming.beats.partition_point(|b| b.last + PARSED < clock);
        for b in self.coming.beats.drain(..whole) {
            counters.malformed += u32::from(b.bad);
            counters.lost_tlps += u32::from(b.lost);
        }
        whole as u64
    }
}
