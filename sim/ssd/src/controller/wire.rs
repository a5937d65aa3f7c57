//! A host outside the model: its TLPs come in, and its memory answers by completions.
//!
//! In the other modes the model plays the root complex as well: it reads host memory at once, and times the completions itself. Here a read
//! is requests on the link, and goes on when the host's completions have arrived. All that a read is for happens behind its arrival in both
//! modes, in the same code.

use super::agenda::{Event, Reply};
use super::mmio::TURNAROUND;
use super::want::Want;
use super::wirereads::{Taken, WireRead};
use super::Controller;
use crate::host::{BusSink, OutsideHost};
use crate::pcie::config_space::{BAR0_SIZE, PCIE_CAP};
use crate::pcie::port::Span;
use crate::profile::Ps;
use wattbell_bus::packet::{Answered, Asked, Packet};
use wattbell_bus::tlp::{self, CplStatus, Route, Tlp};
use wattbell_bus::{split, Direction};

/// Tags of a function without and with Extended Tag Field Enable (PCI Express Base Specification 4.0, 2.2.6.2).
const TAGS: [usize; 2] = [32, 256];
/// Read completion boundary of this completer.
const BOUNDARY: u32 = 64;

impl<S: BusSink> Controller<S> {
    /// Takes a TLP of the host. Its first symbol is on the link at `now`, or as soon as the link is free and awake.
    pub(crate) fn receive(&mut self, now: Ps, tlp: Tlp) {
        self.advance(now, &mut OutsideHost);
        let at = self.wake_link(self.now);
        let span = self.pcie.port.send(at, Direction::Down, tlp.clone());
        self.agenda.at(span.end + self.pcie.port.flight, Event::Incoming(Box::new((tlp, span))));
    }

    /// Largest payload that the host has allowed, in bytes.
    pub(crate) fn max_payload(&self) -> u32 {
        self.pcie.port.limits().0
    }

    /// TLPs of the host that the drive threw away.
    pub(crate) fn discarded(&self) -> u64 {
        self.wire.as_ref().map_or(0, |wire| wire.discarded)
    }

    /// Reads of host memory that wait for completions.
    pub(crate) fn outstanding(&self) -> usize {
        self.wire.as_ref().map_or(0, |wire| wire.reads.outstanding())
    }

    /// The host is outside: the drive has no bus number, and obeys Device Control.
    pub(super) fn begin_wire(&mut self) {
        self.pcie.port.id = 0;
        self.obey_control();
    }

    /// Payload, read request, tags and bus mastering are as configuration space says.
    pub(super) fn obey_control(&mut self) {
        let (link, control) = (&self.profile.link, self.pcie.config.read(PCIE_CAP + 0x08));
        let payload = (128 << (control >> 5 & 7)).min(*link.max_payload);
        let read_request = (128 << (control >> 12 & 7)).min(*link.max_read_request);
        self.pcie.port.set_limits(payload, read_request);
        self.pcie.port.master = self.pcie.config.bus_master();
    }

    /// Tags that the host allows.
    fn tags(&self) -> usize {
        let extended = self.pcie.config.read(PCIE_CAP + 0x08) >> 8 & 1;
        TAGS[extended as usize].min(*self.profile.link.tags as usize)
    }

    /// Asks for host memory by requests on the link.
    pub(super) fn ask(&mut self, want: Want, address: u64, len: u32) {
        let max_read = self.pcie.port.limits().1;
        let Some(wire) = &mut self.wire else { return };
        match wire.reads.begin(want, address, len, max_read) {
            Some(read) => self.agenda.at(self.now, Event::ReadOver(Box::new(read))),
            None => self.ask_more(),
        }
    }

    /// Sends the requests that have a tag.
    fn ask_more(&mut self) {
        let tags = self.tags();
        while self.pcie.port.master {
            let Some((tag, address, len)) = self.wire.as_mut().and_then(|wire| wire.reads.next(tags)) else { return };
            let at = self.wake_link(self.now);
            let request = tlp::mem_read(self.pcie.port.id, tag, address, len);
            let span = self.pcie.port.send(at, Direction::Up, request);
            if let Some(wire) = &mut self.wire {
                wire.reads.sent(tag, span.first);
            }
        }
    }

    /// A TLP of the host has arrived.
    pub(super) fn incoming(&mut self, tlp: &Tlp, span: Span) {
        match Packet::of(tlp) {
            Ok(Packet::Read(asked)) => self.read_asked(tlp, &asked),
            Ok(Packet::Write(asked)) => self.write_asked(tlp, &asked, span.first),
            Ok(Packet::ConfigRead(asked, target, register)) if target & 7 == 0 => {
                let value = self.pcie.config.read(register);
                let answer = tlp::completion_data(self.route(&asked), 0, &value.to_le_bytes(), 4);
                self.reply(tlp, vec![answer], false);
            }
            Ok(Packet::ConfigWrite(asked, target, register)) if target & 7 == 0 => {
                self.pcie.port.id = target;
                let data = tlp.payload.as_deref().and_then(|data| data.first_chunk()).copied().unwrap_or_default();
                let reset = self.configure(register, asked.enables.0, u32::from_le_bytes(data));
                self.obey_control();
                let answer = tlp::completion(self.route(&asked), CplStatus::Success);
                self.reply(tlp, vec![answer], reset);
                self.ask_more();
            }
            Ok(Packet::ConfigRead(asked, ..) | Packet::ConfigWrite(asked, ..) | Packet::Other(asked)) => {
                let answer = tlp::completion(self.route(&asked), CplStatus::Unsupported);
                self.reply(tlp, vec![answer], false);
            }
            Ok(Packet::Completion(answered)) => self.completed(tlp, &answered, span),
            Ok(Packet::Message) => {}
            Err(_) => self.discard(),
        }
    }

    fn discard(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.discarded += 1;
        }
    }

    fn route(&self, asked: &Asked) -> Route {
        Route { completer: self.pcie.port.id, requester: asked.requester, tag: asked.tag }
    }

    /// Offset in BAR0 of the request's first double word, if BAR0 has the whole request.
    fn in_bar0(&self, asked: &Asked) -> Option<u64> {
        let offset = asked.address.checked_sub(self.pcie.config.bar0())?;
        (self.pcie.config.memory_enabled() && offset + 4 * u64::from(asked.dws) <= BAR0_SIZE).then_some(offset)
    }

    fn read_asked(&mut self, request: &Tlp, asked: &Asked) {
        let (route, (address, len)) = (self.route(asked), asked.range());
        let Some(offset) = self.in_bar0(asked) else {
            let refusal = tlp::refusal(route, CplStatus::Unsupported, address, len);
            return self.reply(request, vec![refusal], false);
        };
        let start = offset + (address - asked.address);
        let bytes: Vec<u8> = (0..u64::from(len)).map(|k| self.register(start + k, 1) as u8).collect();
        let pieces = split::completions(address, len, BOUNDARY, self.max_payload());
        let answers = pieces.map(|piece| {
            let from = (piece.address - address) as usize;
            tlp::completion_data(route, piece.address, &bytes[from..from + piece.len as usize], piece.remaining)
        });
        self.reply(request, answers.collect(), false);
    }

    /// Writes whole double words; registers take no others (NVMe, Controller Registers).
    fn write_asked(&mut self, request: &Tlp, asked: &Asked, first: Ps) {
        let (Some(offset), false) = (self.in_bar0(asked), request.header.is_poisoned()) else { return self.discard() };
        let words = request.payload.iter().flat_map(|data| data.chunks_exact(4)).zip((0..).step_by(4));
        for (index, (word, at)) in (0..).zip(words) {
            if let (0xF, &[a, b, c, d]) = (asked.enabled(index), word) {
                self.register_write(offset + at, 4, u64::from(u32::from_le_bytes([a, b, c, d])), first);
            }
        }
    }

    fn reply(&mut self, request: &Tlp, mut tlps: Vec<Tlp>, reset: bool) {
        tlps.iter_mut().for_each(|answer| answer.header = answer.header.in_class_of(&request.header));
        self.agenda.at(self.now + TURNAROUND, Event::Reply(Box::new(Reply { tlps, reset })));
    }

    /// The answers to a request go out.
    pub(super) fn replied(&mut self, reply: Reply) {
        let at = self.wake_link(self.now);
        for answer in reply.tlps {
            self.pcie.port.send(at, Direction::Up, answer);
        }
        if reply.reset {
            self.reset_function();
            self.obey_control();
        }
    }

    fn completed(&mut self, tlp: &Tlp, answered: &Answered, span: Span) {
        let own = answered.requester == self.pcie.port.id;
        let data = tlp.payload.as_deref().filter(|_| !tlp.header.is_poisoned());
        let taken = match &mut self.wire {
            Some(wire) if own => wire.reads.take(answered, data, span),
            _ => Taken::Unexpected,
        };
        match taken {
            Taken::Unexpected => self.discard(),
            Taken::More => {}
            Taken::Over(read, wrong) => {
                if wrong {
                    self.discard();
                }
                self.read_over(*read);
            }
        }
        self.ask_more();
    }

    /// A read is over: its purpose goes on.
    pub(super) fn read_over(&mut self, read: WireRead) {
        let WireRead { want, bytes, there, asked, span, .. } = read;
        let span = span.unwrap_or(Span { first: self.now, last: self.now, end: self.now });
        let want = match want {
            Want::Lent { address, life } => {
                self.lent.wired -= 1;
                self.lent.seen(address, life, there.then_some(&bytes));
                if let Some(access) = self.lent.waiting.pop_front() {
                    self.reach_lent(access, Some(&mut OutsideHost));
                }
                return;
            }
            Want::Sqes { qid, announced, .. } => Want::Sqes { qid, announced, first: asked.unwrap_or(self.now) },
            other => other,
        };
        self.reads.answered();
        self.arrived(want, bytes, there, span, self.now);
    }

    /// Reads that a reset ended are no longer counted.
    pub(super) fn unasked(&mut self, ended: Vec<Want>) {
        for want in ended {
            match want {
                Want::Lent { .. } => self.lent.wired -= 1,
                _ => self.reads.answered(),
            }
        }
    }
}
