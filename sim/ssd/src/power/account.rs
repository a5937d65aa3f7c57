//! Where the rail's joules go: each is booked once, when what draws it is ordered.
//!
//! What draws a level (the core by power state, the link by its state, the controller while something is in hand) is booked by state,
//! with its time. What draws for a while (an array operation, a transfer) is booked to the purpose it serves and the part that does it.
//! A command is booked what it causes itself ([`Account::own_fj`]), and an equal share of what the controller draws while commands are in
//! hand. All sums are kept as joules since power-on; [`Account::at`] gives them as of a time.

use crate::profile::Ps;
use serde_json::{json, Map, Value};
use std::collections::VecDeque;

/// Joule in one nanowatt picosecond.
const NW_PS_J: f64 = 1e-21;
/// Femtojoule in a joule.
const FJ: f64 = 1e15;

/// What energy is spent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Data that a read asks for.
    Read,
    /// What a sequential read has fetched for those that follow; booked to the one that sets it off.
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

/// What does it.
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

/// State of the controller's core, as it is booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreState {
    /// In this power state.
    In(u8),
    /// On the way into it.
    Entering(u8),
    /// On the way to an operational one.
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

/// A pulse that was booked and may not be over: until when, since when, how much, and where it is booked.
type Pulse = (Ps, Ps, i64, u8);

/// The account.
#[derive(Clone)]
pub struct Account {
    /// What pulses are booked to until told otherwise.
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
    /// What each command that is in hand all the time is booked of the active level, in joule.
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

    /// Of what was booked for programming new data, `joules` went into the empty part of a page.
    pub fn pad(&mut self, joules: f64) {
        self.pulses[Purpose::Write as usize][Unit::Die as usize] -= joules;
        self.pulses[Purpose::Padding as usize][Unit::Die as usize] += joules;
    }

    /// What commands caused so far, in femtojoule: the difference over a command's work is the command's.
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

    /// What the controller draws because something is in hand.
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

    /// The next command of that queue was fetched: what [`Account::over`] needs to know of it.
    pub fn fetched(&mut self, qid: u16) -> f64 {
        self.rung.get_mut(usize::from(qid)).and_then(VecDeque::pop_front).unwrap_or(self.each_j)
    }

    /// Its CQE is written: its share in femtojoule.
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

    /// The supply is off: what was under way ends.
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

    /// The account as of `time`, which is not before what was last told: what pulses draw later is not in it.
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

    /// What was spent since `before`, as JSON: `sum_j`, levels as `{state: {j, s}}`, purposes as `{unit: j}`; what is nothing is left out.
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
