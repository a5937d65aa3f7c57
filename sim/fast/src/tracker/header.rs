//! What the tracker extracts from a TLP's header (PCI Express Base Specification 4.0, section 2.2).

use wattbell_bus::Tlp;

/// Memory writes of up to this many double words keep their payload: doorbells, CQEs, interrupts.
const KEEP: u16 = 16;
/// TLPs of up to this many double words are stored whole.
const LONG: u16 = 20;
/// A memory request must not cross a boundary of this many double words.
const BOUNDARY: u64 = 1024;

/// What the tracker can use of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, or only the fact that something was rejected.
    None,
    /// Memory read.
    MemRead,
    /// Memory write.
    MemWrite,
    /// Configuration write, type 0.
    ConfigWrite,
    /// Completion without data, or not successful.
    Completion,
    /// Successful completion with data.
    CompletionData,
}

/// A TLP as it reaches the engine.
#[derive(Debug)]
pub struct Header {
    /// Drive to host.
    pub up: bool,
    /// Its kind.
    pub kind: Kind,
    /// Whether it was rejected.
    pub bad: bool,
    /// TLPs of this direction were lost before it.
    pub lost: bool,
    /// Tick of its first symbol.
    pub tick: u64,
    /// Address of the first byte's double word; for a configuration write, the register's offset.
    pub address: u64,
    /// Double words of payload, or requested, 1 to 1024.
    pub length: u16,
    /// Its tag.
    pub tag: u16,
    /// Requester ID.
    pub requester: u16,
    /// Byte enables of the first double word.
    pub first_be: u8,
    /// Whether its payload stands in the payload buffer.
    pub kept: bool,
    /// For a long write by the drive: its payload is kept if the tracker waits for Identify data.
    pub kept_if_armed: bool,
    /// The TLP.
    pub tlp: Tlp,
}

impl Header {
    /// Double word `index` of the payload; zero if the trace omits it.
    #[inline]
    pub fn word(&self, index: usize) -> u32 {
        match &self.tlp.payload {
            Some(p) => p.get(4 * index..4 * index + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            None => 0,
        }
    }

    /// Decodes `tlp` of `dws` double words, which may come after `lost` ones. `None`: intact, and of no use.
    pub fn decode(up: bool, tick: u64, tlp: Tlp, dws: usize, lost: bool) -> Option<Self> {
        let b = tlp.header.as_bytes();
        let (four, has_data) = (b[0] & 0x20 != 0, b[0] & 0x40 != 0);
        let field = u16::from(b[2] & 3) << 8 | u16::from(b[3]);
        let length = if field == 0 { 1024 } else { field };
        let total = 3 + u16::from(four) + if has_data { length } else { 0 } + u16::from(b[2] >> 7);
        let kind = match b[0] {
            0x00 | 0x20 => Kind::MemRead,
            0x40 | 0x60 => Kind::MemWrite,
            0x44 => Kind::ConfigWrite,
            0x0A => Kind::Completion,
            0x4A => Kind::CompletionData,
            _ => Kind::None,
        };
        let (kept, kept_if_armed) = match kind {
            Kind::MemWrite => (length <= KEEP, up && length > KEEP),
            Kind::CompletionData => (!up || total <= LONG, false),
            Kind::ConfigWrite => (!up, false),
            _ => (false, false),
        };
        let useful = match kind {
            Kind::None => false,
            Kind::ConfigWrite | Kind::Completion => !up,
            _ => true,
        };
        let tag_high = u16::from(b[1] >> 3 & 1) | u16::from(b[1] >> 7) << 1;
        let completes = matches!(kind, Kind::Completion | Kind::CompletionData);
        let word = |at: usize| u64::from(u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]));
        let address = match kind {
            Kind::ConfigWrite => word(8) & 0xFFC,
            Kind::Completion | Kind::CompletionData => word(8) & 0x7F,
            _ if four => word(8) << 32 | word(12) & 0xFFFF_FFFC,
            _ => word(8) & 0xFFFF_FFFC,
        };
        let length_ok =
            if kept || total <= LONG { dws == usize::from(total) } else { dws & 3 == usize::from(total) & 3 };
        let crosses = matches!(kind, Kind::MemRead | Kind::MemWrite)
            && (address >> 2 & (BOUNDARY - 1)) + u64::from(length) > BOUNDARY;
        let bad = b[0] & 0x80 != 0 || b[2] & 0x40 != 0 || !length_ok || (crosses && useful);
        if !(bad || useful || lost) {
            return None;
        }
        let at = if completes { 8 } else { 4 };
        Some(Self {
            up,
            kind: match kind {
                _ if bad => Kind::None,
                Kind::CompletionData if b[6] >> 5 != 0 => Kind::Completion,
                kind => kind,
            },
            bad,
            lost,
            tick,
            address,
            length,
            tag: u16::from(b[at + 2]) | tag_high << 8,
            requester: u16::from(b[at]) << 8 | u16::from(b[at + 1]),
            first_be: b[7] & 0xF,
            kept,
            kept_if_armed,
            tlp,
        })
    }
}
