"""What a capture was measured with: the rig's clock and rail, and what they may be off by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wattbell_spec.wire import RailFlag

from ..capture import Capture
from .energy import Energy
from .errormodel import ErrorModel
from .figure import Conditions, Figure, absent
from .rail import Rail
from .throughput import Span

DOUBT_TEXT = {
    RailFlag.OVERLOAD_I: "current_beyond_the_adc",
    RailFlag.OVERLOAD_V: "voltage_beyond_the_adc",
    RailFlag.UNCALIBRATED: "uncalibrated",
    RailFlag.SATURATED: "clipped",
}
NO_RAIL = "no rail samples under the I/O"
MOST_BURSTS = 4096
"""Most bursts that are integrated one by one. With more, the edges would dominate the uncertainty: one window covers all of them."""


@dataclass(frozen=True, eq=False)
class Instruments:
    """``rail`` is None where none was recorded; ``no_rail`` then says why."""

    capture: Capture
    model: ErrorModel
    tick_s: float
    rail: Rail | None
    no_rail: str | None

    def seconds(self, ticks: float) -> float:
        return float(ticks) * self.tick_s

    def power_u(self, watts: float) -> float:
        """Expanded uncertainty in W of a mean power, at this rail's voltage."""
        return self.model.power_u(watts, self.rail.supply_v if self.rail else 0.0)

    def doubtful_blocks(self, first_tick: float, last_tick: float) -> dict[str, int]:
        """Rail blocks of a window whose power is wrong or not known to be right, by why."""
        found = self.rail.doubtful_blocks(first_tick, last_tick) if self.rail else {}
        return {f"rail_blocks_{DOUBT_TEXT[flag]}": n for flag, n in found.items()}

    def covered(self, first_tick: float, last_tick: float) -> Energy | None:
        """What the rail's meter says between two ticks; None where no rail was recorded."""
        part = self.rail.energy(first_tick, last_tick) if self.rail and last_tick > first_tick else None
        return part if part and part.covered_s > 0 else None

    def energy(self, first_tick: float, last_tick: float, lost: int = 0) -> tuple[Figure, Figure]:
        """(energy in J, mean power in W) between two ticks; no values without a rail."""
        part = self.covered(first_tick, last_tick)
        if part is None:
            return absent(NO_RAIL, "J"), absent(NO_RAIL, "W")
        mean = part.joules / part.covered_s
        doubtful = sum(self.doubtful_blocks(first_tick, last_tick).values())
        if doubtful:  # the error model holds for a calibrated rail within its range only
            return Figure(part.joules, None, "J", lost + doubtful), Figure(mean, None, "W", lost + doubtful)
        u = math.hypot(self.power_u(mean), part.edge_u_j / part.covered_s)
        return Figure(part.joules, u * part.covered_s, "J", lost), Figure(mean, u, "W", lost)

    def active_energy(self, span: Span, lost: int, *, scored: bool) -> tuple[Figure, Figure]:
        """(energy in J, mean power in W) over the bursts of a span; ``covered_s`` of their conditions: over as much as the rail covers.

        ``scored``: the power stands for the drive in a suite's result. It is absent if the rail misses a burst; it has no ``u``, and counts
        as lost, if a block of the rail is overloaded or uncalibrated. The analysis gives what there is, with a warning beside it.
        """
        bursts = span.bursts if len(span.bursts) <= MOST_BURSTS else span.bursts[[0, -1], [0, 1]][None, :]
        joules = seconds = edges = 0.0
        doubtful = 0
        for first, last in bursts.tolist():
            part = self.covered(first, last) if scored or self.rail is None else self.rail.energy(first, last)
            if part is None:
                return absent(NO_RAIL, "J", lost), absent(NO_RAIL, "W", lost)
            joules, seconds, edges = joules + part.joules, seconds + part.covered_s, edges + part.edge_u_j**2
            doubtful += sum(self.doubtful_blocks(first, last).values()) if scored else 0
        if seconds <= 0:
            return absent(NO_RAIL, "J", lost), absent(NO_RAIL, "W", lost)
        mean_w = joules / seconds
        over: Conditions = {"over": "active span", "covered_s": seconds}
        if doubtful:
            return Figure(joules, None, "J", lost + doubtful, over), Figure(mean_w, None, "W", lost + doubtful, over)
        # What the front end is off by is common to all bursts; the edges are not. Both forms are published, to the last digit.
        front = self.power_u(mean_w)
        u = math.hypot(front, math.sqrt(edges) / seconds) if scored else (front**2 + edges / seconds**2) ** 0.5
        return Figure(joules, u * seconds, "J", lost, over), Figure(mean_w, u, "W", lost, over)
