//! Descriptors of 16 bytes that the drive reads: of scatter gather lists (NVMe, SGL Descriptor), and of a host memory buffer.

use super::header::Header;
use super::store::*;
use super::{load, Tracker};
use wattbell_spec::wire::command_flag_code as flag;

const DATA_BLOCK: u32 = 0x0;
const BIT_BUCKET: u32 = 0x1;
const SEGMENT: u32 = 0x2;
const LAST_SEGMENT: u32 = 0x3;
/// Bytes from which on a block, and a segment, is not followed.
const BLOCK_LIMIT: u32 = 1 << 25;
const SEGMENT_LIMIT: u32 = 1 << 16;
/// Mask and highest bit of the number of a descriptor's half, which counts up to 0 at the end of its segment or list.
const HALF: u16 = 0x3FFF;
const BEFORE_END: u16 = 0x2000;

/// Number of the first of so many double words, two for each half of a descriptor.
pub fn first_half(dws: u64) -> u16 {
    (dws >> 1).wrapping_neg() as u16 & HALF
}

impl Tracker {
    /// Takes the SGL descriptor `d` of the command in `slot`.
    pub(super) fn describe(&mut self, slot: u16, d: [u32; 4]) {
        let Slot { id: of, command, .. } = *self.slot(slot);
        let (address, bytes) = (u64::from(d[0]) | u64::from(d[1]) << 32, d[2]);
        let enter = |holds, index| PageEntry { holds, of, index, ..PageEntry::default() };
        // A type with its sub type: 0 is an address.
        match (d[3] >> 28, d[3] >> 24 & 0xF) {
            (DATA_BLOCK | BIT_BUCKET, 0) if bytes & 3 != 0 || bytes >= BLOCK_LIMIT => self.not_followed(slot),
            (DATA_BLOCK, 0) if address & 3 == 0 => {
                if bytes != 0 {
                    self.enter_buffer(enter(Holds::Data, 0), address, u64::from(bytes >> 2));
                }
            }
            // It discards data that is read; of data that is written it takes nothing.
            (BIT_BUCKET, 0) => {
                if command.opcode & 3 == 2 {
                    let discarded = &mut self.slot(slot).discarded;
                    *discarded = discarded.saturating_add(bytes >> 2);
                }
            }
            (SEGMENT | LAST_SEGMENT, 0) if address & 7 == 0 && bytes & 0xF == 0 && bytes < SEGMENT_LIMIT => {
                let dws = u64::from(bytes >> 2);
                if bytes != 0 {
                    self.enter_buffer(enter(Holds::Segment, first_half(dws)), address, dws);
                }
            }
            _ => self.not_followed(slot),
        }
    }

    /// First and last data of this command may be missing.
    pub(super) fn not_followed(&mut self, slot: u16) {
        self.slot(slot).command.flags |= flag::DATA_PARTIAL;
    }

    /// A completion with descriptors.
    pub(super) fn descriptors(&mut self, h: &Header, t: &mut Tag) {
        let of_buffer = t.returns == Holds::BufferList;
        if h.length & 3 != 0 || t.index & 1 != 0 {
            return if of_buffer { self.unmatched() } else { self.not_followed(t.of.slot) };
        }
        for k in (0..usize::from(h.length)).step_by(4) {
            if t.index & BEFORE_END == 0 {
                return;
            }
            let d = std::array::from_fn(|word| h.word(k + word));
            if of_buffer {
                self.lend(d);
            } else {
                self.describe(t.of.slot, d);
            }
            t.index = t.index.wrapping_add(2) & HALF;
            self.clocks += load::ENTRY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use wattbell_bus::{Header as TlpHeader, Tlp};

    /// A tracker with a command in flight in slot 0.
    fn tracker(opcode: u8) -> Tracker {
        let mut tracker = Tracker::new(0);
        let command = Command { opcode, qid: 1, ..Command::default() };
        assert_eq!(tracker.allocate(State::InFlight, 0, command), Some(0));
        tracker
    }

    fn discarded(opcode: u8) -> u32 {
        let mut tracker = tracker(opcode);
        tracker.describe(0, [0, 0, 512, BIT_BUCKET << 28]);
        assert_eq!(tracker.slot(0).command.flags, 0);
        tracker.slot(0).discarded
    }

    #[test]
    fn a_bit_bucket_discards_what_is_read() {
        assert_eq!((discarded(2), discarded(1)), (128, 0));
    }

    #[test]
    fn descriptors_end_with_their_segment() {
        let mut tracker = tracker(2);
        let bucket = [0, 0, 512, BIT_BUCKET << 28].map(u32::to_le_bytes).concat();
        let header = [0x4A, 0, 0, 8, 0, 0, 0, 32, 0, 0, 0, 0];
        let tlp = Tlp::new(TlpHeader::from_bytes(&header).unwrap(), Some([bucket.clone(), bucket].concat()));
        let h = Header::decode(false, 0, tlp, false);
        let mut t = Tag { returns: Holds::Segment, of: tracker.slot(0).id, index: first_half(4), ..Tag::default() };
        tracker.descriptors(&h, &mut t);
        assert_eq!((tracker.slot(0).discarded, t.index), (128, 0));
    }

    #[test]
    fn what_is_not_followed_is_flagged() {
        for d in
            [[0, 0, 510, 0], [2, 0, 512, 0], [0, 0, 512, 1 << 24], [0, 0, 32, 4 << 28], [4, 0, 32, LAST_SEGMENT << 28]]
        {
            let mut tracker = tracker(2);
            tracker.describe(0, d);
            assert_eq!(tracker.slot(0).command.flags, flag::DATA_PARTIAL);
        }
    }
}
