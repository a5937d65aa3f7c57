"""Observations of transitions between power states, one for each ordered pair. The worst pair is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..analysis.statepairs import Pair, PairFigures, declared_latency, ordered_pairs, words
from ..measure.figure import Figure, absent
from ..results.declared import PowerStateDescriptor
from ..text import si
from .measurands import Observation

NO_IDENTIFY = "nobody saw Identify: the drive's power states are not known"
NEVER = "the host never asked for it"
AMONG = "all pairs"
BLIND = "the rail does not tell the two states apart: the time ends at the completion of Set Features"
UNKNOWN_APST = "nobody saw whether APST was off"


@dataclass(frozen=True)
class PairTime:
    """The times of one ordered pair of states.

    longest, median, p999 : in s.
    energy : mean in J.
    count : transitions with a time.
    by_rail : whether the rail shows the end.
    apst_known : whether APST was known to be off.
    """

    longest: Figure
    median: Figure
    p999: Figure
    energy: Figure
    count: int
    by_rail: bool
    apst_known: bool = True

    @classmethod
    def of(cls, one: PairFigures) -> PairTime:
        """Return the times of an analysis."""
        return cls(one.longest, one.median, one.p999, one.energy, one.measured, one.by_rail, one.apst_known)

    @classmethod
    def stored(cls, figures: Mapping[str, Figure]) -> PairTime:
        """Return the times that a run stored."""
        none = absent("not stored")
        median, p999, energy = (figures.get(name, none) for name in ("p50_s", "p999_s", "transition_j"))
        count = figures.get("count", none).value or 0.0
        blind = figures.get("by_rail", none).value == 0.0
        return cls(replace(figures["longest_s"], unit="s"), median, p999, energy, int(count), not blind)

    def remark(self) -> str:
        """Return the other figures in words."""
        told = [f"the longest of {self.count}" if self.count > 1 else "the only one of its pair"]
        told += [f"p50 {si(self.median.known, 's', 3)}"] if self.median.value is not None and self.count > 1 else []
        told += [f"p99.9 {si(self.p999.known, 's', 3)}"] if self.p999.value is not None else ["too few for p99.9"]
        told += [f"mean energy {si(self.energy.known, 'J', 3)}"] if self.energy.value is not None else []
        return ", ".join(told)


def pair_observations(states: Sequence[PowerStateDescriptor], found: Mapping[Pair, PairTime]) -> list[Observation]:
    """Return an observation of each ordered pair of a drive's states. Only the worst is a row.

    A pass is conditional while a pair with a declared latency has no time.
    """
    declared = {one.number: (one.entry_s, one.exit_s) for one in states}
    pairs = ordered_pairs(declared)
    if not pairs:
        return [Observation("", absent("the drive declares one power state", "s"))]
    limits = {pair: declared_latency(declared, *pair) for pair in pairs}
    due = [pair for pair in pairs if limits[pair].value is not None]
    timed = {pair for pair in pairs if pair in found and found[pair].longest.value is not None}
    missing = [words(*pair) for pair in due if pair not in timed]
    brief = f"{len(missing)} of {len(due)} pairs with a declared latency have no time, such as {missing[0]}" if missing else ""
    share = f"the worst of {len(due)} pairs with a declared latency, of {len(pairs)}"
    return [_observation(pair, limits[pair], found.get(pair), brief, share) for pair in pairs]


def _observation(pair: Pair, limit: Figure, one: PairTime | None, brief: str, share: str) -> Observation:
    scope, limits = words(*pair), {"transition_latency_s": limit}
    if one is None or one.longest.value is None:
        figure = absent(NEVER, "s") if one is None else one.longest
        return Observation(scope, figure, among=AMONG, limits=limits)
    doubt, blind = "" if one.apst_known else UNKNOWN_APST, "" if one.by_rail else BLIND
    return Observation(
        scope,
        one.longest,
        doubt=doubt,
        brief="; ".join(filter(None, (blind, brief))),
        remark=f"{share}; {one.remark()}",
        among=AMONG,
        limits=limits,
    )
