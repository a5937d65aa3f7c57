//! Reads, from read-ahead data or from the array.

use super::ftl::Place;
use super::Flash;
use crate::power::account::Purpose;
use crate::power::meter::Meter;
use crate::profile::Ps;

impl Flash {
    /// Reads units `first .. first + count` from `now` on. Pushes `(ready, unit, count)` for each run of units that one array operation,
    /// or the buffer, delivers. Units that hold nothing are ready at once.
    pub fn read(
        &mut self,
        now: Ps,
        first: u64,
        count: u64,
        slow: f64,
        meter: &mut Meter,
        out: &mut Vec<(Ps, u64, u64)>,
    ) {
        if self.ahead.depth == 0 {
            return self.read_flash(now, first, count, slow, meter, out);
        }
        self.ahead.reads += 1;
        let reads = self.ahead.reads;
        let Some(at) = self.ahead.streams.iter().position(|s| s.next == first) else {
            self.ahead.follow(first + count);
            return self.read_flash(now, first, count, slow, meter, out);
        };
        let mut stream = std::mem::take(&mut self.ahead.streams[at]);
        let held = count.min(stream.window.len() as u64);
        for (unit, ready) in (first..).zip(stream.window.drain(..held as usize)) {
            match out.last_mut() {
                // neighbours that came out of one operation are one run
                Some((last, from, n)) if *last == ready.max(now) && *from + *n == unit => *n += 1,
                _ => out.push((ready.max(now), unit, 1)),
            }
        }
        if held < count {
            self.read_flash(now, first + held, count - held, slow, meter, out);
        }
        stream.next = first + count;
        stream.used = reads;
        let begin = stream.next + stream.window.len() as u64;
        let end = (stream.next + self.ahead.depth).min(self.units);
        if end > begin {
            let mut fetched = std::mem::take(&mut self.fetched);
            fetched.clear();
            let before = meter.account.turn_to(Purpose::ReadAhead);
            self.read_flash(now, begin, end - begin, slow, meter, &mut fetched);
            meter.account.turn_to(before);
            for &(ready, _, n) in &fetched {
                stream.window.extend(std::iter::repeat_n(ready, n as usize));
            }
            self.fetched = fetched;
        }
        self.ahead.streams[at] = stream;
    }

    /// The same out of flash.
    fn read_flash(
        &mut self,
        now: Ps,
        first: u64,
        count: u64,
        slow: f64,
        meter: &mut Meter,
        out: &mut Vec<(Ps, u64, u64)>,
    ) {
        let (mut at, end) = (first, first + count);
        let mut here = self.ftl.place(at);
        while at < end {
            let mut n = 1;
            let mut next = None;
            while at + n < end {
                next = self.ftl.place(at + n);
                if !together(here, next, n, self.page) {
                    break;
                }
                n += 1;
            }
            let ready = match here {
                None => now,
                Some(place) => {
                    let known = self.look_up(now, at, slow, meter);
                    self.read_page(known, place, n, slow, meter)
                }
            };
            out.push((ready, at, n));
            at += n;
            here = next;
        }
    }
}

/// Whether the unit `n` behind another comes out of the same array operation.
#[inline]
fn together(here: Option<Place>, next: Option<Place>, n: u64, page: u64) -> bool {
    match (here, next) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            u64::from(b.slot) == u64::from(a.slot) + n && u64::from(a.slot) / page == u64::from(b.slot) / page
        }
        _ => false,
    }
}
