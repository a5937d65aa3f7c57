//! Detects two controllers sharing a log. No event names its controller; what only two can have done gives them away.

use super::event::Event;
use std::collections::HashMap;

/// Resets of several devices of one machine are no further apart than this.
const SAME_RESET_US: i64 = 10_000;
/// A tail steps back once per round of its queue. This many times as often means two queues.
const TOO_OFTEN: u64 = 4;
/// Number of steps back that prove nothing: they come from lost lines, or from rounds of a queue of yet unknown size.
const FREE_STEPS: u64 = 8;

/// Tail doorbells of the queues with one number.
#[derive(Debug, Default)]
struct Tail {
    last: Option<u32>,
    highest: u32,
    commands: u64,
    steps_back: u64,
}

/// Follows a log's events.
#[derive(Debug, Default)]
pub struct Twins {
    /// Whether two controllers were at work.
    pub found: bool,
    enabled: bool,
    /// Addresses of the existing completion queues.
    cqs: HashMap<u16, u64>,
    tails: HashMap<u16, Tail>,
    /// Time of the previous event, if it was a reset.
    reset_us: Option<i64>,
}

impl Twins {
    /// Takes the next event.
    pub fn event(&mut self, time_us: Option<i64>, event: &Event) {
        let before = self.reset_us.take();
        match *event {
            Event::PciReset => {
                // The machine resets all its devices at once; one device is not reset twice without being used.
                self.found |= before.zip(time_us).is_some_and(|(at, now)| now - at < SAME_RESET_US);
                self.reset_us = time_us;
                self.disabled();
            }
            Event::Cfg { value } if value & 1 == 0 => self.disabled(),
            Event::Cfg { .. } => self.enabled = true,
            Event::AqAttr { .. } | Event::AsqLow { .. } | Event::AcqLow { .. } => self.found |= self.enabled,
            Event::CreateCq { addr, cqid, .. } => {
                self.found |= self.cqs.insert(cqid, addr).is_some_and(|old| old != addr);
            }
            Event::DelCq { cqid } => {
                self.cqs.remove(&cqid);
            }
            Event::CreateSq { sqid, .. } | Event::DelSq { sqid } => {
                if let Some(tail) = self.tails.get_mut(&sqid) {
                    tail.last = None;
                }
            }
            Event::IoCmd { sqid, .. } => self.tails.entry(sqid).or_default().commands += 1,
            Event::SqDoorbell { sqid, tail } if sqid > 0 => {
                let queue = self.tails.entry(sqid).or_default();
                queue.steps_back += u64::from(queue.last.is_some_and(|last| tail < last));
                queue.last = Some(tail);
                queue.highest = queue.highest.max(tail);
            }
            _ => {}
        }
    }

    /// Evaluates the doorbells, once all are known.
    pub fn finish(&mut self) {
        self.found |= self.tails.values().any(|tail| {
            let rounds = tail.commands / (u64::from(tail.highest) + 1) + 1;
            tail.steps_back > FREE_STEPS + TOO_OFTEN * rounds
        });
    }

    fn disabled(&mut self) {
        self.enabled = false;
        self.cqs.clear();
        self.tails.values_mut().for_each(|tail| tail.last = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(tails: impl Iterator<Item = u32>) -> bool {
        let mut twins = Twins::default();
        for tail in tails {
            twins.event(None, &Event::SqDoorbell { sqid: 1, tail });
            twins.event(None, &Event::IoCmd { cid: 0, nsid: 1, sqid: 1, opc: 2 });
        }
        twins.finish();
        twins.found
    }

    #[test]
    fn tails_of_one_queue_go_round_and_those_of_two_go_to_and_fro() {
        assert!(!rings((0..5000).map(|i| (517 + i) % 1024)));
        assert!(!rings((0..5000).map(|i| i % 4)), "a queue of four entries");
        assert!(rings((0..100).map(|i| i / 2 + i % 2 * 300)));
    }

    #[test]
    fn resets_at_once_and_a_queue_created_twice() {
        let create = |addr| Event::CreateCq { addr, cqid: 1, vector: 1, qsize: 7, qflags: 3 };
        let found = |events: &[(i64, Event)]| {
            let mut twins = Twins::default();
            events.iter().for_each(|(time, event)| twins.event(Some(*time), event));
            twins.found
        };
        assert!(found(&[(5, Event::PciReset), (9, Event::PciReset)]));
        assert!(!found(&[(5, Event::PciReset), (2_000_000, Event::PciReset)]), "the machine was started again");
        assert!(found(&[(5, create(0x1000)), (9, create(0x2000))]));
        assert!(!found(&[(5, create(0x1000)), (7, Event::Cfg { value: 0 }), (9, create(0x2000))]));
    }
}
