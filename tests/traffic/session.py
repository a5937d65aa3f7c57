"""Draws traces, plays them, judges them: a table of kinds, and the smallest trace that fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import Verdict, judge, read
from tests.traffic.kinds import KINDS, SEVERAL, UNDERSTOOD, Setup, draw
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
    """Verdicts by kind. ``failed``: seeds with a silent fault, by kind."""

    rows: dict[str, Verdict] = field(default_factory=dict)
    failed: dict[str, list[int]] = field(default_factory=dict)
    traces: int = 0
    commands: int = 0
    overloads: int = 0
    """Traces at which the fast twin says that the gateware may differ."""

    def add(self, setup: Setup, verdict: Verdict) -> None:
        """Count a trace."""
        name = setup.row
        self.rows.setdefault(name, Verdict()).add(verdict)
        self.traces += 1
        self.commands += verdict.commands
        if verdict.silent:
            self.failed.setdefault(name, []).append(setup.seed)

    def broken(self) -> dict[str, list[int]]:
        """Seeds with a silent fault though all their kinds are listed as understood."""
        return {name: seeds for name, seeds in self.failed.items() if name in UNDERSTOOD}

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


def run(
    commands: int,
    seed: int,
    kinds: tuple[str, ...],
    fidelity: str = "fast",
    each: Callable[[Setup, Traffic, Verdict], None] = lambda setup, traffic, verdict: None,
    size: int = 0,
) -> Table:
    """Draw traces of seeds from `seed` on until they have `commands`. While a rig plays one trace, the next is made.

    ``each`` is called with every trace. ``size``: I/O commands of a trace (0: drawn).
    """
    table = Table()
    with tempfile.TemporaryDirectory(prefix="wattbell-traffic-") as name:
        folder = Path(name)
        waiting: tuple[Setup, Traffic, Playing] | None = None
        submitted = 0

        def settle(entry: tuple[Setup, Traffic, Playing]) -> None:
            setup, traffic, playing = entry
            stream, said = playing.stream()
            verdict = judge(traffic.deeds, read(stream))
            table.overloads += bool(said)
            table.add(setup, verdict)
            each(setup, traffic, verdict)

        number = 0
        while submitted < commands:
            setup = draw(seed + number, kinds, size)
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
