//! The 3.3 V rail: the sum of all parts' draw, as a piecewise constant current.
//!
//! Parts report power levels and pulses. An isolated change opens a coalescing window. Changes within the window are merged into one step
//! at their mean level. The energy over each window is kept, to the rounding of a nanoampere.

use crate::power::account::{Account, CoreState, Unit};
use crate::power::bins::Bins;
use crate::power::log::StateLog;
use crate::profile::{ps, PowerFacts, Profile, Ps, MS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wattbell_bus::Rail;

/// Steps in which the supply rises.
const RAMP: u64 = 64;

/// A part that draws a level until its level is set anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Controller core, by power state.
    Core,
    /// Link PHY, by link state.
    Link,
    /// Added while commands are in hand.
    Active,
}

/// Adds up power and turns it into rail records.
pub struct Meter {
    /// The account of the rail's energy.
    pub account: Account,
    /// When each part was in which state, where somebody wants to know.
    pub log: Option<Box<StateLog>>,
    parts_nw: [i64; 3],
    pulses_nw: i64,
    pulses: BinaryHeap<Reverse<(Ps, i64)>>,
    now: Ps,
    window: Option<Window>,
    coalesce: Ps,
    emitted_nw: Option<i64>,
    out: Vec<(Ps, Rail)>,
    supply_v: f64,
    source_ohm: f64,
    energy_j: f64,
    bins: Option<Bins>,
    /// Width of the steps, where they are used.
    step: Option<Ps>,
    input_f: f64,
    rise: Ps,
}

/// Changes since `start` wait here until `start + coalesce`.
struct Window {
    start: Ps,
    energy_nw_ps: i128,
}

impl Meter {
    /// A rail of this profile, everything off.
    pub fn new(profile: &Profile) -> Self {
        let PowerFacts { supply_v, source_mohm, coalesce_ns, input_uf, rise_ms, .. } = &profile.power;
        Self {
            account: Account::new(),
            log: None,
            parts_nw: [0; 3],
            pulses_nw: 0,
            pulses: BinaryHeap::new(),
            now: 0,
            window: None,
            coalesce: **coalesce_ns * 1000,
            emitted_nw: None,
            out: Vec::new(),
            supply_v: **supply_v,
            source_ohm: **source_mohm / 1000.0,
            energy_j: 0.0,
            bins: None,
            step: None,
            input_f: **input_uf * 1e-6,
            rise: ps(**rise_ms, MS),
        }
    }

    /// From here on the rail is given as means over steps of `width`: cheaper, with the same energy. Call it first.
    pub fn use_steps(&mut self, width: Ps) {
        self.step = Some(width);
        self.bins = Some(Bins::new(width));
    }

    /// Energy drawn so far in joule, to a step.
    pub fn energy_j(&self) -> f64 {
        self.energy_j + self.bins.as_ref().map_or(0.0, Bins::energy_j)
    }

    /// The supply is switched off at `now`: nothing is drawn, whatever was going on.
    pub fn switch_off(&mut self, now: Ps) {
        self.advance(now);
        self.energy_j = self.energy_j();
        self.finish();
        self.out.retain(|record| record.0 < now);
        self.pulses.clear();
        self.account.off(now);
        if let Some(log) = &mut self.log {
            log.core(now, CoreState::Off.key());
            log.link(now, 3);
        }
        (self.parts_nw, self.pulses_nw, self.emitted_nw) = ([0; 3], 0, None);
        self.out.push((now, Rail { current_na: 0, voltage_nv: 0 }));
        self.now = now;
    }

    /// The supply is switched on at `now`: its voltage rises evenly and charges the drive's input capacitors. Returns when it has risen; the
    /// drive draws nothing else until then.
    pub fn switch_on(&mut self, now: Ps) -> Ps {
        self.advance(now);
        let current_a = self.input_f * self.supply_v / (self.rise as f64 * 1e-12);
        for k in 0..RAMP {
            let volt = self.supply_v * (k as f64 + 0.5) / RAMP as f64;
            let rail = Rail { current_na: (current_a * 1e9).round() as i64, voltage_nv: (volt * 1e9).round() as i64 };
            self.out.push((now + self.rise * k / RAMP, rail));
        }
        let risen = now + self.rise;
        self.out.push((risen, self.rail(0)));
        let charge_j = 0.5 * self.input_f * self.supply_v * self.supply_v;
        self.energy_j += charge_j;
        self.account.charge(charge_j);
        self.now = risen;
        self.bins = self.step.map(|width| Bins::starting(width, risen));
        risen
    }

    /// The core is in this state at `now` and draws `watt`.
    pub fn core(&mut self, now: Ps, state: CoreState, watt: f64) {
        self.account.core(now, state.key(), to_nw(watt));
        if let Some(log) = &mut self.log {
            log.core(now, state.key());
        }
        self.set(now, Part::Core, watt);
    }

    /// The link is in the state of this number (L0, L1, L1.2, off) at `now` and draws `watt`.
    pub fn link(&mut self, now: Ps, state: usize, watt: f64) {
        self.account.link(now, state, to_nw(watt));
        if let Some(log) = &mut self.log {
            log.link(now, state);
        }
        self.set(now, Part::Link, watt);
    }

    /// The controller draws `watt` more from `now` on because something is in hand.
    pub fn active(&mut self, now: Ps, watt: f64) {
        self.account.active(now, to_nw(watt));
        if let Some(log) = &mut self.log {
            log.active(now, watt > 0.0);
        }
        self.set(now, Part::Active, watt);
    }

    /// The level of `part` becomes `watt` at `now`.
    fn set(&mut self, now: Ps, part: Part, watt: f64) {
        let nw = to_nw(watt);
        if let Some(bins) = &mut self.bins {
            let old = std::mem::replace(&mut self.parts_nw[part as usize], nw);
            return bins.edge(now, nw - old);
        }
        self.advance(now);
        if self.parts_nw[part as usize] != nw {
            self.open(now);
            self.parts_nw[part as usize] = nw;
        }
    }

    /// Adds `watt` to the draw of `unit` from `start` to `end`, for the account's present purpose. `start` must not lie before the time
    /// already advanced to.
    pub fn pulse(&mut self, start: Ps, end: Ps, watt: f64, unit: Unit) {
        let nw = to_nw(watt);
        if let Some(log) = self.log.as_mut().filter(|_| nw != 0 && end > start) {
            log.pulse(start, end);
        }
        if let Some(bins) = &mut self.bins {
            self.account.pulse(start, end.max(start), nw, unit);
            return bins.pulse(start, end, nw);
        }
        if nw != 0 && end > start {
            let start = start.max(self.now);
            let end = end.max(start);
            self.account.pulse(start, end, nw, unit);
            self.pulses.push(Reverse((start, nw)));
            self.pulses.push(Reverse((end, -nw)));
        }
    }

    /// Power at the time last advanced to, in watt.
    pub fn power_w(&self) -> f64 {
        if let Some(bins) = &self.bins {
            return bins.level_nw() as f64 * 1e-9;
        }
        self.total_nw() as f64 * 1e-9
    }

    /// Goes to `now`; the records that became final are in [`Meter::take`].
    pub fn advance(&mut self, now: Ps) {
        if let Some(mut bins) = self.bins.take() {
            bins.close(now, |time, nw| self.emit(time, nw));
            self.bins = Some(bins);
            return;
        }
        while let Some(&Reverse((time, nw))) = self.pulses.peek() {
            if time > now {
                break;
            }
            self.pulses.pop();
            self.run_to(time);
            self.open(time);
            self.pulses_nw += nw;
        }
        self.run_to(now.max(self.now));
    }

    /// Earliest time a record not yet taken can have.
    pub fn horizon(&self) -> Ps {
        if let Some(bins) = &self.bins {
            return bins.horizon();
        }
        self.window.as_ref().map_or(self.now, |w| w.start)
    }

    /// Records made since the last call, in time order.
    pub fn take(&mut self) -> std::vec::Drain<'_, (Ps, Rail)> {
        self.out.drain(..)
    }

    /// Closes an open window at the present time, which must be the end of the trace.
    pub fn finish(&mut self) {
        if let Some(mut bins) = self.bins.take() {
            bins.finish(|time, nw| self.emit(time, nw));
        }
        if let Some(window) = self.window.take() {
            let length = i128::from(self.now - window.start);
            let nw = if length == 0 { i128::from(self.total_nw()) } else { window.energy_nw_ps / length };
            self.emit(window.start, nw as i64);
        }
    }

    fn total_nw(&self) -> i64 {
        self.parts_nw.iter().sum::<i64>() + self.pulses_nw
    }

    fn open(&mut self, time: Ps) {
        if self.window.is_none() {
            self.window = Some(Window { start: time, energy_nw_ps: 0 });
        }
    }

    fn run_to(&mut self, time: Ps) {
        let level = self.total_nw();
        self.energy_j += level as f64 * 1e-9 * (time - self.now) as f64 * 1e-12;
        if let Some(window) = &mut self.window {
            let close = window.start + self.coalesce;
            window.energy_nw_ps += i128::from(level) * i128::from(time.min(close) - self.now.min(close));
            if time >= close {
                let (start, energy) = (window.start, window.energy_nw_ps);
                self.window = None;
                self.emit(start, (energy / i128::from(self.coalesce)) as i64);
                if self.emitted_nw != Some(level) {
                    // The window closed on another level than its mean: that level starts here, and may be merged on.
                    self.window = Some(Window {
                        start: close,
                        energy_nw_ps: i128::from(level) * i128::from(time.min(close + self.coalesce) - close),
                    });
                    if time >= close + self.coalesce {
                        self.window = None;
                        self.emit(close, level);
                    }
                }
            }
        }
        self.now = time;
    }

    fn emit(&mut self, time: Ps, nw: i64) {
        if self.emitted_nw != Some(nw) {
            self.emitted_nw = Some(nw);
            self.out.push((time, self.rail(nw)));
        }
    }

    /// Current and voltage behind the source resistance at which the drive draws this power: I (V - I R) = P.
    fn rail(&self, nw: i64) -> Rail {
        let (v, r, p) = (self.supply_v, self.source_ohm, nw as f64 * 1e-9);
        // The smaller root, in the form that does not cancel.
        let current = 2.0 * p / (v + (v * v - 4.0 * r * p).max(0.0).sqrt());
        let voltage = v - current * r;
        Rail { current_na: (current * 1e9 + 0.5) as i64, voltage_nv: (voltage * 1e9 + 0.5) as i64 }
    }
}

fn to_nw(watt: f64) -> i64 {
    (watt * 1e9 + 0.5) as i64 // never negative
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::US;
    use proptest::prelude::*;

    fn energy(records: &[(Ps, Rail)], from: Ps, to: Ps) -> f64 {
        let ends = records.iter().skip(1).map(|r| r.0).chain([u64::MAX]);
        records
            .iter()
            .zip(ends)
            .map(|(&(start, rail), end)| {
                let dt = end.clamp(from, to) - start.clamp(from, to);
                rail.current_na as f64 * 1e-9 * (rail.voltage_nv as f64 * 1e-9) * (dt as f64 * 1e-12)
            })
            .sum()
    }

    proptest! {
        #[test]
        fn energy_of_the_records_is_energy_drawn(
            pulses in prop::collection::vec((0u64..2000, 1u64..400, 1u32..2000), 0..80),
            levels in prop::collection::vec((1u64..100, 0u32..3000), 0..20),
        ) {
            let mut meter = Meter::new(&Profile::load("intel-660p-1tb").unwrap());
            let (mut want, mut now, end) = (0.0, 0, 10 * MS);
            for &(start, len, mw) in &pulses {
                let (start, len) = (start * US / 10, len * US / 10);
                meter.pulse(start, start + len, f64::from(mw) * 1e-3, Unit::Die);
                want += f64::from(mw) * 1e-3 * len as f64 * 1e-12;
            }
            let mut level = 0.0;
            for &(dt, mw) in &levels {
                want += level * (dt * US / 10) as f64 * 1e-12;
                now += dt * US / 10;
                level = f64::from(mw) * 1e-3;
                meter.core(now, CoreState::In(0), level);
            }
            want += level * (end - now) as f64 * 1e-12;
            meter.advance(end);
            meter.finish();
            let records: Vec<_> = meter.take().collect();
            prop_assert!(records.windows(2).all(|w| w[0].0 + US <= w[1].0), "closer than the window");
            let got = energy(&records, 0, end);
            prop_assert!((got - want).abs() <= 1e-6 * want + 1e-12, "{} J for {} J", got, want);
            let booked = meter.account.at(end).total_j();
            prop_assert!((booked - want).abs() <= 1e-6 * want + 1e-12, "{} J booked for {} J", booked, want);
        }
    }

    #[test]
    fn an_isolated_change_is_one_record() {
        let mut meter = Meter::new(&Profile::load("intel-660p-1tb").unwrap());
        meter.core(0, CoreState::In(0), 1.0);
        meter.core(5 * MS, CoreState::In(0), 2.0);
        meter.advance(9 * MS);
        let records: Vec<_> = meter.take().collect();
        assert_eq!(records.iter().map(|r| r.0).collect::<Vec<_>>(), [0, 5 * MS]);
        let volt = 3.3 - records[1].1.current_na as f64 * 1e-9 * 0.045;
        assert!((records[1].1.voltage_nv as f64 * 1e-9 - volt).abs() < 2e-9);
    }

    /// Times in ns and powers in mW of the records so far.
    fn shown(meter: &mut Meter) -> Vec<(u64, i64)> {
        let milliwatt = |rail: Rail| (rail.current_na as f64 * rail.voltage_nv as f64 * 1e-15).round() as i64;
        meter.take().map(|(time, rail)| (time / 1000, milliwatt(rail))).collect()
    }

    #[test]
    fn changes_within_a_microsecond_are_one_step_at_their_mean() {
        let mut meter = Meter::new(&Profile::load("intel-660p-1tb").unwrap());
        meter.core(0, CoreState::In(0), 1.0);
        let ns = 1000;
        for (start, end) in [(10_000, 10_400), (20_000, 20_400), (21_200, 21_400), (29_000, 29_900), (30_200, 32_000)] {
            meter.pulse(start * ns, end * ns, 2.0, Unit::Die);
        }
        meter.advance(10_200 * ns);
        assert_eq!((meter.horizon(), meter.power_w()), (10_000 * ns, 3.0));
        meter.advance(15_000 * ns);
        assert_eq!((meter.horizon(), meter.power_w()), (15_000 * ns, 1.0));
        meter.advance(40_000 * ns);
        let wanted = [
            (0, 1000),
            (10_000, 1800), // 0.4 of it at 3 W
            (11_000, 1000),
            (20_000, 1800),
            (21_000, 1400), // merged on: 0.2 of it
            (22_000, 1000),
            (29_000, 2800),
            (30_000, 2600), // 0.8 of it
            (31_000, 3000),
            (32_000, 1000),
        ];
        assert_eq!(shown(&mut meter), wanted);
        // 1 W all the time, 2 W more for 0.4, 0.4, 0.2, 0.9 and 1.8 us
        assert!((meter.energy_j() - (40e-6 + 2.0 * 3.7e-6)).abs() < 1e-15);
        meter.pulse(50_000 * ns, 60_000 * ns, 2.0, Unit::Die);
        meter.advance(50_500 * ns);
        assert_eq!(shown(&mut meter), []);
        meter.finish();
        assert_eq!(shown(&mut meter), [(50_000, 3000)], "the window was half over");
    }

    #[test]
    fn current_and_voltage_are_those_behind_the_source() {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        (profile.power.supply_v.value, profile.power.source_mohm.value) = (3.0, 500.0);
        // 1 A drops 0.5 V of 3 V: 2.5 W
        assert_eq!(
            Meter::new(&profile).rail(2_500_000_000),
            Rail { current_na: 1_000_000_000, voltage_nv: 2_500_000_000 }
        );
        assert_eq!(Meter::new(&profile).rail(0), Rail { current_na: 0, voltage_nv: 3_000_000_000 });
    }

    #[test]
    fn steps_of_equal_width_have_the_energy_of_exact_changes() {
        let run = |steps: bool| {
            let mut meter = Meter::new(&Profile::load("intel-660p-1tb").unwrap());
            if steps {
                meter.use_steps(20 * US);
            }
            meter.core(0, CoreState::In(0), 1.0);
            meter.link(5 * US, 0, 0.5);
            meter.active(13 * US, 0.25);
            meter.pulse(30 * US, 70 * US, 2.0, Unit::Die);
            meter.pulse(40 * US, 40 * US, 2.0, Unit::Die);
            meter.advance(50 * US);
            let power = meter.power_w();
            meter.active(90 * US, 0.0);
            meter.advance(200 * US);
            (power, meter.energy_j(), meter.account.at(200 * US).total_j())
        };
        // 1 W, 0.5 W from 5 us on, 0.25 W from 13 to 90 us, 2 W for 40 us
        let wanted = 200e-6 + 0.5 * 195e-6 + 0.25 * 77e-6 + 80e-6;
        for steps in [false, true] {
            let (power, drawn, booked) = run(steps);
            assert!((power - 3.75).abs() < 1e-9, "{power}");
            assert!((drawn - wanted).abs() < 1e-12 && (booked - wanted).abs() < 1e-12, "{drawn} {booked} {wanted}");
        }
    }

    #[test]
    fn switched_off_nothing_is_drawn_and_switching_on_charges_the_input() {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        (profile.power.input_uf.value, profile.power.rise_ms.value) = (200.0, 1.0);
        for steps in [false, true] {
            let mut meter = Meter::new(&profile);
            if steps {
                meter.use_steps(20 * US);
            }
            meter.core(0, CoreState::In(0), 2.0);
            meter.pulse(MS, 9 * MS, 1.0, Unit::Die);
            meter.switch_off(3 * MS);
            assert!((meter.energy_j() - 8e-3).abs() < 1e-12, "2 W for 3 ms and 1 W for 2 ms");
            let before: Vec<_> = meter.take().collect();
            assert_eq!(before.last(), Some(&(3 * MS, Rail { current_na: 0, voltage_nv: 0 })));
            let watts = |rail: Rail| rail.current_na as f64 * 1e-9 * rail.voltage_nv as f64 * 1e-9;
            let shown: f64 = before.windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 1e-12 * watts(w[0].1)).sum();
            assert!((shown - 8e-3).abs() < 1e-8, "the rail shows it up to the end: {shown}");
            meter.advance(10 * MS);
            assert_eq!(meter.switch_on(10 * MS), 11 * MS);
            let records: Vec<_> = meter.take().collect();
            assert_eq!((records.len(), records[0].0, records[64].0), (65, 10 * MS, 11 * MS));
            // 200 uF by 3.3 V in 1 ms is 0.66 A; the voltage rises in 64 even steps
            for (k, (time, rail)) in records[..64].iter().enumerate() {
                assert_eq!(*time, 10 * MS + MS * k as u64 / 64);
                assert_eq!(rail.current_na, 660_000_000);
                assert!((rail.voltage_nv as f64 - 3.3e9 * (2 * k + 1) as f64 / 128.0).abs() <= 1.0);
            }
            assert_eq!(records[64].1, Rail { current_na: 0, voltage_nv: 3_300_000_000 });
            let charge = 0.5 * 200e-6 * 3.3 * 3.3;
            assert!((meter.energy_j() - 8e-3 - charge).abs() < 1e-12);
            meter.core(11 * MS, CoreState::Booting, 1.0);
            meter.advance(12 * MS);
            assert!((meter.energy_j() - 9e-3 - charge).abs() < 1e-12);
        }
    }
}
