//! The rail: conversions at their ticks, correction, energy, decimation, RAIL blocks.

use crate::cic::Cic;
use crate::merge::{self, Merge};
use crate::packer::{Packer, Sample};
use crate::selftest::Codes;
use crate::time::{tick, Clock, NEVER, TICKS};
use crate::watch::{Conversion, Wanted, Watch, VALUE_MAX};
use crate::writer::Buffer;
use wattbell_spec::wire::{rail_flag_code as flag, TICK_PS};

/// Latency in cycles from the hand-over of a conversion to its corrected value.
const CORRECTED: Clock = 10;
/// From there to the sample it completes, when decimated.
const DECIMATED: Clock = 10;
/// Cycles from a hand-over during which something still moves: for a conversion outside a run, a conversion alone, and
/// one taken by the comb stages.
const CHANNELS_MOVE: Clock = 11;
const CONVERSION_MOVES: Clock = 13;
const DECIMATION_MOVES: Clock = 14;
const COMB_MOVES: Clock = 21;

/// The analog side of the rail, which supplies the ADC codes.
pub trait Analog {
    /// Whether there is a fine current path.
    fn has_fine(&self) -> bool;

    /// All channels (voltage, current, fine current) at `time_ps`, as 18-bit codes. Times do not decrease.
    fn sample(&mut self, time_ps: u64) -> [u32; 3];

    /// Whether no code of the current can exceed `code` up to `until_ps`, up to which everything is known. False when
    /// in doubt.
    fn stays_below(&self, _code: i32, _until_ps: u64) -> bool {
        false
    }

    /// Fills the slices of `codes` with the results of [`Self::sample`] at `first_ps` and every `step_ps` from then on.
    fn sample_run(&mut self, first_ps: u64, step_ps: u64, codes: [&mut [u32]; 3]) {
        let [voltage, current, fine] = codes;
        let mut time_ps = first_ps;
        for ((v, i), f) in voltage.iter_mut().zip(current).zip(fine) {
            [*v, *i, *f] = self.sample(time_ps);
            time_ps += step_ps;
        }
    }
}

/// Maximum number of conversions made at once.
const RUN: usize = 128;
/// Largest code of a current path.
const CODE_MAX: i32 = (1 << 17) - 1;
/// A conversion that has its current from the fine path alone. No RAIL block shows this flag.
const FLAG_FINE: u8 = 16;

/// A channel's correction: `(code * 2**8 - offset) * gain / 2**32`, rounded, in 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// In 1/256 of a code, 28 bits, signed.
    pub offset: i32,
    /// In 2**-24 of an output unit per code.
    pub gain: u32,
}

impl Correction {
    /// The corrected value, and whether it was clipped.
    #[inline(always)]
    fn apply(self, code: i32) -> (i32, bool) {
        let product = (i64::from(code) * 256 - i64::from(self.offset)) * i64::from(self.gain);
        let rounded = (product + (1 << 31)) >> 32;
        let value = rounded.clamp(-(1 << 23), (1 << 23) - 1);
        (value as i32, value != rounded)
    }
}

/// Source of the current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Both, merged conversion by conversion.
    Merged,
    /// Only the coarse path, possibly the only one there is.
    Coarse,
    /// Only the fine path.
    Fine,
}

/// The rail settings of the software, applied as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Cycles between conversions.
    pub period: u32,
    /// Conversions per sample.
    pub decimation: u16,
    /// Normalisation of the filter, see [`Cic`].
    pub mul: u32,
    /// See [`Cic`].
    pub shift: u8,
    /// Correction of the voltage channel.
    pub voltage: Correction,
    /// Correction of the current channel.
    pub current: Correction,
    /// Correction of the fine current channel.
    pub fine: Correction,
    /// Source of the current.
    pub range: Range,
    /// Some of the calibration registers were not written.
    pub uncalibrated: bool,
}

/// The rail's path from conversions to blocks.
#[derive(Debug)]
pub struct Rail {
    /// The last announced configuration, and the cycle from which on it counts.
    config: Config,
    coming: Option<(Clock, Config)>,
    active: Config,
    dirty: bool,
    /// First and last cycle in which the last change was being applied.
    swapping: (Clock, Clock),
    /// Conversions are requested, or will be (or no longer) from a cycle on.
    run: bool,
    run_changes: Option<(Clock, bool)>,
    armed: bool,
    due: Clock,
    /// Instant of the conversion in progress, whether it belongs to the run, and its codes if they had to be known
    /// early.
    converting: Option<u64>,
    ours: bool,
    drawn: Option<[u32; 3]>,
    /// Who watches conversions.
    pub watch: Watch,
    /// Codes in place of the analog side's.
    pub pattern: Option<Codes>,
    /// Conversions outside a run.
    others: u64,
    merge: Merge,
    cic: Cic,
    packer: Packer,
    energy: i128,
    index: u64,
    interval: u64,
    centre: u64,
    /// Everything has been passed on and closed from this cycle on (only while not armed).
    idle_from: Clock,
}

const SIGN: u32 = 1 << 17;
const CODES: u32 = 1 << 18;

impl Rail {
    /// State at power-on.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            coming: None,
            active: config,
            dirty: false,
            swapping: (NEVER, 0),
            run: false,
            run_changes: None,
            armed: false,
            due: NEVER,
            converting: None,
            ours: false,
            drawn: None,
            watch: Watch::default(),
            pattern: None,
            others: 0,
            merge: Merge::default(),
            cic: Cic::default(),
            packer: Packer::default(),
            energy: 0,
            index: 0,
            interval: 0,
            centre: 0,
            idle_from: 0,
        }
    }

    /// A new configuration is announced in `clock`.
    pub fn announce(&mut self, clock: Clock, config: Config) {
        if let Some((_, earlier)) = self.coming.replace((clock, config)) {
            self.config = earlier;
            self.dirty = true;
        }
    }

    /// The last configuration announced by `clock`.
    pub fn announced_by(&self, clock: Clock) -> &Config {
        self.coming.as_ref().filter(|(from, _)| *from <= clock).map_or(&self.config, |(_, config)| config)
    }

    /// Conversions are requested, or no longer, from `clock` on.
    pub fn set_run(&mut self, clock: Clock, run: bool) {
        if run && !self.armed {
            self.run = true;
            self.begin(clock);
        } else {
            self.run_changes = Some((clock, run));
        }
    }

    /// Conversions are requested in `clock`, and none are running: the timer arms itself, the configuration is loaded
    /// in the next cycle.
    fn begin(&mut self, clock: Clock) {
        self.take_config(clock);
        let from = clock + u64::from(!self.dirty);
        self.dirty = self.coming.is_some();
        self.armed = true;
        self.due = clock + 1;
        self.restart(from, clock + 1);
        self.idle_from = self.idle_from.max(clock + 2);
    }

    /// Sets the watched conversions from the cycle after `now` on; everything up to `now` has happened.
    pub fn want(&mut self, now: Clock, wanted: Wanted) {
        self.watch.want(now, wanted);
        if wanted.all && !self.armed {
            self.begin(now + 1);
        }
    }

    /// Makes the current conversion now if its instant is before `clock`, because the analog side is about to change.
    pub fn draw<A: Analog>(&mut self, clock: Clock, analog: &mut A) {
        if let Some(started) = self.converting.filter(|started| *started < tick(clock)) {
            self.drawn.get_or_insert_with(|| analog.sample(started * TICK_PS));
        }
    }

    fn take_config(&mut self, clock: Clock) {
        if let Some((from, config)) = self.coming {
            if from <= clock {
                (self.config, self.coming, self.dirty) = (config, None, true);
            }
        }
    }

    /// Nothing moves and no block is open in `clock`: the configuration is applied, the filter restarts.
    fn restart(&mut self, from: Clock, clock: Clock) {
        self.swapping = (from, clock);
        self.take_config(clock);
        self.active = self.config;
        self.packer.restart();
        self.cic.clear(self.active.decimation, self.active.mul, self.active.shift);
        let period = u64::from(self.active.period) * TICKS;
        let span = period * u64::from(self.active.decimation - 1);
        self.interval = span + period;
        self.centre = span + span / 2;
    }

    /// The cycle in which it next does something.
    #[inline]
    pub fn next(&self) -> Clock {
        self.due.min(self.packer.close_at())
    }

    /// Number of conversions so far.
    pub fn conversions(&self) -> u64 {
        self.index + self.others
    }

    /// Samples lost because both banks were in use.
    pub fn take_lost(&mut self) -> Option<(Clock, u32)> {
        self.packer.take_lost()
    }

    /// Continues until a block is closed, a watched conversion comes, or the next thing to do lies after `until`.
    pub fn step<A: Analog>(&mut self, until: Clock, analog: &mut A, buffer: &mut Buffer) {
        while self.next() <= until {
            if self.packer.close_at() < self.due {
                self.packer.settle(self.packer.close_at() + 1, self.interval, buffer);
                return;
            }
            if self.run_of_conversions(until, analog) == 0
                && (self.conversion(analog, buffer) || self.watch.told_at() != NEVER)
            {
                return;
            }
        }
    }

    /// Makes all at once the conversions that only fill the open block, or the filter; returns their number.
    #[inline]
    fn run_of_conversions<A: Analog>(&mut self, until: Clock, analog: &mut A) -> usize {
        let Some(mut started) = self.converting else { return 0 };
        let steady = self.coming.is_none() && self.run_changes.is_none() && !self.dirty && self.run && self.ours;
        if !steady || self.watch.wanted.all || self.drawn.is_some() || self.pattern.is_some() {
            return 0;
        }
        let period = Clock::from(self.config.period);
        let whole = self.active.decimation == 1;
        let (room, last) = match whole {
            true => (self.packer.room(), self.packer.close_at() - CORRECTED),
            false => (self.cic.phase(), self.packer.close_at()),
        };
        let last = last.min(until);
        if room == 0 || self.due > last {
            return 0;
        }
        let mut count = room.min(((last - self.due) / period) as usize + 1).min(RUN);
        if started + period * TICKS != tick(self.due + 1) {
            count = 1; // the first of its period
        }
        let last_ps = (started + period * (count as u64 - 1) * TICKS) * TICK_PS;
        if self.watch.wanted.by_level() && !self.stays_below(last_ps, analog) {
            return 0;
        }
        let [mut v_codes, mut i_codes, mut f_codes] = [[0; RUN]; 3];
        let (v_codes, i_codes, f_codes) = (&mut v_codes[..count], &mut i_codes[..count], &mut f_codes[..count]);
        analog.sample_run(started * TICK_PS, period * TICKS * TICK_PS, [v_codes, i_codes, f_codes]);
        let mut flags = 0;
        let mut energy = self.energy;
        let mut values = (0, 0, 0);
        for ((&v_code, &i_code), &f_code) in v_codes.iter().zip(&*i_codes).zip(&*f_codes) {
            values = self.correct([v_code, i_code, f_code]);
            let (voltage, current, flag) = values;
            flags |= flag;
            energy += i128::from(i64::from(voltage) * i64::from(current));
            if whole {
                self.packer.pack(voltage, current);
            } else {
                self.cic.integrate(voltage, current);
            }
        }
        self.due += period * count as Clock;
        let codes = [v_codes[count - 1], i_codes[count - 1], f_codes[count - 1]];
        self.note(self.due - period, last_ps / TICK_PS, codes, values);
        started = tick(self.due - period + 1);
        self.converting = Some(started);
        self.energy = energy;
        self.index += count as u64;
        if whole {
            self.packer.packed(count, flags & !FLAG_FINE, energy, self.index, self.due - period + CORRECTED);
        } else {
            self.packer.flags(flags & !FLAG_FINE);
        }
        count
    }

    /// Corrected voltage and current, and the conversion's flags.
    #[inline(always)]
    fn correct(&mut self, [v_code, i_code, f_code]: [u32; 3]) -> (i32, i32, u8) {
        let ends = |code: u32| code == SIGN || code == SIGN - 1;
        let (voltage, v_clipped) = self.active.voltage.apply(v_code as i32);
        let (coarse, fine) = (self.active.current, self.active.fine);
        // A single range takes the same path, as its own partner: the merge remembers its overloads.
        let (code, line, other_code, other_line) = match self.active.range {
            Range::Merged => (i_code, coarse, f_code, fine),
            Range::Coarse => (i_code, coarse, i_code, coarse),
            Range::Fine => (f_code, fine, f_code, fine),
        };
        let (one, one_clipped) = line.apply(((code << 14) as i32) >> 14);
        let (other, other_clipped) = other_line.apply(((other_code << 14) as i32) >> 14);
        let (current, fine_alone) = self.merge.step(one, other, ends(other_code));
        let (overload, i_clipped) = (ends(code), one_clipped || other_clipped);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let fine_alone = if self.active.range == Range::Merged { fine_alone } else { self.active.range == Range::Fine };
        let flags = flag(overload, flag::OVERLOAD_I)
            | flag(v_code == 0 || v_code == CODES - 1, flag::OVERLOAD_V)
            | flag(self.active.uncalibrated, flag::UNCALIBRATED)
            | flag(v_clipped || i_clipped, flag::SATURATED)
            | flag(fine_alone, FLAG_FINE);
        (voltage, current, flags)
    }

    /// Whether no conversion up to `last_ps` can exceed the watched level.
    fn stays_below<A: Analog>(&self, last_ps: u64, analog: &A) -> bool {
        let (above, Config { current, fine, range, .. }) = (self.watch.wanted.above, &self.active);
        if *range != Range::Coarse && fine.apply(CODE_MAX).0 > above {
            return false;
        }
        // The largest code that is corrected to the level or less, minus one for the rounding.
        let code = ((i64::from(above) << 32) / i64::from(current.gain.max(1)) + i64::from(current.offset)) / 256 - 1;
        // The greatest code is above any level.
        analog.stays_below(code.clamp(i64::from(i32::MIN), i64::from(CODE_MAX - 1)) as i32, last_ps)
    }

    /// Returns the current that the protection compares, and whether the true current is higher.
    ///
    /// The compared current is `current`, with two exceptions. Above the band of the merge, with only the fine path active, it is the
    /// coarse path's current. With a coarse code at the upper end it is the greatest value, above any level.
    fn guard(&self, [_, i_code, f_code]: [u32; 3], current: i32) -> (i32, bool) {
        const TOP: u32 = CODE_MAX as u32;
        if i_code == TOP {
            return (VALUE_MAX, true);
        }
        if self.active.range != Range::Fine {
            return (current, false);
        }
        let coarse = self.active.current.apply(((i_code << 14) as i32) >> 14).0;
        if merge::above_band(coarse) {
            (coarse, false)
        } else {
            (current, f_code == TOP)
        }
    }

    /// A conversion that was passed on in `clock`.
    #[inline]
    fn note(&mut self, clock: Clock, started: u64, codes: [u32; 3], (voltage, current, flags): (i32, i32, u8)) {
        let period = self.active.period * TICKS as u32;
        let (guard, beyond) = self.guard(codes, current);
        let conversion = Conversion { tick: started, period, voltage, current, flags, codes, guard, beyond };
        self.watch.note(clock + CORRECTED, conversion);
    }

    /// The timer fires: the previous conversion is passed on, the next one starts. Returns whether a block was closed.
    #[inline]
    fn conversion<A: Analog>(&mut self, analog: &mut A, buffer: &mut Buffer) -> bool {
        let clock = self.due;
        let mut closed = false;
        let mut moves = clock;
        let announced = self.coming.is_some_and(|(from, _)| from == clock);
        let was_dirty = self.dirty || self.coming.is_some_and(|(from, _)| from < clock);
        if self.coming.is_some() {
            self.take_config(clock);
        }
        if let Some(started) = self.converting {
            (closed, moves) = self.hand_on(clock, started, analog, buffer);
        }
        if let Some((from, run)) = self.run_changes {
            if from <= clock {
                (self.run, self.run_changes) = (run, None);
            }
        }
        // A run that finds conversions in progress inherits their instants, and begins with the next.
        let joins = self.run && !self.ours && self.converting.is_some();
        self.ours = self.run;
        if self.run || self.watch.wanted.all {
            self.converting = Some(tick(clock + 1));
            self.due = clock + Clock::from(self.config.period);
            if let Some(pattern) = &mut self.pattern {
                pattern.begin(tick(clock + 1));
            }
        } else {
            (self.converting, self.armed, self.due) = (None, false, NEVER);
        }
        if was_dirty || joins || !self.run {
            // After the conversion in the pipeline, the open block is closed and the filter restarts.
            let still = (clock + 1).max(moves).max(self.packer.idle_from());
            let (still, flushed) = self.packer.flush(still, self.interval, buffer);
            closed |= flushed;
            self.idle_from = still;
            self.dirty = announced;
            if was_dirty || joins {
                self.restart(clock + u64::from(!was_dirty), still);
                self.idle_from = still + 1;
            }
        }
        closed
    }

    #[inline]
    fn hand_on<A: Analog>(&mut self, clock: Clock, started: u64, analog: &mut A, buffer: &mut Buffer) -> (bool, Clock) {
        let codes = self.drawn.take().unwrap_or_else(|| analog.sample(started * TICK_PS));
        let codes = self.pattern.as_ref().map_or(codes, |pattern| pattern.of(started));
        let values = self.correct(codes);
        self.note(clock, started, codes, values);
        if !self.ours {
            self.others += 1;
            return (false, clock + CHANNELS_MOVE);
        }
        let (voltage, current, flags) = values;
        self.packer.flags(flags & !FLAG_FINE);
        self.energy += i128::from(i64::from(voltage) * i64::from(current));
        self.index += 1;
        let mut sample = Sample {
            voltage,
            current,
            tick: started,
            energy: self.energy,
            index: self.index,
            strobe: clock + CORRECTED,
        };
        if self.active.decimation == 1 {
            let closed = self.packer.take(&sample, self.interval, buffer);
            return (closed, (clock + CONVERSION_MOVES).max(self.packer.still_from()));
        }
        let (stepped, out) = self.cic.take(voltage, current);
        let moves = clock + if stepped { COMB_MOVES } else { DECIMATION_MOVES };
        let Some((voltage, current)) = out else { return (false, moves) };
        sample.voltage = voltage;
        sample.current = current;
        sample.tick = started.wrapping_sub(self.centre);
        sample.strobe += DECIMATED;
        let closed = self.packer.take(&sample, self.interval, buffer);
        (closed, moves.max(self.packer.still_from()))
    }

    /// Whether nothing runs, everything was passed on, and every block is closed in `clock`.
    pub fn is_idle(&self, clock: Clock) -> bool {
        !self.ours && !self.run && self.idle_from <= clock
    }

    /// Whether a change has not yet taken effect in `clock`.
    pub fn is_pending(&self, clock: Clock) -> bool {
        self.dirty || self.coming.is_some() || (self.swapping.0 <= clock && clock <= self.swapping.1)
    }
}
