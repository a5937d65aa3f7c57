//! Behaviour of the flash over time, as the controller sees it.

mod moving;
mod timing;

use super::*;
use crate::profile::{Profile, MS};
use wattbell_bus::Rail;

const RUN: u64 = 32; // 128 KiB

fn flash(name: &str, condition: Condition, change: &str) -> (Flash, Meter) {
    flash_holding(name, condition, None, change)
}

fn flash_holding(name: &str, condition: Condition, bytes: Option<u64>, change: &str) -> (Flash, Meter) {
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
    (Flash::new(&profile, condition, bytes, 1), Meter::new(&profile))
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

/// Leaves the drive alone until nothing is moved any more; when that is.
fn fold_idle(flash: &mut Flash, meter: &mut Meter, mut now: Ps) -> Ps {
    let mut rounds = 0;
    while let Some(at) = flash.next_relocation_ps(now) {
        now = flash.relocate_idle(at.max(now), 1.0, meter);
        rounds += 1;
        assert!(rounds < 100_000, "it comes to an end");
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
fn a_format_frees_the_room_of_a_page_that_waits_for_more() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::TestData, "");
    let filled = |flash: &mut Flash, meter: &mut Meter| {
        (0..).find(|&unit| {
            flash.claim(1);
            flash.write(0, unit, 1.0, meter).is_some()
        })
    };
    let whole = filled(&mut flash, &mut meter).unwrap() + 1;
    flash.programmed(whole);
    assert_eq!(flash.buffered(), 0);
    flash.claim(whole - 1);
    assert!((0..whole - 1).all(|unit| flash.write(0, unit, 1.0, &mut meter).is_none()));
    assert_eq!(flash.buffered(), whole - 1);
    flash.clear();
    assert_eq!(flash.buffered(), 0, "nothing is to be programmed any more");
    assert_eq!(filled(&mut flash, &mut meter), Some(whole - 1), "the next page begins empty");
}

#[test]
fn a_trim_frees_its_own_units_alone() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::TestData, "");
    write(&mut flash, &mut meter, 0, 0, 4 * RUN);
    let held = |flash: &Flash| flash.holdings().in_slc + flash.holdings().in_dense;
    let before = held(&flash);
    let units = flash.units;
    for (first, count, freed) in [(0, 10, 10), (0, 10, 0), (20, 5, 5), (20, 5, 0), (units - 3, units, 0)] {
        let was = held(&flash);
        flash.deallocate(first, count);
        assert_eq!(was - held(&flash), freed, "{count} units from {first}");
    }
    assert_eq!(held(&flash), before - 15);
    flash.deallocate(1, units);
    assert!(held(&flash) <= 1, "all but the first");
    flash.deallocate(0, units);
    assert_eq!(held(&flash), 0);
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
fn a_drive_that_was_just_filled_has_its_smallest_cache_and_that_is_full() {
    let (full, _) = flash("intel-660p-1tb", Condition::Full, "");
    let held = full.holdings().in_slc * UNIT;
    assert!((11_900_000_000..=12_000_000_000).contains(&held), "12 GB, in whole superblocks: {held}");
    assert_eq!((full.holdings().in_slc + full.holdings().in_dense) * UNIT, full.units * UNIT);
    assert_eq!(
        flash("intel-660p-1tb", Condition::TestData, "").0.holdings().in_slc,
        0,
        "nobody said how much there is"
    );
    let (part, _) = flash_holding("intel-660p-1tb", Condition::Full, Some(900_000_000_000), "");
    assert_eq!((part.holdings().in_slc + part.holdings().in_dense) * UNIT, 900_000_002_048, "whole units of 4 KiB");
    // x GB in the cache, 900 - x in dense flash: x = 12 + 128 (1 - (900 - x) / (1024.2 - 12)) gives 30.0.
    let held = part.holdings().in_slc * UNIT;
    assert!((29_850_000_000..30_050_000_000).contains(&held), "{held}");
}

#[test]
fn test_data_takes_room_of_the_cache_that_holds_it() {
    let cache = |bytes| {
        let (flash, _) = flash_holding("intel-660p-1tb", Condition::TestData, Some(bytes), "fold_at = 0.75");
        let holdings = flash.holdings();
        assert_eq!((holdings.in_slc + holdings.in_dense) * UNIT, bytes);
        let free = flash.cache_limit() - f64::from(flash.ftl.slc_blocks());
        (holdings.in_slc * UNIT, free * f64::from(flash.ftl.slc_block()) * UNIT as f64)
    };
    let (in_slc, free) = cache(64 << 30);
    assert_eq!(in_slc, 64 << 30, "all of it");
    assert!((70e9..71.5e9).contains(&free), "140 GB less 68.7: {free}");
    let (in_slc, _) = cache(128 << 30);
    assert!((100e9..105e9).contains(&(in_slc as f64)), "no more than folding in idle time leaves: {in_slc}");
    let (some, _) = flash_holding("crucial-p1-1tb", Condition::TestData, Some(64 << 30), "");
    let share = some.holdings().in_slc as f64 / ((64u64 << 30) / UNIT) as f64;
    assert!((share - 0.22).abs() < 0.005, "its share, spread over the data: {share}");
}

#[test]
fn test_data_is_read_where_it_was_written_and_the_rest_of_the_drive_is_empty() {
    let (mut flash, mut meter) = flash_holding("crucial-p1-1tb", Condition::TestData, Some(1 << 30), "");
    let mut at = |first: u64| read_in_turn(&mut flash, &mut meter, std::iter::once(first));
    assert!(at(1000) > 30 * US);
    assert_eq!(at((1 << 30) / UNIT), 0, "nothing there, nothing to sense");
}

#[test]
fn writes_past_the_cache_go_through_it_at_the_rate_of_folding() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::Full, "fold_to = 0.0");
    let gigabyte = 1_000_000_000 / UNIT;
    let begin = fold_idle(&mut flash, &mut meter, 0);
    let (mut now, mut rates) = (begin, Vec::new());
    for k in 0..20 {
        for unit in k * gigabyte..(k + 1) * gigabyte {
            flash.write(begin, unit, 1.0, &mut meter); // as fast as the dies take it
        }
        let end = flash.programmed_ps();
        rates.push(1e12 * 1000.0 / (end - now) as f64); // MB/s
        now = end;
        assert!(f64::from(flash.ftl.slc_blocks()) <= flash.cache_limit() + 1.0);
    }
    assert!(rates[..11].iter().all(|r| *r > 1000.0), "{rates:?}");
    assert!(rates[14..].iter().all(|r| (80.0..125.0).contains(r)), "about 100 MB/s past 12 GB: {rates:?}");
    assert_eq!((flash.holdings().in_slc + flash.holdings().in_dense), flash.units, "nothing is lost on the way");
}

/// Writes 8 GB to an empty drive with a cache of 2 GB: which tenths of a GB were as fast as the first, and the least data in the cache
/// behind the first 2 GB, in tenths of a GB.
fn past_the_cache(mode: &str) -> (Vec<bool>, f64, Flash) {
    let change = format!(
        "past_cache = '{mode}'\nslc_cache_empty_gb = 2.0\nslc_cache_full_gb = 2.0\nfold_burst_gb = 0.4\ndrain_share = 0.25\n\
         superblock_mib = 32"
    );
    let (mut flash, mut meter) = flash("intel-600p", Condition::Empty, &change);
    let tenth = 100_000_000 / UNIT;
    let (mut now, mut took, mut least) = (0, Vec::new(), f64::MAX);
    for k in 0..80 {
        for unit in k * tenth..(k + 1) * tenth {
            flash.write(0, unit, 1.0, &mut meter); // as fast as the dies take it
        }
        took.push(flash.programmed_ps() - now);
        now = flash.programmed_ps();
        if k > 20 {
            least = least.min(flash.holdings().in_slc as f64 / tenth as f64);
        }
    }
    (took.iter().map(|t| *t < took[0] * 3 / 2).collect(), least, flash)
}

#[test]
fn a_drained_cache_takes_data_again_once_a_burst_of_it_is_folded() {
    let (fast, least, flash) = past_the_cache("drain");
    assert!(fast[..18].iter().all(|f| *f), "{fast:?}");
    // a page is folded for four that are written: a burst of 0.4 GB for each 1.6 GB
    let later = fast[22..].iter().filter(|f| **f).count();
    assert!((6..=16).contains(&later), "12 of 58 are bursts: {fast:?}");
    assert!((20.0 - 4.0 - 2.0..19.0).contains(&least), "the cache is emptied by a burst and no further: {least}");
    assert!(flash.holdings().moved > 0);
}

#[test]
fn new_data_goes_past_a_full_cache_where_the_profile_says_so() {
    let (fast, least, flash) = past_the_cache("direct");
    assert!(fast[..18].iter().all(|f| *f) && fast[22..].iter().all(|f| !*f), "{fast:?}");
    assert!(least > 18.0 && flash.holdings().moved == 0, "{least}");
}

#[test]
fn a_cache_of_data_that_was_written_over_is_cheap_to_fold() {
    let rate = |span: u64| {
        let (mut flash, mut meter) =
            flash("intel-660p-1tb", Condition::Empty, "slc_cache_empty_gb = 2.0\nslc_cache_full_gb = 2.0");
        let mut now = write(&mut flash, &mut meter, 0, 0, span);
        let begin = now;
        for k in 0..1_000_000u64 {
            now = write(&mut flash, &mut meter, now, k.wrapping_mul(2_654_435_761) % span, 1);
        }
        1_000_000.0 / (now - begin) as f64
    };
    let (narrow, wide) = (rate(120_000), rate(2_000_000));
    assert!(narrow > 2.0 * wide, "0.5 GB in 2 GB of cache: {narrow}, 8 GB: {wide}");
}

#[test]
fn idle_time_folds_the_cache_down_and_leaves_the_data() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::Full, "fold_to = 0.25");
    let now = write(&mut flash, &mut meter, 0, 0, 2_000_000); // beyond 75 % of the smallest cache
    let before = flash.holdings();
    let used = f64::from(flash.ftl.slc_blocks());
    assert!(used > 0.75 * flash.cache_limit());
    fold_idle(&mut flash, &mut meter, now);
    let after = flash.holdings();
    assert!(f64::from(flash.ftl.slc_blocks()) <= 0.25 * flash.cache_limit() + 1.0);
    assert!(after.in_slc < before.in_slc / 2);
    assert_eq!(after.in_slc + after.in_dense, before.in_slc + before.in_dense, "nothing is lost on the way");
    assert_eq!(after.written, before.written);
    assert!(after.moved > before.moved);
}

#[test]
fn moved_data_is_read_once_a_page_and_the_array_draws_power_for_it() {
    let fold = |read_us: u64| {
        let change = format!("fold_to = 0.25\nread_spread = 0.0\nread_slc_us = {read_us}");
        let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::Full, &change);
        let now = write(&mut flash, &mut meter, 0, 0, 2_000_000);
        let begun = flash.die_free.iter().fold(now, |late, &at| late.max(at));
        meter.advance(begun);
        let (before, moved) = (meter.energy_j(), flash.holdings().moved);
        let end = fold_idle(&mut flash, &mut meter, begun);
        meter.advance(flash.die_free.iter().fold(end, |late, &at| late.max(at)));
        (meter.energy_j() - before, flash.holdings().moved - moved, flash.page)
    };
    let ((short, moved, page), (long, as_many, _)) = (fold(32), fold(1032));
    assert_eq!(moved, as_many);
    assert!(moved > 1 << 16);
    let by_hand = (moved / page) as f64 * 1e-3 * 0.075; // each sensing is 1 ms longer, at die_read_w
    let found = long - short;
    assert!((found / by_hand - 1.0).abs() < 0.05, "{found} J, by hand {by_hand} J");
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

#[test]
fn changed_pages_of_the_map_are_written_back_where_it_is_not_in_dram() {
    let busy = |name: &str, change: &str| {
        let (mut flash, mut meter) = flash(name, Condition::Full, change);
        let begin = flash.programmed_ps();
        for k in 0..40_000u64 {
            write(&mut flash, &mut meter, begin, k * 40_503 % 90_000 * 1024, 1);
        }
        flash.die_free.iter().map(|&end| end - begin).sum::<u64>() as f64
    };
    let own = busy("toshiba-rc100", "map_cache_kib = 256");
    let whole = busy("toshiba-rc100", "map_cache_kib = 1048576");
    assert!(own > 1.2 * whole, "a page of the map for each write: {own} {whole}");
}

#[test]
fn a_die_does_one_thing_at_a_time_and_draws_no_more_than_that() {
    let (mut flash, mut meter) = flash("intel-660p-1tb", Condition::Full, "fold_to = 0.25");
    let mut now = 0;
    let mut most = 0.0f64;
    for k in 0..3000 {
        now = write(&mut flash, &mut meter, now, k * 97 % 1000 * 2000, 300);
        meter.advance(now);
        let watt = |rail: &Rail| rail.current_na as f64 * 1e-9 * rail.voltage_nv as f64 * 1e-9;
        most = meter.take().map(|(_, rail)| watt(&rail)).fold(most, f64::max);
    }
    assert!(flash.holdings().moved > 1 << 16);
    // 8 dies that program while another page on the same die is sensed, and 4 channels with the host's data and moved data
    let bound = 8.0 * (0.165 + 0.075) + 4.0 * 2.0 * 0.09;
    assert!((1.0..bound).contains(&most), "{most} W, at most {bound}");
}
