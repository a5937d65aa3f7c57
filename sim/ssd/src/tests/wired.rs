//! The same drive with the host inside and outside the model. A test gives the trace of a run in virtual time to an endpoint, TLP by TLP.

use super::{entry, status, Seen};
use crate::driver::{Device, Manners};
use crate::nvme::{admin, io};
use crate::pcie::port::Aspm;
use crate::profile::{Profile, Ps, MS, US};
use crate::{Controller, Endpoint, EndpointOptions, Options};
use std::collections::HashMap;
use wattbell_bus::packet::{Answered, Packet};
use wattbell_bus::tlp::{self, CplStatus, Route};
use wattbell_bus::{Body, Burst, Direction, LinkState, Rail, Signal, Tlp};

/// When the link is up, after power-on.
const UP: Ps = 6 * MS;

fn burst(at: Ps, burst: &Burst) -> Vec<(Ps, Tlp)> {
    let one = |index| {
        let header = burst.header.advanced(u64::from(index) * u64::from(burst.step_bytes));
        (at + burst.offset_ps(index), Tlp::left_out(header))
    };
    (0..burst.count).map(one).collect()
}

/// TLPs of one direction, and changes of the rail, since the link is up.
fn traffic(seen: &Seen, wanted: Direction) -> Vec<(Ps, Tlp)> {
    let mut tlps: Vec<(Ps, Tlp)> = Vec::new();
    for record in &seen.records {
        match &record.body {
            Body::Tlp(direction, tlp) if *direction == wanted => tlps.push((record.time_ps, tlp.clone())),
            Body::Burst(b) if b.direction == wanted => tlps.extend(burst(record.time_ps, b)),
            _ => {}
        }
    }
    tlps.sort_by_key(|tlp| tlp.0);
    tlps.into_iter().map(|(at, tlp)| (at - UP, tlp)).collect()
}

fn rail(seen: &Seen) -> Vec<(Ps, Rail)> {
    let steps = seen.records.iter().filter_map(|record| match record.body {
        Body::Rail(rail) => Some((record.time_ps, rail)),
        _ => None,
    });
    let all: Vec<_> = steps.collect();
    let first = all.partition_point(|step| step.0 <= UP) - 1;
    all[first..].iter().map(|&(at, rail)| (at.saturating_sub(UP), rail)).collect()
}

/// When the link began to wake, by the time when it was up: a host that woke it wanted to send then.
fn wakes(seen: &Seen) -> HashMap<Ps, Ps> {
    let states = seen.records.iter().filter_map(|record| match record.body {
        Body::Sideband(Signal::LinkState, state) => Some((record.time_ps, state)),
        _ => None,
    });
    let states: Vec<_> = states.filter(|state| state.0 > UP).collect();
    let woke = states.windows(2).filter(|pair| pair[0].1 == LinkState::Recovery as u8);
    woke.map(|pair| (pair[1].0 - UP, pair[0].0 - UP)).collect()
}

/// The TLP's bytes without those that the host's choice of tags, or a number not yet assigned, decides.
fn plain(tlp: &Tlp) -> Vec<u8> {
    let mut bytes = tlp.to_bytes();
    match Packet::of(tlp) {
        Ok(Packet::Read(_)) => bytes[6] = 0,
        Ok(Packet::Completion(_)) => bytes[4..6].fill(0),
        _ => {}
    }
    bytes
}

fn read_tag(bytes: &[u8]) -> Option<u8> {
    (bytes[0] & !0x20 == 0).then(|| bytes[6])
}

/// Gives the host's TLPs to an endpoint, and compares all that comes out. The tags may differ, as no host here allows more than 32.
fn play(profile: Profile, seen: &Seen) {
    let (down, up) = (traffic(seen, Direction::Down), traffic(seen, Direction::Up));
    let mut drive = Endpoint::new(profile, EndpointOptions { store: false, rail: true, ..EndpointOptions::default() });
    let asked: Vec<u8> = up.iter().filter_map(|(_, tlp)| read_tag(&tlp.to_bytes())).collect();
    let (mut got, mut own) = (Vec::new(), Vec::new());
    let mut take = |drive: &mut Endpoint, own: &mut Vec<u8>| {
        while let Some((at, bytes)) = drive.take() {
            own.extend(read_tag(&bytes));
            got.push((at, bytes));
        }
    };
    let wakes = wakes(seen);
    for (at, tlp) in &down {
        let at = wakes.get(at).unwrap_or(at);
        drive.advance(*at).unwrap();
        take(&mut drive, &mut own);
        let mut bytes = tlp.to_bytes();
        if let Ok(Packet::Completion(answered)) = Packet::of(tlp) {
            let tags = asked.iter().zip(&own).rev();
            bytes[10] = *tags.clone().find(|pair| u16::from(*pair.0) == answered.tag).unwrap().1;
        }
        drive.receive(*at, &bytes).unwrap();
    }
    drive.advance(up.last().unwrap().0 + 50 * MS).unwrap();
    take(&mut drive, &mut own);
    for (n, ((at, tlp), (wanted_at, wanted))) in got.iter().zip(&up).enumerate() {
        let mut tlp = Tlp::from_bytes(tlp, false).unwrap();
        if wanted.payload.is_none() {
            tlp = Tlp::left_out(tlp.header); // a trace has no user data
        }
        assert_eq!((at, plain(&tlp)), (wanted_at, plain(wanted)), "TLP {n} of {}", up.len());
    }
    assert_eq!((got.len(), drive.discarded_tlps(), drive.outstanding_reads()), (up.len(), 0, 0));
    let steps: Vec<_> = std::iter::from_fn(|| drive.take_rail()).collect();
    let wanted = rail(seen);
    assert!(wanted.len() > 10, "{} steps", wanted.len());
    let many = steps.len().min(wanted.len());
    assert!(many >= wanted.len() - 3, "{many} of {}", wanted.len());
    assert_eq!(steps[..many], wanted[..many]);
}

fn device(profile: &Profile, manners: Manners) -> Device<Seen> {
    let controller = Controller::new(profile.clone(), Options::default(), Seen::default());
    Device::start_with(controller, 2, manners).unwrap()
}

#[test]
fn an_endpoint_sends_what_the_drive_sends_to_the_picosecond() {
    for name in ["intel-660p-1tb", "optane-900p-280gb", "samsung-980-pro"] {
        let profile = Profile::load(name).unwrap();
        let mut d = device(&profile, Manners::default());
        let (user, list) = (d.memory.allocate_user(1 << 20), d.memory.allocate(4096));
        for k in 0..32 {
            d.memory.at(list + 8 * k, 8).copy_from_slice(&(user + 4096 * (k + 1)).to_le_bytes());
        }
        for k in 0..20 {
            let cdw = |blocks: u32| [k * 999, 0, blocks - 1, 0];
            assert_eq!(status(&mut d, 1, entry(io::READ, 1, [user, 0], cdw(8))), 0);
            assert_eq!(status(&mut d, 1, entry(io::WRITE, 1, [user + 8, user + 4096], cdw(8))), 0);
            assert_eq!(status(&mut d, 2, entry(io::READ, 1, [user, list], cdw(128))), 0);
            assert_eq!(status(&mut d, 2, entry(io::FLUSH, 1, [0; 2], [0; 4])), 0);
            assert_eq!(status(&mut d, 0, entry(admin::IDENTIFY, 0, [list, 0], [1, 0, 0, 0])), 0);
            for k in 0..32 {
                d.memory.at(list + 8 * k, 8).copy_from_slice(&(user + 4096 * (k + 1)).to_le_bytes());
            }
            d.sleep(u64::from(k) * 300 * US);
        }
        play(profile, &d.stop());
    }
}

#[test]
fn an_endpoint_in_low_power_states_is_the_same_drive() {
    let profile = Profile::load("intel-660p-1tb").unwrap();
    let mut d = device(&profile, Manners::default());
    d.set_aspm(Aspm::L1_2);
    d.set_apst(true).unwrap();
    let user = d.memory.allocate_user(4096);
    for k in 0..6 {
        d.sleep(k * 40 * MS);
        assert_eq!(status(&mut d, 1, entry(io::READ, 1, [user, 0], [7, 0, 7, 0])), 0);
    }
    play(profile, &d.stop());
}

#[test]
fn an_endpoint_that_was_lent_memory_is_the_same_drive() {
    let mut profile = Profile::load("intel-660p-1tb").unwrap();
    profile.flash.map_cache_kib.value = 64;
    (profile.offer.hmb_preferred_mib.value, profile.offer.hmb_minimum_mib.value) = (4, 1);
    let mut d = device(&profile, Manners::default());
    let user = d.memory.allocate_user(4096);
    for k in 0..60u32 {
        assert_eq!(status(&mut d, 1, entry(io::READ, 1, [user, 0], [k % 30 * 8192, 0, 7, 0])), 0);
    }
    let seen = d.stop();
    let lent = traffic(&seen, Direction::Up).iter().filter(|(_, tlp)| tlp.to_bytes()[0] == 0x20).count(); // MRd of 4 DW
    assert!(lent > 20, "{lent} reads beyond 4 GiB, of which none is an entry's");
    play(profile, &seen);
}

/// A host that sends single TLPs to a drive of bus 1.
struct Host {
    drive: Endpoint,
}

const ME: u16 = 0x0018;
const BAR: u64 = 0xFE80_0000;

impl Host {
    /// The drive has an address, and `command` in its Command register.
    fn new(command: u32) -> Self {
        let mut host = Self { drive: Endpoint::new(super::profile(), EndpointOptions::default()) };
        host.configure(0x10, BAR as u32);
        host.configure(0x04, command);
        host
    }

    fn send(&mut self, tlp: &Tlp) {
        self.drive.receive(self.drive.now_ps(), &tlp.to_bytes()).unwrap();
    }

    fn sleep(&mut self, time: Ps) -> Vec<Tlp> {
        self.drive.advance(self.drive.now_ps() + time).unwrap();
        std::iter::from_fn(|| self.drive.take()).map(|(_, bytes)| Tlp::from_bytes(&bytes, false).unwrap()).collect()
    }

    fn ask(&mut self, tlp: &Tlp) -> Vec<Tlp> {
        self.send(tlp);
        self.sleep(10 * US)
    }

    fn configure(&mut self, register: u16, value: u32) {
        assert_eq!(self.ask(&tlp::cfg_write0(ME, 5, 0x0100, register, 0xF, value)).len(), 1);
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.send(&tlp::mem_write(ME, 0, BAR + offset, &value.to_le_bytes()));
    }

    fn read(&mut self, offset: u64) -> u32 {
        let answers = self.ask(&tlp::mem_read(ME, 3, BAR + offset, 4));
        u32::from_le_bytes(*answers[0].payload.as_ref().unwrap().first_chunk().unwrap())
    }

    /// Enables the controller, and rings for `count` admin commands.
    fn ring(&mut self, count: u32) -> Vec<Tlp> {
        for (offset, value) in [(0x24, 0x001F_001F), (0x28, 0x1_0000), (0x30, 0x2_0000), (0x14, 0x0046_0001)] {
            self.write(offset, value);
        }
        assert!(self.sleep(200 * MS).is_empty());
        self.write(0x1000, count);
        self.sleep(100 * US)
    }
}

fn completion(tlp: &Tlp) -> Answered {
    let Ok(Packet::Completion(answered)) = Packet::of(tlp) else { panic!("{tlp:?}") };
    answered
}

#[test]
fn configuration_gives_the_drive_its_number_and_one_function() {
    let mut host = Host { drive: Endpoint::new(super::profile(), EndpointOptions::default()) };
    let read = |target| tlp::cfg_read0(ME, 9, target, 0);
    let first = host.ask(&read(0x0500)).remove(0);
    assert_eq!((first.payload.as_deref(), &first.to_bytes()[4..6]), (Some(&[0x86, 0x80, 0xA8, 0xF1][..]), &[0, 0][..]));
    host.ask(&tlp::cfg_write0(ME, 9, 0x0500, 4, 0xF, 0));
    let second = host.ask(&read(0x0500)).remove(0);
    assert_eq!(
        (completion(&second).requester, completion(&second).tag, &second.to_bytes()[4..6]),
        (ME, 9, &[5, 0][..])
    );
    let other = host.ask(&read(0x0501)).remove(0);
    assert_eq!((completion(&other).status, other.header.payload_len()), (1, 0));
}

#[test]
fn registers_are_read_byte_by_byte_and_foreign_addresses_are_refused() {
    let mut host = Host::new(0);
    let version = tlp::mem_read(ME, 4, BAR + 9, 2);
    let refused = completion(&host.ask(&version)[0]);
    assert_eq!((refused.status, refused.byte_count, refused.lower_address), (1, 2, 9), "memory space is not enabled");
    host.configure(4, 2);
    let answer = host.ask(&version).remove(0);
    assert_eq!((completion(&answer).byte_count, completion(&answer).lower_address), (2, 9));
    assert_eq!(answer.payload.as_ref().unwrap()[1..3], [3, 1], "VS: minor and major version");
    let long = host.ask(&tlp::mem_read(ME, 4, BAR + 0x40, 256));
    assert_eq!(long.iter().map(|tlp| completion(tlp).byte_count).collect::<Vec<_>>(), [256, 128]);
    for foreign in [tlp::mem_read(ME, 4, BAR - 4, 4), tlp::mem_read(ME, 4, 1 << 40, 4)] {
        assert_eq!(completion(&host.ask(&foreign)[0]).status, 1);
    }
    let mut bytes = version.to_bytes();
    (bytes[1], bytes[2]) = (0x54, 0x30); // TC 5, all attributes
    let classed = host.ask(&Tlp::from_bytes(&bytes, false).unwrap())[0].to_bytes();
    assert_eq!((classed[1], classed[2]), (0x54, 0x30));
    bytes[0] = 0x02; // of I/O space
    bytes[7] = 0xF;
    (bytes[2], bytes[3]) = (0, 1);
    assert_eq!(completion(&host.ask(&Tlp::from_bytes(&bytes, false).unwrap())[0]).status, 1);
    assert_eq!(host.drive.discarded_tlps(), 0);
    let mut poisoned = tlp::mem_write(ME, 0, BAR + 0x24, &[1; 4]).to_bytes();
    poisoned[2] |= 0x40;
    host.ask(&Tlp::from_bytes(&poisoned, false).unwrap());
    host.ask(&tlp::mem_write(ME, 0, BAR + 0x4000, &[1; 4]));
    host.ask(&tlp::completion_data(Route { completer: ME, requester: 0x0100, tag: 7 }, 0, &[0; 4], 4));
    assert_eq!((host.drive.discarded_tlps(), host.read(0x24)), (3, 0));
}

#[test]
fn nothing_is_asked_of_a_host_that_does_not_let_the_drive_be_master() {
    let mut host = Host::new(2);
    assert!(host.ring(1).is_empty());
    assert_eq!(host.ask(&tlp::cfg_write0(ME, 5, 0x0100, 4, 0xF, 6)).len(), 2, "the answer, and the read of the entry");
    assert_eq!(host.drive.outstanding_reads(), 1);
    host.configure(4, 2);
    let mut flush = [0; 64];
    flush[0] = admin::ABORT;
    host.send(&tlp::completion_data(Route { completer: ME, requester: 0x0100, tag: 0 }, 0x1_0000, &flush, 64));
    assert!(host.sleep(MS).is_empty(), "not even its completion entry");
}

#[test]
fn an_entry_that_cannot_be_read_is_fatal() {
    let mut host = Host::new(6);
    let asked = host.ring(1).remove(0);
    let Ok(Packet::Read(read)) = Packet::of(&asked) else { panic!("{asked:?}") };
    assert_eq!(read.range(), (0x1_0000, 64));
    let route = Route { completer: ME, requester: 0x0100, tag: read.tag };
    host.send(&tlp::refusal(route, CplStatus::Unsupported, 0x1_0000, 64));
    assert!(host.sleep(MS).is_empty());
    assert_eq!((host.read(0x1C) & 2, host.drive.outstanding_reads()), (2, 0));
}

#[test]
fn payloads_are_those_that_the_host_allows() {
    for (control, most) in [(0x2010, 128), (0x2030, 256), (0x2050, 256)] {
        let mut host = Host::new(6);
        host.configure(0x78, control); // Device Control
        let asked = host.ring(1).remove(0);
        let Ok(Packet::Read(read)) = Packet::of(&asked) else { panic!("{asked:?}") };
        let identify = entry(admin::IDENTIFY, 0, [0x4000, 0], [1, 0, 0, 0]);
        let route = Route { completer: ME, requester: 0x0100, tag: read.tag };
        host.send(&tlp::completion_data(route, 0x1_0000, &identify, 64));
        let sizes: Vec<usize> = host.sleep(MS).iter().map(|tlp| tlp.header.payload_len()).collect();
        assert_eq!(sizes, [vec![most; 4096 / most], vec![16]].concat(), "{control:#x}");
    }
}

#[test]
fn a_function_level_reset_leaves_a_drive_without_an_address() {
    let mut host = Host::new(6);
    assert_eq!(host.ring(1).len(), 1);
    let answers = host.ask(&tlp::cfg_write0(ME, 5, 0x0100, 0x78, 0xF, 0xA010));
    assert_eq!((answers.len(), completion(&answers[0]).status), (1, 0));
    let bar = host.ask(&tlp::cfg_read0(ME, 5, 0x0100, 0x10)).remove(0);
    assert_eq!(bar.payload.as_deref(), Some(&[4, 0, 0, 0][..]));
    let late = Route { completer: ME, requester: 0x0100, tag: 0 };
    host.send(&tlp::completion_data(late, 0x1_0000, &[0; 64], 64));
    assert!(host.sleep(MS).is_empty());
    assert_eq!((host.drive.outstanding_reads(), host.drive.discarded_tlps()), (0, 0), "it was asked before");
}
