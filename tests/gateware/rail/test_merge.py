"""The merged gain paths: bit for bit as in the front end's reference."""

from wattbell_gateware.rail.merge import Merge

from tests.gateware import harness


def test_merge():
    harness.run(Merge(), name="rail_merge", test_module="cocotb_merge", here=__file__)
