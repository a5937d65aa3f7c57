//! The controller: its state, and the loop that takes events in time order.
//!
//! The parts of its work are in `mmio` (registers, doorbells), `fetch` (submission queues), `admin`, `io` (commands),
//! `transfer` (PRPs and data) and `complete` (completion queues, interrupts).

mod admin;
pub(crate) mod agenda;
mod complete;
mod features;
mod fetch;
mod io;
pub(crate) mod lean;
pub(crate) mod mmio;
mod namespaces;
mod queues;
mod transfer;

use crate::admin::async_events::AsyncEvents;
use crate::admin::features::Features;
use crate::admin::hmb::Hmb;
use crate::admin::logs::Health;
use crate::admin::maintenance::Maintenance;
use crate::admin::namespaces::Namespaces;
use crate::admin::selftest::SelfTest;
use crate::controller::agenda::Timed;
use crate::controller::features::Timestamp;
use crate::flash::{Condition, Flash};
use crate::host::{BusSink, CommandTruth, Host, NoHost, Store};
use crate::io::uncorrectable::Uncorrectable;
use crate::nvme::prp::Pieces;
use crate::nvme::queue::{Cq, Sq};
use crate::nvme::{Sqe, Status};
use crate::pcie::config_space::ConfigSpace;
use crate::pcie::port::{Aspm, Port, Request};
use crate::power::heat::Heat;
use crate::power::meter::{Meter, Part};
use crate::power::states::PowerStates;
use crate::power::thermal::Thermal;
use crate::profile::{ps, Profile, Ps, MS, NS, US};
use crate::variation::Variation;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use wattbell_bus::{LinkState, Signal};

/// What a controller is made with, besides its profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// What the drive held before.
    pub condition: Condition,
    /// How much it held, from its beginning; see [`crate::flash::Flash::new`].
    pub data_bytes: Option<u64>,
    /// Keep written data and return it. Without, user data neither enters nor leaves host memory.
    pub store: bool,
    /// The MSI-X table is kept outside (QEMU keeps it for a vfio-user device): every vector counts as enabled, and
    /// messages on the trace carry a made-up address and `vector` as data.
    pub msix_outside: bool,
}

/// Controller state that CC.EN resets.
pub(crate) struct Registers {
    pub cc: u32,
    pub csts: u32,
    pub aqa: u32,
    pub asq: u64,
    pub acq: u64,
    pub intms: u32,
}

/// Composite temperature of a drive at rest, in kelvin, until a thermal model says otherwise.
const REST_K: u16 = 273 + 35;

/// A command in hand.
pub(crate) struct Command {
    pub sqe: Sqe,
    pub qid: u16,
    pub pieces: Pieces,
    pub len: u32,
    pub done: u32,
    pub dw0: u32,
    pub status: Status,
    pub data: Vec<u8>,
    pub buffered: u64,
    /// First byte on the media, and the block size as a power of two.
    pub at: u64,
    pub shift: u8,
    pub truth: CommandTruth,
}

/// What a read of host memory was for.
pub(crate) enum Want {
    Sqes {
        qid: u16,
        announced: Vec<Ps>,
        first: Ps,
    },
    List {
        command: u32,
    },
    Structure {
        command: u32,
        left: u32,
    },
    Data {
        command: u32,
        offset: u32,
        len: u32,
    },
    /// The command is gone (reset); the answer still comes.
    Nothing,
}

pub(crate) enum Event {
    Mmio { offset: u64, size: u8, value: u64, first: Ps },
    Arbitrate,
    Answer(Box<(Want, Request)>),
    SqesIn { qid: u16, announced: Vec<Ps>, first: Ps, bytes: Vec<u8> },
    ListIn { command: u32, bytes: Vec<u8> },
    StructureIn { command: u32 },
    Execute(u32),
    ReturnStructure(u32),
    PageReady { command: u32, offset: u32, len: u32 },
    DataOut { command: u32, offset: u32, len: u32 },
    DataIn { command: u32, offset: u32, len: u32 },
    Complete(u32),
    Post { cqid: u16, address: u64, entry: [u8; 16] },
    Interrupt(u16),
    Coalesced { cqid: u16 },
    Programmed(u64),
    Formatted,
    Sanitized,
    SelfTested(u32),
    Ready,
    ShutDown,
}

/// Constants of the profile, in picoseconds.
pub(crate) struct Timing {
    pub command: Ps,
    pub occupancy: Ps,
    pub write: Ps,
    pub to_fetch: Ps,
    pub completion: Ps,
    pub msix: Ps,
    pub ready: Ps,
    pub page: Ps,
    pub dma_reads: usize,
    pub data_path_w: f64,
}

/// An NVMe controller with its drive behind it.
pub struct Controller<S: BusSink> {
    pub(crate) profile: Profile,
    pub(crate) options: Options,
    pub(crate) sink: S,
    pub(crate) config: ConfigSpace,
    pub(crate) port: Port,
    pub(crate) meter: Meter,
    pub(crate) states: PowerStates,
    pub(crate) flash: Flash,
    pub(crate) heat: Heat,
    pub(crate) store: Option<Store>,
    pub(crate) features: Features,
    pub(crate) namespaces: Namespaces,
    pub(crate) changed_namespaces: BTreeSet<u32>,
    pub(crate) maintenance: Maintenance,
    pub(crate) self_test: SelfTest,
    pub(crate) uncorrectable: Uncorrectable,
    pub(crate) thermal: Thermal,
    pub(crate) hmb: Hmb,
    pub(crate) timestamp: Timestamp,
    pub(crate) async_events: AsyncEvents,
    pub(crate) health: Health,
    pub(crate) errors: VecDeque<[u8; 64]>,
    pub(crate) reg: Registers,
    pub(crate) msix_table: Vec<[u32; 4]>,
    pub(crate) msix_pending: Vec<bool>,
    pub(crate) sqs: BTreeMap<u16, Sq>,
    pub(crate) cqs: BTreeMap<u16, Cq>,
    pub(crate) commands: Vec<Option<Command>>,
    pub(crate) spare: Vec<u32>,
    pub(crate) in_hand: u32,
    pub(crate) last_served: u16,
    pub(crate) burst_left: Option<u32>,
    pub(crate) arbitrating: bool,
    pub(crate) cpu_free: Ps,
    pub(crate) data_path_free: Ps,
    pub(crate) dma_queue: VecDeque<(u32, u32, u64, u32)>,
    pub(crate) dma_active: usize,
    pub(crate) waiting_writes: VecDeque<u32>,
    pub(crate) reads_outstanding: usize,
    pub(crate) deferred: VecDeque<(Want, u64, u32)>,
    pub(crate) timing: Timing,
    pub(crate) command_variation: Variation,
    pub(crate) write_variation: Variation,
    pub(crate) last_understood: Ps,
    pub(crate) now: Ps,
    pub(crate) heap: BinaryHeap<Reverse<Timed>>,
    pub(crate) serial: u64,
}

impl<S: BusSink> Controller<S> {
    /// A drive without power. Call [`Controller::power_on`] first.
    pub fn new(profile: Profile, options: Options, sink: S) -> Self {
        let c = &profile.controller;
        let vectors = *profile.limits.io_queues + 1;
        let timing = Timing {
            command: ps(*c.command_us, US),
            occupancy: ps(*c.command_occupancy_us, US),
            write: ps(*c.write_us, US),
            to_fetch: *c.doorbell_to_fetch_ns * NS,
            completion: *c.completion_ns * NS,
            msix: *c.msix_ns * NS,
            ready: ps(*profile.limits.ready_ms, MS),
            page: ps(4096.0 / *c.data_path_mb_per_s, US),
            dma_reads: *c.dma_reads as usize,
            data_path_w: *profile.power.data_path_w,
        };
        Self {
            config: ConfigSpace::new(&profile, vectors),
            port: Port::new(&profile),
            meter: Meter::new(&profile),
            states: PowerStates::new(&profile, options.seed),
            command_variation: Variation::new(*c.spread, options.seed ^ 0xC03),
            write_variation: Variation::new(*c.spread, options.seed ^ 0x3417E),
            heat: Heat::new(&profile),
            flash: Flash::new(&profile, options.condition, options.data_bytes, options.seed),
            store: options.store.then(Store::default),
            features: Features::new(&profile),
            namespaces: Namespaces::new(&profile),
            changed_namespaces: BTreeSet::new(),
            maintenance: Maintenance::default(),
            self_test: SelfTest::default(),
            uncorrectable: Uncorrectable::default(),
            thermal: Thermal::new(REST_K),
            hmb: Hmb::new(*profile.offer.hmb_preferred_mib > 0, *profile.offer.hmb_minimum_mib * 256),
            timestamp: Timestamp::default(),
            async_events: AsyncEvents::default(),
            health: Health::default(),
            errors: VecDeque::new(),
            reg: Registers { cc: 0, csts: 0, aqa: 0, asq: 0, acq: 0, intms: 0 },
            msix_table: vec![[0, 0, 0, 1]; usize::from(vectors)],
            msix_pending: vec![false; usize::from(vectors)],
            sqs: BTreeMap::new(),
            cqs: BTreeMap::new(),
            commands: Vec::new(),
            spare: Vec::new(),
            in_hand: 0,
            last_served: 0,
            burst_left: Some(0),
            arbitrating: false,
            cpu_free: 0,
            last_understood: 0,
            data_path_free: 0,
            dma_queue: VecDeque::new(),
            dma_active: 0,
            waiting_writes: VecDeque::new(),
            reads_outstanding: 0,
            deferred: VecDeque::new(),
            now: 0,
            heap: BinaryHeap::new(),
            serial: 0,
            timing,
            profile,
            options,
            sink,
        }
    }

    /// Switches the rail on at `now`; PERST# rises 1 ms later and the link is up when this says.
    pub fn power_on(&mut self, now: Ps) -> Ps {
        self.now = now;
        self.port.sideband(now, Signal::PerstN, 0);
        self.port.sideband(now, Signal::ClkreqN, 0);
        self.port.enter(now, LinkState::Detect);
        self.meter.set(now, Part::Core, *self.profile.power.boot_w);
        self.port.sideband(now + MS, Signal::PerstN, 1);
        self.port.enter(now + 6 * MS, LinkState::L0);
        self.run_to(now + 6 * MS, &mut NoHost);
        self.meter.set(self.now, Part::Link, *self.profile.power.link_l0_w);
        self.states.reset(self.now, &mut self.meter);
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

    /// The power state the controller is in or on its way to.
    pub fn power_state(&self) -> u8 {
        self.states.current()
    }

    /// What the drive draws at [`Controller::now_ps`], in watt.
    pub fn power_w(&self) -> f64 {
        self.meter.power_w()
    }

    /// State of the link.
    pub fn link_state(&self) -> LinkState {
        self.port.state()
    }

    /// Allows link power states without configuration writes: for a host whose configuration space does not reach the
    /// drive's link (a guest's root port).
    pub fn set_aspm(&mut self, aspm: Aspm) {
        self.port.set_aspm(aspm);
    }

    /// The sink, to ask it what it collected.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// When [`Controller::advance`] has something to do next.
    pub fn next_event_ps(&self) -> Option<Ps> {
        let heap = self.heap.peek().map(|t| t.0.at);
        let flush = self.flash.next_flush_ps();
        [heap, flush, self.states.next_ps(), self.link_ps(), self.relocation_ps()].into_iter().flatten().min()
    }

    /// When data is moved next because the drive is idle: awake, and not about to sleep before.
    pub(crate) fn relocation_ps(&self) -> Option<Ps> {
        let idle = self.states.idle_since()?;
        let at = self.flash.next_relocation_ps(idle)?;
        self.states.stays_awake_until(at).then_some(at)
    }

    /// Moves data for a while because nothing is in hand.
    pub(crate) fn relocate_idle(&mut self) {
        let slow = self.states.slowdown();
        let end = self.flash.relocate_idle(self.now, slow, &mut self.meter);
        self.meter.pulse(self.now, end, *self.profile.power.core_active_w / slow);
        self.states.hold(end);
    }

    pub(crate) fn link_ps(&self) -> Option<Ps> {
        self.port.next_idle_ps(self.states.idle_since()?)
    }

    /// Does everything that is due up to and including `now`.
    pub fn advance(&mut self, now: Ps, host: &mut dyn Host) {
        self.run_to(now, host);
        self.hand_out();
    }

    fn run_to(&mut self, now: Ps, host: &mut dyn Host) {
        while let Some(at) = self.next_event_ps().filter(|&t| t <= now) {
            self.now = at.max(self.now);
            if self.heap.peek().is_some_and(|t| t.0.at <= at) {
                if let Some(Reverse(timed)) = self.heap.pop() {
                    self.handle(timed.event, host);
                }
            } else if self.flash.next_flush_ps().is_some_and(|t| t <= at) {
                self.flush_buffer();
            } else if self.relocation_ps().is_some_and(|t| t <= at) {
                self.relocate_idle();
            } else if self.link_ps().is_some_and(|t| t <= at) {
                self.port.go_idle(self.now);
                self.draw_link();
            } else {
                self.states.step(self.now, &mut self.meter);
            }
        }
        self.now = now.max(self.now);
    }

    /// The temperature that what was drawn since the last call leaves, and what it does to the drive's speed.
    pub(crate) fn heat(&mut self) {
        if self.heat.update(self.now, self.meter.energy_j()) {
            let kelvin = (self.heat.temperature_c() + 273.0).round() as u16;
            let level = if kelvin == self.thermal.composite_k() { self.thermal.level() } else { self.feel(kelvin) };
            self.states.set_throttle(self.heat.slowdown(level));
        }
    }

    /// Where namespace 1 begins in the media, if it has 512-byte blocks and nothing needs a command's own look at it.
    pub(crate) fn lean_base(&self) -> Option<u64> {
        let namespace = self.namespaces.named(1).ok().filter(|n| n.shift == 9)?;
        let in_the_way = self.maintenance.busy() || !self.uncorrectable.is_empty() || self.store.is_some();
        (!in_the_way).then_some(namespace.base)
    }

    /// Composite temperature in degrees Celsius.
    pub fn temperature_c(&self) -> f64 {
        self.heat.temperature_c()
    }

    /// What the flash was asked to do so far, and holds.
    pub fn holdings(&self) -> crate::flash::Holdings {
        self.flash.holdings()
    }

    /// The air around the drive has this temperature from now on.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.heat.set_ambient_c(ambient_c);
    }

    /// Gives the rail as means over steps of `width` picoseconds from here on; call it before power-on.
    pub fn use_rail_steps(&mut self, width: Ps) {
        self.meter.use_steps(width);
    }

    /// Hands finished records to the sink.
    pub(crate) fn hand_out(&mut self) {
        self.heat();
        self.meter.advance(self.now);
        for record in self.port.take() {
            self.sink.record(record);
        }
        for (time_ps, rail) in self.meter.take() {
            self.sink.record(wattbell_bus::Record { time_ps, body: wattbell_bus::Body::Rail(rail) });
        }
        self.sink.release(self.meter.horizon());
    }

    /// Ends the trace at `now`: hands out everything that is left and gives the sink back.
    pub fn finish(mut self, now: Ps, host: &mut dyn Host) -> S {
        self.run_to(now.max(self.port.quiet_ps()), host);
        self.meter.advance(self.now);
        self.meter.finish();
        self.hand_out();
        for cq in self.cqs.values() {
            cq.posted.iter().for_each(|truth| self.sink.command(truth));
        }
        self.sink
    }

    /// The link leaves a low power state because a TLP is to be sent; the time from which one can.
    #[inline]
    pub(crate) fn wake_link(&mut self, at: Ps) -> Ps {
        if matches!(self.port.state(), LinkState::L1 | LinkState::L1_2) {
            return self.wake_link_now(at);
        }
        at
    }

    #[cold]
    fn wake_link_now(&mut self, at: Ps) -> Ps {
        let up = self.port.wake(at);
        self.meter.set(self.now, Part::Link, *self.profile.power.link_l0_w);
        up
    }

    pub(crate) fn draw_link(&mut self) {
        let p = &self.profile.power;
        let watt = match self.port.state() {
            LinkState::L1 => *p.link_l1_w,
            LinkState::L1_2 => *p.link_l1_2_w,
            _ => *p.link_l0_w,
        };
        self.meter.set(self.now, Part::Link, watt);
    }

    fn handle(&mut self, event: Event, host: &mut dyn Host) {
        match event {
            Event::Mmio { offset, size, value, first } => self.register_write(offset, size, value, first),
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
            Event::DataIn { command, offset, len } => self.data_in(command, offset, len),
            Event::Complete(command) => self.complete(command),
            Event::Post { cqid, address, entry } => self.post(cqid, address, &entry, host),
            Event::Interrupt(vector) => host.interrupt(vector, self.now),
            Event::Coalesced { cqid } => self.call(cqid),
            Event::Programmed(units) => {
                self.flash.programmed(units);
                self.admit_writes();
                self.settle();
            }
            Event::Formatted => self.formatted(),
            Event::Sanitized => self.sanitized(),
            Event::SelfTested(serial) => self.self_tested(serial),
            Event::Ready => self.reg.csts |= 1,
            Event::ShutDown => self.reg.csts = self.reg.csts & !0xC | 0x8,
        }
    }

    /// Tells the power states whether anything is in hand.
    pub(crate) fn settle(&mut self) {
        let behind = self.maintenance.busy() || self.self_test.running();
        if self.in_hand == 0 && !self.arbitrating && self.flash.buffered() == 0 && !behind {
            self.states.idle(self.now, &mut self.meter);
        }
    }

    /// Programs what waits in the write buffer; when that is done.
    pub(crate) fn flush_buffer(&mut self) -> Option<Ps> {
        let slow = self.states.slowdown();
        let program = self.flash.flush(self.now, slow, &mut self.meter)?;
        self.at(program.end, Event::Programmed(program.units));
        Some(program.end)
    }

    /// The data path carries `bytes` from `at` on; when it is through.
    #[inline]
    pub(crate) fn data_path(&mut self, at: Ps, bytes: u32) -> Ps {
        let slow = self.states.slowdown();
        let start = at.max(self.data_path_free);
        let end = start + (self.timing.page as f64 * f64::from(bytes) / 4096.0 * slow) as Ps;
        self.data_path_free = end;
        self.meter.pulse(start, end, self.timing.data_path_w / slow);
        end
    }
}
