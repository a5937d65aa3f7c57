//! The truth about a run: the exact energy of each phase, and every command as the model saw it.

use crate::host::{BusSink, CommandTruth, LentTraffic};
use crate::power::account::Account;
use crate::profile::{Ps, LBA};
use crate::sink::TraceSink;
use serde_json::{json, Value};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use wattbell_bus::{Body, Rail, Record, Summary};

/// A tick of the instrument in picoseconds: phase bounds are whole ticks, as the instrument sees them.
const TICK: Ps = 1000;
/// Joule in one nanoampere nanovolt picosecond.
const ENERGY_LSB_J: f64 = 1e-30;

/// Classes of commands that a phase's truth keeps apart; all others are together, by opcode.
const MOST_CLASSES: usize = 64;

/// Bounds before, opcode, blocks.
type Class = (usize, u8, u64);

/// Energy booked to the commands of a class.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    count: u64,
    own_fj: u128,
    share_fj: u128,
}

/// A phase of the workload, bounded by the SQ doorbells of its two markers.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Number, from 1.
    pub phase: u32,
    /// Name of the plan's step, and of the job if it has several.
    pub name: String,
    /// `fio`, `idle` or `wake`.
    pub kind: &'static str,
    /// Tick of the start marker's doorbell.
    pub start_tick: u64,
    /// Tick of the end marker's doorbell.
    pub end_tick: u64,
    /// Facts of the kind: jobs, idle time, power state.
    pub detail: Value,
    /// Measurements of the host side, such as the wake-up read.
    pub result: Value,
}

/// Integral of the rail over one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Integral {
    energy: i128,
    max_nw: i64,
    min_nw: i64,
}

/// Writes the trace, integrates the rail records that pass, and writes a line for each command.
pub struct TruthSink<T: Write, C: Write> {
    trace: TraceSink<T>,
    commands: Option<C>,
    commands_error: Option<std::io::Error>,
    bounds: VecDeque<Ps>,
    /// The energy account at each bound.
    accounts: Vec<Account>,
    /// Commands by the bounds given before their end, opcode and blocks.
    classes: BTreeMap<Class, Spent>,
    /// The class of the last command, and the sum that its entry still lacks.
    last_class: (Class, Spent),
    rails: VecDeque<(Ps, Rail)>,
    integrals: Vec<Integral>,
    current: Integral,
    whole: Integral,
    at: Ps,
    end: Ps,
    /// Power of the rail, in nA nV and in nW.
    power: i128,
    power_nw: i64,
    counts: BTreeMap<(u16, u8), (u64, u64)>,
    /// Queue and opcode of the last command, and the numbers that its count still lacks.
    last_count: ((u16, u8), (u64, u64)),
    lent: LentTraffic,
}

impl<T: Write, C: Write> TruthSink<T, C> {
    /// Over `trace`; `commands` gets the CSV.
    pub fn new(trace: TraceSink<T>, mut commands: Option<C>) -> Self {
        let header = CommandTruth::COLUMNS.join(",") + "\n";
        let commands_error = commands.as_mut().and_then(|c| c.write_all(header.as_bytes()).err());
        Self {
            trace,
            commands,
            commands_error,
            bounds: VecDeque::new(),
            accounts: Vec::new(),
            classes: BTreeMap::new(),
            last_class: Default::default(),
            rails: VecDeque::new(),
            integrals: Vec::new(),
            current: Integral::default(),
            whole: Integral::default(),
            at: 0,
            end: 0,
            power: 0,
            power_nw: 0,
            counts: BTreeMap::new(),
            last_count: ((0, 0), (0, 0)),
            lent: LentTraffic::default(),
        }
    }

    /// The trace, for a sink that is followed as it grows.
    pub fn trace(&mut self) -> &mut TraceSink<T> {
        &mut self.trace
    }

    /// A phase begins or ends at `tick`, until when the energy went where `account` says; bounds come in order, before the rail gets there.
    pub fn bound(&mut self, tick: u64, account: Account) {
        self.keep_class();
        self.accounts.push(account);
        self.bounds.push_back(tick * TICK);
    }

    /// The trace's or CSV's first error, as text.
    pub fn error(&self) -> Option<String> {
        let trace = self.trace.error().map(|e| format!("bus trace: {e}"));
        trace.or_else(|| self.commands_error.as_ref().map(|e| format!("truth commands: {e}")))
    }

    /// Integrates the rail up to `time`; everything before `time` must be known.
    fn integrate(&mut self, time: Ps) {
        while let Some((at, rail)) = self.rails.front().copied().filter(|r| r.0 <= time) {
            self.rails.pop_front();
            self.run_to(at);
            self.power = i128::from(rail.current_na) * i128::from(rail.voltage_nv);
            self.power_nw = match i64::try_from(self.power) {
                Ok(power) => power / 1_000_000_000, // much cheaper
                Err(_) => (self.power / 1_000_000_000) as i64,
            };
        }
        self.run_to(time);
    }

    fn run_to(&mut self, time: Ps) {
        while let Some(bound) = self.bounds.front().copied().filter(|&b| b <= time) {
            self.bounds.pop_front();
            self.add(bound);
            let done = std::mem::replace(&mut self.current, Integral { min_nw: i64::MAX, ..Integral::default() });
            self.integrals.push(done);
        }
        self.add(time);
    }

    fn add(&mut self, time: Ps) {
        if time <= self.at {
            return;
        }
        let (power, nw) = (self.power, self.power_nw);
        for integral in [&mut self.current, &mut self.whole] {
            integral.energy += power * i128::from(time - self.at);
            integral.max_nw = integral.max_nw.max(nw);
            integral.min_nw = integral.min_nw.min(nw);
        }
        self.at = time;
    }

    fn keep_count(&mut self) {
        let (key, (count, blocks)) = std::mem::take(&mut self.last_count);
        if count > 0 {
            let entry = self.counts.entry(key).or_default();
            *entry = (entry.0 + count, entry.1 + blocks);
        }
    }

    fn keep_class(&mut self) {
        let (mut class, spent) = std::mem::take(&mut self.last_class);
        if spent.count == 0 {
            return;
        }
        let bound = class.0;
        let crowded = self.classes.range((bound, 0, 0)..=(bound, u8::MAX, u64::MAX)).count() >= MOST_CLASSES;
        if crowded && !self.classes.contains_key(&class) {
            class.2 = u64::MAX; // any other size
        }
        let sum = self.classes.entry(class).or_default();
        (sum.count, sum.own_fj, sum.share_fj) =
            (sum.count + spent.count, sum.own_fj + spent.own_fj, sum.share_fj + spent.share_fj);
    }

    /// Ends the trace and gives the truth as JSON.
    pub fn finish(mut self, phases: &[Phase]) -> Result<Value, String> {
        let end = self.end;
        self.keep_count();
        self.keep_class();
        self.integrate(end);
        if let Some(error) = self.error() {
            return Err(error);
        }
        if let Some(commands) = &mut self.commands {
            commands.flush().map_err(|e| format!("truth commands: {e}"))?;
        }
        self.trace.finish(end).map_err(|e| format!("bus trace: {e}"))?;
        let listed: Vec<Value> = phases
            .iter()
            .map(|p| {
                // Bounds alternate start, end, and phases count from 1: integral 2 k - 1 lies inside phase k.
                let inside = self.integrals.get(2 * p.phase as usize - 1).copied().unwrap_or_default();
                let seconds = (p.end_tick - p.start_tick) as f64 * 1e-9;
                let energy_j = inside.energy as f64 * ENERGY_LSB_J;
                let mut out = json!({
                    "phase": p.phase, "name": p.name, "kind": p.kind,
                    "start_tick": p.start_tick, "end_tick": p.end_tick, "duration_s": seconds,
                    "energy_j": energy_j, "mean_w": energy_j / seconds,
                    "min_w": inside.min_nw as f64 * 1e-9, "max_w": inside.max_nw as f64 * 1e-9,
                });
                let bound = 2 * p.phase as usize - 1;
                if let (Some(before), Some(after)) = (self.accounts.get(bound - 1), self.accounts.get(bound)) {
                    out["spent"] = after.json_since(before);
                    out["spent"]["commands"] = classes_json(&self.classes, p.phase);
                }
                if let (Some(end), Some(start)) =
                    (bound.checked_sub(2).map(|b| &self.accounts[b]), self.accounts.get(bound - 1))
                {
                    out["spent_before"] = start.json_since(end);
                }
                if let (Value::Object(out), Value::Object(result)) = (&mut out, &p.result) {
                    out.extend(result.clone());
                }
                out
            })
            .collect();
        let commands: Vec<Value> = self
            .counts
            .iter()
            .map(|((qid, opcode), (count, blocks))| {
                let bytes = (*qid != 0).then_some(blocks * LBA); // CDW11 of an admin command is no number of blocks
                json!({"qid": qid, "opcode": opcode, "count": count, "bytes": bytes})
            })
            .collect();
        Ok(json!({
            "definition": "a phase lies between the ticks (1 ns, rounded down) of the first symbols of the SQ doorbells \
                           of its start and end marker; energy is the integral of the emitted rail over it; spent is where the \
                           model's energy went, each joule once, and sum_j is all of it",
            "phases": listed,
            "commands": commands,
            "host_memory_buffer": {
                "reads": self.lent.reads, "read_bytes": self.lent.read_bytes,
                "writes": self.lent.writes, "written_bytes": self.lent.written_bytes,
            },
            "host_memory_buffer_data": {
                "known_bytes": self.lent.known_bytes, "forgotten_bytes": self.lent.forgotten_bytes, "wrong_bytes": self.lent.wrong_bytes,
                "unreachable": self.lent.unreachable,
            },
            "trace": {"end_ps": end, "energy_j": self.whole.energy as f64 * ENERGY_LSB_J},
        }))
    }
}

/// Returns the energy that the commands of phase `number` caused, by opcode and blocks. Blocks are null for commands beyond the kept
/// number of classes.
fn classes_json(classes: &BTreeMap<Class, Spent>, number: u32) -> Value {
    let bound = 2 * number as usize - 1;
    let within = classes.range((bound, 0, 0)..=(bound, u8::MAX, u64::MAX));
    let each = within.map(|(&(_, opcode, blocks), spent)| {
        json!({
            "opcode": opcode, "blocks": (blocks != u64::MAX).then_some(blocks), "count": spent.count,
            "own_j": spent.own_fj as f64 * 1e-15, "share_j": spent.share_fj as f64 * 1e-15,
        })
    });
    Value::Array(each.collect())
}

impl<T: Write, C: Write> BusSink for TruthSink<T, C> {
    fn record(&mut self, record: Record) {
        if let Body::Rail(rail) = &record.body {
            self.rails.push_back((record.time_ps, *rail)); // they come in time order
        }
        self.end = self.end.max(record.time_ps);
        self.trace.record(record);
    }

    fn record_in_order(&mut self, record: &Record) {
        if let Body::Rail(rail) = &record.body {
            self.rails.push_back((record.time_ps, *rail));
        }
        self.end = self.end.max(record.time_ps);
        self.trace.record_in_order(record);
    }

    fn summary_in_order(&mut self, time_ps: Ps, summary: &Summary) {
        self.end = self.end.max(time_ps);
        self.trace.summary_in_order(time_ps, summary);
    }

    fn release(&mut self, horizon_ps: Ps) {
        self.trace.release(horizon_ps);
        self.end = self.end.max(horizon_ps);
        // A bound is rounded down to its tick, so it may lie a little before the time at which it is given.
        self.integrate(horizon_ps.saturating_sub(2 * TICK));
    }

    fn lent(&mut self, traffic: &LentTraffic) {
        self.lent = *traffic;
    }

    fn command(&mut self, c: &CommandTruth) {
        if c.qid != 0 {
            let class = (self.accounts.len(), c.opcode, c.blocks);
            if self.last_class.0 != class {
                self.keep_class();
                self.last_class.0 = class;
            }
            let spent = &mut self.last_class.1;
            spent.count += 1;
            spent.own_fj += u128::from(c.own_fj);
            spent.share_fj += u128::from(c.share_fj);
        }
        if self.last_count.0 != (c.qid, c.opcode) {
            self.keep_count();
            self.last_count.0 = (c.qid, c.opcode);
        }
        let (count, blocks) = self.last_count.1;
        self.last_count.1 = (count + 1, blocks + c.blocks);
        let Some(commands) = &mut self.commands else { return };
        let mut values = c.values().into_iter().enumerate();
        let line = values.try_for_each(|(place, value)| {
            commands.write_all(&b","[..usize::from(place != 0)])?;
            value.map_or(Ok(()), |value| write!(commands, "{value}"))
        });
        if let Err(error) = line.and_then(|()| commands.write_all(b"\n")) {
            self.commands_error.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattbell_bus::{TraceHeader, TraceWriter};

    const US: Ps = 1_000_000;

    fn sink() -> TruthSink<Vec<u8>, Vec<u8>> {
        TruthSink::new(TraceSink::new(TraceWriter::new(Vec::new(), &TraceHeader::default()).unwrap()), None)
    }

    fn rail(sink: &mut TruthSink<Vec<u8>, Vec<u8>>, at: Ps, milliampere: i64) {
        let rail = Rail { current_na: milliampere * 1_000_000, voltage_nv: 2_000_000_000 };
        sink.record(Record { time_ps: at, body: Body::Rail(rail) });
    }

    fn phase(number: u32, start_us: u64, end_us: u64) -> Phase {
        let (name, detail) = (format!("p{number}"), json!({}));
        let (start_tick, end_tick) = (start_us * 1000, end_us * 1000);
        Phase { phase: number, name, kind: "fio", start_tick, end_tick, result: detail.clone(), detail }
    }

    #[test]
    fn a_phase_has_the_energy_and_the_extremes_between_its_bounds() {
        let mut sink = sink();
        for (at, milliampere) in [(0, 900), (10, 100), (20, 300), (30, 50), (40, 700), (60, 200)] {
            rail(&mut sink, at * US, milliampere);
        }
        for bound in [15, 35, 65, 70] {
            sink.bound(bound * 1000, Account::new());
        }
        sink.release(50 * US); // what lies before is known, and the bounds after it are not reached
        sink.release(90 * US);
        let truth = sink.finish(&[phase(1, 15, 35), phase(2, 65, 70)]).unwrap();
        let figure = |index: usize, key: &str| truth["phases"][index][key].as_f64().unwrap();
        // 2 V: 5 us at 0.2 W, 10 us at 0.6 W, 5 us at 0.1 W
        assert!((figure(0, "energy_j") - 7.5e-6).abs() < 1e-15);
        assert!((figure(0, "mean_w") - 0.375).abs() < 1e-12);
        assert!((figure(0, "duration_s") - 20e-6).abs() < 1e-15);
        let nanowatt = |index, key| (figure(index, key) * 1e9).round() as i64;
        assert_eq!((nanowatt(0, "min_w"), nanowatt(0, "max_w")), (100_000_000, 600_000_000));
        // one level all the time, begun before it
        assert_eq!((nanowatt(1, "min_w"), nanowatt(1, "max_w")), (400_000_000, 400_000_000));
        assert!((figure(1, "energy_j") - 2e-6).abs() < 1e-15);
        // 10 us at 1.8, 10 at 0.2, 10 at 0.6, 10 at 0.1, 20 at 1.4 and 30 at 0.4 W
        assert!((truth["trace"]["energy_j"].as_f64().unwrap() - 67e-6).abs() < 1e-12);
        assert_eq!(truth["trace"]["end_ps"], 90 * US);
    }

    #[test]
    fn commands_are_counted_by_queue_and_opcode_and_booked_by_phase() {
        let mut sink = sink();
        let command = |qid, opcode, blocks, own_fj, share_fj| CommandTruth {
            qid,
            opcode,
            blocks,
            own_fj,
            share_fj,
            ..CommandTruth::default()
        };
        sink.command(&command(1, 2, 8, 1, 1)); // before any phase
        sink.bound(0, Account::new());
        for truth in [
            command(1, 2, 8, 1000, 10),
            command(1, 1, 16, 2000, 20),
            command(2, 2, 8, 4000, 40),
            command(0, 6, 9, 1, 1),
        ] {
            sink.command(&truth);
        }
        sink.bound(1000, Account::new());
        sink.release(10 * US);
        let truth = sink.finish(&[phase(1, 0, 1)]).unwrap();
        let found = truth["phases"][0]["spent"]["commands"].as_array().unwrap();
        let row = |v: &Value| {
            let whole = |key: &str| (v[key].as_f64().unwrap() * 1e15).round() as u64;
            (
                v["opcode"].as_u64().unwrap(),
                v["blocks"].as_u64().unwrap(),
                v["count"].as_u64().unwrap(),
                whole("own_j"),
                whole("share_j"),
            )
        };
        assert_eq!(found.iter().map(row).collect::<Vec<_>>(), [(1, 16, 1, 2000, 20), (2, 8, 2, 5000, 50)]);
        let count = |qid: u64, opcode: u64| {
            let all = truth["commands"].as_array().unwrap();
            all.iter()
                .find(|c| c["qid"] == qid && c["opcode"] == opcode)
                .map(|c| (c["count"].clone(), c["bytes"].clone()))
        };
        assert_eq!(count(1, 2), Some((json!(2), json!(8192))));
        assert_eq!(count(1, 1), Some((json!(1), json!(8192))));
        assert_eq!(count(2, 2), Some((json!(1), json!(4096))));
        assert_eq!(count(0, 6), Some((json!(1), Value::Null)));
    }

    #[test]
    fn sizes_beyond_the_classes_kept_are_booked_together() {
        let mut sink = sink();
        sink.bound(0, Account::new());
        for blocks in 1..=70 {
            sink.command(&CommandTruth { qid: 1, opcode: 2, blocks, own_fj: 1000, ..CommandTruth::default() });
        }
        sink.bound(1000, Account::new());
        sink.release(10 * US);
        let truth = sink.finish(&[phase(1, 0, 1)]).unwrap();
        let found = truth["phases"][0]["spent"]["commands"].as_array().unwrap();
        assert_eq!(found.len(), 65);
        assert!(found[64]["blocks"].is_null());
        assert_eq!(found[64]["count"], 6);
        assert_eq!(found[63]["blocks"], 64);
    }

    #[test]
    fn powers_above_nine_watts_and_records_in_order_count_as_all_others() {
        let mut sink = sink();
        rail(&mut sink, 0, 10_000); // 20 W, more than 63 bits of nA nV
        let next = Rail { current_na: 500_000_000, voltage_nv: 2_000_000_000 };
        sink.record_in_order(&Record { time_ps: 10 * US, body: Body::Rail(next) });
        for bound in [5, 30] {
            sink.bound(bound * 1000, Account::new());
        }
        sink.release(40 * US);
        let truth = sink.finish(&[phase(1, 5, 30)]).unwrap();
        let figure = |key: &str| truth["phases"][0][key].as_f64().unwrap();
        assert!((figure("max_w") - 20.0).abs() < 1e-9 && (figure("min_w") - 1.0).abs() < 1e-9);
        assert!((figure("energy_j") - 120e-6).abs() < 1e-12);
    }

    #[test]
    fn a_bound_up_to_two_ticks_before_what_is_known_still_divides() {
        let mut sink = sink();
        rail(&mut sink, 0, 500);
        sink.bound(1000, Account::new());
        sink.release(20 * US);
        sink.bound(19_998, Account::new());
        sink.release(30 * US);
        let truth = sink.finish(&[phase(1, 1, 20)]).unwrap();
        let found = truth["phases"][0]["energy_j"].as_f64().unwrap();
        assert!((found - 18.998e-6).abs() < 1e-15, "{found}");
    }

    #[test]
    fn a_phase_has_what_was_spent_in_it_and_between_it_and_the_one_before() {
        let mut sink = sink();
        let mut account = Account::new();
        account.core(0, 0, 1_000_000_000); // 1 W
        for bound in [10, 20, 50, 90] {
            sink.bound(bound * 1000, account.at(bound * US));
        }
        let traffic = LentTraffic {
            reads: 1,
            read_bytes: 2,
            writes: 3,
            written_bytes: 4,
            known_bytes: 5,
            ..LentTraffic::default()
        };
        sink.lent(&traffic);
        sink.release(100 * US);
        let truth = sink.finish(&[phase(1, 10, 20), phase(2, 50, 90)]).unwrap();
        let sum = |index: usize, key: &str| truth["phases"][index][key]["sum_j"].as_f64().map(|j| (j * 1e9).round());
        let all = [sum(0, "spent_before"), sum(0, "spent"), sum(1, "spent_before"), sum(1, "spent")];
        assert_eq!(all, [None, Some(10_000.0), Some(30_000.0), Some(40_000.0)]);
        let lent = json!({"reads": 1, "read_bytes": 2, "writes": 3, "written_bytes": 4});
        assert_eq!(
            (&truth["host_memory_buffer"], &truth["host_memory_buffer_data"]["known_bytes"]),
            (&lent, &json!(5))
        );
    }

    #[test]
    fn a_table_of_commands_that_cannot_be_written_is_an_error() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("no room"))?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        for room in [0, 3] {
            let trace = TraceSink::new(TraceWriter::new(Vec::new(), &TraceHeader::default()).unwrap());
            let mut sink = TruthSink::new(trace, Some(Full(room)));
            assert_eq!(sink.error().is_some(), room == 0);
            sink.command(&CommandTruth::default());
            assert_eq!(sink.error().unwrap(), "truth commands: no room");
            assert!(sink.finish(&[]).unwrap_err().contains("no room"));
        }
    }
}
