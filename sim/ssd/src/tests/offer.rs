//! Functions that a controller offers beyond reading and writing, as a driver sees them.

use super::{entry, profile, status, Seen};
use crate::driver::Device;
use crate::nvme::feature;
use crate::nvme::{admin, io, Status};
use crate::profile::{Profile, MS, S, US};
use crate::{Controller, Options, Throttle};

const STORE: Options = Options {
    seed: 0,
    condition: crate::Condition::TestData,
    data_bytes: None,
    store: true,
    msix_outside: false,
    wired: false,
};

/// A drive of the 660p's profile, changed by `change`, that keeps data.
fn drive(change: impl FnOnce(&mut Profile)) -> Device<Seen> {
    let mut profile = profile();
    profile.offer.erase_ms.value = 800;
    change(&mut profile);
    Device::start(Controller::new(profile, STORE, Seen::default()), 2).unwrap()
}

fn set(feature: u8, value: u32) -> [u8; 64] {
    entry(admin::SET_FEATURES, 0, [0; 2], [u32::from(feature), value, 0, 0])
}

/// DW0 of Get Features with this Select.
fn get(d: &mut Device<Seen>, feature: u8, select: u32) -> Result<u32, Status> {
    let e = entry(admin::GET_FEATURES, 0, [0; 2], [u32::from(feature) | select << 8, 0, 0, 0]);
    let completion = d.command(0, e).unwrap().0;
    if completion.status == 0 {
        Ok(completion.dw0)
    } else {
        Err(Status(completion.status))
    }
}

/// 512 bytes of a log page; the event it belongs to is cleared.
fn log(d: &mut Device<Seen>, page: u64, log: u32) -> Vec<u8> {
    assert_eq!(status(d, 0, entry(admin::GET_LOG_PAGE, 0, [page, 0], [127 << 16 | log, 0, 0, 0])), 0);
    d.memory.at(page, 512).to_vec()
}

fn identify(d: &mut Device<Seen>, page: u64, nsid: u32, cns: u32) -> Vec<u8> {
    assert_eq!(status(d, 0, entry(admin::IDENTIFY, nsid, [page, 0], [cns, 0, 0, 0])), 0);
    d.memory.at(page, 4096).to_vec()
}

fn word(d: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]])
}

fn long(d: &[u8], at: usize) -> u64 {
    u64::from(word(d, at)) | u64::from(word(d, at + 4)) << 32
}

/// One block or more, at `slba`.
fn blocks(opcode: u8, nsid: u32, page: u64, slba: u32, count: u32) -> [u8; 64] {
    entry(opcode, nsid, [page, 0], [slba, 0, count - 1, 0])
}

/// Returns the arrivals on the admin queue: identifier, DW0, status.
fn arrived(d: &mut Device<Seen>) -> Vec<(u16, u32, u16)> {
    let mut done = vec![];
    d.memory.handlers.clear();
    d.reap(0, d.now, &mut done);
    done.iter().map(|c| (c.cid, c.dw0, c.status)).collect()
}

fn reset(d: &mut Device<Seen>) {
    d.controller.mmio_write(d.now, 0x14, 4, 0, &mut d.memory);
    d.sleep(MS);
    d.memory.handlers.clear();
}

#[test]
fn sqhd_counts_the_entries_that_have_arrived() {
    let mut d = drive(|p| p.link.host_read_ns.value = 20_000);
    let flush = entry(io::FLUSH, 1, [0; 2], [0; 4]);
    let cq = d.queues[1].cq;
    d.submit(1, d.now, flush);
    d.submit(1, d.now + 15 * US, flush); // asked for while the first is at work, here only after its completion
    d.sleep(31 * US);
    let first = d.memory.at(cq, 16).to_vec();
    assert_eq!((first[14] & 1, word(&first, 8) & 0xFFFF), (1, 1));
    d.sleep(MS);
    assert_eq!(word(d.memory.at(cq + 16, 16), 8) & 0xFFFF, 2);
}

#[test]
fn queues_take_turns_in_bursts_of_the_length_the_host_set() {
    for (burst, want) in [(0u32, 1), (2, 4), (7, 24)] {
        let mut d = drive(|_| {});
        assert_eq!(status(&mut d, 0, set(feature::ARBITRATION, burst)), 0);
        let flush = entry(io::FLUSH, 1, [0; 2], [0; 4]);
        let at = d.now;
        for i in 0..48 {
            d.submit(1 + i / 24, at, flush);
        }
        d.sleep(MS);
        for queue in [1, 2] {
            d.reap(queue, d.now, &mut vec![]);
        }
        let seen = d.stop();
        let mut order: Vec<_> = seen.commands.iter().filter(|c| c.qid > 0).map(|c| (c.fetch_ps, c.qid)).collect();
        assert_eq!(order.len(), 48);
        order.sort_unstable();
        let longest = order.chunk_by(|a, b| a.1 == b.1).map(<[_]>::len).take(3).max();
        assert_eq!(longest, Some(want), "burst {burst}");
    }
}

#[test]
fn compare_tells_equal_from_different_and_write_uncorrectable_is_undone_by_a_write() {
    let mut d = drive(|_| {});
    let page = d.memory.allocate(8192);
    d.memory.at(page, 4096).fill(0x5A);
    assert_eq!(status(&mut d, 1, blocks(io::WRITE, 1, page, 4, 8)), 0);
    assert_eq!(status(&mut d, 1, blocks(io::COMPARE, 1, page, 4, 8)), 0);
    d.memory.at(page + 4095, 1)[0] = 0;
    assert_eq!(Status(status(&mut d, 1, blocks(io::COMPARE, 1, page, 4, 8))), Status::COMPARE_FAILURE);
    assert_eq!(status(&mut d, 1, blocks(io::COMPARE, 1, page, 4, 7)), 0);
    assert_eq!(status(&mut d, 1, blocks(io::WRITE_UNCORRECTABLE, 1, 0, 6, 1)), 0);
    assert_eq!(Status(status(&mut d, 1, blocks(io::READ, 1, page + 4096, 4, 8))), Status::UNRECOVERED_READ);
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page + 4096, 4, 2)), 0);
    assert_eq!(status(&mut d, 1, blocks(io::WRITE, 1, page, 6, 1)), 0);
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page + 4096, 4, 8)), 0);
    assert_eq!(d.memory.at(page + 4096, 4096), vec![0x5A; 4096]);
    let health = log(&mut d, page, 2);
    let counters = [32, 48, 64, 80, 160, 176].map(|at| long(&health, at));
    // data units of 1000 blocks; 3 compares and 2 reads that worked, 2 writes; 1 media error; 2 entries of the error log
    assert_eq!(counters, [1, 1, 5, 2, 1, 2]);
}

#[test]
fn a_format_takes_its_time_refuses_io_and_changes_the_block_size() {
    let mut d = drive(|_| {});
    let page = d.memory.allocate(8192);
    d.memory.at(page, 4096).fill(0x77);
    assert_eq!(status(&mut d, 1, blocks(io::WRITE, 1, page, 0, 8)), 0);
    let format = |ses: u32, lbaf: u32| entry(admin::FORMAT_NVM, 1, [0; 2], [ses << 9 | lbaf, 0, 0, 0]);
    for (e, want) in [(format(3, 0), Status::INVALID_FIELD), (format(0, 2), Status::INVALID_FORMAT)] {
        assert_eq!(Status(status(&mut d, 0, e)), want);
    }
    let start = d.now;
    d.submit(0, d.now, format(1, 1));
    d.sleep(200 * MS);
    assert_eq!(Status(status(&mut d, 1, blocks(io::READ, 1, page, 0, 8))), Status::FORMAT_IN_PROGRESS);
    assert_eq!(identify(&mut d, page, 1, 0)[32], 0x80 | 75);
    assert!(d.controller.power_w() > 1.5, "all dies are at work: {} W", d.controller.power_w());
    d.sleep(590 * MS);
    assert_eq!(arrived(&mut d), []);
    d.sleep(start + 801 * MS - d.now);
    assert_eq!(arrived(&mut d).len(), 1);
    let lbas = *profile().namespace.lbas_512;
    let structure = identify(&mut d, page, 1, 0);
    assert_eq!((long(&structure, 0), structure[26]), (lbas / 8, 1));
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page, 0, 1)), 0);
    assert_eq!(d.memory.at(page, 4096), vec![0; 4096]);
    // The last block of 4096 bytes is there, and 512-byte addresses beyond are not.
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page, lbas as u32 / 8 - 1, 1)), 0);
    assert_eq!(Status(status(&mut d, 1, blocks(io::READ, 1, page, lbas as u32 / 8, 1))), Status::LBA_OUT_OF_RANGE);
}

#[test]
fn sanitize_goes_on_through_a_reset_and_says_when_it_is_done() {
    let mut d = drive(|_| {});
    let page = d.memory.allocate(8192);
    d.memory.at(page, 4096).fill(0x77);
    assert_eq!(log(&mut d, page + 4096, 0x81)[2..4], [0, 1]); // never sanitized, nothing written
    assert_eq!(status(&mut d, 1, blocks(io::WRITE, 1, page, 0, 8)), 0);
    let event = d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0;
    let sanitize = |cdw10: u32| entry(admin::SANITIZE, 0, [0; 2], [cdw10, 0, 0, 0]);
    assert_eq!(Status(status(&mut d, 0, sanitize(2 | 1 << 9))), Status::INVALID_FIELD); // it always deallocates
    assert_eq!(status(&mut d, 0, sanitize(2)), 0);
    d.sleep(400 * MS);
    let state = log(&mut d, page, 0x81);
    let progress = f64::from(word(&state, 0) & 0xFFFF) / 65536.0;
    assert!((progress - 0.5).abs() < 0.01 && state[2..4] == [2, 0], "{progress} {:?}", &state[..8]);
    let refused = [
        (1, blocks(io::READ, 1, page, 0, 8)),
        (0, sanitize(4)),
        (0, entry(admin::FORMAT_NVM, 1, [0; 2], [0; 4])),
        (0, entry(admin::GET_LOG_PAGE, 0, [page, 0], [127 << 16 | 3, 0, 0, 0])),
    ];
    for (queue, e) in refused {
        assert_eq!(Status(status(&mut d, queue, e)), Status::SANITIZE_IN_PROGRESS, "{e:02x?}");
    }
    assert_eq!(status(&mut d, 1, entry(io::FLUSH, 1, [0; 2], [0; 4])), 0);
    assert_eq!(get(&mut d, feature::WRITE_CACHE, 0), Ok(1));
    d.sleep(500 * MS);
    assert_eq!(arrived(&mut d), [(event, 0x81_01_06, 0)]);
    assert_eq!(log(&mut d, page, 0x81)[2..4], [1, 1]);
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page, 0, 8)), 0);
    assert_eq!(d.memory.at(page, 4096), vec![0; 4096]);

    let mut d = drive(|_| {});
    assert_eq!(status(&mut d, 0, sanitize(2)), 0);
    reset(&mut d);
    assert!(d.controller.admin().maintenance.sanitizing());
    d.sleep(S);
    assert!(!d.controller.admin().maintenance.sanitizing());
}

#[test]
fn temperature_thresholds_raise_an_event_once_and_thermal_management_counts() {
    let mut d = drive(|p| (p.offer.hctm_minimum_c.value, p.offer.hctm_maximum_c.value) = (30, 80));
    let page = d.memory.allocate(4096);
    assert_eq!(status(&mut d, 0, set(feature::ASYNC_EVENTS, 1 << 1)), 0);
    assert_eq!(status(&mut d, 0, set(feature::HCTM, 333 << 16 | 343)), 0);
    assert_eq!(status(&mut d, 0, set(feature::TEMPERATURE_THRESHOLD, 340)), 0);
    let event = d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0;
    d.sleep(10 * MS);
    assert_eq!(d.controller.temperature(335), Throttle::Light);
    d.sleep(5 * S);
    assert_eq!(arrived(&mut d), []);
    assert_eq!(d.controller.temperature(345), Throttle::Heavy);
    d.sleep(3 * S);
    assert_eq!(arrived(&mut d), [(event, 0x02_01_01, 0)]);
    let again = d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0;
    for kelvin in [330, 345] {
        d.controller.temperature(kelvin);
        d.sleep(S);
    }
    assert_eq!(arrived(&mut d), [], "masked until the log is read");
    let health = log(&mut d, page, 2);
    assert_eq!((health[0], u16::from_le_bytes([health[1], health[2]])), (2, 345));
    assert_eq!([216, 220, 224, 228].map(|at| word(&health, at)), [1, 2, 5, 4]);
    d.controller.temperature(330);
    d.controller.temperature(350);
    d.sleep(MS);
    assert_eq!(arrived(&mut d), [(again, 0x02_01_01, 0)]);
}

#[test]
fn host_memory_is_lent_and_returned() {
    let mut d = drive(|p| (p.offer.hmb_preferred_mib.value, p.offer.hmb_minimum_mib.value) = (2, 1));
    // The virtual driver lends as much as the drive asks for, as Linux does.
    assert_eq!(d.controller.admin().hmb.ranges().iter().map(|r| r.1).sum::<u64>(), 2 << 20);
    assert_eq!(status(&mut d, 0, entry(admin::SET_FEATURES, 0, [0; 2], [0x0D, 0, 0, 0])), 0);
    let (list, page) = (d.memory.allocate(4096), d.memory.allocate(4096));
    for (i, (address, pages)) in [(0x10_0000u64, 200u32), (0x80_0000, 56)].into_iter().enumerate() {
        let at = list + 16 * i as u64;
        d.memory.at(at, 8).copy_from_slice(&address.to_le_bytes());
        d.memory.at(at + 8, 4).copy_from_slice(&pages.to_le_bytes());
    }
    let mut ask = |pages: u32, entries: u32, enable: u32| {
        let mut e = entry(admin::SET_FEATURES, 0, [0; 2], [0x0D, enable, pages, list as u32]);
        e[56..60].copy_from_slice(&((list >> 32) as u32).to_le_bytes());
        e[60..64].copy_from_slice(&entries.to_le_bytes());
        (Status(status(&mut d, 0, e)), d.controller.admin().hmb.ranges().to_vec())
    };
    assert_eq!(ask(255, 2, 1), (Status::INVALID_FIELD, vec![])); // less than HMMIN
    assert_eq!(ask(257, 2, 1), (Status::INVALID_FIELD, vec![])); // not what the descriptors add up to
    assert_eq!(ask(256, 65, 1), (Status::INVALID_FIELD, vec![])); // more than HMMAXD
    let lent = vec![(0x10_0000, 200 * 4096), (0x80_0000, 56 * 4096)];
    assert_eq!(ask(256, 2, 1), (Status::SUCCESS, lent.clone()));
    assert_eq!(ask(256, 2, 1), (Status::SEQUENCE_ERROR, lent.clone()));
    assert_eq!(ask(0, 0, 0), (Status::SUCCESS, vec![]));
    assert_eq!(ask(256, 2, 3), (Status::SUCCESS, lent));
    let e = entry(admin::GET_FEATURES, 0, [page, 0], [0x0D, 0, 0, 0]);
    assert_eq!(d.command(0, e).unwrap().0.dw0, 3);
    let got = d.memory.at(page, 16).to_vec();
    assert_eq!((word(&got, 0), long(&got, 4), word(&got, 12)), (256, list, 2));
    reset(&mut d);
    assert_eq!(d.controller.admin().hmb.ranges(), []);
}

#[test]
fn namespaces_are_made_attached_kept_apart_and_deleted() {
    let mut d = drive(|p| {
        (p.offer.namespaces.value, p.offer.namespace_management.value) = (4, true);
        p.offer.initial_lbas_512.value = vec![4096, 8192];
    });
    let page = d.memory.allocate(4096);
    let list = |d: &mut Device<Seen>, cns: u32| -> Vec<u32> {
        let ids = identify(d, page, 0, cns);
        ids.chunks(4).map(|c| word(c, 0)).take_while(|&id| id > 0).collect()
    };
    assert_eq!(status(&mut d, 0, set(feature::ASYNC_EVENTS, 1 << 8)), 0);
    assert_eq!(list(&mut d, 2), [1, 2]);
    assert_eq!(list(&mut d, 0x10), [1, 2]);
    let create = |d: &mut Device<Seen>, size: u64, capacity: u64, format: u8| {
        d.memory.at(page, 4096).fill(0);
        d.memory.at(page, 8).copy_from_slice(&size.to_le_bytes());
        d.memory.at(page + 8, 8).copy_from_slice(&capacity.to_le_bytes());
        d.memory.at(page + 26, 1)[0] = format;
        let c = d.command(0, entry(admin::NAMESPACE_MANAGEMENT, 0, [page, 0], [0; 4])).unwrap().0;
        (Status(c.status), c.dw0)
    };
    let whole = *profile().namespace.lbas_512;
    assert_eq!(create(&mut d, whole, whole, 0).0, Status::INSUFFICIENT_CAPACITY);
    assert_eq!(create(&mut d, 512, 256, 1).0, Status::THIN_PROVISIONING);
    assert_eq!(create(&mut d, 512, 512, 1), (Status::SUCCESS, 3));
    let attach = |d: &mut Device<Seen>, nsid: u32, controller: u8, detach: u32| {
        d.memory.at(page, 4096).fill(0);
        d.memory.at(page, 4).copy_from_slice(&[1, 0, controller, 0]);
        Status(status(d, 0, entry(admin::NAMESPACE_ATTACHMENT, nsid, [page, 0], [detach, 0, 0, 0])))
    };
    assert_eq!((list(&mut d, 2), list(&mut d, 0x10)), (vec![1, 2], vec![1, 2, 3]));
    assert_eq!(long(&identify(&mut d, page, 3, 0), 0), 0, "not active: zeroes");
    assert_eq!(long(&identify(&mut d, page, 3, 0x11), 0), 512);
    assert_eq!(Status(status(&mut d, 1, blocks(io::READ, 3, page, 0, 1))), Status::INVALID_FIELD);
    assert_eq!(attach(&mut d, 3, 2, 0), Status::CONTROLLER_LIST_INVALID);
    d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4]));
    assert_eq!(attach(&mut d, 3, 1, 0), Status::SUCCESS);
    assert_eq!(attach(&mut d, 3, 1, 0), Status::ALREADY_ATTACHED);
    assert_eq!(word(&log(&mut d, page, 4), 0), 3);
    assert_eq!(word(&log(&mut d, page, 4), 0), 0, "read once, and forgotten");

    for nsid in [1u32, 2, 3] {
        d.memory.at(page, 4096).fill(nsid as u8);
        assert_eq!(status(&mut d, 1, blocks(io::WRITE, nsid, page, 8, if nsid == 3 { 1 } else { 8 })), 0);
    }
    for nsid in [1u32, 2, 3] {
        assert_eq!(status(&mut d, 1, blocks(io::READ, nsid, page, 8, if nsid == 3 { 1 } else { 8 })), 0);
        assert_eq!(d.memory.at(page, 4096), vec![nsid as u8; 4096]);
    }
    assert_eq!(Status(status(&mut d, 1, blocks(io::READ, 1, page, 4096, 1))), Status::LBA_OUT_OF_RANGE);
    let delete = |nsid: u32| entry(admin::NAMESPACE_MANAGEMENT, nsid, [0; 2], [1, 0, 0, 0]);
    assert_eq!(status(&mut d, 0, delete(2)), 0);
    assert_eq!(Status(status(&mut d, 0, delete(2))), Status::INVALID_FIELD);
    assert_eq!(Status(status(&mut d, 0, delete(9))), Status::INVALID_NAMESPACE);
    assert_eq!(list(&mut d, 2), [1, 3]);
    assert_eq!(create(&mut d, 8192, 8192, 0), (Status::SUCCESS, 2), "in the gap");
    assert_eq!(attach(&mut d, 2, 1, 0), Status::SUCCESS);
    assert_eq!(status(&mut d, 1, blocks(io::READ, 2, page, 8, 8)), 0);
    assert_eq!(d.memory.at(page, 4096), vec![0; 4096], "the data of the old one is gone");
    assert_eq!(status(&mut d, 0, delete(u32::MAX)), 0);
    assert!(list(&mut d, 0x10).is_empty());
}

#[test]
fn a_doorbell_value_that_cannot_be_is_an_event_and_an_entry_of_the_error_log() {
    let mut d = drive(|_| {});
    let page = d.memory.allocate(4096);
    let first = d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0;
    let second = d.submit(0, d.now, entry(admin::ASYNC_EVENT_REQUEST, 0, [0; 2], [0; 4])).0;
    d.sleep(MS);
    d.controller.mmio_write(d.now, 0x1000 + 12, 4, 1, &mut d.memory); // releases an entry that was never posted
    d.sleep(MS);
    assert_eq!(arrived(&mut d), [(first, 0x01_01_00, 0)]);
    d.controller.mmio_write(d.now, 0x1000 + 8, 4, 5000, &mut d.memory);
    d.sleep(MS);
    assert_eq!(arrived(&mut d), [], "masked until the log is read");
    let errors = log(&mut d, page, 1);
    assert_eq!((long(&errors, 0), long(&errors, 64)), (2, 1));
    d.controller.mmio_write(d.now, 0x1000 + 8 * 60, 4, 1, &mut d.memory);
    d.sleep(MS);
    assert_eq!(arrived(&mut d), [(second, 0x01_00_00, 0)]);
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page, 0, 8)), 0, "the queue still works");
}

#[test]
fn values_are_saved_and_the_clock_runs() {
    let mut d = drive(|p| {
        p.offer.permissive_mode.value = true;
        p.offer.hctm_minimum_c.value = 0;
    });
    let page = d.memory.allocate(4096);
    assert_eq!(status(&mut d, 0, set(feature::WRITE_CACHE, 0)), 0);
    let values = [0, 1, 2, 3].map(|select| get(&mut d, feature::WRITE_CACHE, select));
    assert_eq!(values, [Ok(0), Ok(1), Ok(1), Ok(5)]);
    assert_eq!(get(&mut d, feature::NON_OPERATIONAL, 0), Ok(0));
    assert_eq!(status(&mut d, 0, set(feature::NON_OPERATIONAL, 1)), 0);
    assert_eq!(get(&mut d, feature::NON_OPERATIONAL, 0), Ok(1));
    assert_eq!(get(&mut d, feature::HCTM, 0), Err(Status::INVALID_FIELD), "not offered");
    d.memory.at(page, 8).copy_from_slice(&1_700_000_000_000u64.to_le_bytes());
    assert_eq!(status(&mut d, 0, entry(admin::SET_FEATURES, 0, [page, 0], [0x0E, 0, 0, 0])), 0);
    d.sleep(2500 * MS);
    assert_eq!(status(&mut d, 0, entry(admin::GET_FEATURES, 0, [page, 0], [0x0E, 0, 0, 0])), 0);
    let stamp = long(d.memory.at(page, 8), 0);
    assert_eq!((stamp & 0xFFFF_FFFF_FFFF, stamp >> 48), (1_700_000_002_500, 2));
}

#[test]
fn a_write_without_the_cache_completes_when_it_is_on_flash_and_flush_has_nothing_to_do() {
    let time = |d: &mut Device<Seen>, e: [u8; 64]| {
        let before = d.now;
        assert_eq!(status(d, 1, e), 0);
        d.now - before
    };
    let mut d = drive(|_| {});
    let page = d.memory.allocate(4096);
    let (write, flush) = (blocks(io::WRITE, 1, page, 0, 8), entry(io::FLUSH, 1, [0; 2], [0; 4]));
    let program = 200 * US; // less than the profile's SLC program
    assert!(time(&mut d, write) < program);
    assert!(time(&mut d, flush) > program);
    assert!(time(&mut d, write) < program);
    assert_eq!(status(&mut d, 0, set(feature::WRITE_CACHE, 0)), 0);
    assert!(time(&mut d, flush) < program, "turning the cache off wrote it out");
    assert!(time(&mut d, write) > program);
    assert!(time(&mut d, flush) < program);
}

#[test]
fn a_self_test_runs_behind_io_and_leaves_a_result() {
    let mut d = drive(|p| p.offer.self_test_short_s.value = 10);
    let page = d.memory.allocate(4096);
    let test = |code: u32, nsid: u32| entry(admin::DEVICE_SELF_TEST, nsid, [0; 2], [code, 0, 0, 0]);
    assert_eq!(log(&mut d, page, 6)[..5], [0, 0, 0, 0, 0xF]);
    assert_eq!(Status(status(&mut d, 0, test(3, 0))), Status::INVALID_FIELD);
    assert_eq!(Status(status(&mut d, 0, test(1, 2))), Status::INVALID_NAMESPACE);
    assert_eq!(status(&mut d, 0, test(1, 1)), 0);
    assert_eq!(Status(status(&mut d, 0, test(2, 1))), Status::SELF_TEST_IN_PROGRESS);
    d.sleep(5 * S);
    assert_eq!(log(&mut d, page, 6)[..2], [1, 50]);
    assert_eq!(status(&mut d, 1, blocks(io::READ, 1, page, 0, 8)), 0);
    d.sleep(6 * S);
    for code in [0xF, 1, 2] {
        assert_eq!(status(&mut d, 0, test(code, u32::MAX)), 0);
        if code != 0xF {
            d.sleep(S);
            assert_eq!(status(&mut d, 0, test(0xF, 0)), 0);
        }
    }
    let results = log(&mut d, page, 6);
    let firsts: Vec<_> = (0..4).map(|i| results[4 + 28 * i]).collect();
    assert_eq!((results[0], firsts), (0, vec![0x21, 0x11, 0x10, 0xF]));
    assert_eq!((word(&results, 4 + 56 + 12), results[4 + 56 + 2]), (1, 1), "the namespace of the oldest");
    d.sleep(1000 * S);
    assert_eq!(log(&mut d, page, 6), results, "the time of a test that was ended does nothing");
    assert_eq!(status(&mut d, 0, test(1, 0)), 0);
    assert_eq!(status(&mut d, 0, entry(admin::FORMAT_NVM, 1, [0; 2], [0; 4])), 0);
    assert_eq!(log(&mut d, page, 6)[4], 0x14);
    for (code, running, result) in [(1, false, 0x12), (2, true, 0xF)] {
        let mut d = drive(|_| {});
        assert_eq!(status(&mut d, 0, test(code, 0)), 0);
        reset(&mut d);
        let log = d.controller.admin().self_test.log(d.now);
        assert_eq!((d.controller.admin().self_test.running(), log[4]), (running, result));
        d.sleep(16 * 60 * S);
        assert!(!d.controller.admin().self_test.running());
    }
}

#[test]
fn a_drive_without_dram_reads_faster_while_it_has_host_memory() {
    let mut d = drive(|p| {
        p.flash.map_cache_kib.value = 64; // 64 MiB of the drive
        (p.offer.hmb_preferred_mib.value, p.offer.hmb_minimum_mib.value) = (4, 1);
    });
    let buffer = d.memory.allocate(4096);
    // A read in each of 256 parts of 4 MiB, twice: the second round finds the map where there is room for it.
    let mut second_round = || {
        let mut start = d.now;
        for i in 0..512 {
            if i == 256 {
                start = d.now;
            }
            assert_eq!(status(&mut d, 1, blocks(io::READ, 1, buffer, i % 256 * 8192, 8)), 0);
        }
        let took = d.now - start;
        assert_eq!(status(&mut d, 0, entry(admin::SET_FEATURES, 0, [0; 2], [0x0D, 0, 0, 0])), 0);
        took
    };
    let (with, without) = (second_round(), second_round());
    assert!(without as f64 > 1.2 * with as f64, "{with} ps with it, {without} ps without");
}
