//! The controller's processor: how long its work on commands takes.

use crate::profile::{ps, Profile, Ps, MS, NS, US};
use crate::variation::Variation;

/// The controller's processor: times of a profile, in picoseconds, and the time until which the processor is busy.
pub struct Processor {
    /// Doorbell to read of the entries.
    pub to_fetch: Ps,
    /// End of a command's work to its completion.
    pub completion: Ps,
    /// Completion to interrupt message.
    pub msix: Ps,
    /// CC.EN to CSTS.RDY.
    pub ready: Ps,
    command: Ps,
    occupancy: Ps,
    write: Ps,
    command_variation: Variation,
    write_variation: Variation,
    free: Ps,
    last_understood: Ps,
}

impl Processor {
    /// Creates the processor of a profile.
    pub fn new(profile: &Profile, seed: u64) -> Self {
        let c = &profile.controller;
        Self {
            to_fetch: *c.doorbell_to_fetch_ns * NS,
            completion: *c.completion_ns * NS,
            msix: *c.msix_ns * NS,
            ready: ps(*profile.limits.ready_ms, MS),
            command: ps(*c.command_us, US),
            occupancy: ps(*c.command_occupancy_us, US),
            write: ps(*c.write_us, US),
            command_variation: Variation::new(*c.spread, seed ^ 0xC03),
            write_variation: Variation::new(*c.spread, seed ^ 0x3417E),
            free: 0,
            last_understood: 0,
        }
    }

    /// When a command that is fetched at `now` is understood. Commands stay in the order of their fetch.
    pub fn understood_ps(&mut self, now: Ps, slow: f64) -> Ps {
        let start = now.max(self.free);
        self.free = start + (self.occupancy as f64 * slow) as Ps;
        let time = self.command as f64 * slow * self.command_variation.factor();
        self.last_understood = self.last_understood.max(start + time as Ps);
        self.last_understood
    }

    /// Returns when the controller finishes a write that has its data in the buffer at `now`.
    pub fn write_done_ps(&mut self, now: Ps) -> Ps {
        now + (self.write as f64 * self.write_variation.factor()) as Ps
    }
}
