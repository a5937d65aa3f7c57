//! Registers behind BAR0, configuration writes, late attach.

use super::header::Header;
use super::store::{Asked, Queue, Register};
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

/// Takes the enabled bytes from `word`, the others from `before`.
fn merge(before: u32, word: u32, enables: u8) -> u32 {
    let mask = (0..4).filter(|b| enables >> b & 1 != 0).fold(0u32, |m, b| m | 0xFF << (8 * b));
    word & mask | before & !mask
}

impl Tracker {
    /// Whether a configuration request is of the followed function, or of function 0 before one is followed.
    fn is_mine(&self, h: &Header) -> bool {
        self.function.map_or(h.address >> 16 == 0, |function| function == h.target as u8)
    }

    /// A read of configuration space.
    pub(super) fn config_read(&mut self, h: &Header) {
        let mine = self.is_mine(h);
        self.messages.ask(h, true);
        if !mine {
            self.messages.forget_question();
        }
    }

    /// Follows this function from here on.
    pub(super) fn follow(&mut self, function: Option<u8>) {
        let is_other = |function: Option<u8>| function.is_some_and(|function| function & 7 != 0);
        if is_other(self.function) != is_other(function) {
            self.messages.forget();
        }
        self.function = function;
    }

    pub(super) fn config_write(&mut self, h: &Header) {
        self.messages.ask(h, false);
        self.other_functions |= self.function.is_some_and(|function| function != h.target as u8);
        if self.is_mine(h) {
            self.dirty |= self.messages.configure(h);
            if let Some(cause) = self.messages.resets(h) {
                return self.reset(cause);
            }
        }
        let (shift, flags) = match h.address {
            0x10 => (0, 0xF),
            0x14 => (32, 0),
            _ => return,
        };
        if self.function.is_some_and(|function| function != h.target as u8) {
            return; // a BAR of another function
        }
        let (word, before) = (h.word(0), (self.bar0 >> shift) as u32);
        let merged = merge(before, word, h.first_be) & !flags;
        // All ones are how a host asks for the BAR's size.
        if merged == before || word | flags == u32::MAX || (shift == 0 && merged == 0) {
            return;
        }
        self.follow(Some(h.target as u8));
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
        self.messages.ask(h, false);
        let (of, index) = match self.behind_bar0(h) {
            Some(0) if h.length >= 2 => (Register::Cap, 1),
            Some(4) => (Register::Cap, 0),
            Some(0x10) if h.length >= 2 => (Register::Cc, 1),
            Some(0x14) => (Register::Cc, 0),
            Some(0x18) if h.length >= 2 => (Register::Csts, 1),
            Some(0x1C) => (Register::Csts, 0),
            _ => return,
        };
        if self.controller.asked.is_none_or(|asked| of <= asked.of) {
            self.controller.asked = Some(Asked { tag: h.tag, requester: h.requester, of, index });
        }
    }

    pub(super) fn drive_completion(&mut self, h: &Header) {
        if self.messages.answer(h) {
            return;
        }
        let Some(asked) = self.controller.asked else { return };
        if (h.tag, h.requester) != (asked.tag, asked.requester) || usize::from(h.length) <= asked.index || !h.kept {
            return;
        }
        self.controller.asked = None;
        let word = h.word(asked.index);
        match asked.of {
            Register::Cap => (self.dstrd, self.stride_known) = ((word & 0xF) as u8, true),
            Register::Cc if self.controller.enabled && word & 1 == 0 => self.unseen(),
            Register::Cc => {}
            Register::Csts => self.shutdown_status(word),
        }
    }

    /// The drive answers with CSTS.
    fn shutdown_status(&mut self, csts: u32) {
        if csts == u32::MAX {
            return; // a drive that is gone reads as ones
        }
        let (tick, status) = (self.tick, csts >> 2 & 3);
        let shutdown = &mut self.controller.shutdown;
        let age =
            shutdown.answered.replace(tick).and_then(|before| u32::try_from(tick - before).ok()).unwrap_or(u32::MAX);
        if std::mem::replace(&mut shutdown.status, status) != status {
            self.event(kind::SHUTDOWN_STATUS, status as u8, 0, age);
        }
    }

    pub(super) fn host_write(&mut self, h: &Header) {
        let Some(difference) = self.behind_bar0(h).filter(|_| h.kept) else { return };
        if self.messages.write(difference, h) {
            self.dirty = true;
            return;
        }
        for k in 0..h.length {
            let (offset, word, enables) = (difference.wrapping_add(4 * u32::from(k)), h.word(k.into()), h.enables(k));
            if difference < DOORBELLS {
                self.register_write(offset as u16 & 0xFFF, word, enables);
            } else {
                self.doorbell_write(offset - DOORBELLS, word, enables);
            }
        }
    }

    /// A write of one double word at `offset` behind the doorbells.
    fn doorbell_write(&mut self, offset: u32, word: u32, enables: u8) {
        let shift = u32::from(self.dstrd) + 2;
        let number = offset >> shift;
        if number << shift != offset || number >= 2 * QUEUES as u32 || enables & 3 == 0 {
            return;
        }
        if enables & 3 != 3 {
            return self.unmatched(); // half a position: which one it is then, the drive alone knows
        }
        if !self.stride_known && !self.stride_told {
            self.stride_told = true;
            self.event(kind::GUESSING, guess::STRIDE, (number >> 1) as u16, 0);
        }
        self.doorbell(number & 1 != 0, (number >> 1) as u8, merge(0, word, enables));
    }

    fn register_write(&mut self, offset: u16, word: u32, enables: u8) {
        match offset {
            CC => self.cc_write(merge(self.controller.cc, word, enables)),
            ADMIN_QUEUES..=ADMIN_QUEUES_LAST => {
                let register = &mut self.controller.admin_queues[usize::from(offset - ADMIN_QUEUES) / 4];
                *register = merge(*register, word, enables);
                if self.controller.enabled && enables != 0 {
                    // An enabled controller's admin queues are not to be modified: it was reset meanwhile.
                    self.unseen();
                }
            }
            _ => {}
        }
    }

    /// The controller is disabled, by a reset that was not seen.
    pub(super) fn unseen(&mut self) {
        self.controller.enabled = false;
        self.reset(cause::UNSEEN);
    }

    fn cc_write(&mut self, cc: u32) {
        let enable = cc & 1 != 0;
        self.controller.cc = cc;
        self.controller.asked.take_if(|asked| asked.of == Register::Cc); // the answer may be older than the write
        if enable == self.controller.enabled {
            let notified = cc >> 14 & 3;
            if std::mem::replace(&mut self.controller.shutdown.notified, notified) != notified && notified != 0 {
                self.event(kind::SHUTDOWN, notified as u8, 0, cc);
            }
            return;
        }
        self.controller.enabled = enable;
        self.event(kind::CC_EN, enable.into(), 0, cc);
        self.reset(cause::CC_EN);
        if enable {
            self.mps = (cc >> 7 & 0xF).min(MPS_MAX);
            let [aqa, asq_low, asq_high, acq_low, acq_high] = self.controller.admin_queues;
            let base = |low: u32, high: u32| u64::from(low & 0xFFFF_F000) | u64::from(high) << 32;
            self.create(true, 0, Queue::new(base(acq_low, acq_high), (aqa >> 16 & 0xFFF) + 1, 0, false).telling(true));
            self.create(false, 0, Queue::new(base(asq_low, asq_high), (aqa & 0xFFF) + 1, 0, false));
        }
    }

    /// Logarithm of the bytes of an entry of queue `qid`, if it is one that is followed. NVMe, CC: IOSQES, IOCQES.
    pub(super) fn entry_bits(&self, cq: bool, qid: u16) -> Option<u32> {
        let (shift, least, most) = if cq { (20, 4, 4) } else { (16, 6, 9) };
        let bits = if qid == 0 { least } else { (self.controller.cc >> shift & 0xF).max(least) };
        (bits <= most).then_some(bits)
    }

    /// A fact of a late attach.
    pub(super) fn take_fact(&mut self, fact: &Attach) {
        match fact.op {
            0 => {
                self.bar0 = fact.address & !0xF;
                self.controller.be_enabled();
                self.event(kind::BAR0, 0, 0, (self.bar0 >> 12) as u32);
            }
            1 => {
                self.dstrd = fact.size as u8 & 0xF;
                self.stride_known = true;
            }
            2 => self.mps = fact.size.min(MPS_MAX),
            3 | 4 => {
                self.controller.be_enabled();
                let (cq, qid, size) = (fact.op == 4, u16::from(fact.qid), fact.size & 0x1_FFFF);
                self.create(cq, qid, Queue::new(fact.address, size, fact.link, true).telling(true));
                if !cq {
                    self.sqes_unsized |= self.controller.cc >> 16 & 0xF == 0;
                    self.event(kind::GUESSING, guess::LATE_ATTACH, qid, 0);
                }
            }
            5 => self.shadow = fact.size & 1 != 0,
            _ => self.reset(cause::COMMAND),
        }
    }
}
