//! TLP headers as a host root complex and an NVMe drive send them (PCIe Base Specification 4.0, section 2.2).
//!
//! Encoder only; [`crate::packet`] decodes. Byte 0 is Fmt and Type; multi-byte header fields are big-endian; payload bytes are in memory order.

/// Requester, completer or target: bus 15:8, device 7:3, function 2:0.
pub type Bdf = u16;

/// Largest tag of a 10-bit tag requester.
pub const MAX_TAG: u16 = 0x3FF;

const MRD32: u8 = 0x00;
const MRD64: u8 = 0x20;
const MWR32: u8 = 0x40;
const MWR64: u8 = 0x60;
const CFGRD0: u8 = 0x04;
const CFGWR0: u8 = 0x44;
const CPL: u8 = 0x0A;
const CPLD: u8 = 0x4A;
/// Fmt of a TLP prefix (2.2.1): 100.
const PREFIX: u8 = 0x80;
const PREFIX_MASK: u8 = 0xE0;

/// Completion status field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CplStatus {
    /// Successful completion.
    Success = 0,
    /// Unsupported request.
    Unsupported = 1,
    /// Configuration request retry status.
    Retry = 2,
    /// Completer abort.
    Abort = 4,
}

/// Header bytes of a TLP: 12 (three DWs) or 16 (four).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    bytes: [u8; 16],
    len: u8,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Header(")?;
        for b in self.as_bytes() {
            write!(f, "{b:02x}")?;
        }
        f.write_str(")")
    }
}

impl Header {
    /// Takes the header off the front of `bytes`; `None` if they are fewer than Fmt requires.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let len = if bytes.first()? & 0x20 == 0 { 12 } else { 16 };
        let mut all = [0; 16];
        all[..len].copy_from_slice(bytes.get(..len)?);
        Some(Self { bytes: all, len: len as u8 })
    }

    /// The 12 or 16 bytes in wire order.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Payload bytes that follow this header on the wire (0 for a TLP without data).
    pub fn payload_len(&self) -> usize {
        if self.bytes[0] & 0x40 == 0 {
            return 0;
        }
        let dws = usize::from(self.bytes[2] & 3) << 8 | usize::from(self.bytes[3]);
        4 * if dws == 0 { 1024 } else { dws }
    }

    /// Whether it announces a digest (TD).
    pub fn has_digest(&self) -> bool {
        self.bytes[2] & 0x80 != 0
    }

    /// Header and payload together, in bytes.
    pub fn tlp_len(&self) -> usize {
        usize::from(self.len) + self.payload_len()
    }

    /// Returns whether the TLP may be part of a burst: a memory write or a completion with data.
    pub fn can_burst(&self) -> bool {
        matches!(self.bytes[0], MWR32 | MWR64 | CPLD)
    }

    /// The header `bytes` further on in the same transfer: a memory write's address grows; a completion's remaining
    /// byte count shrinks and its lower address grows. Other headers are returned unchanged.
    pub fn advanced(&self, bytes: u64) -> Self {
        let mut h = *self;
        let b = &mut h.bytes;
        match b[0] {
            MWR32 => {
                let address = u32::from_be_bytes([b[8], b[9], b[10], b[11]]).wrapping_add(bytes as u32);
                b[8..12].copy_from_slice(&address.to_be_bytes());
            }
            MWR64 => {
                let mut a = [0; 8];
                a.copy_from_slice(&b[8..16]);
                b[8..16].copy_from_slice(&u64::from_be_bytes(a).wrapping_add(bytes).to_be_bytes());
            }
            CPLD => {
                let count = (u16::from(b[6] & 0xF) << 8 | u16::from(b[7])).wrapping_sub(bytes as u16) & 0xFFF;
                b[6] = b[6] & 0xF0 | (count >> 8) as u8;
                b[7] = count as u8;
                b[11] = b[11] & 0x80 | (b[11].wrapping_add(bytes as u8) & 0x7F);
            }
            _ => {}
        }
        h
    }

    /// Whether the data is poisoned (EP).
    pub fn is_poisoned(&self) -> bool {
        self.bytes[2] & 0x40 != 0
    }

    /// The same with traffic class and attributes of `request`, as a completion has them (2.2.9).
    pub fn in_class_of(mut self, request: &Self) -> Self {
        self.bytes[1] = self.bytes[1] & !0x74 | request.bytes[1] & 0x74;
        self.bytes[2] = self.bytes[2] & !0x30 | request.bytes[2] & 0x30;
        self
    }

    fn new(fmt_type: u8, dws: u16, four: bool) -> Self {
        let mut bytes = [0; 16];
        bytes[0] = fmt_type;
        bytes[2] = (dws >> 8) as u8 & 3; // 1024 DWs are written as 0
        bytes[3] = dws as u8;
        Self { bytes, len: if four { 16 } else { 12 } }
    }

    fn with_tag(mut self, tag: u16, tag_byte: usize) -> Self {
        debug_assert!(tag <= MAX_TAG);
        self.bytes[tag_byte] = tag as u8;
        self.bytes[1] |= (((tag >> 8) & 1) as u8) << 3 | (((tag >> 9) & 1) as u8) << 7; // T8, T9
        self
    }

    fn memory(read: bool, requester: Bdf, tag: u16, address: u64, len: u32) -> Self {
        assert!(len >= 1, "a memory request of no bytes has no place here");
        let first = (address & 3) as u32;
        let dws = (first + len).div_ceil(4);
        assert!(dws <= 1024, "a TLP carries at most 4096 bytes");
        let four = address.saturating_add(u64::from(len)) > 1 << 32; // 3-DW form if the address fits, as specified
        let mut h = Self::new([[MWR32, MWR64], [MRD32, MRD64]][usize::from(read)][usize::from(four)], dws as u16, four);
        h.bytes[4..6].copy_from_slice(&requester.to_be_bytes());
        let end = (first + len) & 3;
        let last = if end == 0 { 0xF } else { (1u8 << end) - 1 };
        let from = 0xF << first & 0xF;
        h.bytes[7] = if dws == 1 { from & last } else { last << 4 | from };
        let aligned = address & !3;
        if four {
            h.bytes[8..16].copy_from_slice(&aligned.to_be_bytes());
        } else {
            h.bytes[8..12].copy_from_slice(&(aligned as u32).to_be_bytes());
        }
        h.with_tag(tag, 6)
    }
}

/// Rare parts of a TLP around header and payload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// TLP prefixes before the header, whole double words.
    pub prefixes: Vec<u8>,
    /// The digest (ECRC) behind the payload.
    pub digest: Option<[u8; 4]>,
}

/// A TLP: header and payload, unless the trace omits the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tlp {
    /// The header.
    pub header: Header,
    /// Payload bytes; `None` if omitted (plays as zeros). Empty for a TLP without data.
    pub payload: Option<Vec<u8>>,
    /// Prefixes and digest, if the TLP has any.
    pub around: Option<Box<Around>>,
}

impl Tlp {
    /// Creates a TLP; its payload is zero-padded to whole DWs at both ends, with `offset` bytes in front.
    fn with_data(header: Header, offset: usize, data: &[u8]) -> Self {
        let mut payload = vec![0; header.payload_len()];
        payload[offset..offset + data.len()].copy_from_slice(data);
        Self::new(header, Some(payload))
    }

    fn bare(header: Header) -> Self {
        Self::new(header, Some(Vec::new()))
    }

    /// A TLP without prefixes and digest.
    pub fn new(header: Header, payload: Option<Vec<u8>>) -> Self {
        Self { header, payload, around: None }
    }

    /// Takes a TLP of `bytes`: prefixes, header, payload (unless `left_out`), and a digest where the header announces one.
    /// The error names the fault.
    pub fn from_bytes(bytes: &[u8], left_out: bool) -> Result<Self, String> {
        let is_prefix = |dw: &[u8]| dw[0] & PREFIX_MASK == PREFIX;
        let prefixes = 4 * bytes.chunks_exact(4).take_while(|dw| is_prefix(dw)).count();
        let rest = &bytes[prefixes..];
        let header = Header::from_bytes(rest).ok_or("a TLP shorter than its header")?;
        let rest = &rest[header.as_bytes().len()..];
        let expected = if left_out { 0 } else { header.payload_len() };
        let digest = match rest.get(expected..) {
            Some(&[a, b, c, d]) if header.has_digest() => Some([a, b, c, d]),
            Some([]) => None,
            _ => return Err(format!("a TLP payload of {} bytes where {expected} belong", rest.len())),
        };
        let around = (prefixes != 0 || digest.is_some())
            .then(|| Box::new(Around { prefixes: bytes[..prefixes].to_vec(), digest }));
        let payload = (!left_out || header.payload_len() == 0).then(|| rest[..expected].to_vec());
        Ok(Self { header, payload, around })
    }

    /// The prefixes before the header.
    #[inline]
    pub fn prefixes(&self) -> &[u8] {
        self.around.as_ref().map_or(&[], |around| &around.prefixes)
    }

    /// The digest behind the payload.
    #[inline]
    pub fn digest(&self) -> Option<[u8; 4]> {
        self.around.as_ref().and_then(|around| around.digest)
    }

    /// The bytes as on the wire; a payload that was left out as zeros.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [self.prefixes(), self.header.as_bytes(), self.payload.as_deref().unwrap_or_default()].concat();
        if self.payload.is_none() {
            bytes.resize(bytes.len() + self.header.payload_len(), 0);
        }
        bytes.extend(self.digest().into_iter().flatten());
        bytes
    }

    /// Returns the same TLP without its payload.
    pub fn left_out(header: Header) -> Self {
        Self::new(header, (header.payload_len() == 0).then(Vec::new))
    }

    /// Bytes on the wire: prefixes, header, payload, digest.
    pub fn len(&self) -> usize {
        let around = self.around.as_ref().map_or(0, |a| a.prefixes.len() + a.digest.map_or(0, |digest| digest.len()));
        self.header.tlp_len() + around
    }

    /// Always false: every TLP has a header.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Memory read of `len` bytes (1..=4096, within what 1024 DWs hold) at any byte address.
pub fn mem_read(requester: Bdf, tag: u16, address: u64, len: u32) -> Tlp {
    Tlp::bare(Header::memory(true, requester, tag, address, len))
}

/// Memory write of `data` at any byte address.
pub fn mem_write(requester: Bdf, tag: u16, address: u64, data: &[u8]) -> Tlp {
    Tlp::with_data(Header::memory(false, requester, tag, address, data.len() as u32), (address & 3) as usize, data)
}

/// Returns the header of a memory write of `len` bytes, for a TLP without its payload.
pub fn mem_write_header(requester: Bdf, tag: u16, address: u64, len: u32) -> Header {
    Header::memory(false, requester, tag, address, len)
}

/// Type 0 configuration read of the DW at `register` (byte offset, multiple of 4, below 4096) of `target`.
pub fn cfg_read0(requester: Bdf, tag: u16, target: Bdf, register: u16) -> Tlp {
    Tlp::bare(config(CFGRD0, requester, tag, target, register, 0xF))
}

/// Type 0 configuration write; bit i of `byte_enables` writes byte i of the DW.
pub fn cfg_write0(requester: Bdf, tag: u16, target: Bdf, register: u16, byte_enables: u8, value: u32) -> Tlp {
    Tlp::with_data(config(CFGWR0, requester, tag, target, register, byte_enables), 0, &value.to_le_bytes())
}

fn config(fmt_type: u8, requester: Bdf, tag: u16, target: Bdf, register: u16, byte_enables: u8) -> Header {
    assert!(register % 4 == 0 && register < 4096, "configuration register {register:#x} is not a DW offset");
    let mut h = Header::new(fmt_type, 1, false).with_tag(tag, 6);
    h.bytes[4..6].copy_from_slice(&requester.to_be_bytes());
    h.bytes[7] = byte_enables & 0xF;
    h.bytes[8..10].copy_from_slice(&target.to_be_bytes());
    h.bytes[10] = (register >> 8) as u8;
    h.bytes[11] = register as u8;
    h
}

/// The three fields every completion carries: who answers whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The completer.
    pub completer: Bdf,
    /// The requester.
    pub requester: Bdf,
    /// Tag of the request.
    pub tag: u16,
}

/// Completion without data (response to a configuration write, or an error).
pub fn completion(route: Route, status: CplStatus) -> Tlp {
    Tlp::bare(completion_header(CPL, route, status, 0, 4, 0))
}

/// Completion of a memory read that is refused: `address` of its first byte, and the bytes that it asked for (2.2.9).
pub fn refusal(route: Route, status: CplStatus, address: u64, len: u32) -> Tlp {
    Tlp::bare(completion_header(CPL, route, status, 0, len as u16, (address & 0x7F) as u8))
}

/// Returns the header of a completion with `len` bytes of data. `remaining` (1..=4096) counts the bytes still owed, these included.
/// `lower_address` is the byte address of the first byte (its low 7 bits go on the wire).
pub fn completion_data_header(route: Route, lower_address: u64, len: u32, remaining: u32) -> Header {
    let dws = ((lower_address & 3) as u32 + len).div_ceil(4);
    completion_header(CPLD, route, CplStatus::Success, dws as u16, remaining as u16, (lower_address & 0x7F) as u8)
}

/// Completion with data; fields as in [`completion_data_header`].
pub fn completion_data(route: Route, lower_address: u64, data: &[u8], remaining: u32) -> Tlp {
    let header = completion_data_header(route, lower_address, data.len() as u32, remaining);
    Tlp::with_data(header, (lower_address & 3) as usize, data)
}

fn completion_header(fmt_type: u8, route: Route, status: CplStatus, dws: u16, byte_count: u16, lower: u8) -> Header {
    let mut h = Header::new(fmt_type, dws, false).with_tag(route.tag, 10);
    h.bytes[4..6].copy_from_slice(&route.completer.to_be_bytes());
    h.bytes[6] = (status as u8) << 5 | (byte_count >> 8) as u8 & 0xF; // a count of 4096 is written as 0
    h.bytes[7] = byte_count as u8;
    h.bytes[8..10].copy_from_slice(&route.requester.to_be_bytes());
    h.bytes[11] = lower;
    h
}
