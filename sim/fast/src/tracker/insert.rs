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
    /// in the page). States started after the present one; ends in the last of them.
    pub fn insert_span(&mut self, mut ins: PageEntry, mut piece: bool, end: u64, most: u64) {
        if !piece {
            return self.insert(ins, false);
        }
        self.go(); // SPAN
        loop {
            self.insert(ins, piece);
            self.go(); // SPAN_NEXT
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
    fn lives(&self, entry: &PageEntry) -> bool {
        let slot = &self.tables.slots[usize::from(entry.slot)];
        slot.state == State::InFlight && slot.generation == entry.generation
    }

    /// Enters `ins`: states started after the present one; ends in the last of them.
    pub fn insert(&mut self, ins: PageEntry, piece: bool) {
        self.go(); // INSERT
        if let Some((key, since)) = self.crowded {
            if key == ins.key && !ins.kind.is_pinned() {
                self.go(); // INSERT_CROWDED
                if self.tick.wrapping_sub(since) >= CROWDED_TICKS {
                    self.crowded = None;
                } else {
                    self.slot(ins.slot).flags |= flag::DATA_PARTIAL;
                }
            }
        }
        let at: [usize; WAYS] = std::array::from_fn(|way| place(way, ins.key, ins.start));
        loop {
            self.go(); // INSERT_COMPARE
            self.go(); // INSERT_CHOOSE
            let entries = at.map(|at| self.tables.pages[at]);
            let same = entries.iter().position(|e| e.valid && e.key == ins.key && e.start == ins.start);
            if let Some(way) = same {
                if self.replace(ins, piece, way, at[way]) {
                    self.go(); // INSERT_AGAIN
                    continue;
                }
                return;
            }
            // When looking for a place, pieces try their own ways first.
            let mine = if piece { PAGE_WAYS..WAYS } else { 0..PAGE_WAYS };
            let empty = mine.clone().find(|&way| !entries[way].valid);
            if let Some(way) = empty {
                self.tables.pages[at[way]] = ins;
                return;
            }
            let rest = if piece { 0..PAGE_WAYS } else { 0..0 };
            return self.displace(ins, mine.chain(rest), &at, &entries);
        }
    }

    /// All places of its kind are taken: the first stale entry is evicted, else a doubtful one, else round robin.
    fn displace(
        &mut self,
        ins: PageEntry,
        order: impl Iterator<Item = usize>,
        at: &[usize; WAYS],
        entries: &[PageEntry; WAYS],
    ) {
        let mut spare = None;
        for way in order {
            self.go(); // INSERT_SCAN
            self.go(); // INSERT_STALE
            let entry = &entries[way];
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
        let mut next = self.victim + 1;
        let mut entry = entries[self.victim];
        for way in 0..PAGE_WAYS {
            self.go(); // INSERT_EVICT
            if !entry.kind.is_pinned() {
                self.go(); // INSERT_EVICTED
                self.lose(source::PAGES);
                self.slot(entry.slot).flags |= flag::DATA_PARTIAL;
                self.victim = next % PAGE_WAYS;
                self.tables.pages[at[(next - 1) % PAGE_WAYS]] = ins;
                return self.flag_before(entry);
            }
            entry = entries[next % PAGE_WAYS];
            next += 1;
            if way == PAGE_WAYS - 1 {
                self.lose(source::QUEUES);
            }
        }
        self.victim = next % PAGE_WAYS;
    }

    /// `gone` was evicted: what its command still moves would be attributed to earlier entries in the page.
    fn flag_before(&mut self, gone: PageEntry) {
        self.crowded = Some((gone.key, self.tick));
        self.go(); // INSERT_BEFORE
        for way in 0..WAYS {
            self.go(); // INSERT_BEFORE_WAY
            self.go(); // INSERT_BEFORE_FLAG
            let entry = self.tables.pages[place(way, gone.key, gone.start)];
            let before = entry.valid && !entry.kind.is_pinned() && entry.key == gone.key && entry.start < gone.start;
            if before && self.lives(&entry) {
                self.slot(entry.slot).flags |= flag::DATA_PARTIAL;
            }
        }
    }

    /// An entry with the same page and start is in `way`. Returns whether it was emptied and another place is to be
    /// found.
    fn replace(&mut self, ins: PageEntry, piece: bool, way: usize, at: usize) -> bool {
        self.go(); // INSERT_SAME
        let entry = self.tables.pages[at];
        match (entry.kind.is_pinned(), ins.kind.is_pinned()) {
            (true, false) => return false,
            (false, false) => {}
            _ => {
                self.tables.pages[at] = ins;
                return false;
            }
        }
        self.go(); // INSERT_REPLACE
        let (lives, other) = (self.lives(&entry), entry.slot != ins.slot);
        if lives && other && !ins.doubtful && !entry.doubtful {
            // Two commands on one buffer: whose transfer it is can no longer be told.
            self.slot(entry.slot).flags |= flag::DATA_PARTIAL;
        }
        if lives && ins.doubtful && (other || !entry.doubtful) {
            return false;
        }
        // An entry for the page needs a place that holds to its end; pieces would crowd the few places of the page.
        let elsewhere = piece != (way >= PAGE_WAYS);
        self.tables.pages[at] = if elsewhere { PageEntry::default() } else { ins };
        elsewhere
    }
}
