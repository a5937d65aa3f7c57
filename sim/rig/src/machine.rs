//! The interface between a session and an instrument, in either fidelity.

use std::time::Duration;

/// Picoseconds per tick.
pub const TICK_PS: u64 = 1000;

/// Why [`Machine::run`] returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// The requested amount of work was done.
    Budget,
    /// The requested tick was reached.
    Tick,
    /// The trace's next event is not known yet.
    Input,
    /// The caller must take the words.
    Full,
    /// The whole trace was played.
    End,
    /// The instrument has stopped and everything is out (only if requested).
    Stopped,
    /// A conversion of interest has completed.
    Rail(Conversion),
    /// A command has completed, and completions are of interest.
    Completed(Completion),
    /// PERST#, CLKREQ# or the link state has changed, and that is of interest.
    Levels,
    /// Nothing happens until a byte arrives on the control port (a rig only).
    Idle,
    /// Everything that can be read of the trace was played.
    Failed(String),
}

/// Events that end a run, besides work and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The end of the trace.
    End,
    /// The instrument has stopped.
    Stopped,
    /// Nothing. After the trace's end, its last levels stay.
    Tick,
}

/// How far to run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of cycles to evaluate (or as much work as takes about as long).
    pub clocks: u64,
    /// Tick to stop at.
    pub tick: u64,
    /// Further events that end the run.
    pub until: Until,
}

/// A conversion as corrected by the instrument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // CONVERSION of rail/config.py
pub struct Conversion {
    pub tick: u64,
    pub period: u32,
    pub v: i32,
    pub i: i32,
    pub flags: u8,
    pub v_code: u32,
    pub i_code: u32,
    pub f_code: u32,
    pub guard: i32,
    pub beyond: bool,
}

/// A command at its CQE: bits of COMPLETION of nvme/layouts.py, lowest first.
pub type Completion = [u32; 6];

/// Events of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// All conversions, and there must be some even without a capture.
    pub all: bool,
    /// Conversions with a `guard` above this.
    pub above: i32,
    /// Changes of PERST#, CLKREQ# and link state.
    pub levels: bool,
    /// Completions.
    pub completions: bool,
    /// Shorted inputs of the front end: 1 voltage, 2 current.
    pub zero: u8,
}

impl Default for Interest {
    /// Nothing.
    fn default() -> Self {
        Self { all: false, above: i32::MAX, levels: false, completions: false, zero: 0 }
    }
}

/// An instrument with a trace to play.
pub trait Machine {
    /// The tick counter.
    fn now(&self) -> u64;
    /// Ticks per cycle.
    fn clock_ticks(&self) -> u64;
    /// Cycles evaluated so far, where cycles are evaluated.
    fn evaluated(&self) -> u64;
    /// Number of conversions so far.
    fn sampled(&self) -> u64;
    /// TLPs that are due but not yet completely in.
    fn waiting_tlps(&self) -> usize;
    /// Number of command records so far.
    fn commands(&mut self) -> u64;
    /// Queues a register write: one per cycle, from the next cycle on.
    fn write(&mut self, address: u8, value: u32);
    /// Present value of a register. Queued writes have not happened yet.
    fn peek(&mut self, address: u8) -> u32;
    /// PERST#, CLKREQ# and link state as in the trace at this point.
    fn levels(&self) -> (u8, u8, u8);
    /// Sets the events that make a run return ([`Pause::Rail`], [`Pause::Completed`], [`Pause::Levels`]).
    fn listen(&mut self, interest: Interest);
    /// Test loads that are on from `tick` on: 1 coarse, 2 fine. Not before the last sample.
    fn load(&mut self, tick: u64, which: u8);
    /// Whether cycles in which nothing changes are skipped, where there is a choice.
    fn set_skip(&mut self, _skip: bool) {}
    /// The bytes produced since the last call.
    fn take_words(&mut self) -> Vec<u8>;
    /// Runs until one of `limits` or another event stops the run; waits at most `patience` for the trace.
    fn run(&mut self, limits: Limits, patience: Duration) -> Pause;
    /// Returns a warning for the user when the run has reached a limit of this model.
    fn caveat(&self) -> Option<&'static str> {
        None
    }
}
