//! Due lengths of commands' data, by opcode and by the format of the namespace.

use super::header::Header;
use super::namespaces::IDENTIFY_DWS;
use super::store::Slot;
use super::Tracker;
use wattbell_spec::nvme::{admin, io, FEATURE_DWS};

/// A length of 2**DUE_BITS double words (32 MiB) or more counts as unknown, and data is counted no further.
const DUE_BITS: u32 = 23;
/// NSIDs that a slot does not keep in full.
const NSID_LARGE: u16 = 0xFFFE;

/// Double words from which on a metadata buffer is not followed.
const METADATA_LIMIT: u64 = 1 << 14;

/// The data of a command, as its SQE tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// Double words behind the data pointer; unknown if None.
    pub dws: Option<u32>,
    /// Double words behind the metadata pointer that are followed.
    pub metadata: u32,
    /// It may have metadata in a buffer of its own that is not followed.
    pub apart: bool,
}

impl Due {
    /// Double words of all that is followed; unknown if None.
    pub fn total(&self) -> Option<u32> {
        self.dws.map(|dws| dws + self.metadata)
    }
}

/// Due lengths that are not of blocks.
fn fixed(s: &[u32; 16], admin_queue: bool) -> Option<u32> {
    let (opcode, cdw10, cdw11, cdw12) = (s[0] as u8, s[10], s[11], s[12]);
    let ranges = (cdw10 & 0xFF) + 1;
    let one_more = |dws: u32| if dws >> DUE_BITS == 0 { Some(dws + 1) } else { None };
    if admin_queue {
        return match opcode {
            admin::CREATE_IO_SQ | admin::CREATE_IO_CQ => Some(0),
            admin::IDENTIFY | admin::NAMESPACE_ATTACHMENT => Some(u32::from(IDENTIFY_DWS)),
            admin::NAMESPACE_MANAGEMENT if cdw10 & 0xF == 0 => Some(u32::from(IDENTIFY_DWS)),
            admin::NAMESPACE_MANAGEMENT if cdw10 & 0xF == 1 => Some(0),
            admin::GET_LOG_PAGE => one_more(cdw10 >> 16 | cdw11 << 16),
            admin::FIRMWARE_DOWNLOAD => one_more(cdw10),
            admin::SECURITY_SEND if cdw11 & 3 == 0 && cdw11 >> 2 >> DUE_BITS == 0 => Some(cdw11 >> 2),
            admin::SET_FEATURES | admin::GET_FEATURES => {
                let set = opcode == admin::SET_FEATURES;
                let found = FEATURE_DWS.iter().find(|f| u32::from(f.0) == cdw10 & 0xFF);
                let dws = found.map(|f| if set { f.1 } else { f.2 });
                // Select 011b: the answer is in the CQE alone.
                dws.filter(|dws| *dws == 0 || set || cdw10 >> 8 & 7 != 3)
            }
            _ => None,
        };
    }
    match opcode {
        io::DSM => Some(4 * ranges),
        // Formats of its source ranges: of 32 bytes, or of 40.
        io::COPY if cdw12 >> 8 & 0xF < 4 => Some((if cdw12 >> 8 & 1 == 0 { 8 } else { 10 }) * ((cdw12 & 0xFF) + 1)),
        io::RESERVATION_REGISTER | io::RESERVATION_ACQUIRE => Some(4),
        io::RESERVATION_RELEASE => Some(2),
        _ => None,
    }
}

impl Tracker {
    /// The due length of the command of SQE `s`.
    pub(super) fn due_of(&mut self, s: &[u32; 16], admin_queue: bool) -> Due {
        let (opcode, pointer, prp1) = (s[0] as u8, s[0] >> 14 & 3, (s[6] | s[7]) != 0);
        if admin_queue && matches!(opcode, admin::FORMAT_NVM | admin::NAMESPACE_MANAGEMENT) {
            self.namespaces.doubt(opcode == admin::NAMESPACE_MANAGEMENT);
        }
        if opcode & 3 == 0 {
            return Due { dws: Some(0), ..Due::default() };
        }
        let of_blocks = matches!(opcode, io::READ | io::WRITE | io::COMPARE | io::ZONE_APPEND);
        let mut due = Due { dws: fixed(s, admin_queue), ..Due::default() };
        if !admin_queue && of_blocks {
            let (protected, blocks) = (s[12] >> 29 & 1 != 0, u64::from(s[12] & 0xFFFF) + 1);
            let block = self.namespaces.block(s[1], protected);
            let dws = block.map(|dws| u64::from(dws) * blocks).filter(|dws| dws >> DUE_BITS == 0);
            due.dws = dws.map(|dws| dws as u32);
            if s[4] | s[5] != 0 {
                let followed = match self.namespaces.metadata_apart(s[1]) {
                    Some(0) => Some(0),
                    Some(each) if each & 3 == 0 && !protected && s[4] & 3 == 0 && pointer < 2 => {
                        Some(u64::from(each >> 2) * blocks).filter(|dws| *dws < METADATA_LIMIT)
                    }
                    _ => None,
                };
                (due.metadata, due.apart) = (followed.unwrap_or(0) as u32, followed.is_none());
            }
        }
        due.dws = due.dws.filter(|dws| pointer != 3 && (pointer != 0 || prp1 || *dws == 0));
        due
    }

    /// Counts a data TLP of the command in `slot`.
    pub(super) fn count_data(&mut self, slot: u16, dws: u16) {
        let words = &mut self.slot(slot).words;
        if *words >> (DUE_BITS + 1) == 0 {
            *words += u32::from(dws);
        }
    }

    /// Takes a TLP with data of the Identify command in `slot`. It may tell a namespace's format.
    pub(super) fn identify_data(&mut self, h: &Header, slot: u16) {
        let Slot { id, command, prp1, .. } = *self.slot(slot);
        if command.slba as u8 != 0 || command.nsid == 0 || command.nsid >= NSID_LARGE {
            return;
        }
        let place = self.page_offset(h.address).wrapping_sub(self.page_offset(prp1)) % IDENTIFY_DWS;
        let words = h.kept.then(|| (0..usize::from(h.length)).map(|k| h.word(k)));
        self.namespaces.take(id, command.nsid, place, words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_by_opcode() {
        let sqe = |opcode: u8, cdw10: u32, cdw11: u32, cdw12: u32| {
            let mut s = [0; 16];
            (s[0], s[6], s[10], s[11], s[12]) = (opcode.into(), 0x1000, cdw10, cdw11, cdw12);
            s
        };
        let due = |s, admin| Tracker::default().due_of(&s, admin).dws;
        assert_eq!(due(sqe(admin::GET_LOG_PAGE, 0x7F << 16 | 2, 1, 0), true), Some(0x1_0080));
        assert_eq!(due(sqe(admin::GET_LOG_PAGE, 0, 0x80, 0), true), None);
        assert_eq!(due(sqe(admin::GET_FEATURES, 0x0C, 0, 0), true), Some(64));
        assert_eq!(due(sqe(admin::GET_FEATURES, 0x30C, 0, 0), true), None);
        assert_eq!(due(sqe(admin::SET_FEATURES, 0x0D, 1, 0), true), Some(0));
        assert_eq!(due(sqe(admin::SECURITY_SEND, 0, 512, 0), true), Some(128));
        assert_eq!(due(sqe(admin::FIRMWARE_DOWNLOAD, 1023, 0, 0), true), Some(1024));
        assert_eq!(due(sqe(admin::SECURITY_RECEIVE, 0, 512, 0), true), None);
        assert_eq!(due(sqe(io::DSM, 39, 4, 0), false), Some(160));
        assert_eq!(due(sqe(io::COPY, 0, 0, 0x101), false), Some(20));
        assert_eq!(due(sqe(io::WRITE_ZEROES, 0, 0, 7), false), Some(0));
        assert_eq!(due(sqe(io::READ, 0, 0, 7), false), None);
        assert_eq!(due(sqe(io::DSM, 39, 4, 0).map(|w| if w == 0x1000 { 0 } else { w }), false), None);
    }
}
