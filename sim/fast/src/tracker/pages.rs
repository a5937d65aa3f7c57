//! The map of host pages, data spans, PRP lists, range lists.

use super::engine::Engine;
use super::header::{Header, Kind};
use super::store::*;
use crate::raw::RawTlp;
use crate::time::Clock;
use wattbell_spec::nvme::admin;
use wattbell_spec::wire::loss_source_code as source;

const IDENTIFY_DATA: u8 = 2;

impl Engine {
    /// A read or write by the drive.
    pub fn page(&mut self, h: &Header) {
        let key = self.page_key(h.address);
        let offset = self.page_offset(h.address);
        let mut hits = [None; WAYS];
        let mut count = 0;
        for (way, hit) in hits.iter_mut().enumerate() {
            let entry = &self.tables.pages[place(way, key, offset)];
            let holds = way < PAGE_WAYS || (entry.start ^ offset) >> GRANULE_BITS == 0;
            if entry.key == key && entry.valid && entry.start <= offset && holds {
                *hit = Some(*entry);
                count += 1;
            }
        }
        let mut reclaimed = false;
        loop {
            self.go(); // PAGE_SELECT
            let mut best: Option<(usize, PageEntry)> = None;
            if count != 0 {
                for (way, entry) in hits.iter().enumerate().filter_map(|(way, e)| Some((way, (*e)?))) {
                    if best.is_none_or(|(_, b)| entry.start > b.start) {
                        best = Some((way, entry));
                    }
                }
            }
            self.go(); // PAGE_DECIDE
            let read = h.kind == Kind::MemRead;
            let tag = &self.tables.tags[usize::from(h.tag)];
            if read && !reclaimed && tag.valid && tag.kind != Carries::Unknown {
                // The tag is reused before all of its completions came.
                self.lose(source::TAGS);
                self.reclaim(h.tag);
                self.go(); // PAGE_DECIDE
                reclaimed = true;
            }
            let Some((way, entry)) = best else {
                return match (read, h.length == 1 && h.kept) {
                    (false, true) => self.interrupt(h),
                    (false, false) => self.unmatched(),
                    (true, _) => {
                        self.unmatched();
                        self.tag_unknown(h);
                    }
                };
            };
            match entry.kind {
                Page::Sq if !read || self.tables.sq_valid >> entry.slot & 1 == 0 => return self.unmatched(),
                Page::Sq => return self.fetch(h, entry.slot as u8),
                Page::Cq if read => {
                    self.unmatched();
                    return self.tag_unknown(h);
                }
                Page::Cq => return self.cqes(h, entry.slot as u8),
                Page::Ignore if read => return self.tag_unknown(h),
                Page::Ignore => return,
                _ => {}
            }
            self.go(); // PAGE_SLOT
            let slot = &self.tables.slots[usize::from(entry.slot)];
            // A command whose CQE was lost stays in flight: where another one claims the page too, that one is right.
            let left_over = slot.epoch != self.epoch && count > 1;
            if slot.state != State::InFlight || slot.generation != entry.generation || left_over {
                self.tables.pages[place(way, key, offset)] = PageEntry::default();
                hits[way] = None;
                count -= 1;
                self.go(); // PAGE_AGAIN
                continue;
            }
            if read {
                let kind = match entry.kind {
                    Page::Data => Carries::Data,
                    Page::Either if slot.opcode & 1 != 0 => Carries::Either,
                    Page::Ranges => Carries::Ranges,
                    _ => Carries::List,
                };
                self.tables.tags[usize::from(h.tag)] = Tag {
                    valid: true,
                    kind,
                    slot: entry.slot,
                    generation: entry.generation,
                    qid: 0,
                    index: entry.index + ((offset - entry.start) >> 1),
                    place: offset >> 1,
                    left: 0,
                    remaining: h.length,
                };
                return;
            }
            let identify = slot.qid == 0 && slot.opcode == admin::IDENTIFY;
            self.see_data(entry.slot);
            if identify && self.runs() {
                self.raw(h);
            }
            return;
        }
    }

    /// An Identify data TLP is passed on whole.
    fn raw(&mut self, h: &Header) {
        if !h.kept {
            return self.lose(source::RAW);
        }
        self.go(); // RAW
        let mut bytes = h.tlp.header.as_bytes().to_vec();
        match &h.tlp.payload {
            Some(payload) => bytes.extend_from_slice(payload),
            None => bytes.resize(bytes.len() + h.tlp.header.payload_len(), 0),
        }
        let words = bytes.len() / 4;
        let (tick, written, lost) = (self.tick, self.t, self.losses.count(source::RAW, self.t));
        self.made.raws.push(RawTlp { written, tick, bytes, direction: 1, flags: IDENTIFY_DATA, lost });
        self.t += words as Clock - 1;
    }

    // --- completions of the drive's reads -----------------------------------------------------------------------

    pub fn failed_completion(&mut self, h: &Header) {
        self.go(); // CPL
        if self.tables.tags[usize::from(h.tag)].valid {
            self.reclaim(h.tag);
            self.go(); // CPL_DONE
        } else {
            self.lose(source::TAGS);
        }
    }

    /// A completion with data for the drive; in DISPATCH.
    pub fn completion(&mut self, h: &Header) {
        let t = self.tables.tags[usize::from(h.tag)];
        if !t.valid {
            return self.lose(source::TAGS);
        }
        match t.kind {
            Carries::Unknown => {
                self.go(); // COMPLETION_COUNT
                self.count_completion(h, t);
            }
            // not split at the 64-byte read completion boundary
            Carries::Sqe if h.length & 0xF != 0 => self.lose(source::TAGS),
            Carries::Sqe => self.sqes(h),
            _ => self.data_completion(h, t),
        }
    }

    fn count_completion(&mut self, h: &Header, t: Tag) {
        let remaining = t.remaining.wrapping_sub(h.length) & 0x7FF;
        self.tables.tags[usize::from(h.tag)] = Tag { remaining, valid: t.remaining > h.length, ..t };
    }

    fn data_completion(&mut self, h: &Header, mut t: Tag) {
        self.go(); // COMPLETION_DATA
        let slot = self.tables.slots[usize::from(t.slot)];
        let live = slot.state == State::InFlight && slot.generation == t.generation;
        let whole = h.length & 1 == 0 && h.kept;
        if live && t.kind == Carries::Either {
            t.kind = Carries::Data;
            if whole {
                self.go(); // EITHER_LOW
                self.go(); // EITHER_HIGH
                let (low, high) = (h.word(0), h.word(1));
                if low & 0xFFF == 0 && high >> 20 == 0 && (low | high) != 0 {
                    t.kind = Carries::List;
                }
            }
            self.go(); // COMPLETION_DATA
        }
        if live {
            match t.kind {
                Carries::Data => {
                    self.see_data(t.slot);
                    return self.count_completion(h, t);
                }
                Carries::List if whole => self.list(h, &mut t),
                Carries::Ranges => {
                    self.see_data(t.slot);
                    if h.length & 3 == 0 && t.index & 1 == 0 && h.kept {
                        self.ranges(h, &mut t);
                    }
                }
                _ => {}
            }
        }
        self.go(); // COMPLETION_COUNT
        self.count_completion(h, t);
    }

    fn list(&mut self, h: &Header, t: &mut Tag) {
        let entries_a_page = (self.page_words() >> 1) as u32;
        for k in 0..usize::from(h.length) / 2 {
            self.t += 3; // LIST_LOW, LIST_HIGH, LIST_ENTRY
            let address = u64::from(h.word(2 * k)) | u64::from(h.word(2 * k + 1)) << 32;
            let number = u32::from(t.index) + 1; // of the page of the transfer, with PRP1's being 0
            let sure = self.tables.slots[usize::from(t.slot)].pages_sure;
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
            self.go(); // LIST_NEXT
        }
    }

    fn ranges(&mut self, h: &Header, t: &mut Tag) {
        let mut slot = self.tables.slots[usize::from(t.slot)];
        for k in 0..usize::from(h.length) / 4 {
            self.t += 4; // RANGE_0 to RANGE_3
            if t.index >> 1 < slot.ranges_expected {
                slot.blocks = slot.blocks.wrapping_add(h.word(4 * k + 1));
                slot.ranges = (slot.ranges + 1) & 0x3FF;
            }
            if t.index == 0 {
                slot.lba = u64::from(h.word(4 * k + 2)) | u64::from(h.word(4 * k + 3) & 0xFF) << 32;
            }
            t.index = t.index.wrapping_add(2);
        }
        self.go(); // RANGE_STORE
        let stored = self.slot(t.slot);
        (stored.blocks, stored.ranges, stored.lba) = (slot.blocks, slot.ranges, slot.lba);
    }
}
