//! The controller and the instrument on one clock: the firmware's registers are the instrument's, and time is shared.
//!
//! The controller runs ahead up to its next access to the instrument, or until its core sleeps. Then the instrument catches up to that
//! tick. So each is evaluated only where it has an event, and both behave as if side by side, cycle by cycle.
//!
//! Virtual time passes while the instrument captures (or sends the data left after a stop). Time also passes while the firmware waits in
//! the middle of a task (ACTIVE). Otherwise `now` stands still, and the core may run as long as it likes. Time also stands still while an
//! unfinished trace has no more data, or nobody reads the stream. The firmware's writes then take effect when time goes on.

use crate::i2c::I2c;
use crate::machine::{Conversion, Interest, Limits, Machine, Pause, Until};
use crate::soc::{Inputs, Soc, Stop, CONSOLE};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use wattbell_spec::registers as reg;

/// Tick at which the trace begins: the rig was switched on a second before the drive's story.
pub const ORIGIN_TICK: u64 = 1_000_000_000;
/// Tick at which time stands still until there is a reason: so early that settings, two cycles per write, take nothing
/// of the trace.
const WAITS_AT_TICK: u64 = ORIGIN_TICK - 2_000;
/// Maximum duration of one call.
const SLICE: Duration = Duration::from_millis(10);
/// Cycles of the controller in one run.
const CLOCKS: u32 = 4096;
/// Cycles in one run while the controller receives conversions: they may come this many cycles late.
const CLOCKS_LISTENING: u32 = 64;
/// Cycles in one run while the controller watches levels or completions. An event without a tick of its own gets the tick of the cycle in
/// which it arrives.
const CLOCKS_WATCHING: u32 = 1;
/// Cycles after which a core that runs while time stands still is taken to wait for time. The rig then lets time pass.
const PATIENCE_CLOCKS: u64 = 20_000_000;
/// A trace that grows no further for this long no longer holds the controller.
const TRACE_PATIENCE: Duration = Duration::from_millis(300);
/// Ticks after which a write has certainly taken effect.
const WRITE_CLOCKS: u64 = 3;
/// Bytes for the control port that may be queued before the console is held.
const CONSOLE_HELD: usize = 4096;

/// The rig without its ports.
pub struct Rig {
    machine: Box<dyn Machine>,
    soc: Soc,
    lines: I2c,
    inputs: Inputs,
    /// The controller's outputs must be carried out before it continues.
    pending: Option<Stop>,
    quiet: bool,
    skip: bool,
    booting: bool,
    /// Cycles of the controller evaluated, and how many of these since time stands still.
    clocks: u64,
    standing: u64,
    trace_over: bool,
    stalled: bool,
    /// Test loads that are on.
    load: u8,
    /// Start of the wait for the trace's next event; and whether the controller continues without the event.
    waits_since: Option<Instant>,
    alone: bool,
    console_in: VecDeque<u8>,
    console_out: Vec<u8>,
}

impl Rig {
    /// Both in their power-on state, with the board's devices. Every cycle is evaluated unless `skip`.
    pub fn new(machine: Box<dyn Machine>, soc: Soc, lines: I2c, skip: bool) -> Self {
        Self {
            machine,
            soc,
            lines,
            inputs: Inputs::default(),
            pending: None,
            quiet: false,
            skip: true,
            booting: true,
            clocks: 0,
            standing: 0,
            trace_over: false,
            stalled: false,
            load: 0,
            waits_since: None,
            alone: false,
            console_in: VecDeque::new(),
            console_out: Vec::new(),
        }
        .started(skip)
    }

    /// Lets the firmware start, up to where time stands still. Cycles are always skipped here: there would be 250
    /// million.
    fn started(mut self, skip: bool) -> Self {
        self.machine.set_skip(true);
        let limits = Limits { clocks: u64::MAX / 2, tick: WAITS_AT_TICK, until: Until::Tick };
        while self.run(limits, Duration::ZERO) != Pause::Tick {}
        self.booting = false;
        self.skip = skip;
        self.machine.set_skip(skip);
        self
    }

    /// The instrument.
    pub fn machine(&mut self) -> &mut dyn Machine {
        &mut *self.machine
    }

    /// Returns whether the instrument captures, or sends the data left after a stop.
    pub fn running(&mut self) -> bool {
        self.machine.peek(reg::STATE) & reg::STATE_RUNNING != 0
    }

    /// Whether a stop was requested and data is still being sent.
    pub fn stopping(&mut self) -> bool {
        self.running() && self.machine.peek(reg::CONTROL) & reg::CONTROL_RUN == 0
    }

    /// Whether nothing happens until a byte arrives.
    pub fn idle(&mut self) -> bool {
        self.quiet && self.pending.is_none() && !self.hears() && !self.running() && self.soc.shown.active == 0
    }

    /// Contents of the EEPROM.
    pub fn eeprom(&self) -> &[u8] {
        &self.lines.eeprom
    }

    /// Cycles of the controller evaluated so far.
    pub fn controller_clocks(&self) -> u64 {
        self.clocks
    }

    /// Notes the trace's end: the capture, if any, is stopped from outside, and so is every later capture.
    pub fn end_trace(&mut self) {
        self.trace_over = true;
    }

    /// Bytes for the firmware.
    pub fn tell(&mut self, bytes: &[u8]) {
        self.console_in.extend(bytes);
    }

    /// Whether time stands still for another reason: nobody reads the stream.
    pub fn stall(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// The firmware's output since the last call.
    pub fn take_said(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.console_out)
    }

    /// The firmware takes a byte and there is one, or it has one to send and there is room.
    fn hears(&self) -> bool {
        let o = &self.soc.shown;
        (o.console_ready == 1 && !self.console_in.is_empty())
            || (o.console_waits == 1 && self.console_out.len() < CONSOLE_HELD)
    }

    /// Runs for a while. [`Pause::Idle`] means that only a byte on the control port can cause anything.
    pub fn run(&mut self, limits: Limits, patience: Duration) -> Pause {
        let started = Instant::now();
        self.alone = false;
        loop {
            if started.elapsed() >= SLICE {
                return Pause::Budget;
            }
            let running = self.running();
            let stopping = running && self.machine.peek(reg::CONTROL) & reg::CONTROL_RUN == 0;
            if running && self.trace_over && !stopping {
                self.machine.write(reg::CONTROL, 0);
            }
            let until = match running {
                false => Until::Tick,
                true if self.trace_over || stopping => Until::Stopped,
                true => Until::End,
            };
            let limits = Limits { until, ..limits };
            if self.machine.now() < self.soc.shown.now && !self.alone {
                match self.machine.run(Limits { tick: self.soc.shown.now.min(limits.tick), ..limits }, patience) {
                    Pause::Tick if self.machine.now() >= self.soc.shown.now => {}
                    Pause::Stopped => {}
                    Pause::Input if self.waited_long() => self.alone = true,
                    other => {
                        if let Some(pause) = self.hand(other) {
                            return pause;
                        }
                    }
                }
                if !self.alone {
                    self.waits_since = None;
                }
                continue;
            }
            if let Some(pause) = self.carry_out(running, patience) {
                return pause;
            }
            let asleep = self.quiet && !self.hears();
            let waits = asleep && (self.soc.shown.active == 1 || self.soc.shown.watched & 4 != 0);
            let wanted = running || self.booting || waits || self.standing > PATIENCE_CLOCKS;
            let flows = wanted && !self.stalled && !self.alone;
            if asleep && self.machine.now() < self.soc.shown.deadline {
                if !flows {
                    return if self.alone { Pause::Input } else { Pause::Idle };
                }
                let tick = self.soc.shown.deadline.min(limits.tick);
                match self.machine.run(Limits { tick, ..limits }, patience) {
                    Pause::Tick if self.machine.now() >= self.soc.shown.deadline => {}
                    Pause::Stopped => continue,
                    other => {
                        if let Some(pause) = self.hand(other) {
                            return pause;
                        }
                    }
                }
            }
            self.clock(flows);
        }
    }

    /// Notes that the trace's next event is unknown; returns whether the wait has lasted long already.
    fn waited_long(&mut self) -> bool {
        self.waits_since.get_or_insert_with(Instant::now).elapsed() >= TRACE_PATIENCE
    }

    /// Lets the instrument respond to the controller's outputs. A write while time stands still lets it pass, until it
    /// is done.
    fn carry_out(&mut self, running: bool, patience: Duration) -> Option<Pause> {
        match self.pending.take()? {
            Stop::Read(address) => self.inputs.reg_rdata = self.machine.peek(address),
            Stop::Write(address, value) => {
                self.machine.write(address, value);
                if (!running || self.stalled || self.alone) && !self.booting {
                    let tick = self.machine.now() + WRITE_CLOCKS * self.machine.clock_ticks();
                    while self.machine.now() < tick {
                        match self.machine.run(Limits { clocks: u64::MAX / 2, tick, until: Until::Tick }, patience) {
                            Pause::Tick | Pause::Budget => {}
                            other => return Some(other), // the write is in the instrument's queue
                        }
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// Gives the controller's next cycle what came out of the instrument; a pause that does not concern it is returned.
    fn hand(&mut self, pause: Pause) -> Option<Pause> {
        match pause {
            Pause::Rail(conversion) => self.convert(conversion),
            Pause::Completed(completion) => (self.inputs.completed, self.inputs.completion) = (1, completion),
            Pause::Levels => {}
            other => return Some(other),
        }
        self.quiet = false;
        None
    }

    fn convert(&mut self, conversion: Conversion) {
        let i = &mut self.inputs;
        i.rail_valid = 1;
        (i.rail_tick, i.rail_period) = (conversion.tick, conversion.period);
        (i.rail_v, i.rail_i, i.rail_flags) = (conversion.v, conversion.i, conversion.flags);
        (i.rail_guard, i.rail_beyond) = (conversion.guard, conversion.beyond.into());
        (i.rail_v_code, i.rail_i_code, i.rail_f_code) = (conversion.v_code, conversion.i_code, conversion.f_code);
    }

    /// Runs the controller until its next action is due.
    fn clock(&mut self, flows: bool) {
        let ticks = if flows { self.machine.clock_ticks() } else { 0 };
        let i = &mut self.inputs;
        (i.perst_n, i.clkreq_n, i.link_state) = self.machine.levels();
        i.now = self.machine.now().max(self.soc.shown.now + ticks);
        let clocks = match &self.soc.shown {
            o if flows && o.watched & 3 != 0 => CLOCKS_WATCHING,
            o if o.rail_wanted == 1 => CLOCKS_LISTENING,
            _ => CLOCKS,
        };
        (i.ticks, i.clocks, i.skip) = (ticks as u32, clocks, u32::from(self.skip || !flows));
        i.rail_good = self.soc.shown.load_switch;
        i.perst_n &= 1 - self.soc.shown.perst_low;
        i.clkreq_n &= 1 - self.soc.shown.clkreq_low;
        i.console_count = self.console_in.len().min(CONSOLE - 1) as u8;
        for (to, from) in i.console.iter_mut().zip(&self.console_in).take(CONSOLE - 1) {
            *to = *from;
        }
        i.console_room = CONSOLE_HELD.saturating_sub(self.console_out.len()).min(CONSOLE - 1) as u8;
        let stop = self.soc.run(&self.inputs);
        (self.inputs.rail_valid, self.inputs.completed) = (0, 0);
        self.machine.listen(Interest {
            all: self.soc.shown.rail_wanted == 1,
            above: self.soc.shown.rail_level,
            levels: self.soc.shown.watched & 1 != 0,
            completions: self.soc.shown.watched & 2 != 0,
            zero: self.soc.shown.zero,
        });
        let o = &self.soc.shown;
        if std::mem::replace(&mut self.load, o.load) != o.load {
            // a cycle late, like the controller's writes to the instrument, so that the edge stays at its marker
            self.machine.load(o.now + self.machine.clock_ticks(), o.load);
        }
        self.clocks += u64::from(o.clocks);
        self.standing = if flows { 0 } else { self.standing + u64::from(o.clocks) };
        self.console_in.drain(..usize::from(o.console_taken));
        self.console_out.extend(&o.console[..usize::from(o.console_count)]);
        self.quiet = stop == Stop::Quiet;
        match stop {
            Stop::Read(_) | Stop::Write(..) => self.pending = Some(stop),
            Stop::Pins => {
                let (scl, sda) = self.lines.lines(o.scl_low == 1, o.sda_low == 1);
                (self.inputs.scl, self.inputs.sda) = (scl.into(), sda.into());
            }
            Stop::Clocks | Stop::Quiet => {}
        }
    }
}
