//! The account of the rail's energy: each joule is booked once, when the drawing part starts.
//!
//! Some parts draw a level: the core by power state, the link by its state, the controller while work is in hand. This energy is booked by
//! state, with its time. Other work draws for a while (an array operation, a transfer). Its energy is booked to its purpose and to the
//! part that does the work. A command is booked the energy that it causes itself ([`Account::own_fj`]). It also gets an equal share of the
//! controller's draw while commands are in hand. All sums are joules since power-on; [`Account::at`] gives the sums at a time.

use crate::profile::Ps;
use serde_json::{json, Map, Value};
use std::collections::VecDeque;

/// Joule in one nanowatt picosecond.
const NW_PS_J: f64 = 1e-21;
/// Femtojoule in a joule.
const FJ: f64 = 1e15;

/// The purpose that energy is spent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Data that a read asks for.
    Read,
    /// Units that a sequential read fetches for later reads; booked to the read that starts it.
    ReadAhead,
    /// Reading a page of the map.
    Map,
    /// New data on its way to flash, also after its command.
    Write,
    /// The part of a page that is programmed empty because nothing came to fill it.
    Padding,
    /// Changed pages of the map on their way back.
    MapWriteBack,
    /// Emptying the SLC cache.
    Fold,
    /// Garbage collection.
    Collect,
    /// The controller at work for itself in idle time.
    Background,
    /// Erasing for Format and Sanitize.
    Erase,
}

const PURPOSES: [&str; 10] =
    ["read", "read_ahead", "map", "write", "padding", "map_write_back", "fold", "collect", "background", "erase"];

/// The part that draws the energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A die's array.
    Die,
    /// A channel.
    Channel,
    /// The controller's data path.
    DataPath,
    /// The controller's core.
    Core,
}

const UNITS: [&str; 4] = ["die", "channel", "data_path", "core"];

/// State of the controller's core, for booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreState {
    /// In this power state.
    In(u8),
    /// On the way into this power state.
    Entering(u8),
    /// On the way to an operational power state.
    Leaving,
    /// Starting, or held in reset.
    Booting,
    /// Without supply.
    Off,
}

impl CoreState {
    const COUNT: usize = 67;

    /// Its number among the core's keys.
    pub fn key(self) -> usize {
        match self {
            Self::In(state) => usize::from(state & 31),
            Self::Entering(state) => 32 + usize::from(state & 31),
            Self::Leaving => 64,
            Self::Booting => 65,
            Self::Off => 66,
        }
    }

    /// The name of a key.
    pub fn name(key: usize) -> String {
        match key {
            0..=31 => format!("ps{key}"),
            32..=63 => format!("entering_ps{}", key - 32),
            64 => "leaving".into(),
            65 => "booting".into(),
            _ => "off".into(),
        }
    }
}

/// Names of the link's states, as they are booked.
pub const LINK: [&str; 4] = ["l0", "l1", "l1_2", "off"];
/// Whether I/O commands are in hand while the controller is at work; the rest are admin commands and a write buffer that empties.
const ACTIVE: [&str; 2] = ["no_io_in_hand", "io_in_hand"];

/// One part that draws a level.
#[derive(Debug, Clone, Default)]
struct Level {
    nw: i64,
    key: usize,
    since: Ps,
    /// Joules and seconds by key.
    spent: Vec<(f64, f64)>,
}

impl Level {
    fn new(keys: usize) -> Self {
        Self { spent: vec![(0.0, 0.0); keys], key: keys - 1, ..Self::default() }
    }

    /// Books up to `now`, which may lie a little before the last change; what that was.
    fn settle(&mut self, now: Ps) -> f64 {
        let time = now as f64 - self.since as f64;
        let joules = self.nw as f64 * time * NW_PS_J;
        let spent = &mut self.spent[self.key];
        *spent = (spent.0 + joules, spent.1 + time * 1e-12);
        self.since = now;
        joules
    }

    fn json(&self, before: &Self, name: impl Fn(usize) -> String) -> Value {
        let changed = self.spent.iter().zip(&before.spent).enumerate().filter(|(_, (now, then))| now.1 > then.1);
        let each = changed.map(|(key, (now, then))| (name(key), json!({"j": now.0 - then.0, "s": now.1 - then.1})));
        Value::Object(each.collect())
    }

    fn total(&self) -> f64 {
        self.spent.iter().map(|s| s.0).sum()
    }
}

/// A booked pulse that may not be over: its end, its start, its power in nW, and its place in the account.
type Pulse = (Ps, Ps, i64, u8);

/// The account.
#[derive(Clone)]
pub struct Account {
    /// Purpose that pulses are booked to, until another is set.
    pub purpose: Purpose,
    core: Level,
    link: Level,
    active: Level,
    /// Joules by purpose and unit.
    pulses: [[f64; UNITS.len()]; PURPOSES.len()],
    supply_j: f64,
    /// Caused by commands themselves, in femtojoule.
    own_fj: f64,
    recent: VecDeque<Pulse>,
    in_hand: u32,
    /// Part of the active level booked to each command in hand the whole time, in joule.
    each_j: f64,
    /// `each_j` when the doorbells of commands that are not fetched yet were rung, by submission queue.
    rung: Vec<VecDeque<f64>>,
}

impl Account {
    /// Nothing spent, everything off.
    pub fn new() -> Self {
        Self {
            purpose: Purpose::Read,
            core: Level::new(CoreState::COUNT),
            link: Level::new(LINK.len()),
            active: Level::new(ACTIVE.len()),
            pulses: Default::default(),
            supply_j: 0.0,
            own_fj: 0.0,
            recent: VecDeque::new(),
            in_hand: 0,
            each_j: 0.0,
            rung: Vec::new(),
        }
    }

    /// Sets the purpose and returns the one before.
    #[inline]
    pub fn turn_to(&mut self, purpose: Purpose) -> Purpose {
        std::mem::replace(&mut self.purpose, purpose)
    }

    /// A pulse of `nw` from `start` to `end`.
    #[inline]
    pub fn pulse(&mut self, start: Ps, end: Ps, nw: i64, unit: Unit) {
        let joules = nw as f64 * (end - start) as f64 * NW_PS_J;
        self.pulses[self.purpose as usize][unit as usize] += joules;
        if matches!(self.purpose, Purpose::Read | Purpose::ReadAhead | Purpose::Map) {
            self.own_fj += joules * FJ;
        }
        self.recent.push_back((end, start, nw, (self.purpose as usize * UNITS.len() + unit as usize) as u8));
        while self.recent.front().is_some_and(|pulse| pulse.0 <= self.active.since.max(self.core.since)) {
            self.recent.pop_front();
        }
    }

    /// Energy that a command causes later: its data's part of a page that is programmed when it is full, or its data's way.
    #[inline]
    pub fn owe(&mut self, joules: f64) {
        self.own_fj += joules * FJ;
    }

    /// Moves `joules` of the energy booked for programming new data to the empty part of a page.
    pub fn pad(&mut self, joules: f64) {
        self.pulses[Purpose::Write as usize][Unit::Die as usize] -= joules;
        self.pulses[Purpose::Padding as usize][Unit::Die as usize] += joules;
    }

    /// Returns the energy that commands caused so far, in femtojoule. The difference over a command's work belongs to that command.
    #[inline]
    pub fn own_fj(&self) -> f64 {
        self.own_fj
    }

    /// The core is in this state, and draws `nw`.
    pub fn core(&mut self, now: Ps, key: usize, nw: i64) {
        self.core.settle(now);
        (self.core.key, self.core.nw) = (key, nw);
    }

    /// The link is in the state of this number (L0, L1, L1.2, off), and draws `nw`.
    pub fn link(&mut self, now: Ps, key: usize, nw: i64) {
        self.link.settle(now);
        (self.link.key, self.link.nw) = (key, nw);
    }

    /// Sets the controller's draw for the work in hand.
    #[inline]
    pub fn active(&mut self, now: Ps, nw: i64) {
        self.share(now);
        self.active.nw = nw;
    }

    /// Shares out the active level up to `now`.
    #[inline]
    fn share(&mut self, now: Ps) {
        self.active.key = usize::from(self.in_hand > 0);
        let joules = self.active.settle(now);
        if self.in_hand > 0 {
            self.each_j += joules / f64::from(self.in_hand);
        }
    }

    /// `count` commands were announced in an I/O submission queue.
    pub fn rung(&mut self, now: Ps, qid: u16, count: u32) {
        self.share(now);
        self.in_hand += count;
        let qid = usize::from(qid);
        if self.rung.len() <= qid {
            self.rung.resize(qid + 1, VecDeque::new());
        }
        self.rung[qid].extend(std::iter::repeat_n(self.each_j, count as usize));
    }

    /// Notes that the next command of that queue was fetched. Returns the reading that [`Account::over`] needs.
    pub fn fetched(&mut self, qid: u16) -> f64 {
        self.rung.get_mut(usize::from(qid)).and_then(VecDeque::pop_front).unwrap_or(self.each_j)
    }

    /// Notes that a command's CQE is written. Returns the command's share in femtojoule.
    pub fn over(&mut self, now: Ps, begun_j: f64) -> u64 {
        self.share(now);
        self.in_hand = self.in_hand.saturating_sub(1);
        ((self.each_j - begun_j).max(0.0) * FJ) as u64
    }

    /// A controller reset: nothing is in hand any more.
    pub fn forget(&mut self, now: Ps) {
        self.share(now);
        self.in_hand = 0;
        self.rung.clear();
    }

    /// Switches the supply off: all work under way ends.
    pub fn off(&mut self, now: Ps) {
        *self = self.at(now);
        self.core(now, CoreState::Off.key(), 0);
        self.link(now, LINK.len() - 1, 0);
        self.active(now, 0);
    }

    /// Charging the drive's input capacitors took this much.
    pub fn charge(&mut self, joules: f64) {
        self.supply_j += joules;
    }

    /// Returns the account at `time`, which must not lie before the last report. Draw of pulses after `time` is not included.
    pub fn at(&self, time: Ps) -> Self {
        let mut then = self.clone();
        then.recent.clear();
        for level in [&mut then.core, &mut then.link] {
            level.settle(time);
        }
        then.share(time);
        for &(end, start, nw, place) in self.recent.iter().filter(|pulse| pulse.0 > time) {
            let later = nw as f64 * (end - start.max(time)) as f64 * NW_PS_J;
            then.pulses[usize::from(place) / UNITS.len()][usize::from(place) % UNITS.len()] -= later;
        }
        then
    }

    /// Everything, in joule.
    pub fn total_j(&self) -> f64 {
        let pulses: f64 = self.pulses.iter().flatten().sum();
        pulses + self.core.total() + self.link.total() + self.active.total() + self.supply_j
    }

    /// Returns the energy spent since `before`, as JSON: `sum_j`, levels as `{state: {j, s}}`, purposes as `{unit: j}`. Zero entries are
    /// left out.
    pub fn json_since(&self, before: &Self) -> Value {
        let mut purposes = Map::new();
        for (index, name) in PURPOSES.iter().enumerate() {
            let units =
                UNITS.iter().enumerate().map(|(u, name)| (name, self.pulses[index][u] - before.pulses[index][u]));
            let units: Map<String, Value> =
                units.filter(|(_, j)| j.abs() > 1e-15).map(|(name, j)| ((*name).to_string(), json!(j))).collect();
            if !units.is_empty() {
                purposes.insert((*name).to_string(), Value::Object(units));
            }
        }
        json!({
            "sum_j": self.total_j() - before.total_j(),
            "core": self.core.json(&before.core, CoreState::name),
            "link": self.link.json(&before.link, |key| LINK[key].into()),
            "active": self.active.json(&before.active, |key| ACTIVE[key].into()),
            "purposes": purposes,
            "supply_j": self.supply_j - before.supply_j,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{MS, S};

    const W: i64 = 1_000_000_000;

    /// Returns the joules of each purpose and unit, rounded, without absent entries.
    fn purposes(account: &Account, before: &Account) -> Value {
        let mut found = account.json_since(before)["purposes"].clone();
        for units in found.as_object_mut().unwrap().values_mut() {
            for joules in units.as_object_mut().unwrap().values_mut() {
                *joules = json!((joules.as_f64().unwrap() * 1e9).round() / 1e9);
            }
        }
        found
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1e-3), "{found} for {wanted}");
    }

    fn level(found: &Value, wanted_j: f64, wanted_s: f64) {
        near(found["j"].as_f64().unwrap(), wanted_j);
        near(found["s"].as_f64().unwrap(), wanted_s);
    }

    #[test]
    fn each_pulse_is_booked_to_its_purpose_and_its_unit() {
        let (mut account, start) = (Account::new(), Account::new());
        // 2 W for 1, 2, 3 .. ms, in the order of the purposes and units
        let all = [
            (Purpose::Read, Unit::Die),
            (Purpose::Read, Unit::Channel),
            (Purpose::Read, Unit::DataPath),
            (Purpose::ReadAhead, Unit::Die),
            (Purpose::Map, Unit::Die),
            (Purpose::Write, Unit::DataPath),
            (Purpose::Write, Unit::Die),
            (Purpose::MapWriteBack, Unit::Channel),
            (Purpose::Fold, Unit::Die),
            (Purpose::Collect, Unit::Channel),
            (Purpose::Background, Unit::Core),
            (Purpose::Erase, Unit::Die),
        ];
        for (index, (purpose, unit)) in (1..).zip(all) {
            account.turn_to(purpose);
            account.pulse(0, index * MS, 2 * W, unit);
        }
        account.pad(0.004);
        let wanted = json!({
            "read": {"die": 0.002, "channel": 0.004, "data_path": 0.006}, "read_ahead": {"die": 0.008},
            "map": {"die": 0.010}, "write": {"data_path": 0.012, "die": 0.010}, "padding": {"die": 0.004},
            "map_write_back": {"channel": 0.016}, "fold": {"die": 0.018}, "collect": {"channel": 0.020},
            "background": {"core": 0.022}, "erase": {"die": 0.024},
        });
        let end = account.at(S);
        assert_eq!(purposes(&end, &start), wanted);
        near(end.total_j(), 0.156);
        // own: read, read ahead and map; for writes the owed energy
        near(account.own_fj() * 1e-15, 0.030);
        account.owe(0.5);
        near(account.own_fj() * 1e-15, 0.530);
    }

    #[test]
    fn a_pulse_that_is_not_over_is_booked_so_far_as_it_went() {
        let (mut account, start) = (Account::new(), Account::new());
        account.turn_to(Purpose::Fold);
        account.pulse(2 * MS, 6 * MS, W, Unit::Die);
        account.turn_to(Purpose::Write);
        account.pulse(4 * MS, 5 * MS, W, Unit::Channel);
        assert_eq!(purposes(&account.at(3 * MS), &start), json!({"fold": {"die": 0.001}}));
        assert_eq!(
            purposes(&account.at(4 * MS + MS / 2), &start),
            json!({"fold": {"die": 0.0025}, "write": {"channel": 0.0005}})
        );
        assert_eq!(purposes(&account.at(9 * MS), &start), json!({"fold": {"die": 0.004}, "write": {"channel": 0.001}}));
    }

    #[test]
    fn levels_are_booked_by_state_with_their_time() {
        let mut account = Account::new();
        account.core(0, CoreState::In(0).key(), W);
        account.link(0, 0, W / 10);
        let start = account.at(10 * MS);
        account.core(30 * MS, CoreState::Entering(3).key(), 2 * W);
        account.core(35 * MS, CoreState::In(3).key(), W / 100);
        account.link(15 * MS, 1, W / 20);
        account.link(16 * MS, 2, 0);
        account.core(60 * MS, CoreState::Leaving.key(), 3 * W);
        let since = account.at(70 * MS).json_since(&start);
        let core = &since["core"];
        level(&core["ps0"], 0.020, 0.020);
        level(&core["entering_ps3"], 0.010, 0.005);
        level(&core["ps3"], 0.00025, 0.025);
        level(&core["leaving"], 0.030, 0.010);
        assert_eq!(core.as_object().unwrap().len(), 4);
        let link = &since["link"];
        level(&link["l0"], 0.0005, 0.005);
        level(&link["l1"], 0.00005, 0.001);
        level(&link["l1_2"], 0.0, 0.054);
        near(since["sum_j"].as_f64().unwrap(), 0.020 + 0.010 + 0.00025 + 0.030 + 0.0005 + 0.00005);
    }

    #[test]
    fn commands_in_hand_share_the_controller_equally() {
        let mut account = Account::new();
        account.active(0, W);
        let start = account.at(0);
        account.rung(2 * MS, 1, 1);
        let first = account.fetched(1);
        account.rung(5 * MS, 2, 1);
        let second = account.fetched(2);
        // alone for 3 ms, two for 4 ms, the second alone for 2 ms
        near(account.over(9 * MS, first) as f64 * 1e-15, 0.003 + 0.002);
        near(account.over(11 * MS, second) as f64 * 1e-15, 0.002 + 0.002);
        let active = account.at(12 * MS).json_since(&start)["active"].clone();
        level(&active["io_in_hand"], 0.009, 0.009);
        level(&active["no_io_in_hand"], 0.003, 0.003);
    }

    #[test]
    fn without_supply_nothing_is_drawn_and_what_was_under_way_ends() {
        let mut account = Account::new();
        let start = account.at(0);
        account.core(0, CoreState::In(0).key(), W);
        account.link(0, 0, W);
        account.active(0, W);
        account.turn_to(Purpose::Erase);
        account.pulse(0, 10 * MS, W, Unit::Die);
        account.off(4 * MS);
        account.charge(0.25);
        let since = account.at(9 * MS).json_since(&start);
        assert_eq!(purposes(&account.at(9 * MS), &start), json!({"erase": {"die": 0.004}}));
        level(&since["core"]["ps0"], 0.004, 0.004);
        level(&since["core"]["off"], 0.0, 0.005);
        level(&since["link"]["off"], 0.0, 0.005);
        near(since["supply_j"].as_f64().unwrap(), 0.25);
        near(since["sum_j"].as_f64().unwrap(), 0.004 * 4.0 + 0.25);
    }

    #[test]
    fn a_reset_leaves_no_command_in_hand() {
        let mut account = Account::new();
        account.active(0, W);
        account.rung(0, 1, 3);
        account.forget(MS);
        let start = account.at(MS);
        let active = account.at(3 * MS).json_since(&start)["active"].clone();
        level(&active["no_io_in_hand"], 0.002, 0.002);
        assert!(active["io_in_hand"].is_null());
        near(account.fetched(1), 0.001 / 3.0); // of no command any more: as one that begins now
    }

    #[test]
    fn names_of_core_states_belong_to_their_keys() {
        let all = [
            (CoreState::In(0), "ps0"),
            (CoreState::In(4), "ps4"),
            (CoreState::Entering(4), "entering_ps4"),
            (CoreState::Leaving, "leaving"),
            (CoreState::Booting, "booting"),
            (CoreState::Off, "off"),
        ];
        for (state, name) in all {
            assert_eq!(CoreState::name(state.key()), name);
        }
    }
}
