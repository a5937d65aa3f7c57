//! The digital side of the ADCs (two, three with a fine current path), pin by pin. The ADCs are 18-bit SAR converters in three-wire mode
//! with a shared CNV and SCK.
//!
//! CNV rises: all inputs are sampled. CNV falls after the conversion: SDO carries the MSB. Each falling edge of SCK brings the next bit.
//! The bit reaches the instrument two cycles after the cycle that launched the edge. SCK out, clock-to-data and SDO in take 8 ns together,
//! where the gateware allows 16 ns.

use crate::adc::{Adc, ADC_BITS};

/// State of the pins and shift registers.
#[derive(Debug, Default)]
pub struct SerialAdc {
    cnv: u8,
    sck: u8,
    /// Bits still to come of voltage, current, fine current.
    words: [u32; 3],
    conversions: u64,
}

impl SerialAdc {
    /// Looks at the pins shown for the cycle at `now_ps` and returns the SDO of each channel after it.
    #[inline]
    pub fn pins(&mut self, cnv: u8, sck: u8, now_ps: u64, adc: &mut Adc) -> [u8; 3] {
        if cnv > self.cnv {
            self.words = adc.sample(now_ps);
            self.conversions += 1;
        }
        if sck < self.sck && cnv == 0 {
            self.words = self.words.map(|word| word << 1);
        }
        (self.cnv, self.sck) = (cnv, sck);
        self.words.map(|word| (word >> (ADC_BITS - 1) & 1) as u8)
    }

    /// Number of conversions so far.
    pub fn conversions(&self) -> u64 {
        self.conversions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adc::BoardOptions;
    use wattbell_bus::Rail;

    #[test]
    fn eighteen_bits_come_out_msb_first() {
        let options = BoardOptions { noise_lsb: 0.0, errors: 0.0, tau_s: 0.0, seed: 0, ..BoardOptions::default() };
        let (mut adc, mut twin) = (Adc::new(&options), Adc::new(&options));
        let rail = Rail { voltage_nv: 3_300_000_000, current_na: -1_234_567_000 };
        adc.push(0, rail);
        twin.push(0, rail);
        let expected = twin.sample(8_000);
        let mut pins = SerialAdc::default();
        pins.pins(1, 0, 8_000, &mut adc);
        adc.push(9_000, Rail::default()); // what the rail does after CNV rose must not matter
        let mut words = [0; 3];
        for bit in 0..18 {
            let levels = pins.pins(0, 0, 400_000 + bit * 16_000, &mut adc);
            words = [0, 1, 2].map(|n| words[n] << 1 | u32::from(levels[n]));
            pins.pins(0, 1, 408_000 + bit * 16_000, &mut adc);
        }
        assert_eq!(words, expected);
    }
}
