//! The events that wait, in order of time.

use crate::controller::{Controller, Event, Want};
use crate::host::BusSink;
use crate::profile::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event and when; of equal times, the first one made comes first.
pub(crate) struct Timed {
    pub at: Ps,
    pub serial: u64,
    pub event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl<S: BusSink> Controller<S> {
    pub(crate) fn at(&mut self, at: Ps, event: Event) {
        self.serial += 1;
        self.heap.push(Reverse(Timed { at, serial: self.serial, event }));
    }

    /// Nothing of a reset's past may act on the controller, but the bus still sees reads answered and flash programs.
    pub(crate) fn forget_events(&mut self) {
        let kept: Vec<_> = self.heap.drain().map(|t| t.0).collect();
        for timed in kept {
            let event = match timed.event {
                Event::Answer(answer) => Event::Answer(Box::new((Want::Nothing, answer.1))),
                e @ (Event::Mmio { .. } | Event::Programmed(_) | Event::Formatted | Event::Sanitized) => e,
                _ => continue,
            };
            self.heap.push(Reverse(Timed { event, ..timed }));
        }
    }

    /// Whether no event waits but ends of programs.
    pub(crate) fn only_programs_wait(&self) -> bool {
        self.heap.iter().all(|t| matches!(t.0.event, Event::Programmed(_)))
    }

    /// Takes the ends of programs out of the events: time, units.
    pub(crate) fn take_programs(&mut self) -> Vec<(Ps, u64)> {
        let (mut programs, mut others) = (Vec::new(), BinaryHeap::new());
        while let Some(Reverse(timed)) = self.heap.pop() {
            match timed.event {
                Event::Programmed(units) => programs.push((timed.at, units)),
                _ => others.push(Reverse(timed)),
            }
        }
        self.heap = others;
        programs
    }
}
