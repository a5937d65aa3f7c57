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
    for feature in [0x25, 0xC5] {
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
    assert_eq!(word(identity, 96), 1 << 21); // CTRATT: PMS
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
