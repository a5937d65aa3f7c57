//! Power states: which one the controller is in, when it moves by itself, and how long that takes.

use crate::power::account::CoreState;
use crate::power::meter::Meter;
use crate::profile::{Profile, Ps, MS, US};
use crate::variation::Variation;

/// Bytes of the Autonomous Power State Transition table: 32 entries of 8.
pub const APST_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Steady,
    Entering { until: Ps, from: usize },
    Exiting { until: Ps },
}

struct State {
    operational: bool,
    core_w: f64,
    entry: Ps,
    exit: Ps,
}

/// The power state machine.
pub struct PowerStates {
    states: Vec<State>,
    active_w: f64,
    current: usize,
    operational: usize,
    /// Operational state that the host asked for; a power limit may prohibit it.
    asked: usize,
    /// States that no power limit prohibits. The host knows them by their places here.
    allowed: Vec<usize>,
    mode: Mode,
    /// Since when nothing is in hand; `None` while something is.
    idle_since: Option<Ps>,
    since: Ps,
    /// Non-operational state the host asked for; an admin command only interrupts it.
    host_asked: Option<usize>,
    apst_enabled: bool,
    apst: [u8; APST_BYTES],
    slow: Vec<f64>,
    throttle: f64,
    variation: Variation,
}

impl PowerStates {
    /// In PS0, idle from time 0.
    pub fn new(profile: &Profile, seed: u64) -> Self {
        let states = profile.power_state.iter().map(|s| State {
            operational: s.operational,
            core_w: *s.core_w,
            entry: *s.real_entry_us * US,
            exit: *s.real_exit_us * US,
        });
        let top = *profile.power_state[0].max_w;
        Self {
            states: states.collect(),
            active_w: *profile.power.core_active_w,
            current: 0,
            operational: 0,
            asked: 0,
            allowed: (0..profile.power_state.len()).collect(),
            mode: Mode::Steady,
            idle_since: Some(0),
            since: 0,
            host_asked: None,
            apst_enabled: false,
            apst: [0; APST_BYTES],
            slow: profile.power_state.iter().map(|s| (top / *s.max_w).max(1.0)).collect(),
            throttle: 1.0,
            variation: Variation::new(*profile.controller.wake_spread, seed ^ 0xA3A4E),
        }
    }

    /// A power limit leaves these states, at least one of them operational. The others disappear for the host.
    pub fn limit(&mut self, now: Ps, allowed: Vec<usize>, meter: &mut Meter) {
        if self.allowed == allowed {
            return;
        }
        self.allowed = allowed;
        let within = self.allowed.contains(&self.asked);
        self.operational = if within { self.asked } else { self.first() };
        if self.states[self.current].operational {
            (self.current, self.since) = (self.operational, now);
        }
        self.draw(now, meter);
    }

    /// The state that the host knows as PS0.
    fn first(&self) -> usize {
        self.allowed.first().copied().unwrap_or(0)
    }

    /// The number by which the host knows a state; `None` if it is prohibited.
    fn number(&self, state: usize) -> Option<usize> {
        self.allowed.iter().position(|&allowed| allowed == state)
    }

    /// How many states the host knows.
    pub fn count(&self) -> usize {
        self.allowed.len()
    }

    /// Returns to the state after a controller reset: PS0, APST off.
    pub fn reset(&mut self, now: Ps, meter: &mut Meter) {
        self.apst_enabled = false;
        self.apst = [0; APST_BYTES];
        self.host_asked = None;
        let first = self.first();
        (self.current, self.operational, self.asked) = (first, first, 0);
        (self.mode, self.since) = (Mode::Steady, now);
        self.draw(now, meter);
    }

    /// Nothing is idle and nothing in hand until [`PowerStates::start`].
    pub fn stop(&mut self) {
        self.idle_since = None;
    }

    /// The controller has started: in PS0, idle.
    pub fn start(&mut self, now: Ps, meter: &mut Meter) {
        self.idle_since = Some(now);
        self.reset(now, meter);
    }

    /// The state Get Features 02h reports: the one the controller is in, or is on its way to.
    pub fn current(&self) -> u8 {
        self.number(self.current).unwrap_or(0) as u8
    }

    /// How many times slower than in PS0 the controller works, to keep to the power of the operational state.
    pub fn slowdown(&self) -> f64 {
        self.slow[self.operational] * self.throttle
    }

    /// Heat makes everything slower by this factor, on top of the power state.
    pub fn set_throttle(&mut self, factor: f64) {
        self.throttle = factor;
    }

    /// Whether the controller is awake and, by itself, stays so until `at`.
    pub fn stays_awake_until(&self, at: Ps) -> bool {
        self.mode == Mode::Steady
            && self.states[self.current].operational
            && self.due().is_none_or(|(move_at, target)| move_at > at || self.states[target].operational)
    }

    /// The controller is at work for itself until `until`: that does not count as idle.
    pub fn hold(&mut self, until: Ps) {
        self.idle_since = self.idle_since.map(|since| since.max(until));
    }

    /// Whether APST is on.
    pub fn apst_enabled(&self) -> bool {
        self.apst_enabled
    }

    /// The table of APST as the host knows the states. A target that is prohibited reads as 0.
    pub fn apst(&self) -> [u8; APST_BYTES] {
        if self.allowed.len() == self.states.len() {
            return self.apst;
        }
        let mut known = [0; APST_BYTES];
        for (number, &state) in self.allowed.iter().enumerate() {
            let entry = &self.apst[8 * state..8 * state + 8];
            let target = self.number(usize::from(entry[0] >> 3)).unwrap_or(0);
            known[8 * number..8 * number + 8].copy_from_slice(entry);
            known[8 * number] = (target as u8) << 3 | entry[0] & 7;
        }
        known
    }

    /// Sets APST from the host's table. Entries must name non-operational states that exist: if not, nothing changes and it is false.
    /// Entries of prohibited states stay as they are.
    pub fn set_apst(&mut self, enabled: bool, table: &[u8; APST_BYTES]) -> bool {
        for entry in table.chunks_exact(8).take(self.allowed.len()) {
            let (target, wait) = apst_entry(entry);
            if wait > 0 && self.allowed.get(target).is_none_or(|&state| self.states[state].operational) {
                return false;
            }
        }
        self.apst_enabled = enabled;
        if self.allowed.len() == self.states.len() {
            self.apst = *table;
            return true;
        }
        for (entry, &state) in table.chunks_exact(8).zip(&self.allowed) {
            let mine = &mut self.apst[8 * state..8 * state + 8];
            mine.copy_from_slice(entry);
            if let Some(&target) = self.allowed.get(usize::from(entry[0] >> 3)) {
                mine[0] = (target as u8) << 3 | entry[0] & 7;
            }
        }
        true
    }

    /// Takes a host's request for a power state (Set Features 02h), by its number. The state must exist. An operational state is taken up at once, a
    /// non-operational state when the controller is idle.
    pub fn request(&mut self, now: Ps, number: usize, meter: &mut Meter) {
        let state = self.allowed[number];
        self.host_asked = (!self.states[state].operational).then_some(state);
        if self.states[state].operational {
            (self.current, self.operational, self.asked) = (state, state, state);
            self.since = now;
        }
        self.draw(now, meter);
    }

    /// Work arrives at `now`: the time from which the controller can take it up.
    pub fn busy(&mut self, now: Ps, io: bool, meter: &mut Meter) -> Ps {
        let nothing_new = self.idle_since.is_none() && self.host_asked.is_none();
        if nothing_new && self.mode == Mode::Steady && self.states[self.current].operational {
            return now;
        }
        self.idle_since = None;
        if io {
            self.host_asked = None;
        }
        let ready = match self.mode {
            Mode::Steady if self.states[self.current].operational => now,
            Mode::Steady => now + self.exit_time(),
            Mode::Entering { until, .. } => until.max(now) + self.exit_time(),
            Mode::Exiting { until } => until.max(now),
        };
        if ready > now || self.mode != Mode::Steady {
            self.mode = Mode::Exiting { until: ready };
            self.current = self.operational;
        }
        self.draw(now, meter);
        ready
    }

    /// Returns the time that leaving the current state takes.
    fn exit_time(&mut self) -> Ps {
        (self.states[self.current].exit as f64 * self.variation.factor()) as Ps
    }

    /// Nothing is in hand from `now` on.
    pub fn idle(&mut self, now: Ps, meter: &mut Meter) {
        if self.idle_since.is_none() {
            self.idle_since = Some(now);
            self.draw(now, meter);
        }
    }

    /// Since when nothing is in hand.
    pub fn idle_since(&self) -> Option<Ps> {
        self.idle_since
    }

    /// When [`PowerStates::step`] has something to do.
    pub fn next_ps(&self) -> Option<Ps> {
        match self.mode {
            Mode::Entering { until, .. } | Mode::Exiting { until } => Some(until),
            Mode::Steady => self.due().map(|(at, _)| at),
        }
    }

    /// Executes the steps that are due at `now`.
    pub fn step(&mut self, now: Ps, meter: &mut Meter) {
        match self.mode {
            Mode::Entering { .. } | Mode::Exiting { .. } => {
                self.mode = Mode::Steady;
                self.since = now;
            }
            Mode::Steady => {
                if let Some((_, target)) = self.due() {
                    let from = self.current;
                    self.current = target;
                    self.mode = Mode::Entering { until: now + self.states[target].entry, from };
                }
            }
        }
        self.draw(now, meter);
    }

    /// The next move out of a steady state: when, and where to.
    fn due(&self) -> Option<(Ps, usize)> {
        let idle = self.idle_since?.max(self.since);
        if let Some(target) = self.host_asked.filter(|&t| t != self.current) {
            // Long enough for the completion of the Set Features itself to be fetched by the host.
            return Some((idle + 10 * US, target));
        }
        if !self.apst_enabled || self.host_asked.is_some() {
            return None;
        }
        let (target, wait) = apst_entry(&self.apst[8 * self.current..8 * self.current + 8]);
        let there = self.states.get(target).is_some_and(|state| !state.operational) && self.number(target).is_some();
        (wait > 0 && there && target != self.current).then_some((idle + wait, target))
    }

    fn draw(&mut self, now: Ps, meter: &mut Meter) {
        let current = self.current as u8;
        let (state, core_w) = match self.mode {
            Mode::Steady => (CoreState::In(current), self.states[self.current].core_w),
            Mode::Entering { from, .. } => (CoreState::Entering(current), self.states[from].core_w),
            Mode::Exiting { .. } => (CoreState::Leaving, self.states[self.operational].core_w),
        };
        meter.core(now, state, core_w);
        let active = self.idle_since.is_none();
        meter.active(now, if active { self.active_w / self.slowdown() } else { 0.0 });
    }
}

/// Target state and idle time of an APST entry; time 0: no transition.
fn apst_entry(entry: &[u8]) -> (usize, Ps) {
    let wait_ms = u64::from(entry[1]) | u64::from(entry[2]) << 8 | u64::from(entry[3]) << 16;
    (usize::from(entry[0] >> 3), wait_ms * MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (PowerStates, Meter) {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        profile.controller.wake_spread.value = 0.0;
        (PowerStates::new(&profile, 1), Meter::new(&profile))
    }

    fn run(states: &mut PowerStates, meter: &mut Meter, to: Ps) {
        while let Some(at) = states.next_ps().filter(|&t| t <= to) {
            states.step(at, meter);
        }
        meter.advance(to);
    }

    fn table() -> [u8; APST_BYTES] {
        let mut table = [0; APST_BYTES];
        for (state, (target, ms)) in [(0, (3u8, 100u8)), (1, (3, 100)), (2, (3, 100)), (3, (4, 200))] {
            table[8 * state] = target << 3;
            table[8 * state + 1] = ms;
        }
        table
    }

    #[test]
    fn apst_walks_down_and_io_wakes_after_the_real_exit_latency() {
        let (mut s, mut m) = machine();
        assert!(s.set_apst(true, &table()));
        s.busy(0, true, &mut m);
        s.idle(MS, &mut m);
        run(&mut s, &mut m, 100 * MS);
        assert_eq!(s.current(), 0);
        run(&mut s, &mut m, 106 * MS); // 101 ms, and 5 ms to enter
        assert_eq!(s.current(), 3);
        assert!((m.power_w() - 0.027).abs() < 1e-9);
        run(&mut s, &mut m, 400 * MS);
        assert_eq!(s.current(), 4);
        assert_eq!(s.busy(400 * MS, true, &mut m), 400 * MS + 54_800 * US);
        assert_eq!(s.current(), 0);
    }

    #[test]
    fn wake_ups_vary_around_the_exit_latency() {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        profile.controller.wake_spread.value = 0.5;
        let mut states = PowerStates::new(&profile, 7);
        states.current = 4;
        let nominal = states.states[4].exit as f64;
        let factors: Vec<f64> = (0..20_000).map(|_| states.exit_time() as f64 / nominal).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / factors.len() as f64;
        let middle = mean(&mut factors.iter().copied());
        assert!((middle - 1.0).abs() < 0.02, "{middle}"); // its standard deviation is 0.004
        let log = mean(&mut factors.iter().map(|f| f.ln()));
        let spread = mean(&mut factors.iter().map(|f| (f.ln() - log).powi(2))).sqrt();
        assert!((spread - 0.5).abs() < 0.02, "{spread}");
    }

    #[test]
    fn work_during_entry_waits_for_entry_and_exit() {
        let (mut s, mut m) = machine();
        s.set_apst(true, &table());
        s.idle(0, &mut m);
        run(&mut s, &mut m, 102 * MS);
        assert_eq!(s.busy(102 * MS, true, &mut m), 105 * MS + 6200 * US);
    }

    #[test]
    fn a_state_the_host_asked_for_survives_admin_commands_but_not_io() {
        let (mut s, mut m) = machine();
        s.busy(0, false, &mut m);
        s.request(0, 4, &mut m);
        s.idle(MS, &mut m);
        run(&mut s, &mut m, 20 * MS);
        assert_eq!(s.current(), 4);
        let ready = s.busy(20 * MS, false, &mut m);
        run(&mut s, &mut m, ready);
        assert_eq!(s.current(), 0);
        s.idle(ready + MS, &mut m);
        run(&mut s, &mut m, ready + 20 * MS);
        assert_eq!(s.current(), 4);
        let ready = s.busy(ready + 20 * MS, true, &mut m);
        s.idle(ready + MS, &mut m);
        run(&mut s, &mut m, ready + 900 * MS);
        assert_eq!(s.current(), 0);
    }

    #[test]
    fn an_apst_table_that_names_an_operational_state_is_refused() {
        let (mut s, _) = machine();
        let mut bad = table();
        bad[0] = 1 << 3;
        assert!(!s.set_apst(true, &bad));
        assert!(!s.apst_enabled());
    }

    #[test]
    fn a_slower_state_draws_less_for_work_and_heat_slows_down_further() {
        let (mut s, mut m) = machine();
        s.request(0, 2, &mut m);
        s.busy(0, true, &mut m);
        m.advance(MS);
        // 4 W and 2.2 W: PS2 works 2.2 / 4 times as fast. core_w is 0.42 W, core_active_w 0.62 W.
        assert!((s.slowdown() - 4.0 / 2.2).abs() < 1e-12);
        assert!((m.power_w() - 0.42 - 0.62 * 2.2 / 4.0).abs() < 1e-8, "{}", m.power_w());
        s.set_throttle(1.5);
        s.idle(MS, &mut m);
        m.advance(2 * MS);
        assert!((m.power_w() - 0.42).abs() < 1e-8);
        s.busy(2 * MS, true, &mut m);
        m.advance(3 * MS);
        assert!((s.slowdown() - 6.0 / 2.2).abs() < 1e-12);
        assert!((m.power_w() - 0.42 - 0.62 * 2.2 / 6.0).abs() < 1e-8, "{}", m.power_w());
    }

    #[test]
    fn it_stays_awake_until_the_transition_and_its_own_work_puts_that_off() {
        let (mut s, mut m) = machine();
        assert!(s.stays_awake_until(u64::MAX), "nothing makes it sleep");
        s.set_apst(true, &table());
        s.busy(0, true, &mut m);
        assert!(s.stays_awake_until(u64::MAX), "work is in hand");
        s.idle(MS, &mut m);
        assert_eq!((s.next_ps(), s.idle_since()), (Some(101 * MS), Some(MS)));
        assert!(s.stays_awake_until(101 * MS - 1) && !s.stays_awake_until(101 * MS));
        s.hold(7 * MS);
        assert_eq!((s.next_ps(), s.idle_since()), (Some(107 * MS), Some(7 * MS)));
        s.hold(6 * MS);
        s.idle(9 * MS, &mut m);
        assert_eq!(s.idle_since(), Some(7 * MS));
        run(&mut s, &mut m, 107 * MS);
        assert!(!s.stays_awake_until(107 * MS + 1), "on its way");
        assert_eq!(s.next_ps(), Some(112 * MS));
        run(&mut s, &mut m, 112 * MS);
        assert!(!s.stays_awake_until(112 * MS + 1), "asleep");
        assert_eq!(s.busy(112 * MS, true, &mut m), 112 * MS + 6200 * US);
        assert_eq!(s.busy(113 * MS, true, &mut m), 112 * MS + 6200 * US, "on its way already");
        assert!(!s.stays_awake_until(113 * MS));
        run(&mut s, &mut m, 112 * MS + 6200 * US);
        assert_eq!(s.busy(119 * MS, true, &mut m), 119 * MS);
    }

    #[test]
    fn a_start_and_a_reset_leave_ps0_without_apst() {
        let (mut s, mut m) = machine();
        s.set_apst(true, &table());
        s.idle(0, &mut m);
        run(&mut s, &mut m, 400 * MS);
        assert_eq!(s.current(), 4);
        s.reset(401 * MS, &mut m);
        m.advance(402 * MS);
        assert_eq!((s.current(), s.next_ps(), s.apst_enabled(), s.apst()), (0, None, false, [0; APST_BYTES]));
        assert!((m.power_w() - 0.46).abs() < 1e-9);
        s.stop();
        assert_eq!(s.idle_since(), None);
        s.request(403 * MS, 4, &mut m);
        assert_eq!(s.next_ps(), None, "not while it is stopped");
        s.start(410 * MS, &mut m);
        assert_eq!((s.idle_since(), s.next_ps()), (Some(410 * MS), None));
    }

    #[test]
    fn a_state_asked_for_is_entered_ten_microseconds_after_the_last_work_and_apst_rests() {
        let (mut s, mut m) = machine();
        s.set_apst(true, &table());
        s.busy(0, false, &mut m);
        s.request(0, 3, &mut m);
        assert_eq!(s.next_ps(), None);
        s.idle(MS, &mut m);
        assert_eq!(s.next_ps(), Some(MS + 10 * US));
        run(&mut s, &mut m, 900 * MS);
        assert_eq!((s.current(), s.next_ps()), (3, None), "and not on to PS4 by itself");
    }

    #[test]
    fn a_time_of_the_table_has_three_bytes() {
        let (mut s, mut m) = machine();
        let mut table = [0; APST_BYTES];
        table[..4].copy_from_slice(&[4 << 3, 0x45, 0x23, 0x01]);
        assert!(s.set_apst(true, &table) && s.apst_enabled());
        s.idle(0, &mut m);
        assert_eq!(s.next_ps(), Some(0x01_2345 * MS));
        run(&mut s, &mut m, 0x01_2345 * MS);
        assert_eq!(s.current(), 4);
        table[0] = 9 << 3;
        assert!(!s.set_apst(false, &table), "no such state");
        assert!(s.apst_enabled());
        table[1..4].fill(0);
        assert!(s.set_apst(false, &table), "no time, no transition");
        assert!(!s.apst_enabled());
    }

    #[test]
    fn under_a_limit_the_table_names_states_as_the_host_knows_them() {
        let (mut s, mut m) = machine();
        s.set_apst(true, &table());
        assert_eq!(s.count(), 5);
        s.limit(0, vec![1, 2, 4], &mut m);
        m.advance(MS);
        assert_eq!((s.count(), s.current()), (3, 0));
        assert!((m.power_w() - 0.44).abs() < 1e-9, "PS1 is the first that is left");
        let known = s.apst();
        // PS3 is gone as a target, PS4 is the host's 2
        assert_eq!(
            (&known[..4], &known[8..12], &known[16..24]),
            (&[0, 100, 0, 0][..], &[0, 100, 0, 0][..], &[0; 8][..])
        );
        let mut mine = [0; APST_BYTES];
        mine[..4].copy_from_slice(&[2 << 3 | 5, 30, 0, 0]);
        mine[8..12].copy_from_slice(&[2 << 3 | 2, 40, 0, 0]);
        assert!(s.set_apst(true, &mine));
        assert_eq!((&s.apst()[..4], &s.apst()[8..12]), (&[2 << 3 | 5, 30, 0, 0][..], &[2 << 3 | 2, 40, 0, 0][..]));
        s.busy(MS, true, &mut m);
        s.idle(MS, &mut m);
        assert_eq!(s.next_ps(), Some(31 * MS));
        run(&mut s, &mut m, 50 * MS);
        assert_eq!((s.current(), s.states[s.current].core_w), (2, 0.0094));
        mine[0] = 1 << 3;
        assert!(!s.set_apst(true, &mine), "operational");
        s.limit(50 * MS, (0..5).collect(), &mut m);
        let all = s.apst();
        assert_eq!(
            (s.current(), &all[..2], &all[8..10], &all[16..18]),
            (4, &[24, 100][..], &[37, 30][..], &[34, 40][..])
        );
    }
}
