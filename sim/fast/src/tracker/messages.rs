//! The host's interrupt messages and its resets of the function, from its accesses to configuration space and to the MSI-X table (PCI
//! Express Base Specification 4.0, 7.5.2, 7.5.3, 7.7.1 and 7.7.2), and INTx (2.2.8.1).

use super::header::Header;
use wattbell_spec::wire::reset_cause_code as cause;

/// Vectors with an entry in the table; others are not followed.
const VECTORS: usize = 64;
/// Bytes of an entry of the MSI-X table, and of all entries that are followed.
const ENTRY: u32 = 16;
const TABLE: u32 = ENTRY * VECTORS as u32;
/// Registers of configuration space, in double words: the capability pointer, the first that a capability may have, and the end.
const POINTER: u16 = 0x34 / 4;
const FIRST: u16 = 0x40 / 4;
const END: u16 = 0x100 / 4;
/// Capability IDs.
const POWER: u32 = 0x01;
const MSI: u32 = 0x05;
const PCIE: u32 = 0x10;
const MSIX: u32 = 0x11;
/// Power states of a function.
const D0: u32 = 0;
const D3HOT: u32 = 3;

/// How the drive announces completions, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It was not seen: messages are learnt.
    Unknown,
    /// Not by messages to memory: by INTx, or not at all.
    Wires,
    Msi,
    Msix,
}

/// Address and data of a message: double words of the address, low one first, and the data. None: not seen.
#[derive(Debug, Clone, Copy, Default)]
struct Message {
    now: [Option<u32>; 3],
    /// The same before the host's last change: the drive may still send that message.
    before: [Option<u32>; 3],
}

impl Message {
    fn known(&self) -> bool {
        self.now.iter().all(Option::is_some)
    }

    fn write(&mut self, word: usize, value: Option<u32>) {
        let old = std::mem::replace(&mut self.now[word], value);
        if old.is_some() && old != value {
            self.before[word] = old;
        }
    }

    /// Whether a message has these words; `before`: or those from before a change.
    fn is(&self, words: [u32; 3], mask: u32, before: bool) -> bool {
        let masks = [!0, !0, mask];
        let same = |k: usize, one: Option<u32>| one.is_some_and(|one| (one ^ words[k]) & masks[k] == 0);
        self.known() && (0..3).all(|k| same(k, self.now[k]) || (before && same(k, self.before[k])))
    }
}

/// A capability: its register, and whether it is enabled, if that is known.
#[derive(Debug, Default)]
struct Capability {
    at: Option<u16>,
    enabled: Option<bool>,
}

impl Capability {
    /// Whether it is not in use. `ended`: the list of capabilities was seen to its end.
    fn is_off(&self, ended: bool) -> bool {
        self.enabled == Some(false) || (ended && self.at.is_none())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Messages {
    /// A read of configuration space: tag, requester, register and byte enables.
    asked: Option<(u16, u16, u16, u8)>,
    /// Registers at which a capability begins, a bit each.
    begins: u64,
    ended: bool,
    msi: Capability,
    msix: Capability,
    /// MSI has addresses of 64 bits; logarithm of the number of its messages.
    wide: bool,
    count: u32,
    /// Table Offset and Table BIR.
    table: Option<u32>,
    /// Entries of the table; none before the host writes one.
    vectors: Vec<Message>,
    single: Message,
    /// Registers with Device Control, and with the function's power state.
    control_at: Option<u16>,
    power_at: Option<u16>,
    power: u32,
    /// The function was seen to lack No_Soft_Reset.
    soft: bool,
    /// TLPs of the host were lost, so anything may have changed.
    lost: bool,
    /// INTA is asserted.
    pub asserted: bool,
}

impl Messages {
    /// A reset of the function: nothing is enabled, and the table is empty. Registers keep their places.
    pub fn reset(&mut self) {
        self.vectors.clear();
        self.single = Message::default();
        for one in [&mut self.msi, &mut self.msix] {
            one.enabled = one.at.map(|_| false);
        }
        (self.asked, self.count, self.lost, self.power) = (None, 0, false, D0);
    }

    /// The last read is of another function.
    pub fn forget_question(&mut self) {
        self.asked = None;
    }

    /// The configuration accesses seen so far are another function's.
    pub fn forget(&mut self) {
        (self.asked, self.begins, self.ended, self.table) = (None, 0, false, None);
        (self.msi, self.msix) = (Capability::default(), Capability::default());
        (self.control_at, self.power_at) = (None, None);
    }

    /// TLPs were lost, of the host or of the drive.
    pub fn lose(&mut self, up: bool) {
        self.lost |= !up;
        self.asked = None;
    }

    /// The host sends a request that will be answered; `reads`: a read of this function's configuration space.
    pub fn ask(&mut self, h: &Header, reads: bool) {
        if reads {
            let register = h.register();
            self.asked = (register < END).then_some((h.tag, h.requester, register, h.first_be));
        } else if self.asked.is_some_and(|(tag, requester, ..)| (tag, requester) == (h.tag, h.requester)) {
            self.asked = None;
        }
    }

    /// The drive answers; whether that was a read of configuration space.
    pub fn answer(&mut self, h: &Header) -> bool {
        let same = |(tag, requester, ..): &(u16, u16, u16, u8)| (*tag, *requester) == (h.tag, h.requester);
        let Some((.., register, enables)) = self.asked.take_if(|asked| same(asked)) else { return false };
        let (word, has) = (h.word(0), |byte: u8| enables >> byte & 1 != 0);
        if register == POINTER && has(0) {
            self.begins = 1 << ((word & 0xFC) >> 2);
        }
        if register >= FIRST && self.begins >> register & 1 != 0 {
            if has(1) {
                self.begins |= 1 << ((word >> 8 & 0xFC) >> 2);
                self.ended |= word >> 8 & 0xFC == 0;
            }
            match word & 0xFF {
                MSI if has(0) => self.msi.at = Some(register),
                MSIX if has(0) => self.msix.at = Some(register),
                PCIE if has(0) => self.control_at = Some(register + 2),
                POWER if has(0) => self.power_at = Some(register + 1),
                _ => {}
            }
        }
        if self.power_at == Some(register) && has(0) {
            (self.power, self.soft) = (word & 3, word & 8 == 0);
        }
        if self.msix.at == Some(register) && has(3) {
            self.msix.enabled = Some(word >> 31 != 0);
        }
        if self.msi.at == Some(register) && has(2) {
            self.msi.enabled = Some(word >> 16 & 1 != 0);
            (self.wide, self.count) = (word >> 23 & 1 != 0, word >> 20 & 7);
        }
        if self.msix.at.map(|at| at + 1) == Some(register) && enables == 0xF {
            self.table = Some(word);
        }
        true
    }

    /// The host writes a register of configuration space; returns whether that is part of a message.
    pub fn configure(&mut self, h: &Header) -> bool {
        let (register, word, has) = (h.register(), h.word(0), |byte: u8| h.first_be >> byte & 1 != 0);
        if register >= END {
            return false;
        }
        if self.msix.at == Some(register) && has(3) {
            self.msix.enabled = Some(word >> 31 != 0);
            self.lost &= word >> 31 == 0;
        }
        let Some(place) = self.msi.at.and_then(|at| register.checked_sub(at)) else { return false };
        let (all, low) = (h.first_be == 0xF, h.first_be & 3 == 3);
        match (place, self.wide) {
            (0, _) if has(2) && self.msi.enabled.is_some() => {
                self.msi.enabled = Some(word >> 16 & 1 != 0);
                self.count = word >> 20 & 7;
                self.lost &= word >> 16 & 1 == 0;
                return false;
            }
            (1, _) => {
                self.single.write(0, all.then_some(word & !3));
                if !self.wide {
                    self.single.write(1, Some(0));
                }
            }
            (2, true) => self.single.write(1, all.then_some(word)),
            (2, false) | (3, true) => self.single.write(2, low.then_some(word & 0xFFFF)),
            _ => return false,
        }
        true
    }

    /// The host writes a register of configuration space; returns the cause of the reset, if that resets the function.
    pub fn resets(&mut self, h: &Header) -> Option<u8> {
        let (register, word, has) = (h.register(), h.word(0), |byte: u8| h.first_be >> byte & 1 != 0);
        if register >= END {
            return None;
        }
        if self.control_at == Some(register) && has(1) && word & 0x8000 != 0 {
            return Some(cause::FLR);
        }
        if self.power_at != Some(register) || !has(0) {
            return None;
        }
        let before = std::mem::replace(&mut self.power, word & 3);
        (before == D3HOT && word & 3 == D0 && self.soft).then_some(cause::D3HOT)
    }

    /// The host writes to BAR0 at `offset`; returns whether that is in the MSI-X table.
    pub fn write(&mut self, offset: u32, h: &Header) -> bool {
        let Some(start) = self.table.filter(|table| table & 7 == 0).map(|table| offset.wrapping_sub(table)) else {
            return false;
        };
        if start >= TABLE {
            return false;
        }
        self.vectors.resize(VECTORS, Message::default());
        for k in 0..u32::from(h.length) {
            let (at, value) = (start + 4 * k, h.word(k as usize));
            let (entry, word) = ((at / ENTRY) as usize, (at % ENTRY / 4) as usize);
            let value = if word == 0 { value & !3 } else { value };
            if entry < VECTORS && word < 3 {
                self.vectors[entry].write(word, (k > 0 || h.first_be == 0xF).then_some(value));
            }
        }
        true
    }

    /// How the drive announces completions.
    pub fn delivery(&self) -> Delivery {
        match (self.msix.enabled, self.msi.enabled) {
            (Some(true), _) if self.table.is_some_and(|table| table & 7 == 0) => Delivery::Msix,
            (Some(true), _) => Delivery::Unknown,
            (_, Some(true)) => Delivery::Msi,
            _ if self.msix.is_off(self.ended) && self.msi.is_off(self.ended) => Delivery::Wires,
            _ => Delivery::Unknown,
        }
    }

    fn message(&self, vector: u16) -> Option<&Message> {
        match self.delivery() {
            Delivery::Msix => self.vectors.get(usize::from(vector)),
            _ => Some(&self.single),
        }
    }

    /// Whether the message of a vector is known, should there be one.
    pub fn knows(&self, vector: u16) -> bool {
        match self.delivery() {
            Delivery::Unknown => false,
            Delivery::Wires => true,
            _ => self.message(vector).is_some_and(Message::known),
        }
    }

    /// Whether no instant of a vector's completions is in doubt.
    pub fn sure(&self, vector: u16) -> bool {
        !self.lost && self.knows(vector)
    }

    /// Whether this is the message of a vector; `before`: or was until the host changed it.
    pub fn is(&self, h: &Header, vector: u16, before: bool) -> bool {
        let low = if self.delivery() == Delivery::Msi { (1 << self.count) - 1 } else { 0 };
        let mask = if self.delivery() == Delivery::Msi { 0xFFFF & !low } else { !0 };
        let data = h.word(0);
        (data ^ u32::from(vector)) & low == 0
            && self
                .message(vector)
                .is_some_and(|m| m.is([h.address as u32, (h.address >> 32) as u32, data], mask, before))
    }
}
