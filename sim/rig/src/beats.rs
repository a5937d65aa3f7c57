//! One direction of the link: turns TLPs into beats on consecutive cycles.

use crate::rtl::Beat;
use std::collections::VecDeque;
use wattbell_bus::Tlp;

/// Registers between the pins and the receiver: one of the simulated board, one of the instrument, and one more behind TLPs
/// with prefixes, whose last double words may leave a cycle late.
const STAGES: usize = 3;

/// Turns TLPs into beats. A TLP starts in the first cycle with a tick not before its own tick, or directly after the previous TLP. Each
/// beat carries the tick of the TLP's first symbol, however late the beat is sent.
#[derive(Debug)]
pub struct BeatStream {
    beat_dws: usize,
    clock_ticks: u64,
    waiting: VecDeque<(u64, bool, Tlp)>,
    missed: bool,
    beat: usize,
    beats: usize,
    /// Tick of the cycle in which the next beat of the open TLP is sent.
    next_at: u64,
    in_tlp: bool,
}

impl BeatStream {
    /// A stream of `beat_dws` words per beat, `clock_ticks` ticks per cycle.
    pub fn new(beat_dws: usize, clock_ticks: u64) -> Self {
        assert!((1..=4).contains(&beat_dws));
        Self {
            beat_dws,
            clock_ticks,
            waiting: VecDeque::new(),
            missed: false,
            beat: 0,
            beats: 0,
            next_at: 0,
            in_tlp: false,
        }
    }

    /// Queues a TLP with its first symbol at `tick`. Ticks do not decrease from call to call.
    pub fn push(&mut self, tick: u64, tlp: Tlp) {
        self.waiting.push_back((tick, std::mem::take(&mut self.missed), tlp));
    }

    /// The next TLP to be queued comes after some that were missed.
    pub fn miss(&mut self) {
        self.missed = true;
    }

    /// Tick from which on a beat is due, if any is known. It may lie in the past.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        if self.in_tlp {
            Some(self.next_at)
        } else {
            self.waiting.front().map(|(tick, ..)| *tick)
        }
    }

    /// Number of TLPs not completely sent yet.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Fills `beat` for the cycle at `now`: with the next beat if one is due, else with `valid` = 0.
    #[inline]
    pub fn next(&mut self, now: u64, beat: &mut Beat) {
        if self.due().is_none_or(|tick| tick > now) {
            beat.valid = 0;
            return;
        }
        let (tick, missed, tlp) = self.waiting.front().expect("due() saw it");
        if !self.in_tlp {
            self.in_tlp = true;
            self.beat = 0;
            self.beats = (dws_of(tlp).div_ceil(self.beat_dws)).max(1);
        }
        let left = dws_of(tlp) - self.beat * self.beat_dws;
        beat.valid = 1;
        beat.tick = *tick;
        beat.dws = left.min(self.beat_dws) as u8;
        beat.first = u8::from(self.beat == 0);
        beat.last = u8::from(self.beat + 1 == self.beats);
        beat.error = 0;
        beat.lost = u8::from(*missed);
        for i in 0..4 {
            beat.data[i] = if i < usize::from(beat.dws) { dw(tlp, self.beat * self.beat_dws + i) } else { 0 };
        }
        self.beat += 1;
        self.next_at = now + self.clock_ticks;
        if beat.last == 1 {
            self.in_tlp = false;
            self.waiting.pop_front();
        }
    }

    /// The receiver skips the rest of the open TLP: continue with its last beat, in the cycle it belongs to.
    ///
    /// Beats reach the receiver through [`STAGES`] registers. Until its first beat is there, it speaks of the TLP before.
    #[inline]
    pub fn skip_to_last(&mut self) {
        if self.in_tlp && self.beat > STAGES && self.beat + 1 < self.beats {
            let skipped = self.beats - 1 - self.beat;
            self.beat += skipped;
            self.next_at += skipped as u64 * self.clock_ticks;
        }
    }
}

fn dws_of(tlp: &Tlp) -> usize {
    tlp.len().div_ceil(4)
}

/// Word `index` of the TLP as on the wire; a payload omitted from the trace is zero.
fn dw(tlp: &Tlp, index: usize) -> u32 {
    let (prefixes, header, payload) =
        (tlp.prefixes(), tlp.header.as_bytes(), tlp.payload.as_deref().unwrap_or_default());
    let mut at = index * 4;
    for (bytes, length) in [(prefixes, prefixes.len()), (header, header.len()), (payload, tlp.header.payload_len())] {
        if at < length {
            let here = bytes.get(at..).unwrap_or_default(); // nothing of a payload that was left out
            let mut word = [0; 4];
            let n = here.len().min(4);
            word[..n].copy_from_slice(&here[..n]);
            return u32::from_le_bytes(word);
        }
        at -= length;
    }
    u32::from_le_bytes(tlp.digest().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattbell_bus::tlp;

    fn collect(stream: &mut BeatStream, clocks: u64, clock_ticks: u64) -> Vec<(u64, Beat)> {
        let mut beat = Beat::default();
        (0..clocks)
            .map(|k| k * clock_ticks)
            .filter_map(|now| {
                stream.next(now, &mut beat);
                (beat.valid == 1).then_some((now, beat))
            })
            .collect()
    }

    #[test]
    fn a_beat_waits_for_its_tick_and_carries_it() {
        let mut s = BeatStream::new(4, 4);
        s.push(9, tlp::mem_read(0x0100, 3, 0x1234_5678, 64));
        let beats = collect(&mut s, 10, 4);
        assert_eq!(beats.len(), 1);
        let (now, beat) = beats[0];
        assert_eq!((now, beat.tick, beat.dws, beat.first, beat.last), (12, 9, 3, 1, 1));
        assert_eq!(beat.data[0].to_le_bytes(), [0x00, 0x00, 0x00, 0x10]); // MRd32, 16 DWs
        assert_eq!(beat.data[2], u32::from_be(0x1234_5678));
        assert!(s.is_empty());
    }

    #[test]
    fn a_skip_of_the_tlp_before_is_not_taken_for_this_one() {
        let mut s = BeatStream::new(4, 4);
        s.push(0, tlp::mem_write(1, 0, 0x1000, &[7; 80]));
        let mut beat = Beat::default();
        for now in 0..STAGES as u64 {
            s.next(4 * now, &mut beat);
            s.skip_to_last();
        }
        assert_eq!(collect(&mut s, 10, 4).len(), 6 - STAGES);
    }

    #[test]
    fn what_was_missed_is_said_with_the_next_tlp_alone() {
        let mut s = BeatStream::new(4, 4);
        s.push(0, tlp::mem_read(0x0100, 3, 0x1000, 64));
        s.miss();
        s.push(4, tlp::mem_write(1, 0, 0x1000, &[7; 16]));
        s.push(20, tlp::mem_read(0x0100, 3, 0x1000, 64));
        let beats = collect(&mut s, 10, 4);
        assert_eq!(beats.iter().map(|(_, b)| b.lost).collect::<Vec<_>>(), [0, 1, 1, 0]);
    }

    #[test]
    fn the_second_of_two_simultaneous_tlps_follows_the_first() {
        let mut s = BeatStream::new(2, 8);
        let write = tlp::mem_write(1, 0, 0x1000, &[7; 16]);
        s.push(0, write.clone());
        s.push(1, write);
        let beats = collect(&mut s, 20, 8);
        // 3 + 4 DWs in beats of 2: four beats each, the last of one DW
        assert_eq!(beats.iter().map(|(now, _)| *now).collect::<Vec<_>>(), (0..8).map(|k| k * 8).collect::<Vec<_>>());
        assert_eq!(beats.iter().map(|(_, b)| b.tick).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(beats[3].1.dws, 1);
    }

    proptest! {
        #[test]
        fn beats_concatenate_to_the_tlp(len in 1usize..600, width in prop_oneof![Just(2usize), Just(4)], wide: bool) {
            let data: Vec<u8> = (0..len * 4).map(|i| i as u8).collect();
            let address = if wide { 0x12_0000_0000 } else { 0x8000_0000 };
            let tlp = tlp::mem_write(0x55, 0, address, &data);
            let mut expected = tlp.header.as_bytes().to_vec();
            expected.extend(&data);
            let mut s = BeatStream::new(width, 4);
            s.push(0, tlp);
            let beats = collect(&mut s, 700, 4);
            let bytes: Vec<u8> = beats.iter()
                .flat_map(|(_, b)| b.data[..usize::from(b.dws)].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>())
                .collect();
            prop_assert_eq!(bytes, expected);
        }

        #[test]
        fn a_skipped_tlp_ends_in_the_same_clock(len in 1usize..600, after in 1usize..5) {
            let last = |skip: bool| {
                let mut s = BeatStream::new(4, 4);
                s.push(10, tlp::mem_write(0x55, 0, 0x1000, &vec![1; len * 4]));
                let (mut beat, mut seen) = (Beat::default(), 0);
                (0..700u64).map(|k| k * 4).filter_map(|now| {
                    s.next(now, &mut beat);
                    seen += usize::from(beat.valid);
                    if skip && seen == after { s.skip_to_last(); }
                    (beat.valid == 1 && beat.last == 1).then_some((now, beat))
                }).collect::<Vec<_>>()
            };
            prop_assert_eq!(last(true), last(false));
        }
    }
}
