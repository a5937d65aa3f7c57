//! Scatter gather lists (NVM Express, Scatter Gather List): a data block, or a last segment of data blocks.

use super::prp::{ListRead, Pieces, PAGE};
use super::{number, Status};
use wattbell_bus::split;

/// Bytes of a descriptor.
pub const BYTES: usize = 16;
/// Descriptor types, in the upper half of the last byte.
const DATA_BLOCK: u8 = 0x0;
const LAST_SEGMENT: u8 = 0x3;

/// Resolves the descriptor of an SQE for `len` bytes. If `None` comes back, `pieces` is complete; else a list has to be read.
pub fn start(descriptor: &[u8], len: u32, pieces: &mut Pieces) -> Result<Option<ListRead>, Status> {
    if descriptor[15] >> 4 != LAST_SEGMENT {
        return go_on(descriptor, len, pieces).map(|()| None);
    }
    let (address, bytes) = (number(&descriptor[..8]), number(&descriptor[8..12]));
    if address % 8 != 0 || bytes == 0 || bytes % BYTES as u64 != 0 || bytes > PAGE {
        return Err(Status::INVALID_FIELD);
    }
    Ok(Some(ListRead { address, entries: (bytes / 8) as u32 }))
}

/// Takes up the data blocks of a segment; `rest` bytes of the transfer still need a place.
pub fn go_on(segment: &[u8], mut rest: u32, pieces: &mut Pieces) -> Result<(), Status> {
    for descriptor in segment.chunks_exact(BYTES) {
        if descriptor[15] >> 4 != DATA_BLOCK {
            return Err(Status::INVALID_FIELD);
        }
        let (address, bytes) = (number(&descriptor[..8]), number(&descriptor[8..12]) as u32);
        let taken = bytes.min(rest);
        pieces.extend(split::requests(address, taken, PAGE as u32));
        rest -= taken;
    }
    match rest {
        0 => Ok(()),
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Puts the SGL of `bytes` bytes at `buffer` into a submission queue entry. More than `block` bytes become several data blocks in `memory`,
/// which lies at `list`.
pub fn write(entry: &mut [u8; 64], buffer: u64, bytes: u64, block: u64, list: u64, memory: &mut [u8]) {
    entry[1] = 0x40; // PSDT
    if bytes <= block {
        return put(&mut entry[24..40], buffer, bytes, DATA_BLOCK);
    }
    for (descriptor, offset) in memory.chunks_exact_mut(BYTES).zip((0..bytes).step_by(block as usize)) {
        put(descriptor, buffer + offset, block.min(bytes - offset), DATA_BLOCK);
    }
    put(&mut entry[24..40], list, bytes.div_ceil(block) * BYTES as u64, LAST_SEGMENT);
}

fn put(descriptor: &mut [u8], address: u64, bytes: u64, kind: u8) {
    descriptor.fill(0);
    descriptor[..8].copy_from_slice(&address.to_le_bytes());
    descriptor[8..12].copy_from_slice(&(bytes as u32).to_le_bytes());
    descriptor[15] = kind << 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(bytes: u64, len: u32) -> Result<Pieces, Status> {
        let (mut entry, mut memory, mut pieces) = ([0; 64], [0; 64], Vec::new());
        write(&mut entry, 0x1_0200, bytes, 6144, 0x8000, &mut memory);
        if let Some(list) = start(&entry[24..40], len, &mut pieces)? {
            assert_eq!((list.address, u64::from(list.entries)), (0x8000, 2 * bytes.div_ceil(6144)));
            go_on(&memory[..8 * list.entries as usize], len, &mut pieces)?;
        }
        Ok(pieces)
    }

    #[test]
    fn what_the_host_writes_leads_the_drive_to_the_buffer() {
        assert_eq!(resolved(512, 512), Ok(vec![(0x1_0200, 512)]));
        assert_eq!(resolved(4096, 4096), Ok(vec![(0x1_0200, 3584), (0x1_1000, 512)]));
        let two = vec![(0x1_0200, 3584), (0x1_1000, 2560), (0x1_1A00, 1536), (0x1_2000, 512)];
        assert_eq!(resolved(8192, 8192), Ok(two));
        assert_eq!(resolved(8192, 8704), Err(Status::INVALID_FIELD));
    }

    #[test]
    fn other_descriptors_and_odd_segments_are_refused() {
        let refused = |kind: u8, address: u64, bytes: u64| {
            let mut descriptor = [0; BYTES];
            put(&mut descriptor, address, bytes, kind);
            start(&descriptor, 512, &mut Vec::new()).map(drop)
        };
        assert_eq!(refused(0x1, 0x1000, 512), Err(Status::INVALID_FIELD));
        assert_eq!(refused(LAST_SEGMENT, 0x1004, 32), Err(Status::INVALID_FIELD));
        assert_eq!(refused(LAST_SEGMENT, 0x1000, 24), Err(Status::INVALID_FIELD));
        assert_eq!(refused(LAST_SEGMENT, 0x1000, 32), Ok(()));
    }
}
