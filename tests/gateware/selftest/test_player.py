"""The self-test's pattern, decoded by cocotbext-pcie."""

import harness
from wattbell_gateware.selftest import PatternPlayer


def test_player():
    harness.run(PatternPlayer(), name="pattern_player", test_module="cocotb_player", here=__file__)
