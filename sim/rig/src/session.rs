//! One rig from power-on to its end: passes bytes between its ports and the firmware, drains the stream, and decides
//! when it is over.

use crate::eeprom_file::EepromFile;
use crate::machine::{Limits, Pause, Until};
use crate::output::Output;
use crate::rig::{Rig, ORIGIN_TICK};
use crate::status::Status;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cycles of the instrument evaluated before the ports are looked at again.
const SLICE: u64 = 20_000;
/// Length of one wait, after which the session looks at everything else.
const NAP: Duration = Duration::from_millis(20);

/// The command line's options for a session.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Start capturing at once.
    pub autostart: bool,
    /// End once the trace was played and everything was read.
    pub exit_on_done: bool,
    /// Time for which the rig answers the control port after the trace; `None`: until a request to end.
    pub linger: Option<Duration>,
    /// Virtual time does not run ahead of wall time.
    pub realtime: bool,
}

/// The session's ends of the control port; the port's threads hold the other ends.
pub struct Control {
    /// Received bytes.
    pub heard: Receiver<Vec<u8>>,
    /// Bytes to send.
    pub said: Sender<Vec<u8>>,
}

/// A running rig.
pub struct Session {
    rig: Rig,
    eeprom: Option<EepromFile>,
    output: Output,
    control: Control,
    options: Options,
    status: Status,
    quit: Arc<AtomicBool>,
    trace_over: bool,
    failure: Option<String>,
    /// Output the control port did not accept.
    unsaid: Vec<u8>,
    /// Virtual and wall time at which the current capture began.
    began: Option<(u64, Instant)>,
    wall: Duration,
    done_at: Option<Instant>,
    warned: bool,
    /// When the control port was last used, or the trace ended.
    last_used: Instant,
}

impl Session {
    /// Creates a rig in its power-on state. Setting `quit` ends the rig.
    pub fn new(
        rig: Rig,
        output: Output,
        control: Control,
        options: Options,
        status: Status,
        quit: Arc<AtomicBool>,
    ) -> Self {
        let mut this = Self {
            rig,
            eeprom: None,
            output,
            control,
            options,
            status,
            quit,
            trace_over: false,
            failure: None,
            unsaid: Vec::new(),
            began: None,
            wall: Duration::ZERO,
            done_at: None,
            warned: false,
            last_used: Instant::now(),
        };
        this.publish();
        this
    }

    /// Keeps the rig's EEPROM in a file, if one is given.
    pub fn keeping(mut self, eeprom: Option<EepromFile>) -> Self {
        self.eeprom = eeprom;
        self
    }

    /// Serves until a request to end, or until the rig ends by itself. The error gives the reason if the trace could not be played to its
    /// end.
    pub fn run(mut self) -> Result<(), String> {
        if self.options.autostart {
            self.rig.tell(b"INIT\n");
        }
        let mut patience = Duration::ZERO;
        while !self.quit.load(Ordering::Relaxed) && !self.output.broken() {
            self.hear(Duration::ZERO);
            patience = self.slice(patience);
            if let Some(Err(reason)) = self.eeprom.as_mut().map(|file| file.keep(self.rig.eeprom())) {
                self.failure = Some(reason);
                break;
            }
            if self.done_at.is_some() && self.rig.idle() && self.finished() {
                break;
            }
        }
        let failure = if self.output.broken() { Some("the stream could not be written".into()) } else { self.failure };
        self.output.finish();
        failure.map_or(Ok(()), Err)
    }

    /// Returns whether it is time to end. With `exit_on_done`, a host that has just read the end may still have a query.
    fn finished(&mut self) -> bool {
        if self.options.exit_on_done {
            return self.output.drained() && self.last_used.elapsed() >= self.output.farewell();
        }
        let since = self.done_at.map_or(Duration::ZERO, |at| at.elapsed());
        self.options.linger.is_some_and(|linger| since >= linger)
    }

    /// Lets the rig run for a while; returns how long the next call may wait for the trace.
    fn slice(&mut self, patience: Duration) -> Duration {
        let start = Instant::now();
        let running = self.rig.running();
        if !running {
            self.began = None;
        }
        let tick = match (self.options.realtime, running) {
            (true, true) => {
                let now = self.rig.machine().now();
                let (tick0, wall0) = *self.began.get_or_insert((now, start));
                tick0 + wall0.elapsed().as_nanos() as u64
            }
            _ => u64::MAX,
        };
        let pause = self.rig.run(Limits { clocks: SLICE, tick, until: Until::End }, patience);
        self.wall += start.elapsed();
        self.emit();
        self.publish();
        self.speak();
        self.warn();
        match pause {
            Pause::Budget | Pause::Full | Pause::Stopped | Pause::Rail(_) | Pause::Completed(_) | Pause::Levels => {}
            Pause::Input => return NAP,
            Pause::Tick => self.hear(Duration::from_millis(1)),
            Pause::Idle => self.hear(NAP),
            Pause::End => self.end_trace(),
            Pause::Failed(reason) => {
                eprintln!("wattbell-rig: error: {reason}; the rig stops where the trace breaks off");
                self.failure = Some(reason);
                self.end_trace();
                self.publish(); // before the end of the stream is out: whoever has read that may ask why
            }
        }
        if self.trace_over && self.done_at.is_none() && !self.rig.running() {
            self.done_at = Some(Instant::now());
            self.last_used = Instant::now();
            self.publish();
        }
        Duration::ZERO
    }

    /// Reports, once and when it happens, that the stream may differ from the RTL's stream.
    fn warn(&mut self) {
        if let Some(caveat) = self.rig.machine().caveat().filter(|_| !self.warned) {
            self.warned = true;
            let time_s = self.rig.machine().now().saturating_sub(ORIGIN_TICK) as f64 * 1e-9;
            eprintln!(
                "wattbell-rig: warning: {caveat}; the stream may differ from the RTL's, since before {time_s:.3} s"
            );
        }
    }

    fn end_trace(&mut self) {
        self.trace_over = true;
        self.rig.end_trace();
    }

    /// Drains the output words; blocks while nobody reads. Meanwhile time stands still, and the firmware answers.
    fn emit(&mut self) {
        let mut chunk = self.rig.machine().take_words();
        self.rig.stall(true);
        while !chunk.is_empty() && !self.quit.load(Ordering::Relaxed) {
            match self.output.offer(chunk, NAP) {
                Some(back) => chunk = back,
                None => break,
            }
            self.hear(Duration::ZERO);
            self.rig.run(Limits { clocks: SLICE, tick: u64::MAX, until: Until::End }, Duration::ZERO);
            self.publish();
            self.speak();
        }
        self.rig.stall(false);
    }

    /// Takes the bytes that have arrived on the control port; waits for them at most `patience`.
    fn hear(&mut self, patience: Duration) {
        let mut next = match self.control.heard.recv_timeout(patience) {
            Ok(bytes) => Some(bytes),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(patience);
                None
            }
        };
        while let Some(bytes) = next {
            self.last_used = Instant::now();
            self.rig.tell(&bytes);
            next = self.control.heard.try_recv().ok();
        }
    }

    /// Passes on the firmware's output. A client that does not read stops the firmware.
    fn speak(&mut self) {
        if self.unsaid.is_empty() {
            self.unsaid = self.rig.take_said();
        }
        if !self.unsaid.is_empty() {
            match self.control.said.try_send(std::mem::take(&mut self.unsaid)) {
                Err(TrySendError::Full(back)) => self.unsaid = back,
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// The process's status; see docs/virtual-rig.md.
    fn publish(&mut self) {
        let state = match (self.rig.running(), self.rig.stopping()) {
            (true, true) => "STOPPING",
            (true, false) => "RUN",
            _ if self.trace_over => "DONE",
            _ => "READY",
        };
        let controller_clocks = self.rig.controller_clocks();
        let machine = self.rig.machine();
        let line = serde_json::json!({
            "state": state,
            "trace": if self.trace_over { "over" } else { "open" },
            "failure": self.failure,
            "tick": machine.now(),
            "clocks": machine.evaluated(),
            "controller_clocks": controller_clocks,
            "conversions": machine.sampled(),
            "tlps_waiting": machine.waiting_tlps(),
            "bytes": self.output.sent(),
            "wall_s": (self.wall.as_secs_f64() * 1e3).round() / 1e3,
        });
        self.status.set(line.to_string());
    }
}
