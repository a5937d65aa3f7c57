//! The drive's reads of submission queue entries, and the completions that return them.

use super::header::Header;
use super::store::*;
use super::{load, Tracker};
use crate::command::{short_nsid, Command};
use wattbell_spec::nvme::{admin, feature, io, LBA_OPCODES};
use wattbell_spec::wire::{
    command_flag_code as flag, event_type_code as kind, guess_reason_code as guess, marker_source_code,
};

const SQE_WORDS: usize = 16;

impl Tracker {
    /// A read in a page of submission queue `qid`.
    pub(super) fn fetch(&mut self, h: &Header, qid: u8) {
        let at = usize::from(qid);
        let Queue { base, size, .. } = self.tables.sqs[at];
        // In chunks of 64 bytes, of which an SQE has one or more.
        let more = self.more_chunks(qid);
        let chunk = (h.address >> 6).wrapping_sub(base >> 6) & 0x3F_FFFF;
        let (chunks, place) = (u64::from(h.length >> 4), chunk & more);
        let bits = more.count_ones();
        let mut left = (((place + chunks + more) >> bits) - ((place + more) >> bits)) as u32;
        let offset = (chunk + more) >> bits;
        let aligned = h.address >> 2 & 0xF == 0 && h.length & 0xF == 0;
        if aligned && left == 0 {
            return self.returns(h, Tag::default()); // the end of an SQE
        }
        let beyond = offset >= u64::from(size);
        if !aligned && !beyond {
            self.tell_once(guess::SQE_PARTS, qid.into());
        }
        if !aligned || beyond {
            return self.read_nothing(h);
        }
        self.follow(self.function.or(Some(h.requester as u8)));
        // No SQE is larger than 64 bytes if the drive reads an odd number of these, or begins at an odd one.
        self.sqes_unsized &= qid == 0 || (offset | u64::from(left)) & 1 == 0;
        let mut sq = std::mem::take(&mut self.tables.sqs[at]);
        let mut index = offset as u16;
        let mut ahead = sq.tail.map_or(0, |tail| distance(index, tail, size));
        let shadow = self.shadow && qid != 0;
        // Where no doorbell can have been missed, the drive reads ahead of it, and will read again.
        let ahead_of_tail = sq.tail.is_some() && sq.rung && sq.epoch == self.epoch && !shadow;
        let window = sq.fetch.zip(sq.tail).map(|(fetch, tail)| distance(fetch, tail, size));
        if ahead_of_tail && self.unheld == 0 && window.is_some_and(|window| ahead > window) {
            ahead = 0; // beyond the tail, or before what was fetched last: read ahead, or again
        }
        if sq.tail.is_some() && left > ahead && !ahead_of_tail {
            // A doorbell was missed, or there was none (shadow doorbells).
            let end = u32::from(index) + left;
            sq.tail = Some(if end >= size { end - size } else { end } as u16);
        }
        let flags = if shadow { flag::SHADOW } else { flag::GUESS };
        let fetch = Some(self.tick);
        let mut tag = Tag { returns: Holds::Sq, qid, index, place: place as u16, ..Tag::default() };
        while left != 0 {
            let head = sq.commands.front().map(|&slot| (slot, self.slots[usize::from(slot)].index));
            let matches = head.is_some_and(|(_, first)| first == index);
            let slot = match head {
                Some((slot, _)) if matches => {
                    sq.commands.pop_front();
                    let s = self.slot(slot);
                    (s.state, s.command.fetch) = (State::Fetching, fetch);
                    Some(slot)
                }
                Some((slot, first)) if distance(first, index, size) < distance(first, sq.tail.unwrap_or(0), size) => {
                    // The read of this one was not seen. Its CQE will make a record without SQE.
                    sq.commands.pop_front();
                    self.let_go(slot);
                    continue;
                }
                _ if ahead_of_tail && ahead == 0 => {
                    self.reads_ahead = true;
                    None
                }
                _ => {
                    let new =
                        self.allocate(State::Fetching, index, Command { qid, flags, fetch, ..Command::default() });
                    match (new, ahead) {
                        // It had no doorbell; otherwise it counts since its doorbell found no slot.
                        (None, 0) => self.unhold(),
                        (Some(slot), 1..) => {
                            self.slot(slot).held = self.unheld != 0;
                            self.hold();
                        }
                        _ => {}
                    }
                    new
                }
            };
            tag.slots.extend(slot);
            let announced = matches || !(ahead_of_tail && ahead == 0);
            (index, left, ahead) = (after(index, size), left - 1, ahead.saturating_sub(1));
            if announced {
                sq.fetch = Some(index);
            }
            self.clocks += load::FETCH;
        }
        self.tables.sqs[at] = sq;
        self.returns(h, tag);
    }

    /// A completion with SQEs.
    pub(super) fn sqes(&mut self, h: &Header, t: &mut Tag) {
        let (size, more) = (self.tables.sqs[usize::from(t.qid)].size, self.more_chunks(t.qid));
        for first in (0..usize::from(h.length.min(t.remaining))).step_by(SQE_WORDS) {
            if u64::from(t.place) & more == 0 {
                self.sqe(&std::array::from_fn(|k| h.word(first + k)), t);
                t.index = after(t.index, size);
            }
            t.place = (t.place + 1) & 0x1FFF;
            self.clocks += load::SQE;
        }
    }

    /// Chunks of 64 bytes that an SQE of SQ `qid` has behind its first one: a power of two less one.
    fn more_chunks(&self, qid: u8) -> u64 {
        (1 << (self.entry_bits(false, qid.into()).unwrap_or(6) - 6)) - 1
    }

    fn sqe(&mut self, s: &[u32; SQE_WORDS], t: &mut Tag) {
        let other = self.tables.in_flight.get(&(t.qid, (s[0] >> 16) as u16)).copied();
        // The drive reads the SQE of a command in flight again. Which of both reads it uses is not known.
        let again = other.filter(|&slot| {
            let found = &self.slots[usize::from(slot)];
            found.index == t.index && found.epoch == self.epoch
        });
        let number = match t.slots.front() {
            Some(&number) => {
                let Slot { state, index, command, .. } = self.slots[usize::from(number)];
                if state != State::Fetching || command.qid != t.qid {
                    t.slots.clear(); // its queue was deleted meanwhile
                }
                Some(number).filter(|_| !t.slots.is_empty() && index == t.index)
            }
            None => None,
        };
        let Some(number) = number else {
            if let Some(slot) = again {
                self.slot(slot).command.flags |= flag::GUESS;
                self.reads_ahead = true;
            }
            return;
        };
        let before = self.slot(number).command;
        t.slots.pop_front();
        let long = |low: usize| u64::from(s[low]) | u64::from(s[low + 1]) << 32;
        let (opcode, cid, prp1, prp2) = (s[0] as u8, (s[0] >> 16) as u16, long(6), long(8));
        if let Some(slot) = again.filter(|_| before.doorbell.is_none()) {
            self.slot(slot).command.flags |= flag::GUESS;
            self.reads_ahead = true;
            if self.slot(number).held {
                self.unhold(); // that one still has none
            }
            return self.release(number);
        }
        let admin = t.qid == 0;
        let lends =
            admin && opcode == admin::SET_FEATURES && s[10] as u8 == feature::HOST_MEMORY_BUFFER && s[11] & 1 != 0;
        match opcode {
            admin::GET_FEATURES if admin && s[10] as u8 == feature::MARKER => {
                let seen = before.doorbell.or(before.fetch).unwrap_or(self.tick);
                self.event_at(seen, kind::MARKER, marker_source_code::IN_BAND, 0, s[11]);
            }
            admin::IDENTIFY if admin && self.identifies != 31 => self.identifies += 1,
            admin::DOORBELL_BUFFER_CONFIG if admin => self.doorbell_buffers = [prp1, prp2],
            admin::SET_FEATURES if lends => self.lend_list(s[13], s[14], s[15]),
            _ => {}
        }
        if let Some(found) = self.tables.in_flight.remove(&(t.qid, cid)) {
            // The CID is reused before its CQE was seen: that CQE was missed.
            self.abort(found, flag::CID_REUSED);
        }
        let (nlb, ranges) = ((s[12] & 0xFFFF) + 1, (s[10] & 0xFF) + 1);
        let is_lba = !admin && LBA_OPCODES.contains(&opcode);
        let is_dsm = !admin && opcode == io::DSM;
        let (pointer, has_pointer) = (s[0] >> 14 & 3, opcode & 3 != 0);
        let (slba, blocks) = match () {
            _ if is_dsm => (0, 0),
            _ if is_lba => (long(10) & 0xFF_FFFF_FFFF, nlb),
            _ if !admin && opcode == io::FLUSH => (s[10].into(), 0),
            _ => (s[10].into(), s[11]),
        };
        let (due, doubted) = (self.due_of(s, admin), self.sqes_unsized);
        let stored = self.slot(number);
        stored.due = due.total();
        (stored.state, stored.prp1, stored.ranges_expected) = (State::InFlight, prp1, ranges as u16);
        let flags = before.flags
            | if (has_pointer && pointer == 3) || due.apart { flag::DATA_PARTIAL } else { 0 }
            | if doubted && !admin { flag::GUESS } else { 0 };
        stored.command = Command { opcode, cid, nsid: short_nsid(s[1]), slba, blocks, flags, ..before };
        self.tables.in_flight.insert((t.qid, cid), number);
        let no_data =
            admin && matches!(opcode, admin::CREATE_IO_SQ | admin::CREATE_IO_CQ | admin::DOORBELL_BUFFER_CONFIG);
        let has_data = has_pointer && pointer != 3 && (pointer != 0 || prp1 != 0) && !no_data;
        if has_data && pointer != 0 {
            self.describe(number, [s[6], s[7], s[8], s[9]]);
        } else if has_data {
            // While the length of a block is unknown, it has 512 to 4096 bytes.
            let bytes = match due.dws {
                Some(dws) => Some((u64::from(dws) << 2, u64::from(dws) << 2)),
                None if is_lba => Some((u64::from(nlb) << 9, u64::from(nlb) << 12)),
                None => None,
            };
            self.enter_data(number, prp1, prp2, bytes, is_dsm);
        }
        if due.metadata != 0 {
            let (of, holds) = (self.slots[usize::from(number)].id, Holds::Data);
            self.enter_buffer(PageEntry { of, holds, ..PageEntry::default() }, long(4), due.metadata.into());
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
        let (end, longest) =
            bytes.map_or((words, words), |(least, most)| ((offset + least) >> 2, (offset + most) >> 2));
        // Where the data ends in its last page. Without any data: one double word.
        let last = if end == u64::from(start) { start } else { ((end - 1) & (words - 1)) as u16 };
        let whole = (words - 1) as u16;
        let stored = self.slot(slot);
        (stored.pages_sure, stored.last) = (sure, last);
        let of = self.slots[usize::from(slot)].id;
        let entry = PageEntry {
            key: self.page_key(prp1),
            holds,
            start,
            of,
            last: if end > words { whole } else { last },
            ..PageEntry::default()
        };
        self.insert_span(entry, start != 0 && end < words, end, longest);
        // Without a known length, blocks may be larger than 4096 bytes.
        let known = self.slot(slot).due.is_some();
        if prp2 == 0 || (most < 2 && known) {
            return;
        }
        let at = self.page_offset(prp2);
        let holds = match () {
            _ if is_dsm => Holds::Ranges,
            _ if sure > 2 => Holds::List,
            _ if sure == most => Holds::Data,
            _ if at != 0 => Holds::List,
            _ if most == 2 => Holds::Data,
            _ => Holds::Either,
        };
        let list_end = |pages: u64| u64::from(at) + (pages.saturating_sub(1).max(1) << 1);
        let entry = PageEntry {
            key: self.page_key(prp2),
            start: if holds == Holds::List { at } else { 0 },
            holds,
            index: if is_dsm { (words as u16 - start) >> 1 } else { 0 },
            last: if end > words << 1 { whole } else { last },
            doubtful: sure < 2,
            ..entry
        };
        let piece = at != 0 && holds == Holds::List && list_end(sure) < words;
        // A drive may read more of a list than it needs.
        let longest = if sure == most { words } else { list_end(most) };
        self.insert_span(entry, piece, list_end(sure), longest);
    }

    /// Enters a buffer of `left` double words, one page behind the other from `address` on.
    pub(super) fn enter_buffer(&mut self, mut entry: PageEntry, address: u64, mut left: u64) {
        let words = self.page_words();
        (entry.key, entry.start) = (self.page_key(address), self.page_offset(address));
        loop {
            let end = u64::from(entry.start) + left;
            entry.last = (end.min(words) - 1) as u16;
            self.insert_span(entry, entry.start != 0 && end < words, end, end);
            self.clocks += load::ENTRY;
            if end <= words {
                return;
            }
            entry.index = entry.index.wrapping_add((words as u16 - entry.start) >> 1) & 0x3FFF;
            (entry.key, entry.start, left) = (entry.key + (1 << self.mps), 0, end - words);
        }
    }

    /// A tag is reused, or its read `failed`, before all of its completions came: its slots are returned.
    pub(super) fn reclaim(&mut self, tag: u16, failed: bool) {
        let t = std::mem::take(&mut self.tables.tags[usize::from(tag)]);
        for slot in t.slots {
            let Slot { state, command, .. } = *self.slot(slot);
            if state != State::Fetching || command.qid != t.qid {
                break;
            }
            if failed {
                self.let_go(slot);
            } else {
                self.release(slot); // its CQE may have come already
            }
        }
    }
}
