//! Formats of namespaces, from Identify data and Format NVM.

use super::store::Id;

/// Namespaces with a kept format: one for each value of the low bits of an NSID.
const NAMESPACES: usize = 32;
/// LBA formats of a namespace.
const FORMATS: usize = 16;
/// Double words of Identify data, and the place in it of FLBAS and of the first LBA format (NVMe, Identify Namespace).
pub const IDENTIFY_DWS: u16 = 1024;
const FLBAS: u16 = 6;
const LBAF: u16 = 32;
/// Mask of the parts of Identify data that were seen: a bit for each LBA format, and one for FLBAS.
const ALL_SEEN: u32 = (1 << (FORMATS + 1)) - 1;
/// Logarithms of a block's bytes that are taken for one (NVMe, LBA Format: LBADS).
const LBADS: std::ops::RangeInclusive<u32> = 9..=16;

/// A namespace by the low bits of its NSID.
#[derive(Debug, Clone, Copy, Default)]
struct Namespace {
    nsid: u16,
    /// FLBAS: bits 3:0 and 6:5 index of its LBA format, bit 4 metadata behind each block.
    flbas: u8,
    /// Its formats are known; its own one is known, too.
    known: bool,
    valid: bool,
    /// Words of the LBA format table: MS 15:0, LBADS 23:16.
    formats: [u32; FORMATS],
}

/// Formats of namespaces, of Identify data and of Format NVM.
#[derive(Debug, Default)]
pub struct Namespaces {
    table: [Namespace; NAMESPACES],
    /// The Identify command in hand, and its parts that were seen.
    of: Option<Id>,
    seen: u32,
}

fn at(nsid: u16) -> usize {
    usize::from(nsid) % NAMESPACES
}

impl Namespaces {
    /// Format and metadata's place of a namespace, if they are known.
    fn format(&self, nsid: u32) -> Option<(u32, u8)> {
        let one = &self.table[at(nsid as u16)];
        let known = one.valid && u32::from(one.nsid) == nsid && one.flbas & 0x60 == 0;
        known.then(|| (one.formats[usize::from(one.flbas & 0xF)], one.flbas))
    }

    /// Double words of a block in the data buffer.
    pub fn block(&self, nsid: u32, protected: bool) -> Option<u32> {
        let (format, flbas) = self.format(nsid)?;
        let (lbads, metadata, extended) = (format >> 16 & 0xFF, format & 0xFFFF, flbas & 0x10 != 0);
        // The drive may make and check protection information by itself; it depends on more than the format whether the host then sees it.
        if !LBADS.contains(&lbads) || (extended && metadata != 0 && (protected || metadata & 3 != 0)) {
            return None;
        }
        let more = if extended { metadata >> 2 } else { 0 };
        Some((1 << (lbads - 2)) + more)
    }

    /// Bytes of a block's metadata in a buffer of its own; unknown if None.
    pub fn metadata_apart(&self, nsid: u32) -> Option<u32> {
        let (format, flbas) = self.format(nsid)?;
        Some(if flbas & 0x10 == 0 { format & 0xFFFF } else { 0 })
    }

    /// Format NVM or Namespace Management is on its way: formats change, and the new one is known at its end only.
    pub fn doubt(&mut self, lists: bool) {
        for one in &mut self.table {
            one.valid = false;
            one.known &= !lists;
        }
    }

    /// Format NVM has ended without error.
    pub fn formatted(&mut self, nsid: u16, cdw10: u32) {
        let one = &mut self.table[at(nsid)];
        if one.known && one.nsid == nsid && cdw10 >> 12 & 3 == 0 {
            (one.flbas, one.valid) = ((cdw10 & 0x1F) as u8, true);
        }
    }

    /// Takes a TLP's part of the Identify data of command `of`, from double word `place` on; `words` is None if the payload was not kept.
    pub fn take(&mut self, of: Id, nsid: u16, place: u16, words: Option<impl Iterator<Item = u32>>) {
        let one = &mut self.table[at(nsid)];
        if self.of != Some(of) {
            (self.of, self.seen) = (Some(of), 0);
            (one.known, one.valid) = (false, false);
        }
        let Some(words) = words else { return };
        let mut place = place;
        for word in words {
            match place {
                FLBAS => {
                    (one.nsid, one.flbas) = (nsid, (word >> 16 & 0x7F) as u8);
                    self.seen |= 1 << FORMATS;
                }
                LBAF.. if place < LBAF + FORMATS as u16 => {
                    one.formats[usize::from(place - LBAF)] = word & 0xFF_FFFF;
                    self.seen |= 1 << (place - LBAF);
                }
                _ => {}
            }
            place = (place + 1) % IDENTIFY_DWS;
        }
        if self.seen == ALL_SEEN {
            (one.known, one.valid) = (true, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace 1 of 512 + 8 and 4096 + 8 bytes.
    fn spaces(flbas: u8) -> Namespaces {
        let mut made = Namespaces::default();
        let mut formats = [0; FORMATS];
        (formats[0], formats[1]) = (9 << 16 | 8, 12 << 16 | 8);
        made.table[1] = Namespace { nsid: 1, flbas, known: true, valid: true, formats };
        made
    }

    #[test]
    fn a_block_has_its_metadata_where_it_is_behind_each() {
        assert_eq!((spaces(0x00).block(1, false), spaces(0x00).metadata_apart(1)), (Some(128), Some(8)));
        assert_eq!((spaces(0x11).block(1, false), spaces(0x11).metadata_apart(1)), (Some(1026), Some(0)));
        assert_eq!(spaces(0x11).block(1, true), None);
        assert_eq!(spaces(0x02).block(1, false), None);
        assert_eq!(spaces(0x20).block(1, false), None);
        assert_eq!(spaces(0x00).block(33, false), None);
        assert_eq!(spaces(0x00).block(0x1_0001, false), None);
    }

    #[test]
    fn a_format_is_unknown_until_its_command_ends() {
        let mut one = spaces(0);
        one.doubt(false);
        assert_eq!(one.block(1, false), None);
        one.formatted(1, 0x11);
        assert_eq!(one.block(1, false), Some(1026));
        one.doubt(true);
        one.formatted(1, 0);
        assert_eq!(one.block(1, false), None);
    }
}
