//! What a session needs of an instrument, whichever way it is simulated.

use std::time::Duration;

/// Picoseconds in a tick.
pub const TICK_PS: u64 = 1000;

/// Why [`Machine::run`] came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// The asked amount of work was done.
    Budget,
    /// The asked tick was reached.
    Tick,
    /// The trace has not said yet what happens next.
    Input,
    /// Take the words.
    Full,
    /// All of the trace was played.
    End,
    /// The instrument has stopped and everything is out (only when asked to look).
    Stopped,
    /// A conversion of interest has come out.
    Rail(Conversion),
    /// A command is completed, and completions are of interest.
    Completed(Completion),
    /// PERST#, CLKREQ# or the link state has changed, and that is of interest.
    Levels,
    /// Nothing happens until a byte comes on the control port (only of a rig).
    Idle,
    /// All of the trace that can be read was played.
    Failed(String),
}

/// What ends a run besides work and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The end of the trace.
    End,
    /// The instrument has stopped.
    Stopped,
    /// Nothing. Behind its end, the trace's last levels stay.
    Tick,
}

/// How far to run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Clocks to evaluate at most (or as much work as takes about as long).
    pub clocks: u64,
    /// Tick to stop at.
    pub tick: u64,
    /// What else to look for.
    pub until: Until,
}

/// A conversion as the instrument corrected it.
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
}

/// A command at its CQE: bits of COMPLETION of nvme/layouts.py, the lowest first.
pub type Completion = [u32; 6];

/// What is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// All conversions, and there must be some without a capture too.
    pub all: bool,
    /// Conversions of a current above this.
    pub above: i32,
    /// Changes of PERST#, CLKREQ# and link state.
    pub levels: bool,
    /// Completions.
    pub completions: bool,
    /// Inputs of the front end that are shorted: 1 voltage, 2 current.
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
    /// Ticks a clock.
    fn clock_ticks(&self) -> u64;
    /// Clocks evaluated so far, where clocks are evaluated.
    fn evaluated(&self) -> u64;
    /// Conversions so far.
    fn sampled(&self) -> u64;
    /// TLPs whose time has come and that are not yet in.
    fn waiting_tlps(&self) -> usize;
    /// Command records made so far.
    fn commands(&mut self) -> u64;
    /// Queues a register write: one a clock, from the next clock on.
    fn write(&mut self, address: u8, value: u32);
    /// What a register shows now. Writes that are queued have not happened yet.
    fn peek(&mut self, address: u8) -> u32;
    /// PERST#, CLKREQ#, link state as the trace has them now.
    fn levels(&self) -> (u8, u8, u8);
    /// What a run comes back for ([`Pause::Rail`], [`Pause::Completed`], [`Pause::Levels`]).
    fn listen(&mut self, interest: Interest);
    /// From `tick` on these test loads are on: 1 coarse, 2 fine. Not before what was sampled last.
    fn load(&mut self, tick: u64, which: u8);
    /// Whether clocks in which nothing changes are left out, where there is a choice.
    fn set_skip(&mut self, _skip: bool) {}
    /// The bytes that came out since the last call.
    fn take_words(&mut self) -> Vec<u8>;
    /// Runs until one of `limits` or something else stops it; waits at most `patience` for the trace.
    fn run(&mut self, limits: Limits, patience: Duration) -> Pause;
    /// What the user must be told about how far this stands for the real instrument, once there is anything.
    fn caveat(&self) -> Option<&'static str> {
        None
    }
}
