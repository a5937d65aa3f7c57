//! The self-test's pattern in place of the bus and the analog side.

use super::Instrument;
use crate::rail::Analog;
use crate::selftest::{Act, Codes, Shown};
use crate::time::Clock;

impl<A: Analog> Instrument<A> {
    /// The values of the self-test's registers.
    pub fn self_test(&self) -> Shown {
        self.player.shown(self.clock, self.rail.pattern.as_ref())
    }

    /// TEST_CONTROL has a new value from `clock` on.
    pub(super) fn test(&mut self, clock: Clock, control: u32) {
        let was_on = self.player.is_on();
        self.player.write(control, self.rail.pattern.as_ref());
        let on = self.player.is_on();
        if on == was_on {
            return;
        }
        self.tracker.lanes.iter_mut().for_each(|lane| lane.hold(clock, on));
        self.rail.pattern = on.then(Codes::default);
        // With the pattern in place of the bus, PERST# is high until it begins.
        self.tracker.perst(clock, if on { 1 } else { self.levels.perst_n });
        self.tracker.unlinked(clock, !on && self.levels.is_detect());
        if !on {
            self.tracker.set_run(clock + 1, self.run.is_capturing(clock));
        }
    }

    /// The pattern begins in `clock`.
    pub(super) fn go(&mut self, clock: Clock) {
        let Some((tlps, codes)) = self.player.go(clock) else { return };
        for (up, tick, tlp) in tlps {
            self.tracker.lanes[usize::from(up)].play(up, tick, tlp);
        }
        self.rail.pattern = Some(codes);
    }

    /// Applies the player's action to the tracker's other inputs.
    pub(super) fn act(&mut self, clock: Clock) {
        match self.player.act() {
            Some(Act::Perst(level)) => self.tracker.perst(clock, level),
            Some(Act::Run(run)) => self.tracker.set_run(clock + 1, run),
            None => {}
        }
    }
}
