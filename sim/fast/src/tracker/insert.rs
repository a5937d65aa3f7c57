//! Inserting entries into the page map.

use super::engine::Engine;
use super::store::*;
use wattbell_spec::wire::{command_flag_code as flag, loss_source_code as source};

/// Index bits of an entry.
const INDEX: u64 = 0x3FFF;
/// For this long after an eviction, entries put into that page are flagged.
const CROWDED_TICKS: u64 = 1 << 24;

impl Engine {
    /// Enters what begins with `ins`. If it may end before its page does (`piece`): one piece for each granule up to
    /// `end`, which it certainly covers, followed by one doubtful entry if it may continue up to `most` (double words
    /// in the page).
    pub fn insert_span(&mut self, mut ins: PageEntry, mut piece: bool, end: u64, most: u64) {
        loop {
            self.insert(ins, piece);
            let start = u64::from(ins.start);
            let following = ((start >> GRANULE_BITS) + 1) << GRANULE_BITS;
            let behind = following >= end;
            if !piece || (behind && following >= most) || following >= self.page_words() {
                return;
            }
            ins.start = following as u16;
            ins.index = ((u64::from(ins.index) + ((following - start) >> 1)) & INDEX) as u16;
            if behind {
                (piece, ins.doubtful) = (false, true);
            }
        }
    }

    /// Whether the command that `entry` belongs to is in flight.
    pub fn lives(&self, entry: &PageEntry) -> bool {
        let slot = &self.tables.slots[usize::from(entry.slot)];
        slot.state == State::InFlight && slot.generation == entry.generation
    }

    fn flag_partial(&mut self, entry: &PageEntry) {
        self.slot(entry.slot).command.flags |= flag::DATA_PARTIAL;
    }

    /// Enters `ins`.
    pub fn insert(&mut self, ins: PageEntry, piece: bool) {
        if let Some((_, since)) = self.crowded.filter(|(key, _)| *key == ins.key && !ins.kind.is_pinned()) {
            if self.tick.wrapping_sub(since) >= CROWDED_TICKS {
                self.crowded = None;
            } else {
                self.flag_partial(&ins);
            }
        }
        let at: [usize; WAYS] = std::array::from_fn(|way| place(way, ins.key, ins.start));
        let same = |e: &PageEntry| e.valid && e.key == ins.key && e.start == ins.start;
        while let Some(way) = (0..WAYS).find(|&way| same(&self.tables.pages[at[way]])) {
            if !self.replace(ins, piece != (way >= PAGE_WAYS), at[way]) {
                return;
            }
        }
        // When looking for a place, pieces try their own ways first.
        let mine = if piece { PAGE_WAYS..WAYS } else { 0..PAGE_WAYS };
        if let Some(way) = mine.clone().find(|&way| !self.tables.pages[at[way]].valid) {
            self.tables.pages[at[way]] = ins;
            return;
        }
        let rest = if piece { 0..PAGE_WAYS } else { 0..0 };
        self.displace(ins, mine.chain(rest), &at);
    }

    /// The place `at` has an entry with the same page and start, in a way of the other kind (`elsewhere`) or not.
    /// Returns whether it was emptied and another place is to be found.
    fn replace(&mut self, ins: PageEntry, elsewhere: bool, at: usize) -> bool {
        let entry = self.tables.pages[at];
        match (entry.kind.is_pinned(), ins.kind.is_pinned()) {
            (true, false) => return false,
            (false, false) => {}
            _ => {
                self.tables.pages[at] = ins;
                return false;
            }
        }
        let (lives, other) = (self.lives(&entry), entry.slot != ins.slot);
        if lives && other && !ins.doubtful && !entry.doubtful {
            // Two commands on one buffer: whose transfer it is can no longer be told.
            self.flag_partial(&entry);
        }
        if lives && ins.doubtful && (other || !entry.doubtful) {
            return false;
        }
        // An entry for the page needs a place that holds to its end; pieces would crowd the few places of the page.
        self.tables.pages[at] = if elsewhere { PageEntry::default() } else { ins };
        elsewhere
    }

    /// All places of its kind are taken: the first stale entry is evicted, else a doubtful one, else round robin.
    fn displace(&mut self, ins: PageEntry, order: impl Iterator<Item = usize>, at: &[usize; WAYS]) {
        let mut spare = None;
        for way in order {
            let entry = &self.tables.pages[at[way]];
            if !entry.valid || (!entry.kind.is_pinned() && !self.lives(entry)) {
                self.tables.pages[at[way]] = ins;
                return;
            }
            if entry.doubtful {
                spare = Some(way);
            }
        }
        if ins.doubtful {
            return;
        }
        if let Some(way) = spare {
            self.tables.pages[at[way]] = ins;
            return;
        }
        for _ in 0..PAGE_WAYS {
            let at = at[self.victim];
            self.victim = (self.victim + 1) % PAGE_WAYS;
            let entry = self.tables.pages[at];
            if !entry.kind.is_pinned() {
                self.lose(source::PAGES);
                self.flag_partial(&entry);
                self.tables.pages[at] = ins;
                return self.flag_before(&entry);
            }
        }
        self.victim = (self.victim + 1) % PAGE_WAYS;
        self.lose(source::QUEUES);
    }

    /// `gone` was evicted: what its command still moves would be attributed to earlier entries in the page.
    fn flag_before(&mut self, gone: &PageEntry) {
        self.crowded = Some((gone.key, self.tick));
        for way in 0..WAYS {
            let entry = self.tables.pages[place(way, gone.key, gone.start)];
            let before = entry.valid && !entry.kind.is_pinned() && entry.key == gone.key && entry.start < gone.start;
            if before && self.lives(&entry) {
                self.flag_partial(&entry);
            }
        }
    }
}
