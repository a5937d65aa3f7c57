//! Registers behind BAR0, configuration writes, late attach.

use super::header::Header;
use super::store::Queue;
use super::Tracker;
use crate::registers::Attach;
use crate::status::QUEUES;
use wattbell_spec::wire::{event_type_code as kind, guess_reason_code as guess, reset_cause_code as cause};

const CC: u16 = 0x14;
/// AQA, ASQ, ACQ.
const ADMIN_QUEUES: u16 = 0x24;
const ADMIN_QUEUES_LAST: u16 = 0x34;
const DOORBELLS: u32 = 0x1000;
/// Memory page sizes above 64 KiB are not distinguished.
const MPS_MAX: u32 = 4;

impl Tracker {
    pub(super) fn config_write(&mut self, h: &Header) {
        let (shift, flags) = match h.address {
            0x10 => (0, 0xF),
            0x14 => (32, 0),
            _ => return,
        };
        let (word, before) = (h.word(0), (self.bar0 >> shift) as u32);
        let mask = (0..4).filter(|b| h.first_be >> b & 1 != 0).fold(0u32, |m, b| m | 0xFF << (8 * b));
        let merged = (word & mask | before & !mask) & !flags;
        // All ones are how a host asks for the BAR's size.
        if merged == before || word | flags == u32::MAX || (shift == 0 && merged == 0) {
            return;
        }
        self.bar0 = self.bar0 & !(0xFFFF_FFFF << shift) | u64::from(merged) << shift;
        if self.bar0 as u32 != 0 {
            self.event(kind::BAR0, 0, 0, (self.bar0 >> 12) as u32);
        }
    }

    /// Returns the offset of an address in BAR0.
    fn behind_bar0(&self, h: &Header) -> Option<u32> {
        let offset = h.address.checked_sub(self.bar0)?;
        u32::try_from(offset).ok().filter(|_| self.bar0 >> 4 != 0)
    }

    pub(super) fn host_read(&mut self, h: &Header) {
        match self.behind_bar0(h) {
            Some(0) if h.length >= 2 => self.controller.cap = Some((h.tag, h.requester, 1)),
            Some(4) => self.controller.cap = Some((h.tag, h.requester, 0)),
            _ => {}
        }
    }

    pub(super) fn drive_completion(&mut self, h: &Header) {
        let Some((tag, requester, index)) = self.controller.cap else { return };
        if h.tag == tag && h.requester == requester && usize::from(h.length) > index && h.kept {
            self.dstrd = (h.word(index) & 0xF) as u8;
            (self.stride_known, self.controller.cap) = (true, None);
        }
    }

    pub(super) fn host_write(&mut self, h: &Header) {
        let Some(difference) = self.behind_bar0(h).filter(|_| h.kept) else { return };
        if difference < DOORBELLS {
            return (0..h.length)
                .for_each(|k| self.register_write((difference as u16 + 4 * k) & 0xFFF, h.word(k.into())));
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
        self.doorbell(number & 1 != 0, (number >> 1) as u8, h.word(0));
    }

    fn register_write(&mut self, offset: u16, word: u32) {
        match offset {
            CC => self.cc_write(word),
            ADMIN_QUEUES..=ADMIN_QUEUES_LAST => {
                self.controller.admin_queues[usize::from(offset - ADMIN_QUEUES) / 4] = word;
            }
            _ => {}
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
            let [aqa, asq_low, asq_high, acq_low, acq_high] = self.controller.admin_queues;
            let base = |low: u32, high: u32| u64::from(low & 0xFFFF_F000) | u64::from(high) << 32;
            self.create(true, 0, Queue::new(base(acq_low, acq_high), (aqa >> 16 & 0xFFF) + 1, 0, false));
            self.create(false, 0, Queue::new(base(asq_low, asq_high), (aqa & 0xFFF) + 1, 0, false));
        }
    }

    /// A fact of a late attach.
    pub(super) fn take_fact(&mut self, fact: &Attach) {
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
                self.create(cq, qid, Queue::new(fact.address, size, fact.link, true));
                if !cq {
                    self.event(kind::GUESSING, guess::LATE_ATTACH, qid, 0);
                }
            }
            5 => self.shadow = fact.size & 1 != 0,
            _ => self.reset(cause::COMMAND),
        }
    }
}
