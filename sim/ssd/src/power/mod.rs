//! The drive's power, its power states and its temperature.

pub mod account;
mod bins;
mod heat;
pub mod log;
pub mod meter;
pub mod ownmeter;
pub mod states;
pub mod thermal;

use crate::profile::{Profile, Ps};
use account::{CoreState, Purpose, Unit};
use heat::Heat;
use meter::Meter;
use ownmeter::OwnMeter;
use states::PowerStates;
use thermal::{Limits, Thermal, Throttle, Warmth};
use wattbell_bus::LinkState;

/// Composite temperature of a drive at rest, in kelvin, until the thermal model says otherwise.
const REST_K: u16 = 273 + 35;

/// Rail, power states and temperature.
pub struct Power {
    /// The rail.
    pub meter: Meter,
    /// The power states.
    pub states: PowerStates,
    /// The drive's own meter, where it has one.
    pub own_meter: Option<OwnMeter>,
    heat: Heat,
    thermal: Thermal,
    boot_w: f64,
    link_w: [f64; 3],
    core_active_w: f64,
    /// All dies at work.
    erase_w: f64,
}

impl Power {
    /// Everything off.
    pub fn new(profile: &Profile, seed: u64) -> Self {
        let (p, f) = (&profile.power, &profile.flash);
        let dies = (*f.channels * *f.dies_per_channel) as f64;
        Self {
            meter: Meter::new(profile),
            states: PowerStates::new(profile, seed),
            own_meter: OwnMeter::of(profile),
            heat: Heat::new(profile),
            thermal: Thermal::new(REST_K),
            boot_w: *p.boot_w,
            link_w: [*p.link_l0_w, *p.link_l1_w, *p.link_l1_2_w],
            core_active_w: *p.core_active_w,
            erase_w: dies * *p.die_program_slc_w,
        }
    }

    /// The drive's own meter has a supply from `now` on.
    pub fn supply_own_meter(&mut self, now: Ps) {
        let energy_j = self.meter.account.at(now).total_j();
        if let Some(own) = &mut self.own_meter {
            own.supply_on(now, energy_j);
        }
    }

    /// When the drive's own meter has something to do.
    #[inline]
    pub fn own_meter_ps(&self) -> Option<Ps> {
        self.own_meter.as_ref()?.next_ps()
    }

    /// The rail is switched on.
    pub fn boot(&mut self, now: Ps) {
        self.meter.core(now, CoreState::Booting, self.boot_w);
    }

    /// PERST# falls: nothing goes on by itself any more. That the controller draws as much as while it starts is assumed.
    pub fn hold_in_reset(&mut self, now: Ps) {
        self.states.stop();
        self.meter.active(now, 0.0);
        self.meter.link(now, 3, 0.0);
        self.boot(now);
    }

    /// The link is in `state` from `now` on.
    pub fn link(&mut self, now: Ps, state: LinkState) {
        let index = match state {
            LinkState::L1 => 1,
            LinkState::L1_2 => 2,
            _ => 0,
        };
        self.meter.link(now, index, self.link_w[index]);
    }

    /// Returns how many times slower than in PS0 flash and data work, and the meter for their energy.
    #[inline]
    pub fn load(&mut self) -> (f64, &mut Meter) {
        (self.states.slowdown(), &mut self.meter)
    }

    /// The controller works for itself from `now` until `end`.
    pub fn work(&mut self, now: Ps, end: Ps) {
        let before = self.meter.account.turn_to(Purpose::Background);
        self.meter.pulse(now, end, self.core_active_w / self.states.slowdown(), Unit::Core);
        self.meter.account.turn_to(before);
        self.states.hold(end);
    }

    /// All dies erase for `time`.
    pub fn erase(&mut self, now: Ps, time: Ps) {
        let before = self.meter.account.turn_to(Purpose::Erase);
        self.meter.pulse(now, now + time, self.erase_w, Unit::Die);
        self.meter.account.turn_to(before);
    }

    /// When work for idle times may begin: at the time `when` gives for the start of the idle time. `None` while commands are in
    /// hand, or if the drive will be asleep by then.
    #[inline]
    pub fn idle_work(&self, when: impl FnOnce(Ps) -> Option<Ps>) -> Option<Ps> {
        let at = when(self.states.idle_since()?)?;
        self.states.stays_awake_until(at).then_some(at)
    }

    /// Brings the temperature up to `now` and adapts the drive's speed to it. Returns whether the composite temperature just
    /// went beyond a threshold.
    pub fn warm(&mut self, now: Ps, limits: impl FnOnce() -> Limits) -> bool {
        if !self.heat.update(now, self.meter.energy_j()) {
            return false;
        }
        let kelvin = (self.heat.temperature_c() + 273.0).round() as u16;
        let beyond = kelvin != self.thermal.composite_k() && self.thermal.update(now, kelvin, &limits());
        self.states.set_throttle(self.heat.slowdown(self.thermal.level()));
        beyond
    }

    /// Takes the composite temperature from outside from now on, as `kelvin`. Returns the same as [`Power::warm`].
    pub fn set_temperature(&mut self, now: Ps, kelvin: u16, limits: &Limits) -> bool {
        self.heat.leave_to_others();
        self.thermal.update(now, kelvin, limits)
    }

    /// Applies a changed limit: a temperature below the old limit may be above the new limit. Returns the same as [`Power::warm`].
    pub fn set_limits(&mut self, now: Ps, limits: &Limits) -> bool {
        self.thermal.update(now, self.thermal.composite_k(), limits)
    }

    /// Throttle level of host controlled thermal management.
    pub fn throttle(&self) -> Throttle {
        self.thermal.level()
    }

    /// The temperature as the SMART / Health log shows it.
    pub fn warmth(&mut self, now: Ps, limits: &Limits) -> Warmth {
        self.thermal.warmth(now, limits)
    }

    /// Composite temperature in degrees Celsius.
    pub fn temperature_c(&self) -> f64 {
        self.heat.temperature_c()
    }

    /// The air around the drive has this temperature from now on.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.heat.set_ambient_c(ambient_c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{MS, S};

    fn power() -> Power {
        let mut power = Power::new(&Profile::load("intel-660p-1tb").unwrap(), 1);
        power.states.busy(0, true, &mut power.meter);
        power.states.idle(MS, &mut power.meter);
        power
    }

    /// Energy until 20 ms, with what `act` does.
    fn energy_j(act: impl FnOnce(&mut Power)) -> f64 {
        let mut power = power();
        act(&mut power);
        power.meter.advance(20 * MS);
        power.meter.energy_j()
    }

    #[test]
    fn work_of_its_own_draws_the_cores_power_and_keeps_the_drive_awake() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let rest = energy_j(|_| {});
        let work = energy_j(|power| power.work(2 * MS, 5 * MS));
        assert!((work - rest - *profile.power.core_active_w * 3e-3).abs() < 1e-9, "{}", work - rest);
        let mut power = power();
        assert_eq!(power.states.idle_since(), Some(MS));
        power.work(2 * MS, 5 * MS);
        assert_eq!(power.states.idle_since(), Some(5 * MS), "the idle time begins behind its work");
    }

    #[test]
    fn an_erase_draws_the_power_of_all_dies() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let dies = (*profile.flash.channels * *profile.flash.dies_per_channel) as f64;
        let more = energy_j(|power| power.erase(2 * MS, 4 * MS)) - energy_j(|_| {});
        assert!((more - dies * *profile.power.die_program_slc_w * 4e-3).abs() < 1e-9, "{more}");
    }

    #[test]
    fn each_state_of_the_link_draws_its_power() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let at = |state: LinkState| energy_j(|power| power.link(2 * MS, state));
        let p = &profile.power;
        for (state, watt) in [(LinkState::L1, *p.link_l1_w), (LinkState::L1_2, *p.link_l1_2_w)] {
            let less = (*p.link_l0_w - watt) * 18e-3;
            assert!((at(LinkState::L0) - at(state) - less).abs() < 1e-9, "{state:?}");
        }
    }

    #[test]
    fn it_warms_by_the_rails_energy_and_slows_down_above_the_warning_temperature() {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        let t = &mut profile.thermal;
        (t.ambient_c.value, t.resistance_k_per_w.value, t.capacity_j_per_k.value) = (25.0, 10.0, 2.0);
        (t.throttle_per_k.value, profile.limits.warning_temperature_c.value) = (0.5, 80);
        let mut power = Power::new(&profile, 1);
        let limits = || Limits { thresholds: (311, 0), ..Limits::default() };
        assert_eq!(power.warmth(0, &limits()).composite_k, 308, "35 degrees, as a drive at rest");
        power.meter.core(0, CoreState::In(0), 2.0);
        power.meter.advance(20 * S);
        assert!(power.warm(20 * S, limits));
        assert!((power.temperature_c() - 25.0 - 20.0 * (1.0 - (-1.0f64).exp())).abs() < 1e-6); // 37.6
        assert_eq!(power.warmth(20 * S, &limits()).composite_k, 311);
        assert!(!power.warm(20 * S + 1, limits), "too early to work it out again");
        power.meter.advance(21 * S);
        assert!(!power.warm(21 * S, limits), "still beyond");
        assert_eq!(power.load().0, 1.0);
        power.set_ambient_c(64.0);
        power.meter.advance(2000 * S);
        assert!(!power.warm(2000 * S, limits));
        assert!((power.load().0 - 3.0).abs() < 1e-6, "84 degrees: 4 K above"); // 1 + 4 * 0.5
    }

    #[test]
    fn a_temperature_or_limit_from_outside_counts_at_once() {
        let mut power = power();
        let limits = |over| Limits { thresholds: (over, 0), management: (340, 345), ..Limits::default() };
        assert!(!power.set_temperature(MS, 342, &limits(350)));
        assert_eq!((power.throttle(), power.warmth(MS, &limits(350)).composite_k), (Throttle::Light, 342));
        assert!(!power.set_limits(2 * MS, &limits(343)));
        assert!(power.set_limits(2 * MS, &limits(342)));
        assert!(power.set_temperature(3 * MS, 360, &limits(360)) || power.warmth(3 * MS, &limits(360)).beyond);
        power.meter.advance(S);
        assert!(!power.warm(S, || limits(350)), "nobody works it out any more");
    }

    #[test]
    fn held_in_reset_it_draws_as_while_it_boots_and_nothing_else() {
        let mut power = power();
        power.link(MS, LinkState::L0);
        power.states.busy(2 * MS, true, &mut power.meter);
        power.hold_in_reset(3 * MS);
        power.meter.advance(4 * MS);
        assert!((power.meter.power_w() - 0.9).abs() < 1e-9, "{}", power.meter.power_w());
        assert_eq!(power.states.idle_since(), None);
        let before = power.meter.account.at(4 * MS);
        power.meter.advance(6 * MS);
        let since = power.meter.account.at(6 * MS).json_since(&before);
        assert!((since["core"]["booting"]["j"].as_f64().unwrap() - 1.8e-3).abs() < 1e-12);
        assert!((since["link"]["off"]["s"].as_f64().unwrap() - 2e-3).abs() < 1e-12);
    }

    #[test]
    fn work_for_idle_times_begins_only_while_it_is_awake() {
        let mut power = power(); // idle since 1 ms
        let later = |since: Ps| Some(since + 50 * MS);
        assert_eq!(power.idle_work(later), Some(51 * MS));
        assert_eq!(power.idle_work(|_| None), None);
        let mut table = [0; states::APST_BYTES];
        table[..2].copy_from_slice(&[3 << 3, 50]);
        power.states.set_apst(true, &table);
        assert_eq!(power.idle_work(later), None, "asleep by then");
        assert_eq!(power.idle_work(|since| Some(since + 49 * MS)), Some(50 * MS));
        power.states.busy(2 * MS, true, &mut power.meter);
        assert_eq!(power.idle_work(later), None, "work is in hand");
    }

    #[test]
    fn work_in_a_slower_state_draws_less() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let slow = |work: bool| {
            energy_j(|power| {
                power.states.request(MS, 2, &mut power.meter);
                if work {
                    power.work(2 * MS, 5 * MS);
                }
            })
        };
        let more = slow(true) - slow(false);
        assert!((more - *profile.power.core_active_w * 2.2 / 4.0 * 3e-3).abs() < 1e-9, "{more}");
    }
}
