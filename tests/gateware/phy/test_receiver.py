"""A tap on one direction of a link, wired for x4, from the wires on, against the independent transmitter; one model for all tests."""

from tests.gateware import harness
from tests.gateware.phy.phy_tops import ReceiverTop

MODULES = ("cocotb_receiver", "cocotb_speeds", "cocotb_timestamps", "cocotb_gen3", "cocotb_power")


def test_receiver():
    harness.run(ReceiverTop(4, ticks_per_clock=4), name="receiver", test_module=",".join(MODULES), here=__file__)
