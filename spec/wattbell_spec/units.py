"""Units of corrected samples, and the fixed-point formats of their corrections."""

from __future__ import annotations

VOLTAGE_LSB_UV = 20
"""Microvolts per unit of a corrected voltage."""
CURRENT_LSB_NA = 500
"""Nanoamperes per unit of a corrected current."""
VOLTAGE_LSB_V, CURRENT_LSB_A = VOLTAGE_LSB_UV / 1e6, CURRENT_LSB_NA / 1e9
PRODUCT_LSB_PW = VOLTAGE_LSB_UV * CURRENT_LSB_NA // 1000
"""Picowatts per unit of the product voltage x current."""
ENERGY_LSB_W = 1e-11
"""The same unit in watts; times the conversion period it is an energy."""
POWER_SHIFT = 16
"""Bits dropped from that product to give a power of the controller's meter and trigger."""
POWER_LSB_PW = PRODUCT_LSB_PW << POWER_SHIFT
"""Picowatts per unit of such a power."""

OFFSET_BITS = 28
"""Width of an OFFSET register, two's complement."""
OFFSET_FRACTION_BITS = 8
"""Fraction bits of an OFFSET register: an offset counts in 1/256 of a code."""
GAIN_FRACTION_BITS = 24
"""Fraction bits of a GAIN register: a gain is in units of 2**-24 of the output's unit per code."""
DECIM_FRACTION_BITS = 23
"""Fraction bits of DECIM_MUL, before DECIM_SHIFT."""

assert abs(ENERGY_LSB_W * 1e12 - PRODUCT_LSB_PW) < 1e-6
