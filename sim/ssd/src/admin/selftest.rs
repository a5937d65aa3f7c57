//! Device Self-test (NVM Express 1.4, sections 5.8 and 8.11): a test that runs behind I/O, and the log of the last 20.

use crate::admin::identify::put;
use crate::controller::{Controller, Event};
use crate::host::BusSink;
use crate::nvme::{Sqe, Status};
use crate::profile::{Ps, S as SECOND};
use std::collections::VecDeque;

const SHORT: u8 = 1;
const EXTENDED: u8 = 2;
const ABORT: u8 = 0xF;
const RESULTS: usize = 20;
/// Bytes of log page 06h, and of a result in it.
const LOG_BYTES: usize = 564;
const RESULT_BYTES: usize = 28;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing wrong was found.
    Passed = 0x0,
    /// By a Device Self-test command.
    Aborted = 0x1,
    /// By a controller reset.
    Reset = 0x2,
    /// By Format NVM.
    Formatted = 0x4,
    /// By Sanitize.
    Sanitized = 0x9,
}

struct Running {
    code: u8,
    nsid: u32,
    start: Ps,
    end: Ps,
    serial: u32,
}

/// The test that runs, and the results of those that ran.
#[derive(Default)]
pub struct SelfTest {
    running: Option<Running>,
    results: VecDeque<[u8; RESULT_BYTES]>,
    serial: u32,
}

impl SelfTest {
    /// Whether a test runs.
    pub fn running(&self) -> bool {
        self.running.is_some()
    }

    /// The test that runs, if any, ends like this.
    pub fn stop(&mut self, now: Ps, outcome: Outcome) {
        let Some(test) = self.running.take() else { return };
        let mut result = [0; RESULT_BYTES];
        result[0] = test.code << 4 | outcome as u8;
        put(&mut result, 4, &(now / (3600 * SECOND)).to_le_bytes()); // power-on hours
        if (1..u32::MAX).contains(&test.nsid) {
            result[2] = 1; // the namespace is valid
            put(&mut result, 12, &test.nsid.to_le_bytes());
        }
        self.results.push_front(result);
        self.results.truncate(RESULTS);
    }

    /// Log page 06h: 564 bytes.
    pub fn log(&self, now: Ps) -> Vec<u8> {
        let mut d = vec![0; LOG_BYTES];
        if let Some(test) = &self.running {
            d[0] = test.code;
            d[1] = ((now - test.start) * 100 / (test.end - test.start).max(1)).min(99) as u8;
        }
        for i in 0..RESULTS {
            let at = 4 + RESULT_BYTES * i;
            match self.results.get(i) {
                Some(result) => put(&mut d, at, result),
                None => d[at] = 0xF, // not used
            }
        }
        d
    }
}

impl<S: BusSink> Controller<S> {
    /// Device Self-test: begins one, which goes on behind the completion, or ends the one that runs.
    pub(crate) fn device_self_test(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (code, nsid) = ((sqe.cdw(10) & 0xF) as u8, sqe.nsid());
        let offer = &self.profile.offer;
        let time = match code {
            SHORT => *offer.self_test_short_s * SECOND,
            EXTENDED => *offer.self_test_extended_min * 60 * SECOND,
            ABORT => {
                self.self_test.stop(self.now, Outcome::Aborted);
                self.settle();
                return Ok(());
            }
            _ => return Err(Status::INVALID_FIELD),
        };
        if nsid != 0 && nsid != u32::MAX {
            self.namespaces.named(nsid)?;
        }
        if self.self_test.running() {
            return Err(Status::SELF_TEST_IN_PROGRESS);
        }
        if self.maintenance.busy() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        self.self_test.serial += 1;
        let (start, end, serial) = (self.now, self.now + time, self.self_test.serial);
        self.self_test.running = Some(Running { code, nsid, start, end, serial });
        self.at(end, Event::SelfTested(serial));
        Ok(())
    }

    /// A controller reset, which forgot the end to come, ends a short test; an extended one goes on.
    pub(crate) fn reset_self_test(&mut self) {
        match &self.self_test.running {
            Some(test) if test.code == EXTENDED => self.at(test.end, Event::SelfTested(test.serial)),
            _ => self.self_test.stop(self.now, Outcome::Reset),
        }
    }

    /// The test with this number has run its time, if it still runs.
    pub(crate) fn self_tested(&mut self, serial: u32) {
        if self.self_test.running.as_ref().is_some_and(|t| t.serial == serial) {
            self.self_test.stop(self.now, Outcome::Passed);
            self.settle();
        }
    }
}
