//! Asynchronous Event Requests (NVM Express, command of this name). Requests wait for an event, and events wait for a request. A type
//! stays quiet until the host has read its log page.

use super::identify::AER_LIMIT;
use crate::nvme::{AsyncEvent, Status};
use std::collections::VecDeque;

/// Requests and events that wait, and which types are masked.
#[derive(Default)]
pub struct AsyncEvents {
    requests: VecDeque<u32>,
    pending: VecDeque<AsyncEvent>,
    masked: u8,
}

impl AsyncEvents {
    /// A controller reset.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Something the host should know of, unless `enabled`, which is feature 0Bh, says it does not want to.
    pub fn raise(&mut self, event: AsyncEvent, enabled: u32) {
        let unwanted = event.enable().is_some_and(|bit| enabled & bit == 0);
        if !unwanted && !self.pending.iter().any(|pending| pending.0 == event.0) {
            self.pending.push_back(event);
        }
    }

    /// Command `id` asks for an event.
    pub fn request(&mut self, id: u32) -> Result<(), Status> {
        if self.requests.len() > usize::from(AER_LIMIT) {
            return Err(Status::AER_LIMIT);
        }
        self.requests.push_back(id);
        Ok(())
    }

    /// Returns the oldest waiting request with the first unmasked event, and masks that event's type.
    pub fn deliver(&mut self) -> Option<(u32, AsyncEvent)> {
        if self.requests.is_empty() {
            return None;
        }
        let at = self.pending.iter().position(|e| self.masked >> e.kind() & 1 == 0)?;
        let event = self.pending.remove(at)?;
        if !event.one_shot() {
            self.masked |= 1 << event.kind();
        }
        Some((self.requests.pop_front()?, event))
    }

    /// Forgets one-shot events that wait: the host has changed what they are about.
    pub fn forget_one_shots(&mut self) {
        self.pending.retain(|event| !event.one_shot());
    }

    /// Takes a waiting request out: the one `of` is true for.
    pub fn take_request(&mut self, of: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.requests.iter().position(|&id| of(id))?;
        self.requests.remove(at)
    }

    /// The host read log page `log` and did not ask to keep the event: its type may be reported again.
    pub fn log_was_read(&mut self, log: u8) {
        let all = [
            AsyncEvent::INVALID_DOORBELL_VALUE,
            AsyncEvent::TEMPERATURE,
            AsyncEvent::NAMESPACE_CHANGED,
            AsyncEvent::SANITIZED,
        ];
        let Some(read) = all.into_iter().find(|event| event.log() == log) else { return };
        self.masked &= !(1 << read.kind());
        self.pending.retain(|e| e.kind() != read.kind()); // what waited behind the mask is in the log just read
    }
}
