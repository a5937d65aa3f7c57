//! Fast fidelity: the trace played to the model of the instrument's clocks in [`wattbell_fast`].

use crate::adc::Adc;
use crate::config::Fact;
use crate::feed::{Fed, Feed};
use crate::machine::{Limits, Machine, Pause, TICK_PS};
use crate::registers as reg;
use std::time::{Duration, Instant};
use wattbell_bus::{Event, Item};
use wattbell_fast::registers::Map;
use wattbell_fast::time::{clock_at, tick, Clock, NEVER, TICKS};
use wattbell_fast::{Analog, Instrument};

/// Clocks that the Verilated instrument spends on being asked what it is.
const POWER_ON_CLOCKS: Clock = 3;
/// Bytes kept before the caller must take them.
const FULL: usize = 1 << 18;
/// How long one call works at most.
const SLICE: Duration = Duration::from_millis(10);
/// Clocks between looks at the wall clock: a millisecond of virtual time.
const STRIDE: Clock = 250_000;

impl Analog for Adc {
    #[inline]
    fn sample(&mut self, time_ps: u64) -> (u32, u32) {
        Adc::sample(self, time_ps)
    }

    #[inline]
    fn sample_run(&mut self, first_ps: u64, step_ps: u64, voltage: &mut [u32], current: &mut [u32]) {
        Adc::sample_run(self, first_ps, step_ps, voltage, current);
    }
}

/// The register map, for an instrument that has none of its own.
const MAP: Map = Map {
    version: reg::GATEWARE_VERSION,
    control: reg::CONTROL,
    control_run: reg::CONTROL_RUN,
    command: reg::COMMAND,
    command_status: reg::COMMAND_STATUS,
    command_rail_apply: reg::COMMAND_RAIL_APPLY,
    command_attach: reg::COMMAND_ATTACH,
    marker: reg::MARKER,
    adc_period: reg::ADC_PERIOD,
    decimation: reg::DECIMATION,
    decim_mul: reg::DECIM_MUL,
    decim_shift: reg::DECIM_SHIFT,
    v_offset: reg::V_OFFSET,
    v_gain: reg::V_GAIN,
    i_offset: reg::I_OFFSET,
    i_gain: reg::I_GAIN,
    attach_op: reg::ATTACH_OP,
    attach_qid: reg::ATTACH_QID,
    attach_link: reg::ATTACH_LINK,
    attach_size: reg::ATTACH_SIZE,
    attach_address_lo: reg::ATTACH_ADDRESS_LO,
    attach_address_hi: reg::ATTACH_ADDRESS_HI,
    v_gain_reset: reg::V_GAIN_RESET,
    i_gain_reset: reg::I_GAIN_RESET,
    decim_mul_reset: reg::DECIM_MUL_RESET,
};

/// The model and the trace it is fed from.
pub struct Fast {
    instrument: Instrument<Adc>,
    feed: Feed,
    /// Everything that happens before this tick is known.
    horizon: u64,
    end: Option<u64>,
    failure: Option<String>,
}

impl Fast {
    /// An instrument with `adc` on its rail, played to by `feed`.
    pub fn new(adc: Adc, feed: Feed) -> Self {
        let instrument = Instrument::new(MAP, POWER_ON_CLOCKS, adc);
        Self { instrument, feed, horizon: 0, end: None, failure: None }
    }

    /// Notes, from now on, the clock of each block's last word.
    pub fn note_ends(&mut self) {
        self.instrument.output().note_ends();
    }

    /// What was noted since the last call: the clock of the last word, and the block's kind.
    pub fn take_ends(&mut self) -> Vec<(Clock, u8)> {
        self.instrument.output().take_ends()
    }

    /// Reads the trace until everything before `tick` is known; a pause if that is not to be had now.
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
        let tick = event.time_ps / TICK_PS;
        self.horizon = tick;
        match event.item {
            Item::Tlp(direction, tlp) => self.instrument.tlp(direction, tick, tlp),
            Item::Rail(rail) => self.instrument.analog.push(event.time_ps, rail),
            Item::Sideband(signal, value) => self.instrument.sideband(tick, signal, value),
            Item::Summary(summary) => self.instrument.summary(tick, &summary),
            Item::End => self.end = Some(tick),
        }
    }

    /// The last clock about which everything is known, or in which there is something to decide.
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
        self.instrument.write(address, value);
    }

    fn tell(&mut self, fact: &Fact) {
        fact.writes().into_iter().for_each(|(address, value)| self.instrument.write(address, value));
        self.instrument.await_attach();
    }

    fn take_words(&mut self) -> Vec<u8> {
        self.instrument.output().take_stream()
    }

    fn run(&mut self, limits: Limits, patience: Duration) -> Pause {
        let started = Instant::now();
        loop {
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
            if limits.until_stopped {
                if !self.instrument.is_active() {
                    return Pause::Stopped;
                }
            } else if self.end.is_some_and(|end| tick(now) >= end) && self.instrument.seen_from() <= now {
                return self.failure.take().map_or(Pause::End, Pause::Failed);
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
