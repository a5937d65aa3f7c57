//! The drive's reads and writes: the map of host pages, data, PRP lists, range lists, and the completions of its reads.

use super::header::Header;
use super::store::*;
use super::{load, Tracker};
use crate::raw::RawTlp;
use crate::time::{clock_at, Clock, DELAY_TICKS};
use wattbell_spec::nvme::admin;
use wattbell_spec::wire::{guess_reason_code as guess, loss_source_code as source};

const IDENTIFY_DATA: u8 = 2;

impl Tracker {
    pub(super) fn page_key(&self, address: u64) -> u64 {
        address >> (12 + self.mps) << self.mps
    }

    /// Offset within its page in double words.
    pub(super) fn page_offset(&self, address: u64) -> u16 {
        (address >> 2 & (self.page_words() - 1)) as u16
    }

    pub(super) fn page_words(&self) -> u64 {
        1 << (self.mps + 10)
    }

    /// The entry that holds for `address`, with its place: the last entry of the page before it with a command in flight.
    /// Others are removed.
    fn entry_of(&mut self, address: u64) -> Option<(usize, PageEntry)> {
        let (key, offset) = (self.page_key(address), self.page_offset(address));
        let places = places(key, offset);
        loop {
            let (mut best, mut count) = (None::<(usize, PageEntry)>, 0);
            for (way, &at) in places.iter().enumerate() {
                let holds = |e: &PageEntry| way < PAGE_WAYS || (e.start ^ offset) >> GRANULE_BITS == 0;
                let entry = self.tables.pages[at].filter(|e| e.key == key && e.start <= offset && holds(e));
                if let Some(entry) = entry {
                    count += 1;
                    if best.is_none_or(|(_, b)| b.start < entry.start) {
                        best = Some((at, entry));
                    }
                }
            }
            let (at, entry) = best?;
            // A command whose CQE was lost stays in flight: where another one claims the page too, that one is right.
            let left_over = || self.slots[usize::from(entry.of.slot)].epoch != self.epoch && count > 1;
            if entry.is_pinned() || (self.lives(entry.of) && !left_over()) {
                return Some((at, entry));
            }
            self.tables.pages[at] = None;
            self.clocks += load::STALE;
        }
    }

    /// A data TLP, or a read, of the command with `entry` at `at`. If it may be of another command in flight as well, both are flagged.
    fn compare_owners(&mut self, address: u64, at: usize, entry: &PageEntry) {
        let (key, offset) = (self.page_key(address), self.page_offset(address));
        let (mut visited, mut doubt) = (false, false);
        for (way, other_at) in places(key, offset).into_iter().enumerate() {
            let holds = |e: &PageEntry| way < PAGE_WAYS || (e.start ^ offset) >> GRANULE_BITS == 0;
            let found = self.tables.pages[other_at]
                .filter(|e| other_at != at && e.key == key && e.start <= offset && holds(e) && e.holds == Holds::Data);
            let Some(other) = found.filter(|e| e.covers(offset) || entry.doubtful) else { continue };
            visited = true;
            let Slot { epoch, due, .. } = self.slots[usize::from(other.of.slot)];
            if !self.lives(other.of) || epoch != self.epoch {
                self.tables.pages[other_at] = None;
                self.clocks += load::STALE;
            } else if other.of.slot != entry.of.slot && (other.covers(offset) || due.is_none()) {
                self.flag_partial(&other);
                doubt = true;
            }
        }
        // Behind the end of its data, it is not known whose this is.
        let beyond = entry.holds == Holds::Data && !entry.doubtful && offset > entry.last;
        if doubt || (beyond && self.slot(entry.of.slot).due.is_some()) {
            self.flag_partial(entry);
            visited = true;
        }
        if visited {
            self.clocks += load::TLP - load::DATA; // by the engine's states, not by the data way
        }
    }

    pub(super) fn drive_write(&mut self, h: &Header) {
        if h.is_empty() {
            return;
        }
        if h.is_translated() {
            self.of_another_space(h);
            return self.unmatched();
        }
        match self.entry_of(h.address) {
            None if self.uses_buffer(h, false) => {}
            None if h.length == 1 && !h.bad => self.interrupt(h),
            None => self.unmatched(),
            Some((_, PageEntry { holds: Holds::Cq, .. })) if h.bad => self.unmatched(),
            Some((_, PageEntry { holds: Holds::Sq, .. })) => self.unmatched(),
            Some((_, PageEntry { holds: Holds::Ignored, .. })) => {}
            Some((_, PageEntry { holds: Holds::Cq, of, .. })) => self.cqes(h, of.slot as u8),
            Some((at, entry @ PageEntry { of, .. })) => {
                self.compare_owners(h.address, at, &entry);
                self.see_data(h, of.slot);
                let takes = self.slot(of.slot).command.opcode & 2 != 0;
                if entry.doubtful || !takes {
                    self.flag_partial(&entry);
                    self.clocks += load::TLP - load::DATA; // by the engine's states, not by the data way
                }
                let command = &self.slot(of.slot).command;
                if command.qid == 0 && command.opcode == admin::IDENTIFY && !h.bad {
                    self.identify_data(h, of.slot);
                    if self.wanted() {
                        self.raw(h);
                    }
                }
            }
        }
    }

    /// A request at an address of another space. With a PASID, an address of the host's pointers may mean another page.
    fn of_another_space(&mut self, h: &Header) {
        self.translated = true;
        if h.is_of_process() {
            self.spaces = true;
            self.tell_once(guess::ADDRESS_SPACES, h.requester);
        }
    }

    /// A data TLP of the command in `slot`.
    fn see_data(&mut self, h: &Header, slot: u16) {
        self.count_data(slot, h.length);
        let tick = Some(self.tick);
        let command = &mut self.slot(slot).command;
        command.first_data = command.first_data.or(tick);
        command.last_data = tick;
        self.clocks -= load::TLP - load::DATA;
    }

    /// An Identify data TLP is passed on whole.
    fn raw(&mut self, h: &Header) {
        if !h.kept {
            return self.lose(source::RAW);
        }
        let bytes = h.tlp.to_bytes()[h.tlp.prefixes().len()..].to_vec();
        let (tick, released) = (self.tick, clock_at(self.tick + DELAY_TICKS));
        self.clocks += Clock::from(h.length);
        self.made.raws.push(RawTlp { released, tick, bytes, direction: 1, flags: IDENTIFY_DATA });
    }

    pub(super) fn drive_read(&mut self, h: &Header) {
        let tag = &self.tables.tags[usize::from(h.tag)];
        if tag.remaining != 0 && tag.returns != Holds::Unknown {
            // The tag is reused before all of its completions came.
            self.lose(source::TAGS);
            self.reclaim(h.tag, false);
        }
        if h.is_empty() {
            return self.returns(h, Tag::default());
        }
        if h.asks_translation() {
            return self.returns(h, Tag::default());
        }
        if h.is_translated() {
            self.of_another_space(h);
            return self.read_nothing(h);
        }
        let Some((at, entry)) = self.entry_of(h.address) else {
            if !self.uses_buffer(h, true) {
                self.read_nothing(h);
            }
            return;
        };
        match entry.holds {
            Holds::Sq if self.tables.sqs[usize::from(entry.of.slot)].valid => self.fetch(h, entry.of.slot as u8),
            Holds::Sq => self.unmatched_read(),
            Holds::Cq => self.read_nothing(h),
            Holds::Ignored => self.returns(h, Tag::default()),
            holds => {
                self.compare_owners(h.address, at, &entry);
                let offset = self.page_offset(h.address);
                // What a command that reads has the drive read is no data.
                let writes = self.slot(entry.of.slot).command.opcode & 1 != 0;
                let returns = if holds == Holds::Either && !writes { Holds::List } else { holds };
                let of_another = holds == Holds::Data && !writes;
                if of_another || (entry.doubtful && matches!(returns, Holds::Data | Holds::Either)) {
                    self.flag_partial(&entry);
                }
                let index = entry.index + ((offset - entry.start) >> 1);
                self.returns(h, Tag { returns, of: entry.of, index, place: offset >> 1, ..Tag::default() });
            }
        }
    }

    /// The completions of a read will return `tag`.
    pub(super) fn returns(&mut self, h: &Header, tag: Tag) {
        self.tables.tags[usize::from(h.tag)] = Tag { remaining: h.length, ..tag };
    }

    pub(super) fn read_nothing(&mut self, h: &Header) {
        self.unmatched_read();
        self.returns(h, Tag::default());
    }

    pub(super) fn failed_completion(&mut self, h: &Header) {
        if self.tables.tags[usize::from(h.tag)].remaining == 0 {
            return self.lose(source::TAGS);
        }
        self.reclaim(h.tag, true);
    }

    /// A completion with data for the drive.
    pub(super) fn completion(&mut self, h: &Header) {
        let tag = &mut self.tables.tags[usize::from(h.tag)];
        // Its read is over, or it is not split at the 64-byte read completion boundary.
        if tag.remaining == 0 || (tag.returns == Holds::Sq && h.length & 0xF != 0) {
            return self.lose(source::TAGS);
        }
        let mut t = std::mem::take(tag);
        match t.returns {
            Holds::Sq => self.sqes(h, &mut t),
            Holds::Unknown => {}
            Holds::BufferList => self.descriptors(h, &mut t),
            _ if self.lives(t.of) => self.data_completion(h, &mut t),
            _ => {}
        }
        t.remaining = t.remaining.saturating_sub(h.length);
        self.tables.tags[usize::from(h.tag)] = t;
    }

    fn data_completion(&mut self, h: &Header, t: &mut Tag) {
        let whole = h.length & 1 == 0;
        if t.returns == Holds::Either {
            let first = h.long(0);
            let list = whole && first & 0xFFF == 0 && first >> 52 == 0 && first != 0;
            t.returns = if list { Holds::List } else { Holds::Data };
        }
        match t.returns {
            Holds::List if whole => self.list(h, t),
            Holds::List => {}
            Holds::Segment => self.descriptors(h, t),
            _ => self.see_data(h, t.of.slot),
        }
        if t.returns == Holds::Ranges && h.length & 3 == 0 && t.index & 1 == 0 && !h.bad {
            self.ranges(h, t);
        }
    }

    fn list(&mut self, h: &Header, t: &mut Tag) {
        let Slot { pages_sure: sure, due, last, .. } = *self.slot(t.of.slot);
        let exact = due.is_some();
        let whole = (self.page_words() - 1) as u16;
        for k in 0..usize::from(h.length) / 2 {
            let address = h.long(2 * k);
            let number = u64::from(t.index) + 1; // of the page of the transfer, with PRP1's being 0
            let ends_page = (u64::from(t.place) + 1) << 1 == self.page_words();
            let entry = PageEntry {
                key: self.page_key(address),
                holds: match ends_page {
                    true if number + 1 < sure => Holds::List,
                    true if !exact => Holds::Either,
                    _ => Holds::Data,
                },
                start: 0,
                of: t.of,
                index: t.index & 0x3FFF,
                last: if number + 1 == sure { last } else { whole },
                doubtful: number >= sure,
            };
            t.index = t.index.wrapping_add(1);
            t.place = (t.place + 1) & 0x1FFF;
            // Beyond the need of a command of known length, entries are of old lists.
            let used = !exact || number < sure;
            if used && address >> 2 != 0 && self.page_offset(address) == 0 {
                self.insert(entry, false);
            }
            self.clocks += load::ENTRY;
        }
    }

    fn ranges(&mut self, h: &Header, t: &mut Tag) {
        for k in (0..usize::from(h.length)).step_by(4) {
            let slot = self.slot(t.of.slot);
            if t.index >> 1 < slot.ranges_expected {
                slot.command.blocks = slot.command.blocks.wrapping_add(h.word(k + 1));
                slot.ranges = (slot.ranges + 1) & 0x3FF;
            }
            if t.index == 0 {
                slot.command.slba = h.long(k + 2) & 0xFF_FFFF_FFFF;
            }
            t.index = t.index.wrapping_add(2);
            self.clocks += load::ENTRY;
        }
    }
}
