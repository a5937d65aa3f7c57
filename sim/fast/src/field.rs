//! Packs fields of the wire format into bytes.

/// Puts the low bits of `value` at `field` (first bit, bits) of `record`. Fields are whole bytes on byte boundaries.
#[inline(always)]
pub fn put(record: &mut [u8], field: (usize, usize), value: u64) {
    debug_assert!(field.0 % 8 == 0 && field.1 % 8 == 0);
    let (at, size) = (field.0 / 8, field.1 / 8);
    record[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

#[cfg(test)]
mod tests {
    use wattbell_spec::wire;

    #[test]
    fn every_field_is_whole_bytes() {
        use wire::{command as c, event as e, status as s};
        for (at, bits) in [c::MSIX_AFTER, c::CQ_HEAD_AFTER, c::SLBA, c::FLAGS, e::ARG16, s::RUN, s::BAR0] {
            assert_eq!((at % 8, bits % 8), (0, 0));
        }
    }
}
