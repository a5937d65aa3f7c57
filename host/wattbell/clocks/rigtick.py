"""Relate the rig's tick counter to the host's clock.

``SYSTem:TICK?`` reads the counter that stamps the stream. Its reading lies between the question and the answer, a few hundred us apart over
USB. So the rig needs no other way. STATUS blocks and samples are no better: they are only known to be no later than their arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wattbell_spec.boards import BOARDS

from ..errors import RigError
from .host import host_ns

STEP_TICKS = max(board.ticks_per_clock for board in BOARDS)
"""Largest step of the counter on any board, since an answer does not name the board."""


class TickPort(Protocol):
    """A connection that answers SCPI questions, as :class:`wattbell.rig.ScpiConnection` does."""

    @property
    def device(self) -> str:
        """Return the name of its port, for messages."""
        ...

    def query(self, command: str) -> str:
        """Return the answer to a question."""
        ...


@dataclass(frozen=True)
class TickReading:
    """The rig's counter stood at ``tick`` (up to :data:`STEP_TICKS` less than the instant) between two instants of the host's clock."""

    before_ns: int
    after_ns: int
    tick: int


def ask_tick(control: TickPort) -> TickReading:
    """One round trip. Raises RigError when the rig does not answer with a tick."""
    before = host_ns()
    answer = control.query("SYST:TICK?")
    after = host_ns()
    try:
        return TickReading(before, after, int(answer))
    except ValueError:
        raise RigError(f"{control.device} answers SYST:TICK? with {answer!r}, which is no tick; update the rig's firmware.") from None
