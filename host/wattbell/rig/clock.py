"""The rig's tick counter against the host's clock.

``SYSTem:TICK?`` reads the counter that stamps the stream, so the rig needs no other way: its answer lies between the question and the
answer, a few hundred us apart over USB. STATUS blocks and samples that arrive are no better: they are only known to be no later than they
came.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattbell_spec.boards import BOARDS

from ..clock import host_ns
from ..errors import RigError
from .scpi import Scpi

STEP_TICKS = max(board.ticks_per_clock for board in BOARDS)
"""By how much the counter advances at a time; an answer does not say on which board, so the greatest of all."""


@dataclass(frozen=True)
class TickReading:
    """The rig's counter stood at ``tick`` (up to :data:`STEP_TICKS` less than the instant) between two instants of the host's clock."""

    before_ns: int
    after_ns: int
    tick: int


def ask_tick(control: Scpi) -> TickReading:
    """One round trip. Raises RigError when the rig does not answer with a tick."""
    before = host_ns()
    answer = control.query("SYST:TICK?")
    after = host_ns()
    try:
        return TickReading(before, after, int(answer))
    except ValueError:
        raise RigError(f"{control.device} answers SYST:TICK? with {answer!r}, which is no tick; update the rig's firmware.") from None
