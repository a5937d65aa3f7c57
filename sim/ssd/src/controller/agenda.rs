//! The events that wait, in order of time.

use super::want::Want;
use super::wirereads::WireRead;
use crate::flash::Access;
use crate::pcie::port::{Request, Span};
use crate::profile::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wattbell_bus::Tlp;

/// Answers to a request of a host outside the model, which go out together.
pub struct Reply {
    /// The answers.
    pub tlps: Vec<Tlp>,
    /// The function is reset behind them.
    pub reset: bool,
}

/// An event in the controller; the agenda holds its time.
pub enum Event {
    Mmio {
        offset: u64,
        size: u8,
        value: u64,
        first: Ps,
    },
    /// A TLP of a host outside the model arrives.
    Incoming(Box<(Tlp, Span)>),
    Reply(Box<Reply>),
    /// A read of a host outside the model is over without a request.
    ReadOver(Box<WireRead>),
    Arbitrate,
    Answer(Box<(Want, Request)>),
    SqesIn {
        qid: u16,
        announced: Vec<Ps>,
        first: Ps,
        bytes: Vec<u8>,
    },
    ListIn {
        command: u32,
        bytes: Vec<u8>,
    },
    StructureIn {
        command: u32,
    },
    Execute(u32),
    ReturnStructure(u32),
    PageReady {
        command: u32,
        offset: u32,
        len: u32,
    },
    DataOut {
        command: u32,
        offset: u32,
        len: u32,
    },
    DataIn {
        command: u32,
        len: u32,
    },
    Complete(u32),
    Post {
        cqid: u16,
        address: u64,
        entry: [u8; 16],
    },
    Interrupt(u16),
    Coalesced {
        cqid: u16,
    },
    Programmed(u64),
    Lent(Access),
    LentAnswer,
    Formatted,
    Sanitized,
    SelfTested(u32),
    Ready,
    ShutDown,
}

/// An event and when; of equal times, the first one made comes first.
struct Timed {
    at: Ps,
    serial: u64,
    event: Event,
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

/// The events that wait.
#[derive(Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<Timed>>,
    serial: u64,
}

impl Agenda {
    /// `event` happens at `at`.
    pub fn at(&mut self, at: Ps, event: Event) {
        self.serial += 1;
        self.heap.push(Reverse(Timed { at, serial: self.serial, event }));
    }

    /// When the next event happens.
    pub fn next_ps(&self) -> Option<Ps> {
        self.heap.peek().map(|t| t.0.at)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|t| t.0.event)
    }

    /// Nothing of a reset's past may act on the controller, but the bus still sees reads answered and flash programs.
    pub fn forget(&mut self) {
        let kept = std::mem::take(&mut self.heap).into_iter().filter_map(|Reverse(timed)| {
            let event = match timed.event {
                Event::Answer(answer) => Event::Answer(Box::new((Want::Nothing, answer.1))),
                Event::ReadOver(read) => Event::ReadOver(Box::new(read.nobodys())),
                e @ (Event::Mmio { .. } | Event::LentAnswer | Event::Incoming(_) | Event::Reply(_)) => e,
                e @ (Event::Programmed(_) | Event::Formatted | Event::Sanitized) => e,
                _ => return None,
            };
            Some(Reverse(Timed { event, ..timed }))
        });
        self.heap = kept.collect();
    }

    /// If nothing waits but work of no command (ends of programs, lent memory), takes it out, with its times.
    pub fn take_rest(&mut self) -> Option<Vec<(Ps, Event)>> {
        let of_no_command = |e: &Event| matches!(e, Event::Programmed(_) | Event::Lent(_) | Event::LentAnswer);
        if !self.heap.iter().all(|t| of_no_command(&t.0.event)) {
            return None;
        }
        Some(std::iter::from_fn(|| self.heap.pop().map(|t| (t.0.at, t.0.event))).collect())
    }
}
