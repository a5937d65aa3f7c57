//! The drive's reads of submission queue entries, and the completions that return them.

use super::engine::Engine;
use super::header::Header;
use super::store::*;
use crate::command::{short_nsid, Command};
use wattbell_spec::nvme::{admin, feature, io, LBA_OPCODES};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, loss_source_code as source, marker_source_code,
};

const SQE_WORDS: usize = 16;

impl Engine {
    /// A read in a page of submission queue `qid`.
    pub fn fetch(&mut self, h: &Header, qid: u8) {
        let at = usize::from(qid);
        let Sq { base, size, .. } = self.tables.sq[at];
        let offset = (h.address >> 6).wrapping_sub(base >> 6) & 0x3F_FFFF;
        if h.address >> 2 & 0xF != 0 || h.length & 0xF != 0 || offset >= u64::from(size) {
            return self.read_nothing(h);
        }
        let mut sq = std::mem::take(&mut self.tables.sq[at]);
        let mut index = offset as u16;
        let mut left = h.length >> 4;
        let mut ahead = sq.tail.map_or(0, |tail| distance(index, tail, size));
        if sq.tail.is_some() && u32::from(left) > ahead {
            // A doorbell was missed, or there was none (shadow doorbells).
            let end = u32::from(index) + u32::from(left);
            sq.tail = Some(if end >= size { end - size } else { end } as u16);
        }
        let flags = if self.shadow && qid != 0 { flag::SHADOW } else { flag::GUESS };
        let fetch = Some(self.tick);
        let mut tag = Tag { kind: Carries::Sqe, qid, index, ..Tag::unknown(h.length) };
        let mut last = 0;
        while left != 0 {
            let head = sq.announced.front().map(|&slot| (slot, self.tables.slots[usize::from(slot)].index));
            let slot = match head {
                Some((slot, first)) if first == index => {
                    sq.announced.pop_front();
                    let s = self.slot(slot);
                    (s.state, s.command.fetch) = (State::Fetching, fetch);
                    Some(slot)
                }
                Some((slot, first)) if distance(first, index, size) < distance(first, sq.tail.unwrap_or(0), size) => {
                    // The read of this one was not seen. Its CQE will make a record without SQE.
                    sq.announced.pop_front();
                    self.release(slot);
                    continue;
                }
                _ => {
                    let new =
                        self.allocate(State::Fetching, index, Command { qid, flags, fetch, ..Command::default() });
                    if new.is_none() && ahead == 0 {
                        // It had no doorbell; otherwise it was counted when its doorbell found no slot.
                        self.lose(source::SLOTS);
                    }
                    new
                }
            };
            if let Some(slot) = slot {
                if tag.left == 0 {
                    tag.slot = slot;
                } else {
                    self.slot(last).next = slot;
                }
                last = slot;
                tag.left += 1;
            }
            (index, left, ahead) = (after(index, size), left - 1, ahead.saturating_sub(1));
        }
        sq.fetch = Some(index);
        self.tables.sq[at] = sq;
        self.tables.tags[usize::from(h.tag)] = tag;
    }

    /// A completion with SQEs.
    pub fn sqes(&mut self, h: &Header, mut t: Tag) {
        let size = self.tables.sq[usize::from(t.qid)].size;
        for first in (0..usize::from(h.length)).step_by(SQE_WORDS) {
            self.sqe(&std::array::from_fn(|k| h.word(first + k)), &mut t);
            t.index = after(t.index, size);
            t.valid = t.remaining > SQE_WORDS as u16;
            t.remaining = t.remaining.wrapping_sub(SQE_WORDS as u16) & 0x7FF;
            if !t.valid {
                break;
            }
        }
        self.tables.tags[usize::from(h.tag)] = t;
    }

    fn sqe(&mut self, s: &[u32; SQE_WORDS], t: &mut Tag) {
        let number = t.slot;
        let Slot { state, index, next, command: before, .. } = *self.slot(number);
        if state != State::Fetching || before.qid != t.qid {
            t.left = 0; // its queue was deleted meanwhile
        }
        if t.left == 0 || index != t.index {
            return;
        }
        let (opcode, cid) = (s[0] as u8, (s[0] >> 16) as u16);
        let admin = t.qid == 0;
        if admin && opcode == admin::GET_FEATURES && s[10] as u8 == feature::MARKER {
            let seen = before.doorbell.or(before.fetch).unwrap_or(self.tick);
            self.event_at(seen, kind::MARKER, marker_source_code::IN_BAND, 0, s[11]);
        }
        let long = |low: usize| u64::from(s[low]) | u64::from(s[low + 1]) << 32;
        let (prp1, prp2) = (long(6), long(8));
        if admin && opcode == admin::IDENTIFY && self.identifies != 31 {
            self.identifies += 1;
        }
        if admin && opcode == admin::DOORBELL_BUFFER_CONFIG {
            self.db_buffers = [prp1, prp2];
        }
        if let Some(found) = self.tables.take_in_flight(t.qid, cid) {
            // The CID is reused before its CQE was seen: that CQE was missed.
            self.abort(found, flag::CID_REUSED);
        }
        let nlb = (s[12] & 0xFFFF) + 1;
        let is_lba = !admin && LBA_OPCODES.contains(&opcode);
        let is_dsm = !admin && opcode == io::DSM;
        let (sgl, has_pointer) = (s[0] >> 14 & 3 != 0, opcode & 3 != 0);
        let (slba, blocks) = match () {
            _ if is_dsm => (0, 0),
            _ if is_lba => (long(10) & 0xFF_FFFF_FFFF, nlb),
            _ if !admin && opcode == io::FLUSH => (s[10].into(), 0),
            _ => (s[10].into(), s[11]),
        };
        let size = DataSize::new(self, prp1, nlb, is_lba, is_dsm.then_some((s[10] & 0xFF) + 1));
        let stored = self.slot(number);
        (stored.state, stored.prp1) = (State::InFlight, prp1);
        (stored.ranges_expected, stored.pages_sure) = ((s[10] & 0xFF) as u16 + 1, size.pages_sure as u32 & 0x1_FFFF);
        let flags = before.flags | if has_pointer && sgl { flag::DATA_PARTIAL } else { 0 };
        stored.command = Command { opcode, cid, nsid: short_nsid(s[1]), slba, blocks, flags, ..before };
        self.tables.set_in_flight(t.qid, cid, number);
        let no_data =
            admin && matches!(opcode, admin::CREATE_IO_SQ | admin::CREATE_IO_CQ | admin::DOORBELL_BUFFER_CONFIG);
        if has_pointer && !sgl && prp1 != 0 && !no_data {
            self.enter_data(number, prp1, prp2, &size);
        }
        (t.slot, t.left) = (next, t.left - 1);
    }

    /// Enters the pages that an SQE points to.
    fn enter_data(&mut self, slot: u16, prp1: u64, prp2: u64, size: &DataSize) {
        let words = self.page_words();
        let &DataSize { is_lba, is_dsm, known, end, longest, pages_sure, pages_most } = size;
        let start = self.page_offset(prp1);
        let entry = PageEntry {
            key: self.page_key(prp1),
            valid: true,
            kind: if is_dsm { Page::Ranges } else { Page::Data },
            start,
            slot,
            generation: self.slot(slot).generation,
            index: 0,
            doubtful: false,
        };
        self.insert_span(entry, known && start != 0 && end < words, end, longest);
        if prp2 == 0 || (known && pages_most < 2) {
            return;
        }
        let at = self.page_offset(prp2);
        let kind = match () {
            _ if is_dsm => Page::Ranges,
            _ if (is_lba && pages_sure > 2) || at != 0 => Page::List,
            _ if is_lba && pages_most == 2 => Page::Data,
            _ => Page::Either,
        };
        let index = (words - u64::from(start)) >> 1;
        let list_end = |pages: u64| u64::from(at) + (pages.saturating_sub(1).max(1) << 1);
        let entry = PageEntry {
            key: self.page_key(prp2),
            start: if kind == Page::List { at } else { 0 },
            kind,
            index: if is_dsm { index as u16 & 0x3FFF } else { 0 },
            doubtful: !known || pages_sure < 2,
            ..entry
        };
        let piece = at != 0 && !is_dsm && list_end(pages_sure) < words;
        self.insert_span(entry, piece, list_end(pages_sure), if known { list_end(pages_most) } else { u64::MAX });
    }

    /// A tag is reused, or its read failed, before all of its completions came: its slots are returned.
    pub fn reclaim(&mut self, tag: u16) {
        let mut t = std::mem::take(&mut self.tables.tags[usize::from(tag)]);
        while t.kind == Carries::Sqe && t.left != 0 {
            let Slot { state, next, command, .. } = *self.slot(t.slot);
            if state != State::Fetching || command.qid != t.qid {
                break;
            }
            self.release(t.slot);
            (t.slot, t.left) = (next, t.left - 1);
        }
    }
}

/// What is known of the size of a command's data.
struct DataSize {
    is_lba: bool,
    is_dsm: bool,
    known: bool,
    /// Where in the first page it ends at the earliest and at the latest, in double words.
    end: u64,
    longest: u64,
    /// Pages it has at least and at most.
    pages_sure: u64,
    pages_most: u64,
}

impl DataSize {
    /// Of `nlb` blocks of 512 to 4096 bytes, or of so many `ranges`, from `prp1` on.
    fn new(e: &Engine, prp1: u64, nlb: u32, is_lba: bool, ranges: Option<u32>) -> Self {
        let offset = u64::from(e.page_offset(prp1)) << 2 | prp1 & 3;
        let (least, most) = match ranges {
            Some(ranges) => (u64::from(ranges) << 4, u64::from(ranges) << 4),
            None => (u64::from(nlb) << 9, u64::from(nlb) << 12),
        };
        let known = is_lba || ranges.is_some();
        let shift = e.mps + 12;
        let pages = |bytes: u64| (offset + bytes + (1 << shift) - 1) >> shift;
        let (end, longest) = ((offset >> 2) + (least >> 2), (offset >> 2) + (most >> 2));
        let pages_sure = if known { pages(least) } else { 1 };
        Self { is_lba, is_dsm: ranges.is_some(), known, end, longest, pages_sure, pages_most: pages(most) }
    }
}
