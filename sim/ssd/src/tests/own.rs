//! The drive's own accounts as a driver meets them: commands, refusals, fields of Identify and of the SMART / Health log.

use super::{entry, profile, status, Seen};
use crate::driver::Device;
use crate::nvme::{admin, Status};
use crate::profile::{Profile, S};
use crate::{Controller, Options};
use wattbell_bus::Body;

fn drive(change: impl FnOnce(&mut Profile)) -> Device<Seen> {
    let mut profile = profile();
    change(&mut profile);
    Device::start(Controller::new(profile, Options::default(), Seen::default()), 2).unwrap()
}

fn all(profile: &mut Profile) {
    let offer = &mut profile.offer;
    for flag in [&mut offer.power_measurement, &mut offer.smart_power, &mut offer.latency_monitor] {
        flag.value = true;
    }
    for flag in [&mut offer.power_limit, &mut offer.power_threshold] {
        flag.value = true;
    }
}

fn set(feature: u32, word: u32) -> [u8; 64] {
    entry(admin::SET_FEATURES, 0, [0; 2], [feature, word, 0, 0])
}

fn get(d: &mut Device<Seen>, feature: u32, select: u32) -> Result<u32, Status> {
    let completion = d.command(0, entry(admin::GET_FEATURES, 0, [0; 2], [feature | select << 8, 0, 0, 0])).unwrap().0;
    match completion.status {
        0 => Ok(completion.dw0),
        other => Err(Status(other)),
    }
}

fn log(d: &mut Device<Seen>, page: u64, log: u32) -> Result<Vec<u8>, Status> {
    match status(d, 0, entry(admin::GET_LOG_PAGE, 0, [page, 0], [127 << 16 | log, 0, 0, 0])) {
        0 => Ok(d.memory.at(page, 512).to_vec()),
        other => Err(Status(other)),
    }
}

fn word(d: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(d[at..at + 4].try_into().unwrap())
}

#[test]
fn a_drive_without_them_refuses_and_declares_nothing() {
    let mut d = drive(|_| {});
    let page = d.memory.allocate(4096);
    for feature in [0x23, 0x24, 0x25, 0xC5] {
        assert_eq!(Status(status(&mut d, 0, set(feature, 1))), Status::INVALID_FIELD);
        assert_eq!(Status(status(&mut d, 0, set(1 << 31 | feature, 1))), Status::NOT_SAVEABLE);
        assert_eq!([0, 1, 2, 3].map(|select| get(&mut d, feature, select)), [Err(Status::INVALID_FIELD); 4]);
    }
    assert_eq!(
        (log(&mut d, page, 0x25), log(&mut d, page, 0xC3)),
        (Err(Status::LOG_PAGE_INVALID), Err(Status::LOG_PAGE_INVALID))
    );
    d.sleep(3 * S);
    assert_eq!(log(&mut d, page, 2).unwrap()[232..244], [0; 12]);
    assert_eq!(status(&mut d, 0, entry(admin::IDENTIFY, 0, [page, 0], [1, 0, 0, 0])), 0);
    let identity = d.memory.at(page, 4096);
    assert_eq!((word(identity, 96), word(identity, 392)), (0, 0));
}

#[test]
fn identify_declares_what_there_is() {
    let mut d = drive(|p| {
        all(p);
        p.own_meter = Some(crate::profile::OwnMeterFacts::default());
        p.own_meter.as_mut().unwrap().sample_us.value = 2500;
    });
    let page = d.memory.allocate(4096);
    assert_eq!(status(&mut d, 0, entry(admin::IDENTIFY, 0, [page, 0], [1, 0, 0, 0])), 0);
    let identity = d.memory.at(page, 4096);
    assert_eq!(word(identity, 96), 1 << 20 | 1 << 21); // CTRATT: PLS, PMS
    assert_eq!((identity[385], word(identity, 388) >> 16), (2, 400)); // MUP: 4 W
    assert_eq!((identity[392], identity[393]), (250, 2)); // 250 times 10 us
    assert_eq!(word(identity, 394) & 0xFFFF, 1440);
}

#[test]
fn feature_25h_starts_stops_and_tells() {
    let mut d = drive(all);
    let page = d.memory.allocate(4096);
    assert_eq!([0, 1, 2, 3].map(|select| get(&mut d, 0x25, select)), [Ok(0), Ok(0), Ok(0), Ok(4)]);
    for bad in [2, 0xC, 1 | 1 << 4, 1 | 1441 << 16] {
        assert_eq!(Status(status(&mut d, 0, set(0x25, bad))), Status::INVALID_FIELD, "{bad:#x}");
    }
    assert_eq!(Status(status(&mut d, 0, set(1 << 31 | 0x25, 1))), Status::NOT_SAVEABLE);
    assert_eq!(status(&mut d, 0, set(0x25, 0)), 0, "a stop of nothing is no error");
    assert_eq!(status(&mut d, 0, set(0x25, 1 | 3 << 16)), 0);
    assert_eq!((get(&mut d, 0x25, 0), get(&mut d, 0x25, 1)), (Ok(3 << 16 | 1 << 8 | 1), Ok(0)));
    d.sleep(2 * S);
    d.reset_function().unwrap(); // the measurement goes on
    d.sleep(2 * S);
    assert_eq!(get(&mut d, 0x25, 0), Ok(3 << 16 | 1 << 8 | 1));
    assert_eq!(status(&mut d, 0, set(0x25, 0)), 0);
    let d25 = log(&mut d, page, 0x25).unwrap();
    assert!((3..=5).contains(&word(&d25, 8)), "{} intervals", word(&d25, 8));
}

/// The reported power agrees with the rail's records over the same whole second since the supply came.
#[test]
fn the_last_second_and_the_lifetime_are_the_rails() {
    let mut d = drive(all);
    let page = d.memory.allocate(4096);
    d.set_power_state(2).unwrap();
    d.sleep(4 * S);
    let smart = log(&mut d, page, 2).unwrap();
    let end = d.now / S * S;
    assert_eq!((word(&smart, 232), word(&smart, 236)), (1, 0), "some joules are begun watt-hours");
    assert_eq!(word(&smart, 240) >> 16, 1, "0.0001 W");
    let mut rails: Vec<(u64, f64)> = d
        .stop()
        .records
        .iter()
        .filter_map(|r| match r.body {
            Body::Rail(rail) => Some((r.time_ps, rail.current_na as f64 * 1e-9 * rail.voltage_nv as f64 * 1e-9)),
            _ => None,
        })
        .collect();
    rails.sort_by_key(|r| r.0);
    let ends = rails.iter().skip(1).map(|r| r.0).chain([u64::MAX]);
    let energy_j: f64 = rails
        .iter()
        .zip(ends)
        .map(|((start, watt), stop)| watt * (stop.clamp(end - S, end) - (*start).clamp(end - S, end)) as f64 * 1e-12)
        .sum();
    let reported_w = f64::from(word(&smart, 240) & 0xFFFF) * 1e-4;
    assert!((reported_w - energy_j).abs() < 1e-4, "{reported_w} W of {energy_j} J in a second");
}

#[test]
fn feature_c5h_takes_the_structure_and_is_refused_where_it_cannot_be_told() {
    let mut d = drive(all);
    let (page, buffer) = (d.memory.allocate(4096), d.memory.allocate(4096));
    d.memory.at(buffer, 4096).fill(0);
    d.memory.at(buffer, 13).copy_from_slice(&[0, 0, 0, 1, 2, 3, 0xFF, 0x0F, 0, 0, 0, 0, 1]);
    let configure = |save: u32| entry(admin::SET_FEATURES, 0, [buffer, 0], [save << 31 | 0xC5, 0, 0, 0]);
    assert_eq!((status(&mut d, 0, configure(0)), status(&mut d, 0, configure(1))), (0, 0));
    assert_eq!((get(&mut d, 0xC5, 0), get(&mut d, 0xC5, 3)), (Err(Status::INVALID_FIELD), Ok(5)));
    assert_eq!(log(&mut d, page, 0xC3).unwrap()[6..10], [0, 1, 2, 3]);
    d.memory.at(buffer + 3, 1)[0] = 0;
    assert_eq!(Status(status(&mut d, 0, configure(0))), Status::INVALID_FIELD);
}

fn limit(d: &mut Device<Seen>, save: u32, word: u32) -> Status {
    let mut e = entry(admin::SET_FEATURES, 0, [0; 2], [save << 31 | 0x23, 0, 0, 0]);
    e[52..56].copy_from_slice(&word.to_le_bytes()); // CDW13
    Status(status(d, 0, e))
}

/// NPSS, and maximum power, MXPS and NOPS of the five states that the 660p has.
fn states(d: &mut Device<Seen>, page: u64) -> (u8, Vec<(u16, u8)>) {
    assert_eq!(status(d, 0, entry(admin::IDENTIFY, 0, [page, 0], [1, 0, 0, 0])), 0);
    let identity = d.memory.at(page, 4096);
    let state = |i: usize| (word(identity, 2048 + 32 * i) as u16, identity[2048 + 32 * i + 3]);
    (identity[263], (0..5).map(state).collect())
}

/// Targets and times of the first five entries of APST.
fn apst(d: &mut Device<Seen>, page: u64) -> Vec<(u8, u8)> {
    assert_eq!(status(d, 0, entry(admin::GET_FEATURES, 0, [page, 0], [0x0C, 0, 0, 0])), 0);
    d.memory.at(page, 40).chunks(8).map(|entry| (entry[0] >> 3, entry[1])).collect()
}

/// The 660p declares 4, 3, 2.2, 0.03 and 0.004 W. Sections 8.1.18.6.1 and 8.1.18.6.2 say what a limit does to them.
#[test]
fn a_power_limit_hides_states_and_renumbers_the_others() {
    let mut d = drive(all);
    let page = d.memory.allocate(4096);
    let all_states = states(&mut d, page);
    assert_eq!(all_states, (4, vec![(400, 0), (300, 0), (220, 0), (300, 3), (40, 3)]));
    let table: Vec<u8> = [(3, 100), (3, 100), (3, 100), (4, 200), (0, 0)]
        .iter()
        .flat_map(|&(s, ms)| [s << 3, ms, 0, 0, 0, 0, 0, 0])
        .collect();
    d.memory.at(page, 256).fill(0);
    d.memory.at(page, 40).copy_from_slice(&table);
    assert_eq!(status(&mut d, 0, entry(admin::SET_FEATURES, 0, [page, 0], [0x0C, 1, 0, 0])), 0);
    for (word, want) in [
        (2 << 16 | 219, Status::INVALID_POWER_LIMIT),
        (1 << 16 | 21_999, Status::INVALID_POWER_LIMIT),
        (250, Status::INVALID_FIELD),
        (3 << 16 | 250, Status::INVALID_FIELD),
        (1 << 16 | 22_000, Status::SUCCESS),
        (2 << 16 | 299, Status::SUCCESS),
    ] {
        assert_eq!(limit(&mut d, 0, word), want, "{word:#x}");
    }
    assert_eq!(Status::INVALID_POWER_LIMIT.0 & 0x7FF, 0x13E);
    assert_eq!((get(&mut d, 0x23, 0), get(&mut d, 0x23, 2), get(&mut d, 0x23, 3)), (Ok(2 << 16 | 299), Ok(0), Ok(5)));
    assert_eq!(states(&mut d, page), (2, vec![(220, 0), (300, 3), (40, 3), (0, 0), (0, 0)]));
    assert_eq!(apst(&mut d, page), [(1, 100), (2, 200), (0, 0), (0, 0), (0, 0)]);
    assert_eq!(get(&mut d, 2, 0), Ok(0));
    assert_eq!(Status(status(&mut d, 0, set(2, 3))), Status::INVALID_FIELD);
    assert_eq!(status(&mut d, 0, set(2, 1)), 0);
    d.sleep(S / 10);
    assert_eq!((d.controller.power_state(), d.controller.power_w() < 0.2), (1, true));
    assert_eq!(status(&mut d, 0, set(2, 0)), 0);
    assert_eq!(limit(&mut d, 0, 2 << 16 | 300), Status::SUCCESS);
    assert_eq!(states(&mut d, page).0, 3);
    assert_eq!(limit(&mut d, 0, 0), Status::SUCCESS);
    assert_eq!(states(&mut d, page), all_states);
    assert_eq!(apst(&mut d, page), [(3, 100), (3, 100), (3, 100), (4, 200), (0, 0)]);
    assert_eq!(get(&mut d, 2, 0), Ok(2), "the state that the host asked for under the limit");
}

#[test]
fn a_saved_power_limit_comes_back_after_a_reset() {
    let mut d = drive(all);
    let page = d.memory.allocate(4096);
    assert_eq!(limit(&mut d, 1, 2 << 16 | 300), Status::SUCCESS);
    assert_eq!(limit(&mut d, 0, 2 << 16 | 220), Status::SUCCESS);
    assert_eq!(states(&mut d, page).0, 2);
    d.reset_function().unwrap();
    assert_eq!((states(&mut d, page).0, get(&mut d, 0x23, 0)), (3, Ok(2 << 16 | 300)));
}

/// Sends an event request and returns its identifier. DW0 and DW1 of all earlier completions become 0.
fn request_event(d: &mut Device<Seen>) -> u16 {
    let cq = d.queues[0].cq;
    (0..32).for_each(|i| d.memory.at(cq + 16 * i, 8).fill(0));
    d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0
}

/// DW0 and DW1 of the completion of that request, if it is there.
fn event(d: &mut Device<Seen>, cid: u16) -> Option<(u32, u32)> {
    let cq = d.queues[0].cq;
    let entries: Vec<Vec<u8>> = (0..32).map(|i| d.memory.at(cq + 16 * i, 16).to_vec()).collect();
    let mine = entries.iter().find(|e| u16::from_le_bytes([e[12], e[13]]) == cid && word(e, 0) != 0);
    mine.map(|e| (word(e, 0), word(e, 4)))
}

#[test]
fn one_event_follows_the_second_above_the_threshold() {
    let mut d = drive(all);
    let page = d.memory.allocate(4096);
    const ON: u32 = 1 << 31;
    for bad in [ON | 100, ON | 3 << 16 | 100, ON | 1 << 20 | 2 << 16 | 100] {
        assert_eq!(Status(status(&mut d, 0, set(0x24, bad))), Status::INVALID_FIELD, "{bad:#x}");
    }
    assert_eq!(status(&mut d, 0, set(0x24, ON | 2 << 16 | 300)), 0); // 3 W: an idle drive draws less
    let cid = request_event(&mut d);
    d.sleep(3 * S);
    assert_eq!((event(&mut d, cid), get(&mut d, 0x24, 0)), (None, Ok(ON | 2 << 16 | 300)));
    assert_eq!(status(&mut d, 0, set(0x24, ON | 2 << 16 | 40)), 0);
    let whole = d.now / S * S + S;
    d.sleep(whole - d.now - S / 1000);
    assert_eq!(event(&mut d, cid), None, "before the second is over");
    d.sleep(S / 500);
    let (dw0, dw1) = event(&mut d, cid).unwrap();
    assert_eq!(dw0, 0x0204);
    d.memory.handlers.clear();
    d.reap(0, d.now, &mut vec![]);
    assert_eq!(word(&log(&mut d, page, 2).unwrap(), 240), dw1);
    assert_eq!(get(&mut d, 0x24, 0), Ok(2 << 16 | 40), "the enable bit clears itself");
    let again = request_event(&mut d);
    d.sleep(3 * S);
    assert_eq!(event(&mut d, again), None, "one event");
}

#[test]
fn an_event_without_a_request_waits_and_is_reported_once() {
    let mut d = drive(all);
    const ON: u32 = 1 << 31;
    assert_eq!(status(&mut d, 0, set(0x24, ON | 2 << 16 | 40)), 0);
    d.sleep(3 * S);
    assert_eq!(get(&mut d, 0x24, 0), Ok(ON | 2 << 16 | 40), "not reported yet");
    let cid = request_event(&mut d);
    d.sleep(S / 1000);
    assert_eq!(event(&mut d, cid).map(|e| e.0), Some(0x0204));
    d.memory.handlers.clear();
    d.reap(0, d.now, &mut vec![]);
    assert_eq!(get(&mut d, 0x24, 0), Ok(2 << 16 | 40));
    // a host that changes its mind: what waited is forgotten
    assert_eq!(status(&mut d, 0, set(0x24, ON | 2 << 16 | 40)), 0);
    d.sleep(2 * S);
    assert_eq!(status(&mut d, 0, set(0x24, 0)), 0);
    let none = request_event(&mut d);
    d.sleep(2 * S);
    assert_eq!(event(&mut d, none), None);
}
