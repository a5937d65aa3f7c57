//! The drive's reads of submission queue entries, and the completions that return them.

use super::engine::Engine;
use super::header::Header;
use super::record::{short_nsid, UNKNOWN};
use super::store::*;
use crate::time::Clock;
use wattbell_spec::nvme::{admin, feature, io, LBA_OPCODES};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, loss_source_code as source, marker_source_code,
};

/// Double words of an SQE that are read, and the cycles it takes.
const USED_WORDS: usize = 13;
const SQE_WORDS: usize = 16;

impl Engine {
    /// A read in a page of submission queue `qid`.
    pub fn fetch(&mut self, h: &Header, qid: u8) {
        self.go(); // FETCH
        self.go(); // FETCH_LOAD
        let at = usize::from(qid);
        let shape = self.tables.sq_shape[at];
        let size = shape.size;
        let offset = ((h.address >> 6 & 0x3F_FFFF).wrapping_sub(shape.base >> 6 & 0x3F_FFFF)) & 0x3F_FFFF;
        if h.address >> 2 & 0xF != 0 || h.length & 0xF != 0 || offset >= u64::from(size) {
            self.unmatched();
            return self.tag_unknown(h);
        }
        self.go(); // FETCH_BEGIN
        let mut sq = self.tables.sq[at];
        let mut index = offset as u16;
        let mut left = h.length >> 4;
        let mut ahead = modulo(i64::from(sq.tail) - i64::from(index), size);
        if sq.tail_known && u32::from(left) > ahead {
            // A doorbell was missed, or there was none (shadow doorbells).
            let end = u32::from(index) + u32::from(left);
            sq.tail = if end >= size { end - size } else { end } as u16;
        }
        if !sq.tail_known {
            ahead = 0;
        }
        let flags = if self.shadow && qid != 0 { flag::SHADOW } else { flag::GUESS };
        let mut tag = Tag { valid: true, kind: Carries::Sqe, qid, index, remaining: h.length, ..Tag::default() };
        let mut last = 0;
        loop {
            self.go(); // FETCH_ENTRY
            if left == 0 {
                break;
            }
            let head = self.tables.slots[usize::from(sq.head)].index;
            let of_head = modulo(i64::from(sq.tail) - i64::from(head), size);
            let distance = modulo(i64::from(index) - i64::from(head), size);
            let matches = sq.count != 0 && head == index;
            if sq.count != 0 && distance < of_head && !matches {
                // The read of this one was not seen. Its CQE will make a record without SQE.
                let passed = sq.head;
                self.release(passed);
                (sq.head, sq.count) = (self.tables.next[usize::from(passed)], sq.count - 1);
                continue;
            }
            let here = index;
            left -= 1;
            index = if u32::from(index) + 1 == size { 0 } else { index + 1 };
            let slot = if matches {
                let slot = sq.head;
                let tick = self.tick;
                let s = self.slot(slot);
                (s.state, s.fetch) = (State::Fetching, tick);
                (sq.head, sq.count) = (self.tables.next[usize::from(slot)], sq.count - 1);
                Some(slot)
            } else if self.slot_is_free() {
                let fetch = self.tick;
                Some(self.allocate(Slot { state: State::Fetching, qid, index: here, flags, fetch, ..Slot::EMPTY }))
            } else {
                if ahead == 0 {
                    // It had no doorbell; otherwise it was counted when its doorbell found no slot.
                    self.lose(source::SLOTS);
                }
                None
            };
            ahead = ahead.saturating_sub(1);
            if let Some(slot) = slot {
                if tag.left == 0 {
                    tag.slot = slot;
                } else {
                    self.tables.next[usize::from(last)] = slot;
                }
                last = slot;
                tag.left += 1;
            }
        }
        self.go(); // FETCH_END
        (sq.fetch, sq.fetch_known) = (index, true);
        self.tables.sq[at] = sq;
        self.tables.tags[usize::from(h.tag)] = tag;
    }

    pub fn tag_unknown(&mut self, h: &Header) {
        self.go(); // TAG_UNKNOWN
        self.tables.tags[usize::from(h.tag)] =
            Tag { valid: true, kind: Carries::Unknown, remaining: h.length, ..Tag::default() };
    }

    /// A completion with SQEs.
    pub fn sqes(&mut self, h: &Header) {
        let mut t = self.tables.tags[usize::from(h.tag)];
        let size = self.tables.sq_shape[usize::from(t.qid)].size;
        let mut words_left = i32::from(h.length);
        let mut at = 0;
        self.go(); // SQE
        loop {
            self.t += USED_WORDS as Clock; // SQE_WORD
            let mut sqe = [0; USED_WORDS];
            for (k, word) in sqe.iter_mut().enumerate() {
                *word = h.word(at + k);
            }
            self.sqe(&sqe, &mut t);
            self.go(); // SQE_NEXT
            let end = words_left <= SQE_WORDS as i32 || t.remaining <= SQE_WORDS as u16;
            t.index = if u32::from(t.index) + 1 == size { 0 } else { t.index + 1 };
            t.valid = t.remaining > SQE_WORDS as u16;
            t.remaining = t.remaining.wrapping_sub(SQE_WORDS as u16) & 0x7FF;
            words_left -= SQE_WORDS as i32;
            at += SQE_WORDS;
            if end {
                break;
            }
        }
        self.go(); // TAG_STORE
        self.tables.tags[usize::from(h.tag)] = t;
    }

    /// From SQE_CHECK to SQE_NEXT_SLOT.
    fn sqe(&mut self, s: &[u32; USED_WORDS], t: &mut Tag) {
        self.go(); // SQE_CHECK
        let slot = self.tables.slots[usize::from(t.slot)];
        if slot.state != State::Fetching || slot.qid != t.qid {
            t.left = 0; // its queue was deleted meanwhile
            return;
        }
        if t.left == 0 || slot.index != t.index {
            return;
        }
        let (opcode, cid) = (s[0] as u8, (s[0] >> 16) as u16);
        let next = self.tables.next[usize::from(t.slot)];
        let seen = if slot.doorbell == UNKNOWN { slot.fetch } else { slot.doorbell };
        let found = self.find(t.qid, cid);
        self.go(); // SQE_FOUND
        let admin = t.qid == 0;
        if admin && opcode == admin::GET_FEATURES && s[10] as u8 == feature::MARKER {
            self.event_at(seen, kind::MARKER, marker_source_code::IN_BAND, 0, s[11]);
        }
        let long = |low: usize| u64::from(s[low]) | u64::from(s[low + 1]) << 32;
        let (prp1, prp2) = (long(6), long(8));
        if admin && opcode == admin::IDENTIFY && self.identifies != 31 {
            self.identifies += 1;
            self.note_armed();
        }
        if admin && opcode == admin::DOORBELL_BUFFER_CONFIG {
            self.db_buffers = [prp1, prp2];
        }
        if let Some(found) = found {
            // The CID is reused before its CQE was seen: that CQE was missed.
            self.unlink(t.qid, cid, found);
            self.emit(found.slot, Some(self.tick), true, UNKNOWN);
        }
        self.go(); // SQE_STORE
        let nlb = (s[12] & 0xFFFF) + 1;
        let is_lba = !admin && LBA_OPCODES.contains(&opcode);
        let is_dsm = !admin && opcode == io::DSM;
        let (sgl, has_pointer) = (s[0] >> 14 & 3 != 0, opcode & 3 != 0);
        let partial = if has_pointer && sgl { flag::DATA_PARTIAL } else { 0 };
        let flush = !admin && opcode == 0;
        let lba = if is_dsm {
            0
        } else if is_lba {
            long(10) & 0xFF_FFFF_FFFF
        } else {
            u64::from(s[10])
        };
        let blocks = if is_dsm || flush {
            0
        } else if is_lba {
            nlb
        } else {
            s[11]
        };
        let ranges = (s[10] & 0xFF) + 1;
        let shift = self.mps + 12;
        let size = u64::from(self.page_words() as u32) << 2;
        let offset = (u64::from(self.page_offset(prp1)) << 2 | prp1 & 3) & 0xFFFF;
        let least = u64::from(if is_dsm { ranges << 4 } else { nlb << 9 });
        let known = is_lba || is_dsm;
        let sure = if known { (offset + least + size - 1) >> shift } else { 1 };
        let most = (offset + if is_dsm { least } else { u64::from(nlb) << 12 } + size - 1) >> shift;
        let number = t.slot;
        let generation = slot.generation;
        let flags = slot.flags | partial;
        let stored = self.slot(number);
        stored.state = State::InFlight;
        (stored.opcode, stored.cid, stored.nsid) = (opcode, cid, short_nsid(s[1]));
        (stored.lba, stored.blocks, stored.prp1) = (lba, blocks, prp1);
        (stored.ranges_expected, stored.pages_sure, stored.flags) = (ranges as u16, sure as u32 & 0x1_FFFF, flags);

        self.go(); // SQE_LINK
        let chain = &mut self.tables.hash_head[hash(t.qid, cid)];
        self.tables.hash_next[usize::from(number)] = chain.replace(number);
        let no_data =
            admin && matches!(opcode, admin::CREATE_IO_SQ | admin::CREATE_IO_CQ | admin::DOORBELL_BUFFER_CONFIG);
        if has_pointer && !sgl && prp1 != 0 && !no_data {
            let words = self.page_words();
            let known_most = |most: u64| if known { most } else { u64::MAX };
            let from = offset >> 2;
            let (end, longest) = (from + (least >> 2), from + (u64::from(nlb) << 10));
            let entry = PageEntry {
                key: self.page_key(prp1),
                valid: true,
                kind: if is_dsm { Page::Ranges } else { Page::Data },
                start: self.page_offset(prp1),
                slot: number,
                generation,
                index: 0,
                doubtful: false,
            };
            let piece = known && from != 0 && end < words;
            self.insert_span(entry, piece, end, if is_dsm { end } else { longest });
            self.go(); // SQE_PRP2
            if prp2 != 0 && !(known && most < 2) {
                let at = u64::from(self.page_offset(prp2));
                let kind = if is_dsm {
                    Page::Ranges
                } else if (is_lba && sure > 2) || at != 0 {
                    Page::List
                } else if is_lba && most == 2 {
                    Page::Data
                } else {
                    Page::Either
                };
                let index = (words - u64::from(self.page_offset(prp1))) >> 1;
                let list = |pages: u64| at + (pages.saturating_sub(1).max(1) << 1);
                let entry = PageEntry {
                    key: self.page_key(prp2),
                    start: if kind == Page::List { at as u16 } else { 0 },
                    kind,
                    index: if is_dsm { index as u16 & 0x3FFF } else { 0 },
                    doubtful: !known || sure < 2,
                    ..entry
                };
                let piece = at != 0 && !is_dsm && list(sure) < words;
                self.insert_span(entry, piece, list(sure), known_most(list(most)));
            }
        }
        self.go(); // SQE_NEXT_SLOT
        (t.slot, t.left) = (next, t.left - 1);
    }

    /// A tag is reused, or its read failed, before all of its completions came: its slots are returned. States started
    /// after the present one; ends in the last of them.
    pub fn reclaim(&mut self, tag: u16) {
        self.go(); // RECLAIM
        let mut t = std::mem::take(&mut self.tables.tags[usize::from(tag)]);
        loop {
            self.go(); // RECLAIM_SLOT
            let s = self.tables.slots[usize::from(t.slot)];
            if t.kind != Carries::Sqe || t.left == 0 || s.state != State::Fetching || s.qid != t.qid {
                break;
            }
            self.release(t.slot);
            (t.slot, t.left) = (self.tables.next[usize::from(t.slot)], t.left - 1);
        }
        self.go(); // RECLAIM_RETURN
    }
}
