"""Physical coding sublayer at 2.5 and 5 GT/s against the independent transmitter."""

from tests.gateware import harness
from tests.gateware.phy.phy_tops import PcsTop


def test_line_code():
    harness.run(PcsTop(), name="pcs", test_module="cocotb_decode", here=__file__)


def test_lane():
    harness.run(PcsTop(), name="pcs", test_module="cocotb_lane", here=__file__)


def test_deskew():
    harness.run(PcsTop(), name="pcs", test_module="cocotb_deskew", here=__file__)
