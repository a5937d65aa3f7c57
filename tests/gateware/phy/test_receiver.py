"""A tap on one direction of a link, from the wires on, against the independent transmitter."""

import harness
from phy_tops import Wrapped
from wattbell_gateware.link.receiver import Receiver


def test_receiver():
    # Two wires, words of two symbols: the smallest that has everything. tests_slow/test_tap.py has the others.
    top = Wrapped(Receiver(2, 2, ticks_per_clock=4))
    harness.run(top, name="receiver", test_module="cocotb_receiver", here=__file__, env={"TAP_LANES": "2", "TAP_SYMBOLS": "2"})
