//! The bus trace on its way into the engine: read and expanded in a thread of its own, handed over in batches.
//!
//! A batch holds every event of the bytes received so far. The reader hands over its batch before it waits for more input, so a live trace
//! on standard input is never held back.

use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::cell::RefCell;
use std::io::{BufReader, Read};
use std::rc::Rc;
use std::time::Duration;
use wattbell_bus::{Error, Event, Player, TraceHeader, TraceReader};

/// Number of batches that may be queued between the two threads.
const BATCHES: usize = 8;
/// Bytes per read; bounds the size of a batch (a burst may expand to more).
const READ_SIZE: usize = 1 << 16;
/// A batch is handed over at this size even if more input is available.
const BATCH_EVENTS: usize = 4096;
/// Initial room for events in a batch: as many as READ_SIZE bytes of command summaries hold.
const BATCH_ROOM: usize = 1024;

/// A message from the trace's reader.
enum Message {
    Header(Box<TraceHeader>),
    Events(Vec<Event>),
    Failed(String),
}

/// Result of a call for more events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fed {
    /// Events, in time order.
    Events(Vec<Event>),
    /// Nothing has arrived yet.
    Waiting,
    /// The trace is over.
    Over,
    /// The rest of the trace cannot be read; the message says why.
    Failed(String),
}

/// Whether command summaries can be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summaries {
    /// The model of the instrument takes summaries.
    Taken,
    /// The gateware can only be fed TLPs.
    Refused,
}

/// The receiving end.
pub struct Feed {
    receiver: Receiver<Message>,
    header: Option<Box<TraceHeader>>,
}

impl Feed {
    /// Reads the trace in `input` in a thread of its own. A trace of command summaries is an error unless they are
    /// accepted. So is a record more than `longest_ps` after the previous one: simulating months takes months.
    pub fn start<R: Read + Send + 'static>(input: R, summaries: Summaries, longest_ps: u64) -> std::io::Result<Self> {
        let (sender, receiver) = bounded(BATCHES);
        std::thread::Builder::new()
            .name("trace".into())
            .spawn(move || read_all(input, summaries, longest_ps, &sender))?;
        Ok(Self { receiver, header: None })
    }

    /// Returns the next batch; waits for it at most `patience`.
    pub fn next(&mut self, patience: Duration) -> Fed {
        let message = if patience.is_zero() {
            match self.receiver.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) => return Fed::Waiting,
                Err(TryRecvError::Disconnected) => return Fed::Over,
            }
        } else {
            match self.receiver.recv_timeout(patience) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Fed::Waiting,
                Err(RecvTimeoutError::Disconnected) => return Fed::Over,
            }
        };
        match message {
            Message::Header(header) => {
                self.header = Some(header);
                self.next(patience)
            }
            Message::Events(events) => Fed::Events(events),
            Message::Failed(reason) => Fed::Failed(reason),
        }
    }

    /// Returns the header of the trace, once it has arrived.
    pub fn header(&self) -> Option<&TraceHeader> {
        self.header.as_deref()
    }
}

/// Events read so far, and their destination.
struct Outbox<'a> {
    events: Vec<Event>,
    sender: &'a Sender<Message>,
}

impl Outbox<'_> {
    /// Hands over the collected events; returns `false` once nobody listens any more.
    fn flush(&mut self) -> bool {
        if self.events.is_empty() {
            return true;
        }
        let events = std::mem::replace(&mut self.events, Vec::with_capacity(BATCH_ROOM));
        self.sender.send(Message::Events(events)).is_ok()
    }
}

/// Input that flushes the outbox before it may block.
struct Flushing<'a, R> {
    inner: R,
    outbox: Rc<RefCell<Outbox<'a>>>,
}

impl<R: Read> Read for Flushing<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.outbox.borrow_mut().flush();
        self.inner.read(buffer)
    }
}

fn read_all<R: Read>(input: R, summaries: Summaries, longest_ps: u64, sender: &Sender<Message>) {
    let outbox = Rc::new(RefCell::new(Outbox { events: Vec::new(), sender }));
    let input = Flushing { inner: input, outbox: Rc::clone(&outbox) };
    let reader = match TraceReader::new(BufReader::with_capacity(READ_SIZE, input)) {
        Ok(reader) => reader.refusing_gaps_over(longest_ps),
        Err(error) => {
            let _ = sender.send(Message::Failed(error.to_string()));
            return;
        }
    };
    if reader.header().summaries && summaries == Summaries::Refused {
        let reason = "the trace holds command summaries instead of TLPs, and the RTL can only be shown TLPs; \
                      play it with --fidelity fast, or make it again without --summaries";
        let _ = sender.send(Message::Failed(reason.into()));
        return;
    }
    let _ = sender.send(Message::Header(Box::new(reader.header().clone())));
    for event in Player::new(reader) {
        let mut outbox = outbox.borrow_mut();
        match event {
            Ok(event) => outbox.events.push(event),
            Err(error) => {
                outbox.flush();
                let reason = match error {
                    Error::Gap { .. } => format!("{error}; allow more with --longest-gap HOURS, if it is meant"),
                    other => other.to_string(),
                };
                let _ = sender.send(Message::Failed(reason));
                return;
            }
        }
        if outbox.events.len() >= BATCH_EVENTS && !outbox.flush() {
            return;
        }
    }
    outbox.borrow_mut().flush();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use wattbell_bus::{Item, Rail, TraceWriter};

    const HOUR: u64 = 3_600_000_000_000_000;

    fn trace(rails: u64) -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new(), &TraceHeader::default()).unwrap();
        for k in 0..rails {
            writer.rail(k * 1000, Rail { current_na: k as i64, voltage_nv: 0 }).unwrap();
        }
        writer.finish(rails * 1000).unwrap()
    }

    #[test]
    fn a_live_trace_is_not_held_back() {
        let (mut far, near) = UnixStream::pair().unwrap();
        let bytes = trace(3);
        let mut feed = Feed::start(near, Summaries::Refused, HOUR).unwrap();
        far.write_all(&bytes[..bytes.len() - 12]).unwrap(); // all but END
        let mut seen = Vec::new();
        while seen.len() < 3 {
            match feed.next(Duration::from_secs(20)) {
                Fed::Events(events) => seen.extend(events),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(feed.next(Duration::ZERO), Fed::Waiting);
        far.write_all(&bytes[bytes.len() - 12..]).unwrap();
        let last = feed.next(Duration::from_secs(20));
        assert!(matches!(last, Fed::Events(e) if e.last().unwrap().item == Item::End));
    }

    #[test]
    fn rubbish_is_named() {
        let mut feed = Feed::start(&b"this is no trace, whatever it may be"[..], Summaries::Refused, HOUR).unwrap();
        assert!(
            matches!(feed.next(Duration::from_secs(20)), Fed::Failed(reason) if reason.contains("not a bus trace"))
        );
        assert_eq!(feed.next(Duration::from_secs(20)), Fed::Over);
    }

    #[test]
    fn a_trace_of_summaries_is_refused_at_once() {
        let header = TraceHeader { summaries: true, ..TraceHeader::default() };
        let bytes = TraceWriter::new(Vec::new(), &header).unwrap().finish(5).unwrap();
        let mut feed = Feed::start(std::io::Cursor::new(bytes), Summaries::Refused, HOUR).unwrap();
        assert!(matches!(feed.next(Duration::from_secs(20)), Fed::Failed(reason) if reason.contains("--summaries")));
    }

    #[test]
    fn what_precedes_damage_still_arrives() {
        let mut bytes = trace(5);
        let at = bytes.len() - 12;
        bytes[at] = 77;
        let mut feed = Feed::start(std::io::Cursor::new(bytes), Summaries::Refused, HOUR).unwrap();
        assert!(matches!(feed.next(Duration::from_secs(20)), Fed::Events(e) if e.len() == 5));
        assert!(matches!(feed.next(Duration::from_secs(20)), Fed::Failed(_)));
    }

    #[test]
    fn a_pause_of_months_is_refused_with_its_record_and_what_to_do() {
        let mut writer = TraceWriter::new(Vec::new(), &TraceHeader::default()).unwrap();
        writer.rail(5, Rail::default()).unwrap();
        writer.rail(5 + HOUR, Rail::default()).unwrap();
        writer.rail(5 + 2000 * HOUR, Rail::default()).unwrap();
        let bytes = writer.finish(6 + 2000 * HOUR).unwrap();
        let mut feed = Feed::start(std::io::Cursor::new(bytes.clone()), Summaries::Refused, HOUR).unwrap();
        assert!(matches!(feed.next(Duration::from_secs(20)), Fed::Events(e) if e.len() == 2));
        let Fed::Failed(reason) = feed.next(Duration::from_secs(20)) else { panic!("it was taken") };
        assert!(reason.contains("record 3") && reason.contains("1999.0 h after") && reason.contains("--longest-gap"));
        let mut feed = Feed::start(std::io::Cursor::new(bytes), Summaries::Refused, 2000 * HOUR).unwrap();
        assert!(matches!(feed.next(Duration::from_secs(20)), Fed::Events(e) if e.len() == 4));
    }
}
