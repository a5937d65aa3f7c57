"""Draws traces, plays them, judges them: a table of kinds, and the smallest trace that fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import Verdict, judge, read
from tests.traffic.kinds import FLAGGED, KINDS, SEVERAL, Setup, draw
from tests.traffic.rig import Playing

COLUMNS = {
    "pending": "pending",
    "lost_counted": "lost, counted",
    "overcounted": "counted too often",
    "lost_silent": "lost in silence",
    "invented": "invented",
    "invented_flagged": "invented, flagged",
    "unsaid": "unsaid",
    "wrong": "wrong",
}
"""Counts of a verdict and their heads in the table; the last four but the flagged ones are silent."""


@dataclass
class Table:
    """Verdicts by kind.

    failed : seeds with a silent fault, by kind.
    supported : verdict of the traces without a kind that is flagged by design.
    """

    rows: dict[str, Verdict] = field(default_factory=dict)
    failed: dict[str, list[int]] = field(default_factory=dict)
    supported: Verdict = field(default_factory=Verdict)
    traces: int = 0
    commands: int = 0
    overloads: int = 0
    """Traces at which the fast twin says that the gateware may differ."""

    def add(self, setup: Setup, verdict: Verdict) -> None:
        """Count a trace."""
        name = setup.row
        self.rows.setdefault(name, Verdict()).add(verdict)
        if FLAGGED.keys().isdisjoint(setup.kinds):
            self.supported.add(verdict)
        self.traces += 1
        self.commands += verdict.commands
        if verdict.silent:
            self.failed.setdefault(name, []).append(setup.seed)

    def merge(self, other: Table) -> None:
        """Add the verdicts of other traces."""
        for name, verdict in other.rows.items():
            self.rows.setdefault(name, Verdict()).add(verdict)
        for name, seeds in other.failed.items():
            self.failed.setdefault(name, []).extend(seeds)
        self.supported.add(other.supported)
        self.traces, self.commands, self.overloads = (
            self.traces + other.traces,
            self.commands + other.commands,
            self.overloads + other.overloads,
        )

    def flagged_share(self) -> float:
        """Share of the commands of supported kinds that are flagged, or counted as lost."""
        return (self.supported.flagged + self.supported.lost_counted) / max(1, self.supported.commands)

    def lines(self) -> Iterator[str]:
        """The table as Markdown."""
        heads = ("kind", "commands", "right", "flagged", *COLUMNS.values(), "most")
        yield f"| {' | '.join(heads)} |"
        yield f"|---|{'--:|' * (len(heads) - 2)}---|"
        total = Verdict()
        for name in sorted(self.rows, key=lambda name: ([*KINDS, SEVERAL].index(name.split("+")[0]), name)):
            total.add(self.rows[name])
            yield _line(name, self.rows[name])
        yield _line("all", total)


def _line(name: str, one: Verdict) -> str:
    most = ", ".join(f"{key} {count}" for key, count in one.names.most_common(4)) if name != "all" else ""
    counts = (one.commands, one.right, one.flagged, *(getattr(one, column) for column in COLUMNS))
    return f"| {name} | {' | '.join(map(str, counts))} | {most} |"


def verdict_of(traffic: Traffic, folder: Path, fidelity: str = "fast") -> Verdict:
    """Play a trace and judge its stream."""
    trace = folder / "one.wbt"
    trace.write_bytes(traffic.trace())
    stream, _ = Playing(trace, traffic.attach, fidelity).stream()
    return judge(traffic.deeds, read(stream))


def run(commands: int, seed: int, kinds: tuple[str, ...], fidelity: str = "fast", size: int = 0, jobs: int = 1) -> Table:
    """Draw traces of seeds from `seed` on until they have about `commands`.

    ``size``: I/O commands of a trace (0: drawn). ``jobs``: processes; each takes every ``jobs``-th seed, until all have drawn enough.
    """
    if jobs == 1:
        return _every(commands, seed, 1, kinds, fidelity, size)
    table = Table()
    with ProcessPoolExecutor(jobs) as pool:
        shares = [pool.submit(_every, -(-commands // jobs), seed + k, jobs, kinds, fidelity, size) for k in range(jobs)]
        for share in shares:
            table.merge(share.result())
    return table


def _every(commands: int, seed: int, step: int, kinds: tuple[str, ...], fidelity: str, size: int) -> Table:
    """Draw traces of every ``step``-th seed. While a rig plays one trace, the next is made."""
    table = Table()
    with tempfile.TemporaryDirectory(prefix="wattbell-traffic-") as name:
        folder = Path(name)
        waiting: tuple[Setup, Traffic, Playing] | None = None
        submitted = 0

        def settle(entry: tuple[Setup, Traffic, Playing]) -> None:
            setup, traffic, playing = entry
            stream, said = playing.stream()
            table.overloads += bool(said)
            table.add(setup, judge(traffic.deeds, read(stream)))

        number = 0
        while submitted < commands:
            setup = draw(seed + number * step, kinds, size)
            traffic = generate(setup)
            submitted += len(traffic.deeds)
            trace = folder / f"{number % 2}.wbt"
            trace.write_bytes(traffic.trace())
            entry = (setup, traffic, Playing(trace, traffic.attach, fidelity))
            if waiting is not None:
                settle(waiting)
            waiting = entry
            number += 1
        if waiting is not None:
            settle(waiting)
    return table


def pace(table: Table, begun: float) -> str:
    """Commands a second since `begun` (of ``time.monotonic``)."""
    took = time.monotonic() - begun
    return f"{table.commands} commands of {table.traces} traces in {took:.0f} s: {table.commands / took:.0f} a second"
