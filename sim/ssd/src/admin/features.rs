//! Features that are a dword, or a dword for each of a few things (NVM Express, Set Features command): current, saved and
//! default values.

use crate::nvme::{feature as id, Status};
use crate::profile::{PowerState, Profile, Ps, US};

/// Which value Get Features asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The value in force.
    Current,
    /// The value set in manufacture.
    Default,
    /// The value that a reset restores.
    Saved,
    /// Not a value: saveable, by namespace, changeable.
    Capabilities,
}

impl Select {
    /// The Select field of CDW10.
    pub fn of(cdw10: u32) -> Result<Self, Status> {
        Ok(match cdw10 >> 8 & 7 {
            0 => Self::Current,
            1 => Self::Default,
            2 => Self::Saved,
            3 => Self::Capabilities,
            _ => return Err(Status::INVALID_FIELD),
        })
    }
}

#[derive(Clone)]
struct Values {
    arbitration: u32,
    thresholds: [u32; 2],
    error_recovery: u32,
    write_cache: u32,
    coalescing: u32,
    vectors: Vec<u32>,
    atomicity: u32,
    async_events: u32,
    hctm: u32,
    non_operational: u32,
    power_limit: u32,
    power_threshold: u32,
}

/// The values.
pub struct Features {
    current: Values,
    saved: Values,
    default: Values,
    /// Queues allocated, as Number of Queues returns it.
    pub queues: u32,
    io_queues: u32,
    /// Least and highest temperature of host controlled thermal management, in kelvin, if it is offered.
    hctm_range: Option<(u32, u32)>,
    permissive: bool,
    /// Whether there is a volatile write cache to switch.
    cache: bool,
    limits_power: bool,
    has_threshold: bool,
    /// Maximum power of each operational state, in units of 0.1 mW.
    operational: Vec<u64>,
}

/// Whether Set Features may save it.
pub fn saveable(feature: u8) -> bool {
    use id::{ASYNC_EVENTS, ATOMICITY, COALESCING, ERROR_RECOVERY, VECTOR, WRITE_CACHE};
    matches!(feature, id::POWER_LIMIT | id::POWER_THRESHOLD)
        || matches!(feature, id::ARBITRATION | id::TEMPERATURE_THRESHOLD | id::HCTM | id::NON_OPERATIONAL)
        || matches!(feature, ERROR_RECOVERY | WRITE_CACHE | COALESCING | VECTOR | ATOMICITY | ASYNC_EVENTS)
}

impl Features {
    /// Defaults of this profile.
    pub fn new(profile: &Profile) -> Self {
        let io_queues = u32::from(*profile.limits.io_queues);
        let offer = &profile.offer;
        let default = Values {
            arbitration: u32::from(*offer.arbitration_burst),
            thresholds: [*profile.limits.warning_temperature_c as u32 + 273, 0],
            error_recovery: 0,
            write_cache: u32::from(*offer.volatile_write_cache),
            coalescing: 0,
            vectors: (0..=io_queues).collect(),
            atomicity: 0,
            async_events: 0,
            hctm: 0,
            non_operational: 0,
            power_limit: 0,
            power_threshold: 0,
        };
        let kelvin = |celsius: u16| u32::from(celsius) + 273;
        Self {
            current: default.clone(),
            saved: default.clone(),
            default,
            queues: (io_queues - 1) << 16 | (io_queues - 1),
            io_queues,
            hctm_range: offer.hctm().then(|| (kelvin(*offer.hctm_minimum_c), kelvin(*offer.hctm_maximum_c))),
            permissive: *offer.permissive_mode,
            cache: *offer.volatile_write_cache,
            limits_power: *offer.power_limit,
            has_threshold: *offer.power_threshold,
            operational: profile
                .power_state
                .iter()
                .filter(|s| s.operational)
                .map(PowerState::declared_max_tenth_mw)
                .collect(),
        }
    }

    /// Restores the saved values, at a controller reset.
    pub fn reset(&mut self) {
        self.current = self.saved.clone();
        self.queues = (self.io_queues - 1) << 16 | (self.io_queues - 1);
    }

    /// Whether completed writes may still be volatile.
    pub fn write_cache(&self) -> bool {
        self.current.write_cache & 1 == 1
    }

    /// Most commands of one submission queue in a row; `None`: no limit.
    pub fn arbitration_burst(&self) -> Option<u32> {
        let burst = self.current.arbitration & 7;
        (burst < 7).then_some(1 << burst)
    }

    /// Composite temperature thresholds in kelvin: over, under.
    pub fn thresholds_k(&self) -> (u16, u16) {
        (self.current.thresholds[0] as u16, self.current.thresholds[1] as u16)
    }

    /// Thermal management temperatures 1 and 2 in kelvin; 0: none.
    pub fn thermal_management_k(&self) -> (u16, u16) {
        ((self.current.hctm >> 16) as u16, self.current.hctm as u16)
    }

    /// Which events the host wants to hear of, as in feature 0Bh.
    pub fn async_events(&self) -> u32 {
        self.current.async_events
    }

    /// Interrupt coalescing of a completion queue, if it is on: threshold (0's based) and time. The admin queue is never
    /// coalesced.
    pub fn coalescing(&self, cqid: u16) -> Option<(u32, Ps)> {
        let disabled = self.current.vectors.get(usize::from(cqid)).is_some_and(|v| v & 1 << 16 != 0);
        let (threshold, time) = (self.current.coalescing & 0xFF, self.current.coalescing >> 8 & 0xFF);
        let on = cqid != 0 && !disabled && threshold > 0 && time > 0;
        on.then(|| (threshold, u64::from(time) * 100 * US))
    }

    /// Get Features: DW0 of the completion.
    pub fn get(&self, feature: u8, cdw11: u32, select: Select) -> Result<u32, Status> {
        if feature == id::QUEUES && select != Select::Capabilities {
            return Ok(self.queues);
        }
        let values = match select {
            Select::Current | Select::Capabilities => &self.current,
            Select::Default => &self.default,
            Select::Saved => &self.saved,
        };
        let value = match feature {
            id::ARBITRATION => values.arbitration,
            id::TEMPERATURE_THRESHOLD => values.thresholds[threshold(cdw11)?],
            id::ERROR_RECOVERY => values.error_recovery,
            id::WRITE_CACHE if self.cache => values.write_cache,
            id::QUEUES => self.queues,
            id::COALESCING => values.coalescing,
            id::VECTOR => *values.vectors.get((cdw11 & 0xFFFF) as usize).ok_or(Status::INVALID_FIELD)?,
            id::ATOMICITY => values.atomicity,
            id::ASYNC_EVENTS => values.async_events,
            id::HCTM if self.hctm_range.is_some() => values.hctm,
            id::NON_OPERATIONAL if self.permissive => values.non_operational,
            id::POWER_LIMIT if self.limits_power => values.power_limit,
            id::POWER_THRESHOLD if self.has_threshold => values.power_threshold,
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(if select == Select::Capabilities { capabilities(saveable(feature)) } else { value })
    }

    /// Set Features: DW0 of the completion. `queues_exist`: I/O queues have been created since the reset.
    pub fn set(&mut self, feature: u8, cdw11: u32, save: bool, queues_exist: bool) -> Result<u32, Status> {
        if feature == id::QUEUES {
            return self.set_queues(cdw11, queues_exist);
        }
        match feature {
            id::HCTM => self.check_hctm(cdw11)?,
            id::POWER_LIMIT => self.check_power_limit(cdw11)?,
            id::POWER_THRESHOLD => self.check_power_threshold(cdw11)?,
            _ => {}
        }
        if (feature == id::NON_OPERATIONAL && !self.permissive) || (feature == id::WRITE_CACHE && !self.cache) {
            return Err(Status::INVALID_FIELD);
        }
        self.current.set(feature, cdw11)?;
        if save {
            self.saved.set(feature, cdw11)?;
        }
        Ok(0)
    }

    fn set_queues(&mut self, cdw11: u32, queues_exist: bool) -> Result<u32, Status> {
        let (sqs, cqs) = (cdw11 & 0xFFFF, cdw11 >> 16);
        if sqs == 0xFFFF || cqs == 0xFFFF {
            return Err(Status::INVALID_FIELD);
        }
        if queues_exist {
            return Err(Status::SEQUENCE_ERROR);
        }
        self.queues = cqs.min(self.io_queues - 1) << 16 | sqs.min(self.io_queues - 1);
        Ok(self.queues)
    }

    /// The limit must leave an operational state (5.2.26.1.25 of NVM Express Base Specification 2.3).
    fn check_power_limit(&self, word: u32) -> Result<(), Status> {
        if !self.limits_power || word & 0xFFFF != 0 && power(word).is_none() {
            return Err(Status::INVALID_FIELD);
        }
        match limit(word) {
            Some(limit) if self.operational.iter().all(|&max| max > limit) => Err(Status::INVALID_POWER_LIMIT),
            _ => Ok(()),
        }
    }

    fn check_power_threshold(&self, word: u32) -> Result<(), Status> {
        let of_type_0 = word >> 20 & 0xF == 0;
        if self.has_threshold && of_type_0 && (word & THRESHOLD_ON == 0 || power(word).is_some()) {
            Ok(())
        } else {
            Err(Status::INVALID_FIELD)
        }
    }

    /// The power states that the limit does not prohibit, by their place in the profile.
    pub fn allowed_places(&self, profile: &Profile) -> Vec<usize> {
        let limit = limit(self.current.power_limit).unwrap_or(u64::MAX);
        let states = profile.power_state.iter().enumerate();
        states.filter(|(_, state)| state.declared_max_tenth_mw() <= limit).map(|(place, _)| place).collect()
    }

    /// The same states themselves.
    pub fn allowed_states<'a>(&self, profile: &'a Profile) -> Vec<&'a PowerState> {
        self.allowed_places(profile).into_iter().map(|place| &profile.power_state[place]).collect()
    }

    /// The power in units of 0.1 mW from which a second of the drive's own meter is an event; `None`: no event is asked for.
    #[inline]
    pub fn power_threshold(&self) -> Option<u64> {
        let word = self.current.power_threshold;
        if word & THRESHOLD_ON == 0 {
            return None;
        }
        power(word)
    }

    /// The event was reported: the enable bit clears itself.
    pub fn threshold_reported(&mut self) {
        self.current.power_threshold &= !THRESHOLD_ON;
    }

    /// TMT1 and TMT2 are 0 (off) or in the range the drive declares, TMT1 below TMT2 (section 5.21.1.16).
    fn check_hctm(&self, cdw11: u32) -> Result<(), Status> {
        let (low, high) = self.hctm_range.ok_or(Status::INVALID_FIELD)?;
        let (first, second) = (cdw11 >> 16, cdw11 & 0xFFFF);
        let fits = |t: u32| t == 0 || (low..=high).contains(&t);
        let ordered = first == 0 || second == 0 || first < second;
        if fits(first) && fits(second) && ordered {
            Ok(())
        } else {
            Err(Status::INVALID_FIELD)
        }
    }
}

impl Values {
    fn set(&mut self, feature: u8, cdw11: u32) -> Result<(), Status> {
        match feature {
            id::ARBITRATION => self.arbitration = cdw11,
            id::TEMPERATURE_THRESHOLD => self.thresholds[threshold(cdw11)?] = cdw11 & 0xFFFF,
            id::ERROR_RECOVERY => self.error_recovery = cdw11 & 0xFFFF, // DULBE is not offered
            id::WRITE_CACHE => self.write_cache = cdw11 & 1,
            id::COALESCING => self.coalescing = cdw11 & 0xFFFF,
            id::VECTOR => {
                let vector = (cdw11 & 0xFFFF) as usize;
                let value = self.vectors.get_mut(vector).filter(|_| vector != 0).ok_or(Status::INVALID_FIELD)?;
                *value = cdw11 & 0x1_FFFF;
            }
            id::ATOMICITY => self.atomicity = cdw11 & 1,
            id::ASYNC_EVENTS => self.async_events = cdw11,
            id::HCTM => self.hctm = cdw11,
            id::NON_OPERATIONAL => self.non_operational = cdw11 & 1,
            id::POWER_LIMIT => self.power_limit = cdw11,
            id::POWER_THRESHOLD => self.power_threshold = cdw11,
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(())
    }
}

/// Enable Power Threshold, of feature 24h.
const THRESHOLD_ON: u32 = 1 << 31;

/// A power in units of 0.1 mW from value (bits 15:0) and scale (bits 17:16); `None` for a reserved scale.
fn power(word: u32) -> Option<u64> {
    match word >> 16 & 3 {
        1 => Some(u64::from(word & 0xFFFF)),
        2 => Some(u64::from(word & 0xFFFF) * 100),
        _ => None,
    }
}

/// The limit of feature 23h in the same units; `None`: there is none.
fn limit(word: u32) -> Option<u64> {
    power(word).filter(|_| word & 0xFFFF != 0)
}

/// DW0 of Get Features for Select 3: changeable, for the whole controller.
pub fn capabilities(saveable: bool) -> u32 {
    0x4 | u32::from(saveable)
}

/// Composite temperature only: over (0) or under (1).
fn threshold(cdw11: u32) -> Result<usize, Status> {
    match (cdw11 >> 16 & 0xF, cdw11 >> 20 & 3) {
        (0 | 0xF, kind @ (0 | 1)) => Ok(kind as usize),
        _ => Err(Status::INVALID_FIELD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Features {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        (profile.offer.hctm_minimum_c.value, profile.offer.hctm_maximum_c.value) = (30, 80);
        Features::new(&profile)
    }

    #[test]
    fn a_reset_brings_back_what_was_saved_and_select_tells_them_apart() {
        let mut f = features();
        f.set(id::WRITE_CACHE, 0, true, false).unwrap();
        f.set(id::WRITE_CACHE, 1, false, false).unwrap();
        let all = |f: &Features| {
            [Select::Current, Select::Default, Select::Saved, Select::Capabilities]
                .map(|s| f.get(id::WRITE_CACHE, 0, s).unwrap())
        };
        assert_eq!(all(&f), [1, 1, 0, 5]);
        f.reset();
        assert_eq!(all(&f), [0, 1, 0, 5]);
        assert!(!f.write_cache());
    }

    #[test]
    fn thermal_management_temperatures_are_checked() {
        let mut f = features();
        let set = |f: &mut Features, first: u32, second: u32| f.set(id::HCTM, first << 16 | second, false, false);
        for (first, second) in [(0, 0), (343, 353), (0, 350), (350, 0), (303, 304)] {
            assert_eq!(set(&mut f, first, second), Ok(0), "{first} {second}");
        }
        for (first, second) in [(350, 350), (353, 343), (302, 350), (343, 354), (1, 0)] {
            assert_eq!(set(&mut f, first, second), Err(Status::INVALID_FIELD), "{first} {second}");
        }
        assert_eq!(f.thermal_management_k(), (303, 304));
    }
}
