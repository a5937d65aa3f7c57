"""The self-test's pattern, decoded by cocotbext-pcie."""

from wattbell_gateware.selftest import PatternPlayer

from tests.gateware import harness


def test_player():
    harness.run(PatternPlayer(), name="pattern_player", test_module="cocotb_player", here=__file__)
