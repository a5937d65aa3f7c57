//! The drive's PCIe port: both lanes' time, the cutting of transfers into TLPs, tags, and ASPM.

use crate::profile::{Profile, Ps, NS, US};
use wattbell_bus::link::Link;
use wattbell_bus::tlp::{self, Bdf, Header, Route, Tlp};
use wattbell_bus::{split, Body, Burst, Direction, LinkState, Record, Signal};

/// Root complex, as requester of MMIO and completer of the drive's reads.
pub const HOST: Bdf = 0x0000;
/// The drive, bus 1, device 0, function 0.
pub const DRIVE: Bdf = 0x0100;

/// Which link power states the host allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Aspm {
    /// The link stays in L0.
    #[default]
    Off,
    /// L1 when idle.
    L1,
    /// L1.2 when idle longer: CLKREQ# released.
    L1_2,
}

/// The payload that the drive sends.
pub enum Payload<'a> {
    /// User data: the trace leaves it out.
    LeftOut(u32),
    /// Structures: kept in the trace.
    Bytes(&'a [u8]),
}

/// Start of the first symbol and end of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First symbol of the first TLP.
    pub first: Ps,
    /// First symbol of the last TLP.
    pub last: Ps,
    /// After the last symbol of the last TLP.
    pub end: Ps,
}

/// The port. Its new records wait in [`Port::take`].
pub struct Port {
    /// The drive as requester and completer.
    pub id: Bdf,
    /// Whether the drive may write host memory. Only a host outside the model takes that away.
    pub master: bool,
    link: Link,
    max_payload: u32,
    max_read_request: u32,
    rcb: u32,
    free: [Ps; 2],
    tags: Vec<bool>,
    next_tag: u16,
    state: LinkState,
    state_since: Ps,
    aspm: Aspm,
    l1_idle: Ps,
    l1_2_idle: Ps,
    l1_exit: Ps,
    l1_2_exit: Ps,
    /// Last symbol sent to effect behind the receiver.
    pub flight: Ps,
    /// Time from a read request at the root complex to its first completion.
    pub host_read: Ps,
    out: Vec<Record>,
}

impl Port {
    /// Creates a port; its link is down.
    pub fn new(profile: &Profile) -> Self {
        let l = &profile.link;
        Self {
            id: DRIVE,
            master: true,
            link: Link::GEN3_X4,
            max_payload: *l.max_payload,
            max_read_request: *l.max_read_request,
            rcb: *l.read_completion_boundary,
            free: [0; 2],
            tags: vec![false; usize::from(*l.tags)],
            next_tag: 0,
            state: LinkState::Detect,
            state_since: 0,
            aspm: Aspm::Off,
            l1_idle: *l.l1_idle_us * US,
            l1_2_idle: *l.l1_2_idle_us * US,
            l1_exit: *l.l1_exit_us * US,
            l1_2_exit: *l.l1_2_exit_us * US,
            flight: *l.flight_ns * NS,
            host_read: *l.host_read_ns * NS,
            out: Vec::new(),
        }
    }

    /// Records made since the last call, not sorted.
    pub fn take(&mut self) -> std::vec::Drain<'_, Record> {
        self.out.drain(..)
    }

    /// After a conventional reset: no request is outstanding, and the host allows no link power states.
    pub fn reset(&mut self) {
        self.tags.fill(false);
        self.aspm = Aspm::Off;
    }

    /// State of the link.
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// Sets the link states that the host allows. The setting takes effect at the next idle time.
    pub fn set_aspm(&mut self, aspm: Aspm) {
        self.aspm = aspm;
    }

    /// Writes a sideband change.
    pub fn sideband(&mut self, time_ps: Ps, signal: Signal, value: u8) {
        self.out.push(Record { time_ps, body: Body::Sideband(signal, value) });
    }

    /// The link enters `state` at `now`.
    pub fn enter(&mut self, now: Ps, state: LinkState) {
        self.state = state;
        self.state_since = now;
        self.sideband(now, Signal::LinkState, state as u8);
    }

    /// When the link may go down a power state, if nothing is in hand since `idle_since`.
    pub fn next_idle_ps(&self, idle_since: Ps) -> Option<Ps> {
        match self.state {
            LinkState::L0 if self.aspm >= Aspm::L1 => {
                let quiet = self.free[0].max(self.free[1]).max(idle_since).max(self.state_since);
                Some(quiet + self.l1_idle)
            }
            LinkState::L1 if self.aspm == Aspm::L1_2 => Some(self.state_since + self.l1_2_idle),
            _ => None,
        }
    }

    /// Takes the step that [`Port::next_idle_ps`] announced.
    pub fn go_idle(&mut self, now: Ps) {
        if self.state == LinkState::L0 {
            self.enter(now, LinkState::L1);
        } else {
            self.sideband(now, Signal::ClkreqN, 1);
            self.enter(now, LinkState::L1_2);
        }
    }

    /// Brings the link to L0 because either side has a TLP to send at `now`. Returns the time from which that side can send.
    #[inline]
    pub fn wake(&mut self, now: Ps) -> Ps {
        match self.state {
            LinkState::L1 | LinkState::L1_2 => self.leave_low_power(now),
            _ => now,
        }
    }

    #[cold]
    fn leave_low_power(&mut self, now: Ps) -> Ps {
        let exit = match self.state {
            LinkState::L1 => self.l1_exit,
            LinkState::L1_2 => {
                self.sideband(now, Signal::ClkreqN, 0);
                self.l1_2_exit
            }
            _ => return now,
        };
        self.enter(now, LinkState::Recovery);
        self.enter(now + exit, LinkState::L0);
        now + exit
    }

    /// When both lanes have nothing more to send.
    pub fn quiet_ps(&self) -> Ps {
        self.free[0].max(self.free[1])
    }

    /// The time from which the link, which is awake, can send.
    #[inline]
    fn up_ps(&self) -> Ps {
        if self.state == LinkState::L0 {
            self.state_since
        } else {
            0
        }
    }

    /// Takes a lane for `time`, without writing to the trace. Returns the time of the first symbol.
    #[inline]
    pub fn claim(&mut self, at: Ps, direction: Direction, time: Ps) -> Ps {
        let at = self.wake(at);
        let lane = direction as usize;
        let first = at.max(self.free[lane]).max(self.up_ps());
        self.free[lane] = first + time;
        first
    }

    /// How long a TLP of this many bytes of header and payload takes.
    pub fn tlp_ps(&self, bytes: usize) -> Ps {
        self.link.bytes_ps(bytes)
    }

    /// Largest payload and largest read request, in bytes.
    pub fn limits(&self) -> (u32, u32) {
        (self.max_payload, self.max_read_request)
    }

    /// The host allows these.
    pub fn set_limits(&mut self, max_payload: u32, max_read_request: u32) {
        (self.max_payload, self.max_read_request) = (max_payload, max_read_request);
    }

    /// Sends one TLP as soon as the lane is free, at `at` or later.
    pub fn send(&mut self, at: Ps, direction: Direction, tlp: Tlp) -> Span {
        let at = self.wake(at);
        let lane = direction as usize;
        let first = at.max(self.free[lane]).max(self.up_ps());
        let end = first + self.link.tlp_ps(&tlp.header);
        self.free[lane] = end;
        self.out.push(Record { time_ps: first, body: Body::Tlp(direction, tlp) });
        Span { first, last: first, end }
    }

    /// Sends `count` TLPs of equal length back to back.
    fn send_burst(&mut self, at: Ps, direction: Direction, header: Header, count: u16, step_bytes: u32) -> Span {
        if count == 1 {
            return self.send(at, direction, Tlp::left_out(header));
        }
        let at = self.wake(at);
        let lane = direction as usize;
        let first = at.max(self.free[lane]).max(self.up_ps());
        let step = self.link.tlp_ps(&header);
        let last = first + step * u64::from(count - 1);
        self.free[lane] = last + step;
        let burst = Burst { direction, header, count, step_ps: step as u32, step_bytes };
        self.out.push(Record { time_ps: first, body: Body::Burst(burst) });
        Span { first, last, end: last + step }
    }

    /// The drive writes host memory.
    pub fn dma_write(&mut self, at: Ps, address: u64, payload: Payload<'_>) -> Span {
        let mut whole: Option<Span> = None;
        let mut add = |span: Span| {
            let first = whole.map_or(span.first, |w| w.first);
            whole = Some(Span { first, ..span });
        };
        if !self.master {
            return Span { first: at, last: at, end: at };
        }
        match payload {
            Payload::Bytes(bytes) => {
                let mut done = 0;
                for (piece, len) in split::requests(address, bytes.len() as u32, self.max_payload) {
                    let data = &bytes[done..done + len as usize];
                    add(self.send(at, Direction::Up, tlp::mem_write(self.id, 0, piece, data)));
                    done += len as usize;
                }
            }
            Payload::LeftOut(len) => {
                let mut pieces = split::requests(address, len, self.max_payload).peekable();
                while let Some((piece, len)) = pieces.next() {
                    let mut count = 1;
                    // A burst keeps the header form of its first TLP, so it ends at 4 GiB.
                    while pieces.next_if(|&(a, l)| l == len && a >> 32 == piece >> 32).is_some() {
                        count += 1;
                    }
                    let header = tlp::mem_write_header(self.id, 0, piece, len);
                    add(self.send_burst(at, Direction::Up, header, count, len));
                }
            }
        }
        whole.unwrap_or(Span { first: at, last: at, end: at })
    }

    /// The drive asks for host memory: the read requests, and when the root complex may answer them.
    pub fn dma_read(&mut self, at: Ps, address: u64, len: u32) -> Request {
        let mut reads = Vec::with_capacity(8);
        let mut first = None;
        let mut last = at;
        for (piece, len) in split::requests(address, len, self.max_read_request) {
            let tag = self.take_tag();
            let span = self.send(at, Direction::Up, tlp::mem_read(self.id, tag, piece, len));
            first.get_or_insert(span.first);
            last = span.end;
            reads.push((piece, len, tag));
        }
        let first = first.unwrap_or(at);
        Request { reads, first, answer: last + self.flight + self.host_read }
    }

    /// Answers a request as the root complex, at `at`. `data`: the bytes read, or `None` for user data (left out).
    pub fn answer(&mut self, at: Ps, request: &Request, data: Option<&[u8]>) -> Span {
        let mut whole: Option<Span> = None;
        let base = request.reads.first().map_or(0, |r| r.0);
        for &(address, len, tag) in &request.reads {
            let route = Route { completer: HOST, requester: DRIVE, tag };
            let mut pieces = split::completions(address, len, self.rcb, self.max_payload).peekable();
            while let Some(piece) = pieces.next() {
                let span = if let Some(data) = data {
                    let from = (piece.address - base) as usize;
                    let bytes = &data[from..from + piece.len as usize];
                    let tlp = tlp::completion_data(route, piece.address, bytes, piece.remaining);
                    self.send(at, Direction::Down, tlp)
                } else {
                    let mut count = 1;
                    while pieces.next_if(|p| p.len == piece.len).is_some() {
                        count += 1;
                    }
                    let header = tlp::completion_data_header(route, piece.address, piece.len, piece.remaining);
                    self.send_burst(at, Direction::Down, header, count, piece.len)
                };
                let first = whole.map_or(span.first, |w| w.first);
                whole = Some(Span { first, ..span });
            }
            self.tags[usize::from(tag)] = false;
        }
        whole.unwrap_or(Span { first: at, last: at, end: at })
    }

    /// A tag no outstanding read uses, in rotation. The controller never asks for more than there are.
    pub fn take_tag(&mut self) -> u16 {
        for _ in 0..self.tags.len() {
            let tag = self.next_tag;
            self.next_tag = (tag + 1) % self.tags.len() as u16;
            if !self.tags[usize::from(tag)] {
                self.tags[usize::from(tag)] = true;
                return tag;
            }
        }
        unreachable!("the profile's tags cover what the controller reads at a time")
    }
}

/// Read requests that wait for the root complex.
#[derive(Debug, Clone)]
pub struct Request {
    reads: Vec<(u64, u32, u16)>,
    /// First symbol of the first request.
    pub first: Ps,
    /// When the root complex is ready with the first completion.
    pub answer: Ps,
}

impl Request {
    /// Address and length, in bytes, of the whole.
    pub fn range(&self) -> (u64, u32) {
        (self.reads.first().map_or(0, |r| r.0), self.reads.iter().map(|r| r.1).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(aspm: Aspm) -> Port {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        let link = &mut profile.link;
        (link.l1_idle_us.value, link.l1_2_idle_us.value) = (30, 20);
        (link.l1_exit_us.value, link.l1_2_exit_us.value) = (8, 75);
        let mut port = Port::new(&profile);
        port.set_aspm(aspm);
        port.enter(1000 * US, LinkState::L0);
        port.take().for_each(drop);
        port
    }

    fn shown(port: &mut Port) -> Vec<(Ps, Signal, u8)> {
        let sideband = |r: Record| match r.body {
            Body::Sideband(signal, value) => Some((r.time_ps, signal, value)),
            _ => None,
        };
        port.take().filter_map(sideband).collect()
    }

    #[test]
    fn the_link_goes_down_so_long_after_the_last_that_kept_it_up() {
        let mut port = port(Aspm::L1_2);
        // since the link came up, since something was in hand, since the last symbol
        assert_eq!(port.next_idle_ps(0), Some(1030 * US));
        assert_eq!(port.next_idle_ps(1200 * US), Some(1230 * US));
        let span = port.send(1300 * US, Direction::Up, Tlp::left_out(tlp::mem_write_header(DRIVE, 0, 0x1000, 256)));
        assert_eq!(span.first, 1300 * US);
        assert!(span.end > span.first);
        assert_eq!(port.next_idle_ps(1200 * US), Some(span.end + 30 * US));
        port.take().for_each(drop);
        port.go_idle(2000 * US);
        assert_eq!(port.state(), LinkState::L1);
        assert_eq!(port.next_idle_ps(0), Some(2020 * US));
        port.go_idle(2020 * US);
        assert_eq!(port.next_idle_ps(0), None);
        let (l1, l1_2) = (LinkState::L1 as u8, LinkState::L1_2 as u8);
        let wanted =
            [(2000 * US, Signal::LinkState, l1), (2020 * US, Signal::ClkreqN, 1), (2020 * US, Signal::LinkState, l1_2)];
        assert_eq!(shown(&mut port), wanted);
    }

    #[test]
    fn the_link_comes_up_after_the_exit_latency_of_its_state() {
        let (recovery, l0) = (LinkState::Recovery as u8, LinkState::L0 as u8);
        let mut port = port(Aspm::L1_2);
        port.go_idle(2000 * US);
        port.take().for_each(drop);
        assert_eq!(port.wake(2010 * US), 2018 * US);
        assert_eq!(shown(&mut port), [(2010 * US, Signal::LinkState, recovery), (2018 * US, Signal::LinkState, l0)]);
        port.go_idle(3000 * US);
        port.go_idle(3020 * US);
        port.take().for_each(drop);
        let first = port.claim(4000 * US, Direction::Down, 5);
        assert_eq!(first, 4075 * US);
        let wanted = [
            (4000 * US, Signal::ClkreqN, 0),
            (4000 * US, Signal::LinkState, recovery),
            (4075 * US, Signal::LinkState, l0),
        ];
        assert_eq!(shown(&mut port), wanted);
        assert_eq!(port.quiet_ps(), 4075 * US + 5);
        assert_eq!(port.wake(5000 * US), 5000 * US);
    }

    #[test]
    fn a_link_power_state_that_the_host_does_not_allow_is_not_entered() {
        assert_eq!(port(Aspm::Off).next_idle_ps(0), None);
        let mut l1 = port(Aspm::L1);
        assert_eq!(l1.next_idle_ps(0), Some(1030 * US));
        l1.go_idle(1030 * US);
        assert_eq!(l1.next_idle_ps(0), None);
        let mut reset = port(Aspm::L1_2);
        reset.reset();
        assert_eq!(reset.next_idle_ps(0), None);
    }

    #[test]
    fn tlps_of_a_direction_follow_each_other_and_the_other_direction_is_free() {
        let mut port = port(Aspm::Off);
        let first = port.claim(2000 * US, Direction::Up, 700);
        assert_eq!(port.claim(2000 * US, Direction::Up, 700), first + 700);
        assert_eq!(port.claim(2000 * US, Direction::Down, 700), 2000 * US);
        assert_eq!(port.claim(2100 * US, Direction::Up, 700), 2100 * US);
    }

    /// Bursts and TLPs of a direction: time, number, and bytes that the address goes on by.
    fn sent(port: &mut Port) -> Vec<(Ps, u16, u32)> {
        let each = port.take().filter_map(|r| match r.body {
            Body::Tlp(..) => Some((r.time_ps, 1, 0)),
            Body::Burst(b) => Some((r.time_ps, b.count, b.step_bytes)),
            _ => None,
        });
        each.collect()
    }

    /// Time of one TLP of a whole payload.
    fn one(payload: u32) -> Ps {
        let span = port(Aspm::Off).dma_write(2000 * US, 0x1000, Payload::LeftOut(payload));
        assert_eq!((span.first, span.last), (2000 * US, 2000 * US));
        span.end - span.first
    }

    #[test]
    fn a_write_is_cut_into_payloads_back_to_back() {
        let most = port(Aspm::Off).limits().0;
        let (whole, half) = (one(most), one(most / 2));
        let mut up = port(Aspm::Off);
        let span = up.dma_write(2000 * US, 0x10_0000, Payload::LeftOut(4 * most + most / 2));
        assert_eq!(span, Span { first: 2000 * US, last: 2000 * US + 4 * whole, end: 2000 * US + 4 * whole + half });
        assert_eq!(sent(&mut up), [(2000 * US, 4, most), (2000 * US + 4 * whole, 1, 0)]);
        let next = up.dma_write(2000 * US, 0x20_0000, Payload::LeftOut(3 * most));
        assert_eq!(next, Span { first: span.end, last: span.end + 2 * whole, end: span.end + 3 * whole });
        // a burst ends at 4 GiB, where the header becomes longer
        up.take().for_each(drop);
        up.dma_write(3000 * US, (1 << 32) - 2 * u64::from(most), Payload::LeftOut(5 * most));
        let parts: Vec<(u16, u32)> = sent(&mut up).iter().map(|s| (s.1, s.2)).collect();
        assert_eq!(parts, [(2, most), (3, most)]);
        let bytes: Vec<u8> = (0..most * 2 + 10).map(|k| (k % 251) as u8).collect();
        let span = up.dma_write(4000 * US, 0x30_0000, Payload::Bytes(&bytes));
        let parts: Vec<_> = up.take().collect();
        assert_eq!((parts.len(), parts[0].time_ps, parts[2].time_ps), (3, span.first, span.last));
        assert_eq!(span.last - span.first, 2 * whole);
        let data = parts.iter().filter_map(|r| match &r.body {
            Body::Tlp(_, tlp) => Some(tlp.payload.clone().unwrap_or_default()),
            _ => None,
        });
        let back: Vec<u8> = data.flatten().collect();
        assert_eq!(back[..bytes.len()], bytes[..]);
    }

    #[test]
    fn a_read_is_answered_after_the_way_there_and_the_roots_time() {
        let (most, ask) = port(Aspm::Off).limits();
        let whole = one(most);
        let mut port = port(Aspm::Off);
        let request = port.dma_read(2000 * US, 0x10_0000, 2 * ask);
        let asked = sent(&mut port);
        assert_eq!((asked.len(), asked[0].0, request.first), (2, 2000 * US, 2000 * US));
        let each = asked[1].0 - asked[0].0;
        assert_eq!(request.answer, 2000 * US + 2 * each + port.flight + port.host_read);
        assert_eq!(request.range(), (0x10_0000, 2 * ask));
        assert_eq!(port.tags.iter().filter(|t| **t).count(), 2);
        let span = port.answer(request.answer, &request, None);
        assert_eq!(port.tags.iter().filter(|t| **t).count(), 0);
        let count = u64::from(2 * ask / most);
        assert_eq!(sent(&mut port).iter().map(|s| u64::from(s.1)).sum::<u64>(), count);
        let step = (span.end - span.first) / count;
        assert_eq!(
            (step, span.last),
            (whole, span.end - whole),
            "headers of three double words, as those of the writes"
        );
        let data: Vec<u8> = (0..2 * ask).map(|k| (k % 253) as u8).collect();
        let again = port.dma_read(3000 * US, 0x10_0000, 2 * ask);
        port.take().for_each(drop);
        assert_eq!(port.answer(again.answer, &again, Some(&data)).end - again.answer, span.end - span.first);
        let parts = port.take().filter_map(|r| match r.body {
            Body::Tlp(_, tlp) => tlp.payload,
            _ => None,
        });
        assert_eq!(parts.flatten().collect::<Vec<u8>>(), data);
    }

    #[test]
    fn tags_are_taken_in_rotation_and_busy_ones_passed_over() {
        let mut port = port(Aspm::Off);
        let all = port.tags.len() as u16;
        assert_eq!([(); 3].map(|()| port.take_tag()), [0, 1, 2]);
        port.tags[4] = true;
        assert_eq!([(); 2].map(|()| port.take_tag()), [3, 5]);
        port.tags[1] = false;
        for tag in 6..all {
            assert_eq!(port.take_tag(), tag);
        }
        assert_eq!(port.take_tag(), 1, "the only one");
        port.reset();
        assert_eq!(port.take_tag(), 2);
    }
}
