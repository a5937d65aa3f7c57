//! Set Features and Get Features (NVM Express 1.4, sections 5.13 and 5.21): those with data, and what a value does at once.

use crate::admin::features::{self, Select};
use crate::admin::hmb::DESCRIPTOR_BYTES;
use crate::controller::Controller;
use crate::host::BusSink;
use crate::nvme::{feature, Sqe, Status};
use crate::power::states::APST_BYTES;
use crate::profile::{Ps, MS};

/// Bytes of the Timestamp structure.
const TIMESTAMP_BYTES: u32 = 8;
const TIMESTAMP_MASK: u64 = (1 << 48) - 1;

/// Feature 0Eh: milliseconds since 1970 as the host set them, or since power-on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timestamp {
    value_ms: u64,
    set_at: Ps,
    by_host: bool,
}

impl Timestamp {
    fn set(&mut self, now: Ps, data: &[u8]) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&data[..8]);
        *self = Self { value_ms: u64::from_le_bytes(bytes) & TIMESTAMP_MASK, set_at: now, by_host: true };
    }

    /// The structure: 48 bits of time, then the origin.
    fn get(&self, now: Ps) -> Vec<u8> {
        let ms = self.value_ms.wrapping_add((now - self.set_at) / MS) & TIMESTAMP_MASK;
        let origin = u64::from(self.by_host) << 1;
        (ms | origin << 48).to_le_bytes().to_vec()
    }
}

impl<S: BusSink> Controller<S> {
    /// The memory the host lends the drive (Host Memory Buffer): addresses and lengths in bytes.
    pub fn host_memory(&self) -> &[(u64, u64)] {
        self.hmb.ranges()
    }

    /// Whether background work may exceed the power of a non-operational state (feature 11h).
    pub fn permissive(&self) -> bool {
        self.features.permissive()
    }

    /// Set Features: done at once, or when its data is here.
    pub(crate) fn set_features(&mut self, id: u32, sqe: &Sqe) {
        let (feature, save) = (sqe.cdw(10) as u8, sqe.cdw(10) >> 31 == 1);
        if save && !features::saveable(feature) {
            return self.fail(id, Status::NOT_SAVEABLE);
        }
        match feature {
            feature::APST => self.resolve(id, APST_BYTES as u32),
            feature::TIMESTAMP => self.resolve(id, TIMESTAMP_BYTES),
            feature::HOST_MEMORY_BUFFER => self.ask_hmb(id, sqe),
            feature::POWER_MANAGEMENT => {
                let state = (sqe.cdw(11) & 0x1F) as usize;
                if state >= self.profile.power_state.len() {
                    return self.fail(id, Status::INVALID_FIELD);
                }
                self.states.request(self.now, state, &mut self.meter);
                self.finish_at(id, self.now);
            }
            _ => self.set_value(id, feature, sqe.cdw(11), save),
        }
    }

    fn set_value(&mut self, id: u32, feature: u8, value: u32, save: bool) {
        let queues = self.sqs.len() > 1 || self.cqs.len() > 1;
        let cached = self.features.write_cache();
        match self.features.set(feature, value, save, queues) {
            Err(status) => return self.fail(id, status),
            Ok(dw0) => self.command(id).dw0 = dw0,
        }
        if matches!(feature, feature::TEMPERATURE_THRESHOLD | feature::HCTM) {
            let composite_k = self.thermal.composite_k();
            self.feel(composite_k); // what was below the old limit may be above the new one
        }
        if cached && !self.features.write_cache() {
            self.flush_buffer(); // what was volatile is not when the command completes
            let done = self.flash.programmed_ps();
            return self.finish_at(id, done);
        }
        self.finish_at(id, self.now);
    }

    /// The lent memory is the host's again: the part of the map in it is gone.
    pub(crate) fn return_memory(&mut self) {
        self.hmb.give_back();
        self.flash.lend(0);
    }

    fn ask_hmb(&mut self, id: u32, sqe: &Sqe) {
        match self.hmb.asked(sqe) {
            Err(status) => self.fail(id, status),
            Ok(None) => {
                self.return_memory();
                self.finish_at(id, self.now);
            }
            Ok(Some(loan)) => {
                self.command(id).pieces = vec![(loan.list, loan.entries * DESCRIPTOR_BYTES)];
                self.fetch_structure(id);
            }
        }
    }

    /// The data of a Set Features command has arrived.
    pub(crate) fn features_in(&mut self, id: u32) {
        let now = self.now;
        let c = self.command(id);
        let (sqe, data) = (c.sqe, std::mem::take(&mut c.data));
        let result = match sqe.cdw(10) as u8 {
            feature::TIMESTAMP => {
                self.timestamp.set(now, &data);
                Ok(())
            }
            feature::HOST_MEMORY_BUFFER => match self.hmb.asked(&sqe) {
                Ok(Some(loan)) => {
                    let taken = self.hmb.take(loan, &data);
                    self.flash.lend(self.hmb.ranges().iter().map(|r| r.1).sum());
                    taken
                }
                Ok(None) => Ok(()),
                Err(status) => Err(status),
            },
            _ => {
                let mut table = [0; APST_BYTES];
                table.copy_from_slice(&data);
                let known = self.states.set_apst(sqe.cdw(11) & 1 == 1, &table);
                known.then_some(()).ok_or(Status::INVALID_FIELD)
            }
        };
        match result {
            Ok(()) => self.finish_at(id, now),
            Err(status) => self.fail(id, status),
        }
    }

    /// Get Features.
    pub(crate) fn get_features(&mut self, id: u32, sqe: &Sqe) {
        let feature = sqe.cdw(10) as u8;
        let select = match Select::of(sqe.cdw(10)) {
            Ok(select) => select,
            Err(status) => return self.fail(id, status),
        };
        let with_data = self.feature_data(feature, select);
        if select == Select::Capabilities && (with_data.is_some() || feature == feature::POWER_MANAGEMENT) {
            self.command(id).dw0 = features::capabilities(false);
            return self.finish_at(id, self.now);
        }
        if let Some((dw0, data)) = with_data {
            let len = data.len() as u32;
            let c = self.command(id);
            (c.dw0, c.data) = (dw0, data);
            return self.resolve(id, len);
        }
        let value = match (feature, select) {
            (feature::POWER_MANAGEMENT, Select::Current) => Ok(u32::from(self.states.current())),
            (feature::POWER_MANAGEMENT, _) => Ok(0),
            _ => self.features.get(feature, sqe.cdw(11), select),
        };
        match value {
            Ok(dw0) => {
                self.command(id).dw0 = dw0;
                self.finish_at(id, self.now);
            }
            Err(status) => self.fail(id, status),
        }
    }

    /// DW0 and data of a feature that has data. None of them is saved, so saved and default are what a reset leaves.
    fn feature_data(&self, feature: u8, select: Select) -> Option<(u32, Vec<u8>)> {
        let current = select == Select::Current;
        Some(match feature {
            feature::APST if current => {
                let (enabled, table) = self.states.apst();
                (u32::from(enabled), table.to_vec())
            }
            feature::APST => (0, vec![0; APST_BYTES]),
            feature::TIMESTAMP if current => (0, self.timestamp.get(self.now)),
            feature::TIMESTAMP => (0, vec![0; TIMESTAMP_BYTES as usize]),
            feature::HOST_MEMORY_BUFFER if !self.hmb.offered() => return None,
            feature::HOST_MEMORY_BUFFER if current => (self.hmb.dw0(), self.hmb.attributes()),
            feature::HOST_MEMORY_BUFFER => (0, vec![0; 4096]),
            _ => return None,
        })
    }
}
