//! The virtual host's memory: a small backed region for queues and structures, and addresses for user data.

use super::cpu;
use crate::host::Host;
use crate::profile::Ps;
use std::collections::VecDeque;

/// Start of the backed region.
const BASE: u64 = 0x1000_0000;
/// Start of user data: above 4 GiB, as most of a PC's memory is.
const USER: u64 = 0x1_4000_0000;

/// Host memory, and the handlers of completions that arrived.
pub struct Memory {
    bytes: Vec<u8>,
    next: u64,
    next_user: u64,
    /// Memory that the host lent the drive, by address.
    lent: Vec<(u64, Vec<u8>)>,
    /// Queue and start of handlers that have not run.
    pub handlers: VecDeque<(u16, Ps)>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { bytes: Vec::new(), next: BASE, next_user: USER, lent: Vec::new(), handlers: VecDeque::new() }
    }
}

impl Memory {
    /// Backed, zeroed memory of `len` bytes at a page boundary.
    pub fn allocate(&mut self, len: u64) -> u64 {
        let at = self.next;
        self.next += len.next_multiple_of(4096);
        self.bytes.resize((self.next - BASE) as usize, 0);
        at
    }

    /// Addresses for `len` bytes of user data, at a page boundary. Nothing is kept there.
    pub fn allocate_user(&mut self, len: u64) -> u64 {
        let at = self.next_user;
        self.next_user += len.next_multiple_of(4096);
        at
    }

    /// Backed, zeroed memory of `len` bytes among the user data, to be lent to the drive.
    pub fn allocate_lent(&mut self, len: u64) -> u64 {
        let at = self.allocate_user(len);
        self.lent.push((at, vec![0; len as usize]));
        at
    }

    /// The bytes of lent memory at `address`.
    fn lent(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let place = self.lent.partition_point(|(at, _)| *at <= address).checked_sub(1)?;
        let (at, bytes) = &mut self.lent[place];
        let from = (address - *at) as usize;
        bytes.get_mut(from..from + len)
    }

    /// The backed bytes at `address`.
    pub fn at(&mut self, address: u64, len: usize) -> &mut [u8] {
        let from = (address - BASE) as usize;
        &mut self.bytes[from..from + len]
    }

    fn range(&self, address: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let from = address.checked_sub(BASE)? as usize;
        (from + len <= self.bytes.len()).then_some(from..from + len)
    }
}

impl Host for Memory {
    fn read(&mut self, address: u64, data: &mut [u8]) -> bool {
        let from = match self.range(address, data.len()) {
            Some(range) => &self.bytes[range],
            None => match self.lent(address, data.len()) {
                Some(lent) => lent,
                None => return false,
            },
        };
        data.copy_from_slice(from);
        true
    }

    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let to = match self.range(address, data.len()) {
            Some(range) => &mut self.bytes[range],
            None => match self.lent(address, data.len()) {
                Some(lent) => lent,
                None => return false,
            },
        };
        to.copy_from_slice(data);
        true
    }

    fn interrupt(&mut self, vector: u16, time_ps: Ps) {
        self.handlers.push_back((vector, time_ps + cpu::INTERRUPT));
    }

    fn posted(&mut self, cqid: u16, time_ps: Ps) {
        self.handlers.push_back((cqid, time_ps + cpu::POLL));
    }
}
