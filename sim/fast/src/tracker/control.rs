//! Registers behind BAR0, configuration writes, late attach.

use super::engine::Engine;
use super::header::Header;
use super::queues::NewQueue;
use crate::registers::Attach;
use crate::status::QUEUES;
use wattbell_spec::wire::{event_type_code as kind, guess_reason_code as guess, reset_cause_code as cause};

const CC: u16 = 0x14;
const AQA: u16 = 0x24;
const ASQ: u16 = 0x28;
const ACQ: u16 = 0x30;
const DOORBELLS: u32 = 0x1000;
/// Memory page sizes above 64 KiB are not distinguished.
const MPS_MAX: u32 = 4;

fn set_low(register: &mut u64, low: u32) {
    *register = *register & !0xFFFF_FFFF | u64::from(low);
}

fn set_high(register: &mut u64, high: u32) {
    *register = *register & 0xFFFF_FFFF | u64::from(high) << 32;
}

impl Engine {
    pub fn config_write(&mut self, h: &Header) {
        let word = h.word(0);
        let upper = h.address == 0x14;
        let before = if upper { (self.bar0 >> 32) as u32 } else { self.bar0 as u32 };
        let mask = (0..4).filter(|b| h.first_be >> b & 1 != 0).fold(0u32, |m, b| m | 0xFF << (8 * b));
        let merged = word & mask | before & !mask;
        // All ones are how a host asks for the BAR's size.
        if h.address == 0x10 && merged >> 4 != 0 && word >> 4 != 0xFFF_FFFF && merged & !0xF != before {
            set_low(&mut self.bar0, merged & !0xF);
        } else if upper && merged != before && word != u32::MAX {
            set_high(&mut self.bar0, merged);
        } else {
            return;
        }
        if self.bar0 as u32 != 0 {
            self.event(kind::BAR0, 0, 0, (self.bar0 >> 12) as u32);
        }
    }

    fn bar_known(&self) -> bool {
        self.bar0 >> 4 != 0
    }

    pub fn host_read(&mut self, h: &Header) {
        let low = h.address == self.bar0 && h.length >= 2;
        let high = h.address.checked_sub(self.bar0) == Some(4);
        if self.bar_known() && (low || high) {
            self.controller.cap = Some((h.tag, h.requester, usize::from(low)));
        }
    }

    pub fn drive_completion(&mut self, h: &Header) {
        let Some((tag, requester, index)) = self.controller.cap else { return };
        if h.tag == tag && h.requester == requester && usize::from(h.length) > index && h.kept {
            self.dstrd = (h.word(index) & 0xF) as u8;
            (self.stride_known, self.controller.cap) = (true, None);
        }
    }

    pub fn host_write(&mut self, h: &Header) {
        let Some(difference) = h.address.checked_sub(self.bar0).and_then(|d| u32::try_from(d).ok()) else { return };
        if !self.bar_known() || !h.kept {
            return;
        }
        if difference < DOORBELLS {
            return self.register_write(h, difference as u16);
        }
        let shift = u32::from(self.dstrd) + 2;
        let offset = difference - DOORBELLS;
        let number = offset >> shift;
        if number << shift != offset || number >= 2 * QUEUES as u32 {
            return;
        }
        if !self.stride_known && !self.stride_told {
            self.stride_told = true;
            self.event(kind::GUESSING, guess::STRIDE, (number >> 1) as u16, 0);
        }
        self.doorbell((number >> 1) as u8, number & 1 != 0, h.word(0));
    }

    fn register_write(&mut self, h: &Header, offset: u16) {
        for k in 0..usize::from(h.length) {
            let word = h.word(k);
            let c = &mut self.controller;
            match (offset + 4 * k as u16) & 0xFFF {
                CC => self.cc_write(word),
                AQA => c.aqa = word,
                ASQ => set_low(&mut c.asq, word & 0xFFFF_F000),
                ACQ => set_low(&mut c.acq, word & 0xFFFF_F000),
                at if at == ASQ + 4 => set_high(&mut c.asq, word),
                at if at == ACQ + 4 => set_high(&mut c.acq, word),
                _ => {}
            }
        }
    }

    fn cc_write(&mut self, cc: u32) {
        let enable = cc & 1 != 0;
        if enable == self.controller.enabled {
            return;
        }
        self.controller.enabled = enable;
        self.event(kind::CC_EN, enable.into(), 0, cc);
        self.reset(cause::CC_EN);
        if enable {
            self.mps = (cc >> 7 & 0xF).min(MPS_MAX);
            let c = &self.controller;
            let (acq, asq, cq_size, sq_size) = (c.acq, c.asq, (c.aqa >> 16 & 0xFFF) + 1, (c.aqa & 0xFFF) + 1);
            self.create(&NewQueue { cq: true, qid: 0, base: acq, size: cq_size, link: 0, guess: false });
            self.create(&NewQueue { cq: false, qid: 0, base: asq, size: sq_size, link: 0, guess: false });
        }
    }

    /// Late attach, at tick `now`.
    pub fn attach(&mut self, fact: &Attach, now: u64) {
        self.tick = now;
        match fact.op {
            0 => {
                self.bar0 = fact.address & !0xF;
                self.controller.enabled = true;
                self.event(kind::BAR0, 0, 0, (self.bar0 >> 12) as u32);
            }
            1 => {
                self.dstrd = fact.size as u8 & 0xF;
                self.stride_known = true;
            }
            2 => self.mps = fact.size.min(MPS_MAX),
            3 | 4 => {
                self.controller.enabled = true;
                let (cq, qid, size) = (fact.op == 4, u16::from(fact.qid), fact.size & 0x1_FFFF);
                self.create(&NewQueue { cq, qid, base: fact.address, size, link: fact.link, guess: true });
                if !cq {
                    self.event(kind::GUESSING, guess::LATE_ATTACH, qid, 0);
                }
            }
            5 => self.shadow = fact.size & 1 != 0,
            _ => self.reset(cause::COMMAND),
        }
    }
}
