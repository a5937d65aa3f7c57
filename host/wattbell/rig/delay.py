"""Delay of a rig's rail measurement relative to its bus, from its calibration (``CALibration:DELay``)."""

from __future__ import annotations

import math

from ..errors import RigError
from .scpi import ScpiConnection

__all__ = ["DESIGN_DELAY_S", "DESIGN_U_S", "front_end_delay"]

DESIGN_DELAY_S, DESIGN_U_S = 2e-6, 60e-9
"""Design values of an uncalibrated board: the delay of every path, and the board-to-board spread (k = 2).

docs/front-end.md gives 56 ns for the fine path.
"""


def front_end_delay(control: ScpiConnection) -> dict[str, object]:
    """Return the ``conditions`` of ``meta.json``: ``front_end_delay_s`` and its uncertainty ``front_end_delay_u_s`` (k = 2).

    They are this board's if ``front_end_delay_calibrated``, else the design values. The coarse path's delay is given unless the rig
    measures with the fine path alone. The delay of a power step matters, and steps that matter end above 0.1 A. If both paths are merged,
    their difference is part of the uncertainty.
    """
    design: dict[str, object] = {
        "front_end_delay_s": DESIGN_DELAY_S,
        "front_end_delay_u_s": DESIGN_U_S,
        "front_end_delay_calibrated": False,
    }
    answer = control.optional("CAL:DEL?;:CAL:DEL:FINE?;:SENS:CURR:RANG:AUTO?;:SENS:CURR:RANG?")
    if answer is None:  # older firmware
        return design
    try:
        coarse, fine, merged, upper = (tuple(float(part) for part in text.split(",")) for text in answer.split(";"))
        (delay, u), (fine_delay, fine_u), (both,), (ampere,) = coarse, fine, merged, upper
    except ValueError:
        raise RigError(f"The rig answers CAL:DEL? with {answer!r}, which is not a rig's answer.") from None
    if fine_u and not both and ampere <= 0.15:
        delay, u = fine_delay, fine_u
    elif u and fine_u and both:
        u = math.hypot(u, fine_delay - delay)
    if not u:
        return design
    return {"front_end_delay_s": delay, "front_end_delay_u_s": u, "front_end_delay_calibrated": True}
