//! The host's side of a drive's own accounts: starting and stopping its power meter, configuring its latency monitor, reading log pages.

use super::cpu;
use super::device::{sqe, Device, DriverError};
use crate::host::BusSink;
use crate::nvme::{admin, feature, log_page, number};
use crate::profile::Offer;
use serde::Deserialize;

/// Bytes of the header of log page 25h, which holds the size of the page.
const HEADER_BYTES: u32 = 64;
const MONITOR_PAGE_BYTES: u32 = 512;
const HEALTH_PAGE_BYTES: u32 = 512;
const CONFIGURATION_BYTES: usize = 4096;
/// Bytes that one command reads: a page of host memory.
const PART_BYTES: u32 = 4096;
/// Unit and highest value of a threshold of the latency monitor, and of its minimum window, in milliseconds; of its timer in minutes.
const THRESHOLD_MS: (u32, u32) = (5, 1280);
const WINDOW_MS: (u32, u32) = (100, 25_500);
const TIMER_MIN: (u32, u32) = (5, 327_675);

/// A log page that a step can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPage {
    /// Power Measurement.
    PowerMeasurement,
    /// OCP's Latency Monitor.
    LatencyMonitor,
    /// SMART / Health Information.
    Health,
}

impl LogPage {
    fn id(self) -> u8 {
        match self {
            Self::PowerMeasurement => log_page::POWER_MEASUREMENT,
            Self::LatencyMonitor => log_page::LATENCY_MONITOR,
            Self::Health => log_page::HEALTH,
        }
    }

    /// Name of the file of its `number`th reading.
    pub fn file_name(self, number: usize) -> String {
        match number {
            1 => format!("log-{:02x}h.bin", self.id()),
            more => format!("log-{:02x}h-{more}.bin", self.id()),
        }
    }
}

/// Work of a step with the drive's own accounts.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnAccount {
    /// Starts a measurement of power, for so many minutes; 0: until it is stopped.
    StartMeter(u16),
    /// Stops the measurement.
    StopMeter,
    /// Asks for an asynchronous event, and enables the power threshold with this Dword 11 of feature 24h.
    Threshold(u32),
    /// Configures the latency monitor with the host's structure.
    Monitor(Vec<u8>),
    /// Reads these pages.
    Read(Vec<LogPage>),
}

impl OwnAccount {
    /// The entry of `[offer]` that the step needs and that the drive lacks.
    pub fn lacks(&self, offer: &Offer) -> Option<&'static str> {
        let meter = (!*offer.power_measurement).then_some("offer.power_measurement");
        let monitor = (!*offer.latency_monitor).then_some("offer.latency_monitor");
        match self {
            Self::StartMeter(_) | Self::StopMeter => meter,
            Self::Threshold(_) => (!*offer.power_threshold).then_some("offer.power_threshold"),
            Self::Monitor(_) => monitor,
            Self::Read(pages) => pages
                .iter()
                .filter_map(|page| match page {
                    LogPage::PowerMeasurement => meter,
                    LogPage::LatencyMonitor => monitor,
                    LogPage::Health => None, // every drive has it
                })
                .next(),
        }
    }
}

/// Dword 11 of Set Features 24h that enables a threshold for the total power (NVM Express Base Specification 2.3, 5.2.26.1.26).
pub fn threshold_word(watt: f64) -> Result<u32, String> {
    const ENABLE: u32 = 1 << 31;
    const TENTH_MW: u32 = 1 << 16;
    const TEN_MW: u32 = 2 << 16;
    let in_units = |unit: f64| (watt / unit).round();
    if !(watt > 0.0 && in_units(0.01) <= f64::from(u16::MAX)) {
        return Err(format!("power_threshold_w = {watt} is not above 0 and at most 655.35"));
    }
    let fine = in_units(1e-4);
    if fine <= f64::from(u16::MAX) {
        return Ok(ENABLE | TENTH_MW | fine as u32);
    }
    Ok(ENABLE | TEN_MW | in_units(0.01) as u32)
}

/// `latency_monitor` of a step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawMonitor {
    thresholds_ms: [u32; 4],
    #[serde(default = "largest")]
    reports: String,
    #[serde(default)]
    window_ms: u32,
    #[serde(default)]
    moved_after_min: u32,
}

fn largest() -> String {
    "largest".into()
}

impl RawMonitor {
    /// The structure of Set Features C5h (OCP Datacenter NVMe SSD Specification 2.0, 4.12.10.1).
    pub fn structure(&self) -> Result<Vec<u8>, String> {
        let units = |name: &str, value: u32, (unit, most): (u32, u32), least: u32| {
            if value % unit == 0 && (least..=most).contains(&value) {
                return Ok(value / unit);
            }
            Err(format!("latency_monitor.{name} must be multiples of {unit} from {least} to {most}, not {value}"))
        };
        let mut d = vec![0; CONFIGURATION_BYTES];
        let timer = units("moved_after_min", self.moved_after_min, TIMER_MIN, 0)? as u16;
        d[0..2].copy_from_slice(&timer.to_le_bytes());
        for (at, ms) in (2..).zip(self.thresholds_ms) {
            d[at] = (units("thresholds_ms", ms, THRESHOLD_MS, THRESHOLD_MS.0)? - 1) as u8;
        }
        if !self.thresholds_ms.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err("latency_monitor.thresholds_ms must ascend".into());
        }
        let modes: u16 = match self.reports.as_str() {
            "largest" => 0x0FFF,
            "first" => 0,
            other => return Err(format!("latency_monitor.reports `{other}` is none of largest, first")),
        };
        d[6..8].copy_from_slice(&modes.to_le_bytes());
        d[8] = units("window_ms", self.window_ms, WINDOW_MS, 0)? as u8;
        d[12] = 1; // enabled
        Ok(d)
    }
}

impl<S: BusSink> Device<S> {
    /// Starts a measurement of the drive's own power for `minutes`; 0: until it is stopped.
    pub fn start_own_meter(&mut self, minutes: u16) -> Result<(), DriverError> {
        self.own_meter(u32::from(minutes) << 16 | 1)
    }

    /// Stops the measurement.
    pub fn stop_own_meter(&mut self) -> Result<(), DriverError> {
        self.own_meter(0)
    }

    fn own_meter(&mut self, word: u32) -> Result<(), DriverError> {
        let entry = sqe(admin::SET_FEATURES, 0, 0, [u32::from(feature::POWER_MEASUREMENT), word]);
        self.admin("Power Measurement", entry).map(drop)
    }

    /// Sends an Asynchronous Event Request, which stays with the drive, and enables the power threshold.
    pub fn enable_threshold(&mut self, word: u32) -> Result<(), DriverError> {
        let request = sqe(admin::ASYNC_EVENT_REQUEST, 0, 0, [0, 0]);
        self.submit(0, self.now + cpu::SUBMIT, request);
        let entry = sqe(admin::SET_FEATURES, 0, 0, [u32::from(feature::POWER_THRESHOLD), word]);
        self.admin("Power Threshold", entry).map(drop)
    }

    /// Configures the latency monitor, which clears its buckets.
    pub fn configure_monitor(&mut self, structure: &[u8]) -> Result<(), DriverError> {
        let page = self.scratch();
        self.memory.at(page, structure.len()).copy_from_slice(structure);
        let entry = sqe(admin::SET_FEATURES, 0, page, [u32::from(feature::LATENCY_MONITOR), 0]);
        self.admin("Latency Monitor", entry).map(drop)
    }

    /// Reads a log page as a whole.
    pub fn read_log(&mut self, page: LogPage) -> Result<Vec<u8>, DriverError> {
        match page {
            LogPage::LatencyMonitor => return self.read_log_bytes(page, MONITOR_PAGE_BYTES),
            LogPage::Health => return self.read_log_bytes(page, HEALTH_PAGE_BYTES),
            LogPage::PowerMeasurement => {}
        }
        let size = |bytes: &[u8]| number(&bytes[4..8]) as u32;
        let mut read = self.read_log_bytes(page, HEADER_BYTES)?;
        while (read.len() as u32) < size(&read) {
            read = self.read_log_bytes(page, size(&read))?; // a running measurement may have grown meanwhile
        }
        read.truncate(size(&read) as usize);
        Ok(read)
    }

    fn read_log_bytes(&mut self, page: LogPage, bytes: u32) -> Result<Vec<u8>, DriverError> {
        const RETAIN_EVENT: u32 = 1 << 15;
        let buffer = self.scratch();
        let mut read = Vec::new();
        for offset in (0..bytes).step_by(PART_BYTES as usize) {
            let part = PART_BYTES.min(bytes - offset);
            let words = (part / 4 - 1) << 16;
            let mut entry =
                sqe(admin::GET_LOG_PAGE, u32::MAX, buffer, [words | RETAIN_EVENT | u32::from(page.id()), 0]);
            entry[48..52].copy_from_slice(&offset.to_le_bytes());
            self.admin(&format!("log page {:02X}h", page.id()), entry)?;
            read.extend_from_slice(self.memory.at(buffer, part as usize));
        }
        Ok(read)
    }
}
