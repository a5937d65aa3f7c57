//! Fields that the tracker extracts from a TLP's header (PCI Express Base Specification 4.0, section 2.2).

use wattbell_bus::Tlp;
use wattbell_spec::wire::malformed_class_code as class;

/// Memory writes of up to this many double words keep their payload: doorbells, CQEs, interrupts.
const KEEP: u16 = 16;
/// Completions for the host do up to this many.
const KEEP_COMPLETION: u16 = 17;
/// Message codes (2.2.8.1).
pub const ASSERT_INTA: u64 = 0x20;
pub const DEASSERT_INTA: u64 = 0x24;
/// Most prefixes, and most end-to-end prefixes, of a TLP (2.2.10).
const MOST_PREFIXES: usize = 7;
const MOST_END_TO_END: usize = 4;
/// Type of the prefix of Integrity and Data Encryption.
const IDE: u8 = 0x12;
/// Type of the prefix with a Process Address Space ID.
const PASID: u8 = 0x11;
/// A memory request must not cross a boundary of this many double words.
const BOUNDARY: u64 = 1024;

/// Kinds of TLPs that the tracker uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    MemRead,
    MemWrite,
    ConfigRead,
    ConfigWrite,
    /// Assert_INTA or Deassert_INTA; its code stands for the address.
    Message,
    /// Without data, or not successful.
    Completion,
    CompletionData,
    /// Nothing of it, as it is of another kind or was rejected.
    Other,
}

/// A TLP as it reaches the tracker.
#[derive(Debug)]
pub struct Header {
    /// Drive to host.
    pub up: bool,
    pub kind: Kind,
    /// Whether it was rejected (its kind is `Other`), or is poisoned.
    pub bad: bool,
    /// With `bad`: the wire format's MalformedClass.
    pub why: u8,
    /// TLPs of this direction were lost before it.
    pub lost: bool,
    /// Tick of its first symbol.
    pub tick: u64,
    /// Address of the first byte's double word; of a configuration request, the register's offset, and the function from bit 16 on.
    pub address: u64,
    /// Double words of payload, or requested, 1 to 1024.
    pub length: u16,
    pub tag: u16,
    pub requester: u16,
    /// Byte enables of the first double word.
    pub first_be: u8,
    /// Byte enables of the last one, if there are several.
    pub last_be: u8,
    /// Identifier of the function that a configuration write addresses.
    pub target: u16,
    /// AT of a memory request (PCIe, Address Type): 0 untranslated, 1 translation request, 2 translated; 3 untranslated, of a PASID.
    pub address_type: u8,
    /// Whether its payload stands in the payload buffer.
    pub kept: bool,
    pub tlp: Tlp,
}

/// Returns why a TLP with these `prefixes` is rejected, if it is.
fn fault_of_prefixes(prefixes: &[u8]) -> Option<u8> {
    let types = || prefixes.iter().step_by(4).map(|byte| byte & 0x1F);
    let is_end = |kind: &u8| kind & 0x10 != 0;
    let ends = types().filter(is_end).count();
    let locals_first = types().skip_while(|kind| !is_end(kind)).all(|kind| is_end(&kind));
    if ends > MOST_END_TO_END || !locals_first || types().count() > MOST_PREFIXES {
        return Some(class::PREFIXES);
    }
    types().any(|kind| kind == IDE).then_some(class::ENCRYPTED)
}

impl Header {
    /// A memory request of one double word without enabled bytes: a zero-length read or write, which moves no data.
    pub fn is_empty(&self) -> bool {
        self.length == 1 && self.first_be == 0
    }

    /// Byte enables of double word `index`.
    pub fn enables(&self, index: u16) -> u8 {
        match index {
            0 => self.first_be,
            _ if index + 1 == self.length => self.last_be,
            _ => 0xF,
        }
    }

    /// Register that a configuration request addresses, in double words.
    pub fn register(&self) -> u16 {
        (self.address & 0xFFF) as u16 >> 2
    }

    /// Whether the drive asked for it or sent it.
    pub fn is_of_drive(&self) -> bool {
        match self.kind {
            Kind::MemRead | Kind::MemWrite => self.up,
            Kind::Completion | Kind::CompletionData => !self.up,
            _ => false,
        }
    }

    /// A read that asks for the translation of an address.
    pub fn asks_translation(&self) -> bool {
        self.address_type == 1
    }

    /// A request at an address of another space than the host's pointers.
    pub fn is_translated(&self) -> bool {
        self.address_type >= 2
    }

    /// An untranslated request with a PASID.
    pub fn is_of_process(&self) -> bool {
        self.address_type == 3
    }

    /// Double word `index` of the payload; zero if the trace omits it.
    #[inline]
    pub fn word(&self, index: usize) -> u32 {
        let word = self.tlp.payload.as_ref().and_then(|p| p.get(4 * index..4 * index + 4));
        word.map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Double words `index` and the one after it.
    #[inline]
    pub fn long(&self, index: usize) -> u64 {
        u64::from(self.word(index)) | u64::from(self.word(index + 1)) << 32
    }

    /// Decodes `tlp`, which may come after `lost` ones.
    pub fn decode(up: bool, tick: u64, tlp: Tlp, lost: bool) -> Self {
        let b = tlp.header.as_bytes();
        let word = |at: usize| u64::from(u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]));
        let kind = match b[0] {
            0x00 | 0x20 => Kind::MemRead,
            0x40 | 0x60 => Kind::MemWrite,
            0x04 if !up => Kind::ConfigRead,
            0x44 if !up => Kind::ConfigWrite,
            0x34 if up && matches!(u64::from(b[7]), ASSERT_INTA | DEASSERT_INTA) => Kind::Message,
            0x0A if !up => Kind::Completion,
            0x4A => Kind::CompletionData,
            _ => Kind::Other,
        };
        let completes = matches!(kind, Kind::Completion | Kind::CompletionData);
        let address = match kind {
            Kind::ConfigRead | Kind::ConfigWrite => word(8) & 0x7_0FFC,
            Kind::Message => b[7].into(),
            _ if b[0] & 0x20 != 0 => word(8) << 32 | word(12) & 0xFFFF_FFFC,
            _ => word(8) & 0xFFFF_FFFC,
        };
        let field = u16::from(b[2] & 3) << 8 | u16::from(b[3]);
        let length = if field == 0 { 1024 } else { field };
        let crosses = matches!(kind, Kind::MemRead | Kind::MemWrite)
            && (address >> 2 & (BOUNDARY - 1)) + u64::from(length) > BOUNDARY;
        let poisoned = b[2] & 0x40 != 0;
        let useful = kind != Kind::Other;
        let why = if let Some(why) = fault_of_prefixes(tlp.prefixes()) {
            why
        } else if b[0] & 0x80 != 0 {
            class::FORMAT
        } else if tlp.header.has_digest() != tlp.digest().is_some() {
            class::LENGTH
        } else if crosses {
            class::BOUNDARY
        } else if poisoned {
            class::POISONED
        } else {
            0
        };
        let bad = why != 0;
        let rejected = bad && !(why == class::POISONED && useful);
        let at = if completes { 8 } else { 4 };
        Self {
            up,
            kind: match kind {
                _ if rejected => Kind::Other,
                Kind::CompletionData if b[6] >> 5 != 0 => Kind::Completion,
                kind => kind,
            },
            bad,
            why,
            lost,
            tick,
            address,
            length,
            tag: u16::from(b[at + 2]) | u16::from(b[1] >> 3 & 1) << 8 | u16::from(b[1] >> 7) << 9,
            requester: u16::from(b[at]) << 8 | u16::from(b[at + 1]),
            first_be: b[7] & 0xF,
            last_be: b[7] >> 4,
            target: u16::from(b[8]) << 8 | u16::from(b[9]),
            address_type: match b[2] >> 2 & 3 {
                0 if tlp.prefixes().iter().step_by(4).any(|byte| byte & 0x1F == PASID) => 3,
                given => given,
            },
            kept: match kind {
                Kind::MemWrite => length <= KEEP,
                Kind::CompletionData => !up || length <= KEEP_COMPLETION,
                _ => true,
            },
            tlp,
        }
    }
}
