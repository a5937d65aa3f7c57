//! One direction: TLPs as beats on consecutive cycles, checked whole, into the queue of headers.

use super::engine::Engine;
use super::header::Header;
use crate::time::{clock_at, Clock, NEVER};
use std::collections::VecDeque;
use wattbell_bus::Tlp;

/// Headers the queue holds.
const HEADERS: usize = 511;
const BEAT_DWS: usize = 4;

/// When a TLP was at the pins.
#[derive(Debug, Clone, Copy)]
struct Span {
    tick: u64,
    /// Cycles of its first and last beat at the pins.
    first: Clock,
    last: Clock,
    pushed: bool,
    skippable: bool,
    kept_if_armed: bool,
}

impl Span {
    /// Cycle in which the parser has seen it whole.
    fn done(&self) -> Clock {
        self.last + 2
    }
}

/// See the module.
#[derive(Debug)]
pub struct Lane {
    up: bool,
    /// First cycle in which the next TLP may begin.
    free: Clock,
    queue: VecDeque<(Clock, Clock, Header)>,
    taken: Clock,
    spans: VecDeque<Span>,
    done: VecDeque<(Clock, bool)>,
    counted: u64,
    malformed: u32,
    inexact: Option<&'static str>,
    /// The board's next TLP comes after some that were missed.
    missed: bool,
    /// While another pattern replaces the board's TLPs: the board's own, from the cycle in which that began.
    held: Option<Beats>,
}

/// TLPs to come.
#[derive(Debug)]
struct Beats {
    free: Clock,
    queue: VecDeque<(Clock, Clock, Header)>,
    spans: VecDeque<Span>,
    done: VecDeque<(Clock, bool)>,
}

impl Lane {
    /// A direction whose first beat is seen in `clock` at the earliest.
    pub fn new(up: bool, clock: Clock) -> Self {
        Self {
            up,
            free: clock,
            queue: VecDeque::new(),
            taken: 0,
            spans: VecDeque::new(),
            done: VecDeque::new(),
            counted: 0,
            malformed: 0,
            inexact: None,
            missed: false,
            held: None,
        }
    }

    /// From `clock` on the board's TLPs are not seen.
    pub fn hold(&mut self, clock: Clock) {
        let rest = self.split(clock);
        self.held.get_or_insert(rest);
    }

    /// From `clock` on they are seen again, and none of the others that were to come.
    pub fn release(&mut self, clock: Clock) {
        if let Some(board) = self.held.take() {
            self.split(clock);
            let ours = self.exchange(board);
            let rest = self.split(clock);
            self.exchange(ours);
            self.free = self.free.max(rest.free);
            self.queue.extend(rest.queue);
            self.spans.extend(rest.spans);
            self.done.extend(rest.done);
        }
    }

    /// Removes what begins in `clock` or later.
    fn split(&mut self, clock: Clock) -> Beats {
        if self.spans.iter().rev().find(|s| s.first < clock).is_some_and(|s| s.last >= clock) {
            self.inexact = Some("a TLP was on the pins when the self-test began or ended");
        }
        let spans = self.spans.split_off(self.spans.partition_point(|s| s.first < clock));
        let queue = self.queue.split_off(self.queue.partition_point(|(_, parsed, _)| *parsed <= clock));
        let done = self.done.split_off(self.done.len() - spans.len());
        let free = std::mem::replace(&mut self.free, self.spans.back().map_or(clock, |s| clock.max(s.last + 1)));
        Beats { free, queue, spans, done }
    }

    fn exchange(&mut self, beats: Beats) -> Beats {
        Beats {
            free: std::mem::replace(&mut self.free, beats.free),
            queue: std::mem::replace(&mut self.queue, beats.queue),
            spans: std::mem::replace(&mut self.spans, beats.spans),
            done: std::mem::replace(&mut self.done, beats.done),
        }
    }

    /// The board's next TLP comes after some that were missed.
    pub fn miss(&mut self) {
        self.missed = true;
    }

    /// A TLP of the board, seen or held. If some before it were missed, returns the cycle in which that is noticed.
    pub fn push_board(&mut self, tick: u64, tlp: Tlp) -> Option<Clock> {
        let missed = std::mem::take(&mut self.missed);
        if let Some(board) = self.held.take() {
            let ours = self.exchange(board);
            self.push(tick, tlp, missed);
            self.held = Some(self.exchange(ours));
            if missed {
                self.inexact = Some("TLPs were missed while the self-test held them back");
            }
            return None;
        }
        let noticed = self.push(tick, tlp, missed);
        missed.then_some(noticed)
    }

    /// A TLP whose first symbol is at `tick`, after some that were `missed` or not; returns the cycle in which it has
    /// been seen whole.
    #[inline]
    pub fn push(&mut self, tick: u64, tlp: Tlp, missed: bool) -> Clock {
        let (header, shape) = Header::decode(self.up, tick, tlp, missed);
        let first = clock_at(tick).max(self.free);
        let last = first + shape.dws.div_ceil(BEAT_DWS).max(1) as Clock - 1;
        self.free = last + 1;
        let kept_if_armed = header.as_ref().is_some_and(|h| h.kept_if_armed);
        let span = Span { tick, first, last, pushed: shape.pushed, skippable: shape.skippable, kept_if_armed };
        self.spans.push_back(span);
        self.done.push_back((span.done(), shape.bad));
        if let Some(header) = header {
            self.queue.push_back((span.done(), first + 1, header));
        }
        span.done()
    }

    /// Nothing before `clock` will be asked about.
    pub fn forget(&mut self, clock: Clock) {
        while self.spans.front().is_some_and(|s| s.done() + 4 < clock) {
            self.spans.pop_front();
        }
    }

    /// First cycle in which the oldest header is visible.
    #[inline]
    pub fn shows(&self) -> Clock {
        self.queue.front().map_or(NEVER, |(written, ..)| (written + 2).max(self.taken + 1))
    }

    /// Tick of the oldest header.
    #[inline]
    pub fn head_tick(&self) -> Option<u64> {
        self.queue.front().map(|(.., h)| h.tick)
    }

    /// Takes the oldest header in `clock`; also returns the cycle in which the parser saw its first beat.
    #[inline]
    pub fn take(&mut self, clock: Clock) -> Option<(Header, Clock)> {
        if self.queue.get(HEADERS - 8).is_some_and(|(written, ..)| *written < clock) {
            self.inexact = Some("TLPs came faster than the tracker takes them, and its queues are full");
        }
        self.taken = clock;
        self.queue.pop_front().map(|(_, first, header)| (header, first))
    }

    /// TLPs seen whole in `clock` or later, or shortly before.
    fn since(&self, clock: Clock) -> impl Iterator<Item = &Span> {
        self.spans.iter().skip_while(move |s| s.done() + 2 < clock)
    }

    /// TLPs at the pins in `clock` or shortly before.
    fn near(&self, clock: Clock) -> impl Iterator<Item = &Span> {
        self.since(clock).take_while(move |s| s.first <= clock)
    }

    /// Cycle of the last beat at the pins.
    pub fn last_beat(&self) -> Clock {
        self.free - 1
    }

    /// What could not be modelled exactly.
    pub fn inexact(&self) -> Option<&'static str> {
        self.inexact
    }

    /// TLPs counted in `clock`.
    pub fn counted(&mut self, clock: Clock) -> u64 {
        while self.done.front().is_some_and(|(done, _)| *done < clock) {
            let (_, bad) = self.done.pop_front().unwrap_or_default();
            self.counted += 1;
            self.malformed += u32::from(bad);
        }
        self.counted
    }

    /// TLPs rejected by `clock`; [`Self::counted`] has been called for it.
    pub fn malformed(&self, _clock: Clock) -> u32 {
        self.malformed
    }

    /// Whether the parser itself is busy in `clock`: a TLP was just seen whole, or its header is on its way through the
    /// queue.
    pub fn busy(&self, clock: Clock) -> bool {
        let done = |s: &Span| s.done() == clock || (s.pushed && s.done() + 1 == clock && self.shows() > clock);
        self.near(clock).any(done)
    }

    /// Whether this direction keeps the tracker awake in `clock`.
    pub fn active(&self, clock: Clock, engine: &Engine) -> bool {
        self.busy(clock)
            || self.near(clock).any(|s| {
                // a beat at the pins, or in the register after them
                let beat = |c: Clock| {
                    let skips = s.skippable && !(s.kept_if_armed && engine.armed_in(s.first + 1));
                    s.first <= c && c <= s.last && (!skips || c <= s.first + 2 || c == s.last)
                };
                beat(clock) || beat(clock.wrapping_sub(1))
            })
    }

    /// First cycle from `from` on in which this direction cannot produce a TLP older than `tick` (`or_equal`: or as
    /// old).
    pub fn free_from(&self, from: Clock, tick: u64, or_equal: bool) -> Clock {
        let mut clock = from;
        for span in self.since(from) {
            if span.first + 2 > clock {
                break;
            }
            let end = span.done() + u64::from(span.pushed);
            if clock > end {
                continue;
            }
            let older = span.tick < tick || (or_equal && span.tick == tick);
            // On the last step into the queue it counts whatever its tick.
            if older || clock >= span.done() {
                clock = end + 1;
            }
        }
        clock
    }
}
