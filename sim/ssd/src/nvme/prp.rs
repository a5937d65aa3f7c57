//! Physical region pages: the host addresses of a transfer (NVM Express, Physical Region Page Entry and List).

use super::{number, Status};

/// Host memory page in bytes; the model supports only CC.MPS 0.
pub const PAGE: u64 = 4096;

/// Pieces of host memory of a transfer, in order: address, length in bytes.
pub type Pieces = Vec<(u64, u32)>;

/// A read from the host that must precede knowing the pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRead {
    /// Address of the entries.
    pub address: u64,
    /// How many, 8 bytes each.
    pub entries: u32,
}

/// Resolves PRP1 and PRP2 for `len` bytes. If `None` comes back, `pieces` is complete; else a list has to be read.
pub fn start(prp1: u64, prp2: u64, len: u32, pieces: &mut Pieces) -> Result<Option<ListRead>, Status> {
    if prp1 % 4 != 0 {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    let first = (PAGE - prp1 % PAGE).min(u64::from(len)) as u32;
    pieces.push((prp1, first));
    match len - first {
        0 => Ok(None),
        rest if u64::from(rest) <= PAGE => {
            if prp2 % PAGE != 0 {
                return Err(Status::INVALID_PRP_OFFSET);
            }
            pieces.push((prp2, rest));
            Ok(None)
        }
        rest => list(prp2, rest).map(Some),
    }
}

/// Takes up the entries of a list; `rest` bytes of the transfer still need a place.
pub fn go_on(entries: &[u8], mut rest: u32, pieces: &mut Pieces) -> Result<Option<ListRead>, Status> {
    let pages = u64::from(rest).div_ceil(PAGE);
    let count = entries.len() as u64 / 8;
    for (i, entry) in entries.chunks_exact(8).enumerate() {
        let address = number(entry);
        if i as u64 + 1 == count && count < pages {
            return list(address, rest).map(Some); // the last entry of a full list page points to the next list
        }
        if address % PAGE != 0 {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        let n = rest.min(PAGE as u32);
        pieces.push((address, n));
        rest -= n;
    }
    Ok(None)
}

fn list(address: u64, rest: u32) -> Result<ListRead, Status> {
    if address % 8 != 0 {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    let room = (PAGE - address % PAGE) / 8;
    Ok(ListRead { address, entries: room.min(u64::from(rest).div_ceil(PAGE)) as u32 })
}

/// The parts of `pieces` that hold bytes `offset .. offset + len` of the transfer.
pub fn part(pieces: &Pieces, offset: u32, len: u32) -> impl Iterator<Item = (u64, u32)> + '_ {
    let end = offset + len;
    let mut base = 0;
    pieces.iter().filter_map(move |&(address, n)| {
        let (from, to) = (offset.max(base), end.min(base + n));
        let out = (from < to).then(|| (address + u64::from(from - base), to - from));
        base += n;
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Lays out a transfer in memory as a host would, with the list starting anywhere in its page, and resolves it.
        #[test]
        fn a_layout_made_by_a_host_is_found_again(len in 1u32..5_000_000, offset in 0u64..1024, at in 0u64..512) {
            let offset = offset * 4;
            let mut want = vec![(0x10_0000 + offset, len.min(4096 - offset as u32))];
            let mut rest = len - want[0].1;
            let mut page = 0x20_0000;
            while rest > 0 {
                want.push((page, rest.min(4096)));
                rest -= rest.min(4096);
                page += 8192;
            }
            let pages: Vec<u64> = want.iter().skip(1).map(|w| w.0).collect();
            let mut memory: HashMap<u64, u64> = HashMap::new();
            let mut list = 0x9000_0000 + at * 8;
            let prp2 = if pages.len() > 1 { list } else { pages.first().copied().unwrap_or(0) };
            for (i, &p) in pages.iter().enumerate() {
                if list % 4096 == 4088 && i + 1 < pages.len() {
                    let next = (list & !4095) + 0x3000;
                    memory.insert(list, next);
                    list = next;
                }
                memory.insert(list, p);
                list += 8;
            }
            let mut pieces = vec![];
            let mut next = start(0x10_0000 + offset, prp2, len, &mut pieces).unwrap();
            while let Some(read) = next {
                let bytes: Vec<u8> =
                    (0..u64::from(read.entries)).flat_map(|i| memory[&(read.address + 8 * i)].to_le_bytes()).collect();
                let placed: u32 = pieces.iter().map(|p| p.1).sum();
                next = go_on(&bytes, len - placed, &mut pieces).unwrap();
            }
            prop_assert_eq!(&pieces, &want);
            let middle: Vec<_> = part(&pieces, len / 3, len / 2).collect();
            prop_assert_eq!(middle.iter().map(|p| p.1).sum::<u32>(), len / 2);
        }
    }

    #[test]
    fn offsets_that_are_not_allowed() {
        let mut p = vec![];
        assert_eq!(start(2, 0, 512, &mut p), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(start(0x1000, 0x2010, 8192, &mut p), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(start(0x1000, 0x2004, 16384, &mut p), Err(Status::INVALID_PRP_OFFSET));
        assert_eq!(go_on(&0x2008u64.to_le_bytes(), 4096, &mut p), Err(Status::INVALID_PRP_OFFSET));
    }
}
