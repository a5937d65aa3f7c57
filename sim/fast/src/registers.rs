//! The registers that software writes, and what a write sets off.

use crate::rail::{Config, Correction, Range};

/// Addresses and bits of the register map that an instrument understands. The owner of the map hands them in.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // names of the register map
pub struct Map {
    pub version: [u8; 3],
    pub control: u8,
    pub control_run: u32,
    pub command: u8,
    pub command_status: u32,
    pub command_rail_apply: u32,
    pub command_attach: u32,
    pub command_tracker_reset: u32,
    pub marker: u8,
    pub run_id: u8,
    pub adc_period: u8,
    pub decimation: u8,
    pub decim_mul: u8,
    pub decim_shift: u8,
    pub v_offset: u8,
    pub v_gain: u8,
    pub i_offset: u8,
    pub i_gain: u8,
    pub f_offset: u8,
    pub f_gain: u8,
    pub range: u8,
    pub test_control: u8,
    pub test_command: u8,
    pub attach_op: u8,
    pub attach_qid: u8,
    pub attach_link: u8,
    pub attach_size: u8,
    pub attach_address_lo: u8,
    pub attach_address_hi: u8,
    pub v_gain_reset: u32,
    pub i_gain_reset: u32,
    pub f_gain_reset: u32,
    pub decim_mul_reset: u32,
}

/// Clocks of the shortest conversion period: 640 ns.
const SHORTEST: u32 = 160;
const DEFAULT_PERIOD: u32 = 250;

/// A fact of a late attach, as the ATTACH registers hold it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Attach {
    pub op: u8,
    pub qid: u8,
    pub link: u16,
    pub size: u32,
    pub address: u64,
}

impl Attach {
    /// The `op` that is none of the ATTACH registers': all queues and commands in flight are forgotten.
    pub const RESET: u8 = 6;
}

/// Values of the read/write registers.
#[derive(Debug)]
pub struct Registers {
    config: Config,
    /// There is a fine current path.
    fine: bool,
    calibrated: u8,
    attach: Attach,
    /// Identifier of the next run.
    pub run_id: u32,
}

/// What a write sets off, in the clock behind the one that sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Effect {
    None,
    Run(bool),
    Marker(u32),
    Test(u32),
    Go,
    Command { status: bool, rail: Option<Config>, attach: Option<Attach> },
}

impl Registers {
    /// Reset values of an instrument with or without a fine current path.
    pub fn new(map: &Map, fine: bool) -> Self {
        let config = Config {
            period: DEFAULT_PERIOD,
            decimation: 1,
            mul: map.decim_mul_reset,
            shift: 0,
            voltage: Correction { offset: 0, gain: map.v_gain_reset },
            current: Correction { offset: 0, gain: map.i_gain_reset },
            fine: Correction { offset: 0, gain: map.f_gain_reset },
            range: if fine { Range::Merged } else { Range::Coarse },
            uncalibrated: true,
        };
        Self { config, fine, calibrated: 0, attach: Attach::default(), run_id: 0 }
    }

    /// The rail's settings at reset.
    pub fn reset_config(&self) -> Config {
        self.config
    }

    /// A register is written.
    pub fn write(&mut self, map: &Map, address: u8, value: u32) -> Effect {
        let offset = |value: u32| ((value << 4) as i32) >> 4;
        let c = &mut self.config;
        let a = &mut self.attach;
        let all = if self.fine { 0x3F } else { 0xF };
        let mut calibrates = |bit: u8| self.calibrated |= 1 << bit;
        match address {
            _ if address == map.control => return Effect::Run(value & map.control_run != 0),
            _ if address == map.marker => return Effect::Marker(value),
            _ if address == map.command => {
                let rail = (value & map.command_rail_apply != 0).then(|| Config {
                    period: c.period.max(SHORTEST),
                    uncalibrated: self.calibrated & all != all,
                    ..*c
                });
                let reset = value & map.command_tracker_reset != 0;
                let attach = (reset || value & map.command_attach != 0).then_some(if reset {
                    Attach { op: Attach::RESET, ..*a }
                } else {
                    *a
                });
                return Effect::Command { status: value & map.command_status != 0, rail, attach };
            }
            _ if address == map.test_control => return Effect::Test(value),
            _ if address == map.test_command && value & 1 != 0 => return Effect::Go,
            _ if address == map.run_id => self.run_id = value,
            _ if address == map.adc_period => c.period = value & 0xF_FFFF,
            _ if address == map.decimation => c.decimation = value as u16 & 0x1FFF,
            _ if address == map.decim_mul => c.mul = value & 0x1FF_FFFF,
            _ if address == map.decim_shift => c.shift = value as u8 & 0x3F,
            _ if address == map.v_offset => {
                c.voltage.offset = offset(value);
                calibrates(0);
            }
            _ if address == map.v_gain => {
                c.voltage.gain = value;
                calibrates(1);
            }
            _ if address == map.i_offset => {
                c.current.offset = offset(value);
                calibrates(2);
            }
            _ if address == map.i_gain => {
                c.current.gain = value;
                calibrates(3);
            }
            _ if address == map.f_offset => {
                c.fine.offset = offset(value);
                calibrates(4);
            }
            _ if address == map.f_gain => {
                c.fine.gain = value;
                calibrates(5);
            }
            _ if address == map.range && self.fine => {
                c.range = [Range::Merged, Range::Coarse, Range::Fine, Range::Merged][value as usize & 3];
            }
            _ if address == map.attach_op => a.op = value as u8 & 7,
            _ if address == map.attach_qid => a.qid = value as u8,
            _ if address == map.attach_link => a.link = value as u16,
            _ if address == map.attach_size => a.size = value,
            _ if address == map.attach_address_lo => a.address = a.address & !0xFFFF_FFFF | u64::from(value),
            _ if address == map.attach_address_hi => a.address = a.address & 0xFFFF_FFFF | u64::from(value) << 32,
            _ => {}
        }
        Effect::None
    }
}
