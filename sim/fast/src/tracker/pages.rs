//! What the drive reads and writes: the map of host pages, data, PRP lists, range lists, and the completions of its reads.

use super::engine::Engine;
use super::header::{Header, Kind};
use super::store::*;
use crate::raw::RawTlp;
use crate::time::{clock_at, DELAY_TICKS};
use wattbell_spec::nvme::admin;
use wattbell_spec::wire::loss_source_code as source;

const IDENTIFY_DATA: u8 = 2;

impl Engine {
    /// A read or write by the drive.
    pub fn page(&mut self, h: &Header) {
        let read = h.kind == Kind::MemRead;
        let tag = &self.tables.tags[usize::from(h.tag)];
        if read && tag.valid && tag.kind != Carries::Unknown {
            // The tag is reused before all of its completions came.
            self.lose(source::TAGS);
            self.reclaim(h.tag);
        }
        let Some(entry) = self.entry_of(h.address) else {
            return match (read, h.length == 1 && h.kept) {
                (false, true) => self.interrupt(h),
                (false, false) => self.unmatched(),
                (true, _) => self.read_nothing(h),
            };
        };
        match entry.kind {
            Page::Sq if read && self.tables.sq[usize::from(entry.slot)].valid => self.fetch(h, entry.slot as u8),
            Page::Sq => self.unmatched(),
            Page::Cq if read => self.read_nothing(h),
            Page::Cq => self.cqes(h, entry.slot as u8),
            Page::Ignore if read => self.tag_unknown(h),
            Page::Ignore => {}
            _ if read => self.data_read(h, &entry),
            _ => self.data_write(h, entry.slot),
        }
    }

    /// The entry that holds for `address`: of those in its page the last one before it, whose command is in flight.
    /// Others are removed.
    fn entry_of(&mut self, address: u64) -> Option<PageEntry> {
        let (key, offset) = (self.page_key(address), self.page_offset(address));
        let mut hits = [(0, 0); WAYS];
        let mut count = 0;
        for way in 0..WAYS {
            let at = place(way, key, offset);
            let entry = &self.tables.pages[at];
            let holds = way < PAGE_WAYS || (entry.start ^ offset) >> GRANULE_BITS == 0;
            if entry.key == key && entry.valid && entry.start <= offset && holds {
                hits[count] = (entry.start, at);
                count += 1;
            }
        }
        while count != 0 {
            let best = (1..count).fold(0, |best, k| if hits[k].0 > hits[best].0 { k } else { best });
            let at = hits[best].1;
            let entry = self.tables.pages[at];
            // A command whose CQE was lost stays in flight: where another one claims the page too, that one is right.
            let left_over = || self.tables.slots[usize::from(entry.slot)].epoch != self.epoch && count > 1;
            if entry.kind.is_pinned() || (self.lives(&entry) && !left_over()) {
                return Some(entry);
            }
            self.tables.pages[at] = PageEntry::default();
            hits.copy_within(best + 1..count, best);
            count -= 1;
        }
        None
    }

    pub fn tag_unknown(&mut self, h: &Header) {
        self.tables.tags[usize::from(h.tag)] = Tag::unknown(h.length);
    }

    pub fn read_nothing(&mut self, h: &Header) {
        self.unmatched();
        self.tag_unknown(h);
    }

    /// The drive reads what the command of `entry` points to.
    fn data_read(&mut self, h: &Header, entry: &PageEntry) {
        let offset = self.page_offset(h.address);
        let kind = match entry.kind {
            Page::Data => Carries::Data,
            Page::Either if self.slot(entry.slot).command.opcode & 1 != 0 => Carries::Either,
            Page::Ranges => Carries::Ranges,
            _ => Carries::List,
        };
        self.tables.tags[usize::from(h.tag)] = Tag {
            kind,
            slot: entry.slot,
            generation: entry.generation,
            index: entry.index + ((offset - entry.start) >> 1),
            place: offset >> 1,
            ..Tag::unknown(h.length)
        };
    }

    fn data_write(&mut self, h: &Header, slot: u16) {
        self.see_data(slot);
        let command = &self.slot(slot).command;
        if command.qid == 0 && command.opcode == admin::IDENTIFY && self.wanted() {
            self.raw(h);
        }
    }

    /// An Identify data TLP is passed on whole.
    fn raw(&mut self, h: &Header) {
        if !h.kept {
            return self.lose(source::RAW);
        }
        let mut bytes = h.tlp.header.as_bytes().to_vec();
        match &h.tlp.payload {
            Some(payload) => bytes.extend_from_slice(payload),
            None => bytes.resize(bytes.len() + h.tlp.header.payload_len(), 0),
        }
        let (tick, released) = (self.tick, clock_at(self.tick + DELAY_TICKS));
        self.made.raws.push(RawTlp { released, tick, bytes, direction: 1, flags: IDENTIFY_DATA });
    }

    // --- completions of the drive's reads -----------------------------------------------------------------------

    pub fn failed_completion(&mut self, h: &Header) {
        if self.tables.tags[usize::from(h.tag)].valid {
            self.reclaim(h.tag);
        } else {
            self.lose(source::TAGS);
        }
    }

    /// A completion with data for the drive.
    pub fn completion(&mut self, h: &Header) {
        let mut t = self.tables.tags[usize::from(h.tag)];
        // not valid, or not split at the 64-byte read completion boundary
        if !t.valid || (t.kind == Carries::Sqe && h.length & 0xF != 0) {
            return self.lose(source::TAGS);
        }
        match t.kind {
            Carries::Sqe => return self.sqes(h, t),
            Carries::Unknown => {}
            _ => self.data_completion(h, &mut t),
        }
        t.valid = t.remaining > h.length;
        t.remaining = t.remaining.wrapping_sub(h.length) & 0x7FF;
        self.tables.tags[usize::from(h.tag)] = t;
    }

    fn data_completion(&mut self, h: &Header, t: &mut Tag) {
        let slot = &self.tables.slots[usize::from(t.slot)];
        if slot.state != State::InFlight || slot.generation != t.generation {
            return;
        }
        let whole = h.length & 1 == 0 && h.kept;
        if t.kind == Carries::Either {
            let (low, high) = (h.word(0), h.word(1));
            let list = whole && low & 0xFFF == 0 && high >> 20 == 0 && (low | high) != 0;
            t.kind = if list { Carries::List } else { Carries::Data };
        }
        match t.kind {
            Carries::Data => self.see_data(t.slot),
            Carries::List if whole => self.list(h, t),
            Carries::Ranges => {
                self.see_data(t.slot);
                if h.length & 3 == 0 && t.index & 1 == 0 && h.kept {
                    self.ranges(h, t);
                }
            }
            _ => {}
        }
    }

    fn list(&mut self, h: &Header, t: &mut Tag) {
        let entries_a_page = (self.page_words() >> 1) as u32;
        let sure = self.slot(t.slot).pages_sure;
        for k in 0..usize::from(h.length) / 2 {
            let address = u64::from(h.word(2 * k)) | u64::from(h.word(2 * k + 1)) << 32;
            let number = u32::from(t.index) + 1; // of the page of the transfer, with PRP1's being 0
            let ends_page = u32::from(t.place) + 1 == entries_a_page;
            let entry = PageEntry {
                key: self.page_key(address),
                valid: true,
                kind: match ends_page {
                    true if number + 1 < sure => Page::List,
                    true => Page::Either,
                    false => Page::Data,
                },
                start: 0,
                slot: t.slot,
                generation: t.generation,
                index: t.index & 0x3FFF,
                doubtful: number >= sure,
            };
            t.index = t.index.wrapping_add(1);
            t.place = (t.place + 1) & 0x1FFF;
            if address >> 2 != 0 && self.page_offset(address) == 0 {
                self.insert(entry, false);
            }
        }
    }

    fn ranges(&mut self, h: &Header, t: &mut Tag) {
        let slot = self.slot(t.slot);
        for k in 0..usize::from(h.length) / 4 {
            if t.index >> 1 < slot.ranges_expected {
                slot.command.blocks = slot.command.blocks.wrapping_add(h.word(4 * k + 1));
                slot.ranges = (slot.ranges + 1) & 0x3FF;
            }
            if t.index == 0 {
                slot.command.slba = u64::from(h.word(4 * k + 2)) | u64::from(h.word(4 * k + 3) & 0xFF) << 32;
            }
            t.index = t.index.wrapping_add(2);
        }
    }
}
