"""Settings of the rail, and the layout of a conversion."""

from amaranth import signed
from amaranth.lib import data
from wattbell_spec.units import OFFSET_BITS

from .cic import MUL_BITS
from .front import ADC_BITS

__all__ = ["CONVERSION", "FLAGS", "RAIL_CONFIG", "Range"]

RAIL_CONFIG = data.StructLayout(
    {
        "period": 20,  # clocks between conversions
        "decimation": 13,
        "mul": MUL_BITS + 1,
        "shift": 6,
        "v_offset": signed(OFFSET_BITS),
        "v_gain": 32,
        "i_offset": signed(OFFSET_BITS),
        "i_gain": 32,
        "f_offset": signed(OFFSET_BITS),
        "f_gain": 32,  # the fine path's; without one not looked at, as `range` is not
        "range": 2,
        "uncalibrated": 1,
    }
)
"""Everything about the rail that software sets; see the register map."""


class Range:
    """Values of ``range``: the path of the current."""

    MERGED = 0
    COARSE = 1
    FINE = 2


FLAGS = data.StructLayout({"overload_i": 1, "overload_v": 1, "uncalibrated": 1, "saturated": 1, "fine": 1})
"""Flags of a conversion. The first four are the RailFlag of the same names; ``fine``: the current is the fine path's alone."""

CONVERSION = data.StructLayout(
    {
        "tick": 64,
        "period": 32,  # ticks, between conversions
        "v": signed(24),
        "i": signed(24),  # corrected
        "flags": FLAGS,
        "v_code": ADC_BITS,
        "i_code": ADC_BITS,
        "f_code": ADC_BITS,
        "guard": signed(24),  # the current that the protection compares, corrected
        "beyond": 1,  # the current is more than `guard` says
    }
)
"""A conversion, for the parts that need more than samples: meter, protection, trigger. Without a fine path ``f_code`` is 0.

``guard`` equals ``i``, with two exceptions:

- In the fine range, if the coarse path shows more than the upper end of the merge's band, ``guard`` is the coarse path's current.
- If the coarse code is at the upper end of its scale, ``guard`` is the greatest value: above any level, whatever the calibration.

``beyond``: the code behind ``guard`` is at the upper end of its scale, so the current is at least ``guard``.
"""
