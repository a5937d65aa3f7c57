//! Plays a trace as it happens: bursts expanded, everything in time order.

use crate::reader::TraceReader;
use crate::record::*;
use crate::summary::Summary;
use crate::tlp::Tlp;
use std::io::Read;

/// Something that happens at `time_ps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Picoseconds since power-on; for a TLP, of its first symbol.
    pub time_ps: u64,
    /// The event.
    pub item: Item,
}

/// An event at the connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A TLP.
    Tlp(Direction, Tlp),
    /// The rail changes.
    Rail(Rail),
    /// A sideband changes.
    Sideband(Signal, u8),
    /// A command without TLPs has completed.
    Summary(Summary),
    /// The tap missed some TLPs of this direction before the next one.
    Missed(Direction),
    /// The trace ends.
    End,
}

/// Iterates the events of a trace with non-decreasing times. Among equal times, what started earlier in the file comes
/// first. A TLP that starts inside a burst of its own direction is an error.
pub struct Player<R: Read> {
    reader: TraceReader<R>,
    pending: Option<Record>,
    failed: Option<Error>,
    open: [Option<Open>; 2],
    done: bool,
}

struct Open {
    start_ps: u64,
    index: u16,
    burst: Burst,
}

impl Open {
    fn time_ps(&self) -> u64 {
        self.start_ps.saturating_add(self.burst.offset_ps(self.index))
    }
}

impl<R: Read> Player<R> {
    /// Plays the records of `reader`.
    pub fn new(reader: TraceReader<R>) -> Self {
        Self { reader, pending: None, failed: None, open: [None, None], done: false }
    }

    /// The reader, for its header and whether END was seen.
    pub fn reader(&self) -> &TraceReader<R> {
        &self.reader
    }

    fn next_of_burst(&mut self, which: usize) -> Option<Event> {
        let open = self.open[which].as_mut()?;
        let time_ps = open.time_ps();
        let header = open.burst.header.advanced(u64::from(open.burst.step_bytes) * u64::from(open.index));
        let item = Item::Tlp(open.burst.direction, Tlp::left_out(header));
        open.index += 1;
        if open.index == open.burst.count {
            self.open[which] = None;
        }
        Some(Event { time_ps, item })
    }

    fn check_free(&self, direction: Direction, time_ps: u64) -> Result<()> {
        match &self.open[direction as usize] {
            None => Ok(()),
            Some(open) => Err(Error::Order(format!(
                "a TLP starts at {time_ps} ps inside the burst of the same direction that began at {} ps",
                open.start_ps
            ))),
        }
    }

    /// Next event while no burst is open, which is nearly always: it is the next record.
    #[inline]
    fn simple(&mut self) -> Option<Result<Event>> {
        let Record { time_ps, body } = match self.reader.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let item = match body {
            Body::Summary(summary) => Item::Summary(summary),
            Body::Missed(direction) => Item::Missed(direction),
            Body::Rail(rail) => Item::Rail(rail),
            Body::Tlp(direction, tlp) => Item::Tlp(direction, tlp),
            Body::Sideband(signal, value) => Item::Sideband(signal, value),
            Body::End => Item::End,
            Body::Burst(burst) => {
                self.open[burst.direction as usize] = Some(Open { start_ps: time_ps, index: 0, burst });
                return self.step().transpose();
            }
        };
        Some(Ok(Event { time_ps, item }))
    }

    fn step(&mut self) -> Result<Option<Event>> {
        loop {
            if self.pending.is_none() && self.failed.is_none() {
                match self.reader.next() {
                    Some(Ok(record)) => self.pending = Some(record),
                    Some(Err(error)) => self.failed = Some(error),
                    None => {}
                }
            }
            // Whatever precedes a damaged record still plays.
            let limit = self.pending.as_ref().map_or(u64::MAX, |r| r.time_ps);
            let next = (0..2).filter_map(|i| Some((self.open[i].as_ref()?.time_ps(), i))).min();
            if let Some((time_ps, which)) = next {
                if time_ps <= limit {
                    return Ok(self.next_of_burst(which));
                }
            }
            let Some(Record { time_ps, body }) = self.pending.take() else {
                return self.failed.take().map_or(Ok(None), Err);
            };
            let item = match body {
                Body::Burst(burst) => {
                    self.check_free(burst.direction, time_ps)?;
                    self.open[burst.direction as usize] = Some(Open { start_ps: time_ps, index: 0, burst });
                    continue;
                }
                Body::Tlp(direction, tlp) => {
                    self.check_free(direction, time_ps)?;
                    Item::Tlp(direction, tlp)
                }
                Body::Rail(rail) => Item::Rail(rail),
                Body::Sideband(signal, value) => Item::Sideband(signal, value),
                Body::Summary(summary) => Item::Summary(summary),
                Body::Missed(direction) => Item::Missed(direction),
                Body::End => {
                    if self.open.iter().any(Option::is_some) {
                        return Err(Error::Order(format!("END at {time_ps} ps inside a burst")));
                    }
                    Item::End
                }
            };
            return Ok(Some(Event { time_ps, item }));
        }
    }
}

impl<R: Read> Iterator for Player<R> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let alone = self.open[0].is_none() && self.open[1].is_none() && self.pending.is_none() && self.failed.is_none();
        let item = if alone { self.simple() } else { self.step().transpose() };
        self.done = !matches!(&item, Some(Ok(e)) if !matches!(e.item, Item::End));
        item
    }
}
