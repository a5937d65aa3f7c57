//! Inserting entries into the page map.

use super::store::*;
use super::Tracker;
use wattbell_spec::wire::{command_flag_code as flag, loss_source_code as source};

/// Index bits of an entry.
const INDEX: u64 = 0x3FFF;
/// For this long after an eviction, entries put into that page are flagged.
const CROWDED_TICKS: u64 = 1 << 24;

impl Tracker {
    /// Enters what begins with `ins`. If it may end before its page does (`piece`): one piece for each granule up to
    /// `end`, which it certainly covers, followed by one doubtful entry if it may continue up to `most` (double words
    /// in the page).
    pub(super) fn insert_span(&mut self, mut ins: PageEntry, mut piece: bool, end: u64, most: u64) {
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

    pub(super) fn flag_partial(&mut self, entry: &PageEntry) {
        self.slot(entry.of.slot).command.flags |= flag::DATA_PARTIAL;
    }

    /// Enters `ins`.
    pub(super) fn insert(&mut self, ins: PageEntry, piece: bool) {
        if let Some((_, since)) = self.crowded.filter(|(key, _)| *key == ins.key && !ins.is_pinned()) {
            if self.tick.wrapping_sub(since) >= CROWDED_TICKS {
                self.crowded = None;
            } else {
                self.flag_partial(&ins);
            }
        }
        if self.ousted > 0 && !ins.is_pinned() {
            self.slot(ins.of.slot).shared = true;
        }
        let at = places(ins.key, ins.start);
        let same = |e: &PageEntry| e.key == ins.key && e.start == ins.start;
        while let Some((way, entry)) = (0..WAYS).find_map(|way| Some((way, self.tables.pages[at[way]].filter(same)?))) {
            if !self.replace(&ins, piece != (way >= PAGE_WAYS), &entry, at[way]) {
                return;
            }
        }
        // When looking for a place, pieces try their own ways first: an empty one of these, then a stale entry's, else a
        // doubtful one's, which do not displace each other.
        let mine = if piece { PAGE_WAYS..WAYS } else { 0..PAGE_WAYS };
        let mut all = mine.clone().chain(if piece { 0..PAGE_WAYS } else { 0..0 });
        let entry = |way: usize| self.tables.pages[at[way]];
        let gone = |way: &usize| entry(*way).is_none_or(|e| !e.is_pinned() && !self.lives(e.of));
        let gives_way = |way: &usize| !ins.doubtful && entry(*way).is_some_and(|e| e.doubtful);
        let mut place = mine.clone().find(|way| entry(*way).is_none()).or_else(|| all.clone().find(gone));
        place = place.or_else(|| all.rfind(gives_way));
        match place {
            Some(way) => self.tables.pages[at[way]] = Some(ins),
            None if ins.doubtful => {}
            None => self.displace(ins, &at),
        }
    }

    /// The place `at` has an `entry` with the same page and start as `ins`, in a way of the other kind (`elsewhere`) or
    /// not. Returns whether it was emptied and another place is to be found.
    fn replace(&mut self, ins: &PageEntry, elsewhere: bool, entry: &PageEntry, at: usize) -> bool {
        if entry.is_pinned() || ins.is_pinned() {
            if ins.is_pinned() {
                self.tables.pages[at] = Some(*ins);
            }
            return false;
        }
        let (lives, other) = (self.lives(entry.of), entry.of.slot != ins.of.slot);
        let Slot { epoch, due, .. } = self.slots[usize::from(entry.of.slot)];
        // With a known length, a doubtful entry is the rest of a list's page.
        if lives && other && !ins.doubtful && (!entry.doubtful || due.is_none()) {
            // Two commands on one buffer: whose transfer it is can no longer be told. A command from before a loss is most likely over.
            self.flag_partial(entry);
            if epoch == self.epoch {
                self.slot(ins.of.slot).shared = true;
                self.oust(entry.of.slot);
            }
        }
        if lives && ins.doubtful && (other || !entry.doubtful) {
            if other && self.slot(ins.of.slot).due.is_none() {
                // If it uses the page, its data is taken for the other's. With a known length it is the rest of a list's page.
                self.flag_partial(ins);
            }
            return false;
        }
        // An entry for the page needs a place that holds to its end; pieces would crowd the few places of the page.
        self.tables.pages[at] = (!elsewhere).then_some(*ins);
        elsewhere
    }

    /// The command in `slot` is in flight, and another one has its page now. The entry does not tell this to those that take it over later.
    fn oust(&mut self, slot: u16) {
        if !std::mem::replace(&mut self.slot(slot).ousted, true) {
            self.ousted += 1;
        }
    }

    /// All places are taken by sure entries of commands in flight: one goes, round robin. What its command still moves
    /// would be attributed to earlier entries in the page.
    fn displace(&mut self, ins: PageEntry, at: &[usize; WAYS]) {
        for _ in 0..PAGE_WAYS {
            let place = &mut self.tables.pages[at[self.victim]];
            self.victim = (self.victim + 1) % PAGE_WAYS;
            if let Some(gone) = place.filter(|e| !e.is_pinned()) {
                *place = Some(ins);
                self.lose(source::PAGES);
                self.flag_partial(&gone);
                self.crowded = Some((gone.key, self.tick));
                for at in places(gone.key, gone.start) {
                    let before = self.tables.pages[at].filter(|e| e.key == gone.key && e.start < gone.start);
                    if let Some(entry) = before.filter(|e| !e.is_pinned() && self.lives(e.of)) {
                        self.flag_partial(&entry);
                    }
                }
                return;
            }
        }
        self.victim = (self.victim + 1) % PAGE_WAYS;
        self.lose(source::QUEUES);
    }
}
