//! Configuration space and BAR0 as the host sees them: registers, doorbells, MSI-X table.

use super::agenda::Event;
use super::Controller;
use crate::host::{BusSink, Host};
use crate::nvme::registers::DOORBELLS;
use crate::pcie::config_space::{FLR, L1SS_CAP, MSIX_TABLE, PCIE_CAP};
use crate::pcie::port::{DRIVE, HOST};
use crate::profile::Ps;
use wattbell_bus::tlp::{self, CplStatus, Route};
use wattbell_bus::Direction;

/// Tag of the host's own reads: one at a time, as a CPU's uncached loads are.
const HOST_TAG: u16 = 0;
/// Configuration and register logic, from a request to its answer.
pub(super) const TURNAROUND: Ps = 250_000;
/// How the answer to such a read goes back.
const ROUTE: Route = Route { completer: DRIVE, requester: HOST, tag: HOST_TAG };

impl<S: BusSink> Controller<S> {
    /// Reads configuration space: `size` 1, 2 or 4 bytes at `register`, within a DW. Returns the value and when the
    /// host has it.
    pub fn cfg_read(&mut self, now: Ps, register: u16, size: u8, host: &mut dyn Host) -> (u32, Ps) {
        let at = self.host_at(now, host);
        let dw = register & 0xFFC;
        let span = self.pcie.port.send(at, Direction::Down, tlp::cfg_read0(HOST, HOST_TAG, DRIVE, dw));
        let value = self.pcie.config.read(dw);
        let answer = tlp::completion_data(ROUTE, 0, &value.to_le_bytes(), 4);
        let done = self.answer_host(span.end, answer, host);
        let shift = 8 * u32::from(register & 3);
        let mask = if size >= 4 { u32::MAX } else { (1 << (8 * size)) - 1 };
        (value >> shift & mask, done)
    }

    /// Writes configuration space: `size` 1, 2 or 4 bytes at `register`, within a DW. Returns when it is completed.
    pub fn cfg_write(&mut self, now: Ps, register: u16, size: u8, value: u32, host: &mut dyn Host) -> Ps {
        let at = self.host_at(now, host);
        let lane = register & 3;
        let enables = ((1u32 << size.min(4)) - 1) << lane;
        let value = value << (8 * u32::from(lane));
        let dw = register & 0xFFC;
        let tlp = tlp::cfg_write0(HOST, HOST_TAG, DRIVE, dw, enables as u8, value);
        let span = self.pcie.port.send(at, Direction::Down, tlp);
        let reset = self.configure(dw, enables as u8, value);
        let done = self.answer_host(span.end, tlp::completion(ROUTE, CplStatus::Success), host);
        if reset {
            self.reset_function();
        }
        done
    }

    /// Writes the enabled bytes of the DW at `register` of configuration space. Returns whether the host asks for a function level reset.
    pub(super) fn configure(&mut self, register: u16, enables: u8, value: u32) -> bool {
        self.pcie.config.write(register, enables, value);
        if register == PCIE_CAP + 0x10 || register == L1SS_CAP + 8 {
            self.pcie.port.set_aspm(self.pcie.config.aspm());
        }
        self.interrupt_pending(); // the function mask may have fallen
        register == PCIE_CAP + 0x08 && enables & 2 != 0 && value & FLR != 0
    }

    /// The 4096 bytes of configuration space.
    pub fn cfg_bytes(&self) -> &[u8] {
        self.pcie.config.bytes()
    }

    /// Reads BAR0: `size` 4 or 8 bytes (or 1, 2). Returns the value and when the host has it.
    pub fn mmio_read(&mut self, now: Ps, offset: u64, size: u8, host: &mut dyn Host) -> (u64, Ps) {
        let at = self.host_at(now, host);
        let address = self.pcie.config.bar0() + offset;
        let span = self.pcie.port.send(at, Direction::Down, tlp::mem_read(HOST, HOST_TAG, address, u32::from(size)));
        self.advance(span.end + self.pcie.port.flight, host);
        let value = self.register(offset, size);
        let bytes = &value.to_le_bytes()[..usize::from(size.min(8))];
        let answer = tlp::completion_data(ROUTE, address, bytes, u32::from(size));
        (value, self.answer_host(span.end, answer, host))
    }

    /// Writes BAR0: `size` 4 or 8 bytes (or 1, 2). Returns the time of the TLP's first symbol; the write takes effect
    /// when [`Controller::advance`] passes its arrival.
    pub fn mmio_write(&mut self, now: Ps, offset: u64, size: u8, value: u64, host: &mut dyn Host) -> Ps {
        let at = self.host_at(now, host);
        let address = self.pcie.config.bar0() + offset;
        let bytes = value.to_le_bytes();
        let tlp = tlp::mem_write(HOST, 0, address, &bytes[..usize::from(size.min(8))]);
        let span = self.pcie.port.send(at, Direction::Down, tlp);
        self.agenda.at(span.end + self.pcie.port.flight, Event::Mmio { offset, size, value, first: span.first });
        span.first
    }

    /// When the host's TLP can go out: the past is dealt with and the link is up.
    fn host_at(&mut self, now: Ps, host: &mut dyn Host) -> Ps {
        self.advance(now, host);
        self.wake_link(self.now_ps())
    }

    fn answer_host(&mut self, request_end: Ps, answer: tlp::Tlp, host: &mut dyn Host) -> Ps {
        let arrival = request_end + self.pcie.port.flight + TURNAROUND;
        self.advance(arrival, host);
        let span = self.pcie.port.send(arrival, Direction::Up, answer);
        let done = span.end + self.pcie.port.flight;
        // The host has one tag. A host that asks again before the link has woken sends the request only after this answer.
        self.advance(done, host);
        done
    }

    pub(super) fn register(&self, offset: u64, size: u8) -> u64 {
        let byte = |at| if at < MSIX_TABLE { self.registers.byte(at) } else { self.pcie.msix.byte(at) };
        (0..u64::from(size.min(8))).rev().fold(0, |out, i| out << 8 | u64::from(byte(offset + i)))
    }

    pub(super) fn register_write(&mut self, offset: u64, size: u8, value: u64, first: Ps) {
        if offset >= MSIX_TABLE {
            self.pcie.msix.write(offset, size, value);
            return self.interrupt_pending();
        }
        if offset >= DOORBELLS {
            if size == 4 && offset % 4 == 0 {
                self.doorbell((offset - DOORBELLS) / 4, value as u32, first);
            }
            return;
        }
        let change = self.registers.write(offset, size, value);
        match change.enable {
            Some(true) => self.enable(),
            Some(false) => self.disable(),
            None => {}
        }
        if change.shutdown {
            self.registers.shut_down(false);
            self.flush_buffer();
            let done = self.media.flash.programmed_ps().max(self.now);
            self.agenda.at(done, Event::ShutDown);
        }
    }

    fn enable(&mut self) {
        let Some((sq, cq)) = self.registers.admin_queues() else { return };
        self.queues.start(sq, cq);
        self.agenda.at(self.now + self.processor.ready, Event::Ready);
    }

    /// Controller reset: queues, commands and features go; AQA, ASQ, ACQ and MSI-X stay.
    pub(super) fn disable(&mut self) {
        self.queues.reset().for_each(|truth| self.sink.command(&truth));
        self.commands.reset().for_each(|command| self.media.flash.free(command.buffered));
        self.waiting_writes.clear();
        self.reads.reset();
        self.lent.forget();
        self.agenda.forget();
        let ended = self.wire.as_mut().map(|wire| wire.reads.forget()).unwrap_or_default();
        self.unasked(ended);
        if let Some((end, serial)) = self.admin.reset(self.now) {
            self.agenda.at(end, Event::SelfTested(serial));
        }
        self.media.flash.lend(0);
        self.registers.reset();
        self.flush_buffer();
        self.power.states.limit(self.now, self.admin.features.allowed_places(&self.profile), &mut self.power.meter);
        self.power.states.reset(self.now, &mut self.power.meter);
        self.power.meter.account.forget(self.now);
        self.settle();
    }

    fn doorbell(&mut self, index: u64, value: u32, first: Ps) {
        if !self.registers.ready() {
            return;
        }
        let qid = (index / 2) as u16;
        let rung = if index % 2 == 0 {
            self.queues.ring_tail(qid, value, first)
        } else {
            let released = self.queues.ring_head(qid, value, first);
            released.map(|released| released.for_each(|truth| self.sink.command(&truth))).map(|()| 0)
        };
        match rung {
            Err(event) => {
                self.admin.health.log_queue(qid);
                self.raise(event);
            }
            Ok(announced) if index % 2 == 0 => {
                let ready = self.power.states.busy(self.now, qid != 0, &mut self.power.meter);
                if qid != 0 {
                    self.power.meter.account.rung(self.now, qid, announced);
                }
                self.want_arbitration(ready.max(self.now + self.processor.to_fetch));
            }
            Ok(_) => self.unblock(qid),
        }
    }
}
