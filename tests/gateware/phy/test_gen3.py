"""The receiver of 8 GT/s, wired for x4, against the independent transmitter; one model for all widths of the link."""

import harness
from wattbell_gateware.link.block_receiver import BlockReceiver


def test_receiver():
    harness.run(BlockReceiver(4), name="gen3", test_module="cocotb_gen3", here=__file__)
