//! Power as means over steps of equal width, from edges in any order. A long run needs these means instead of exact edges.
//!
//! An edge is one addition to its step, however far away its end is. The energy of every step is exact in integers; the remainder of the
//! division into a mean is carried on. Adjacent steps with similar means are joined into one with their common mean, up to [`LONGEST`].

use crate::profile::{Ps, MS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Length up to which steps are joined.
const LONGEST: Ps = MS;
/// Divisor of the tolerance: a step is joined if its mean differs by at most one part in [`CLOSE`] from the joined steps.
const CLOSE: i128 = 10;

/// Steps held; edges further in the future wait in a heap.
const RING: u64 = 1 << 13;

#[derive(Clone, Copy, Default)]
struct Bin {
    /// Energy that edges within the step add to the step, in nW ps.
    energy: i64,
    /// Change that these edges make to the level of later steps, in nW.
    step: i64,
}

/// Closed steps that are not given out yet: where they begin, how many they are, and their energy in nW ps.
#[derive(Clone, Copy)]
struct Joined {
    first: u64,
    count: u64,
    energy: i128,
}

/// The steps.
pub struct Bins {
    width: Ps,
    /// 2^64 / width, rounded down.
    reciprocal: u64,
    ring: Box<[Bin; RING as usize]>,
    used: Box<[u64; RING as usize / 64]>,
    /// Number of the first open step, and its beginning.
    base: u64,
    start: Ps,
    level: i64,
    carry: i128,
    joined: Option<Joined>,
    far: BinaryHeap<Reverse<(Ps, i64)>>,
    energy_j: f64,
}

impl Bins {
    /// Steps of `width`, from time 0, at level 0.
    pub fn new(width: Ps) -> Self {
        Self {
            width,
            reciprocal: u64::MAX / width,
            ring: Box::new([Bin::default(); RING as usize]),
            used: Box::new([0; RING as usize / 64]),
            base: 0,
            start: 0,
            level: 0,
            carry: 0,
            joined: None,
            far: BinaryHeap::new(),
            energy_j: 0.0,
        }
    }

    /// Creates steps of `width` that begin at `time`, or with the first step after it.
    pub fn starting(width: Ps, time: Ps) -> Self {
        let base = time.div_ceil(width);
        Self { base, start: base * width, ..Self::new(width) }
    }

    /// The level is `nw` higher from `start` to `end`: the two edges of that.
    #[inline]
    pub fn pulse(&mut self, start: Ps, end: Ps, nw: i64) {
        if start < self.start || start >= end {
            self.edge(start, nw);
            return self.edge(end, -nw);
        }
        if let Some((index, left)) = self.place(start) {
            let length = end - start;
            self.used[index / 64] |= 1 << (index % 64);
            if length < left {
                // Both in one step: the level after it stays.
                self.ring[index].energy += nw * length as i64;
                return;
            }
            self.ring[index].energy += nw * left as i64;
            self.ring[index].step += nw;
        } else {
            self.far.push(Reverse((start, nw)));
        }
        self.edge(end, -nw);
    }

    /// Returns the ring position of the step at a time, and the time left until the step's end. The time must not lie before the first
    /// open step. Returns `None` if the time is too far off.
    #[inline]
    fn place(&self, time: Ps) -> Option<(usize, Ps)> {
        let since = time - self.start;
        if since >= RING * self.width {
            return None;
        }
        // A division, by the reciprocal: it may be one too low.
        let mut steps = ((u128::from(since) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut end = (steps + 1) * self.width;
        if end <= since {
            (steps, end) = (steps + 1, end + self.width);
        }
        Some((((self.base + steps) % RING) as usize, end - since))
    }

    /// Changes the level by `nw` at `time`. A change before the first open step counts from that step on.
    #[inline]
    pub fn edge(&mut self, time: Ps, nw: i64) {
        if nw == 0 {
            return;
        }
        let Some((index, left)) = self.place(time.max(self.start)) else {
            return self.far.push(Reverse((time, nw)));
        };
        let bin = &mut self.ring[index];
        bin.energy += nw * left as i64;
        bin.step += nw;
        self.used[index / 64] |= 1 << (index % 64);
    }

    /// Closes the steps that end at or before `now`. `out` gets the start and level of steps that differ from the previous step.
    pub fn close(&mut self, now: Ps, mut out: impl FnMut(Ps, i64)) {
        let end = now / self.width;
        while self.base < end {
            let next = self.next_used(end);
            if next > self.base {
                // Nothing changes before it: one level.
                self.give_out(&mut out);
                out(self.base * self.width, self.level);
                self.energy_j += self.level as f64 * (next - self.base) as f64 * self.width as f64 * 1e-21;
                self.go_to(next);
                continue;
            }
            let index = (self.base % RING) as usize;
            let bin = std::mem::take(&mut self.ring[index]);
            self.used[index / 64] &= !(1 << (index % 64));
            let energy = self.level * self.width as i64 + bin.energy;
            self.energy_j += energy as f64 * 1e-21;
            self.join(i128::from(energy), &mut out);
            self.level += bin.step;
            self.go_to(self.base + 1);
        }
    }

    fn go_to(&mut self, base: u64) {
        (self.base, self.start) = (base, base * self.width);
        if !self.far.is_empty() {
            self.draw_near();
        }
    }

    /// The step `base` has this energy: it joins those before it, or they are given out.
    fn join(&mut self, energy: i128, out: &mut impl FnMut(Ps, i64)) {
        if let Some(joined) = &mut self.joined {
            let apart = (energy * i128::from(joined.count) - joined.energy).abs();
            let short = (joined.count + 1) * self.width <= LONGEST;
            if short && apart * CLOSE <= joined.energy.abs() {
                joined.count += 1;
                joined.energy += energy;
                return;
            }
        }
        self.give_out(out);
        self.joined = Some(Joined { first: self.base, count: 1, energy });
    }

    fn give_out(&mut self, out: &mut impl FnMut(Ps, i64)) {
        let Some(joined) = self.joined.take() else { return };
        let length = (joined.count * self.width) as i64;
        let energy = joined.energy + self.carry;
        let mean = match i64::try_from(energy) {
            Ok(energy) => energy.div_euclid(length), // much cheaper, and nearly always enough
            Err(_) => energy.div_euclid(i128::from(length)) as i64,
        };
        self.carry = energy - i128::from(mean) * i128::from(length);
        out(joined.first * self.width, mean);
    }

    /// Closes the open step.
    pub fn finish(&mut self, mut out: impl FnMut(Ps, i64)) {
        self.close((self.base + 1) * self.width, &mut out);
        self.give_out(&mut out);
    }

    /// Up to where steps are given out.
    pub fn horizon(&self) -> Ps {
        self.joined.map_or(self.base, |j| j.first) * self.width
    }

    /// The level at the end of the first open step.
    pub fn level_nw(&self) -> i64 {
        self.level + self.ring[(self.base % RING) as usize].step
    }

    /// Energy of the closed steps, in joule.
    pub fn energy_j(&self) -> f64 {
        self.energy_j
    }

    /// The first step from `base` on with an edge, or `end`.
    fn next_used(&self, end: u64) -> u64 {
        let mut number = self.base;
        let limit = end.min(self.base + RING);
        while number < limit {
            let index = (number % RING) as usize;
            let word = self.used[index / 64] >> (index % 64);
            if word != 0 {
                return (number + u64::from(word.trailing_zeros())).min(limit);
            }
            number += 64 - (index % 64) as u64;
        }
        limit
    }

    fn draw_near(&mut self) {
        while let Some(&Reverse((time, nw))) = self.far.peek() {
            if time / self.width >= self.base + RING {
                return;
            }
            self.far.pop();
            self.edge(time, nw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn energy_of_the_steps_is_that_of_the_edges(
            pulses in prop::collection::vec(
                (0u64..3_000_000, prop_oneof![0u64..300, 1u64..9_000_000], 1i64..2_000_000_000, any::<bool>()), 0..60),
            width in 1u64..200,
            stops in prop::collection::vec(1u64..4_000_000, 0..5),
        ) {
            let mut bins = Bins::new(width);
            let (mut steps, mut want, mut now) = (Vec::<(Ps, i64)>::new(), 0i128, 0);
            let mut pulses = pulses;
            pulses.sort();
            let mut stops = stops;
            stops.sort();
            for stop in stops {
                bins.close(stop.min(pulses.first().map_or(stop, |p| p.0)), |t, w| steps.push((t, w)));
            }
            for (start, len, nw, at_once) in pulses {
                let start = start.max(bins.base * width);
                if at_once {
                    bins.pulse(start, start + len, nw);
                } else {
                    bins.edge(start, nw);
                    bins.edge(start + len, -nw);
                }
                want += i128::from(nw) * i128::from(len);
                now = now.max(start + len);
            }
            bins.close(now + width, |t, w| steps.push((t, w)));
            bins.finish(|t, w| steps.push((t, w)));
            let ends = steps.iter().skip(1).map(|s| s.0).chain([bins.horizon()]);
            let got: i128 = steps.iter().zip(ends).map(|(s, e)| i128::from(s.1) * i128::from(e - s.0)).sum();
            prop_assert!(steps.windows(2).all(|w| w[0].0 < w[1].0));
            // The rest is less than a nanowatt over one step.
            let longest = steps.windows(2).map(|w| w[1].0 - w[0].0).max().unwrap_or(0);
            let longest = longest.max(bins.horizon() - steps.last().map_or(0, |s| s.0)).max(width);
            prop_assert!((got - want).abs() <= i128::from(longest), "{} for {}", got, want);
            prop_assert!((bins.energy_j() * 1e21 - want as f64).abs() <= 1e-9 * want as f64 + 1.0);
            prop_assert_eq!(bins.level_nw(), 0);
        }
    }

    fn closed(bins: &mut Bins, now: Ps) -> Vec<(Ps, i64)> {
        let mut steps = Vec::new();
        bins.close(now, |time, nw| steps.push((time, nw)));
        steps
    }

    fn rest(bins: &mut Bins) -> Vec<(Ps, i64)> {
        let mut steps = Vec::new();
        bins.finish(|time, nw| steps.push((time, nw)));
        steps
    }

    /// A level in each step, as changes at its begin.
    fn levels(bins: &mut Bins, levels: &[i64]) {
        for (step, pair) in (0..).zip([&[0], levels].concat().windows(2)) {
            bins.edge(step * bins.width, pair[1] - pair[0]);
        }
    }

    #[test]
    fn steps_within_a_tenth_of_those_before_join_them() {
        let mut bins = Bins::new(100);
        levels(&mut bins, &[1000, 1100, 1155, 1190]);
        assert_eq!(closed(&mut bins, 450), []);
        assert_eq!((bins.horizon(), bins.level_nw()), (0, 1190));
        assert_eq!(rest(&mut bins), [(0, 1111), (400, 1190)]); // 4445 / 4, and the step that was open
        let mut apart = Bins::new(100);
        levels(&mut apart, &[1000, 1100, 1156, 1156, 1156, 5]);
        // 1050 and 1156 are more than a tenth apart; nothing happens in two steps
        assert_eq!(closed(&mut apart, 500), [(0, 1050), (200, 1156), (300, 1156)]);
        assert_eq!(apart.horizon(), 500);
        let mut falling = Bins::new(100);
        levels(&mut falling, &[1000, 900, 855, 854, 700]);
        assert_eq!(closed(&mut falling, 500), [(0, 902)], "which carries on a quarter"); // 3609 / 4
        assert_eq!(falling.horizon(), 400);
    }

    #[test]
    fn steps_are_joined_up_to_a_millisecond() {
        for (parts, joined) in [(2, 2), (3, 3), (1, 1)] {
            let width = MS / parts;
            let mut bins = Bins::new(width);
            levels(&mut bins, &[1000, 1001, 1002, 1003, 1004, 1005, 1006]);
            let begins: Vec<Ps> = closed(&mut bins, 6 * width).iter().map(|s| s.0 / width).collect();
            let wanted: Vec<Ps> = (0..6 / joined - 1).map(|k| k * joined).collect();
            assert_eq!(begins, wanted, "{parts}");
        }
    }

    #[test]
    fn what_a_mean_leaves_is_in_the_next() {
        let mut bins = Bins::new(10);
        for (step, nw) in (0..).zip([13, 33, 13, 33, 90]) {
            bins.pulse(step * 10 + 4, step * 10 + 5, nw);
        }
        // 13 leaves 3, 33 and 3 leave 6, 13 and 6 leave 9, 33 and 9 leave 2
        assert_eq!(closed(&mut bins, 50), [(0, 1), (10, 3), (20, 1), (30, 4)]);
        assert_eq!(rest(&mut bins)[0], (40, 9));
        assert!((bins.energy_j() - 182e-21).abs() < 1e-30);
    }

    #[test]
    fn steps_that_begin_later_take_what_was_before_from_there_on() {
        let mut bins = Bins::starting(100, 250);
        assert_eq!(bins.horizon(), 300);
        bins.edge(250, 50);
        bins.pulse(200, 350, 40);
        assert_eq!(bins.level_nw(), 50);
        assert_eq!(closed(&mut bins, 400), []);
        assert_eq!(closed(&mut bins, 600), [(300, 70), (400, 50)]);
        assert!((bins.energy_j() - (7000.0 + 10_000.0) * 1e-21).abs() < 1e-30);
        assert_eq!(Bins::starting(100, 200).horizon(), 200);
    }
}
