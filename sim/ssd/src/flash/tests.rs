//! What the flash does over time, as the controller sees it.

use super::*;
use crate::profile::Profile;

const RUN: u64 = 32; // 128 KiB

fn flash(name: &str, condition: Condition, change: &str) -> (Flash, Meter) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    let mut table: toml::Table = toml::from_str(&text).unwrap();
    for (key, value) in toml::from_str::<toml::Table>(change).unwrap() {
        let mut fact = toml::Table::new();
        fact.insert("value".into(), value);
        fact.insert("source".into(), "test".into());
        table["flash"].as_table_mut().unwrap().insert(key, toml::Value::Table(fact));
    }
    let profile = Profile::parse(name, &toml::to_string(&table).unwrap()).unwrap();
    (Flash::new(&profile, condition, 1), Meter::new(&profile))
}

/// Reads runs one after the other from an idle array, each when the last is there; how long all take.
fn read_in_turn(flash: &mut Flash, meter: &mut Meter, firsts: impl Iterator<Item = u64>) -> Ps {
    let begin = flash.programmed_ps();
    let mut now = begin;
    for first in firsts {
        let mut out = Vec::new();
        flash.read(now, first, RUN, 1.0, meter, &mut out);
        let mut next = first;
        for &(ready, unit, count) in &out {
            assert_eq!(unit, next, "every unit once and in order");
            assert!(ready >= now);
            next += count;
        }
        assert_eq!(next, first + RUN);
        now = out.iter().map(|r| r.0).max().unwrap();
    }
    now - begin
}

/// Writes runs from `from` on until `units` are written, each when there is room; when the last was programmed.
fn write(flash: &mut Flash, meter: &mut Meter, mut now: Ps, from: u64, units: u64) -> Ps {
    for unit in from..from + units {
        if let Some(program) = flash.write(now, unit, 1.0, meter) {
            now = now.max(program.end);
            flash.claim(program.units);
            flash.programmed(program.units);
        }
    }
    now
}

#[test]
fn a_sequence_is_read_ahead_and_scattered_reads_are_not() {
    let sequence = || (0..64).map(|i| i * RUN);
    let (mut with, mut m) = flash("intel-660p-1tb", Condition::TestData, "read_ahead_kib = 256");
    let (mut without, mut n) = flash("intel-660p-1tb", Condition::TestData, "read_ahead_kib = 0");
    let (fast, slow) = (read_in_turn(&mut with, &mut m, sequence()), read_in_turn(&mut without, &mut n, sequence()));
    assert!(fast * 3 < slow * 2, "{fast} {slow}");
    let scattered = || (0..64u64).map(|i| (i * 7919 + 11) % 4096 * RUN * 3);
    let (mut with, mut m) = flash("intel-660p-1tb", Condition::TestData, "read_ahead_kib = 256");
    let (mut without, mut n) = flash("intel-660p-1tb", Condition::TestData, "read_ahead_kib = 0");
    assert_eq!(
        read_in_turn(&mut with, &mut m, scattered()),
        read_in_turn(&mut without, &mut n, scattered()),
        "nothing is fetched that nobody asked for"
    );
}

#[test]
fn what_was_read_ahead_and_then_written_is_read_again() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::TestData, "read_ahead_kib = 256");
    let end = read_in_turn(&mut flash, &mut meter, (0..4).map(|i| i * RUN));
    let later = end + 100 * MS;
    let mut held = Vec::new();
    flash.read(later, 4 * RUN, RUN, 1.0, &mut meter, &mut held);
    assert!(held.iter().all(|r| r.0 == later), "in the buffer");
    write(&mut flash, &mut meter, later, 5 * RUN + 3, 1);
    let mut again = Vec::new();
    flash.read(later + 100 * MS, 5 * RUN, RUN, 1.0, &mut meter, &mut again);
    assert!(again.iter().any(|r| r.0 > later + 100 * MS), "not out of the buffer");
}

#[test]
fn a_drive_that_was_filled_has_little_of_its_cache_left() {
    let (full, _) = flash("intel-660p-1tb", Condition::Full, "");
    let held = full.holdings().in_slc * UNIT;
    assert!((8_500_000_000..9_100_000_000).contains(&held), "three quarters of 12 GB: {held}");
    assert_eq!((full.holdings().in_slc + full.holdings().in_dense) * UNIT, full.units * UNIT);
    assert_eq!(flash("intel-660p-1tb", Condition::TestData, "").0.holdings().in_slc, 0, "the test's data is aside");
}

#[test]
fn idle_time_folds_the_cache_down_and_leaves_the_data() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::Full, "");
    let mut now = write(&mut flash, &mut meter, 0, 0, 800_000); // beyond 75 % of the smallest cache
    let before = flash.holdings();
    let used = f64::from(flash.ftl.slc_blocks());
    assert!(used > 0.75 * flash.cache_limit());
    let mut rounds = 0;
    while let Some(at) = flash.next_relocation_ps(now) {
        now = flash.relocate_idle(at.max(now), 1.0, &mut meter);
        rounds += 1;
        assert!(rounds < 100_000, "it comes to an end");
    }
    let after = flash.holdings();
    assert!(f64::from(flash.ftl.slc_blocks()) <= 0.25 * flash.cache_limit() + 1.0);
    assert!(after.in_slc < before.in_slc / 2);
    assert_eq!(after.in_slc + after.in_dense, before.in_slc + before.in_dense, "nothing is lost on the way");
    assert_eq!(after.written, before.written);
    assert!(after.moved > before.moved);
}

#[test]
fn reads_wait_for_the_map_where_it_is_not_in_dram() {
    let near = |i: u64| i * 257 % 512 * RUN;
    let far = |i: u64| i * 40_503 % 90_000 * 1024;
    let time = |name: &str, at: &dyn Fn(u64) -> u64| {
        let (mut flash, mut meter) = flash(name, Condition::Full, "read_spread = 0.0");
        read_in_turn(&mut flash, &mut meter, (0..512).map(at)); // the map is warm, as far as it can be
        read_in_turn(&mut flash, &mut meter, (0..512).map(at)) as f64
    };
    let slower = |name: &str| time(name, &far) / time(name, &near);
    assert!(slower("toshiba-rc100") > 1.15, "{}", slower("toshiba-rc100"));
    assert!((0.9..1.1).contains(&slower("samsung-970-evo-plus")), "{}", slower("samsung-970-evo-plus"));
}
