"""Power-on: a drive's power when its rail comes on, and the time until it answers.

RTD3R is the time "from the time power is applied" until a host that "enables and initializes the controller and then sends a 4 KiB read
operation" has it. RTD3E is the time from the shutdown notification (CC.SHN) to its end (CSTS.SHST). Source: NVM Express Base 2.1, Identify
Controller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ...measure.figure import Figure, K, absent, mean
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import JsonScore, KindOfTest, ScoreSection, first_of, kind_of_test
from ..outcome import Outcome
from ..restart import NOT_SEEN, RestartInstants, figures, find_restart
from ..session import StepBuilder
from ..step import Restart as RestartStep
from ..suite import Test

TITLES: Mapping[str, tuple[str, str]] = {
    "begin_to_read": ("{begin} to the first read", "s"),
    "energy": ("energy, {begin} to the first read", "J"),
    "inrush_peak": ("inrush current, highest sample", "A"),
    "inrush_charge": ("inrush charge", "C"),
    "rise": ("inrush, how long", "s"),
    "stable_to_perst": ("rail stable to PERST# released", "s"),
    "perst_to_link": ("PERST# released to L0", "s"),
    "perst_to_config": ("PERST# released to BAR0 written", "s"),
    "perst_to_enable": ("PERST# released to CC.EN", "s"),
    "perst_to_command": ("PERST# released to the first doorbell", "s"),
    "enable_to_command": ("CC.EN to the first doorbell (CSTS.RDY, at most)", "s"),
    "last_to_perst": ("last completion to PERST# (RTD3 entry, at most)", "s"),
}
"""Name and unit of each figure, in the order in which they are shown."""


@kind_of_test("power-on")
class PowerOnTest(KindOfTest):
    """The drive is shut down and brought up again: with its rail off for ``off_s`` in between, or by PERST# alone."""

    place = ScoreSection.POWER_ON
    needs_jobs = False

    def steps(self, to: StepBuilder) -> None:
        for k in range(to.repeats):
            to.add(f"#{k + 1}", restart=RestartStep(to.test.off_s or None))

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """The mean of each figure over the restarts; a row a restart in the series."""
        out = Outcome()
        found: dict[int, Mapping[str, Figure]] = {}
        for number, _, phase in source.numbered(test.id):
            out.add_loss(source, phase)
            restart = find_restart(source, phase)
            if restart is None:
                out.notes.append(f"{phase.name}: PERST# did not fall and rise: is the rig's PERST# at the drive's connector?")
                continue
            problem = _not_as_asked(restart, test.off_s > 0)
            if problem:
                out.notes.append(f"{phase.name}: {problem}")
            found[number] = figures(source, restart, source.loss(phase).under_commands, cold=test.off_s > 0)
        if not found:
            out.notes.append("no restart was seen")
            return out
        begin = "rail on" if test.off_s > 0 else "PERST# released"
        names = [name for name in TITLES if any(name in row for row in found.values())]
        for name in names:
            title, unit = TITLES[name]
            out.score(title.format(begin=begin), unit, _over([row[name] for row in found.values() if name in row], unit))
        _times_declared(out, source, found, test)
        rows = [{"start": number, **{name: row[name].value if name in row else None for name in names}} for number, row in found.items()]
        out.series = pl.DataFrame(rows, schema={"start": pl.Int64, **dict.fromkeys(names, pl.Float64)})
        return out

    def summed_up(self, scores: Sequence[JsonScore]) -> list[JsonScore]:
        """Time and energy to the first read, and the inrush."""
        return [score for unit in ("s", "J", "A") if (score := first_of(scores, (unit,)))]


def _not_as_asked(restart: RestartInstants, cold: bool) -> str | None:
    if cold and restart.rail is None:
        return restart.unseen or "the rail stayed on, so that this was no cold start"
    if not cold and restart.rail is not None:
        return "the rail went off meanwhile, so that this was no warm start"
    return None


def _over(figures: Sequence[Figure], unit: str) -> Figure:
    """Mean of restarts; u: the instrument's and two standard errors, in squares."""
    known = [f for f in figures if f.value is not None]
    lost = sum(f.lost for f in figures)
    if not known:
        reason = figures[0].conditions.get("absent", NOT_SEEN) if figures else NOT_SEEN
        return absent(str(reason), unit, lost)
    average = mean(known)
    if average.u is None or len(known) == 1:
        return Figure(average.value, average.u, unit, lost, known[0].conditions)
    scatter = K * float(np.std([f.known for f in known], ddof=1)) / math.sqrt(len(known))
    return Figure(average.value, math.hypot(average.u, scatter), unit, lost, known[0].conditions)


def _times_declared(out: Outcome, source: Source, found: Mapping[int, Mapping[str, Figure]], test: Test) -> None:
    """Score the declared RTD3 latencies, and the ratio of each measured time to the declared time."""
    drive = source.capture.meta.get("drive") or {}
    for key, name, text in (("rtd3_resume_s", "begin_to_read", "RTD3R"), ("rtd3_entry_s", "last_to_perst", "RTD3E")):
        said = drive.get(key)
        if not said or test.off_s <= 0:  # they are of a drive that loses its supply
            continue
        measured = _over([row[name] for row in found.values()], "s")
        out.score(f"{text}, declared", "s", Figure(float(said), unit="s"))
        if measured.value is not None:
            u = None if measured.u is None else measured.u / said
            out.score(f"{text}, measured{' at most' if text == 'RTD3E' else ''} / declared", "1", Figure(measured.value / said, u, "1"))
