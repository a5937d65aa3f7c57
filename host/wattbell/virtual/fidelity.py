"""What stands for the instrument in a virtual rig."""

from __future__ import annotations

from enum import StrEnum


class Fidelity(StrEnum):
    """What stands for the instrument."""

    rtl = "rtl"
    fast = "fast"
