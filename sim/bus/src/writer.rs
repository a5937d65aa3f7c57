//! Writes a trace, record by record.

use crate::record::*;
use crate::summary::{Summary, BODY};
use crate::tlp::Tlp;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Opens `path` for a trace; `-` is standard output.
pub fn create_trace(path: &Path, header: &TraceHeader) -> Result<TraceWriter<Box<dyn Write + Send>>> {
    let out: Box<dyn Write + Send> = if path == Path::new("-") {
        Box::new(BufWriter::with_capacity(1 << 18, io::stdout()))
    } else {
        Box::new(BufWriter::with_capacity(1 << 18, File::create(path)?))
    };
    TraceWriter::new(out, header)
}

/// Writes records in time order. Give it a buffered writer.
pub struct TraceWriter<W: Write> {
    out: W,
    last_ps: u64,
    summaries: bool,
    body: Vec<u8>,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the file header.
    pub fn new(mut out: W, header: &TraceHeader) -> Result<Self> {
        let json = serde_json::to_vec(header).map_err(io::Error::from)?;
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(json.len() as u32).to_le_bytes())?;
        out.write_all(&json)?;
        Ok(Self { out, last_ps: 0, summaries: header.summaries, body: Vec::new() })
    }

    /// Writes a record; its time must not precede the previous record's time.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        if let Body::Summary(summary) = &record.body {
            return self.summary_at(record.time_ps, summary);
        }
        self.go_to(record.time_ps)?;
        self.body.clear();
        self.body.resize(RECORD_HEADER, 0);
        let (kind, flags) = encode(&record.body, &mut self.body)?;
        let len = u16::try_from(self.body.len() - RECORD_HEADER)
            .map_err(|_| Error::Order("a record body over 65535 bytes".into()))?;
        self.body[0] = kind;
        self.body[1] = flags;
        self.body[2..4].copy_from_slice(&len.to_le_bytes());
        self.body[4..RECORD_HEADER].copy_from_slice(&record.time_ps.to_le_bytes());
        Ok(self.out.write_all(&self.body)?)
    }

    fn go_to(&mut self, time_ps: u64) -> Result<()> {
        if time_ps < self.last_ps {
            return Err(Error::Order(format!("record at {time_ps} ps after one at {} ps", self.last_ps)));
        }
        self.last_ps = time_ps;
        Ok(())
    }

    /// fast path for the commonest record of a long trace
    fn summary_at(&mut self, time_ps: u64, summary: &Summary) -> Result<()> {
        if !self.summaries {
            return Err(Error::Order("a SUMMARY in a trace whose header does not announce summaries".into()));
        }
        if let Some(fault) = summary.fault(time_ps) {
            return Err(Error::Order(fault));
        }
        self.go_to(time_ps)?;
        let mut record = [0; RECORD_HEADER + BODY];
        record[0] = SUMMARY;
        record[2] = BODY as u8;
        record[4..RECORD_HEADER].copy_from_slice(&time_ps.to_le_bytes());
        record[RECORD_HEADER..].copy_from_slice(&summary.encode());
        Ok(self.out.write_all(&record)?)
    }

    /// Writes a TLP.
    pub fn tlp(&mut self, time_ps: u64, direction: Direction, tlp: Tlp) -> Result<()> {
        self.record(&Record { time_ps, body: Body::Tlp(direction, tlp) })
    }

    /// Writes a burst.
    pub fn burst(&mut self, time_ps: u64, burst: Burst) -> Result<()> {
        self.record(&Record { time_ps, body: Body::Burst(burst) })
    }

    /// Writes a rail change.
    pub fn rail(&mut self, time_ps: u64, rail: Rail) -> Result<()> {
        self.record(&Record { time_ps, body: Body::Rail(rail) })
    }

    /// Writes a sideband change.
    pub fn sideband(&mut self, time_ps: u64, signal: Signal, value: u8) -> Result<()> {
        self.record(&Record { time_ps, body: Body::Sideband(signal, value) })
    }

    /// Writes a summary, at the time of its last instant. The header must have announced summaries.
    pub fn summary(&mut self, summary: Summary) -> Result<()> {
        self.summary_at(summary.instants.last_ps(), &summary)
    }

    /// Flushes the buffer, so that a reader of a live trace sees it.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    /// Writes END at `time_ps` and flushes.
    pub fn finish(mut self, time_ps: u64) -> Result<W> {
        self.record(&Record { time_ps, body: Body::End })?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A direction as encoded in a body.
fn number(direction: Direction) -> u8 {
    match direction {
        Direction::Down => 1,
        Direction::Up => 2,
    }
}

fn encode(body: &Body, out: &mut Vec<u8>) -> Result<(u8, u8)> {
    Ok(match body {
        Body::Tlp(direction, tlp) => {
            out.extend_from_slice(tlp.prefixes());
            out.extend_from_slice(tlp.header.as_bytes());
            let flags = match &tlp.payload {
                Some(payload) if payload.len() != tlp.header.payload_len() => {
                    return Err(Error::Order(format!(
                        "payload of {} bytes under a header that says {}",
                        payload.len(),
                        tlp.header.payload_len()
                    )));
                }
                Some(payload) => {
                    out.extend_from_slice(payload);
                    0
                }
                None => FLAG_LEFT_OUT,
            };
            out.extend(tlp.digest().into_iter().flatten());
            (if *direction == Direction::Down { TLP_DOWN } else { TLP_UP }, flags)
        }
        Body::Burst(b) => {
            if b.count == 0 || !b.header.can_burst() {
                return Err(Error::Order(format!("no burst of {} x {:?}", b.count, b.header)));
            }
            out.push(number(b.direction));
            out.push(b.header.as_bytes().len() as u8);
            out.extend_from_slice(&b.count.to_le_bytes());
            out.extend_from_slice(&b.step_ps.to_le_bytes());
            out.extend_from_slice(&b.step_bytes.to_le_bytes());
            out.extend_from_slice(b.header.as_bytes());
            (BURST, 0)
        }
        Body::Rail(r) => {
            out.extend_from_slice(&r.current_na.to_le_bytes());
            out.extend_from_slice(&r.voltage_nv.to_le_bytes());
            (RAIL, 0)
        }
        Body::Sideband(signal, value) => {
            out.extend_from_slice(&[*signal as u8, *value]);
            (SIDEBAND, 0)
        }
        Body::Summary(summary) => {
            out.extend_from_slice(&summary.encode());
            (SUMMARY, 0)
        }
        Body::Missed(direction) => {
            out.push(number(*direction));
            (MISSED, 0)
        }
        Body::End => (END, 0),
    })
}

/// A [`TraceWriter`] for sources that produce events out of order within a horizon: records wait in memory until
/// [`SortingWriter::release`] says that nothing earlier can come. Records of equal time stay in order of arrival.
pub struct SortingWriter<W: Write> {
    inner: TraceWriter<W>,
    waiting: BTreeMap<(u64, u64), Body>,
    serial: u64,
}

impl<W: Write> SortingWriter<W> {
    /// Adds sorting in front of `inner`.
    pub fn new(inner: TraceWriter<W>) -> Self {
        Self { inner, waiting: BTreeMap::new(), serial: 0 }
    }

    /// Takes a record. Fails if the record precedes records already released.
    pub fn push(&mut self, record: Record) -> Result<()> {
        if record.time_ps < self.inner.last_ps {
            let (t, last) = (record.time_ps, self.inner.last_ps);
            return Err(Error::Order(format!("record at {t} ps, but {last} ps is already written")));
        }
        self.waiting.insert((record.time_ps, self.serial), record.body);
        self.serial += 1;
        Ok(())
    }

    /// Writes a record that the source knows to be the earliest to come, after any earlier ones already waiting.
    pub fn push_in_order(&mut self, record: &Record) -> Result<()> {
        if !self.waiting.is_empty() {
            self.release(record.time_ps + 1)?;
        }
        self.inner.record(record)
    }

    /// Takes a summary as the function above takes a record.
    pub fn push_summary_in_order(&mut self, time_ps: u64, summary: &Summary) -> Result<()> {
        if !self.waiting.is_empty() {
            self.release(time_ps + 1)?;
        }
        self.inner.summary_at(time_ps, summary)
    }

    /// Writes every record with a time below `horizon_ps`.
    pub fn release(&mut self, horizon_ps: u64) -> Result<()> {
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().0 >= horizon_ps {
                break;
            }
            let ((time_ps, _), body) = entry.remove_entry();
            self.inner.record(&Record { time_ps, body })?;
        }
        Ok(())
    }

    /// See [`TraceWriter::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    /// Writes everything that waits, then END at `time_ps` or at the last record, whichever is later.
    pub fn finish(mut self, time_ps: u64) -> Result<W> {
        self.release(u64::MAX)?;
        let end = time_ps.max(self.inner.last_ps);
        self.inner.finish(end)
    }
}
