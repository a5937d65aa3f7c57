//! The drive is reset by PERST#, or loses its supply and gets it again.

use super::{Controller, TRAINING};
use crate::host::{BusSink, Host};
use crate::nvme::registers::Registers;
use crate::profile::{Ps, MS};
use wattbell_bus::{LinkState, Signal};

/// From PERST# falling to the supply's switch opening, as our rig does it (docs/scpi.md, OUTPut).
const PERST_FIRST: Ps = MS;
/// From a stable supply to PERST# rising: T_PVPERL of the PCI Express card electromechanical specification, at least 100 ms. PERST# alone
/// is held as long.
const PERST_LOW: Ps = 100 * MS;

/// The true times of a restart, in picoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Restart {
    /// PERST# falls.
    pub perst_low: Ps,
    /// The supply is switched off, and on again.
    pub off_on: Option<(Ps, Ps)>,
    /// PERST# rises.
    pub perst_high: Ps,
    /// The link is in L0.
    pub link_up: Ps,
}

impl<S: BusSink> Controller<S> {
    /// Resets the drive by PERST# at `now` or a little later; with `off`, its supply is switched off for that long meanwhile. The link is up
    /// when this returns, configuration space and registers are as after power-on. The host has shut the drive down.
    pub fn restart(&mut self, now: Ps, off: Option<Ps>, host: &mut dyn Host) -> Restart {
        self.run_to(now.max(self.pcie.port.quiet_ps()), host);
        // Whole milliseconds: steps of the rail end there in any fidelity.
        self.run_to(self.now.next_multiple_of(MS), host);
        let perst_low = self.now;
        self.pcie.port.sideband(perst_low, Signal::PerstN, 0);
        self.forget();
        self.pcie.reset(&self.profile);
        let ended = self.wire.as_mut().map(|wire| wire.reads.reset()).unwrap_or_default();
        self.unasked(ended);
        if self.wire.is_some() {
            self.begin_wire();
        }
        self.pcie.port.enter(perst_low, LinkState::Detect);
        self.power.hold_in_reset(perst_low);
        let off_on = off.map(|off| {
            self.run_to(perst_low + PERST_FIRST, host);
            self.hand_out();
            let switched_off = self.now;
            self.power.meter.switch_off(switched_off);
            if let Some(meter) = &mut self.power.own_meter {
                meter.supply_off();
            }
            self.run_to((switched_off + off).next_multiple_of(MS), host);
            let switched_on = self.now;
            self.admin.health.power_cycle();
            let risen = self.power.meter.switch_on(switched_on);
            self.run_to(risen, host);
            self.power.boot(self.now);
            self.power.supply_own_meter(self.now);
            (switched_off, switched_on)
        });
        let perst_high = self.now + PERST_LOW;
        let link_up = perst_high + TRAINING;
        self.pcie.port.sideband(perst_high, Signal::PerstN, 1);
        self.run_to(perst_high, host);
        self.power.boot(self.now);
        self.pcie.port.enter(link_up, LinkState::L0);
        self.run_to(link_up, host);
        self.power.link(self.now, LinkState::L0);
        self.hand_out();
        Restart { perst_low, off_on, perst_high, link_up }
    }

    /// Resets the function (FLR): registers, MSI-X table and most of configuration space are as after power-on. The link stays up.
    pub(super) fn reset_function(&mut self) {
        self.disable();
        self.registers = Registers::new(&self.profile);
        self.pcie.reset_function(&self.profile);
    }

    /// Applies a conventional reset: a controller reset, and the reset of the registers that a controller reset leaves.
    fn forget(&mut self) {
        self.disable();
        self.registers = Registers::new(&self.profile);
        self.booting = true;
    }

    /// CSTS.RDY is set from now on; after a restart the firmware has started with that.
    pub(super) fn become_ready(&mut self) {
        self.registers.set_ready();
        if std::mem::take(&mut self.booting) {
            self.power.states.start(self.now, &mut self.power.meter);
        }
    }
}
