"""A tap on one direction of a link, from the wires on, against the independent transmitter."""

import harness
from wattbell_gateware.link.receiver import Receiver


def test_receiver():
    harness.run(Receiver(2, 2, ticks_per_clock=4), name="receiver", test_module="cocotb_receiver", here=__file__, env={"TAP_LANES": "2", "TAP_SYMBOLS": "2"})
