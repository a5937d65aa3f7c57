//! State that admin commands manage: features, namespaces, logs, asynchronous events, and long operations.
//!
//! This module executes the admin commands that need nothing else. For the others it returns the next step for the controller.

mod async_events;
pub mod features;
pub mod hmb;
pub mod identify;
pub mod latencymonitor;
mod logs;
mod maintenance;
pub mod namespaces;
mod selftest;
mod timestamp;

use crate::host::CommandTruth;
use crate::nvme::commands::{Command, Next, Outcome};
use crate::nvme::{feature, log_page, number, AsyncEvent, Sqe, Status};
use crate::power::ownmeter::OwnMeter;
use crate::power::thermal::{Limits, Warmth};
use crate::profile::{Profile, Ps};
use async_events::AsyncEvents;
use features::{Features, Select};
use hmb::Hmb;
use identify::CONTROLLER_ID;
use latencymonitor::{Kind, LatencyMonitor, Served};
use logs::Health;
use maintenance::Maintenance;
use namespaces::{Namespace, Namespaces};
use selftest::SelfTest;
use timestamp::{Timestamp, TIMESTAMP_BYTES};

pub use selftest::TestEnd;

/// State outside this room that log pages show.
pub struct LogState<'a> {
    /// The temperature.
    pub warmth: Warmth,
    /// Blocks can be compared.
    pub data_kept: bool,
    /// The drive's own power meter.
    pub own_meter: Option<&'a OwnMeter>,
}

/// Everything that admin commands manage.
pub struct Admin {
    /// Features that are a dword.
    pub features: Features,
    /// Namespaces.
    pub namespaces: Namespaces,
    /// Asynchronous Event Requests, and events.
    pub async_events: AsyncEvents,
    /// Counters of the SMART / Health log, and the error log.
    pub health: Health,
    /// Format NVM and Sanitize.
    pub maintenance: Maintenance,
    /// Device Self-test.
    pub self_test: SelfTest,
    /// Host Memory Buffer.
    pub hmb: Hmb,
    /// OCP's latency monitor.
    pub latency_monitor: Option<LatencyMonitor>,
    timestamp: Timestamp,
    /// WCTEMP and CCTEMP in kelvin.
    composite: (u16, u16),
}

impl Admin {
    /// Creates the state of a new drive.
    pub fn new(profile: &Profile) -> Self {
        let (offer, limits) = (&profile.offer, &profile.limits);
        let kelvin = |celsius: u64| celsius as u16 + 273;
        Self {
            features: Features::new(profile),
            namespaces: Namespaces::new(profile),
            async_events: AsyncEvents::default(),
            health: Health::default(),
            maintenance: Maintenance::default(),
            self_test: SelfTest::default(),
            hmb: Hmb::new(*offer.hmb_preferred_mib > 0, *offer.hmb_minimum_mib * 256),
            latency_monitor: LatencyMonitor::of(profile),
            timestamp: Timestamp::default(),
            composite: (kelvin(*limits.warning_temperature_c), kelvin(*limits.critical_temperature_c)),
        }
    }

    /// Whether an operation goes on that keeps the drive from being idle.
    pub fn busy(&self) -> bool {
        self.maintenance.busy() || self.self_test.running()
    }

    /// Something the host should know of.
    pub fn raise(&mut self, event: AsyncEvent) {
        self.async_events.raise(event, self.features.async_events());
    }

    /// The temperatures that the drive and the host set.
    pub fn thermal_limits(&self) -> Limits {
        Limits {
            thresholds: self.features.thresholds_k(),
            management: self.features.thermal_management_k(),
            composite: self.composite,
        }
    }

    /// The structure an Identify command asks for. With namespace management the structures of allocated namespaces
    /// (CNS 10h and up) exist too.
    pub fn identify(&self, sqe: &Sqe, profile: &Profile, data_kept: bool, now: Ps) -> Outcome {
        let (nsid, all) = (sqe.nsid(), &self.namespaces);
        let managed = *profile.offer.namespace_management;
        let known = (1..=all.most()).contains(&nsid);
        let structure = |namespace: Option<&Namespace>| {
            let left = self.maintenance.percent_left(nsid, now);
            namespace.map_or(vec![0; 4096], |n| identify::namespace(profile, n, all.formats(), left))
        };
        let from = (sqe.cdw(10) >> 16) as u16;
        let data = match sqe.cdw(10) & 0xFF {
            0x00 if nsid == u32::MAX && managed => identify::namespace_common(all),
            0x00 if known => structure(all.active(nsid)), // full of zeroes if it is not active
            0x01 => identify::controller(profile, all, data_kept, &self.features.allowed_states(profile)),
            0x02 if nsid < 0xFFFF_FFFE => identify::namespace_list(all.list(nsid, false)),
            0x03 if known => {
                let namespace = all.active(nsid).ok_or(Status::INVALID_FIELD)?;
                identify::namespace_descriptors(profile, namespace)
            }
            0x10 if managed && nsid < 0xFFFF_FFFE => identify::namespace_list(all.list(nsid, true)),
            0x11 if managed && known => structure(all.allocated(nsid)),
            0x12 if managed && known => identify::controller_list(all.active(nsid).is_some() && from <= CONTROLLER_ID),
            0x13 if managed => identify::controller_list(from <= CONTROLLER_ID),
            0x00 | 0x02 | 0x03 => return Err(Status::INVALID_NAMESPACE),
            0x10..=0x12 if managed => return Err(Status::INVALID_NAMESPACE),
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(Next::Return(0, data))
    }

    /// Get Log Page (NVM Express, command of this name).
    pub fn log_page(&mut self, sqe: &Sqe, profile: &Profile, now: Ps, state: &LogState) -> Outcome {
        let len = 4 * (u64::from(sqe.cdw(10) >> 16) | u64::from(sqe.cdw(11) & 0xFFFF) << 16) + 4;
        let offset = u64::from(sqe.cdw(12)) | u64::from(sqe.cdw(13)) << 32;
        let (log, keep_event) = (sqe.cdw(10) as u8, sqe.cdw(10) >> 15 & 1 == 1);
        let offer = &profile.offer;
        let own_power = state.own_meter.filter(|_| *offer.smart_power).map(OwnMeter::health);
        let mut data = match log {
            log_page::ERRORS => self.health.error_log(),
            log_page::HEALTH => logs::smart(&self.health, &state.warmth, own_power, now),
            log_page::FIRMWARE => logs::firmware_slots(profile),
            log_page::CHANGED_NAMESPACES => self.namespaces.changed_log(),
            log_page::EFFECTS => logs::effects(profile, state.data_kept),
            log_page::SELF_TEST if offer.self_test() => self.self_test.log(now),
            log_page::SANITIZE if !offer.sanitize.is_empty() => {
                self.maintenance.sanitize_status(now, self.namespaces.capacity(), offer)
            }
            log_page::POWER_MEASUREMENT if *offer.power_measurement => {
                state.own_meter.map(|meter| meter.page(now)).ok_or(Status::LOG_PAGE_INVALID)?
            }
            log_page::LATENCY_MONITOR => {
                self.latency_monitor.as_mut().map(|monitor| monitor.page(now)).ok_or(Status::LOG_PAGE_INVALID)?
            }
            _ => return Err(Status::LOG_PAGE_INVALID),
        };
        if offset % 4 != 0 || offset > data.len() as u64 || len > 4096 << *profile.limits.mdts {
            return Err(Status::INVALID_FIELD);
        }
        if !keep_event {
            self.async_events.log_was_read(log);
            if log == log_page::CHANGED_NAMESPACES {
                self.namespaces.forget_changes();
            }
        }
        data.drain(..offset as usize);
        data.resize(len as usize, 0); // what is asked for beyond the page's end reads as zeroes
        Ok(Next::Return(0, data))
    }

    /// Starts Set Features (section 5.21) for a feature kept here that has a data buffer: returns the data to read. `None`: another
    /// feature.
    pub fn set_with_data(&mut self, sqe: &Sqe) -> Option<Outcome> {
        Some(match sqe.cdw(10) as u8 {
            feature::TIMESTAMP => Ok(Next::Transfer(TIMESTAMP_BYTES)),
            feature::LATENCY_MONITOR if self.latency_monitor.is_some() => {
                Ok(Next::Transfer(latencymonitor::CONFIGURATION_BYTES))
            }
            feature::HOST_MEMORY_BUFFER => self.hmb.ask(sqe).map(|list| match list {
                Some((address, len)) => Next::Fetch(address, len),
                None => Next::Done(0),
            }),
            _ => return None,
        })
    }

    /// The drive's time stamp of `now`, as the structure of the Timestamp feature.
    pub fn stamp(&self, now: Ps) -> u64 {
        self.timestamp.number(now)
    }

    /// The CQE of an I/O command is written: the latency monitor counts it. `deallocates`: the attribute of Dataset Management.
    #[inline]
    pub fn note_latency(&mut self, truth: &CommandTruth, deallocates: bool) {
        let Some(monitor) = &mut self.latency_monitor else { return };
        if let Some(kind) = Kind::of(truth.opcode, deallocates) {
            let stamp = self.timestamp.at(truth.cqe_ps);
            monitor.served(&Served { kind, fetch: truth.fetch_ps, cqe: truth.cqe_ps, stamp });
        }
    }

    /// The data of Set Features for the Timestamp has arrived.
    pub fn set_timestamp(&mut self, now: Ps, data: &[u8]) {
        self.timestamp.set(now, data);
    }

    /// Returns DW0 and data of Get Features (section 5.13) for a feature kept here that has data. These features are not saveable, so the
    /// saved and the default value are the value after a reset.
    pub fn get_with_data(&self, feature: u8, select: Select, now: Ps) -> Option<(u32, Vec<u8>)> {
        let current = select == Select::Current;
        Some(match feature {
            feature::TIMESTAMP if current => (0, self.timestamp.get(now)),
            feature::TIMESTAMP => (0, vec![0; TIMESTAMP_BYTES as usize]),
            feature::HOST_MEMORY_BUFFER if !self.hmb.offered() => return None,
            feature::HOST_MEMORY_BUFFER if current => (self.hmb.dw0(), self.hmb.attributes()),
            feature::HOST_MEMORY_BUFFER => (0, vec![0; 4096]),
            _ => return None,
        })
    }

    /// Executes Namespace Management, delete (section 5.20). Returns the deleted namespace.
    pub fn delete_namespace(&mut self, nsid: u32) -> Result<Namespace, Status> {
        if self.maintenance.formatting(nsid) {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let gone = self.namespaces.delete(nsid)?;
        if gone.attached {
            self.changed(nsid);
        }
        Ok(gone)
    }

    /// Namespace Management, create, from its structure: NSZE, NCAP, FLBAS, DPS, NMIC (Identify Namespace).
    pub fn create_namespace(&mut self, d: &[u8]) -> Outcome {
        let (size, capacity, format) = (number(&d[0..8]), number(&d[8..16]), d[26] & 0xF);
        if d[29] != 0 {
            return Err(Status::INVALID_FORMAT); // no end-to-end protection
        }
        if capacity < size {
            return Err(Status::THIN_PROVISIONING);
        }
        if capacity > size || d[30] & 1 != 0 {
            return Err(Status::INVALID_FIELD); // or shared between controllers: there is only one
        }
        self.namespaces.create(size, format).map(Next::Done)
    }

    /// Executes Namespace Attachment (section 5.19), with its controller list. The list must name this controller, the only one.
    pub fn attach_namespace(&mut self, sqe: &Sqe, d: &[u8]) -> Outcome {
        if number(&d[0..2]) != 1 || number(&d[2..4]) != u64::from(CONTROLLER_ID) {
            return Err(Status::CONTROLLER_LIST_INVALID);
        }
        self.namespaces.attach(sqe.nsid(), sqe.cdw(10) & 0xF == 0)?;
        self.changed(sqe.nsid());
        Ok(Next::Done(0))
    }

    fn changed(&mut self, nsid: u32) {
        self.namespaces.note_change(nsid);
        self.raise(AsyncEvent::NAMESPACE_CHANGED);
    }

    /// Adds an entry to the error log if the command's completion status has the More bit.
    pub fn note_completion(&mut self, command: &Command) {
        if command.status.has_more() {
            self.health.log_command(command);
        }
    }

    /// Applies a controller reset: features and requests are cleared, operations continue. Returns the end and number of a self-test that
    /// continues.
    pub fn reset(&mut self, now: Ps) -> Option<(Ps, u32)> {
        self.async_events.reset();
        self.maintenance.reset();
        self.hmb.give_back();
        self.health.reset(now);
        self.features.reset();
        self.self_test.reset(now)
    }
}
