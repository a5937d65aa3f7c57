"""The filter's constants for every ratio."""

from fractions import Fraction

import pytest
from wattbell_gateware.rail import decimation_constants


def test_gain_of_every_ratio():
    for ratio in range(1, 4097):
        mul, shift = decimation_constants(ratio)
        assert 0 <= shift <= 36 and (1 << 23) <= mul <= (1 << 24)
        gain = Fraction(mul, 1 << (23 + shift)) * ratio**3
        assert abs(gain - 1) <= Fraction(1, 1 << 24), ratio


@pytest.mark.parametrize("ratio", [0, 4097, -1])
def test_ratio_out_of_range(ratio):
    with pytest.raises(ValueError, match="1..4096"):
        decimation_constants(ratio)
