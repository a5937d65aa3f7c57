//! State of the traffic between the drive and the memory that the host lends it.

use crate::flash::Access;
use crate::host::{Host, LentTraffic};
use crate::pcie::port::Request;
use std::collections::{HashMap, VecDeque};

/// Bytes of a piece of [`Kept`].
const PIECE: usize = 64;
/// Bytes of a map entry.
const ENTRY: usize = 4;

/// A read that the root complex has not answered.
pub struct Asked {
    /// The request on the link.
    pub request: Request,
    /// Address in host memory.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// [`Lent::life`] when it was asked.
    pub life: u32,
}

/// Reads of lent memory that wait, and the traffic so far.
#[derive(Default)]
pub struct Lent {
    pub waiting: VecDeque<Access>,
    pub asked: VecDeque<Asked>,
    /// Reads that a host outside the model has not answered.
    pub wired: usize,
    /// Traffic since the drive was made.
    pub traffic: LentTraffic,
    /// Number of times that the memory's contents were forgotten.
    pub life: u32,
    kept: Kept,
}

impl Lent {
    /// Forgets the waiting reads and the memory's contents, at a controller reset or when the host takes the memory back. Outstanding reads are
    /// still answered.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.kept.pieces.clear();
        self.life += 1;
    }

    /// Writes new contents to host memory at `address`.
    pub fn write(&mut self, address: u64, len: u32, host: &mut dyn Host) {
        let data = self.kept.renew(len as usize);
        if host.write(address, &data) {
            self.kept.keep(address, &data);
        } else {
            self.traffic.unreachable += 1;
        }
    }

    /// Takes new contents for host memory at `address` as written, and returns them.
    pub fn renewed(&mut self, address: u64, len: u32) -> Vec<u8> {
        let data = self.kept.renew(len as usize);
        self.kept.keep(address, &data);
        data
    }

    /// Reads host memory at `address`, and compares the data with the drive's own writes, unless they were forgotten since the read's `life`.
    pub fn read(&mut self, address: u64, len: u32, life: u32, host: &mut dyn Host) {
        let mut data = vec![0; len as usize];
        let there = host.read(address, &mut data);
        self.seen(address, life, there.then_some(&data));
    }

    /// Compares the `data` of a read at `address` as above; `None`: there is no memory.
    pub fn seen(&mut self, address: u64, life: u32, data: Option<&Vec<u8>>) {
        let Some(data) = data else {
            self.traffic.unreachable += 1;
            return;
        };
        if life != self.life {
            self.traffic.forgotten_bytes += data.len() as u64;
            return;
        }
        let (known, wrong) = self.kept.compare(address, data);
        (self.traffic.known_bytes, self.traffic.wrong_bytes) =
            (self.traffic.known_bytes + known, self.traffic.wrong_bytes + wrong);
    }
}

/// The drive's copy of its writes to lent memory, by host address. Each entry holds a number that no earlier write had.
#[derive(Default)]
struct Kept {
    pieces: HashMap<u64, [Option<u8>; PIECE]>,
    written: u32,
}

impl Kept {
    /// New contents of `len` bytes.
    fn renew(&mut self, len: usize) -> Vec<u8> {
        let entries = len.div_ceil(ENTRY);
        let mut data = Vec::with_capacity(entries * ENTRY);
        for _ in 0..entries {
            self.written = self.written.wrapping_add(1);
            data.extend(self.written.to_le_bytes());
        }
        data.truncate(len);
        data
    }

    fn keep(&mut self, address: u64, data: &[u8]) {
        for (at, &byte) in (address..).zip(data) {
            self.pieces.entry(at / PIECE as u64).or_insert([None; PIECE])[at as usize % PIECE] = Some(byte);
        }
    }

    /// Counts the bytes of `data` that the drive had written, and the differing bytes among them.
    fn compare(&self, address: u64, data: &[u8]) -> (u64, u64) {
        let held = (address..).map(|at| self.pieces.get(&(at / PIECE as u64)).and_then(|p| p[at as usize % PIECE]));
        let known = held.zip(data).filter_map(|(held, &byte)| held.map(|held| held != byte));
        known.fold((0, 0), |(known, wrong), differs| (known + 1, wrong + u64::from(differs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 KiB of memory from address 0 on.
    struct Memory(Vec<u8>);

    impl Host for Memory {
        fn read(&mut self, address: u64, data: &mut [u8]) -> bool {
            let Some(held) = self.0.get(address as usize..address as usize + data.len()) else { return false };
            data.copy_from_slice(held);
            true
        }
        fn write(&mut self, address: u64, data: &[u8]) -> bool {
            let Some(held) = self.0.get_mut(address as usize..address as usize + data.len()) else { return false };
            held.copy_from_slice(data);
            true
        }
        fn interrupt(&mut self, _: u16, _: u64) {}
    }

    #[test]
    fn what_the_host_changes_is_noticed_and_what_the_drive_never_wrote_is_not_compared() {
        let (mut lent, mut host) = (Lent::default(), Memory(vec![0; 8192]));
        lent.write(4100, 64, &mut host);
        lent.write(4132, 4, &mut host);
        assert!(host.0[4100..4164].chunks(4).all(|entry| entry != [0; 4]), "every entry is written");
        lent.read(4100, 64, 0, &mut host);
        lent.read(4064, 64, 0, &mut host);
        assert_eq!((lent.traffic.known_bytes, lent.traffic.wrong_bytes), (64 + 28, 0));
        host.0[4133] ^= 0x10;
        lent.read(4100, 64, 0, &mut host);
        assert_eq!((lent.traffic.known_bytes, lent.traffic.wrong_bytes), (156, 1));
        lent.forget();
        lent.read(4100, 64, 1, &mut host);
        assert_eq!((lent.traffic.known_bytes, lent.traffic.forgotten_bytes, lent.traffic.unreachable), (156, 0, 0));
        lent.write(4100, 64, &mut host);
        lent.read(4100, 64, 0, &mut host);
        assert_eq!(
            (lent.traffic.known_bytes, lent.traffic.forgotten_bytes),
            (156, 64),
            "it was asked before the reset"
        );
        lent.read(4100, 64, 1, &mut host);
        assert_eq!((lent.traffic.known_bytes, lent.traffic.wrong_bytes), (220, 1));
    }

    #[test]
    fn memory_that_is_not_there_is_counted_and_never_known() {
        let (mut lent, mut host) = (Lent::default(), Memory(vec![0; 64]));
        lent.write(64, 64, &mut host);
        lent.read(64, 64, 0, &mut host);
        assert_eq!((lent.traffic.unreachable, lent.traffic.known_bytes), (2, 0));
    }
}
