//! Splits a transfer into TLPs: payload and read request limits, 4 KiB boundaries, read completion boundary.

/// Cuts `len` bytes at `address` into pieces `(address, len)`. Each piece has at most `limit` bytes and crosses no 4 KiB boundary. This
/// rule holds for memory writes (limit = Max_Payload_Size) and for memory reads (limit = Max_Read_Request_Size).
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

/// Returns the completions of a read of `len` bytes at `address`. Each completion ends at a multiple of `rcb` (64 or 128) or with the
/// request, and carries at most `max_payload` bytes.
pub fn completions(address: u64, len: u32, rcb: u32, max_payload: u32) -> impl Iterator<Item = Completion> {
    let (rcb, max) = (u64::from(rcb), u64::from(max_payload));
    let mut at = address;
    let end = address + u64::from(len);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            // the last boundary within the payload limit; max_payload is a multiple of rcb, so there is one
            let stop = ((at + max) / rcb * rcb).min(end);
            let out = Completion { address: at, len: (stop - at) as u32, remaining: (end - at) as u32 };
            at = stop;
            out
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_cover_the_range_within_the_limits(address in 0u64..1 << 40, len in 1u32..20_000, limit in 7u32..11) {
            let limit = 1 << limit;
            let mut at = address;
            for (piece, n) in requests(address, len, limit) {
                prop_assert_eq!(piece, at);
                prop_assert!(n >= 1 && n <= limit && piece / 4096 == (piece + u64::from(n) - 1) / 4096);
                at += u64::from(n);
            }
            prop_assert_eq!(at, address + u64::from(len));
        }

        #[test]
        fn completions_end_on_the_read_completion_boundary(
            address in 0u64..10_000, len in 1u32..4096, rcb in 6u32..8, mps in 7u32..10,
        ) {
            let (rcb, mps) = (1 << rcb, 1 << mps);
            let mut owed = len;
            for c in completions(address, len, rcb, mps) {
                prop_assert_eq!(c.remaining, owed);
                prop_assert_eq!(c.address, address + u64::from(len - owed));
                prop_assert!(c.len >= 1 && c.len <= mps);
                owed -= c.len;
                prop_assert!(owed == 0 || (c.address + u64::from(c.len)) % u64::from(rcb) == 0);
            }
            prop_assert_eq!(owed, 0);
        }
    }

    #[test]
    fn a_page_at_64_byte_offset_in_the_least_number_of_completions() {
        let lens: Vec<_> = completions(0x1040, 512, 64, 256).map(|c| c.len).collect();
        assert_eq!(lens, [256, 256]);
        let lens: Vec<_> = completions(0x1004, 512, 128, 256).map(|c| c.len).collect();
        assert_eq!(lens, [252, 256, 4]);
    }
}
