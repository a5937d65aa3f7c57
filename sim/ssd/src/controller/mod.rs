//! The controller: where the rooms meet, and the loop that takes events in order of time.
//!
//! The parts of its work are in `mmio` (registers, doorbells), `fetch` (submission queues), `admin`, `io` (commands),
//! `transfer` (PRPs and data) and `complete` (completion queues, interrupts); `lean` does the same without TLPs.

mod admin;
mod agenda;
mod complete;
mod fetch;
mod io;
pub(crate) mod lean;
mod lending;
mod lent;
mod mmio;
mod processor;
mod restart;
mod transfer;
mod want;
mod wire;
mod wirereads;

use crate::admin::Admin;
use crate::flash::{Condition, Flash, Holdings, Program};
use crate::host::{BusSink, Host, NoHost};
use crate::io::data_path::DataPath;
use crate::io::media::Media;
use crate::io::reads::HostReads;
use crate::nvme::commands::{Commands, Next, Outcome};
use crate::nvme::queues::Queues;
use crate::nvme::registers::Registers;
use crate::nvme::{AsyncEvent, Status};
use crate::pcie::port::Aspm;
use crate::pcie::Pcie;
use crate::power::account::Account;
use crate::power::log::StateLog;
use crate::power::thermal::Throttle;
use crate::power::Power;
use crate::profile::{Profile, Ps, MS};
use agenda::{Agenda, Event};
use lending::Lent;
use processor::Processor;
pub use restart::Restart;
use std::collections::VecDeque;
use want::Want;
use wattbell_bus::{Body, LinkState, Record, Signal};
use wirereads::Wire;

/// From PERST# rising to L0, assumed.
const TRAINING: Ps = 5 * MS;

/// Settings of a new controller, besides its profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// Contents of the drive before the run.
    pub condition: Condition,
    /// How much it held, from its beginning; see [`crate::flash::Flash::new`].
    pub data_bytes: Option<u64>,
    /// Keep written data and return it. Without, user data neither enters nor leaves host memory.
    pub store: bool,
    /// The MSI-X table is kept outside (QEMU keeps it for a vfio-user device). Every vector then counts as enabled, and messages on the
    /// trace carry a made-up address and `vector` as data.
    pub msix_outside: bool,
    /// The host is outside the model, and all that it does comes as TLPs; see [`crate::Endpoint`].
    pub wired: bool,
}

/// A read of host memory: what for, address, bytes.
type Read = (Want, u64, u32);
/// Write data to read: command, offset in its data, address, bytes.
type DataRead = (u32, u32, u64, u32);

/// An NVMe controller with its drive behind it.
pub struct Controller<S: BusSink> {
    profile: Profile,
    sink: S,
    pcie: Pcie,
    power: Power,
    media: Media,
    admin: Admin,
    registers: Registers,
    queues: Queues,
    commands: Commands,
    /// Writes that wait for room in the write buffer.
    waiting_writes: VecDeque<u32>,
    reads: HostReads<Read, DataRead>,
    lent: Lent,
    data_path: DataPath,
    processor: Processor,
    agenda: Agenda,
    /// The traffic with a host outside the model, if there is one.
    wire: Option<Box<Wire>>,
    /// The firmware is starting, from a restart until CSTS.RDY.
    booting: bool,
    now: Ps,
}

impl<S: BusSink> Controller<S> {
    /// A drive without power. Call [`Controller::power_on`] first.
    pub fn new(profile: Profile, options: Options, sink: S) -> Self {
        let flash = Flash::new(&profile, options.condition, options.data_bytes, options.seed);
        Self {
            pcie: Pcie::new(&profile, options.msix_outside),
            power: Power::new(&profile, options.seed),
            media: Media::new(flash, options.store),
            admin: Admin::new(&profile),
            registers: Registers::new(&profile),
            queues: Queues::default(),
            commands: Commands::default(),
            waiting_writes: VecDeque::new(),
            reads: HostReads::new(*profile.controller.dma_reads as usize),
            lent: Lent::default(),
            data_path: DataPath::new(&profile),
            processor: Processor::new(&profile, options.seed),
            agenda: Agenda::default(),
            wire: options.wired.then(Box::default),
            booting: false,
            now: 0,
            profile,
            sink,
        }
    }

    /// Switches the rail on at `now`; PERST# rises 1 ms later and the link is up when this says.
    pub fn power_on(&mut self, now: Ps) -> Ps {
        self.now = now;
        let port = &mut self.pcie.port;
        port.sideband(now, Signal::PerstN, 0);
        port.sideband(now, Signal::ClkreqN, 0);
        port.enter(now, LinkState::Detect);
        self.power.boot(now);
        self.power.supply_own_meter(now);
        port.sideband(now + MS, Signal::PerstN, 1);
        let up = now + MS + TRAINING;
        port.enter(up, LinkState::L0);
        self.run_to(up, &mut NoHost);
        self.power.link(self.now, LinkState::L0);
        self.power.states.reset(self.now, &mut self.power.meter);
        if self.wire.is_some() {
            self.begin_wire();
        }
        self.now
    }

    /// The profile the controller was made with.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Time up to which everything has happened.
    pub fn now_ps(&self) -> Ps {
        self.now
    }

    /// The power state the controller is in or on its way to, by the number that the host knows.
    pub fn power_state(&self) -> u8 {
        self.power.states.current()
    }

    /// Returns the drive's power at [`Controller::now_ps`], in watt.
    pub fn power_w(&self) -> f64 {
        self.power.meter.power_w()
    }

    /// Returns the energy that the rail gave until the last [`Controller::advance`], in joule.
    pub fn energy_j(&self) -> f64 {
        self.power.meter.energy_j()
    }

    /// Returns the account of the energy drawn until `time`, which is [`Controller::now_ps`] or a little later.
    pub fn account(&self, time: Ps) -> Account {
        self.power.meter.account.at(time)
    }

    /// State of the link.
    pub fn link_state(&self) -> LinkState {
        self.pcie.port.state()
    }

    /// Allows link power states without configuration writes. A host needs this if its configuration space does not reach the drive's link
    /// (a guest's root port).
    pub fn set_aspm(&mut self, aspm: Aspm) {
        self.pcie.port.set_aspm(aspm);
    }

    /// Returns the sink, for access to the records it collected.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the state that admin commands manage.
    #[cfg(test)]
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The composite temperature is `kelvin` from [`Controller::now_ps`] on, and no longer the thermal model's: what host
    /// controlled thermal management then asks of the drive.
    pub fn temperature(&mut self, kelvin: u16) -> Throttle {
        if self.power.set_temperature(self.now, kelvin, &self.admin.thermal_limits()) {
            self.raise(AsyncEvent::TEMPERATURE);
        }
        self.power.throttle()
    }

    /// Composite temperature in degrees Celsius.
    pub fn temperature_c(&self) -> f64 {
        self.power.temperature_c()
    }

    /// The air around the drive has this temperature from now on.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.power.set_ambient_c(ambient_c);
    }

    /// Returns the flash's work so far, and its contents.
    pub fn holdings(&self) -> Holdings {
        self.media.flash.holdings()
    }

    /// Gives the rail as means over steps of `width` picoseconds from here on; call it before power-on.
    pub fn use_rail_steps(&mut self, width: Ps) {
        self.power.meter.use_steps(width);
    }

    /// Keeps when each part was in which state; call it before power-on.
    pub fn keep_states(&mut self) {
        self.power.meter.log = Some(Box::default());
    }

    /// Returns the log of states, and ends the logging.
    pub fn take_states(&mut self) -> Option<Box<StateLog>> {
        self.power.meter.log.take()
    }

    /// When [`Controller::advance`] has something to do next that the host could notice. The intervals of the drive's own meter are none
    /// without a power threshold: they are taken at their times by whichever call comes next.
    pub fn next_event_ps(&self) -> Option<Ps> {
        let metering = self.admin.features.power_threshold().and_then(|_| self.power.own_meter_ps());
        [self.agenda.next_ps(), self.work_ps(), metering].into_iter().flatten().min()
    }

    /// When the controller does something of its own accord: flush, power states, link, moving data, metering.
    #[inline]
    fn own_ps(&self) -> Option<Ps> {
        [self.work_ps(), self.power.own_meter_ps()].into_iter().flatten().min()
    }

    #[inline]
    fn work_ps(&self) -> Option<Ps> {
        let (flush, states) = (self.media.flash.next_flush_ps(), self.power.states.next_ps());
        [flush, states, self.link_ps(), self.relocation_ps()].into_iter().flatten().min()
    }

    /// When data is moved next because the drive is idle.
    #[inline]
    fn relocation_ps(&self) -> Option<Ps> {
        self.power.idle_work(|idle| self.media.flash.next_relocation_ps(idle))
    }

    #[inline]
    fn link_ps(&self) -> Option<Ps> {
        self.pcie.port.next_idle_ps(self.power.states.idle_since()?)
    }

    /// Does one thing that is due at `at` of the controller's own accord. Returns the program if that was a flush.
    fn act(&mut self, at: Ps) -> Option<Program> {
        let due = |time: Option<Ps>| time.is_some_and(|t| t <= at);
        if due(self.media.flash.next_flush_ps()) {
            return self.program_rest();
        } else if due(self.relocation_ps()) {
            let (slow, meter) = self.power.load();
            let end = self.media.flash.relocate_idle(self.now, slow, meter);
            self.power.work(self.now, end);
        } else if due(self.link_ps()) {
            self.pcie.port.go_idle(self.now);
            self.power.link(self.now, self.pcie.port.state());
        } else if due(self.power.states.next_ps()) {
            self.power.states.step(self.now, &mut self.power.meter);
        } else if due(self.power.own_meter_ps()) {
            self.meter();
        }
        None
    }

    /// The drive's own meter ends an interval, or a measurement.
    fn meter(&mut self) {
        let energy_j = self.power.meter.account.at(self.now).total_j();
        let Some(meter) = &mut self.power.own_meter else { return };
        let taken = meter.step(self.now, energy_j, self.admin.stamp(self.now));
        let threshold = self.admin.features.power_threshold();
        if let Some(reading) = taken.filter(|reading| threshold.is_some_and(|least| reading.tenth_mw() >= least)) {
            self.raise(AsyncEvent::power_threshold(reading.field()));
        }
    }

    /// Does everything that is due up to and including `now`.
    pub fn advance(&mut self, now: Ps, host: &mut dyn Host) {
        self.run_to(now, host);
        self.hand_out();
    }

    fn run_to(&mut self, now: Ps, host: &mut dyn Host) {
        while let Some(at) = [self.agenda.next_ps(), self.own_ps()].into_iter().flatten().min().filter(|&t| t <= now) {
            self.now = at.max(self.now);
            if self.agenda.next_ps().is_some_and(|t| t <= at) {
                if let Some(event) = self.agenda.pop() {
                    self.handle(event, host);
                }
            } else if let Some(program) = self.act(at) {
                self.agenda.at(program.end, Event::Programmed(program.units));
            }
        }
        self.now = now.max(self.now);
    }

    fn handle(&mut self, event: Event, host: &mut dyn Host) {
        match event {
            Event::Mmio { offset, size, value, first } => self.register_write(offset, size, value, first),
            Event::Incoming(arrived) => self.incoming(&arrived.0, arrived.1),
            Event::Reply(reply) => self.replied(*reply),
            Event::ReadOver(read) => self.read_over(*read),
            Event::Arbitrate => self.arbitrate(),
            Event::Answer(answer) => {
                let (want, request) = *answer;
                self.answered(want, &request, host);
            }
            Event::SqesIn { qid, announced, first, bytes } => self.sqes_in(qid, &announced, first, &bytes),
            Event::ListIn { command, bytes } => self.list_in(command, &bytes),
            Event::StructureIn { command } => self.structure_in(command),
            Event::Execute(command) => self.execute(command),
            Event::ReturnStructure(command) => self.return_structure(command, host),
            Event::PageReady { command, offset, len } => self.page_ready(command, offset, len),
            Event::DataOut { command, offset, len } => self.data_out(command, offset, len, host),
            Event::DataIn { command, len } => self.data_in(command, len),
            Event::Complete(command) => self.complete(command),
            Event::Post { cqid, address, entry } => self.post(cqid, address, &entry, host),
            Event::Interrupt(vector) => host.interrupt(vector, self.now),
            Event::Coalesced { cqid } => self.call(cqid),
            Event::Programmed(units) => {
                self.media.flash.programmed(units);
                self.admit_writes();
                self.settle();
            }
            Event::Lent(access) => {
                if let Some(at) = self.reach_lent(access, Some(host)) {
                    self.agenda.at(at, Event::LentAnswer);
                }
            }
            Event::LentAnswer => {
                if let Some(at) = self.lent_answered(Some(host)) {
                    self.agenda.at(at, Event::LentAnswer);
                }
            }
            Event::Formatted => self.formatted(),
            Event::Sanitized => self.sanitized(),
            Event::SelfTested(serial) => {
                if self.admin.self_test.passed(self.now, serial) {
                    self.settle();
                }
            }
            Event::Ready => self.become_ready(),
            Event::ShutDown => self.registers.shut_down(true),
        }
    }

    /// Executes the command that is next in turn.
    fn execute(&mut self, id: u32) {
        let command = &self.commands[id];
        let next = match command.qid {
            _ if command.sqe.fuse_psdt() & 3 != 0 => Err(Status::INVALID_FIELD), // fused operations are not offered
            0 => self.execute_admin(id),
            _ => self.execute_io(id),
        };
        self.go_on(id, next);
    }

    /// A structure the command needs has arrived.
    fn structure_in(&mut self, id: u32) {
        let command = &mut self.commands[id];
        if !command.status.is_success() {
            return self.finish_at(id, self.now);
        }
        let (sqe, qid, data) = (command.sqe, command.qid, std::mem::take(&mut command.data));
        let next = if qid == 0 { self.admin_data_in(&sqe, &data) } else { self.deallocate(id, &data) };
        self.go_on(id, next);
    }

    /// Carries out the next step of a command.
    fn go_on(&mut self, id: u32, next: Outcome) {
        match next {
            Ok(Next::Done(dw0)) => {
                self.commands[id].dw0 = dw0;
                self.finish_at(id, self.now);
            }
            Ok(Next::DoneAt(at)) => self.finish_at(id, at),
            Ok(Next::Transfer(len)) => self.resolve(id, len),
            Ok(Next::Return(dw0, data)) => {
                let (command, len) = (&mut self.commands[id], data.len() as u32);
                (command.dw0, command.data) = (dw0, data);
                self.resolve(id, len);
            }
            Ok(Next::Fetch(address, len)) => {
                self.commands[id].pieces = vec![(address, len)];
                self.fetch_structure(id);
            }
            Ok(Next::Wait) => {}
            Err(status) => self.fail(id, status),
        }
    }

    /// The command ends with `status`, now.
    fn fail(&mut self, id: u32, status: Status) {
        self.commands[id].status = status;
        self.finish_at(id, self.now);
    }

    /// The command's work ends at `at`: the completion follows.
    fn finish_at(&mut self, id: u32, at: Ps) {
        self.agenda.at(at.max(self.now) + self.processor.completion, Event::Complete(id));
    }

    /// Something the host should know of.
    fn raise(&mut self, event: AsyncEvent) {
        self.admin.raise(event);
        self.deliver_events();
    }

    /// Ends the requests that have an event to report.
    fn deliver_events(&mut self) {
        while let Some((id, event)) = self.admin.async_events.deliver() {
            self.commands.begin(1);
            if event.one_shot() {
                self.admin.features.threshold_reported();
            }
            self.commands[id].dw1 = event.1;
            self.go_on(id, Ok(Next::Done(event.0)));
        }
    }

    /// Brings the temperature up to date.
    fn warm(&mut self) {
        if self.power.warm(self.now, || self.admin.thermal_limits()) {
            self.raise(AsyncEvent::TEMPERATURE);
        }
    }

    /// Reports to the power states whether work is in hand.
    fn settle(&mut self) {
        let nothing = self.commands.idle() && !self.queues.arbitrating() && self.media.flash.buffered() == 0;
        if nothing && !self.admin.busy() {
            self.power.states.idle(self.now, &mut self.power.meter);
        }
    }

    /// Programs what waits in the write buffer.
    fn program_rest(&mut self) -> Option<Program> {
        let (slow, meter) = self.power.load();
        self.media.flash.flush(self.now, slow, meter)
    }

    /// Programs what waits in the write buffer; when that is done.
    fn flush_buffer(&mut self) -> Option<Ps> {
        let program = self.program_rest()?;
        self.agenda.at(program.end, Event::Programmed(program.units));
        Some(program.end)
    }

    /// The link leaves a low power state because a TLP is to be sent; the time from which one can.
    #[inline]
    fn wake_link(&mut self, at: Ps) -> Ps {
        if matches!(self.pcie.port.state(), LinkState::L1 | LinkState::L1_2) {
            return self.wake_link_now(at);
        }
        at
    }

    #[cold]
    fn wake_link_now(&mut self, at: Ps) -> Ps {
        let up = self.pcie.port.wake(at);
        self.power.link(self.now, LinkState::L0);
        up
    }

    /// Hands finished records to the sink.
    fn hand_out(&mut self) {
        self.warm();
        self.power.meter.advance(self.now);
        for record in self.pcie.port.take() {
            self.sink.record(record);
        }
        for (time_ps, rail) in self.power.meter.take() {
            self.sink.record(Record { time_ps, body: Body::Rail(rail) });
        }
        self.sink.release(self.power.meter.horizon());
    }

    /// Ends the trace at `now`: hands out everything that is left and gives the sink back.
    pub fn finish(mut self, now: Ps, host: &mut dyn Host) -> S {
        self.run_to(now.max(self.pcie.port.quiet_ps()), host);
        self.power.meter.advance(self.now);
        self.power.meter.finish();
        self.hand_out();
        self.queues.posted().for_each(|truth| self.sink.command(truth));
        self.sink.lent(&self.lent.traffic);
        self.sink
    }
}
