"""The highest mean power of a test over each of OCP's windows, in whichever of its phases it was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..jsondata import JsonObject
from ..measure.encode import quantity_json
from ..measure.figure import Figure, absent
from ..measure.phases import LOAD, Phase
from ..measure.pieces import active_span
from ..measure.rail import OCP_WINDOWS_S, TOO_SHORT, Rail, as_long_as, window_text
from ..measure.source import Source
from ..measure.throughput import BURST_GAP_S
from .suite import Test

WIDER = 1.01
"""A window that the rail's interval makes wider than asked for, by this factor, is not that window."""


@dataclass(frozen=True)
class Peak:
    """``figure`` in W, absent with a reason where the rail is too coarse or too short for the window; ``phase``: where it was drawn.
    ``shorter``: phases that are left out, since their load was shorter than the window."""

    figure: Figure
    phase: str | None = None
    shorter: tuple[str, ...] = ()

    @property
    def json(self) -> JsonObject:
        """An entry of ``peaks`` in results.json."""
        why = self.figure.conditions.get("absent")
        found = {**quantity_json(self.figure), **({"phase": self.phase} if self.figure.value is not None else {"absent": why})}
        return {**found, **({"shorter": list(self.shorter)} if self.shorter else {})}


def find_peaks(source: Source, tests: Sequence[Test]) -> dict[str, dict[str, Peak]]:
    """Return the peaks by test and by window (``4us``, ``100us``, ``100ms``), in one pass over a session's waveform;
    empty without a rail.
    """
    rail = source.rail
    owned = [(owner, phase) for phase in source.phases.values() if (owner := _owner(phase, tests))]
    if rail is None or not owned:
        return {}
    scan = rail.scan([(phase.first_tick, phase.last_tick) for _, phase in owned])
    best: dict[str, dict[str, Peak]] = {}
    shorter: dict[tuple[str, str], list[str]] = {}
    for i, (owner, phase) in enumerate(owned):
        loss = source.loss(phase)
        lost = max(scan.stats[i].missing, loss.rail_samples) + loss.hidden_samples
        doubtful = sum(source.doubtful_blocks(phase.first_tick, phase.last_tick).values())
        exact = _exact(rail, rail.highest(scan, i, lost))
        lasted = as_long_as(exact, _load_s(source, phase))
        for window, figure in lasted.items():
            if figure.value is None and (exact[window].value is not None or exact[window].conditions.get("absent") == TOO_SHORT):
                shorter.setdefault((owner, window), []).append(phase.name)
            if figure.value is not None and doubtful:  # the error model holds for a calibrated rail within its range only
                figure = replace(figure, u=None, lost=figure.lost + doubtful)
            known = best.setdefault(owner, {}).get(window)
            if known is None or known.figure.value is None or (figure.value is not None and figure.value > known.figure.value):
                best[owner][window] = Peak(figure, phase.name)
    for (owner, window), names in shorter.items():
        best[owner][window] = replace(best[owner][window], shorter=tuple(names))
    return best


def _load_s(source: Source, phase: Phase) -> float:
    """How long the load of a phase lasted: first start to last CQE; of a phase without one, how long the phase did."""
    if phase.kind == LOAD and not source.is_long(phase):
        span = active_span(source.io(phase), round(BURST_GAP_S / source.tick_s), source.by_host)
        if span is not None:
            return source.seconds(span.whole_ticks)
    return source.seconds(phase.last_tick - phase.first_tick)


def _owner(phase: Phase, tests: Sequence[Test]) -> str | None:
    """Return the test of a phase by its name: the test's id, and a suffix of the kind of test."""
    if phase.kind == "precondition":
        return None
    ids = [
        test.id for test in tests if phase.name.startswith(test.id) and phase.name[len(test.id) : len(test.id) + 1] in ("", "-", "#", "/")
    ]
    return max(ids, key=len, default=None)


def _exact(rail: Rail, found: dict[str, Figure]) -> dict[str, Figure]:
    """The windows, without those that are one sample of a coarser rail."""
    out = {}
    for length_s in OCP_WINDOWS_S:
        figure = found[window_text(length_s)]
        if float(figure.conditions.get("window_s", length_s)) > WIDER * length_s:
            figure = absent(f"samples are {rail.interval_s * 1e6:g} us apart", "W")
        out[window_text(length_s)] = figure
    return out
