//! How a transfer is cut into TLPs: payload and read request limits, 4 KiB boundaries, read completion boundary.

/// Pieces `(address, len)` of `len` bytes at `address`, each at most `limit` and none across a 4 KiB boundary: the rule
/// for memory writes (limit = Max_Payload_Size) and for memory reads (limit = Max_Read_Request_Size).
pub fn requests(address: u64, len: u32, limit: u32) -> impl Iterator<Item = (u64, u32)> {
    let mut at = address;
    let end = address + u64::from(len);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let piece = u64::from(limit).min(4096 - at % 4096).min(end - at);
            let out = (at, piece as u32);
            at += piece;
            out
        })
    })
}

/// A completion of a read: `len` bytes from `address`, `remaining` bytes still owed before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes it carries.
    pub len: u32,
    /// The byte count field: these and all later bytes.
    pub remaining: u32,
}

/// Completions of a read of `len` bytes at `address`: each ends at a multiple of `rcb` (64 or 128) or with the
/// request, and carries at most `max_payload` bytes.
pub fn completions(address: u64, len: u32, rcb: u32, max_payload: u32) -> impl Iterator<Item = Completion> {
    let (rcb, max) = (u64::from(rcb), u64::from(max_payload));
    let mut at = address;
    let end = address + u64::from(len);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            // The last boundary that the payload limit reaches; max_payload is a multiple of rcb, so there is one.
            let stop = ((at + max) / rcb * rcb).min(end);
            let out = Completion { address: at, len: (stop - at) as u32, remaining: (end - at) as u32 };
            at = stop;
            out
        })
    })
}
