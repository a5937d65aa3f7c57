//! When each part was in which state: kept on request, for instruments that are to find out by themselves.

use crate::power::account::{CoreState, LINK};
use crate::profile::{Ps, MS};
use std::io::Write;

/// Largest gap within one span of work.
const APART: Ps = MS;

/// Changes of state, in the order in which they are known; of work, which is ordered ahead, when its span is over.
#[derive(Debug, Default)]
pub struct StateLog {
    core: Vec<(Ps, u8)>,
    link: Vec<(Ps, u8)>,
    active: Spans,
    active_since: Option<Ps>,
    pulses: Spans,
}

/// Spans of work in order; spans less than [`APART`] from each other are joined.
#[derive(Debug, Default)]
struct Spans(Vec<(Ps, Ps)>);

impl Spans {
    fn add(&mut self, start: Ps, end: Ps) {
        match self.0.last_mut() {
            Some(last) if start <= last.1 + APART => last.1 = last.1.max(end),
            _ => self.0.push((start, end)),
        }
    }
}

impl StateLog {
    /// The core's state from `now` on, by its key.
    pub fn core(&mut self, now: Ps, key: usize) {
        change(&mut self.core, now, key);
    }

    /// The link's state from `now` on, by its number.
    pub fn link(&mut self, now: Ps, key: usize) {
        change(&mut self.link, now, key);
    }

    /// Whether the controller has something in hand from `now` on.
    pub fn active(&mut self, now: Ps, on: bool) {
        match (on, self.active_since) {
            (true, None) => self.active_since = Some(now),
            (false, Some(since)) => {
                self.active.add(since, now);
                self.active_since = None;
            }
            _ => {}
        }
    }

    /// A die, a channel or the data path works from `start` to `end`.
    pub fn pulse(&mut self, start: Ps, end: Ps) {
        self.pulses.add(start, end);
    }

    /// CSV: part, since when, until when (a change of core or link: empty, and the state), the state.
    pub fn write(&self, mut out: impl Write) -> std::io::Result<()> {
        writeln!(out, "part,from_ps,to_ps,state")?;
        for &(at, key) in &self.core {
            writeln!(out, "core,{at},,{}", CoreState::name(key.into()))?;
        }
        for &(at, key) in &self.link {
            writeln!(out, "link,{at},,{}", LINK[usize::from(key)])?;
        }
        for (part, spans) in [("active", &self.active), ("flash", &self.pulses)] {
            for (from, to) in &spans.0 {
                writeln!(out, "{part},{from},{to},")?;
            }
        }
        out.flush()
    }
}

fn change(changes: &mut Vec<(Ps, u8)>, now: Ps, key: usize) {
    let key = key as u8;
    if changes.last().is_none_or(|last| last.1 != key) {
        changes.push((now, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_less_than_a_millisecond_apart_are_one() {
        let mut log = StateLog::default();
        log.core(0, 0);
        log.core(5, 0);
        log.core(2 * MS, 35);
        log.link(7, 2);
        log.active(MS, true);
        log.active(2 * MS, false);
        log.pulse(0, 10);
        log.pulse(MS, MS + 1);
        log.pulse(3 * MS, 4 * MS);
        let mut out = Vec::new();
        log.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = [
            "part,from_ps,to_ps,state",
            "core,0,,ps0",
            "core,2000000000,,entering_ps3",
            "link,7,,l1_2",
            "active,1000000000,2000000000,",
            "flash,0,1000000001,",
            "flash,3000000000,4000000000,",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
