//! The controller as a driver meets it: commands, errors, queues, interrupts, data, power.

mod offer;
mod own;
mod wired;

use crate::driver::{Device, Memory};
use crate::host::{BusSink, CommandTruth, Host};
use crate::nvme::{admin, io, Status};
use crate::pcie::port::Aspm;
use crate::profile::{Profile, Ps, MS, US};
use crate::{Controller, Options};
use wattbell_bus::{Body, Direction, Record, Signal};

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) records: Vec<Record>,
    pub(crate) commands: Vec<CommandTruth>,
    released: Ps,
}

impl BusSink for Seen {
    fn record(&mut self, record: Record) {
        assert!(record.time_ps >= self.released, "{record:?} comes after {} ps was released", self.released);
        self.records.push(record);
    }
    fn release(&mut self, horizon_ps: Ps) {
        self.released = horizon_ps;
    }
    fn command(&mut self, command: &CommandTruth) {
        self.commands.push(*command);
    }
}

pub(crate) fn profile() -> Profile {
    Profile::load("intel-660p-1tb").unwrap()
}

pub(crate) fn drive(options: Options) -> Device<Seen> {
    Device::start(Controller::new(profile(), options, Seen::default()), 2).unwrap()
}

pub(crate) fn entry(opcode: u8, nsid: u32, prp: [u64; 2], cdw: [u32; 4]) -> [u8; 64] {
    let mut e = [0; 64];
    e[0] = opcode;
    e[4..8].copy_from_slice(&nsid.to_le_bytes());
    e[24..32].copy_from_slice(&prp[0].to_le_bytes());
    e[32..40].copy_from_slice(&prp[1].to_le_bytes());
    for (i, word) in cdw.iter().enumerate() {
        e[40 + 4 * i..44 + 4 * i].copy_from_slice(&word.to_le_bytes());
    }
    e
}

pub(crate) fn status(device: &mut Device<Seen>, queue: usize, e: [u8; 64]) -> u16 {
    device.command(queue, e).unwrap().0.status
}

#[test]
fn every_refusal_has_the_status_of_the_specification() {
    let mut d = drive(Options::default());
    let page = d.memory.allocate(4096);
    let lbas = *profile().namespace.lbas_512 as u32;
    let admin_cases = [
        (entry(0x7C, 0, [0; 2], [0; 4]), Status::INVALID_OPCODE), // Doorbell Buffer Config is not offered
        (entry(admin::GET_FEATURES, 0, [0; 2], [0xD0, 0x101, 0, 0]), Status::INVALID_FIELD), // the in-band marker
        (entry(admin::SET_FEATURES, 0, [0; 2], [0x02, 5, 0, 0]), Status::INVALID_FIELD), // no such power state
        (entry(admin::SET_FEATURES, 0, [0; 2], [1 << 31 | 7, 1, 0, 0]), Status::NOT_SAVEABLE),
        (entry(admin::SET_FEATURES, 0, [0; 2], [0x07, 0, 0, 0]), Status::SEQUENCE_ERROR), // queues exist
        (entry(admin::IDENTIFY, 2, [page, 0], [0, 0, 0, 0]), Status::INVALID_NAMESPACE),
        (entry(admin::IDENTIFY, 0, [page, 0], [0x7F, 0, 0, 0]), Status::INVALID_FIELD),
        (entry(admin::IDENTIFY, 0, [page + 2, 0], [1, 0, 0, 0]), Status::INVALID_PRP_OFFSET),
        (entry(admin::GET_LOG_PAGE, 0, [page, 0], [0x7F << 16 | 0xC0, 0, 0, 0]), Status::LOG_PAGE_INVALID),
        (entry(admin::CREATE_IO_CQ, 0, [page, 0], [7 << 16 | 1, 1, 0, 0]), Status::QID_INVALID), // exists
        (entry(admin::CREATE_IO_CQ, 0, [page, 0], [7 << 16 | 3, 1, 0, 0]), Status::QID_INVALID), // beyond what was granted
        (entry(admin::CREATE_IO_SQ, 0, [page, 0], [7 << 16 | 1, 9 << 16 | 1, 0, 0]), Status::CQ_INVALID),
        (entry(admin::DELETE_IO_CQ, 0, [0; 2], [1, 0, 0, 0]), Status::QUEUE_DELETION_INVALID),
        (entry(admin::DELETE_IO_SQ, 0, [0; 2], [9, 0, 0, 0]), Status::QID_INVALID),
        (entry(admin::DELETE_IO_SQ, 0, [0; 2], [0, 0, 0, 0]), Status::QID_INVALID),
    ];
    for (e, want) in admin_cases {
        assert_eq!(Status(status(&mut d, 0, e)), want, "{e:02x?}");
    }
    let far = entry(io::READ, 1, [page, 0], [lbas - 1, 0, 1, 0]);
    let io_cases = [
        (entry(0x7F, 1, [0; 2], [0; 4]), Status::INVALID_OPCODE),
        (far, Status::LBA_OUT_OF_RANGE),
        (entry(io::READ, 1, [page, 0], [u32::MAX, u32::MAX, 7, 0]), Status::LBA_OUT_OF_RANGE),
        (entry(io::READ, 2, [page, 0], [0, 0, 7, 0]), Status::INVALID_NAMESPACE),
        (entry(io::WRITE, 1, [page, 0], [0, 0, 511, 0]), Status::INVALID_FIELD), // 256 KiB, MDTS is 128 KiB
        (entry(io::READ, 1, [page, page + 8], [0, 0, 15, 0]), Status::INVALID_PRP_OFFSET),
        (entry(io::READ, 1, [page, 0], [0, 0, 7, 0]), Status::SUCCESS),
        (entry(io::FLUSH, u32::MAX, [0; 2], [0; 4]), Status::SUCCESS),
    ];
    for (e, want) in io_cases {
        assert_eq!(Status(status(&mut d, 1, e)), want, "{e:02x?}");
    }
    let mut sgl = entry(io::READ, 1, [page, 0], [0, 0, 7, 0]);
    sgl[1] = 0x40;
    assert_eq!(Status(status(&mut d, 1, sgl)), Status::SGL_NOT_SUPPORTED);
    // The two LBA errors are in the error log, the newest first.
    assert_eq!(status(&mut d, 0, entry(admin::GET_LOG_PAGE, 0, [page, 0], [31 << 16 | 1, 0, 0, 0])), 0);
    let log = d.memory.at(page, 128);
    assert_eq!((log[0], log[64]), (2, 1));
    assert_eq!(u32::from_le_bytes([log[80], log[81], log[82], log[83]]), lbas - 1);
}

#[test]
fn data_comes_back_through_any_prp_layout() {
    let mut d = drive(Options { store: true, ..Options::default() });
    let (buffer, list) = (d.memory.allocate(64 * 4096), d.memory.allocate(8192));
    let pattern: Vec<u8> = (0..128 * 512u32).map(|i| (i * 7 + i / 512) as u8).collect();
    for (blocks, offset) in [(1u64, 0u64), (8, 0), (8, 512), (16, 0), (24, 1024), (128, 0), (128, 4)] {
        let bytes = blocks * 512;
        let pages = (offset + bytes).div_ceil(4096);
        let at = list + 4088; // the list begins at the last entry of a page: it must chain where it is longer
        let mut slots = vec![at];
        if pages > 2 + 1 {
            d.memory.at(at, 8).copy_from_slice(&(list + 4096).to_le_bytes());
            slots = (0..pages).map(|i| list + 4096 + 8 * i).collect();
        }
        let prp2 = if pages == 2 { buffer + 4096 } else { at };
        if pages == 3 {
            slots = vec![list, list + 8];
        }
        for (i, slot) in slots.iter().enumerate().take(pages as usize - 1).filter(|_| pages > 2) {
            d.memory.at(*slot, 8).copy_from_slice(&(buffer + 4096 * (i as u64 + 1)).to_le_bytes());
        }
        let prp = [buffer + offset, if pages == 3 { list } else { prp2 }];
        let cdw = [1001, 0, blocks as u32 - 1, 0];
        d.memory.at(buffer + offset, bytes as usize).copy_from_slice(&pattern[..bytes as usize]);
        assert_eq!(status(&mut d, 1, entry(io::WRITE, 1, prp, cdw)), 0);
        d.memory.at(buffer, 64 * 4096).fill(0xEE);
        assert_eq!(status(&mut d, 1, entry(io::READ, 1, prp, cdw)), 0);
        assert!(d.memory.at(buffer + offset, bytes as usize) == &pattern[..bytes as usize], "{blocks} at {offset}");
        assert_eq!(d.memory.at(buffer + offset + bytes, 1), [0xEE]);
    }
    // Deallocated blocks read as zeroes, their neighbours as written.
    let range = d.memory.at(list, 16);
    range[4..8].copy_from_slice(&2u32.to_le_bytes());
    range[8..16].copy_from_slice(&1002u64.to_le_bytes());
    assert_eq!(status(&mut d, 1, entry(io::DSM, 1, [list, 0], [0, 4, 0, 0])), 0);
    assert_eq!(status(&mut d, 1, entry(io::READ, 1, [buffer, 0], [1001, 0, 3, 0])), 0);
    let got = d.memory.at(buffer, 2048).to_vec();
    assert!(
        got[..512] == pattern[..512] && got[512..1536].iter().all(|&b| b == 0) && got[1536..] == pattern[1536..2048]
    );
}

#[test]
fn queues_wrap_and_every_command_is_answered_once() {
    let mut d = drive(Options::default());
    let buffer = d.memory.allocate_user(4096);
    for i in 0..2500u32 {
        assert_eq!(status(&mut d, 1, entry(io::READ, 1, [buffer, 0], [i * 8, 0, 7, 0])), 0);
        // 2.4 turns of the queue
    }
    let seen = d.stop();
    let io: Vec<_> = seen.commands.iter().filter(|c| c.qid == 1).collect();
    assert_eq!(io.len(), 2500);
    for c in io {
        let (first, last) = (c.first_data_ps.unwrap(), c.last_data_ps.unwrap());
        let order = [c.doorbell_ps, c.fetch_ps, first, last, c.cqe_ps, c.msix_ps.unwrap(), c.cq_head_ps.unwrap()];
        assert!(order.windows(2).all(|w| w[0] <= w[1]), "{c:?}");
    }
}

#[test]
fn a_full_completion_queue_holds_completions_back() {
    let mut d = drive(Options::default());
    let (cq, sq) = (d.memory.allocate(4096), d.memory.allocate(4096));
    assert_eq!(status(&mut d, 0, entry(admin::DELETE_IO_SQ, 0, [0; 2], [2, 0, 0, 0])), 0);
    assert_eq!(status(&mut d, 0, entry(admin::DELETE_IO_CQ, 0, [0; 2], [2, 0, 0, 0])), 0);
    assert_eq!(status(&mut d, 0, entry(admin::CREATE_IO_CQ, 0, [cq, 0], [3 << 16 | 2, 1, 0, 0])), 0); // 4 entries
    assert_eq!(status(&mut d, 0, entry(admin::CREATE_IO_SQ, 0, [sq, 0], [15 << 16 | 2, 2 << 16 | 1, 0, 0])), 0);
    for i in 0..8u64 {
        let mut e = entry(io::FLUSH, 1, [0; 2], [0; 4]);
        e[2] = i as u8;
        d.memory.at(sq + 64 * i, 64).copy_from_slice(&e);
    }
    let phases = |d: &mut Device<Seen>| (0..4).map(|i| d.memory.at(cq + 16 * i, 16)[14] & 1).collect::<Vec<_>>();
    d.controller.mmio_write(d.now, 0x1000 + 16, 4, 8, &mut d.memory);
    d.sleep(10 * MS);
    assert_eq!(phases(&mut d), [1, 1, 1, 0]); // three of four: the host has released none
    d.controller.mmio_write(d.now, 0x1000 + 20, 4, 3, &mut d.memory);
    d.sleep(10 * MS);
    assert_eq!(phases(&mut d), [0, 0, 1, 1]); // three more, around the end, with the other phase
    let cids: Vec<u8> = (0..4).map(|i| d.memory.at(cq + 16 * i, 16)[12]).collect();
    assert_eq!(cids, [4, 5, 2, 3]);
}

#[test]
fn an_event_request_waits_for_an_event() {
    let mut d = drive(Options::default());
    let cid = d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0;
    d.sleep(MS);
    assert!(d.memory.handlers.is_empty());
    d.controller.mmio_write(d.now, 0x1000 + 8 * 9, 4, 1, &mut d.memory); // a queue that does not exist
    d.sleep(MS);
    let mut done = vec![];
    d.reap(0, d.now, &mut done);
    assert_eq!(done.iter().map(|c| (c.cid, c.dw0, c.status)).collect::<Vec<_>>(), [(cid, 0x0001_0000, 0)]);
}

#[test]
fn a_controller_reset_forgets_queues_and_comes_back() {
    let mut d = drive(Options::default());
    let buffer = d.memory.allocate_user(4096);
    d.submit(1, d.now, entry(io::READ, 1, [buffer, 0], [0, 0, 7, 0]));
    d.controller.mmio_write(d.now + 2 * US, 0x14, 4, 0, &mut d.memory);
    d.sleep(10 * MS);
    assert!(d.memory.handlers.is_empty(), "the read died with the reset");
    let (csts, _) = d.controller.mmio_read(d.now, 0x1C, 4, &mut d.memory);
    assert_eq!(csts & 1, 0);
    d.controller.mmio_write(d.now, 0x14, 4, 6 << 16 | 4 << 20 | 1, &mut d.memory);
    d.sleep(200 * MS);
    let (csts, _) = d.controller.mmio_read(d.now, 0x1C, 4, &mut d.memory);
    assert_eq!(csts & 3, 1);
}

#[test]
fn a_host_that_asks_while_the_link_wakes_asks_again_when_it_has_the_answer() {
    let mut d = drive(Options::default());
    d.set_aspm(Aspm::L1_2);
    d.sleep(300 * MS);
    let asked = d.now;
    // a host in real time: the model is 75 us ahead, and no two requests may use the one tag at the same time
    d.controller.mmio_read(asked, 0x00, 4, &mut d.memory);
    d.controller.cfg_read(asked, 0x00, 4, &mut d.memory);
    d.controller.cfg_write(asked, 0x04, 2, 0x0406, &mut d.memory);
    d.controller.mmio_read(asked, 0x04, 4, &mut d.memory);
    let seen = d.stop();
    let turns: Vec<(Direction, Ps)> = seen
        .records
        .iter()
        .filter(|r| r.time_ps > asked)
        .filter_map(|r| match &r.body {
            Body::Tlp(direction, _) => Some((*direction, r.time_ps)),
            _ => None,
        })
        .take(8)
        .collect();
    let directions: Vec<Direction> = turns.iter().map(|turn| turn.0).collect();
    assert_eq!(directions, [Direction::Down, Direction::Up].repeat(4));
    assert!(turns.windows(2).all(|pair| pair[0].1 < pair[1].1), "{turns:?}");
}

#[test]
fn a_doorbell_waits_for_the_link_and_the_fetch_for_the_controller() {
    let mut d = drive(Options::default());
    d.set_aspm(Aspm::L1_2);
    d.set_apst(true).unwrap();
    d.sleep(300 * MS);
    assert_eq!(d.controller.power_state(), 4);
    assert!((d.controller.power_w() - 0.010).abs() < 1e-4, "{} W", d.controller.power_w());
    let (asked, buffer) = (d.now, d.memory.allocate_user(4096));
    let (_, doorbell, _) = d.command(1, entry(io::READ, 1, [buffer, 0], [0, 0, 7, 0])).unwrap();
    assert!(doorbell >= asked + 75 * US, "the link needs 75 us to leave L1.2");
    let seen = d.stop();
    let read = seen.commands.iter().find(|c| c.qid == 1).unwrap();
    assert_eq!(read.doorbell_ps, doorbell);
    let woken = read.fetch_ps - doorbell;
    assert!(woken.abs_diff(54_800 * US) < 5 * 1096 * US, "five sigma of 2 %: {woken}");
    let clkreq: Vec<u8> = seen
        .records
        .iter()
        .filter_map(|r| match r.body {
            Body::Sideband(Signal::ClkreqN, level) => Some(level),
            _ => None,
        })
        .collect();
    assert!(clkreq.len() >= 3 && clkreq.windows(2).all(|w| w[0] != w[1]), "{clkreq:?}");
}

#[test]
fn tlps_of_a_direction_never_overlap() {
    let mut d = drive(Options::default());
    let buffer = d.memory.allocate_user(1 << 20);
    let list = d.memory.allocate(4096);
    for i in 0..31u64 {
        d.memory.at(list + 8 * i, 8).copy_from_slice(&(buffer + 4096 * (i + 1)).to_le_bytes());
    }
    for i in 0..40u32 {
        let opcode = [io::READ, io::WRITE][i as usize % 2];
        d.submit(1 + i as usize % 2, d.now, entry(opcode, 1, [buffer, list], [i * 256, 0, 255, 0]));
    }
    d.sleep(50 * MS);
    let mut records = d.stop().records;
    records.sort_by_key(|r| r.time_ps);
    let link = wattbell_bus::link::Link::GEN3_X4;
    let mut free = [0; 2];
    for r in &records {
        let (direction, end): (Direction, Ps) = match &r.body {
            Body::Tlp(direction, tlp) => (*direction, r.time_ps + link.tlp_ps(&tlp.header)),
            Body::Burst(b) => (b.direction, r.time_ps + u64::from(b.count) * u64::from(b.step_ps)),
            _ => continue,
        };
        assert!(r.time_ps >= free[direction as usize], "{r:?} starts before {} ps", free[direction as usize]);
        free[direction as usize] = end;
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_not_a_crash() {
    let mut d = drive(Options { store: true, ..Options::default() });
    let nowhere = 0xDEAD_0000_0000;
    let failed = Status::DATA_TRANSFER_ERROR.0;
    for (opcode, prp) in [(io::READ, [nowhere, 0]), (io::WRITE, [nowhere, 0]), (io::WRITE, [0x1000_0000, nowhere])] {
        let blocks = if prp[1] == 0 { 7 } else { 63 };
        assert_eq!(status(&mut d, 1, entry(opcode, 1, prp, [0, 0, blocks, 0])), failed);
    }
    assert!(!Memory::default().read(0, &mut [0]));
}

#[test]
fn the_table_that_the_host_tells_of_apst_is_what_the_drive_does() {
    let mut d = drive(Options::default());
    d.set_apst(true).unwrap();
    let (table, mut state) = (d.apst_table(), 0);
    while let Some(&(_, target, wait_ms)) = table.iter().find(|row| row.0 == state) {
        d.sleep(Ps::from(wait_ms - 60) * MS);
        assert_eq!(d.controller.power_state(), state, "before its time");
        d.sleep(120 * MS);
        assert_eq!(d.controller.power_state(), target);
        state = target;
    }
    assert_eq!(state, 4);
}

#[test]
fn writes_and_wake_ups_vary_with_the_seed_and_the_profile_says_how_much() {
    let times = |seed: u64, spread: f64| {
        let mut profile = profile();
        profile.controller.spread.value = spread;
        profile.controller.wake_spread.value = spread;
        let options = Options { seed, ..Options::default() };
        let mut d = Device::start(Controller::new(profile, options, Seen::default()), 2).unwrap();
        d.set_apst(true).unwrap();
        let buffer = d.memory.allocate_user(4096);
        for lba in 0..20 {
            d.command(1, entry(io::WRITE, 1, [buffer, 0], [8 * lba, 0, 7, 0])).unwrap();
            d.sleep(MS / 2);
        }
        for lba in 20..24 {
            d.sleep(300 * MS);
            d.command(1, entry(io::READ, 1, [buffer, 0], [8 * lba, 0, 7, 0])).unwrap();
        }
        let seen = d.stop();
        let io = seen.commands.iter().filter(|c| c.qid == 1);
        io.map(|c| (c.cqe_ps - c.fetch_ps, c.fetch_ps - c.doorbell_ps)).collect::<Vec<_>>()
    };
    let distinct = |mut times: Vec<Ps>| {
        times.sort_unstable();
        times.dedup();
        times.len()
    };
    let (one, same, other, none) = (times(1, 0.1), times(1, 0.1), times(2, 0.1), times(1, 0.0));
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert!(distinct(one[..20].iter().map(|t| t.0).collect()) >= 19, "{one:?}");
    assert_eq!(distinct(one[20..].iter().map(|t| t.1).collect()), 4, "{one:?}");
    assert!(distinct(none[..20].iter().map(|t| t.0).collect()) <= 3, "{none:?}");
    assert_eq!(distinct(none[20..].iter().map(|t| t.1).collect()), 1, "{none:?}");
}

#[test]
fn a_full_cache_is_folded_in_three_minutes_of_idle() {
    let mut d = drive(Options { condition: crate::Condition::Full, ..Options::default() });
    let before = d.controller.holdings();
    d.sleep(180 * 1000 * MS);
    let after = d.controller.holdings();
    assert!(before.in_slc * 4096 > 11_900_000_000, "{before:?}");
    assert!(after.in_slc < before.in_slc / 10, "12 GB at some 100 MB/s: {after:?}");
    assert_eq!(after.in_slc + after.in_dense, before.in_slc + before.in_dense);
}

#[test]
fn a_restart_leaves_a_drive_as_after_power_on_and_its_rail_shows_how() {
    let mut d = drive(Options::default());
    let power_cycles = |d: &mut Device<Seen>| {
        let page = d.memory.allocate(4096);
        let log = entry(admin::GET_LOG_PAGE, u32::MAX, [page, 0], [127 << 16 | 2, 0, 0, 0]);
        assert_eq!(status(d, 0, log), 0);
        d.memory.at(page + 112, 1)[0]
    };
    assert_eq!(power_cycles(&mut d), 1);
    d.set_power_state(4).unwrap();
    d.set_write_cache(false).unwrap();
    let warm = d.restart(None).unwrap();
    assert_eq!((warm.restart.off_on, power_cycles(&mut d)), (None, 1));
    assert_eq!(d.controller.power_state(), 0);
    let cold = d.restart(Some(50 * MS)).unwrap();
    let (off, on) = cold.restart.off_on.unwrap();
    assert!(on - off >= 50 * MS && on - off < 51 * MS + MS);
    assert_eq!(power_cycles(&mut d), 2);
    let cache = d.command(0, entry(admin::GET_FEATURES, 0, [0; 2], [0x06, 0, 0, 0])).unwrap().0;
    assert_eq!((cache.status, cache.dw0), (0, 1), "a feature that was not saved is as after power-on");
    d.sleep(10 * MS);

    let records = std::mem::take(&mut d.controller.sink().records);
    let tlps = |from: Ps, to: Ps| {
        records.iter().filter(|r| matches!(r.body, Body::Tlp(..)) && r.time_ps >= from && r.time_ps < to).count()
    };
    for restart in [warm.restart, cold.restart] {
        assert_eq!(tlps(restart.perst_low, restart.link_up + 100 * MS), 0, "not a TLP before configuration may begin");
        let perst = |at: Ps, level: u8| {
            records.iter().any(|r| r.time_ps == at && r.body == Body::Sideband(Signal::PerstN, level))
        };
        assert!(perst(restart.perst_low, 0) && perst(restart.perst_high, 1));
    }
    let mut rails: Vec<(Ps, f64, f64)> = records
        .iter()
        .filter_map(|r| match r.body {
            Body::Rail(rail) => Some((r.time_ps, rail.current_na as f64 * 1e-9, rail.voltage_nv as f64 * 1e-9)),
            _ => None,
        })
        .collect();
    rails.sort_by_key(|r| r.0);
    let sums = |from: Ps, to: Ps| {
        rails.windows(2).filter(|w| w[0].0 >= from && w[1].0 <= to).fold((0.0, 0.0), |(charge, energy), w| {
            let seconds = (w[1].0 - w[0].0) as f64 * 1e-12;
            (charge + w[0].1 * seconds, energy + w[0].1 * w[0].2 * seconds)
        })
    };
    assert!(rails.iter().filter(|r| (off..on).contains(&r.0)).all(|r| r.1 == 0.0 && r.2 == 0.0), "no supply, no power");
    let (charge, energy) = sums(on, on + 2 * MS);
    assert!((charge - 100e-6 * 3.3).abs() < 1e-9, "{charge} C: what 100 uF hold at 3.3 V");
    assert!((energy - 0.5 * 100e-6 * 3.3 * 3.3).abs() < 1e-6, "{energy} J: half of C V^2");
    assert!(rails.iter().any(|r| r.0 == on + 2 * MS && (r.1 * r.2 - 0.9).abs() < 1e-6), "boot_w from then on");
    let ready = cold.enabled + 120 * MS;
    let after = rails.iter().find(|r| r.0 >= ready).unwrap();
    assert!(
        after.0 < ready + MS && (after.1 * after.2 - 0.59).abs() < 1e-6,
        "PS0 and the link from CSTS.RDY on: {after:?}"
    );
}
