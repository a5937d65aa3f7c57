//! The EEPROM as delivered by the factory: the records of `firmware/src/store.h`.

use crate::calibration::Calibration;
use crate::config::calibration_writes;
use crate::i2c::EEPROM_SIZE;
use wattbell_spec::registers as reg;

const PLACE: usize = 512;
const MAGIC: u8 = b'W';
const VERSION: u8 = 1;
const HEAD: usize = 12;
/// Record numbers; each record has two places.
const IDENTITY: usize = 0;
const CALIBRATION: usize = 1;
/// Maximum length of model and serial number.
pub const NAME_MAX: usize = 19;

/// Contents of the EEPROM on delivery: `model` and `serial` of at most [`NAME_MAX`] bytes, and the calibration if there
/// is one.
pub fn image(model: &str, serial: &str, calibration: Option<&Calibration>) -> Vec<u8> {
    let mut eeprom = vec![0xFF; EEPROM_SIZE];
    let mut identity = vec![0; 2 * (NAME_MAX + 1)];
    identity[..model.len()].copy_from_slice(model.as_bytes());
    identity[NAME_MAX + 1..][..serial.len()].copy_from_slice(serial.as_bytes());
    put(&mut eeprom, IDENTITY, &identity);
    if let Some(calibration) = calibration {
        let writes = calibration_writes(calibration);
        let value_or = |address, other| writes.iter().find(|(a, _)| *a == address).map_or(other, |(_, value)| *value);
        let value = |address| value_or(address, 0);
        let ps = |seconds: f64| (seconds * 1e12).round() as u32;
        let delay = |path: usize| calibration.delay[path].map_or([0; 2], |d| [ps(d.delay_s), ps(d.u_s).max(1)]);
        let ([coarse, coarse_u], [fine, fine_u]) = (delay(0), delay(1));
        let words = [
            value(reg::V_OFFSET),
            value(reg::V_GAIN),
            value(reg::I_OFFSET),
            value(reg::I_GAIN),
            value(reg::F_OFFSET),
            value_or(reg::F_GAIN, reg::F_GAIN_RESET), // as the firmware would write it without a fine path
            coarse,
            coarse_u,
            fine,
            fine_u,
            1,       // stored once
            25 * 16, // at 25 degrees
        ];
        put(&mut eeprom, CALIBRATION, &words.map(u32::to_le_bytes).concat());
    }
    eeprom
}

/// Returns the EEPROM's serial number as the firmware reads it: from the newer intact place of the two.
pub fn serial(eeprom: &[u8]) -> Option<String> {
    let identity = get(eeprom, IDENTITY, 2 * (NAME_MAX + 1))?;
    let name = &identity[NAME_MAX + 1..];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8(name[..end].to_vec()).ok()
}

fn get(eeprom: &[u8], record: usize, count: usize) -> Option<&[u8]> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let whole = |copy: usize| {
        let place = &eeprom[(2 * record + copy) * PLACE..][..PLACE];
        let (head, bytes) = (&place[..HEAD], &place[HEAD..HEAD + count]);
        let sized = head[..4] == [MAGIC, VERSION, count as u8, (count >> 8) as u8];
        let crc = crc32(head[4..8].iter().chain(bytes).copied());
        (sized && crc == word(head, 8)).then(|| (word(head, 4), bytes))
    };
    match (whole(0), whole(1)) {
        (Some((first, _)), Some((second, bytes))) if second.wrapping_sub(first) as i32 > 0 => Some(bytes),
        (Some((_, bytes)), _) | (None, Some((_, bytes))) => Some(bytes),
        (None, None) => None,
    }
}

fn put(eeprom: &mut [u8], record: usize, bytes: &[u8]) {
    let sequence = 1u32.to_le_bytes();
    let crc = crc32(sequence.iter().chain(bytes).copied());
    let mut place = vec![MAGIC, VERSION];
    place.extend((bytes.len() as u16).to_le_bytes());
    place.extend(sequence);
    place.extend(crc.to_le_bytes());
    place.extend(bytes);
    eeprom[2 * record * PLACE..][..place.len()].copy_from_slice(&place);
}

/// CRC-32 of ISO-HDLC (IEEE 802.3).
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0xEDB8_8320 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_number_is_the_newer_whole_places() {
        let mut chip = image("m", "OLD", None);
        assert_eq!(serial(&chip).as_deref(), Some("OLD"));
        let mut newer = image("m", "NEW", None);
        newer[4] = 2; // its sequence number
        let crc = crc32(newer[4..8].iter().chain(&newer[HEAD..HEAD + 40]).copied());
        newer[8..12].copy_from_slice(&crc.to_le_bytes());
        chip.copy_within(..PLACE, PLACE);
        chip[PLACE..2 * PLACE].copy_from_slice(&newer[..PLACE]);
        assert_eq!(serial(&chip).as_deref(), Some("NEW"));
        chip[PLACE + HEAD] ^= 1; // a truncated write
        assert_eq!(serial(&chip).as_deref(), Some("OLD"));
        chip[HEAD] ^= 1;
        assert_eq!(serial(&chip), None);
    }

    #[test]
    fn the_crc_is_the_catalogues() {
        assert_eq!(crc32(b"123456789".iter().copied()), 0xCBF4_3926);
    }
}
