"""The host's idea of the calibration registers is the gateware's."""

from wattbell.calibration import GAIN_FRACTION_BITS, OFFSET_FRACTION_BITS
from wattbell_gateware.rail import correct


def test_fraction_bits():
    assert (OFFSET_FRACTION_BITS, GAIN_FRACTION_BITS) == (correct.OFFSET_FRACTION_BITS, correct.GAIN_FRACTION_BITS)
