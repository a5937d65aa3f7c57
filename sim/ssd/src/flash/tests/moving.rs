//! Moving data: times and joules of a step by hand, and each rule at its limits.

use super::timing::{array, spent_nj};
use super::*;
use crate::flash::relocation::Past;
use serde_json::json;

/// Fills so many new superblocks of a stream with units that are `stride` apart, from `from` on; no time passes.
fn fill(flash: &mut Flash, stream: Stream, blocks: u64, from: u64, stride: u64) {
    let size = if stream == Stream::Cache { 1024 } else { 4096 };
    for block in 0..blocks {
        assert!(flash.ftl.open(stream));
        for k in block * size..(block + 1) * size {
            flash.ftl.append(stream, from + k * stride);
        }
    }
    assert!(!flash.ftl.has_open(stream));
}

/// A cache of this many superblocks, however much there is.
fn limit(flash: &mut Flash, blocks: f64) {
    flash.relocation.cache_blocks = [blocks; 2];
}

fn us(time: u64, slow: f64) -> Ps {
    (time as f64 * slow) as Ps * US
}

#[test]
fn a_step_of_folding_takes_the_time_of_its_parts() {
    for slow in [1.0, 3.0] {
        let (mut flash, mut meter) = array(Condition::Empty, |profile| profile.flash.suspend_us.value = 50.0);
        fill(&mut flash, Stream::Cache, 1, 0, 1);
        let t = 9 * MS;
        // sensed 50, across 40 to the controller and 40 to the die, programmed 1000
        assert_eq!(flash.fold_step(t, slow, &mut meter), Some(t + us(1130, slow)));
        assert_eq!(spent_nj(&meter), json!({"fold": {"die": 25_000 + 2_000_000, "channel": 20_000}}));
        let behind = (50 * US).max(us(50, slow)); // passes the program, not the sensing before
        let arrived = behind + us(50, slow);
        assert!(arrived + us(80, slow) < us(1130, slow));
        // the program goes on later by the sensing that passed it; the next follows it
        assert_eq!(flash.fold_step(t, slow, &mut meter), Some(t + us(1130 + 50 + 1000, slow)));
        assert_eq!(flash.channel_moved[0], t + (arrived.max(us(130, slow)) + us(80, slow)));
        assert_eq!((flash.moved, flash.holdings().in_slc, flash.holdings().in_dense), (8, 1016, 8));
        // the third page lies on the next die and channel; its new place, too
        assert_eq!(flash.fold_step(t, slow, &mut meter), Some(t + us(1130, slow)));
        assert_eq!(spent_nj(&meter), json!({"fold": {"die": 3 * 2_025_000, "channel": 3 * 20_000}}));
    }
}

#[test]
fn without_suspending_a_program_is_waited_for() {
    let (mut flash, mut meter) = array(Condition::Empty, |profile| profile.flash.suspend_us.value = 0.0);
    fill(&mut flash, Stream::Cache, 1, 0, 1);
    let t = 9 * MS;
    assert_eq!(flash.fold_step(t, 1.0, &mut meter), Some(t + 1130 * US));
    assert_eq!(flash.fold_step(t, 1.0, &mut meter), Some(t + (1130 + 50 + 40 + 40 + 1000) * US));
}

#[test]
fn a_page_of_moved_data_is_gathered_and_each_old_page_is_sensed_once() {
    let (mut flash, mut meter) = array(Condition::Empty, |profile| profile.flash.suspend_us.value = 30.0);
    fill(&mut flash, Stream::Cache, 1, 0, 1);
    for unit in [1, 2, 4, 5].into_iter().chain(9..1024) {
        flash.ftl.deallocate(unit);
    }
    let t = 9 * MS;
    // 0 and 3 of the first page and 6 and 7 of the second: 50, 50 and 20, 40, 1000
    assert_eq!(flash.fold_step(t, 1.0, &mut meter), Some(t + 1160 * US));
    assert_eq!(spent_nj(&meter), json!({"fold": {"die": 2 * 25_000 + 2_000_000, "channel": 8 * 2500}}));
    // a unit is left, on the next die; the rest of its new page stays empty
    let place = |flash: &Flash, unit| flash.ftl.place(unit).map(|p| (p.slot, p.slc));
    assert_eq!([0, 3, 6, 7].map(|unit| place(&flash, unit)), [4096, 4097, 4098, 4099].map(|slot| Some((slot, false))));
    assert_eq!(flash.fold_step(t, 1.0, &mut meter), Some(t + (1160 + 1000) * US));
    assert_eq!(spent_nj(&meter), json!({"fold": {"die": 3 * 25_000 + 4_000_000, "channel": 10 * 2500}}));
    assert_eq!((place(&flash, 8), flash.moved, flash.ftl.slc_blocks()), (Some((4100, false)), 5, 0));
    assert_eq!(flash.fold_step(t, 1.0, &mut meter), None, "the cache is empty");
    flash.ftl.append(Stream::Moved, 77);
    assert_eq!(place(&flash, 77), Some((4104, false)), "behind a whole page");
}

#[test]
fn collection_takes_the_emptiest_and_nothing_that_is_full() {
    let (mut flash, mut meter) = array(Condition::Full, |_| {});
    assert_eq!(flash.collect_step(MS, 1.0, &mut meter), None, "nothing to gain");
    for unit in (4096..8192).step_by(2).chain(8192..8192 + 1000) {
        flash.deallocate(unit, 1);
    }
    let t = 9 * MS;
    // two units of each of two pages: sensed 100 and 100, across 20 and 40
    assert_eq!(flash.collect_step(t, 1.0, &mut meter), Some(t + (200 + 20 + 40 + 1000) * US));
    assert_eq!(spent_nj(&meter), json!({"collect": {"die": 100_000 + 2_000_000, "channel": 20_000}}));
    assert!((flash.relocation.collect_share - 0.5).abs() < 1e-12);
    assert_eq!(flash.ftl.place(4097).unwrap().slot, 48 * 4096);
    let free = flash.ftl.free_blocks();
    for _ in 1..512 {
        assert!(flash.collect_step(t, 1.0, &mut meter).is_some());
    }
    assert_eq!((flash.moved, flash.ftl.free_blocks()), (2048, free + 1), "emptied, and free");
    flash.collect_step(t, 1.0, &mut meter);
    assert!((flash.relocation.collect_share - 3096.0 / 4096.0).abs() < 1e-12, "then the next");
}

/// An array with `free` superblocks left, the others partly void.
fn with_free(free: u64) -> (Flash, Meter) {
    let (mut flash, meter) = array(Condition::Full, |_| {});
    fill(&mut flash, Stream::Direct, 16 - free, 0, 3);
    assert_eq!(u64::from(flash.ftl.free_blocks()), free);
    flash.relocation.collect_share = 0.75;
    (flash, meter)
}

#[test]
fn collection_keeps_pace_by_how_little_is_free() {
    // two units of new data, three times as much to move for them where 12 - free is 6
    for (free, stream, credit, pages) in [
        (13, Stream::Direct, 0.0, 0),
        (9, Stream::Direct, 3.0, 0),
        (6, Stream::Direct, 2.0, 1),
        (3, Stream::Direct, 1.0, 2),
        (9, Stream::Cache, 0.0, 3), // in SLC it takes up four times the room
    ] {
        let (mut flash, mut meter) = with_free(free);
        flash.stream = stream;
        flash.relocate_for(MS, 2, 1.0, &mut meter);
        assert!((flash.relocation.credit - credit).abs() < 1e-9, "{free}: {}", flash.relocation.credit);
        assert_eq!(flash.moved, 4 * pages, "{free}");
    }
    let (mut full, mut meter) = array(Condition::Full, |_| {});
    for _ in 0..13 {
        full.ftl.open(Stream::Moved); // held by nobody who closes it
    }
    (full.stream, full.relocation.collect_share) = (Stream::Direct, 0.75);
    full.relocate_for(MS, 100, 1.0, &mut meter);
    assert_eq!((full.relocation.credit, full.moved), (0.0, 0), "nothing to gain: nothing is owed");
}

#[test]
fn cycles_of_collection_begin_late_and_go_on_until_there_is_room() {
    for (free, running, goes_on) in
        [(13, true, false), (12, true, false), (11, true, true), (7, false, false), (6, false, false), (5, false, true)]
    {
        let (mut flash, mut meter) = with_free(free);
        (flash.relocation.cycle_share, flash.relocation.in_cycle, flash.relocation.credit) = (1.5, running, 1.0);
        flash.stream = Stream::Direct;
        flash.relocate_for(MS, 2, 1.0, &mut meter);
        assert_eq!(flash.relocation.in_cycle, goes_on, "{free}");
        // 1 + 2 * 1.5 * 3 = 10
        let wanted = if goes_on { (2.0, 8) } else { (0.0, 0) };
        assert!((flash.relocation.credit - wanted.0).abs() < 1e-9, "{free}: {}", flash.relocation.credit);
        assert_eq!(flash.moved, wanted.1, "{free}");
    }
}

#[test]
fn a_drained_cache_keeps_what_it_emptied_and_others_do_not() {
    for (past, room, spare) in
        [(Past::Drain, 5.0, 58.0), (Past::Drain, 1.0, 61.0), (Past::Direct, 5.0, 61.0), (Past::Fold, 5.0, 61.0)]
    {
        let (mut flash, _) = array(Condition::Empty, |_| {});
        fill(&mut flash, Stream::Cache, 2, 0, 1);
        fill(&mut flash, Stream::Direct, 1, 9000, 1);
        limit(&mut flash, room);
        flash.relocation.past = past;
        assert_eq!(flash.spare_blocks(), spare, "{past:?}");
    }
}

#[test]
fn new_data_goes_to_the_cache_while_a_whole_superblock_has_room_there() {
    let choose = |past, used, room, prepare: &dyn Fn(&mut Flash)| {
        let (mut flash, mut meter) = array(Condition::Empty, |_| {});
        fill(&mut flash, Stream::Cache, used, 0, 1);
        limit(&mut flash, room);
        flash.relocation.past = past;
        prepare(&mut flash);
        flash.choose_stream(MS, 1.0, &mut meter);
        assert!(flash.ftl.has_open(flash.stream));
        (flash.stream, flash.relocation.draining)
    };
    let plain = |used, room| choose(Past::Direct, used, room, &|_| {}).0;
    assert_eq!(plain(0, 0.9), Stream::Direct);
    assert_eq!(plain(0, 1.0), Stream::Cache);
    assert_eq!(plain(4, 5.0), Stream::Cache);
    assert_eq!(plain(5, 5.9), Stream::Direct);
    let drain = |used, room, refill, draining| {
        choose(Past::Drain, used, room, &|flash| {
            (flash.relocation.refill, flash.relocation.draining) = (refill, draining);
        })
    };
    assert_eq!(drain(9, 10.0, 4, false), (Stream::Cache, false));
    assert_eq!(drain(10, 10.0, 4, false), (Stream::Direct, true), "full: it is shut");
    assert_eq!(drain(7, 10.0, 4, true), (Stream::Direct, true), "until 4 are folded");
    assert_eq!(drain(6, 10.0, 4, true), (Stream::Cache, false));
    assert_eq!(drain(2, 3.0, 3, true), (Stream::Direct, true), "or nearly all");
    assert_eq!(drain(1, 3.0, 3, true), (Stream::Cache, false));
    assert_eq!(drain(7, 10.0, 4, false), (Stream::Cache, false), "shut only when it was full");
}

#[test]
fn an_open_superblock_of_the_cache_is_written_to_its_end() {
    let (mut flash, mut meter) = array(Condition::Empty, |_| {});
    assert!(flash.ftl.open(Stream::Cache));
    flash.choose_stream(MS, 1.0, &mut meter);
    assert_eq!((flash.stream, flash.ftl.free_blocks()), (Stream::Cache, 63));
}

#[test]
fn the_last_superblocks_are_kept_for_moving() {
    // Nothing can be moved: the cache does not take one of the last two.
    for (free, stream) in [(3, Stream::Cache), (2, Stream::Direct)] {
        let (mut flash, mut meter) = array(Condition::Empty, |_| {});
        fill(&mut flash, Stream::Direct, 48, 0, 1);
        for _ in 0..16 - free {
            flash.ftl.open(Stream::Moved); // held by nobody who closes it
        }
        limit(&mut flash, 9.0);
        flash.choose_stream(MS, 1.0, &mut meter);
        assert_eq!((flash.stream, u64::from(flash.ftl.free_blocks())), (stream, free - 1));
        assert_eq!(flash.moved, 0);
    }
    // Dense flash can be collected, and the cache is empty.
    let (mut flash, mut meter) = with_free(2);
    flash.choose_stream(MS, 1.0, &mut meter);
    assert!(flash.moved > 0);
    assert_eq!((flash.stream, flash.ftl.free_blocks()), (Stream::Direct, 2), "of three");
    // The cache can be folded, and dense flash is full.
    let (mut flash, mut meter) = array(Condition::Empty, |_| {});
    fill(&mut flash, Stream::Cache, 40, 0, 1);
    fill(&mut flash, Stream::Direct, 22, 41_000, 1);
    flash.choose_stream(MS, 1.0, &mut meter);
    assert_eq!((flash.stream, flash.ftl.free_blocks(), flash.ftl.slc_blocks()), (Stream::Direct, 2, 38));
}

#[test]
fn new_data_past_the_cache_folds_the_more_the_further_the_cache_is_over() {
    let moved = |stream, room| {
        let (mut flash, mut meter) = array(Condition::Empty, |_| {});
        fill(&mut flash, Stream::Cache, 11, 0, 1);
        limit(&mut flash, room);
        flash.stream = stream;
        flash.relocate_for(MS, 4, 1.0, &mut meter);
        flash.moved
    };
    let pages = [11.0, 10.0, 7.0, 2.0, 1.0].map(|room| moved(Stream::Direct, room) / 4);
    assert_eq!(pages, [0, 1, 2, 3, 3], "one, and one more for each four");
    assert_eq!(moved(Stream::Cache, 1.0), 0);
}

#[test]
fn a_cache_that_is_written_through_folds_its_own_share_of_each_page() {
    let after = |past, stream, used, writes: u64| {
        let (mut flash, mut meter) = array(Condition::Empty, |_| {});
        fill(&mut flash, Stream::Cache, used, 0, 1);
        limit(&mut flash, 4.0);
        (flash.relocation.past, flash.stream, flash.relocation.fold_share) = (past, stream, 0.375);
        flash.ftl.deallocate(0); // so that the folded data's share differs from all of these
        for _ in 0..writes {
            flash.relocate_for(MS, 4, 1.0, &mut meter);
        }
        (flash.moved, flash.relocation.drain_credit)
    };
    assert_eq!(after(Past::Fold, Stream::Cache, 4, 1), (0, 1.5));
    assert_eq!(after(Past::Fold, Stream::Cache, 4, 2), (0, 3.0));
    assert_eq!(after(Past::Fold, Stream::Cache, 4, 3), (4, 0.5));
    assert_eq!(after(Past::Fold, Stream::Cache, 3, 3), (0, 0.0), "there is room for one more");
    assert_eq!(after(Past::Fold, Stream::Direct, 4, 3), (0, 0.0));
    assert_eq!(after(Past::Drain, Stream::Cache, 4, 3), (0, 0.0));
    let drained = |draining, stream, writes: u64| {
        let (mut flash, mut meter) = array(Condition::Empty, |_| {});
        fill(&mut flash, Stream::Cache, 4, 0, 1);
        limit(&mut flash, 4.0);
        (flash.relocation.past, flash.relocation.draining, flash.stream) = (Past::Drain, draining, stream);
        flash.relocation.drain_share = 0.375;
        for _ in 0..writes {
            flash.relocate_for(MS, 4, 1.0, &mut meter);
        }
        (flash.moved, flash.relocation.drain_credit)
    };
    assert_eq!(drained(true, Stream::Direct, 2), (0, 3.0));
    assert_eq!(drained(true, Stream::Direct, 3), (4, 0.5));
    assert_eq!(drained(false, Stream::Direct, 3), (0, 0.0));
    assert_eq!(drained(true, Stream::Cache, 3), (0, 0.0));
}

#[test]
fn a_superblock_of_a_full_cache_is_folded_before_the_next_is_written() {
    let (mut flash, mut meter) = array(Condition::Empty, |_| {});
    fill(&mut flash, Stream::Cache, 5, 0, 1);
    limit(&mut flash, 4.0);
    flash.relocation.past = Past::Fold;
    flash.choose_stream(MS, 1.0, &mut meter);
    assert_eq!((flash.stream, flash.ftl.slc_blocks(), flash.moved), (Stream::Cache, 4, 2048));
    let (mut room, mut meter) = array(Condition::Empty, |_| {});
    fill(&mut room, Stream::Cache, 3, 0, 1);
    limit(&mut room, 4.0);
    room.relocation.past = Past::Fold;
    room.choose_stream(MS, 1.0, &mut meter);
    assert_eq!((room.stream, room.ftl.slc_blocks(), room.moved), (Stream::Cache, 4, 0));
}

/// A cache of 8 superblocks with `used` in use, folded in idle time from 6 down to 2, after 500 ms.
fn idle(used: u64) -> (Flash, Meter) {
    let (mut flash, meter) = array(Condition::Empty, |profile| {
        let f = &mut profile.flash;
        (f.fold_at.value, f.fold_to.value, f.fold_idle_ms.value) = (0.75, 0.25, 500.0);
    });
    fill(&mut flash, Stream::Cache, used, 0, 1);
    limit(&mut flash, 8.0);
    (flash, meter)
}

#[test]
fn folding_in_idle_time_begins_and_ends_at_its_shares_of_the_cache() {
    assert_eq!(idle(6).0.next_relocation_ps(0), None);
    let (mut flash, mut meter) = idle(7);
    assert_eq!(flash.next_relocation_ps(0), Some(500 * MS));
    assert_eq!(flash.next_relocation_ps(3 * MS), Some(503 * MS));
    flash.claim(1);
    assert_eq!(flash.next_relocation_ps(3 * MS), None, "new data waits");
    flash.free(1);
    let end = flash.relocate_idle(503 * MS, 1.0, &mut meter);
    // 8 pages of 4 units, two on each die. The third die's data crosses its channel behind the first's, from 210 to 290 us. Its program
    // ends at 1290, put off by 50 for the next sensing, and the next program follows.
    assert_eq!((flash.moved, end), (32, 503 * MS + 2340 * US));
    assert_eq!(flash.next_relocation_ps(3 * MS), Some(end), "without a pause");
    assert_eq!(flash.next_relocation_ps(end), Some(end));
    assert_eq!(flash.next_relocation_ps(end + 1), Some(end + 1 + 500 * MS), "after work in between");
    let mut now = end;
    while let Some(at) = flash.next_relocation_ps(3 * MS) {
        now = flash.relocate_idle(at, 1.0, &mut meter);
    }
    assert_eq!((flash.ftl.slc_blocks(), flash.moved), (2, 5 * 1024), "a quarter of 8");
    assert_eq!(flash.next_relocation_ps(now), None);
    fill(&mut flash, Stream::Cache, 4, 20_000, 1);
    assert_eq!(flash.next_relocation_ps(now), None, "not again before three quarters");
    fill(&mut flash, Stream::Cache, 1, 40_000, 1);
    assert!(flash.next_relocation_ps(now).is_some());
}

#[test]
fn a_cache_with_no_superblock_is_not_folded() {
    let (mut flash, _) = idle(0);
    limit(&mut flash, -1.0);
    assert_eq!(flash.next_relocation_ps(0), None);
    let (mut one, _) = idle(1);
    limit(&mut one, 1.0);
    assert!(one.next_relocation_ps(0).is_some());
}

#[test]
fn folding_in_idle_time_rests_while_nothing_can_be_folded() {
    let (mut flash, mut meter) = idle(0);
    limit(&mut flash, 1.0);
    assert!(flash.ftl.open(Stream::Cache));
    flash.ftl.append(Stream::Cache, 7);
    let at = flash.next_relocation_ps(0).expect("one superblock of one is in use");
    assert_eq!(flash.relocate_idle(at, 1.0, &mut meter), at, "but it is still written");
    assert_eq!((flash.moved, flash.next_relocation_ps(0), flash.next_relocation_ps(at)), (0, None, None));
    flash.written += 1;
    assert!(flash.next_relocation_ps(0).is_some(), "with new data it looks again");
    fill(&mut flash, Stream::Cache, 1, 20_000, 1);
    assert!(flash.relocate_idle(at, 1.0, &mut meter) > at && flash.moved > 0);
}

#[test]
fn collection_in_idle_time_works_towards_fourteen_while_it_is_worth_it() {
    let wants = |free, void: u64| {
        let (mut flash, _) = array(Condition::Full, |_| {});
        fill(&mut flash, Stream::Direct, 16 - free, 0, 1); // old data under it is free again
        let filled = u64::from(flash.ftl.free_blocks());
        for _ in free..filled {
            flash.ftl.open(Stream::Moved);
        }
        (0..void).for_each(|unit| flash.ftl.deallocate(100_000 + unit));
        flash.next_relocation_ps(0).is_some()
    };
    assert!(!wants(14, 4096) && wants(13, 2000));
    // units 98304 .. 102400 are a superblock: 410 of 4096 are more than a tenth, 409 less
    assert!(wants(13, 410) && !wants(13, 409));
    let (mut flash, mut meter) = array(Condition::Full, |_| {});
    fill(&mut flash, Stream::Direct, 4, 0, 12);
    (flash.written, flash.moved) = (9, 7);
    assert!(flash.next_relocation_ps(0).is_none(), "a twelfth of each is void");
    (8192..9192).for_each(|unit| flash.deallocate(unit, 1));
    assert!(flash.next_relocation_ps(0).is_none(), "looked up again only after work");
    flash.written += 1;
    assert!(flash.next_relocation_ps(0).is_some());
    let end = flash.relocate_idle(MS, 1.0, &mut meter);
    assert!(end > MS && flash.moved == 7 + 32);
    assert_eq!(spent_nj(&meter).as_object().unwrap().keys().collect::<Vec<_>>(), ["collect"]);
}

#[test]
fn the_cache_shrinks_in_a_line_as_dense_flash_fills() {
    let (mut flash, _) = array(Condition::Empty, |_| {});
    (flash.relocation.cache_blocks, flash.relocation.dense_units) = ([34.0, 10.0], 1000.0);
    let limits = [0, 250, 500, 1000, 1500].map(|dense| flash.relocation.limit(dense));
    assert_eq!(limits, [34.0, 28.0, 22.0, 10.0, 10.0]);
}
