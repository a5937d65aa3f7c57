"""Units of corrected samples, and the fixed-point formats of their corrections."""

from __future__ import annotations

VOLTAGE_LSB_UV = 20
"""Microvolt in one unit of a corrected voltage."""
CURRENT_LSB_NA = 500
"""Nanoampere in one unit of a corrected current."""
VOLTAGE_LSB_V, CURRENT_LSB_A = VOLTAGE_LSB_UV / 1e6, CURRENT_LSB_NA / 1e9
PRODUCT_LSB_PW = VOLTAGE_LSB_UV * CURRENT_LSB_NA // 1000
"""Picowatt in one unit of the product voltage x current."""
ENERGY_LSB_W = 1e-11
"""Watt in the same unit; times the conversion period it is an energy."""
POWER_SHIFT = 16
"""A power of the controller's meter and trigger is the product without so many bits."""
POWER_LSB_PW = PRODUCT_LSB_PW << POWER_SHIFT
"""Picowatt in one unit of such a power."""

OFFSET_BITS = 28
"""Of an OFFSET register, two's complement."""
OFFSET_FRACTION_BITS = 8
"""Of them behind the point: an offset counts in 1/256 of a code."""
GAIN_FRACTION_BITS = 24
"""Of a GAIN register: a gain is in units of 2**-24 of the output's unit a code."""
DECIM_FRACTION_BITS = 23
"""Of DECIM_MUL, before DECIM_SHIFT."""

assert abs(ENERGY_LSB_W * 1e12 - PRODUCT_LSB_PW) < 1e-6
