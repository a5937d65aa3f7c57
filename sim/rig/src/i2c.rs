//! The devices on the board's I2C bus: an EEPROM (24LC64, data sheet DS21189) at 50h and a temperature sensor (TMP102,
//! SBOS397) at 48h.
//!
//! Simplified: a page is written at once, and the sensor reads the board's temperature to a sixteenth of a degree.

const EEPROM: u8 = 0x50;
const SENSOR: u8 = 0x48;
/// Bytes of the EEPROM, and of its page.
pub const EEPROM_SIZE: usize = 8192;
const PAGE: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// No start condition, or another device is addressed.
    Idle,
    Device,
    /// The sensor's register to be read next; the modelled sensor has a single register.
    Pointer,
    High,
    Low,
    Write,
    /// The acknowledge of a read address is on the line.
    Turn,
    Read,
}

/// Both devices, notified whenever the lines' levels change.
#[derive(Debug)]
pub struct I2c {
    /// Contents of the EEPROM.
    pub eeprom: Vec<u8>,
    scl: bool,
    sda: bool,
    role: Role,
    sensor: bool,
    bits: u8,
    count: u8,
    address: usize,
    sensor_byte: usize,
    /// 12 bits, left-aligned, of 1/16 degree Celsius.
    temperature: i16,
    low: bool,
}

impl I2c {
    /// Idle devices, on a board of this temperature (the sensor's range is -128 to 127.9).
    pub fn new(eeprom: Vec<u8>, celsius: f64) -> Self {
        assert_eq!(eeprom.len(), EEPROM_SIZE);
        let sixteenths = (celsius * 16.0).round().clamp(-2048.0, 2047.0) as i16;
        Self {
            temperature: sixteenths << 4,
            eeprom,
            scl: true,
            sda: true,
            role: Role::Idle,
            sensor: false,
            bits: 0,
            count: 0,
            address: 0,
            sensor_byte: 0,
            low: false,
        }
    }

    /// The levels of (SCL, SDA) when the master drives these.
    pub fn lines(&mut self, scl_low: bool, sda_low: bool) -> (bool, bool) {
        for _ in 0..2 {
            self.levels(!scl_low, !(sda_low || self.low)); // what the slave drives changes SDA too
        }
        (!scl_low, !(sda_low || self.low))
    }

    fn levels(&mut self, scl: bool, sda: bool) {
        let before = (std::mem::replace(&mut self.scl, scl), std::mem::replace(&mut self.sda, sda));
        if before.0 && scl && before.1 != sda {
            self.role = if sda { Role::Idle } else { Role::Device };
            (self.bits, self.count, self.low) = (0, 0, false);
        } else if scl && !before.0 {
            self.rises(sda);
        } else if before.0 && !scl {
            self.falls();
        }
    }

    fn rises(&mut self, sda: bool) {
        if self.role == Role::Idle {
            return;
        }
        if self.count < 8 {
            self.bits = self.bits << 1 | u8::from(sda);
        } else if self.role == Role::Read && sda {
            self.role = Role::Idle; // not acknowledged: the last byte
        }
        self.count += 1;
    }

    fn falls(&mut self) {
        if self.role == Role::Idle {
            self.low = false;
            return;
        }
        match self.count {
            8 => self.low = self.takes(),
            9 => {
                (self.count, self.low) = (0, false);
                if self.role == Role::Turn {
                    self.role = Role::Read;
                }
            }
            _ => {}
        }
        if self.role == Role::Read && self.count < 8 {
            self.low = self.shown() >> (7 - self.count) & 1 == 0;
        }
    }

    fn shown(&self) -> u8 {
        if self.sensor {
            return self.temperature.to_be_bytes()[self.sensor_byte % 2];
        }
        self.eeprom[self.address]
    }

    /// Handles a complete byte; returns whether the byte is acknowledged.
    fn takes(&mut self) -> bool {
        match self.role {
            Role::Device => {
                self.sensor = self.bits >> 1 == SENSOR;
                if !self.sensor && self.bits >> 1 != EEPROM {
                    self.role = Role::Idle;
                    return false;
                }
                self.sensor_byte = 0;
                self.role = match (self.bits & 1, self.sensor) {
                    (1, _) => Role::Turn,
                    (_, true) => Role::Pointer,
                    _ => Role::High,
                };
            }
            Role::High => {
                self.address = usize::from(self.bits) << 8 & (EEPROM_SIZE - 1);
                self.role = Role::Low;
            }
            Role::Low => {
                self.address |= usize::from(self.bits);
                self.role = Role::Write;
            }
            Role::Write => {
                self.eeprom[self.address] = self.bits;
                self.address = self.address & !(PAGE - 1) | (self.address + 1) & (PAGE - 1);
            }
            Role::Read => {
                self.address = (self.address + 1) % EEPROM_SIZE;
                self.sensor_byte += 1;
                return false; // the master acknowledges
            }
            Role::Pointer | Role::Turn | Role::Idle => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other end: drives the lines as UM10204 shows.
    struct Master(I2c);

    impl Master {
        fn bit(&mut self, high: bool) -> bool {
            self.0.lines(true, !high);
            let (_, sda) = self.0.lines(false, !high);
            self.0.lines(true, !high);
            sda
        }

        fn start(&mut self) {
            self.0.lines(true, false);
            self.0.lines(false, false);
            self.0.lines(false, true);
            self.0.lines(true, true);
        }

        fn stop(&mut self) {
            self.0.lines(true, true);
            self.0.lines(false, true);
            self.0.lines(false, false);
        }

        fn send(&mut self, byte: u8) -> bool {
            (0..8).for_each(|k| _ = self.bit(byte >> (7 - k) & 1 == 1));
            !self.bit(true)
        }

        fn receive(&mut self, acknowledge: bool) -> u8 {
            let byte = (0..8).fold(0, |byte, _| byte << 1 | u8::from(self.bit(true)));
            self.bit(!acknowledge);
            byte
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_page_wraps() {
        let mut m = Master(I2c::new(vec![0xFF; EEPROM_SIZE], 25.0));
        m.start();
        assert!(m.send(0xA0) && m.send(0x01) && m.send(0x1E));
        assert!([1, 2, 3].into_iter().all(|byte| m.send(byte)));
        m.stop();
        assert_eq!((m.0.eeprom[0x11E], m.0.eeprom[0x11F], m.0.eeprom[0x100]), (1, 2, 3));
        m.start();
        assert!(m.send(0xA0) && m.send(0x01) && m.send(0x1E));
        m.start();
        assert!(m.send(0xA1));
        assert_eq!([m.receive(true), m.receive(true), m.receive(false)], [1, 2, 0xFF]);
        m.stop();
    }

    #[test]
    fn the_sensor_answers_and_nobody_else() {
        // Table 8 of the data sheet; the last two are its rule, by hand.
        for (celsius, bytes) in [
            (25.0, [0x19, 0x00]),
            (-25.0, [0xE7, 0x00]),
            (0.25, [0x00, 0x40]),
            (65.1, [0x41, 0x20]),
            (-40.0, [0xD8, 0x00]),
        ] {
            let mut m = Master(I2c::new(vec![0xFF; EEPROM_SIZE], celsius));
            m.start();
            assert!(m.send(0x90) && m.send(0));
            m.start();
            assert!(m.send(0x91));
            assert_eq!([m.receive(true), m.receive(false)], bytes);
            m.stop();
            m.start();
            assert!(!m.send(0x42));
            m.stop();
        }
    }
}
