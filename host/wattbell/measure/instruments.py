"""The instruments of a capture: the rig's clock and rail, with their limits of error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import RailFlag

from ..capture import Capture
from .energy import Energy
from .errormodel import ErrorModel
from .figure import PARTLY, Conditions, Figure, absent
from .rail import Rail
from .seen import by_host
from .steadiness import Steadiness, of_rail
from .throughput import ActiveTime

DOUBT_TEXT = {
    RailFlag.OVERLOAD_I: "current_beyond_the_adc",
    RailFlag.OVERLOAD_V: "voltage_beyond_the_adc",
    RailFlag.UNCALIBRATED: "uncalibrated",
    RailFlag.SATURATED: "clipped",
}
NO_RAIL = "no rail samples under the I/O"
NO_COMMANDS = "nobody saw the commands"
MOST_BURSTS = 4096
"""Most bursts that are integrated singly. With more, the edges would dominate the uncertainty, and one window covers all bursts."""


@dataclass(frozen=True, eq=False)
class Instruments:
    """The instruments of a capture. ``rail`` is None if no rail was recorded; ``no_rail`` then says why."""

    capture: Capture
    model: ErrorModel
    tick_s: float
    rail: Rail | None
    no_rail: str | None

    @cached_property
    def by_host(self) -> bool:
        """Whether commands are as a host saw them (:func:`.seen.by_host`)."""
        return by_host(self.capture)

    @property
    def saw_commands(self) -> bool:
        """Whether commands were watched: by a rig that taps the bus (it says its gateware), or by somebody who saw some."""
        meta = self.capture.meta
        return bool((meta.get("rig") or {}).get("gateware") or (meta.get("counts") or {}).get("commands"))

    def seconds(self, ticks: float) -> float:
        return float(ticks) * self.tick_s

    def power_u(self, watts: float) -> float:
        """Expanded uncertainty in W of a mean power, at this rail's voltage."""
        return self.model.power_u(watts, self.rail.supply_v if self.rail else 0.0)

    def doubtful_blocks(self, first_tick: float, last_tick: float) -> dict[str, int]:
        """Return the number of rail blocks of a window with wrong or doubtful power, by reason."""
        found = self.rail.doubtful_blocks(first_tick, last_tick) if self.rail else {}
        return {f"rail_blocks_{DOUBT_TEXT[flag]}": n for flag, n in found.items()}

    def covered(self, first_tick: float, last_tick: float, edge_u_s: float = 0.0) -> Energy | None:
        """Return the energy between two ticks with limit of error ``edge_u_s``, by the rail's meter; None if no rail was recorded."""
        part = self.rail.energy(first_tick, last_tick, edge_u_s) if self.rail and last_tick > first_tick else None
        return part if part and part.covered_s > 0 else None

    def energy(self, first_tick: float, last_tick: float, lost: int = 0, edge_u_s: float = 0.0) -> tuple[Figure, Figure]:
        """Return (energy in J, mean power in W) between two ticks; no values without a rail.

        Each tick may be off against the rail by ``edge_u_s``, at least the capture's ``alignment_u_s``. A mean over a change has the change
        in its ``u`` (:mod:`.steadiness`).
        """
        part = self.covered(first_tick, last_tick, edge_u_s)
        if part is None:
            return absent(NO_RAIL, "J"), absent(NO_RAIL, "W")
        mean = part.joules / part.covered_s
        doubtful = sum(self.doubtful_blocks(first_tick, last_tick).values())
        if doubtful:  # the error model holds for a calibrated rail within its range only
            return Figure(part.joules, None, "J", lost + doubtful), Figure(mean, None, "W", lost + doubtful)
        front = self.rail.mean_u(round(first_tick), round(last_tick), mean, self.rail.supply_v) if self.rail else 0.0
        over: Conditions = {"edge_u_s": max(edge_u_s, self.model.alignment_u_s)} if part.moved_j else {}
        power = Figure(mean, math.hypot(front, part.mean_u_j / part.covered_s), "W", lost, over)
        held = self.steadiness([(first_tick, last_tick)])
        return (
            Figure(part.joules, math.hypot(front * part.covered_s, part.energy_u_j), "J", lost, over),
            held.of(power) if held else power,
        )

    def steadiness(self, windows: Iterable[tuple[float, float]]) -> Steadiness | None:
        """Whether the rail's power held its level over windows taken together; None if that cannot be seen."""
        return of_rail(self.rail, windows) if self.rail else None

    def active_energy(self, span: ActiveTime, lost: int, *, scored: bool) -> tuple[Figure, Figure]:
        """Return (energy in J, mean power in W) over the bursts of a span. Their conditions have ``covered_s``, the time the rail covers.

        scored: the power enters a suite's result. It is absent if the rail misses a burst. If blocks of the rail are overloaded or
            uncalibrated, the power has no ``u``, and these blocks count as lost. The analysis instead gives any value, with a warning
            beside it.

        A change of power within the span is in the ``u`` of the mean (:mod:`.steadiness`).
        """
        energy, power = self._active_energy(span, lost, scored=scored)
        if power.value is None:
            return energy, power
        some = span.bursts if len(span.bursts) <= MOST_BURSTS else span.bursts[[0, -1], [0, 1]][None, :]
        held = self.steadiness([(float(first), float(last)) for first, last in some.tolist()])
        power = held.of(power) if held else power
        if self._outlasts(span):
            energy = replace(energy, u=None, conditions={**energy.conditions, "note": PARTLY})
            power = replace(power, conditions={**power.conditions, "note": PARTLY})
        return energy, power

    def _outlasts(self, span: ActiveTime) -> bool:
        """Whether bursts begin before the recording of the rail, or end after it; a gap within it counts as lost."""
        assert self.rail is not None, "it has given a power"
        interval = self.rail.interval_ticks
        inside = np.clip(span.bursts, self.rail.first_tick - interval, self.rail.last_tick + interval)
        outside = int(np.diff(span.bursts).sum() - np.diff(inside).sum())
        return outside > max(2 * interval, 1e-3 * float(np.diff(span.bursts).sum()))

    def _active_energy(self, span: ActiveTime, lost: int, *, scored: bool) -> tuple[Figure, Figure]:
        """The same by the instrument alone."""
        joules = seconds = edges = 0.0
        moved: list[Energy] = []
        doubtful = 0
        for (first, last), part in self._parts(span.bursts, scored):
            if part is None:
                return absent(NO_RAIL, "J", lost), absent(NO_RAIL, "W", lost)
            joules, seconds, edges = joules + part.joules, seconds + part.covered_s, edges + part.edge_u_j**2
            if part.moved_j:
                moved.append(part)
            doubtful += sum(self.doubtful_blocks(first, last).values()) if scored else 0
        if seconds <= 0:
            return absent(NO_RAIL, "J", lost), absent(NO_RAIL, "W", lost)
        mean_w = joules / seconds
        over: Conditions = {"over": "active span", "covered_s": seconds}
        if doubtful:
            return Figure(joules, None, "J", lost + doubtful, over), Figure(mean_w, None, "W", lost + doubtful, over)
        # The front end's error is common to all bursts; the edges' is not. Both forms are published, to the last digit.
        assert self.rail is not None, "it has given parts"
        model = self.rail.model_of(int(span.bursts[0, 0]), int(span.bursts[-1, 1]))
        front = model.power_u(mean_w, self.rail.supply_v)
        more_j, more_w = self._at_most(span, joules, mean_w, scored)
        if moved:
            apart_s, above = self.model.alignment_u_s, self._moved_mean(moved, mean_w)
            of_energy, of_mean = (math.sqrt((front * seconds) ** 2 + edges + more**2) for more in (sum(p.moved_j for p in moved), above))
            over = {**over, "edge_u_s": apart_s}
            energy = Figure(joules, math.hypot(of_energy, more_j), "J", lost, over)
            return energy, Figure(mean_w, math.hypot(of_mean / seconds, more_w), "W", lost, over)
        u = math.hypot(front, math.sqrt(edges) / seconds) if scored else (front**2 + edges / seconds**2) ** 0.5
        if span.least is not None:
            return Figure(joules, math.hypot(u * seconds, more_j), "J", lost, over), Figure(mean_w, math.hypot(u, more_w), "W", lost, over)
        return Figure(joules, u * seconds, "J", lost, over), Figure(mean_w, u, "W", lost, over)

    def _parts(self, bursts: npt.NDArray[np.int64], scored: bool) -> Iterator[tuple[tuple[int, int], Energy | None]]:
        """Yield each burst with its energy by the rail."""
        some = bursts if len(bursts) <= MOST_BURSTS else bursts[[0, -1], [0, 1]][None, :]
        for first, last in some.tolist():
            yield (first, last), self.covered(first, last) if scored or self.rail is None else self.rail.energy(first, last)

    def _at_most(self, span: ActiveTime, joules: float, mean_w: float, scored: bool) -> tuple[float, float]:
        """Return possible errors of energy (J) and mean power (W) over a span if the instants at the drive are uncertain.

        A host does not know exactly when its commands were at the drive. The errors are the differences to the shortest possible bursts,
        which may be off against the rail like all bursts.
        """
        if span.least is None:
            return 0.0, 0.0
        surely = span.least[span.least[:, 1] > span.least[:, 0]]
        found = [part for _, part in self._parts(surely, scored) if part is not None] if len(surely) else []
        least_j, least_s = sum(part.joules for part in found), sum(part.covered_s for part in found)
        if least_s <= 0:
            return math.inf, math.inf
        least_w = least_j / least_s
        moved_j = sum(part.moved_j for part in found)
        moved_w = self._moved_mean(found, least_w) / least_s
        return max(joules - least_j, 0.0) + moved_j, abs(least_w - mean_w) + moved_w

    def _moved_mean(self, parts: Iterable[Energy], mean_w: float) -> float:
        """Return in J how much the energy above the mean of all these bursts may change if the clocks are off.

        The bursts are taken together, since all share the error of one clock.
        """
        moved = (part for part in parts if part.moved_j)
        return sum(p.moved_above_mean_j + 2 * self.model.alignment_u_s * abs(p.joules / p.covered_s - mean_w) for p in moved)
