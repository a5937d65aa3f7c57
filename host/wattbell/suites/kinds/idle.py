"""Idle power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...measure.figure import Figure
from ...measure.source import Source
from ..jobs import Section
from ..kind import JsonScore, Kind, Place
from ..outcome import Outcome
from ..power import note_power_management, note_settling, settled_power
from ..session import Steps
from ..suite import Test


class Idle(Kind):
    """The drive is left alone."""

    name = "idle"
    place = Place.IDLE
    needs_jobs = False

    def steps(self, to: Steps) -> None:
        to.settle()
        to.add(idle_s=to.idle_s)

    def score(self, source: Source, test: Test, sections: Mapping[str, Section], scale: float) -> Outcome:
        """Power at the end of the idle time, and over all of it."""
        out = Outcome()
        note_power_management(out, source, test)
        note_settling(out, source, test)
        for _, phase in source.named(test.id):
            out.add_loss(source, phase)
            out.score("settled (second half of the idle time)", "W", settled_power(source, phase))
            out.score("whole idle time", "W", source.energy(phase.first_tick, phase.last_tick, edge_u_s=phase.edge_u_s)[1])
            out.score("idle for", "s", Figure(source.seconds(phase.last_tick - phase.first_tick), 2 * phase.edge_u_s, "s"))
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """Its power says it all."""
        return []
