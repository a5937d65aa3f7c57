//! The host memory buffer (NVMe, Host Memory Buffer) in use: it is lent, read, written and taken back.

use super::descriptors::first_half;
use super::header::Header;
use super::lent::{Range, UNIT_BITS};
use super::store::{Holds, Tag};
use super::Tracker;
use crate::time::Clock;
use wattbell_spec::wire::loss_source_code as source;

/// Ranges that are known at most.
const RANGES: usize = 32;
/// Pages of 4 KiB from which on a range is not followed.
const PAGES_LIMIT: u64 = 1 << 24;
/// Descriptors of a list that are followed.
const LIST_LIMIT: u32 = 1 << 12;
impl Tracker {
    /// Enters a range, unless it begins in one that is known.
    fn enter_range(&mut self, new: Range) {
        self.clocks += self.host_buffer.ranges.len() as Clock;
        if self.host_buffer.find(new.start << UNIT_BITS).is_some() {
            return;
        }
        let ranges = &mut self.host_buffer.ranges;
        let full = ranges.len() == RANGES;
        let joins = |last: &Range| {
            let both_pages = !last.list && !new.list;
            both_pages && last.start + last.count == new.start && (last.count + new.count) >> 32 == 0
        };
        match ranges.last_mut() {
            Some(last) if joins(last) => last.count += new.count,
            _ if full => self.lose(source::PAGES),
            _ => ranges.push(new),
        }
    }

    /// Set Features is on its way, with a list of descriptors.
    pub(super) fn lend_list(&mut self, low: u32, high: u32, entries: u32) {
        let start = (u64::from(low) | u64::from(high) << 32) >> UNIT_BITS;
        if entries >= LIST_LIMIT {
            self.lose(source::PAGES);
        } else if entries != 0 {
            self.enter_range(Range { start, count: entries.into(), list: true });
        }
    }

    /// A descriptor of that list: address, and size in pages.
    pub(super) fn lend(&mut self, d: [u32; 4]) {
        let page_bits = 12 + self.mps;
        let start = (u64::from(d[0]) | u64::from(d[1]) << 32) >> page_bits << (page_bits - UNIT_BITS);
        let pages = u64::from(d[2]) << self.mps;
        if pages >= PAGES_LIMIT {
            self.lose(source::PAGES);
        } else if pages != 0 {
            self.enter_range(Range { start, count: pages << (12 - UNIT_BITS), list: false });
        }
    }

    /// The host takes its memory back.
    pub(super) fn take_back(&mut self) {
        self.host_buffer.ranges.clear();
    }

    /// Takes a read or write of the drive in the buffer or its list; returns whether it was one.
    pub(super) fn uses_buffer(&mut self, h: &Header, reads: bool) -> bool {
        if self.host_buffer.ranges.is_empty() {
            return false;
        }
        self.clocks += self.host_buffer.ranges.len() as Clock;
        let Some(range) = self.host_buffer.find(h.address) else { return false };
        let bytes = 4 * u64::from(h.length);
        match (range.list, reads) {
            (false, true) => {
                self.counters.hmb_reads = self.counters.hmb_reads.wrapping_add(1);
                self.counters.hmb_read_bytes += bytes;
                self.returns(h, Tag::default());
            }
            (false, false) => {
                self.counters.hmb_writes = self.counters.hmb_writes.wrapping_add(1);
                self.counters.hmb_written_bytes += bytes;
            }
            (true, true) if h.address >> 2 & 3 == 0 => {
                let left = range.count - ((h.address >> UNIT_BITS) - range.start);
                self.returns(h, Tag { returns: Holds::BufferList, index: first_half(4 * left), ..Tag::default() });
            }
            (true, true) => self.read_nothing(h),
            (true, false) => self.unmatched(),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattbell_bus::{Header as TlpHeader, Tlp};

    /// A read of 16 bytes.
    fn read(address: u32) -> Header {
        let mut header = [0, 0, 0, 4, 1, 0, 9, 0xFF, 0, 0, 0, 0];
        header[8..].copy_from_slice(&address.to_be_bytes());
        Header::decode(true, 0, Tlp::new(TlpHeader::from_bytes(&header).unwrap(), Some(vec![])), false)
    }

    fn lending() -> Tracker {
        let mut tracker = Tracker::new(0);
        tracker.lend_list(0x5000, 0, 3);
        for start in [0x1_0000, 0x1_2000, 0x1_0000, 0x2_0000] {
            tracker.lend([start, 0, 2, 0]);
        }
        tracker
    }

    #[test]
    fn ranges_side_by_side_become_one() {
        let mut tracker = lending();
        assert_eq!(tracker.host_buffer.ranges.len(), 3);
        for (address, inside) in
            [(0x0_FFF0, false), (0x1_0000, true), (0x1_3FF0, true), (0x1_4000, false), (0x2_1FF0, true)]
        {
            assert_eq!(tracker.uses_buffer(&read(address), true), inside);
        }
        assert_eq!((tracker.counters.hmb_reads, tracker.counters.hmb_read_bytes), (3, 48));
        tracker.take_back();
        assert!(!tracker.uses_buffer(&read(0x1_0000), true));
    }

    #[test]
    fn a_list_is_followed_by_whole_descriptors() {
        let mut tracker = lending();
        for (address, returns) in [(0x5010, Holds::BufferList), (0x5004, Holds::Unknown)] {
            assert!(tracker.uses_buffer(&read(address), true));
            assert_eq!(tracker.tables.tags[9].returns, returns);
        }
    }

    #[test]
    fn a_range_without_room_is_a_loss() {
        let mut tracker = Tracker::new(0);
        (0..=RANGES as u32).for_each(|k| tracker.lend([k << 16, 1, 1, 0]));
        tracker.lend([0, 2, 1 << 24, 0]);
        tracker.lend_list(0, 3, LIST_LIMIT);
        assert_eq!((tracker.host_buffer.ranges.len(), tracker.made.losses.len()), (RANGES, 3));
    }
}
