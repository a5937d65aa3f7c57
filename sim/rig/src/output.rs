//! Destination of the block stream: the data port, or a file in its place. A thread of its own writes, so that a host
//! that does not read stalls the simulation without blocking the control port.

use crate::pty::Pty;
use crossbeam_channel::{bounded, Receiver, SendTimeoutError, Sender};
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of chunks that may be queued for the writer.
const CHUNKS: usize = 4;

/// Receiver of the stream.
#[derive(Clone)]
pub enum Sink {
    /// A data port.
    Pty(Arc<Pty>),
    /// A file.
    File(Arc<File>),
}

impl Sink {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pty(pty) => pty.write_discarding_input(bytes),
            Self::File(file) => (&**file).write_all(bytes),
        }
    }

    /// Whether everything written has reached its receiver.
    fn taken(&self) -> bool {
        match self {
            Self::Pty(pty) => pty.unread().is_ok_and(|n| n == 0),
            Self::File(_) => true,
        }
    }
}

/// The stream on its way out.
pub struct Output {
    chunks: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    sink: Sink,
    drained_since: Option<Instant>,
    sent: u64,
    written: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Output {
    /// Starts the writer.
    pub fn start(sink: Sink) -> io::Result<Self> {
        let (chunks, receiver) = bounded(CHUNKS);
        let (written, broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::Builder::new().name("data".into());
        let (to, count, flag) = (sink.clone(), Arc::clone(&written), Arc::clone(&broken));
        let writer = thread.spawn(move || write_all(&to, &receiver, &count, &flag))?;
        Ok(Self { chunks: Some(chunks), writer: Some(writer), sink, drained_since: None, sent: 0, written, broken })
    }

    /// Hands `chunk` to the writer. Returns it if there is no room within `patience`; drops it if the writer has failed
    /// (see [`Self::broken`]).
    pub fn offer(&mut self, chunk: Vec<u8>, patience: Duration) -> Option<Vec<u8>> {
        let length = chunk.len() as u64;
        match self.chunks.as_ref().map(|c| c.send_timeout(chunk, patience)) {
            Some(Err(SendTimeoutError::Timeout(chunk))) => return Some(chunk),
            Some(Ok(())) => self.sent += length,
            Some(Err(SendTimeoutError::Disconnected(_))) | None => {}
        }
        None
    }

    /// Bytes handed over so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether writing has failed.
    pub fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Returns whether the host has read everything handed over (or the file has it), and some time has passed since. A terminal shows
    /// written data as readable only a little later, and a host may still have a query.
    pub fn drained(&mut self) -> bool {
        if self.broken() {
            return true;
        }
        if self.written.load(Ordering::Acquire) != self.sent || !self.sink.taken() {
            self.drained_since = None;
            return false;
        }
        self.drained_since.get_or_insert_with(Instant::now).elapsed() >= self.farewell()
    }

    /// How long a rig stays after everything was read.
    pub fn farewell(&self) -> Duration {
        match self.sink {
            Sink::Pty(_) => Duration::from_millis(500),
            Sink::File(_) => Duration::ZERO,
        }
    }

    /// Ends the stream. A file is complete when this returns; data that a host has not read from a port is lost.
    pub fn finish(mut self) {
        self.chunks = None;
        if let (Sink::File(_), Some(writer)) = (&self.sink, self.writer.take()) {
            let _ = writer.join();
        }
    }
}

fn write_all(sink: &Sink, chunks: &Receiver<Vec<u8>>, written: &AtomicU64, broken: &AtomicBool) {
    for chunk in chunks {
        if let Err(error) = sink.write(&chunk) {
            eprintln!("wattbell-rig: error: writing the stream: {error}");
            broken.store(true, Ordering::Relaxed);
            return;
        }
        written.fetch_add(chunk.len() as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Read;

    #[test]
    fn nobody_reading_holds_the_stream_and_loses_nothing() {
        let pty = Arc::new(Pty::open_for_writing().unwrap());
        let mut output = Output::start(Sink::Pty(Arc::clone(&pty))).unwrap();
        let mut sent = Vec::new();
        // More than terminal, writer and channel hold together must be given back.
        let refused = (0..64u8).find_map(|k| {
            let chunk = vec![k; 1 << 16];
            let back = output.offer(chunk.clone(), Duration::from_millis(50));
            if back.is_none() {
                sent.extend(chunk);
            }
            back
        });
        assert!(refused.is_some());
        assert!(!output.drained());
        let mut client = OpenOptions::new().read(true).open(pty.path()).unwrap();
        let mut seen = vec![0; sent.len()];
        client.read_exact(&mut seen).unwrap();
        assert!(seen == sent);
        while !output.drained() {
            std::thread::yield_now();
        }
    }
}
