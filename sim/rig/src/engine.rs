//! The loop that clocks the instrument: it applies inputs at their tick, takes words out, and evaluates no cycles in which nothing
//! changes.
//!
//! The instrument's inputs in a cycle depend only on the cycle's tick and on the instrument's outputs, never on which cycles were
//! evaluated. So skipping cycles cannot change the output.

use crate::adc::Adc;
use crate::beats::BeatStream;
use crate::feed::{Fed, Feed};
use crate::machine::{Conversion, Interest, Limits, Machine, Pause, Until, TICK_PS};
use crate::rtl::{Inputs, Outputs, Rtl};
use crate::serial_adc::SerialAdc;
use std::collections::VecDeque;
use std::time::Duration;
use wattbell_bus::{Direction, Event, Item, Signal};
use wattbell_spec::registers;

/// Maximum number of rail changes read ahead while looking for the next TLP.
const RAIL_AHEAD: usize = 1 << 16;
/// Maximum number of cycles that one edge may cover (`step` has 16 bits).
const STEP_MAX: u64 = 1 << 16;
/// Maximum number of words kept before the caller must take them.
const WORDS_FULL: usize = 1 << 16;

/// Limits the output to a link of this many bytes per second, in virtual time.
#[derive(Debug, Clone, Copy)]
struct Pace {
    millitick_per_word: u64,
    next: u64,
}

/// The instrument and everything around its pins.
pub struct Engine {
    rtl: Rtl,
    inputs: Inputs,
    outputs: Outputs,
    skip: bool,
    clock_ticks: u64,
    down: BeatStream,
    up: BeatStream,
    sidebands: VecDeque<(u64, Signal, u8)>,
    adc: Adc,
    serial: Option<SerialAdc>,
    feed: Feed,
    /// Tick at which the trace begins.
    origin: u64,
    /// Everything that happens before this tick is known.
    horizon: u64,
    end: Option<u64>,
    /// The reason for the trace's end, if the trace ended too early.
    failure: Option<String>,
    /// Registers to be written, and their values.
    writes: VecDeque<(u8, u32)>,
    pace: Option<Pace>,
    interest: Interest,
    /// Interests not yet passed to the instrument.
    noted: VecDeque<Pause>,
    words: Vec<u8>,
    evaluated: u64,
    sampled: u64,
    /// Cycles in which the last word of a block was shown, if they are recorded.
    ends: Option<Vec<u64>>,
}

impl Engine {
    /// Creates an engine for an instrument (`outputs` shows its state) with `adc` on its rail, fed by `feed` from tick `origin` on.
    pub fn new(rtl: Rtl, outputs: Outputs, adc: Adc, feed: Feed, origin: u64) -> Self {
        let (dws, clock_ticks) = (rtl.beat_dws(), rtl.clock_ticks());
        let serial = rtl.serial_adc().then(SerialAdc::default);
        let inputs = Inputs { adc_fine: adc.fine.is_some().into(), ..Inputs::default() };
        Self {
            rtl,
            inputs,
            outputs,
            skip: true,
            clock_ticks,
            down: BeatStream::new(dws, clock_ticks),
            up: BeatStream::new(dws, clock_ticks),
            sidebands: VecDeque::new(),
            adc,
            serial,
            feed,
            origin,
            horizon: origin,
            end: None,
            failure: None,
            writes: VecDeque::new(),
            pace: None,
            interest: Interest::default(),
            noted: VecDeque::new(),
            words: Vec::with_capacity(WORDS_FULL + 64),
            evaluated: 0,
            sampled: 0,
            ends: None,
        }
    }

    /// Records, from now on, the cycle in which the last word of each block is shown.
    pub fn note_ends(&mut self) {
        self.ends = Some(Vec::new());
    }

    /// Returns the ends recorded since the last call.
    pub fn take_ends(&mut self) -> Vec<u64> {
        self.ends.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Limits the output to `bytes_per_s` (in virtual time).
    pub fn set_pace(&mut self, bytes_per_s: f64) {
        let millitick_per_word = (4.0 / bytes_per_s * 1e12).round() as u64;
        self.pace = Some(Pace { millitick_per_word, next: 0 });
    }

    /// The analog side.
    pub fn adc_mut(&mut self) -> &mut Adc {
        &mut self.adc
    }

    /// Source of the trace.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Whether the instrument is not capturing and has nothing left to send.
    fn stopped(&self) -> bool {
        self.writes.is_empty()
            && self.inputs.reg_we == 0
            && self.outputs.out_valid == 0
            && self.outputs.reg_rdata & registers::STATE_RUNNING == 0
    }

    fn drained(&self) -> bool {
        self.down.is_empty() && self.up.is_empty() && self.sidebands.is_empty() && self.writes.is_empty()
    }

    /// Makes one rising edge that covers `clocks` cycles: evaluates the present outputs and drives the inputs after the edge.
    #[inline]
    fn edge(&mut self, clocks: u64) {
        let now = self.outputs.now;
        if self.outputs.out_valid == 1 && self.inputs.out_ready == 1 {
            self.words.extend_from_slice(&self.outputs.out_data.to_le_bytes());
            if let (Some(ends), 1) = (&mut self.ends, self.outputs.out_last) {
                ends.push(now / self.clock_ticks);
            }
            if let Some(pace) = &mut self.pace {
                pace.next = pace.next.max(now * 1000) + pace.millitick_per_word;
            }
        }
        self.inputs.step = (clocks - 1) as u16;
        self.inputs.bus_tick = self.outputs.bus_active | u8::from(!self.skip);
        self.sample(now);
        let levels = self.levels();
        self.drive(now + clocks * self.clock_ticks);
        self.rtl.clock(&self.inputs, &mut self.outputs);
        self.evaluated += 1;
        self.note(levels);
        if self.skip {
            if self.outputs.skip_down == 1 {
                self.down.skip_to_last();
            }
            if self.outputs.skip_up == 1 {
                self.up.skip_to_last();
            }
        }
    }

    /// Which interesting outputs the instrument shows now, given the levels `before`.
    #[inline]
    fn note(&mut self, before: (u8, u8, u8)) {
        let o = &self.outputs;
        if o.converted == 1 && (self.interest.all || o.rail_guard > self.interest.above) {
            self.noted.push_back(Pause::Rail(Conversion {
                tick: o.rail_tick,
                period: o.rail_period,
                v: o.rail_v,
                i: o.rail_i,
                flags: o.rail_flags,
                v_code: o.rail_v_code,
                i_code: o.rail_i_code,
                f_code: o.rail_f_code,
                guard: o.rail_guard,
                beyond: o.rail_beyond == 1,
            }));
        }
        if o.completed == 1 && self.interest.completions {
            self.noted.push_back(Pause::Completed(o.completion));
        }
        if self.interest.levels && self.levels() != before {
            self.noted.push_back(Pause::Levels);
        }
    }

    /// The ADCs look at their pins in the cycle at `now`.
    #[inline]
    fn sample(&mut self, now: u64) {
        let (i, o) = (&mut self.inputs, &self.outputs);
        if let Some(serial) = &mut self.serial {
            [i.adc_sdo_v, i.adc_sdo_i, i.adc_sdo_f] = serial.pins(o.adc_cnv, o.adc_sck, now * TICK_PS, &mut self.adc);
            self.sampled = serial.conversions();
            return;
        }
        i.adc_valid = o.adc_start;
        if o.adc_start == 1 {
            [i.adc_v, i.adc_i, i.adc_f] = self.adc.sample(now * TICK_PS);
            self.sampled += 1;
        }
    }

    /// Drives the instrument's inputs for the cycle at `at`.
    #[inline]
    fn drive(&mut self, at: u64) {
        let i = &mut self.inputs;
        self.down.next(at, &mut i.down);
        self.up.next(at, &mut i.up);
        // One change of a signal per cycle, so that a pulse shorter than a cycle is still seen.
        let mut moved = [false; 4];
        while let Some(&(tick, signal, value)) = self.sidebands.front() {
            if tick > at || std::mem::replace(&mut moved[signal as usize], true) {
                break;
            }
            *match signal {
                Signal::PerstN => &mut i.perst_n,
                Signal::ClkreqN => &mut i.clkreq_n,
                Signal::LinkState => &mut i.link_state,
            } = value;
            self.sidebands.pop_front();
        }
        (i.reg_we, i.reg_addr) = (0, registers::STATE);
        if let Some((address, value)) = self.writes.pop_front() {
            (i.reg_we, i.reg_addr, i.reg_wdata) = (1, address, value);
        }
        if let Some(pace) = &self.pace {
            i.out_ready = u8::from(at * 1000 >= pace.next);
        }
    }

    /// Returns the number of cycles that the next edge may cover while the rig is quiet: up to the next event.
    #[inline]
    fn clocks_from(&mut self, now: u64, limit: u64) -> u64 {
        if !self.writes.is_empty() {
            return 1;
        }
        let mut target = self.outputs.deadline.min(limit);
        if let (Some(pace), 0) = (&self.pace, self.inputs.out_ready) {
            target = target.min(pace.next.div_ceil(1000));
        }
        let next = |e: &Self| [e.down.due(), e.up.due(), e.sidebands.front().map(|s| s.0)].into_iter().flatten().min();
        let mut due = next(self);
        while due.is_none() && self.end.is_none() && self.horizon < target && self.adc.pending() < RAIL_AHEAD {
            if self.read_ahead(self.horizon + 1, Duration::ZERO).is_some() {
                break;
            }
            due = next(self);
        }
        // Not into a cycle about which the trace has not said everything: more may come at the horizon's own tick.
        let known = match self.end {
            None => (self.horizon - 1).saturating_sub(now) / self.clock_ticks,
            Some(_) => STEP_MAX,
        };
        let end = self.end.filter(|&end| end > now).unwrap_or(u64::MAX);
        target = target.min(end).min(due.unwrap_or(u64::MAX));
        // The first cycle not before the target: the one in which it would be seen without skipping.
        target.saturating_sub(now).div_ceil(self.clock_ticks).min(known).clamp(1, STEP_MAX)
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

    fn take(&mut self, event: Event) {
        let time_ps = event.time_ps + self.origin * TICK_PS;
        let tick = time_ps / TICK_PS;
        self.horizon = tick;
        match event.item {
            Item::Tlp(Direction::Down, tlp) => self.down.push(tick, tlp),
            Item::Tlp(Direction::Up, tlp) => self.up.push(tick, tlp),
            Item::Missed(Direction::Down) => self.down.miss(),
            Item::Missed(Direction::Up) => self.up.miss(),
            Item::Rail(rail) => self.adc.push(time_ps, rail),
            Item::Sideband(signal, value) => self.sidebands.push_back((tick, signal, value)),
            Item::Summary(_) => unreachable!("feed.rs refuses a trace whose header announces summaries"),
            Item::End => self.end = Some(tick),
        }
    }
}

impl Machine for Engine {
    fn now(&self) -> u64 {
        self.outputs.now
    }

    fn clock_ticks(&self) -> u64 {
        self.clock_ticks
    }

    fn evaluated(&self) -> u64 {
        self.evaluated
    }

    fn sampled(&self) -> u64 {
        self.sampled
    }

    fn waiting_tlps(&self) -> usize {
        self.down.len() + self.up.len()
    }

    fn write(&mut self, address: u8, value: u32) {
        self.writes.push_back((address, value));
    }

    fn peek(&mut self, address: u8) -> u32 {
        if self.inputs.reg_we == 0 {
            return self.rtl.peek(address);
        }
        // A write is on its way, and its register is selected: the outputs are one cycle ahead.
        self.edge(1);
        self.rtl.peek(address)
    }

    fn levels(&self) -> (u8, u8, u8) {
        (self.inputs.perst_n, self.inputs.clkreq_n, self.inputs.link_state)
    }

    fn listen(&mut self, interest: Interest) {
        let before = std::mem::replace(&mut self.interest, interest);
        if (interest.all, interest.zero) != (before.all, before.zero) {
            self.adc.short(interest.zero);
            self.inputs.convert = interest.all.into();
            // The instrument sees it after the next edge, and must be awake for it.
            self.edge(1);
        }
    }

    fn load(&mut self, tick: u64, which: u8) {
        self.adc.load(tick * TICK_PS, which);
    }

    /// Without it, every cycle of every clock domain is evaluated, as in hardware.
    fn set_skip(&mut self, skip: bool) {
        self.skip = skip;
    }

    fn take_words(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.words)
    }

    fn run(&mut self, limits: Limits, patience: Duration) -> Pause {
        let last = self.evaluated + limits.clocks;
        while self.evaluated < last {
            if let Some(told) = self.noted.pop_front() {
                return told;
            }
            let now = self.outputs.now;
            if now >= limits.tick {
                return Pause::Tick;
            }
            if self.words.len() >= WORDS_FULL {
                return Pause::Full;
            }
            // The edge decides the inputs of the cycle after it.
            let next = now + self.clock_ticks;
            if self.end.is_none() && self.horizon <= next {
                if let Some(pause) = self.read_ahead(next + 1, patience) {
                    return pause;
                }
            }
            match limits.until {
                Until::Stopped if self.stopped() => return Pause::Stopped,
                Until::End if self.end.is_some_and(|end| now >= end) && self.drained() => {
                    return self.failure.take().map_or(Pause::End, Pause::Failed);
                }
                _ => {}
            }
            let clocks = if self.skip && self.outputs.quiet == 1 { self.clocks_from(now, limits.tick) } else { 1 };
            self.edge(clocks);
        }
        Pause::Budget
    }

    fn commands(&mut self) -> u64 {
        self.peek(registers::COMMANDS).into()
    }
}
