//! One rig from power-on to its end: what the control port asks, carried out on the engine, and the stream carried off.
//!
//! Virtual time passes only while the rig captures (or sends what a stop left). So a host may take all the time it wants
//! before INITiate, and nothing of the trace is missed.

use crate::calibration::Calibration;
use crate::config::{calibration_writes, Fact, Sweep};
use crate::machine::{Limits, Machine, Pause};
use crate::output::Output;
use crate::pty::Line;
use crate::registers as reg;
use crate::scpi::{parse, understand, Command, ErrorQueue, ScpiError};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clocks evaluated before the control port is looked at again.
const SLICE: u64 = 20_000;
/// How long one wait lasts before everything else is looked at.
const NAP: Duration = Duration::from_millis(20);

/// What the command line asks of a session.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Serial number.
    pub serial: String,
    /// Start capturing at once.
    pub autostart: bool,
    /// End when the trace was played and everything was read.
    pub exit_on_done: bool,
    /// After the trace, answer the control port for so long; `None`: until told to end.
    pub linger: Option<Duration>,
    /// Virtual time does not run ahead of wall time.
    pub realtime: bool,
    /// The factory's calibration; `None` leaves the rig uncalibrated.
    pub calibration: Option<Calibration>,
}

/// What the rig is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Time stands still; INITiate starts.
    Ready,
    /// Capturing.
    Run,
    /// Sending what a stop left.
    Stopping,
    /// The trace is over.
    Done,
}

/// The two ends that the control port's thread holds the others of.
pub struct Control {
    /// Lines that came in.
    pub lines: Receiver<Line>,
    /// One answer a line.
    pub answers: Sender<String>,
}

/// A rig that runs.
pub struct Session {
    engine: Box<dyn Machine>,
    output: Output,
    control: Control,
    options: Options,
    quit: Arc<AtomicBool>,
    state: State,
    trace_over: bool,
    failure: Option<String>,
    sweep: Sweep,
    /// Given by NVME:..., not yet by ATTach; and given by ATTach, not yet to the tracker.
    facts: Vec<Fact>,
    committed: Vec<Fact>,
    errors: ErrorQueue,
    /// Virtual and wall time at which the current capture began.
    began: (u64, Instant),
    wall: Duration,
    done_at: Option<Instant>,
    /// When the control port was last used, or the trace ended.
    last_line: Instant,
}

impl Session {
    /// A rig in its power-on state. Setting `quit` ends it.
    pub fn new(
        engine: Box<dyn Machine>,
        output: Output,
        control: Control,
        options: Options,
        quit: Arc<AtomicBool>,
    ) -> Self {
        let sweep = Sweep::new(engine.clock_ticks());
        Self {
            engine,
            output,
            control,
            options,
            quit,
            state: State::Ready,
            trace_over: false,
            failure: None,
            sweep,
            facts: Vec::new(),
            committed: Vec::new(),
            errors: ErrorQueue::default(),
            began: (0, Instant::now()),
            wall: Duration::ZERO,
            done_at: None,
            last_line: Instant::now(),
        }
    }

    /// Serves until the rig is told to end, or ends by itself. An error says why the trace could not be played to its end.
    pub fn run(mut self) -> Result<(), String> {
        if self.options.autostart {
            self.initiate().map_err(|e| e.to_string())?;
        }
        let mut patience = Duration::ZERO;
        while !self.quit.load(Ordering::Relaxed) && !self.output.broken() {
            self.serve_waiting();
            match self.state {
                State::Ready => self.serve_within(NAP * 5),
                State::Run | State::Stopping => patience = self.slice(patience),
                State::Done => {
                    if self.finished() {
                        break;
                    }
                    self.serve_within(NAP);
                }
            }
        }
        let failure = if self.output.broken() { Some("the stream could not be written".into()) } else { self.failure };
        self.output.finish();
        failure.map_or(Ok(()), Err)
    }

    /// Whether it is time to end. With `exit_on_done`, a host that has just read the end may still have a question.
    fn finished(&mut self) -> bool {
        if self.options.exit_on_done {
            return self.output.drained() && self.last_line.elapsed() >= self.output.farewell();
        }
        let since = self.done_at.map_or(Duration::ZERO, |at| at.elapsed());
        self.options.linger.is_some_and(|linger| since >= linger)
    }

    /// Lets the engine run for a while; returns how long the next call may wait for the trace.
    fn slice(&mut self, patience: Duration) -> Duration {
        let start = Instant::now();
        let (tick0, wall0) = self.began;
        let tick = if self.options.realtime { tick0 + wall0.elapsed().as_nanos() as u64 } else { u64::MAX };
        let limits = Limits { clocks: SLICE, tick, until_stopped: self.state == State::Stopping };
        let pause = self.engine.run(limits, patience);
        self.wall += start.elapsed();
        self.emit();
        match pause {
            Pause::Budget | Pause::Full => {}
            Pause::Input => return NAP,
            Pause::Tick => self.serve_within(Duration::from_millis(1)),
            Pause::End => self.stop(true),
            Pause::Failed(reason) => {
                eprintln!("wattbell-rig: error: {reason}; the rig stops where the trace breaks off");
                self.errors.push(ScpiError::device(reason.clone()));
                self.failure = Some(reason);
                self.stop(true);
            }
            Pause::Stopped if self.trace_over => {
                if let Some(caveat) = self.engine.caveat() {
                    eprintln!("wattbell-rig: note: {caveat}; from there on the stream may differ from the RTL's");
                }
                self.state = State::Done;
                self.done_at = Some(Instant::now());
                self.last_line = Instant::now();
            }
            Pause::Stopped => self.state = State::Ready,
        }
        Duration::ZERO
    }

    /// Carries off the words that came out; waits, serving the control port, while nobody reads.
    fn emit(&mut self) {
        let mut chunk = self.engine.take_words();
        while !chunk.is_empty() && !self.quit.load(Ordering::Relaxed) {
            match self.output.offer(chunk, NAP) {
                Some(back) => chunk = back,
                None => return,
            }
            self.serve_waiting();
        }
    }

    fn stop(&mut self, trace_over: bool) {
        self.trace_over |= trace_over;
        self.engine.write(reg::CONTROL, 0);
        self.state = State::Stopping;
    }

    fn initiate(&mut self) -> Result<(), ScpiError> {
        match self.state {
            State::Ready => {}
            State::Done => return Err(ScpiError::init_ignored("the trace is over")),
            State::Run | State::Stopping => return Err(ScpiError::init_ignored("already capturing")),
        }
        if let Some(calibration) = &self.options.calibration {
            calibration_writes(calibration).into_iter().for_each(|(a, v)| self.engine.write(a, v));
        }
        self.apply_sweep();
        self.engine.write(reg::CONTROL, reg::CONTROL_RUN);
        self.tell_committed();
        self.state = State::Run;
        self.began = (self.engine.now(), Instant::now());
        Ok(())
    }

    /// Only while capturing: what the tracker then says about guessing belongs into the stream. And before the first
    /// capture, the trace has not yet said that PERST# is high; while it is low, the tracker forgets everything.
    fn tell_committed(&mut self) {
        std::mem::take(&mut self.committed).iter().for_each(|fact| self.engine.tell(fact));
    }

    fn apply_sweep(&mut self) {
        self.sweep.writes().into_iter().for_each(|(a, v)| self.engine.write(a, v));
        self.engine.write(reg::COMMAND, reg::COMMAND_RAIL_APPLY);
    }

    fn serve_waiting(&mut self) {
        while let Ok(line) = self.control.lines.try_recv() {
            self.serve(line);
        }
    }

    fn serve_within(&mut self, patience: Duration) {
        match self.control.lines.recv_timeout(patience) {
            Ok(line) => self.serve(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(patience),
        }
    }

    fn serve(&mut self, line: Line) {
        self.last_line = Instant::now();
        let mut answers = Vec::new();
        match line {
            Line::TooLong => self.errors.push(ScpiError::input_overrun("")),
            Line::Text(text) => {
                let (units, error) = parse::parse_line(&text);
                for unit in units {
                    match understand(unit).and_then(|command| self.obey(command)) {
                        Ok(answer) => answers.extend(answer),
                        Err(error) => self.errors.push(error),
                    }
                }
                error.into_iter().for_each(|e| self.errors.push(e));
            }
        }
        // The control port's thread waits for exactly one answer a line; empty means none.
        let _ = self.control.answers.send(answers.join(";"));
    }

    fn obey(&mut self, command: Command) -> Result<Option<String>, ScpiError> {
        let clock_ticks = self.engine.clock_ticks();
        let answer = match command {
            Command::Identify => {
                let [major, minor, patch] = reg::GATEWARE_VERSION;
                Some(format!("Wattbell,virtual-rig,{},{major}.{minor}.{patch}", self.options.serial))
            }
            Command::OperationComplete => Some("1".into()),
            Command::ClearStatus => {
                self.errors.clear();
                None
            }
            Command::NextError => Some(self.errors.pop()),
            Command::ErrorCount => Some(self.errors.len().to_string()),
            Command::ScpiVersion => Some("1999.0".into()),
            Command::Reset => {
                self.sweep = Sweep::new(clock_ticks);
                self.facts.clear();
                self.committed.clear();
                if self.state == State::Run {
                    self.stop(false);
                }
                None
            }
            Command::Initiate => {
                self.initiate()?;
                None
            }
            Command::Abort => {
                if self.state == State::Run {
                    self.stop(false);
                }
                None
            }
            Command::SetDecimation(n) => {
                self.sweep.set_decimation(n, clock_ticks)?;
                self.sweep_changed()
            }
            Command::SetInterval(seconds) => {
                self.sweep.set_interval(seconds, clock_ticks)?;
                self.sweep_changed()
            }
            Command::Decimation => Some(self.sweep.decimation.to_string()),
            Command::Interval => Some(format!("{:E}", self.sweep.interval_s(clock_ticks))),
            Command::RigStatus => Some(self.status()),
            Command::Mark(value) => {
                if self.state != State::Run {
                    return Err(ScpiError::settings_conflict("MARK while not capturing"));
                }
                self.engine.write(reg::MARKER, value);
                None
            }
            Command::Bar0(address) => self.fact(Fact::Bar0(address)),
            Command::Stride(dstrd) => self.fact(Fact::Stride(dstrd)),
            Command::Queue(queue) => self.fact(Fact::Queue(queue)),
            Command::Attach => {
                if self.facts.is_empty() {
                    return Err(ScpiError::settings_conflict("NVME:ATTach without BAR0 or QUEue before it"));
                }
                self.committed.append(&mut self.facts);
                if self.state == State::Run {
                    self.tell_committed();
                }
                None
            }
        };
        Ok(answer)
    }

    /// While capturing a new setting takes effect at once; before, with INITiate.
    fn sweep_changed(&mut self) -> Option<String> {
        if self.state == State::Run {
            self.apply_sweep();
        }
        None
    }

    fn fact(&mut self, fact: Fact) -> Option<String> {
        self.facts.push(fact);
        None
    }

    /// `key=value` pairs; see docs/virtual-rig.md.
    fn status(&self) -> String {
        let state = match self.state {
            State::Ready => "READY",
            State::Run => "RUN",
            State::Stopping => "STOPPING",
            State::Done => "DONE",
        };
        let e = &self.engine;
        format!(
            "state={state},trace={},tick={},bytes={},clocks={},conversions={},tlps_waiting={},wall_s={:.3},errors={}",
            if self.trace_over { "over" } else { "open" },
            e.now(),
            self.output.sent(),
            e.evaluated(),
            e.sampled(),
            e.waiting_tlps(),
            self.wall.as_secs_f64(),
            self.errors.len(),
        )
    }
}
