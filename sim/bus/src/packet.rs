//! TLPs that arrive, read field by field: requests and completions (PCIe Base Specification 4.0, 2.2.5 to 2.2.9).

use crate::tlp::{Bdf, Header, Tlp};

/// A request for bytes, of a memory, I/O or configuration kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The requester.
    pub requester: Bdf,
    /// The request's tag.
    pub tag: u16,
    /// Byte address, a multiple of 4.
    pub address: u64,
    /// Double words.
    pub dws: u32,
    /// Enabled bytes of the first and the last double word, as on the wire.
    pub enables: (u8, u8),
}

impl Asked {
    /// Enabled bytes of double word `index`; bit 0 is the byte at the lowest address.
    pub fn enabled(&self, index: u32) -> u8 {
        match index {
            0 => self.enables.0,
            last if last + 1 == self.dws => self.enables.1,
            _ => 0xF,
        }
    }

    /// Address of the first enabled byte, and bytes from there to the last one (table 2-39). A read of no bytes counts as one byte.
    pub fn range(&self) -> (u64, u32) {
        let (first, last) = (self.enables.0, if self.dws == 1 { self.enables.0 } else { self.enables.1 });
        if self.dws == 1 && first == 0 {
            return (self.address, 1);
        }
        let (from, unused) = (first.trailing_zeros().min(3), (last << 4).leading_zeros().min(3));
        (self.address + u64::from(from), 4 * self.dws - from - unused)
    }
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The requester that it goes to.
    pub requester: Bdf,
    /// Tag of the request.
    pub tag: u16,
    /// Completion status; 0 is success.
    pub status: u8,
    /// Bytes still owed, these included.
    pub byte_count: u32,
    /// Low 7 bits of the address of its first byte.
    pub lower_address: u8,
}

/// The kind of a TLP, with its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    /// Memory read.
    Read(Asked),
    /// Memory write.
    Write(Asked),
    /// Type 0 configuration read: target, register.
    ConfigRead(Asked, Bdf, u16),
    /// Type 0 configuration write: target, register.
    ConfigWrite(Asked, Bdf, u16),
    /// Completion, with data or without.
    Completion(Answered),
    /// Message: posted, and wants no answer.
    Message,
    /// A request of another kind that wants an answer; bytes that a completion counts.
    Other(Asked),
}

impl Packet {
    /// Reads the header of a TLP. The error names the fault.
    pub fn of(tlp: &Tlp) -> Result<Self, String> {
        let header = &tlp.header;
        let b = header.as_bytes();
        let (kind, data) = (b[0] & 0x1F, b[0] & 0x40 != 0);
        if b[0] & 0x80 != 0 {
            return Err(format!("Fmt and Type {:#04x} are no TLP's", b[0]));
        }
        match (kind, data) {
            (0x00, false) => memory(header).map(Self::Read),
            (0x00, true) => memory(header).map(Self::Write),
            (0x04, _) if b.len() == 12 => {
                let asked = config(header)?;
                let (target, register) =
                    (u16::from_be_bytes([b[8], b[9]]), u16::from(b[10] & 0xF) << 8 | u16::from(b[11] & 0xFC));
                Ok(if data {
                    Self::ConfigWrite(asked, target, register)
                } else {
                    Self::ConfigRead(asked, target, register)
                })
            }
            (0x05, _) if b.len() == 12 => config(header).map(Self::Other),
            (0x02, _) if b.len() == 12 => config(header).map(Self::Other),
            (0x0A, _) if b.len() == 12 => Ok(Self::Completion(Answered {
                requester: u16::from_be_bytes([b[8], b[9]]),
                tag: tag(b, 10),
                status: b[6] >> 5,
                byte_count: match u32::from(b[6] & 0xF) << 8 | u32::from(b[7]) {
                    0 => 4096,
                    count => count,
                },
                lower_address: b[11] & 0x7F,
            })),
            (0x10..=0x17, _) if b.len() == 16 => Ok(Self::Message),
            (0x01 | 0x0C..=0x0E, _) => memory(header).map(Self::Other), // locked reads and atomic operations
            _ => Err(format!("Fmt and Type {:#04x} are no TLP's", b[0])),
        }
    }
}

fn tag(b: &[u8], at: usize) -> u16 {
    u16::from(b[at]) | u16::from(b[1] >> 3 & 1) << 8 | u16::from(b[1] >> 7) << 9
}

fn asked(header: &Header, address: u64) -> Asked {
    let b = header.as_bytes();
    let dws = u32::from(b[2] & 3) << 8 | u32::from(b[3]);
    Asked {
        requester: u16::from_be_bytes([b[4], b[5]]),
        tag: tag(b, 6),
        address,
        dws: if dws == 0 { 1024 } else { dws },
        enables: (b[7] & 0xF, b[7] >> 4),
    }
}

/// A memory request: the byte enables fit its length, and it stays within 4 KiB (2.2.5, 2.2.7).
fn memory(header: &Header) -> Result<Asked, String> {
    let b = header.as_bytes();
    let address = if b.len() == 16 {
        b[8..16].iter().fold(0, |all, &byte| all << 8 | u64::from(byte))
    } else {
        u64::from(u32::from_be_bytes([b[8], b[9], b[10], b[11]]))
    };
    let asked = asked(header, address & !3);
    let (first, last) = asked.enables;
    if asked.dws == 1 && last != 0 {
        return Err(format!("last byte enables {last:#x} of a request of one double word"));
    }
    if asked.dws > 1 && (first == 0 || last == 0) {
        return Err(format!("byte enables {first:#x} and {last:#x} of a request of {} double words", asked.dws));
    }
    if asked.address % 4096 + 4 * u64::from(asked.dws) > 4096 {
        return Err(format!("a request of {} double words at {:#x} crosses 4 KiB", asked.dws, asked.address));
    }
    Ok(asked)
}

/// A configuration or I/O request: one double word.
fn config(header: &Header) -> Result<Asked, String> {
    let asked = asked(header, 0);
    match (asked.dws, asked.enables.1) {
        (1, 0) => Ok(asked),
        _ => Err("a configuration or I/O request of more than one double word".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlp::{self, CplStatus, Route};
    use proptest::prelude::*;

    proptest! {
        /// The encoder, which is tested against bytes of other programs, and this decoder agree.
        #[test]
        fn memory_requests_are_read_as_they_were_made(address in 0u64..1 << 40, len in 1u32..4096, tag in 0u16..1024, bdf: u16) {
            let len = len.min(4096 - (address % 4096) as u32);
            let Ok(Packet::Read(asked)) = Packet::of(&tlp::mem_read(bdf, tag, address, len)) else { panic!() };
            prop_assert_eq!((asked.requester, asked.tag, asked.range()), (bdf, tag, (address, len)));
            let data = vec![1; len as usize];
            let Ok(Packet::Write(asked)) = Packet::of(&tlp::mem_write(bdf, tag, address, &data)) else { panic!() };
            let enabled: u32 = (0..asked.dws).map(|index| asked.enabled(index).count_ones()).sum();
            prop_assert_eq!((asked.range(), enabled), ((address, len), len));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(tlp) = Tlp::from_bytes(&bytes, false) {
                let _ = Packet::of(&tlp);
            }
        }
    }

    #[test]
    fn completions_and_configuration_requests_are_read_as_they_were_made() {
        let route = Route { completer: 1, requester: 0x0203, tag: 0x2A5 };
        let answer = Packet::of(&tlp::completion_data(route, 0x1044, &[0; 8], 4096)).unwrap();
        let wanted = Answered { requester: 0x0203, tag: 0x2A5, status: 0, byte_count: 4096, lower_address: 0x44 };
        assert_eq!(answer, Packet::Completion(wanted));
        let Packet::Completion(refused) = Packet::of(&tlp::completion(route, CplStatus::Abort)).unwrap() else {
            panic!()
        };
        assert_eq!(refused.status, 4);
        let write = Packet::of(&tlp::cfg_write0(7, 3, 0x0500, 0x884, 0b0110, 9)).unwrap();
        let Packet::ConfigWrite(asked, 0x0500, 0x884) = write else { panic!("{write:?}") };
        assert_eq!((asked.requester, asked.tag, asked.enables), (7, 3, (0b0110, 0)));
    }

    #[test]
    fn bytes_that_are_not_contiguous_count_from_the_first_to_the_last() {
        let read = |enables| Asked { requester: 0, tag: 0, address: 0x100, dws: 1, enables };
        assert_eq!(read((0b1001, 0)).range(), (0x100, 4));
        assert_eq!(read((0b0100, 0)).range(), (0x102, 1));
        assert_eq!(read((0, 0)).range(), (0x100, 1), "a read of no bytes");
    }

    #[test]
    fn what_breaks_the_rules_of_byte_enables_or_of_4_kib_is_named() {
        let spoilt = |at: usize, value: u8| {
            let mut bytes = tlp::mem_read(0, 0, 0x1FF8, 8).to_bytes();
            bytes[at] = value;
            Tlp::from_bytes(&bytes, false).and_then(|tlp| Packet::of(&tlp)).unwrap_err()
        };
        assert!(spoilt(7, 0xF0).contains("byte enables 0x0"), "{}", spoilt(7, 0xF0));
        assert!(spoilt(3, 3).contains("crosses 4 KiB"));
        assert!(spoilt(3, 1).contains("one double word"));
        assert!(spoilt(0, 0x1F).contains("0x1f"));
    }
}
