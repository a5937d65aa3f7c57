//! Packs fields of the wire format into bytes.

/// Puts the low bits of `value` at `field` (first bit, bits) of `record`. A field that is not whole bytes must be 0 there before.
#[inline(always)]
pub fn put(record: &mut [u8], field: (usize, usize), value: u64) {
    let (at, size) = (field.0 / 8, field.1 / 8);
    if field.0 % 8 == 0 && field.1 % 8 == 0 {
        record[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        return;
    }
    let bits = u128::from(value & (u64::MAX >> (64 - field.1))) << (field.0 % 8);
    for (place, byte) in record[at..].iter_mut().zip(bits.to_le_bytes()).take((field.0 % 8 + field.1).div_ceil(8)) {
        *place |= byte;
    }
}

#[cfg(test)]
mod tests {
    use super::put;
    use wattbell_spec::wire::{command as c, COMMAND_SIZE};

    #[test]
    fn fields_that_share_a_byte_keep_their_bits() {
        for order in [[c::STATUS, c::LENGTH_CHECKED], [c::LENGTH_CHECKED, c::STATUS]] {
            let mut record = [0; COMMAND_SIZE];
            for field in order {
                put(&mut record, field, if field == c::STATUS { 0x4002 } else { 1 });
            }
            assert_eq!(record[c::STATUS.0 / 8..][..2], [0x02, 0xC0]);
            assert_eq!(record.iter().map(|byte| byte.count_ones()).sum::<u32>(), 3);
        }
    }

    #[test]
    fn a_value_does_not_run_into_the_next_field() {
        let mut record = [0; COMMAND_SIZE];
        put(&mut record, c::STATUS, 0x1_8001);
        assert_eq!(record[c::STATUS.0 / 8..][..3], [1, 0, 0]);
    }

    #[test]
    fn whole_bytes_replace_what_was_there() {
        let mut record = [0xFF; COMMAND_SIZE];
        put(&mut record, c::SLBA, 0x0102_0304_0506_0708);
        assert_eq!(record[c::SLBA.0 / 8 - 1..][..7], [0xFF, 8, 7, 6, 5, 4, 0xFF]);
    }
}
