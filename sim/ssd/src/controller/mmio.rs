//! Configuration space and BAR0 as the host sees them: registers, doorbells, MSI-X table.

use crate::admin::async_events::AsyncEvent;
use crate::admin::identify;
use crate::controller::{Controller, Event};
use crate::host::{BusSink, Host};
use crate::nvme::queue::{Cq, Sq};
use crate::pcie::config_space::{BAR0_SIZE, L1SS_CAP, MSIX_PBA, MSIX_TABLE, PCIE_CAP};
use crate::pcie::port::{DRIVE, HOST};
use crate::profile::Ps;
use wattbell_bus::tlp::{self, CplStatus, Route};
use wattbell_bus::Direction;

/// Offset of the doorbells; the stride is 0.
pub const DOORBELLS: u64 = 0x1000;

const CAP: u64 = 0x00;
const CSTS_RDY: u32 = 1;
/// Tag of the host's own reads: one at a time, as a CPU's uncached loads are.
const HOST_TAG: u16 = 0;

impl<S: BusSink> Controller<S> {
    /// Reads configuration space: `size` 1, 2 or 4 bytes at `register`, within a DW. Returns the value and when the
    /// host has it.
    pub fn cfg_read(&mut self, now: Ps, register: u16, size: u8, host: &mut dyn Host) -> (u32, Ps) {
        let at = self.host_at(now, host);
        let dw = register & 0xFFC;
        let span = self.port.send(at, Direction::Down, tlp::cfg_read0(HOST, HOST_TAG, DRIVE, dw));
        let value = self.config.read(dw);
        let route = Route { completer: DRIVE, requester: HOST, tag: HOST_TAG };
        let answer = tlp::completion_data(route, 0, &value.to_le_bytes(), 4);
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
        let span = self.port.send(at, Direction::Down, tlp);
        self.config.write(dw, enables as u8, value);
        if dw == PCIE_CAP + 0x10 || dw == L1SS_CAP + 8 {
            self.port.set_aspm(self.config.aspm());
        }
        self.interrupt_pending(); // the function mask may have fallen
        let route = Route { completer: DRIVE, requester: HOST, tag: HOST_TAG };
        self.answer_host(span.end, tlp::completion(route, CplStatus::Success), host)
    }

    /// The 4096 bytes of configuration space.
    pub fn cfg_bytes(&self) -> &[u8] {
        self.config.bytes()
    }

    /// Reads BAR0: `size` 4 or 8 bytes (or 1, 2). Returns the value and when the host has it.
    pub fn mmio_read(&mut self, now: Ps, offset: u64, size: u8, host: &mut dyn Host) -> (u64, Ps) {
        let at = self.host_at(now, host);
        let address = self.config.bar0() + offset;
        let span = self.port.send(at, Direction::Down, tlp::mem_read(HOST, HOST_TAG, address, u32::from(size)));
        self.advance(span.end + self.port.flight, host);
        let value = self.register(offset, size);
        let route = Route { completer: DRIVE, requester: HOST, tag: HOST_TAG };
        let bytes = &value.to_le_bytes()[..usize::from(size.min(8))];
        let answer = tlp::completion_data(route, address, bytes, u32::from(size));
        (value, self.answer_host(span.end, answer, host))
    }

    /// Writes BAR0: `size` 4 or 8 bytes (or 1, 2). Returns the time of the TLP's first symbol; the write takes effect
    /// when [`Controller::advance`] passes its arrival.
    pub fn mmio_write(&mut self, now: Ps, offset: u64, size: u8, value: u64, host: &mut dyn Host) -> Ps {
        let at = self.host_at(now, host);
        let address = self.config.bar0() + offset;
        let bytes = value.to_le_bytes();
        let tlp = tlp::mem_write(HOST, 0, address, &bytes[..usize::from(size.min(8))]);
        let span = self.port.send(at, Direction::Down, tlp);
        self.at(span.end + self.port.flight, Event::Mmio { offset, size, value, first: span.first });
        span.first
    }

    /// When the host's TLP can go out: the past is dealt with and the link is up.
    fn host_at(&mut self, now: Ps, host: &mut dyn Host) -> Ps {
        self.advance(now, host);
        self.wake_link(self.now_ps())
    }

    fn answer_host(&mut self, request_end: Ps, answer: tlp::Tlp, host: &mut dyn Host) -> Ps {
        const TURNAROUND: Ps = 250_000; // configuration and register logic, 250 ns
        let arrival = request_end + self.port.flight + TURNAROUND;
        self.advance(arrival, host);
        let span = self.port.send(arrival, Direction::Up, answer);
        let done = span.end + self.port.flight;
        // A host that asks again before the link had woken asks when it has this answer, not while it is on its way:
        // it has one tag.
        self.advance(done, host);
        done
    }

    fn register(&self, offset: u64, size: u8) -> u64 {
        let mut out = 0;
        for i in (0..u64::from(size.min(8))).rev() {
            out = out << 8 | u64::from(self.register_byte(offset + i));
        }
        out
    }

    fn register_byte(&self, offset: u64) -> u8 {
        let dw = |at: u64, value: u32| value.to_le_bytes()[(offset - at) as usize];
        let qw = |at: u64, value: u64| value.to_le_bytes()[(offset - at) as usize];
        match offset {
            CAP..=0x07 => qw(CAP, self.capabilities()),
            0x08..=0x0B => dw(0x08, identify::version(&self.profile.identity.nvme_version)),
            0x0C..=0x0F => dw(0x0C, self.reg.intms),
            0x10..=0x13 => dw(0x10, self.reg.intms),
            0x14..=0x17 => dw(0x14, self.reg.cc),
            0x1C..=0x1F => dw(0x1C, self.reg.csts),
            0x24..=0x27 => dw(0x24, self.reg.aqa),
            0x28..=0x2F => qw(0x28, self.reg.asq),
            0x30..=0x37 => qw(0x30, self.reg.acq),
            MSIX_TABLE..MSIX_PBA => {
                let (entry, byte) = ((offset - MSIX_TABLE) / 16, (offset - MSIX_TABLE) % 16);
                let entry = self.msix_table.get(entry as usize);
                entry.map_or(0, |e| e[byte as usize / 4].to_le_bytes()[byte as usize % 4])
            }
            MSIX_PBA..BAR0_SIZE => {
                let first = (offset - MSIX_PBA) as usize * 8;
                (0..8).fold(0, |b, i| b | u8::from(self.msix_pending.get(first + i).is_some_and(|&p| p)) << i)
            }
            _ => 0,
        }
    }

    /// CAP: largest queue, contiguous queues required, time-out in 500 ms, stride 0, NVM command set, 4 KiB pages.
    fn capabilities(&self) -> u64 {
        let entries = u64::from(*self.profile.limits.max_queue_entries - 1);
        let timeout = (*self.profile.limits.ready_ms / 500.0).ceil() as u64 * 4 + 16;
        entries | 1 << 16 | timeout.min(255) << 24 | 1 << 37
    }

    pub(crate) fn register_write(&mut self, offset: u64, size: u8, value: u64, first: Ps) {
        if offset >= MSIX_TABLE {
            return self.msix_write(offset, size, value);
        }
        if offset >= DOORBELLS {
            if size == 4 && offset % 4 == 0 {
                self.doorbell((offset - DOORBELLS) / 4, value as u32, first);
            }
            return;
        }
        let low = value as u32;
        match (offset, size) {
            (0x0C, 4) => self.reg.intms |= low,
            (0x10, 4) => self.reg.intms &= !low,
            (0x14, 4) => self.write_cc(low),
            (0x24, 4) => self.reg.aqa = low & 0x0FFF_0FFF,
            (0x28, 8) => self.reg.asq = value & !0xFFF,
            (0x30, 8) => self.reg.acq = value & !0xFFF,
            (0x28, 4) => self.reg.asq = self.reg.asq >> 32 << 32 | u64::from(low & !0xFFF),
            (0x2C, 4) => self.reg.asq = self.reg.asq & 0xFFFF_FFFF | u64::from(low) << 32,
            (0x30, 4) => self.reg.acq = self.reg.acq >> 32 << 32 | u64::from(low & !0xFFF),
            (0x34, 4) => self.reg.acq = self.reg.acq & 0xFFFF_FFFF | u64::from(low) << 32,
            _ => {} // read-only or reserved
        }
    }

    fn write_cc(&mut self, cc: u32) {
        let was = self.reg.cc;
        self.reg.cc = cc & 0x00FF_FFF1;
        match (was & 1, cc & 1) {
            (0, 1) => self.enable(),
            (1, 0) => self.disable(),
            _ => {}
        }
        if cc >> 14 & 3 != 0 && was >> 14 & 3 == 0 {
            self.reg.csts = self.reg.csts & !0xC | 0x4; // shutdown in progress
            self.flush_buffer();
            let done = self.flash.programmed_ps().max(self.now);
            self.at(done, Event::ShutDown);
        }
    }

    fn enable(&mut self) {
        let (sq, cq) = (self.reg.aqa & 0xFFF, self.reg.aqa >> 16 & 0xFFF);
        let valid = sq > 0 && cq > 0 && self.reg.cc >> 7 & 0xF == 0 && self.reg.cc >> 4 & 7 == 0;
        if !valid {
            self.reg.csts |= 2; // CFS: page size, command set or queue size that CAP does not offer
            return;
        }
        let mut admin = Cq::new(self.reg.acq, cq + 1, Some(0));
        admin.users = 1;
        self.cqs.insert(0, admin);
        self.sqs.insert(0, Sq::new(self.reg.asq, sq + 1, 0));
        self.at(self.now + self.timing.ready, Event::Ready);
    }

    /// Controller reset: queues, commands and features go; AQA, ASQ, ACQ and MSI-X stay.
    fn disable(&mut self) {
        for cq in std::mem::take(&mut self.cqs).values() {
            cq.posted.iter().for_each(|truth| self.sink.command(truth));
        }
        self.sqs.clear();
        for command in std::mem::take(&mut self.commands).into_iter().flatten() {
            self.flash.free(command.buffered);
        }
        self.spare.clear();
        self.async_events.reset();
        self.maintenance.reset();
        self.return_memory();
        self.health.io_ends(self.now, self.health.io.0);
        self.dma_queue.clear();
        self.waiting_writes.clear();
        self.deferred.clear();
        (self.in_hand, self.dma_active, self.arbitrating) = (0, 0, false);
        self.burst_left = Some(0);
        self.forget_events();
        self.reset_self_test();
        self.features.reset();
        self.reg.csts = 0;
        self.flush_buffer();
        self.states.reset(self.now, &mut self.meter);
        self.settle();
    }

    fn doorbell(&mut self, index: u64, value: u32, first: Ps) {
        if self.reg.csts & CSTS_RDY == 0 {
            return;
        }
        let qid = (index / 2) as u16;
        if index > u64::from(u16::MAX) || !self.sqs.contains_key(&qid) && index % 2 == 0 {
            return self.bad_doorbell(qid, AsyncEvent::INVALID_DOORBELL_REGISTER);
        }
        if index % 2 == 0 {
            let Some(sq) = self.sqs.get_mut(&qid).filter(|sq| value < sq.size) else {
                return self.bad_doorbell(qid, AsyncEvent::INVALID_DOORBELL_VALUE);
            };
            sq.ring(value, first);
            let ready = self.states.busy(self.now, qid != 0, &mut self.meter);
            self.want_arbitration(ready.max(self.now + self.timing.to_fetch));
        } else {
            let Some(cq) = self.cqs.get_mut(&qid) else {
                return self.bad_doorbell(qid, AsyncEvent::INVALID_DOORBELL_REGISTER);
            };
            let released = (value + cq.size - cq.head) % cq.size;
            if value >= cq.size || released > cq.held() {
                return self.bad_doorbell(qid, AsyncEvent::INVALID_DOORBELL_VALUE);
            }
            cq.head = value;
            for mut truth in cq.posted.drain(..released as usize) {
                truth.cq_head_ps = Some(first);
                self.sink.command(&truth);
            }
            self.unblock(qid);
        }
    }

    /// The host wrote a doorbell that is not there, or a value that cannot be: an entry of the error log and an event.
    fn bad_doorbell(&mut self, qid: u16, event: AsyncEvent) {
        self.log_error(qid, 0xFFFF, 0, 0, 0);
        self.async_event(event);
    }

    fn msix_write(&mut self, offset: u64, size: u8, value: u64) {
        for i in 0..u64::from(size.min(8)) / 4 {
            let at = offset - MSIX_TABLE + 4 * i;
            if let Some(entry) = self.msix_table.get_mut((at / 16) as usize) {
                entry[(at % 16 / 4) as usize] = (value >> (32 * i)) as u32;
            }
        }
        self.interrupt_pending();
    }
}
