//! Asynchronous events (NVM Express 1.4, section 5.2): requests that wait for one, events that wait for a request, and
//! types that stay quiet until the host has read their log page.

use crate::admin::identify::AER_LIMIT;
use crate::controller::Controller;
use crate::host::BusSink;
use crate::nvme::{log_page, Status};
use std::collections::VecDeque;

/// Types, bits 2:0 of DW0.
const ERROR: u32 = 0;
const HEALTH: u32 = 1;
const NOTICE: u32 = 2;
const IO_COMMAND_SET: u32 = 6;

/// An event as DW0 shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent(u32);

#[allow(missing_docs)] // names are those of the specification
impl AsyncEvent {
    pub const INVALID_DOORBELL_REGISTER: Self = Self::new(ERROR, 0x00, log_page::ERRORS);
    pub const INVALID_DOORBELL_VALUE: Self = Self::new(ERROR, 0x01, log_page::ERRORS);
    pub const TEMPERATURE: Self = Self::new(HEALTH, 0x01, log_page::HEALTH);
    pub const NAMESPACE_CHANGED: Self = Self::new(NOTICE, 0x00, log_page::CHANGED_NAMESPACES);
    pub const SANITIZED: Self = Self::new(IO_COMMAND_SET, 0x01, log_page::SANITIZE);

    const fn new(kind: u32, information: u32, log: u8) -> Self {
        Self((log as u32) << 16 | information << 8 | kind)
    }

    /// Bit of feature 0Bh that lets it through; `None`: nothing can hold it back.
    fn enable(self) -> Option<u32> {
        match self {
            Self::TEMPERATURE => Some(1 << 1),
            Self::NAMESPACE_CHANGED => Some(1 << 8),
            _ => None,
        }
    }

    fn kind(self) -> u32 {
        self.0 & 7
    }
}

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

    /// The first event that is not masked, which then is.
    fn next(&mut self) -> Option<AsyncEvent> {
        let at = self.pending.iter().position(|e| self.masked >> e.kind() & 1 == 0)?;
        let event = self.pending.remove(at)?;
        self.masked |= 1 << event.kind();
        Some(event)
    }

    /// Takes a waiting request out: the one `of` is true for.
    pub fn take_request(&mut self, of: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.requests.iter().position(|&id| of(id))?;
        self.requests.remove(at)
    }
}

impl<S: BusSink> Controller<S> {
    /// Something the host should know of, unless feature 0Bh says it does not want to.
    pub(crate) fn async_event(&mut self, event: AsyncEvent) {
        if event.enable().is_some_and(|bit| self.features.async_events() & bit == 0) {
            return;
        }
        if !self.async_events.pending.contains(&event) {
            self.async_events.pending.push_back(event);
        }
        self.deliver_events();
    }

    /// The host read log page `log` and did not ask to keep the event: its type may be reported again.
    pub(crate) fn log_was_read(&mut self, log: u8) {
        let kind = match log {
            log_page::ERRORS => ERROR,
            log_page::HEALTH => HEALTH,
            log_page::CHANGED_NAMESPACES => NOTICE,
            log_page::SANITIZE => IO_COMMAND_SET,
            _ => return,
        };
        self.async_events.masked &= !(1 << kind);
        self.async_events.pending.retain(|e| e.kind() != kind); // what waited behind the mask is in the log just read
    }

    /// An Asynchronous Event Request arrives.
    pub(crate) fn async_request(&mut self, id: u32) {
        if self.async_events.requests.len() > usize::from(AER_LIMIT) {
            return self.fail(id, Status::AER_LIMIT);
        }
        self.async_events.requests.push_back(id);
        self.in_hand -= 1; // it may wait for ever: the controller is idle meanwhile
        self.deliver_events();
        self.settle();
    }

    fn deliver_events(&mut self) {
        while !self.async_events.requests.is_empty() {
            let Some(event) = self.async_events.next() else { return };
            let Some(id) = self.async_events.requests.pop_front() else { return };
            self.in_hand += 1;
            self.command(id).dw0 = event.0;
            self.finish_at(id, self.now);
        }
    }
}
