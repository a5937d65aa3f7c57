//! The self-test's pattern player, cycle by cycle, like the gateware's `selftest/player.py`: TLPs, PERST# and ADC codes
//! in place of the board's own.

mod pattern;

use crate::time::{tick, Clock, NEVER, TICKS};
use std::collections::VecDeque;
use wattbell_bus::Tlp;

/// How long PERST# is low; how long the tracker then has to clear its tables.
const RESET: Clock = 1024 / TICKS;
const SETTLE: Clock = 65_536 / TICKS;
/// From TLP to TLP, and from command to command; how long the current is high in each.
const GAP: Clock = 512 / TICKS;
const COMMAND: Clock = 8000 / TICKS;
const HIGH: Clock = 4000 / TICKS;
/// Codes of 3.3 V, 0.1 A, 2 A, and of the fine path's full scale.
const V_CODE: u32 = 173_015;
const LOW_CODE: u32 = 3200;
const HIGH_CODE: u32 = 64_000;
const F_CODE: u32 = (1 << 17) - 1;
/// Bits of TEST_CONTROL.
const COMMANDS: u32 = 0xFF;
const PATTERN: u32 = 0x100;

/// A TLP, whether it goes up, and its tick.
pub type Played = (bool, u64, Tlp);

/// Effect on the tracker's other inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// PERST# takes this level.
    Perst(u8),
    /// Records are made from now on, or no longer.
    Run(bool),
}

/// The values of its registers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown {
    /// TEST_CONTROL.
    pub control: u32,
    /// TEST_STATE.
    pub busy: bool,
    /// TEST_STEP_TICK.
    pub step: u64,
    /// TEST_DOORBELL_TICK.
    pub doorbell: u64,
}

/// The codes in place of the ADCs'.
#[derive(Debug, Clone, Default)]
pub struct Codes {
    /// The cycles in which commands begin.
    begins: Vec<Clock>,
    /// Instant of the first conversion of the high current.
    pub step: Option<u64>,
}

impl Codes {
    fn is_high(&self, clock: Clock) -> bool {
        self.begins.iter().any(|begin| (begin + 1..=begin + HIGH).contains(&clock))
    }

    /// A conversion begins at tick `started`.
    pub fn begin(&mut self, started: u64) {
        if self.step.is_none() && self.is_high(started / TICKS) {
            self.step = Some(started);
        }
    }

    /// Its codes.
    pub fn of(&self, started: u64) -> [u32; 3] {
        [V_CODE, if self.is_high(started / TICKS) { HIGH_CODE } else { LOW_CODE }, F_CODE]
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Player {
    control: u32,
    doorbell: u64,
    /// Step of a pattern that no longer supplies its codes.
    step: u64,
    busy_until: Clock,
    acts: VecDeque<(Clock, Act)>,
}

impl Player {
    /// Whether the pattern replaces the board's inputs.
    pub fn is_on(&self) -> bool {
        self.control & PATTERN != 0
    }

    /// TEST_CONTROL is written; `codes` are those in use.
    pub fn write(&mut self, control: u32, codes: Option<&Codes>) {
        self.control = control & (COMMANDS | PATTERN);
        if !self.is_on() {
            self.acts.clear();
            self.step = codes.and_then(|codes| codes.step).unwrap_or(self.step);
        }
    }

    /// The pattern begins in `clock`: its TLPs, each with its tick, and the codes that go with them. `None` while one
    /// is being played or none can be.
    pub fn go(&mut self, clock: Clock) -> Option<(Vec<Played>, Codes)> {
        if !self.is_on() || clock < self.busy_until {
            return None;
        }
        // Each wait is over in the cycle after the one that sees its end.
        let settles = clock + RESET + 2;
        let mut at = settles + SETTLE + 1;
        let mut tlps = Vec::new();
        let mut play = |at: &mut Clock, sent: Vec<(bool, Tlp)>| {
            for (up, tlp) in sent {
                tlps.push((up, tick(*at), tlp));
                *at += GAP + 1;
            }
        };
        play(&mut at, pattern::setup());
        let mut codes = Codes::default();
        for n in 0..(self.control & COMMANDS).max(1) {
            codes.begins.push(at);
            let mut tlp_at = at;
            play(&mut tlp_at, pattern::command(n as u8));
            at += COMMAND + 2;
        }
        self.busy_until = at;
        self.doorbell = codes.begins.first().map_or(0, |begin| tick(*begin));
        self.step = 0;
        self.acts.extend([
            (clock + 1, Act::Perst(0)),
            (clock + 1, Act::Run(true)),
            (settles, Act::Perst(1)),
            (at, Act::Run(false)),
        ]);
        Some((tlps, codes))
    }

    /// The cycle in which it next does something.
    pub fn next(&self) -> Clock {
        self.acts.front().map_or(NEVER, |(clock, _)| *clock)
    }

    /// Returns the player's action in that cycle.
    pub fn act(&mut self) -> Option<Act> {
        self.acts.pop_front().map(|(_, act)| act)
    }

    /// The values of its registers in `clock`.
    pub fn shown(&self, clock: Clock, codes: Option<&Codes>) -> Shown {
        let step = codes.and_then(|codes| codes.step).unwrap_or(self.step);
        Shown { control: self.control, busy: clock < self.busy_until, step, doorbell: self.doorbell }
    }
}
