"""Draws traces, plays them, judges them: a table of kinds, and the smallest trace that fails."""

from __future__ import annotations

import gc
import itertools
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
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


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw: seeds from `seed` on, of `kinds` (all by default), played at `fidelity`.

    size : I/O commands of a trace; 0: drawn.
    """

    seed: int
    kinds: tuple[str, ...] = ()
    fidelity: str = "fast"
    size: int = 0


BLOCK = 8
"""Traces that are counted together."""


def run(
    commands: int,
    plan: Draw,
    jobs: int = 1,
    done: Mapping[int, Table] | None = None,
    count: Callable[[int, Table], None] | None = None,
) -> Table:
    """Draw blocks of traces, in the order of their seeds, until they have `commands`.

    jobs : processes.
    done : tables of blocks that an earlier run has counted.
    count : called with number and table of each block that ends.
    """
    done = done or {}
    total = Table()
    for number, table in _blocks(plan, jobs, done):
        if count is not None and number not in done:
            count(number, table)
        total.merge(table)
        if total.commands >= commands:
            break
    return total


def _blocks(plan: Draw, jobs: int, done: Mapping[int, Table]) -> Iterator[tuple[int, Table]]:
    """Number and table of each block, without end."""
    if jobs == 1:
        for number in itertools.count():
            yield number, done[number] if number in done else _block(plan, number)
    with ProcessPoolExecutor(jobs) as pool:
        flying: deque[Table | Future[Table]] = deque()
        for number in itertools.count():
            flying.append(done[number] if number in done else pool.submit(_block, plan, number))
            if len(flying) > jobs:
                first = flying.popleft()
                yield number - jobs, first if isinstance(first, Table) else first.result()


def _block(plan: Draw, number: int) -> Table:
    """Draw the traces of a block. While a rig plays one trace, the next is made."""
    table = Table()

    def settle(setup: Setup, traffic: Traffic, playing: Playing) -> None:
        stream, said = playing.stream()
        table.overloads += bool(said)
        table.add(setup, judge(traffic.deeds, read(stream)))

    with tempfile.TemporaryDirectory(prefix="wattbell-traffic-") as name:
        waiting: tuple[Setup, Traffic, Playing] | None = None
        for k in range(BLOCK):
            setup = draw(plan.seed + number * BLOCK + k, plan.kinds, plan.size)
            traffic = _generate_fast(setup)
            trace = Path(name) / f"{k % 2}.wbt"
            trace.write_bytes(traffic.trace())
            entry = (setup, traffic, Playing(trace, traffic.attach, plan.fidelity))
            if waiting is not None:
                settle(*waiting)
            waiting = entry
        assert waiting is not None
        settle(*waiting)
    return table


def _generate_fast(setup: Setup) -> Traffic:
    """Generate without garbage collection, which takes an eighth of the time and finds nothing until the end."""
    gc.disable()
    try:
        return generate(setup)
    except Exception as error:
        error.add_note(f"seed {setup.seed}")
        raise
    finally:
        gc.enable()


def pace(table: Table, begun: float) -> str:
    """Commands a second since `begun` (of ``time.monotonic``)."""
    took = time.monotonic() - begun
    return f"{table.commands} commands of {table.traces} traces in {took:.0f} s: {table.commands / took:.0f} a second"
