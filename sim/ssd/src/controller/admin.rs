//! Admin commands (NVM Express, Admin Command Set): which is which, and what those do that reach beyond the room `admin`.

use super::agenda::Event;
use super::Controller;
use crate::admin::features::{self, Select};
use crate::admin::{LogState, TestEnd};
use crate::host::BusSink;
use crate::nvme::commands::{Next, Outcome};
use crate::nvme::{admin, feature, AsyncEvent, Sqe, Status};
use crate::power::ownmeter::LONGEST_MIN;
use crate::power::states::APST_BYTES;
use crate::profile::Ps;

impl<S: BusSink> Controller<S> {
    /// Takes up an admin command.
    pub(super) fn execute_admin(&mut self, id: u32) -> Outcome {
        let sqe = &{ self.commands[id].sqe };
        if !self.admin.maintenance.allows(sqe) {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        let (profile, data_kept, now) = (&self.profile, self.media.keeps_data(), self.now);
        let (offer, entries) = (&profile.offer, *profile.limits.max_queue_entries);
        let granted = self.admin.features.queues;
        let done = |()| Next::Done(0);
        match sqe.opcode() {
            admin::DELETE_IO_SQ => self.queues.delete_sq(sqe).map(done),
            admin::CREATE_IO_SQ => self.queues.create_sq(sqe, granted, entries).map(done),
            admin::DELETE_IO_CQ => {
                let (posted, blocked) = self.queues.delete_cq(sqe)?;
                posted.iter().for_each(|truth| self.sink.command(truth));
                self.commands.end(blocked);
                Ok(Next::Done(0))
            }
            admin::CREATE_IO_CQ => self.queues.create_cq(sqe, granted, entries, self.pcie.msix.vectors()).map(done),
            admin::IDENTIFY => self.admin.identify(sqe, profile, data_kept, now),
            admin::GET_LOG_PAGE => {
                let warmth = self.power.warmth(now, &self.admin.thermal_limits());
                let state = LogState { warmth, data_kept, own_meter: self.power.own_meter.as_ref() };
                self.admin.log_page(sqe, profile, now, &state)
            }
            admin::SET_FEATURES => self.set_features(sqe),
            admin::GET_FEATURES => self.get_features(sqe),
            admin::ABORT => Ok(self.abort(sqe)),
            admin::ASYNC_EVENT_REQUEST => {
                self.admin.async_events.request(id)?;
                self.commands.end(1); // it may wait for ever: the controller is idle meanwhile
                self.deliver_events();
                self.settle();
                Ok(Next::Wait)
            }
            admin::DEVICE_SELF_TEST if offer.self_test() => {
                let (namespaces, busy) = (&self.admin.namespaces, self.admin.maintenance.busy());
                match self.admin.self_test.command(now, sqe, offer, namespaces, busy)? {
                    Some((end, serial)) => self.agenda.at(end, Event::SelfTested(serial)),
                    None => self.settle(),
                }
                Ok(Next::Done(0))
            }
            admin::FORMAT_NVM => self.format(id, sqe),
            admin::SANITIZE if !offer.sanitize.is_empty() => self.sanitize(sqe),
            admin::NAMESPACE_MANAGEMENT if *offer.namespace_management => self.manage_namespace(sqe),
            admin::NAMESPACE_ATTACHMENT if *offer.namespace_management => match sqe.cdw(10) & 0xF {
                0 | 1 => Ok(Next::Transfer(4096)),
                _ => Err(Status::INVALID_FIELD),
            },
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The structure that an admin command brings is here.
    pub(super) fn admin_data_in(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let next = match sqe.opcode() {
            admin::NAMESPACE_MANAGEMENT => self.admin.create_namespace(data),
            admin::NAMESPACE_ATTACHMENT => self.admin.attach_namespace(sqe, data),
            _ => self.feature_in(sqe, data).map(|()| Next::Done(0)),
        };
        self.deliver_events();
        next
    }

    /// Abort: an Asynchronous Event Request that waits is ended; anything else runs to its end (DW0 bit 0 says so).
    fn abort(&mut self, sqe: &Sqe) -> Next {
        let (qid, cid) = (sqe.cdw(10) as u16, (sqe.cdw(10) >> 16) as u16);
        let commands = &self.commands;
        let held = self.admin.async_events.take_request(|id| qid == 0 && commands[id].sqe.cid() == cid);
        if let Some(request) = held {
            self.commands.begin(1);
            self.fail(request, Status::ABORTED_BY_REQUEST);
        }
        Next::Done(u32::from(held.is_none()))
    }

    /// Set Features: done at once, or when its data is here.
    fn set_features(&mut self, sqe: &Sqe) -> Outcome {
        let (feature, save) = (sqe.cdw(10) as u8, sqe.cdw(10) >> 31 == 1);
        let saveable = match feature {
            feature::LATENCY_MONITOR => self.admin.latency_monitor.is_some(),
            feature::POWER_LIMIT => *self.profile.offer.power_limit,
            feature::POWER_THRESHOLD => *self.profile.offer.power_threshold,
            other => features::saveable(other),
        };
        if save && !saveable {
            return Err(Status::NOT_SAVEABLE);
        }
        match feature {
            feature::POWER_MEASUREMENT if *self.profile.offer.power_measurement => self.measure_power(sqe),
            feature::APST => Ok(Next::Transfer(APST_BYTES as u32)),
            feature::POWER_MANAGEMENT => {
                let state = (sqe.cdw(11) & 0x1F) as usize;
                if state >= self.power.states.count() {
                    return Err(Status::INVALID_FIELD);
                }
                self.power.states.request(self.now, state, &mut self.power.meter);
                Ok(Next::Done(0))
            }
            feature::POWER_LIMIT => self.set_value(feature, sqe.cdw(13) & 0x3_FFFF, save),
            _ => match self.admin.set_with_data(sqe) {
                Some(next) => {
                    if self.admin.hmb.lent() == 0 {
                        self.lent.forget();
                    }
                    self.media.flash.lend(self.admin.hmb.lent());
                    next
                }
                None => self.set_value(feature, sqe.cdw(11), save),
            },
        }
    }

    /// Set Features 25h: starts or stops a measurement of the drive's own power.
    fn measure_power(&mut self, sqe: &Sqe) -> Outcome {
        const STOP: u32 = 0;
        const START: u32 = 1;
        let (word, stamp) = (sqe.cdw(11), self.admin.stamp(self.now));
        let Some(meter) = &mut self.power.own_meter else { return Err(Status::INVALID_FIELD) };
        let (action, kind, minutes) = (word & 0xF, word >> 4 & 0xF, (word >> 16) as u16);
        match action {
            STOP => meter.stop(stamp),
            START if kind == 0 && minutes <= LONGEST_MIN => meter.start(self.now, minutes),
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(Next::Done(0))
    }

    fn set_value(&mut self, feature: u8, value: u32, save: bool) -> Outcome {
        let cached = self.admin.features.write_cache();
        let dw0 = self.admin.features.set(feature, value, save, self.queues.io_exist())?;
        let limits = matches!(feature, feature::TEMPERATURE_THRESHOLD | feature::HCTM);
        if limits && self.power.set_limits(self.now, &self.admin.thermal_limits()) {
            self.raise(AsyncEvent::TEMPERATURE);
        }
        match feature {
            feature::POWER_LIMIT => {
                let allowed = self.admin.features.allowed_places(&self.profile);
                self.power.states.limit(self.now, allowed, &mut self.power.meter);
            }
            feature::POWER_THRESHOLD => self.admin.async_events.forget_one_shots(),
            _ => {}
        }
        if cached && !self.admin.features.write_cache() {
            self.flush_buffer(); // what was volatile is not when the command completes
            return Ok(Next::DoneAt(self.media.flash.programmed_ps()));
        }
        Ok(Next::Done(dw0))
    }

    /// The data of a Set Features command has arrived.
    fn feature_in(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        match sqe.cdw(10) as u8 {
            feature::TIMESTAMP => self.admin.set_timestamp(self.now, data),
            feature::HOST_MEMORY_BUFFER => {
                let taken = self.admin.hmb.take(sqe, data);
                self.media.flash.lend(self.admin.hmb.lent());
                return taken;
            }
            feature::LATENCY_MONITOR => {
                let monitor = self.admin.latency_monitor.as_mut().ok_or(Status::INVALID_FIELD)?;
                return monitor.configure(self.now, data);
            }
            _ => {
                let mut table = [0; APST_BYTES];
                table.copy_from_slice(data);
                if !self.power.states.set_apst(sqe.cdw(11) & 1 == 1, &table) {
                    return Err(Status::INVALID_FIELD);
                }
            }
        }
        Ok(())
    }

    /// Executes Get Features. Features with data are not saveable: their saved and default values are the values after a reset.
    fn get_features(&self, sqe: &Sqe) -> Outcome {
        let (feature, select) = (sqe.cdw(10) as u8, Select::of(sqe.cdw(10))?);
        let (current, states) = (select == Select::Current, &self.power.states);
        let with_data = match feature {
            feature::APST if current => Some((u32::from(states.apst_enabled()), states.apst().to_vec())),
            feature::APST => Some((0, vec![0; APST_BYTES])),
            _ => self.admin.get_with_data(feature, select, self.now),
        };
        let power = feature == feature::POWER_MANAGEMENT;
        let measures = feature == feature::POWER_MEASUREMENT && *self.profile.offer.power_measurement;
        let monitors = feature == feature::LATENCY_MONITOR && self.admin.latency_monitor.is_some();
        Ok(match with_data {
            _ if select == Select::Capabilities && (with_data.is_some() || power || measures || monitors) => {
                Next::Done(features::capabilities(monitors))
            }
            None if measures && current => {
                Next::Done(self.power.own_meter.as_ref().map_or(0, |meter| meter.state(self.now)))
            }
            None if measures => Next::Done(0),
            Some((dw0, data)) => Next::Return(dw0, data),
            None if power => Next::Done(if current { u32::from(states.current()) } else { 0 }),
            None => Next::Done(self.admin.features.get(feature, sqe.cdw(11), select)?),
        })
    }

    /// Namespace Management: create (when its structure is here) or delete.
    fn manage_namespace(&mut self, sqe: &Sqe) -> Outcome {
        match sqe.cdw(10) & 0xF {
            0 => return Ok(Next::Transfer(4096)),
            1 if sqe.nsid() == u32::MAX => {
                let all: Vec<u32> = self.admin.namespaces.list(0, true).collect();
                all.into_iter().try_for_each(|nsid| self.delete_namespace(nsid))?;
            }
            1 => self.delete_namespace(sqe.nsid())?,
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(Next::Done(0))
    }

    fn delete_namespace(&mut self, nsid: u32) -> Result<(), Status> {
        let gone = self.admin.delete_namespace(nsid)?;
        self.media.discard(gone.base, gone.base + gone.span);
        self.deliver_events();
        Ok(())
    }

    /// Format NVM: completes when it is over.
    fn format(&mut self, id: u32, sqe: &Sqe) -> Outcome {
        let plan = self.admin.maintenance.plan_format(sqe, &self.admin.namespaces, &self.profile.offer)?;
        let end = self.begin_long(plan.time, plan.erase, TestEnd::Formatted);
        self.admin.maintenance.begin_format(plan, self.now, end, id);
        self.agenda.at(end, Event::Formatted);
        Ok(Next::Wait)
    }

    /// The format is over: the namespaces are empty and have their new block size.
    pub(super) fn formatted(&mut self) {
        let Some(done) = self.admin.maintenance.end_format() else { return };
        for &nsid in &done.namespaces {
            if let Some(namespace) = self.admin.namespaces.allocated(nsid) {
                self.media.discard(namespace.base, namespace.base + namespace.span);
            }
            self.admin.namespaces.reformat(nsid, done.format);
        }
        match done.command {
            Some(id) => self.finish_at(id, self.now),
            None => self.settle(),
        }
    }

    /// Sanitize: completes at once; the work goes on behind it.
    fn sanitize(&mut self, sqe: &Sqe) -> Outcome {
        let capacity = self.admin.namespaces.capacity();
        if let Some(plan) = self.admin.maintenance.plan_sanitize(sqe, capacity, &self.profile.offer)? {
            let end = self.begin_long(plan.time, plan.erase, TestEnd::Sanitized);
            self.admin.maintenance.begin_sanitize(&plan, self.now, end);
            self.agenda.at(end, Event::Sanitized);
        }
        Ok(Next::Done(0))
    }

    /// The sanitize operation is over: nothing is left on the drive.
    pub(super) fn sanitized(&mut self) {
        if self.admin.maintenance.end_sanitize() {
            self.media.discard(0, self.admin.namespaces.capacity());
            self.raise(AsyncEvent::SANITIZED);
            self.settle();
        }
    }

    /// Begins an operation on the whole drive. The operation takes `time` and, for the duration `erase`, the power of all dies. It ends a
    /// self-test and waits for the write buffer. Returns the operation's end.
    fn begin_long(&mut self, time: Ps, erase: Option<Ps>, ends: TestEnd) -> Ps {
        self.admin.self_test.stop(self.now, ends);
        if let Some(time) = erase {
            self.power.erase(self.now, time);
        }
        self.flush_buffer();
        (self.now + time).max(self.media.flash.programmed_ps())
    }
}
