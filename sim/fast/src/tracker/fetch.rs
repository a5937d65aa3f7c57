//! The drive's reads of submission queue entries, and the completions that return them.

use super::header::Header;
use super::store::*;
use super::{load, Tracker};
use crate::command::{short_nsid, Command};
use wattbell_spec::nvme::{admin, feature, io, LBA_OPCODES};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, loss_source_code as source, marker_source_code,
};

const SQE_WORDS: usize = 16;

impl Tracker {
    /// A read in a page of submission queue `qid`.
    pub(super) fn fetch(&mut self, h: &Header, qid: u8) {
        let at = usize::from(qid);
        let Queue { base, size, .. } = self.tables.sqs[at];
        let offset = (h.address >> 6).wrapping_sub(base >> 6) & 0x3F_FFFF;
        if h.address >> 2 & 0xF != 0 || h.length & 0xF != 0 || offset >= u64::from(size) {
            return self.read_nothing(h);
        }
        let mut sq = std::mem::take(&mut self.tables.sqs[at]);
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
        let mut tag = Tag { returns: Holds::Sq, qid, index, ..Tag::default() };
        while left != 0 {
            let head = sq.commands.front().map(|&slot| (slot, self.slots[usize::from(slot)].index));
            let slot = match head {
                Some((slot, first)) if first == index => {
                    sq.commands.pop_front();
                    let s = self.slot(slot);
                    (s.state, s.command.fetch) = (State::Fetching, fetch);
                    Some(slot)
                }
                Some((slot, first)) if distance(first, index, size) < distance(first, sq.tail.unwrap_or(0), size) => {
                    // The read of this one was not seen. Its CQE will make a record without SQE.
                    sq.commands.pop_front();
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
            tag.slots.extend(slot);
            (index, left, ahead) = (after(index, size), left - 1, ahead.saturating_sub(1));
            self.clocks += load::FETCH;
        }
        sq.fetch = Some(index);
        self.tables.sqs[at] = sq;
        self.returns(h, tag);
    }

    /// A completion with SQEs.
    pub(super) fn sqes(&mut self, h: &Header, t: &mut Tag) {
        let size = self.tables.sqs[usize::from(t.qid)].size;
        for first in (0..usize::from(h.length.min(t.remaining))).step_by(SQE_WORDS) {
            self.sqe(&std::array::from_fn(|k| h.word(first + k)), t);
            t.index = after(t.index, size);
            self.clocks += load::SQE;
        }
    }

    fn sqe(&mut self, s: &[u32; SQE_WORDS], t: &mut Tag) {
        let Some(&number) = t.slots.front() else { return };
        let Slot { state, index, command: before, .. } = *self.slot(number);
        if state != State::Fetching || before.qid != t.qid {
            return t.slots.clear(); // its queue was deleted meanwhile
        }
        if index != t.index {
            return;
        }
        t.slots.pop_front();
        let long = |low: usize| u64::from(s[low]) | u64::from(s[low + 1]) << 32;
        let (opcode, cid, prp1, prp2) = (s[0] as u8, (s[0] >> 16) as u16, long(6), long(8));
        let admin = t.qid == 0;
        match opcode {
            admin::GET_FEATURES if admin && s[10] as u8 == feature::MARKER => {
                let seen = before.doorbell.or(before.fetch).unwrap_or(self.tick);
                self.event_at(seen, kind::MARKER, marker_source_code::IN_BAND, 0, s[11]);
            }
            admin::IDENTIFY if admin && self.identifies != 31 => self.identifies += 1,
            admin::DOORBELL_BUFFER_CONFIG if admin => self.doorbell_buffers = [prp1, prp2],
            _ => {}
        }
        if let Some(found) = self.tables.in_flight.remove(&(t.qid, cid)) {
            // The CID is reused before its CQE was seen: that CQE was missed.
            self.abort(found, flag::CID_REUSED);
        }
        let (nlb, ranges) = ((s[12] & 0xFFFF) + 1, (s[10] & 0xFF) + 1);
        let is_lba = !admin && LBA_OPCODES.contains(&opcode);
        let is_dsm = !admin && opcode == io::DSM;
        let (sgl, has_pointer) = (s[0] >> 14 & 3 != 0, opcode & 3 != 0);
        let (slba, blocks) = match () {
            _ if is_dsm => (0, 0),
            _ if is_lba => (long(10) & 0xFF_FFFF_FFFF, nlb),
            _ if !admin && opcode == io::FLUSH => (s[10].into(), 0),
            _ => (s[10].into(), s[11]),
        };
        let due = self.due_of(s, admin);
        let stored = self.slot(number);
        stored.due = due.dws;
        (stored.state, stored.prp1, stored.ranges_expected) = (State::InFlight, prp1, ranges as u16);
        let flags = before.flags | if (has_pointer && sgl) || due.apart { flag::DATA_PARTIAL } else { 0 };
        stored.command = Command { opcode, cid, nsid: short_nsid(s[1]), slba, blocks, flags, ..before };
        self.tables.in_flight.insert((t.qid, cid), number);
        let no_data =
            admin && matches!(opcode, admin::CREATE_IO_SQ | admin::CREATE_IO_CQ | admin::DOORBELL_BUFFER_CONFIG);
        if has_pointer && !sgl && prp1 != 0 && !no_data {
            // Blocks have 512 to 4096 bytes.
            let bytes = match () {
                _ if is_dsm => Some((u64::from(ranges) << 4, u64::from(ranges) << 4)),
                _ if is_lba => Some((u64::from(nlb) << 9, u64::from(nlb) << 12)),
                _ => None,
            };
            self.enter_data(number, prp1, prp2, bytes, is_dsm);
        }
    }

    /// Enters the pages that an SQE points to, for data (of a DSM: ranges) of at least and at most so many `bytes`, if
    /// that is known.
    fn enter_data(&mut self, slot: u16, prp1: u64, prp2: u64, bytes: Option<(u64, u64)>, is_dsm: bool) {
        let (words, page_bytes) = (self.page_words(), self.page_words() << 2);
        let (start, offset) = (self.page_offset(prp1), prp1 & (page_bytes - 1));
        let pages = |bytes: u64| (offset + bytes).div_ceil(page_bytes);
        let (sure, most) = bytes.map_or((1, 1 << 32), |(least, most)| (pages(least), pages(most)));
        let holds = if is_dsm { Holds::Ranges } else { Holds::Data };
        self.slot(slot).pages_sure = sure;
        let of = self.slots[usize::from(slot)].id;
        let entry = PageEntry { key: self.page_key(prp1), holds, start, of, ..PageEntry::default() };
        let (end, longest) =
            bytes.map_or((words, words), |(least, most)| ((offset + least) >> 2, (offset + most) >> 2));
        self.insert_span(entry, start != 0 && end < words, end, longest);
        if prp2 == 0 || most < 2 {
            return;
        }
        let (is_lba, at) = (bytes.is_some() && !is_dsm, self.page_offset(prp2));
        let holds = match () {
            _ if is_dsm => Holds::Ranges,
            _ if (is_lba && sure > 2) || at != 0 => Holds::List,
            _ if is_lba && most == 2 => Holds::Data,
            _ => Holds::Either,
        };
        let list_end = |pages: u64| u64::from(at) + (pages.saturating_sub(1).max(1) << 1);
        let entry = PageEntry {
            key: self.page_key(prp2),
            start: if holds == Holds::List { at } else { 0 },
            holds,
            index: if is_dsm { (words as u16 - start) >> 1 } else { 0 },
            doubtful: sure < 2,
            ..entry
        };
        let piece = at != 0 && !is_dsm && list_end(sure) < words;
        self.insert_span(entry, piece, list_end(sure), list_end(most));
    }

    /// A tag is reused, or its read failed, before all of its completions came: its slots are returned.
    pub(super) fn reclaim(&mut self, tag: u16) {
        let t = std::mem::take(&mut self.tables.tags[usize::from(tag)]);
        for slot in t.slots {
            let Slot { state, command, .. } = *self.slot(slot);
            if state != State::Fetching || command.qid != t.qid {
                break;
            }
            self.release(slot);
        }
    }
}
