//! TLPs on a link with real serialisation: two directions, one causal order.
//!
//! Events of the log are placed at their microsecond, or as soon after the previous one as the link allows. Data of
//! commands
//! is sent in the background, page by page, in the time between them; a completion waits only for its own data.

use std::collections::VecDeque;
use std::io::Write;
use wattbell_bus::link::Link;
use wattbell_bus::{split, tlp, Body, Burst, Direction, Header, Record, Result, Signal, SortingWriter, Tlp};

/// Requester ID of the host's root complex; the drive is behind it.
pub const HOST: tlp::Bdf = 0x0000;
/// The drive: bus 1, device 0, function 0.
pub const DRIVE: tlp::Bdf = 0x0100;
/// Address enumeration assigns to BAR0.
pub const BAR0: u64 = 0xFEB0_0000;

const LINK: Link = Link::GEN3_X4;
const MAX_PAYLOAD: u32 = 256;
const MAX_READ_REQUEST: u32 = 512;
const READ_COMPLETION_BOUNDARY: u32 = 64;
/// Number of tags in use: no read request ever waits that long.
const TAGS: u16 = 64;

/// Minimum time between the fetch of an admin command and its completion.
const ANSWER_PS: u64 = 2_000_000;

/// Direction of a command's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFlow {
    /// The drive writes host memory.
    ToHost,
    /// The drive reads host memory.
    FromHost,
}

/// Data waiting for its turn on the link: at most a page.
struct Chunk {
    owner: u64,
    flow: DataFlow,
    address: u64,
    len: u32,
    data: Option<Vec<u8>>,
    ready_ps: u64,
}

/// How the converter changed times, for the statistics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delay {
    /// Events with a TLP more than a microsecond later than in the log.
    pub events: u64,
    /// The longest such delay, in picoseconds.
    pub max_ps: u64,
}

/// Writes TLPs of both directions to a trace.
pub struct Wire<W: Write> {
    out: SortingWriter<W>,
    cursor_ps: u64,
    free_ps: [u64; 2],
    backlog: VecDeque<Chunk>,
    /// Data from the host takes half the link while nothing waits for it, as with a root complex's memory.
    pace_ps: u64,
    tag: u16,
    /// TLPs written, host to drive and drive to host.
    pub tlps: [u64; 2],
    /// How far events had to be moved.
    pub delay: Delay,
}

impl<W: Write> Wire<W> {
    /// Starts at time 0 (power-on).
    pub fn new(out: SortingWriter<W>) -> Self {
        let (tlps, delay) = ([0; 2], Delay::default());
        Self { out, cursor_ps: 0, free_ps: [0; 2], backlog: VecDeque::new(), pace_ps: 0, tag: 0, tlps, delay }
    }

    /// Advances to the time of the next logged event, and sends the data that fits before that event.
    pub fn advance(&mut self, to_ps: u64) -> Result<()> {
        while let Some(chunk) = self.backlog.front() {
            let start = self.start_of(chunk).max(if chunk.flow == DataFlow::FromHost { self.pace_ps } else { 0 });
            if start >= to_ps {
                break;
            }
            if let Some(mut chunk) = self.backlog.pop_front() {
                chunk.ready_ps = start;
                let end = self.send_chunk(&chunk)?;
                self.pace_ps = end + (end - start);
            }
        }
        let late = self.cursor_ps.saturating_sub(to_ps);
        if late > 1_000_000 {
            self.delay.events += 1;
            self.delay.max_ps = self.delay.max_ps.max(late);
        }
        self.cursor_ps = self.cursor_ps.max(to_ps);
        self.out.release(self.cursor_ps)
    }

    /// Lets `ps` pass with nothing on the link.
    pub fn pause(&mut self, ps: u64) -> Result<()> {
        self.advance(self.cursor_ps + ps)
    }

    /// A sideband changes now.
    pub fn sideband(&mut self, signal: Signal, value: u8) -> Result<()> {
        self.out.push(Record { time_ps: self.cursor_ps, body: Body::Sideband(signal, value) })
    }

    /// Sends a TLP as soon as the cursor and its direction allow. The cursor then moves behind the TLP's last symbol.
    pub fn send(&mut self, direction: Direction, tlp: Tlp) -> Result<()> {
        self.cursor_ps = self.send_from(self.cursor_ps, direction, tlp)?;
        Ok(())
    }

    fn send_from(&mut self, earliest_ps: u64, direction: Direction, tlp: Tlp) -> Result<u64> {
        let d = direction as usize;
        let time_ps = earliest_ps.max(self.free_ps[d]);
        self.free_ps[d] = time_ps + LINK.tlp_ps(&tlp.header);
        self.tlps[d] += 1;
        self.out.push(Record { time_ps, body: Body::Tlp(direction, tlp) })?;
        Ok(self.free_ps[d])
    }

    /// Headers of one direction back to back, as one burst record if they are of equal length and evenly advanced.
    /// Returns the end.
    fn send_run(&mut self, earliest_ps: u64, direction: Direction, run: &[(Header, u32)]) -> Result<u64> {
        let Some(&(header, step_bytes)) = run.first() else { return Ok(earliest_ps) };
        let even = run.len() > 1
            && run.iter().enumerate().all(|(i, (h, n))| {
                *n == step_bytes && h.tlp_len() == header.tlp_len() && header.advanced(i as u64 * u64::from(*n)) == *h
            });
        if !even {
            let mut end = earliest_ps;
            for (h, _) in run {
                end = self.send_from(end, direction, Tlp::left_out(*h))?;
            }
            return Ok(end);
        }
        let d = direction as usize;
        let time_ps = earliest_ps.max(self.free_ps[d]);
        let step_ps = LINK.tlp_ps(&header);
        let count = run.len() as u16;
        self.free_ps[d] = time_ps + step_ps * u64::from(count);
        self.tlps[d] += u64::from(count);
        let burst = Burst { direction, header, count, step_ps: step_ps as u32, step_bytes };
        self.out.push(Record { time_ps, body: Body::Burst(burst) })?;
        Ok(self.free_ps[d])
    }

    fn next_tag(&mut self) -> u16 {
        self.tag = (self.tag + 1) % TAGS;
        self.tag
    }

    /// The host writes `data` into BAR0 at `offset`.
    pub fn write_register(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.send(Direction::Down, tlp::mem_write(HOST, 0, BAR0 + offset, data))
    }

    /// The host reads `value` from BAR0 at `offset`.
    pub fn read_register(&mut self, offset: u64, value: &[u8]) -> Result<()> {
        let tag = self.next_tag();
        let address = BAR0 + offset;
        self.send(Direction::Down, tlp::mem_read(HOST, tag, address, value.len() as u32))?;
        let route = tlp::Route { completer: DRIVE, requester: HOST, tag };
        self.send(Direction::Up, tlp::completion_data(route, address, value, value.len() as u32))
    }

    /// A configuration write to the drive, and its completion.
    pub fn config_write(&mut self, register: u16, value: u32) -> Result<()> {
        let tag = self.next_tag();
        self.send(Direction::Down, tlp::cfg_write0(HOST, tag, DRIVE, register, 0xF, value))?;
        let route = tlp::Route { completer: DRIVE, requester: HOST, tag };
        self.send(Direction::Up, tlp::completion(route, tlp::CplStatus::Success))
    }

    /// The drive writes `data` (at most a payload) to host memory.
    pub fn write_host(&mut self, address: u64, data: &[u8]) -> Result<()> {
        self.send(Direction::Up, tlp::mem_write(DRIVE, 0, address, data))
    }

    /// The drive reads `data` from host memory: request, then completions.
    pub fn fetch(&mut self, address: u64, data: &[u8]) -> Result<()> {
        for (at, len) in split::requests(address, data.len() as u32, MAX_READ_REQUEST) {
            let tag = self.next_tag();
            self.send(Direction::Up, tlp::mem_read(DRIVE, tag, at, len))?;
            let route = tlp::Route { completer: HOST, requester: DRIVE, tag };
            for c in split::completions(at, len, READ_COMPLETION_BOUNDARY, MAX_PAYLOAD) {
                let from = (c.address - address) as usize;
                let piece = &data[from..from + c.len as usize];
                self.send(Direction::Down, tlp::completion_data(route, c.address, piece, c.remaining))?;
            }
        }
        Ok(())
    }

    /// Queues data of command `owner`; it starts when the link is free. `pages` are (address, length), none across 4
    /// KiB; `data`, if known, is their content.
    pub fn transfer(&mut self, owner: u64, flow: DataFlow, pages: &[(u64, u32)], data: Option<&[u8]>) {
        // no drive answers Identify within nanoseconds, and the rig must first learn of the request
        let wait_ps = if flow == DataFlow::ToHost && data.is_some() { ANSWER_PS } else { 0 };
        let mut from = 0;
        for &(address, len) in pages {
            let data = data.map(|d| d[from..from + len as usize].to_vec());
            from += len as usize;
            self.backlog.push_back(Chunk { owner, flow, address, len, data, ready_ps: self.cursor_ps + wait_ps });
        }
    }

    /// Sends the remaining data of `owner`, and moves the cursor behind the data.
    pub fn finish_transfer(&mut self, owner: u64) -> Result<()> {
        while let Some(at) = self.backlog.iter().position(|c| c.owner == owner) {
            if let Some(chunk) = self.backlog.remove(at) {
                let end = self.send_chunk(&chunk)?;
                self.cursor_ps = self.cursor_ps.max(end);
            }
        }
        Ok(())
    }

    /// Drops queued data: the controller was reset.
    pub fn cancel_transfers(&mut self) {
        self.backlog.clear();
    }

    fn start_of(&self, chunk: &Chunk) -> u64 {
        let start = chunk.ready_ps.max(self.cursor_ps).max(self.free_ps[Direction::Up as usize]);
        match chunk.flow {
            DataFlow::ToHost => start,
            // One page of read requests at a time: their answers take far longer than they do, and tags are few.
            DataFlow::FromHost => start.max(self.free_ps[Direction::Down as usize]),
        }
    }

    fn send_front(&mut self) -> Result<u64> {
        match self.backlog.pop_front() {
            Some(chunk) => self.send_chunk(&chunk),
            None => Ok(self.cursor_ps),
        }
    }

    fn send_chunk(&mut self, chunk: &Chunk) -> Result<u64> {
        let start = self.start_of(chunk);
        match (chunk.flow, &chunk.data) {
            (DataFlow::ToHost, Some(data)) => {
                let mut end = start;
                for (at, len) in split::requests(chunk.address, chunk.len, MAX_PAYLOAD) {
                    let from = (at - chunk.address) as usize;
                    let piece = &data[from..from + len as usize];
                    end = self.send_from(end, Direction::Up, tlp::mem_write(DRIVE, 0, at, piece))?;
                }
                Ok(end)
            }
            (DataFlow::ToHost, None) => {
                let run: Vec<_> = split::requests(chunk.address, chunk.len, MAX_PAYLOAD)
                    .map(|(at, len)| (tlp::mem_write_header(DRIVE, 0, at, len), len))
                    .collect();
                self.send_run(start, Direction::Up, &run)
            }
            (DataFlow::FromHost, data) => {
                let mut end = start;
                for (at, len) in split::requests(chunk.address, chunk.len, MAX_READ_REQUEST) {
                    let tag = self.next_tag();
                    let asked = self.send_from(start, Direction::Up, tlp::mem_read(DRIVE, tag, at, len))?;
                    let route = tlp::Route { completer: HOST, requester: DRIVE, tag };
                    let cut = split::completions(at, len, READ_COMPLETION_BOUNDARY, MAX_PAYLOAD);
                    end = if let Some(data) = data {
                        let mut end = asked;
                        for c in cut {
                            let from = (c.address - chunk.address) as usize;
                            let piece = &data[from..from + c.len as usize];
                            let cpl = tlp::completion_data(route, c.address, piece, c.remaining);
                            end = self.send_from(end, Direction::Down, cpl)?;
                        }
                        end
                    } else {
                        let run: Vec<_> = cut
                            .map(|c| (tlp::completion_data_header(route, c.address, c.len, c.remaining), c.len))
                            .collect();
                        self.send_run(asked, Direction::Down, &run)?
                    };
                }
                Ok(end)
            }
        }
    }

    /// Sends all queued data and ends the trace `margin_ps` after everything.
    pub fn finish(mut self, margin_ps: u64) -> Result<(W, [u64; 2], Delay)> {
        while !self.backlog.is_empty() {
            self.send_front()?;
        }
        let end = self.cursor_ps.max(self.free_ps[0]).max(self.free_ps[1]) + margin_ps;
        Ok((self.out.finish(end)?, self.tlps, self.delay))
    }
}
