//! The model and its clock: one lock, and one thread that wakes for the model's next event.

use super::guest::Guest;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattbell_ssd::driver::TruthSink;
use wattbell_ssd::{Aspm, Controller, Ps, NS};

type Output = Box<dyn Write + Send>;
type Sink = TruthSink<Output, Output>;
type Model = Controller<Sink>;

/// Longest sleep: how far the trace on disk lags behind an idle drive.
const NAP: Duration = Duration::from_millis(200);

/// Picoseconds of the machine's monotonic clock since a start.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at 0 now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The present time, at the clock's resolution of nanoseconds.
    pub fn now_ps(&self) -> Ps {
        self.0.elapsed().as_nanos() as Ps * NS
    }
}

struct State {
    model: Option<Model>,
    guest: Guest,
    stopped: bool,
}

/// A model that runs in real time, shared by the server and the clock's thread.
pub struct Drive {
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

impl Drive {
    /// Switches the drive on.
    pub fn start(mut model: Model, aspm: Aspm) -> Self {
        model.power_on(0);
        model.set_aspm(aspm);
        let state = State { model: Some(model), guest: Guest::default(), stopped: false };
        Self { clock: Clock::start(), state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the model's events when they are due, until [`Drive::stop`].
    pub fn run(&self) {
        let mut state = self.lock();
        let mut flushed = Instant::now();
        while !state.stopped {
            let now = self.clock.now_ps();
            let State { model: Some(model), guest, .. } = &mut *state else { return };
            model.advance(now, guest);
            if flushed.elapsed() > NAP {
                let trace = model.sink().trace();
                trace.beat();
                trace.flush();
                flushed = Instant::now();
            }
            let due = model
                .next_event_ps()
                .map_or(NAP, |at| Duration::from_nanos(at.saturating_sub(self.clock.now_ps()).div_ceil(NS)).min(NAP));
            if !due.is_zero() {
                state = self.changed.wait_timeout(state, due).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Ends [`Drive::run`].
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Lets `access` use the model at the present time, and wakes the clock for the model's next events.
    pub fn access<T>(&self, access: impl FnOnce(&mut Model, Ps, &mut Guest) -> T) -> Option<T> {
        let mut state = self.lock();
        let now = self.clock.now_ps();
        let State { model: Some(model), guest, .. } = &mut *state else { return None };
        let result = access(model, now, guest);
        drop(state);
        self.changed.notify_all();
        Some(result)
    }

    /// Changes the guest's mappings or vectors.
    pub fn guest<T>(&self, change: impl FnOnce(&mut Guest) -> T) -> T {
        change(&mut self.lock().guest)
    }

    /// Ends the model; returns its sink.
    pub fn finish(&self) -> Option<Sink> {
        let mut state = self.lock();
        let now = self.clock.now_ps();
        let model = state.model.take()?;
        Some(model.finish(now, &mut state.guest))
    }
}
