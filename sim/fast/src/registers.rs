//! The registers that software writes, and the effects of a write.

use crate::rail::{Config, Correction, Range};
use wattbell_spec::{controller as board, registers as reg};

/// Cycles of the shortest conversion period: 640 ns.
const SHORTEST: u32 = 160;
const DEFAULT_PERIOD: u32 = 250;

/// A late-attach fact, as held in the ATTACH registers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Attach {
    pub op: u8,
    pub qid: u8,
    pub link: u16,
    pub size: u32,
    pub address: u64,
}

impl Attach {
    /// An `op` outside the ATTACH registers' own: forget all queues and commands in flight.
    pub const RESET: u8 = 6;
}

/// Values of the read/write registers.
#[derive(Debug)]
pub struct Registers {
    config: Config,
    /// Whether there is a fine current path.
    fine: bool,
    calibrated: u8,
    attach: Attach,
    /// Identifier of the next run.
    pub run_id: u32,
}

/// Effect of a write, in the cycle after the one that sees it.
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
    pub fn new(fine: bool) -> Self {
        let config = Config {
            period: DEFAULT_PERIOD,
            decimation: 1,
            mul: reg::DECIM_MUL_RESET,
            shift: 0,
            voltage: Correction { offset: 0, gain: reg::V_GAIN_RESET },
            current: Correction { offset: 0, gain: reg::I_GAIN_RESET },
            fine: Correction { offset: 0, gain: reg::F_GAIN_RESET },
            range: if fine { Range::Merged } else { Range::Coarse },
            uncalibrated: true,
        };
        Self { config, fine, calibrated: 0, attach: Attach::default(), run_id: 0 }
    }

    /// The rail settings at reset.
    pub fn reset_config(&self) -> Config {
        self.config
    }

    /// Writes a register.
    pub fn write(&mut self, address: u8, value: u32) -> Effect {
        let offset = |value: u32| ((value << 4) as i32) >> 4;
        let c = &mut self.config;
        let a = &mut self.attach;
        let all = if self.fine { 0x3F } else { 0xF };
        let mut calibrates = |bit: u8| self.calibrated |= 1 << bit;
        match address {
            reg::CONTROL => return Effect::Run(value & reg::CONTROL_RUN != 0),
            reg::MARKER => return Effect::Marker(value),
            reg::COMMAND => {
                let rail = (value & reg::COMMAND_RAIL_APPLY != 0).then(|| Config {
                    period: c.period.max(SHORTEST),
                    uncalibrated: self.calibrated & all != all,
                    ..*c
                });
                let reset = value & reg::COMMAND_TRACKER_RESET != 0;
                let attach = (reset || value & reg::COMMAND_ATTACH != 0).then_some(if reset {
                    Attach { op: Attach::RESET, ..*a }
                } else {
                    *a
                });
                return Effect::Command { status: value & reg::COMMAND_STATUS != 0, rail, attach };
            }
            board::TEST_CONTROL => return Effect::Test(value),
            board::TEST_COMMAND if value & 1 != 0 => return Effect::Go,
            reg::RUN_ID => self.run_id = value,
            reg::ADC_PERIOD => c.period = value & 0xF_FFFF,
            reg::DECIMATION => c.decimation = value as u16 & 0x1FFF,
            reg::DECIM_MUL => c.mul = value & 0x1FF_FFFF,
            reg::DECIM_SHIFT => c.shift = value as u8 & 0x3F,
            reg::V_OFFSET => {
                c.voltage.offset = offset(value);
                calibrates(0);
            }
            reg::V_GAIN => {
                c.voltage.gain = value;
                calibrates(1);
            }
            reg::I_OFFSET => {
                c.current.offset = offset(value);
                calibrates(2);
            }
            reg::I_GAIN => {
                c.current.gain = value;
                calibrates(3);
            }
            reg::F_OFFSET => {
                c.fine.offset = offset(value);
                calibrates(4);
            }
            reg::F_GAIN => {
                c.fine.gain = value;
                calibrates(5);
            }
            reg::RANGE if self.fine => {
                c.range = [Range::Merged, Range::Coarse, Range::Fine, Range::Merged][value as usize & 3];
            }
            reg::ATTACH_OP => a.op = value as u8 & 7,
            reg::ATTACH_QID => a.qid = value as u8,
            reg::ATTACH_LINK => a.link = value as u16,
            reg::ATTACH_SIZE => a.size = value,
            reg::ATTACH_ADDRESS_LO => a.address = a.address & !0xFFFF_FFFF | u64::from(value),
            reg::ATTACH_ADDRESS_HI => a.address = a.address & 0xFFFF_FFFF | u64::from(value) << 32,
            _ => {}
        }
        Effect::None
    }
}
