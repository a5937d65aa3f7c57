//! Times and joules of single operations, by hand, on a small array with round figures, at full speed and slowed down.

use super::*;
use serde_json::{json, Value};

/// Two channels with two dies each. A page has 4 units, a stripe 8. A unit takes 10 us on a channel.
pub(super) fn profile(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = Profile::load("intel-660p-1tb").unwrap();
    profile.namespace.lbas_512.value = 48 * 4096 * 8;
    let f = &mut profile.flash;
    (f.channels.value, f.dies_per_channel.value, f.planes.value, f.page_kib.value) = (2, 2, 1, 16);
    (f.stripe_kib.value, f.bits_per_cell.value, f.superblock_mib.value, f.raw_gib.value) = (32, 4, 16, 1);
    (f.channel_mb_per_s.value, f.read_ahead_kib.value, f.map_cache_kib.value) = (409.6, 0, 0);
    (f.read_slc_us.value, f.read_dense_us.value, f.read_spread.value) = (50.0, 100.0, 0.0);
    (f.program_slc_us.value, f.program_dense_us.value, f.suspend_us.value) = (200.0, 1000.0, 30.0);
    (f.slc_cache_empty_gb.value, f.slc_cache_full_gb.value) = (0.0, 0.0);
    f.past_cache.value = "direct".into();
    let p = &mut profile.power;
    (p.channel_w.value, p.die_read_w.value) = (0.25, 0.5);
    (p.die_program_slc_w.value, p.die_program_dense_w.value) = (1.0, 2.0);
    change(&mut profile);
    profile
}

pub(super) fn array(condition: Condition, change: impl FnOnce(&mut Profile)) -> (Flash, Meter) {
    let profile = profile(change);
    (Flash::new(&profile, condition, None, 1), Meter::new(&profile))
}

/// Energy by purpose and unit in whole nanojoule.
pub(super) fn spent_nj(meter: &Meter) -> Value {
    let mut spent = meter.account.at(1 << 62).json_since(&Meter::new(&profile(|_| {})).account)["purposes"].clone();
    for joules in
        spent.as_object_mut().unwrap().values_mut().flat_map(|units| units.as_object_mut().unwrap().values_mut())
    {
        *joules = json!((joules.as_f64().unwrap() * 1e9).round() as i64);
    }
    spent
}

/// So many microseconds, each `slow` times as long.
fn us(time: u64, slow: f64) -> Ps {
    (time as f64 * slow) as Ps * US
}

const SPEEDS: [f64; 2] = [1.0, 3.0];

#[test]
fn a_read_takes_one_sensing_a_page_and_a_transfer_a_unit() {
    for slow in SPEEDS {
        let t = 7 * MS;
        let read = |first, count| {
            let (mut flash, mut meter) = array(Condition::Full, |_| {});
            let mut out = Vec::new();
            flash.read(t, first, count, slow, &mut meter, &mut out);
            (out, spent_nj(&meter))
        };
        let at = |time| t + us(time, slow);
        assert_eq!(read(0, 1), (vec![(at(110), 0, 1)], json!({"read": {"die": 50_000, "channel": 2500}})));
        assert_eq!(read(1, 3), (vec![(at(130), 1, 3)], json!({"read": {"die": 50_000, "channel": 7500}})));
        // the last of a page and the first of the next, on one die: one after the other
        let both = json!({"read": {"die": 100_000, "channel": 5000}});
        assert_eq!(read(3, 2), (vec![(at(110), 3, 1), (at(210), 4, 1)], both.clone()));
        // two stripes, on two dies of two channels
        assert_eq!(read(7, 2), (vec![(at(110), 7, 1), (at(110), 8, 1)], both));
        // three stripes: the third die shares the channel of the first
        let pages: Vec<_> = read(4, 16).0;
        let wanted = [(140, 4), (140, 8), (240, 12), (180, 16)].map(|(time, unit)| (at(time), unit, 4));
        assert_eq!(pages, wanted);
    }
}

#[test]
fn pages_are_programmed_on_dies_in_turn_behind_their_transfer() {
    for (slow, cache) in [(1.0, false), (3.0, false), (1.0, true), (3.0, true)] {
        let (mut flash, mut meter) = array(Condition::Empty, |profile| {
            profile.flash.slc_cache_empty_gb.value = if cache { 1.0 } else { 0.0 };
        });
        let t = 5 * MS;
        let mut ends = Vec::new();
        let mut each = Vec::new();
        for unit in 0..36 {
            let own = meter.account.own_fj();
            ends.extend(flash.write(t, unit, slow, &mut meter));
            each.push(((meter.account.own_fj() - own) * 1e-6).round() as i64);
        }
        let (busy, nj) = if cache { (200, 200_000) } else { (1000, 2_000_000) };
        // two pages a stripe; stripes on dies 0, 1, 2, 3 and 0 again; dies 0 and 2 share a channel
        let arrived = [(40, 1), (40, 2), (40, 1), (40, 2), (120, 1), (120, 2), (120, 1), (120, 2), (40, 3)];
        let wanted = arrived.map(|(first, pages)| t + us(first + pages * busy, slow));
        assert_eq!(ends.iter().map(|p| p.end).collect::<Vec<_>>(), wanted, "{slow} {cache}");
        assert!(ends.iter().all(|p| p.units == 4));
        assert_eq!(flash.programmed_ps(), wanted[8]);
        assert_eq!(spent_nj(&meter), json!({"write": {"die": 9 * nj, "channel": 90_000}}));
        // a command answers for its own part of the page, whenever the page is programmed
        assert_eq!(each, vec![nj / 4 + 2500; 36]);
    }
}

#[test]
fn a_page_that_waits_is_programmed_after_a_while_and_its_empty_part_is_padding() {
    for (slow, cache) in [(1.0, false), (3.0, true)] {
        let (mut flash, mut meter) = array(Condition::Empty, |profile| {
            profile.flash.slc_cache_empty_gb.value = if cache { 1.0 } else { 0.0 };
            profile.controller.flush_idle_us.value = 3000;
        });
        let t = 5 * MS;
        assert_eq!((flash.next_flush_ps(), flash.flush(t, slow, &mut meter)), (None, None));
        assert!(flash.is_stuck());
        flash.claim(3);
        for unit in 0..3 {
            assert_eq!(flash.write(t + unit * US, unit, slow, &mut meter), None);
        }
        assert_eq!(flash.next_flush_ps(), Some(t + 3000 * US), "since the first of them came");
        assert!(flash.is_stuck(), "nothing is programmed that would make room");
        let program = flash.flush(t + 3000 * US, slow, &mut meter).unwrap();
        let (busy, nj) = if cache { (200, 200_000) } else { (1000, 2_000_000) };
        assert_eq!(program, Program { end: t + 3000 * US + us(30 + busy, slow), units: 3 });
        assert_eq!((flash.next_flush_ps(), flash.is_stuck(), flash.buffered()), (None, false, 3));
        flash.programmed(3);
        assert_eq!((flash.is_stuck(), flash.buffered()), (true, 0));
        let wanted = json!({"write": {"die": nj * 3 / 4, "channel": 7500}, "padding": {"die": nj / 4}});
        assert_eq!(spent_nj(&meter), wanted);
        // the padding takes its slot: the next page begins behind it, on the same stripe
        (10..13).for_each(|unit| assert_eq!(flash.write(t + 9 * MS, unit, 1.0, &mut meter), None));
        assert!(flash.write(t + 9 * MS, 13, 1.0, &mut meter).is_some());
        let mut out = Vec::new();
        flash.read(t + 90 * MS, 2, 1, 1.0, &mut meter, &mut out);
        assert_eq!(flash.ftl.place(10).unwrap().slot, 4);
        assert_eq!(out.len(), 1);
    }
}

#[test]
fn a_whole_page_has_no_padding_and_the_buffer_has_the_profiles_room() {
    let (mut flash, mut meter) = array(Condition::Empty, |profile| profile.controller.write_buffer_kib.value = 40);
    assert!(flash.has_room(10) && !flash.has_room(11));
    flash.claim(7);
    assert!(flash.has_room(3) && !flash.has_room(4));
    flash.free(2);
    assert_eq!(flash.buffered(), 5);
    assert!(flash.has_room(5) && !flash.has_room(6));
    for unit in 0..4 {
        flash.write(0, unit, 1.0, &mut meter);
    }
    assert!(!flash.is_stuck());
    assert!(flash.flush(0, 1.0, &mut meter).is_none(), "nothing waits");
    assert_eq!(spent_nj(&meter)["padding"], Value::Null);
    flash.programmed(4);
    assert_eq!(flash.buffered(), 1);
    assert!(flash.is_stuck());
}

#[test]
fn a_read_passes_a_program_and_waits_for_a_read() {
    let busy = |suspend: u64| {
        let (mut flash, mut meter) = array(Condition::Empty, |profile| profile.flash.suspend_us.value = suspend as f64);
        let t = 5 * MS;
        let program = (0..4).find_map(|unit| flash.write(t, unit, 1.0, &mut meter)).unwrap();
        assert_eq!(program.end, t + 1040 * US); // on die 0
        let mut out = Vec::new();
        for first in [0, 1] {
            flash.read(t + 300 * US, first, 1, 1.0, &mut meter, &mut out);
        }
        let free = flash.programmed_ps();
        flash.read(free + MS, 2, 1, 1.0, &mut meter, &mut out);
        let times: Vec<u64> = out.iter().map(|r| (r.0 - t) / US).collect();
        (times, (free - t) / US, (flash.programmed_ps() - free) / US)
    };
    // suspended after 30 us; the program ends later by both sensings
    assert_eq!(busy(30), (vec![440, 540, 1240 + 1110], 1240, 1100));
    assert_eq!(busy(0), (vec![1150, 1250, 1240 + 1110], 1240, 1100));
}

#[test]
fn times_of_reads_spread_evenly_around_the_profiles() {
    let (mut flash, _) = array(Condition::Full, |profile| profile.flash.read_spread.value = 0.2);
    let times: Vec<f64> = (0..20_000).map(|_| flash.read_time(false, 2.0) as f64 / (200 * US) as f64).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let (least, most) = times.iter().fold((f64::MAX, 0.0f64), |(l, m), t| (l.min(*t), m.max(*t)));
    assert!((mean - 1.0).abs() < 0.004, "{mean}"); // its standard deviation is 0.0008
    assert!((0.8..0.801).contains(&least) && (1.199..1.2).contains(&most), "{least} .. {most}");
    let variance = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / times.len() as f64;
    assert!((variance / (0.2 * 0.2 / 3.0) - 1.0).abs() < 0.05, "even: {variance}");
}

#[test]
fn changed_pages_of_the_map_are_programmed_by_the_page_on_dies_in_turn() {
    for slow in SPEEDS {
        let (mut flash, mut meter) = array(Condition::Full, |profile| profile.flash.map_cache_kib.value = 4);
        let t = 5 * MS;
        let reading = flash.look_up_for(t, 0, true, slow, &mut meter);
        assert_eq!(reading, t + us(60, slow), "sensed in SLC mode, and a unit over the channel");
        assert_eq!(flash.look_up_for(t, 1023, true, slow, &mut meter), t, "at hand");
        let mut programs = Vec::new();
        for page in 1..=16 {
            let now = t + page * 20 * MS;
            flash.look_up_for(now, page * 1024, true, slow, &mut meter);
            programs.extend((0..4).filter(|&die| flash.die_free[die] >= now + us(240, slow)).map(|die| (page, die)));
        }
        assert_eq!(programs, [(4, 1), (8, 2), (12, 3), (16, 0)], "page 0 was given up for page 1");
        // 17 pages read; 16 changed ones given up, which fill 4 pages of the array
        let wanted = json!({
            "map": {"die": 17 * 25_000, "channel": 17 * 2500},
            "map_write_back": {"die": 4 * 200_000, "channel": 4 * 10_000},
        });
        assert_eq!(spent_nj(&meter), wanted);
        let (mut read, mut meter) = array(Condition::Full, |profile| profile.flash.map_cache_kib.value = 4);
        for page in 0..20 {
            read.look_up_for(t, page * 1024, false, slow, &mut meter);
        }
        assert_eq!(spent_nj(&meter)["map_write_back"], Value::Null, "nothing was changed");
        let (mut dram, mut meter) = array(Condition::Full, |_| {});
        assert_eq!(dram.look_up_for(t, 5000, true, slow, &mut meter), t);
    }
}

#[test]
fn lent_memory_holds_more_of_the_map_until_it_is_taken_back() {
    let (mut flash, mut meter) = array(Condition::Full, |profile| profile.flash.map_cache_kib.value = 4);
    let known =
        |flash: &mut Flash, meter: &mut Meter, now: Ps, page: u64| flash.look_up(now, page * 1024, 1.0, meter) == now;
    assert_eq!([0, 1, 0, 0].map(|page| known(&mut flash, &mut meter, MS, page)), [false, false, false, true]);
    flash.lend(4096);
    assert_eq!([0, 1, 0, 1].map(|page| known(&mut flash, &mut meter, 2 * MS, page)), [false, false, true, true]);
    flash.lend(4096);
    assert!(known(&mut flash, &mut meter, 3 * MS, 1), "the same loan: nothing is lost");
    assert!(flash.next_access().is_some());
    flash.lend(0);
    assert_eq!([0, 1, 0, 0].map(|page| known(&mut flash, &mut meter, 4 * MS, page)), [false, false, false, true]);
    let (mut dram, mut meter) = array(Condition::Full, |_| {});
    dram.lend(4096);
    assert!(known(&mut dram, &mut meter, MS, 9) && dram.next_access().is_none(), "its map is in DRAM");
}

#[test]
fn holdings_tell_bytes_since_and_what_there_is() {
    let before = Holdings { written: 100, moved: 10, in_slc: 1, in_dense: 2 };
    let after = Holdings { written: 110, moved: 40, in_slc: 5, in_dense: 7 };
    let wanted = json!({
        "written_bytes": 40_960, "moved_bytes": 122_880, "write_amplification": 4.0,
        "in_slc_bytes": 20_480, "in_dense_bytes": 28_672,
    });
    assert_eq!(after.json_since(&before), wanted);
    assert_eq!(before.json_since(&before)["write_amplification"], Value::Null);
}

#[test]
fn memory_that_is_written_in_place_holds_what_was_written() {
    let (mut flash, mut meter) = array(Condition::Empty, |profile| profile.flash.in_place.value = true);
    let t = 5 * MS;
    let dies: Vec<(usize, usize)> = (0..6).map(|unit| flash.stripe_of(unit)).collect();
    assert_eq!(dies, [(0, 0), (1, 1), (0, 2), (1, 3), (0, 0), (1, 1)], "a unit is a stripe");
    for unit in [9000, 9001, 9000] {
        assert_eq!(flash.write(t, unit, 1.0, &mut meter).map(|p| p.units), Some(1));
    }
    let there = |flash: &Flash, unit| flash.ftl.place(unit).map(|p| (u64::from(p.slot), p.slc));
    assert_eq!(
        [8999, 9000, 9001, 9002].map(|unit| there(&flash, unit)),
        [None, Some((9000, false)), Some((9001, false)), None]
    );
    assert_eq!((flash.holdings().in_slc, flash.holdings().in_dense, flash.holdings().written), (0, 2, 3));
    flash.deallocate(9000, 1);
    assert_eq!((there(&flash, 9000), flash.holdings().in_dense), (None, 1));
    flash.write(t, 9000, 1.0, &mut meter);
    assert_eq!((there(&flash, 9000), flash.holdings().in_dense), (Some((9000, false)), 2));
    assert_eq!(spent_nj(&meter), json!({"write": {"die": 4 * 2_000_000, "channel": 4 * 2500}}));
    assert_eq!(flash.next_relocation_ps(0), None);
}

/// Reads of 4 units from `first` on, 1 ms after each other: which units were in the buffer, and energy of data fetched ahead in
/// whole pages.
fn fetched_ahead(firsts: &[u64]) -> (Vec<u64>, u64) {
    let (mut flash, mut meter) = array(Condition::Full, |profile| profile.flash.read_ahead_kib.value = 32);
    let mut held = Vec::new();
    for (now, &first) in (1..).map(|k| k * MS).zip(firsts) {
        let mut out = Vec::new();
        flash.read(now, first, 4, 1.0, &mut meter, &mut out);
        assert_eq!(out.iter().map(|r| r.2).sum::<u64>(), 4);
        held.extend(out.iter().filter(|r| r.0 == now).flat_map(|r| r.1..r.1 + r.2));
    }
    let die_nj = spent_nj(&meter)["read_ahead"]["die"].as_u64().unwrap_or(0);
    (held, die_nj / 50_000)
}

#[test]
fn the_window_behind_a_sequence_is_eight_units_and_no_more() {
    assert_eq!(fetched_ahead(&[0]), (vec![], 0), "not yet a sequence");
    assert_eq!(fetched_ahead(&[0, 4]), (vec![], 2), "8 to 15");
    assert_eq!(fetched_ahead(&[0, 4, 8]), ((8..12).collect(), 3), "and 16 to 19");
    assert_eq!(fetched_ahead(&[0, 4, 8, 12, 16]), ((8..20).collect(), 5));
    assert_eq!(fetched_ahead(&[0, 4, 12]), (vec![], 2), "it goes on elsewhere");
    let end = 48 * 4096;
    assert_eq!(fetched_ahead(&[end - 12, end - 8, end - 4]), ((end - 4..end).collect(), 1), "nothing behind the drive");
}

#[test]
fn four_sequences_are_followed_and_the_one_unused_for_longest_gives_way() {
    let starts = [0, 1000, 2000, 3000];
    let go = |more: &[u64]| fetched_ahead(&[&starts[..], more].concat()).1;
    assert_eq!(go(&[4]), 2);
    assert_eq!(go(&[4000, 4]), 0, "the first gave way");
    assert_eq!(go(&[4000, 1004]), 2);
    assert_eq!(go(&[4, 4000, 1004]), 2, "the second gave way");
    assert_eq!(go(&[4, 4000, 8]), 3);
}

#[test]
fn a_read_larger_than_the_window_takes_the_rest_from_flash() {
    let (mut flash, mut meter) = array(Condition::Full, |profile| profile.flash.read_ahead_kib.value = 32);
    let mut out = Vec::new();
    flash.read(MS, 0, 4, 1.0, &mut meter, &mut out);
    flash.read(2 * MS, 4, 4, 1.0, &mut meter, &mut out);
    out.clear();
    // 8 to 15 are read ahead on the next die from 2 ms on: there after 140 and, sensed behind the first, 240 us
    flash.read(2 * MS + 150 * US, 8, 12, 1.0, &mut meter, &mut out);
    let (now, third) = (2 * MS + 150 * US, 2 * MS + 150 * US + 140 * US);
    assert_eq!(out, [(now, 8, 4), (2 * MS + 240 * US, 12, 4), (third, 16, 4)]);
    out.clear();
    flash.read(9 * MS, 20, 8, 1.0, &mut meter, &mut out);
    assert_eq!(out, [(9 * MS, 20, 8)], "one run");
}
