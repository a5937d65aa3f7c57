"""The parts that replace the instrument in a virtual rig."""

from __future__ import annotations

from enum import StrEnum


class Fidelity(StrEnum):
    """The replacement of the instrument."""

    rtl = "rtl"
    fast = "fast"
