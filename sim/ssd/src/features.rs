//! Features (NVM Express 1.4, section 5.21): current, default and saved values are those of a controller that saves none.

use crate::nvme::Status;
use crate::profile::Profile;

/// Feature identifiers.
#[allow(missing_docs)]
pub mod id {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER_MANAGEMENT: u8 = 0x02;
    pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const COALESCING: u8 = 0x08;
    pub const VECTOR: u8 = 0x09;
    pub const ATOMICITY: u8 = 0x0A;
    pub const ASYNC_EVENTS: u8 = 0x0B;
    pub const APST: u8 = 0x0C;
}

/// Values of the features that are a dword, or a dword for each of a few things.
pub struct Features {
    arbitration: u32,
    warning_k: u32,
    thresholds: [u32; 2],
    error_recovery: u32,
    write_cache: u32,
    /// Queues allocated, as Number of Queues returns it.
    pub queues: u32,
    coalescing: u32,
    vectors: Vec<u32>,
    atomicity: u32,
    async_events: u32,
    io_queues: u32,
}

impl Features {
    /// Defaults of this profile.
    pub fn new(profile: &Profile) -> Self {
        let io_queues = u32::from(*profile.limits.io_queues);
        let mut features = Self {
            arbitration: 0,
            warning_k: *profile.limits.warning_temperature_c as u32 + 273,
            thresholds: [0; 2],
            error_recovery: 0,
            write_cache: 0,
            queues: 0,
            coalescing: 0,
            vectors: vec![0; io_queues as usize + 1],
            atomicity: 0,
            async_events: 0,
            io_queues,
        };
        features.reset();
        features
    }

    /// Back to the defaults.
    pub fn reset(&mut self) {
        self.arbitration = 0x0000_0002;
        self.thresholds = [self.warning_k, 0];
        self.error_recovery = 0;
        self.write_cache = 1;
        self.queues = (self.io_queues - 1) << 16 | (self.io_queues - 1);
        self.coalescing = 0;
        for (vector, value) in self.vectors.iter_mut().enumerate() {
            *value = vector as u32;
        }
        self.atomicity = 0;
        self.async_events = 0;
    }

    /// Whether completed writes may still be volatile.
    pub fn write_cache(&self) -> bool {
        self.write_cache & 1 == 1
    }

    /// Interrupt coalescing of a completion queue: threshold (0's based) and time in microseconds; time 0 is off. The
    /// admin queue is never coalesced.
    pub fn coalescing(&self, cqid: u16) -> (u32, u32) {
        let disabled = self.vectors.get(usize::from(cqid)).is_some_and(|v| v & 1 << 16 != 0);
        if cqid == 0 || disabled || self.coalescing & 0xFF == 0 {
            return (0, 0);
        }
        (self.coalescing & 0xFF, (self.coalescing >> 8 & 0xFF) * 100)
    }

    /// Get Features: DW0 of the completion.
    pub fn get(&self, feature: u8, cdw11: u32) -> Result<u32, Status> {
        Ok(match feature {
            id::ARBITRATION => self.arbitration,
            id::TEMPERATURE_THRESHOLD => self.thresholds[threshold(cdw11)?],
            id::ERROR_RECOVERY => self.error_recovery,
            id::WRITE_CACHE => self.write_cache,
            id::QUEUES => self.queues,
            id::COALESCING => self.coalescing,
            id::VECTOR => *self.vectors.get((cdw11 & 0xFFFF) as usize).ok_or(Status::INVALID_FIELD)?,
            id::ATOMICITY => self.atomicity,
            id::ASYNC_EVENTS => self.async_events,
            _ => return Err(Status::INVALID_FIELD),
        })
    }

    /// Set Features: DW0 of the completion. `queues_exist`: I/O queues have been created since the reset.
    pub fn set(&mut self, feature: u8, cdw11: u32, queues_exist: bool) -> Result<u32, Status> {
        match feature {
            id::ARBITRATION => self.arbitration = cdw11,
            id::TEMPERATURE_THRESHOLD => self.thresholds[threshold(cdw11)?] = cdw11 & 0xFFFF,
            id::ERROR_RECOVERY => self.error_recovery = cdw11 & 0x1_FFFF,
            id::WRITE_CACHE => self.write_cache = cdw11 & 1,
            id::QUEUES => {
                let (sqs, cqs) = (cdw11 & 0xFFFF, cdw11 >> 16);
                if sqs == 0xFFFF || cqs == 0xFFFF {
                    return Err(Status::INVALID_FIELD);
                }
                if queues_exist {
                    return Err(Status::SEQUENCE_ERROR);
                }
                self.queues = cqs.min(self.io_queues - 1) << 16 | sqs.min(self.io_queues - 1);
                return Ok(self.queues);
            }
            id::COALESCING => self.coalescing = cdw11 & 0xFFFF,
            id::VECTOR => {
                let vector = (cdw11 & 0xFFFF) as usize;
                let value = self.vectors.get_mut(vector).filter(|_| vector != 0).ok_or(Status::INVALID_FIELD)?;
                *value = cdw11 & 0x1_FFFF;
            }
            id::ATOMICITY => self.atomicity = cdw11 & 1,
            id::ASYNC_EVENTS => self.async_events = cdw11,
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(0)
    }
}

/// Composite temperature only: over (0) or under (1).
fn threshold(cdw11: u32) -> Result<usize, Status> {
    match (cdw11 >> 16 & 0xF, cdw11 >> 20 & 3) {
        (0 | 0xF, kind @ (0 | 1)) => Ok(kind as usize),
        _ => Err(Status::INVALID_FIELD),
    }
}
