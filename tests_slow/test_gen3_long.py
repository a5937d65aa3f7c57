"""The 8 GT/s receiver over hundreds of thousands of blocks with bit errors (minutes). GEN3_PACKETS: packets a round (4000)."""

import sys
from pathlib import Path

import pytest

GATEWARE = Path(__file__).parents[1] / "tests" / "gateware"
sys.path[:0] = [str(GATEWARE), str(GATEWARE / "phy")]

import harness  # noqa: E402
from phy_tops import ReceiverTop  # noqa: E402


@pytest.mark.timeout(3600)
def test_bit_errors_for_long():
    harness.run(ReceiverTop(4, ticks_per_clock=4), name="receiver", test_module="cocotb_gen3_long", here=__file__)
