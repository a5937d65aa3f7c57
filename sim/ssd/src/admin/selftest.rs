//! Device Self-test (NVM Express, command of this name and Device Self-test Operations): a test that runs behind I/O, and the log of the last 20.

use super::identify::put;
use super::namespaces::Namespaces;
use crate::nvme::{Sqe, Status};
use crate::profile::{Offer, Ps, S as SECOND};
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
pub enum TestEnd {
    /// Nothing wrong was found.
    Passed = 0x0,
    /// A Device Self-test command aborted the test.
    Aborted = 0x1,
    /// A controller reset aborted the test.
    Reset = 0x2,
    /// Format NVM aborted the test.
    Formatted = 0x4,
    /// Sanitize aborted the test.
    Sanitized = 0x9,
}

struct Running {
    code: u8,
    nsid: u32,
    start: Ps,
    end: Ps,
    serial: u32,
}

/// The running test, and the results of past tests.
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
    pub fn stop(&mut self, now: Ps, end: TestEnd) {
        let Some(test) = self.running.take() else { return };
        let mut result = [0; RESULT_BYTES];
        result[0] = test.code << 4 | end as u8;
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

    /// Device Self-test: begins a test, which goes on behind the completion, and returns its end and number; `None` if the
    /// command ended one. `busy`: the drive is being formatted or sanitized.
    pub fn command(
        &mut self,
        now: Ps,
        sqe: &Sqe,
        offer: &Offer,
        namespaces: &Namespaces,
        busy: bool,
    ) -> Result<Option<(Ps, u32)>, Status> {
        let (code, nsid) = ((sqe.cdw(10) & 0xF) as u8, sqe.nsid());
        let time = match code {
            SHORT => *offer.self_test_short_s * SECOND,
            EXTENDED => *offer.self_test_extended_min * 60 * SECOND,
            ABORT => {
                self.stop(now, TestEnd::Aborted);
                return Ok(None);
            }
            _ => return Err(Status::INVALID_FIELD),
        };
        if nsid != 0 && nsid != u32::MAX {
            namespaces.named(nsid)?;
        }
        if self.running() {
            return Err(Status::SELF_TEST_IN_PROGRESS);
        }
        if busy {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        self.serial += 1;
        let running = Running { code, nsid, start: now, end: now + time, serial: self.serial };
        Ok(Some((self.running.insert(running).end, self.serial)))
    }

    /// A controller reset ends a short test; an extended one goes on. Returns the end and number of one that does.
    pub fn reset(&mut self, now: Ps) -> Option<(Ps, u32)> {
        match &self.running {
            Some(test) if test.code == EXTENDED => Some((test.end, test.serial)),
            _ => {
                self.stop(now, TestEnd::Reset);
                None
            }
        }
    }

    /// The test with this number has run its time. Returns whether it still ran.
    pub fn passed(&mut self, now: Ps, serial: u32) -> bool {
        let runs = self.running.as_ref().is_some_and(|t| t.serial == serial);
        if runs {
            self.stop(now, TestEnd::Passed);
        }
        runs
    }
}
