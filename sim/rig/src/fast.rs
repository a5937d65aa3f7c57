//! Fast fidelity: plays the trace to the cycle-level model of the instrument in [`wattbell_fast`].

use crate::adc::Adc;
use crate::feed::{Fed, Feed};
use crate::machine::{Conversion, Interest, Limits, Machine, Pause, Until, TICK_PS};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use wattbell_bus::{Event, Item};
use wattbell_fast::time::{clock_at, tick, Clock, NEVER, TICKS};
use wattbell_fast::{Analog, Instrument, Listening, Told, Wanted};
use wattbell_spec::controller as board;
use wattbell_spec::registers as reg;

/// Cycles that the Verilated instrument spends on the reads of its identity.
const POWER_ON_CLOCKS: Clock = 3;
/// Maximum number of bytes kept before the caller must take them.
const FULL: usize = 1 << 18;
/// Maximum duration of one call.
const SLICE: Duration = Duration::from_millis(10);
/// Cycles between looks at the wall clock: a millisecond of virtual time.
const STRIDE: Clock = 250_000;

impl Analog for Adc {
    fn has_fine(&self) -> bool {
        self.fine.is_some()
    }

    #[inline]
    fn sample(&mut self, time_ps: u64) -> [u32; 3] {
        Adc::sample(self, time_ps)
    }

    fn stays_below(&self, code: i32, until_ps: u64) -> bool {
        Adc::stays_below(self, code, until_ps)
    }

    #[inline]
    fn sample_run(&mut self, first_ps: u64, step_ps: u64, codes: [&mut [u32]; 3]) {
        Adc::sample_run(self, first_ps, step_ps, codes);
    }
}

impl From<wattbell_fast::Conversion> for Conversion {
    fn from(c: wattbell_fast::Conversion) -> Self {
        let [v_code, i_code, f_code] = c.codes;
        let (v, i) = (c.voltage, c.current);
        let (guard, beyond) = (c.guard, c.beyond);
        Self { tick: c.tick, period: c.period, v, i, flags: c.flags, v_code, i_code, f_code, guard, beyond }
    }
}

/// The model and the trace that feeds it.
pub struct Fast {
    instrument: Instrument<Adc>,
    feed: Feed,
    /// Tick at which the trace begins.
    origin: u64,
    /// Everything that happens before this tick is known.
    horizon: u64,
    end: Option<u64>,
    failure: Option<String>,
    interest: Interest,
    /// Values written to the registers that can be read back.
    kept: HashMap<u8, u32>,
}

/// Registers that can be read back, and their values at power-on.
const KEPT: [(u8, u32); 19] = [
    (reg::CONTROL, 0),
    (reg::RUN_ID, 0),
    (reg::ADC_PERIOD, 1000 / TICKS as u32),
    (reg::DECIMATION, reg::DECIMATION_RESET),
    (reg::DECIM_MUL, reg::DECIM_MUL_RESET),
    (reg::DECIM_SHIFT, reg::DECIM_SHIFT_RESET),
    (reg::V_OFFSET, reg::V_OFFSET_RESET),
    (reg::V_GAIN, reg::V_GAIN_RESET),
    (reg::I_OFFSET, reg::I_OFFSET_RESET),
    (reg::I_GAIN, reg::I_GAIN_RESET),
    (reg::F_OFFSET, reg::F_OFFSET_RESET),
    (reg::F_GAIN, reg::F_GAIN_RESET),
    (reg::RANGE, reg::RANGE_RESET),
    (reg::ATTACH_OP, reg::ATTACH_OP_RESET),
    (reg::ATTACH_QID, reg::ATTACH_QID_RESET),
    (reg::ATTACH_LINK, reg::ATTACH_LINK_RESET),
    (reg::ATTACH_SIZE, reg::ATTACH_SIZE_RESET),
    (reg::ATTACH_ADDRESS_LO, reg::ATTACH_ADDRESS_LO_RESET),
    (reg::ATTACH_ADDRESS_HI, reg::ATTACH_ADDRESS_HI_RESET),
];

impl Fast {
    /// An instrument with `adc` on its rail, fed by `feed` from tick `origin` on.
    pub fn new(adc: Adc, feed: Feed, origin: u64) -> Self {
        let instrument = Instrument::new(POWER_ON_CLOCKS, adc);
        Self {
            instrument,
            feed,
            origin,
            horizon: origin,
            end: None,
            failure: None,
            interest: Interest::default(),
            kept: KEPT.into(),
        }
    }

    /// Records, from now on, the cycle of each block's last word.
    pub fn note_ends(&mut self) {
        self.instrument.output().note_ends();
    }

    /// Returns the ends recorded since the last call: the cycle of the last word, and the block's kind.
    pub fn take_ends(&mut self) -> Vec<(Clock, u8)> {
        self.instrument.output().take_ends()
    }

    /// Reads the trace until everything before `tick` is known; returns a pause if that is not available now.
    fn read_ahead(&mut self, tick: u64, patience: Duration) -> Option<Pause> {
        while self.horizon < tick && self.end.is_none() {
            match self.feed.next(patience) {
                Fed::Events(events) => events.into_iter().for_each(|event| self.take(event)),
                Fed::Waiting => return Some(Pause::Input),
                Fed::Over => self.end = Some(self.horizon),
                Fed::Failed(reason) => {
                    self.end = Some(self.horizon);
                    self.failure = Some(reason);
                }
            }
        }
        None
    }

    #[inline]
    fn take(&mut self, event: Event) {
        let time_ps = event.time_ps + self.origin * TICK_PS;
        let tick = time_ps / TICK_PS;
        self.horizon = tick;
        match event.item {
            Item::Tlp(direction, tlp) => self.instrument.tlp(direction, tick, tlp),
            Item::Missed(direction) => self.instrument.miss(direction),
            Item::Rail(rail) => self.instrument.analog.push(time_ps, rail),
            Item::Sideband(signal, value) => self.instrument.sideband(tick, signal, value),
            Item::Summary(summary) => self.instrument.summary(tick, self.origin, &summary),
            Item::End => self.end = Some(tick),
        }
    }

    /// The last cycle about which everything is known, or in which there is something to decide.
    fn reach(&self, now: Clock) -> Clock {
        match self.end {
            None => clock_at(self.horizon).saturating_sub(1),
            Some(end) if now < clock_at(end) => clock_at(end),
            Some(_) => match self.instrument.seen_from() {
                NEVER => now + 1,
                seen if seen > now => seen,
                _ => NEVER,
            },
        }
    }
}

impl Machine for Fast {
    fn now(&self) -> u64 {
        tick(self.instrument.clock())
    }

    fn clock_ticks(&self) -> u64 {
        TICKS
    }

    fn evaluated(&self) -> u64 {
        0
    }

    fn sampled(&self) -> u64 {
        self.instrument.conversions()
    }

    fn waiting_tlps(&self) -> usize {
        0
    }

    fn commands(&mut self) -> u64 {
        self.instrument.commands()
    }

    fn write(&mut self, address: u8, value: u32) {
        if let Some(kept) = self.kept.get_mut(&address) {
            *kept = value;
        }
        self.instrument.write(address, value);
    }

    fn peek(&mut self, address: u8) -> u32 {
        let i = &mut self.instrument;
        let now = tick(i.clock());
        match address {
            reg::ID => u32::from_le_bytes(*b"WBEL"),
            reg::VERSION => reg::GATEWARE_VERSION.iter().fold(0, |version, part| version << 8 | u32::from(*part)),
            reg::BUILD => {
                let fine = if i.analog.has_fine() { reg::BUILD_FINE } else { 0 };
                TICKS as u32 | 16 << reg::BUILD_TLP_WIDTH_SHIFT | fine
            }
            reg::STATE => {
                let ((running, stopping), (rail, attach)) = (i.state(), i.waits());
                [
                    (running, reg::STATE_RUNNING),
                    (stopping, reg::STATE_STOPPING),
                    (rail, reg::STATE_RAIL_PENDING),
                    (attach, reg::STATE_ATTACH_BUSY),
                ]
                .into_iter()
                .filter(|(on, _)| *on)
                .map(|(_, bit)| bit)
                .sum()
            }
            reg::NOW_LO => now as u32,
            reg::NOW_HI => (now >> 32) as u32,
            reg::TLPS_DOWN => i.counters().tlps_down as u32,
            reg::TLPS_UP => i.counters().tlps_up as u32,
            reg::COMMANDS => i.counters().commands as u32,
            reg::IN_FLIGHT => i.counters().in_flight,
            reg::LOST_RECORDS => i.lost()[0].wrapping_add(i.counters().lost_records),
            reg::LOST_EVENTS => i.lost()[1].wrapping_add(i.counters().lost_events),
            reg::LOST_SAMPLES => i.lost()[2],
            reg::BLOCKS => i.blocks(),
            board::TEST_CONTROL => i.self_test().control,
            board::TEST_STATE => i.self_test().busy.into(),
            board::TEST_STEP_TICK_LO => i.self_test().step as u32,
            board::TEST_STEP_TICK_HI => (i.self_test().step >> 32) as u32,
            board::TEST_DOORBELL_TICK_LO => i.self_test().doorbell as u32,
            board::TEST_DOORBELL_TICK_HI => (i.self_test().doorbell >> 32) as u32,
            _ => self.kept.get(&address).copied().unwrap_or(0),
        }
    }

    fn levels(&self) -> (u8, u8, u8) {
        self.instrument.levels()
    }

    fn listen(&mut self, interest: Interest) {
        let before = std::mem::replace(&mut self.interest, interest);
        if interest == before {
            return;
        }
        if interest.zero != before.zero {
            self.instrument.change_analog().short(interest.zero);
        }
        let conversions = Wanted { all: interest.all, above: interest.above };
        self.instrument.listen(Listening { levels: interest.levels, completions: interest.completions, conversions });
        if (interest.all, interest.zero) != (before.all, before.zero) {
            // An input pin of the instrument: the cycle that sees it passes, as in the RTL.
            self.instrument.advance(self.instrument.clock() + 1);
        }
    }

    fn load(&mut self, tick: u64, which: u8) {
        self.instrument.analog.load(tick * TICK_PS, which);
    }

    fn take_words(&mut self) -> Vec<u8> {
        self.instrument.output().take_stream()
    }

    fn run(&mut self, limits: Limits, patience: Duration) -> Pause {
        let started = Instant::now();
        loop {
            match self.instrument.take_told() {
                Some(Told::Conversion(conversion)) => return Pause::Rail(conversion.into()),
                Some(Told::Completion(completion)) => return Pause::Completed(completion),
                Some(Told::Levels) => return Pause::Levels,
                None => {}
            }
            let now = self.instrument.clock();
            if tick(now) >= limits.tick {
                return Pause::Tick;
            }
            if self.instrument.output().waiting() >= FULL {
                return Pause::Full;
            }
            if self.end.is_none() && self.horizon <= tick(now + 1) {
                if let Some(pause) = self.read_ahead(tick(now + 1) + 1, patience) {
                    return pause;
                }
            }
            match limits.until {
                Until::Stopped if !self.instrument.is_active() => return Pause::Stopped,
                Until::End if self.end.is_some_and(|end| tick(now) >= end) && self.instrument.seen_from() <= now => {
                    return self.failure.take().map_or(Pause::End, Pause::Failed);
                }
                _ => {}
            }
            if started.elapsed() >= SLICE {
                return Pause::Budget;
            }
            let limit = self.reach(now).min(now + STRIDE).min(clock_at(limits.tick)).max(now + 1);
            self.instrument.advance(limit);
        }
    }

    fn caveat(&self) -> Option<&'static str> {
        self.instrument.inexact()
    }
}
