"""The receiver of 8 GT/s against the independent transmitter."""

import harness
from gen3_tops import Gen3Top


def test_receiver():
    harness.run(Gen3Top(), name="gen3", test_module="cocotb_gen3", here=__file__)
