//! The drive as a PCIe endpoint of somebody else's host: TLPs in, TLPs and power out.

use crate::controller::{Controller, Options};
use crate::flash::Condition;
use crate::host::{BusSink, OutsideHost};
use crate::profile::{Profile, ProfileError, Ps};
use std::collections::VecDeque;
use wattbell_bus::packet::Packet;
use wattbell_bus::{Body, Direction, LinkState, Rail, Record, Tlp};

/// Latest time, 106 days: sums of times stay within 64 bits.
pub const LAST_PS: Ps = i64::MAX as Ps;

/// Reasons why an endpoint refuses a call.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No such profile, or none that can be used.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// The bytes are no TLP that a host may send.
    #[error("malformed TLP: {0}")]
    Malformed(String),
    /// The time lies before the present or beyond the end.
    #[error("time {time_ps} ps: the drive is at {now_ps} ps, and its time goes forward to {LAST_PS} ps")]
    Time {
        /// The time asked for.
        time_ps: Ps,
        /// The drive's present.
        now_ps: Ps,
    },
    /// A defect of the model.
    #[error("the model failed, which is a defect of it: {0}; make a new drive")]
    Defect(String),
}

/// Settings of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct EndpointOptions {
    /// Seed of everything random.
    pub seed: u64,
    /// Contents of the drive before the first write.
    pub condition: Condition,
    /// Keep written data and return it. Without, reads return zeros.
    pub store: bool,
    /// Keep changes of the rail for [`Endpoint::take_rail`].
    pub rail: bool,
    /// From CC.EN to CSTS.RDY, in microseconds; `None`: as the profile says.
    pub ready_us: Option<u32>,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { seed: 0, condition: Condition::TestData, store: true, rail: false, ready_us: None }
    }
}

/// TLPs and changes of the rail that leave the drive.
#[derive(Default)]
struct Outbox {
    tlps: VecDeque<(Ps, Tlp)>,
    rail: Option<VecDeque<(Ps, Rail)>>,
}

impl BusSink for Outbox {
    fn record(&mut self, Record { time_ps, body }: Record) {
        match body {
            Body::Tlp(Direction::Up, tlp) => self.tlps.push_back((time_ps, tlp)),
            Body::Burst(burst) if burst.direction == Direction::Up => {
                self.tlps.extend((0..burst.count).map(|index| {
                    let header = burst.header.advanced(u64::from(index) * u64::from(burst.step_bytes));
                    (time_ps + burst.offset_ps(index), Tlp::left_out(header))
                }));
            }
            Body::Rail(rail) => {
                if let Some(kept) = &mut self.rail {
                    kept.push_back((time_ps, rail));
                }
            }
            _ => {}
        }
    }

    fn release(&mut self, _: Ps) {}
}

/// The drive, switched on, with its link in L0 at time 0.
///
/// A time of a TLP is the instant of its first symbol, in picoseconds. The model keeps the time of both lanes: a TLP given too early waits
/// until the host's lane is free and the link awake.
pub struct Endpoint {
    controller: Controller<Outbox>,
    /// Time 0, on the controller's clock.
    origin: Ps,
    origin_j: f64,
}

impl Endpoint {
    /// Switches a drive on.
    pub fn new(mut profile: Profile, options: EndpointOptions) -> Self {
        let EndpointOptions { seed, condition, store, rail, ready_us } = options;
        if let Some(us) = ready_us {
            profile.limits.ready_ms.value = f64::from(us) / 1000.0;
        }
        let outbox = Outbox { rail: rail.then(VecDeque::new), ..Outbox::default() };
        let options = Options { seed, condition, store, wired: true, ..Options::default() };
        let mut controller = Controller::new(profile, options, outbox);
        let origin = controller.power_on(0);
        controller.advance(origin, &mut OutsideHost);
        let origin_j = controller.energy_j();
        Self { controller, origin, origin_j }
    }

    /// The present, in picoseconds.
    pub fn now_ps(&self) -> Ps {
        self.controller.now_ps() - self.origin
    }

    fn controllers(&self, time_ps: Ps) -> Result<Ps, EndpointError> {
        let now_ps = self.now_ps();
        match time_ps {
            _ if (now_ps..=LAST_PS).contains(&time_ps) => Ok(time_ps + self.origin),
            _ => Err(EndpointError::Time { time_ps, now_ps }),
        }
    }

    /// Takes a TLP of the host, `bytes` as on the wire: prefixes, header, payload, digest. The drive's time becomes `time_ps`.
    pub fn receive(&mut self, time_ps: Ps, bytes: &[u8]) -> Result<(), EndpointError> {
        let now = self.controllers(time_ps)?;
        let tlp = Tlp::from_bytes(bytes, false).map_err(EndpointError::Malformed)?;
        Packet::of(&tlp).map_err(EndpointError::Malformed)?;
        let (len, most) = (tlp.header.payload_len(), self.controller.max_payload() as usize);
        if len > most {
            let reason = format!("a payload of {len} bytes, and Max_Payload_Size is {most}");
            return Err(EndpointError::Malformed(reason));
        }
        self.controller.receive(now, tlp);
        Ok(())
    }

    /// Does everything that is due until `time_ps`, which becomes the drive's time.
    pub fn advance(&mut self, time_ps: Ps) -> Result<(), EndpointError> {
        let now = self.controllers(time_ps)?;
        self.controller.advance(now, &mut OutsideHost);
        Ok(())
    }

    /// When the drive sends or does something next, if the host sends nothing before that.
    pub fn next_ps(&mut self) -> Option<Ps> {
        let now = self.controller.now_ps();
        let sent = self.controller.sink().tlps.front().map(|front| front.0.max(now));
        [sent, self.controller.next_event_ps()].into_iter().flatten().min().map(|at| at.max(now) - self.origin)
    }

    /// Takes the next TLP that the drive has sent until now: its time and its bytes.
    pub fn take(&mut self) -> Option<(Ps, Vec<u8>)> {
        let (now, origin) = (self.controller.now_ps(), self.origin);
        let tlps = &mut self.controller.sink().tlps;
        tlps.front().filter(|front| front.0 <= now)?;
        tlps.pop_front().map(|(at, tlp)| (at - origin, tlp.to_bytes()))
    }

    /// Energy that the rail gave since time 0, in picojoule.
    pub fn energy_pj(&self) -> u64 {
        ((self.controller.energy_j() - self.origin_j) * 1e12).round() as u64
    }

    /// Power at present, in nanowatt.
    pub fn power_nw(&self) -> u64 {
        (self.controller.power_w() * 1e9).round() as u64
    }

    /// Takes the next change of the rail, if the drive keeps them: its time, current and voltage. A change is final a little later than it
    /// happens, because near changes are merged. The first one, at time 0, is the state at that time.
    pub fn take_rail(&mut self) -> Option<(Ps, Rail)> {
        let origin = self.origin;
        let rail = self.controller.sink().rail.as_mut()?;
        while rail.get(1).is_some_and(|second| second.0 <= origin) {
            rail.pop_front();
        }
        rail.pop_front().map(|(at, rail)| (at.saturating_sub(origin), rail))
    }

    /// State of the link.
    pub fn link_state(&self) -> LinkState {
        self.controller.link_state()
    }

    /// The number of the power state that the drive is in, or on its way to.
    pub fn power_state(&self) -> u8 {
        self.controller.power_state()
    }

    /// Read requests of the drive that wait for completions.
    pub fn outstanding_reads(&self) -> usize {
        self.controller.outstanding()
    }

    /// TLPs of the host that the drive threw away: completions of no request, writes to addresses that are not its own, poisoned writes.
    pub fn discarded_tlps(&self) -> u64 {
        self.controller.discarded()
    }
}

/// An endpoint for callers that a panic must not reach. After one, every call is an error.
pub struct GuardedEndpoint(Result<Box<Endpoint>, String>);

impl GuardedEndpoint {
    /// Loads a profile by its name or path, and switches its drive on.
    pub fn new(profile: &str, options: EndpointOptions) -> Result<Self, EndpointError> {
        let profile = Profile::load(profile)?;
        let made = std::panic::catch_unwind(move || Box::new(Endpoint::new(profile, options)));
        made.map(|endpoint| Self(Ok(endpoint))).map_err(|panic| EndpointError::Defect(message(panic.as_ref())))
    }

    /// Lets `work` use the endpoint.
    pub fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Endpoint) -> Result<T, EndpointError>,
    ) -> Result<T, EndpointError> {
        let endpoint = self.0.as_mut().map_err(|why| EndpointError::Defect(why.clone()))?;
        // A panic leaves the endpoint in disorder, and nobody sees that: it is dropped.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(endpoint)));
        done.unwrap_or_else(|panic| {
            let why = message(panic.as_ref());
            self.0 = Err(why.clone());
            Err(EndpointError::Defect(why))
        })
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason given".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_panic_every_call_is_an_error_and_nothing_worse() {
        let mut drive = GuardedEndpoint::new("intel-660p-1tb", EndpointOptions::default()).unwrap();
        assert_eq!(drive.with(|endpoint| Ok(endpoint.now_ps())).unwrap(), 0);
        let error = drive.with::<()>(|_| panic!("on purpose {}", 7)).unwrap_err();
        assert!(error.to_string().contains("on purpose 7"), "{error}");
        let again = drive.with(|endpoint| Ok(endpoint.now_ps())).unwrap_err();
        assert!(matches!(again, EndpointError::Defect(why) if why == "on purpose 7"));
    }
}
