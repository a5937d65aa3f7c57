//! A [`BusSink`] that writes a bus trace.

use crate::host::BusSink;
use crate::profile::Ps;
use std::io::Write;
use wattbell_bus::{Body, Error, Record, Signal, SortingWriter, Summary, TraceWriter};

/// Writes the trace in time order. The first error stops it and is reported by [`TraceSink::finish`].
pub struct TraceSink<W: Write> {
    writer: SortingWriter<W>,
    error: Option<Error>,
    released_ps: Ps,
}

impl<W: Write> TraceSink<W> {
    /// Writes to `writer`.
    pub fn new(writer: TraceWriter<W>) -> Self {
        Self { writer: SortingWriter::new(writer), error: None, released_ps: 0 }
    }

    /// Returns the first error, if there was one, so that a long-running program can stop.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Repeats PERST#, which has been high since the start: who follows the trace as it grows learns how far time is
    /// while nothing happens.
    pub fn beat(&mut self) {
        let body = Body::Sideband(Signal::PerstN, 1);
        self.record(Record { time_ps: self.released_ps, body });
    }

    /// Hands the released records to the file.
    pub fn flush(&mut self) {
        let result = self.writer.flush();
        self.keep(result);
    }

    /// Writes END, at `end_ps` or at the last record, whichever is later.
    pub fn finish(self, end_ps: Ps) -> Result<W, Error> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(end_ps),
        }
    }

    fn keep(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

impl<W: Write> BusSink for TraceSink<W> {
    fn record(&mut self, record: Record) {
        if self.error.is_none() {
            let result = self.writer.push(record);
            self.keep(result);
        }
    }

    fn record_in_order(&mut self, record: &Record) {
        if self.error.is_none() {
            let result = self.writer.push_in_order(record);
            self.keep(result);
        }
    }

    fn summary_in_order(&mut self, time_ps: Ps, summary: &Summary) {
        if self.error.is_none() {
            let result = self.writer.push_summary_in_order(time_ps, summary);
            self.keep(result);
        }
    }

    fn release(&mut self, horizon_ps: Ps) {
        if self.error.is_none() {
            self.released_ps = self.released_ps.max(horizon_ps);
            let result = self.writer.release(horizon_ps);
            self.keep(result);
        }
    }
}
