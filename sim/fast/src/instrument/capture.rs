//! Start and stop of the capture, state by state, and the STATUS blocks that go with them.

use super::Instrument;
use crate::events::{event, Lost};
use crate::rail::Analog;
use crate::run::State;
use crate::status::{self, Pending};
use crate::time::{clock_at, tick, Clock, DELAY_TICKS, NEVER};
use crate::writer::{Block, Source};
use wattbell_spec::wire::{event_type_code as kind, loss_source_code};

impl<A: Analog> Instrument<A> {
    /// Executes the work of the run's present state in `clock`.
    pub(super) fn run_step(&mut self, clock: Clock) {
        match self.run.state {
            State::Stopped => {
                self.status(clock, true);
                self.events.sidebands(clock, 7, self.levels);
                self.writer.run = self.registers.run_id;
                self.run.tick = tick(clock);
                self.run.capturing = (clock + 1, NEVER);
                self.run.active = true;
                self.run.schedule_status(clock);
                self.events.offer_run(clock + 1, event(self.run.tick, kind::RUN, 1, 0, 0));
                self.rail.set_run(clock + 1, true);
                self.tracker.set_run(clock + 2, true);
                self.run.to(State::Started, clock);
            }
            State::Started => self.after_event(clock, State::Running),
            State::Running => {
                if self.run.next_status <= clock {
                    self.status(clock, true);
                    self.run.schedule_status(clock);
                }
                if !self.run.wanted.1 && self.run.wanted.0 <= clock {
                    self.run.tick = tick(clock);
                    self.run.capturing.1 = clock + 1;
                    self.run.next_status = NEVER;
                    self.rail.set_run(clock + 1, false);
                    self.tracker.set_run(clock + 2, false);
                    self.run.to(State::Drain, clock);
                    self.run.at = all_out(clock);
                }
            }
            State::Drain => {
                let drained = self.rail.is_idle(clock)
                    && self.events.tracker_is_empty(clock)
                    && self.raw_blocks.is_empty(clock)
                    && self.command_blocks.queue.level(clock) == 0
                    && self.command_blocks.is_quiet(clock);
                let next = if drained { State::Losses } else { State::Drain };
                self.run.to(next, clock);
            }
            State::Losses => {
                let clean = self.events.losses_clean();
                self.events.set_flush_losses(!clean);
                if clean {
                    self.events.offer_run(clock + 1, event(self.run.tick, kind::RUN, 0, 0, 0));
                }
                self.run.to(if clean { State::Event } else { State::Losses }, clock);
            }
            State::Event => self.after_event(clock, State::Events),
            State::Events => {
                let empty = self.event_blocks.queue.level(clock) == 0 && self.event_blocks.is_quiet(clock);
                self.run.to(if empty { State::Flush } else { State::Events }, clock);
            }
            State::Flush => {
                if self.is_sent(clock) {
                    self.status(clock, false);
                    self.run.to(State::Sending, clock);
                } else {
                    self.command_blocks.flush(clock, self.writer.buffer(Source::Commands));
                    self.event_blocks.flush(clock, self.writer.buffer(Source::Events));
                    self.raw_blocks.flush(clock, self.writer.buffer(Source::Raw));
                    self.run.to(State::Flush, clock);
                }
            }
            State::Sending => self.run.to(State::Sent, clock),
            State::Sent => {
                if self.is_sent(clock) {
                    self.run.active = false;
                    self.run.to(State::Stopped, clock);
                } else {
                    self.run.to(State::Sent, clock);
                }
            }
        }
    }

    fn after_event(&mut self, clock: Clock, next: State) {
        let taken = self.events.run_taken().is_some_and(|at| at <= clock);
        let state = if taken { next } else { self.run.state };
        self.run.to(state, clock);
    }

    /// Whether no block is open, closed or being sent, nor a STATUS block waits for its counters.
    fn is_sent(&self, clock: Clock) -> bool {
        self.command_blocks.is_idle(clock)
            && self.event_blocks.is_idle(clock)
            && self.raw_blocks.is_idle(clock)
            && self.rail.is_idle(clock)
            && self.writer.is_idle(clock)
            && self.pending.is_none()
    }

    /// A STATUS block is requested in `clock`; lost if the previous one has not been sent.
    pub(super) fn status(&mut self, clock: Clock, run: bool) {
        if self.pending.is_some() || !self.writer.buffer(Source::Status).is_empty(clock) {
            self.status_dropped = self.status_dropped.saturating_add(1);
            return;
        }
        let config = *self.rail.announced_by(clock);
        let rig = status::Rig {
            version: wattbell_spec::registers::GATEWARE_VERSION,
            run,
            period_clocks: config.period,
            decimation: config.decimation,
            lost_records: self.events.lost(Lost::Records),
            lost_events: self.events.lost(Lost::Events),
            lost_samples: self.events.lost(Lost::Samples),
        };
        let counters = self.tracker.request(clock);
        self.pending = Some(Pending { closes: all_out(clock), first_tick: tick(clock), counters, rig });
    }

    /// The tracker's counters of the pending STATUS block are known in `clock`.
    pub(super) fn close_status(&mut self, clock: Clock) {
        let Some(Pending { first_tick, mut counters, rig, .. }) = self.pending.take() else { return };
        let lost = |source| self.events.tracker_losses.count(source, clock);
        (counters.lost_commands, counters.lost_pages) = (lost(loss_source_code::SLOTS), lost(loss_source_code::PAGES));
        self.writer.buffer(Source::Status).close(Block {
            payload: status::payload(&counters.with(&self.tracker.snapshot), &rig),
            first_tick,
            dropped: std::mem::take(&mut self.status_dropped),
            ready: clock + 1,
        });
    }
}

/// The cycle in which all that was made up to `clock` is certainly released.
fn all_out(clock: Clock) -> Clock {
    const MARGIN_TICKS: u64 = 16;
    clock_at(tick(clock) + DELAY_TICKS + MARGIN_TICKS)
}
