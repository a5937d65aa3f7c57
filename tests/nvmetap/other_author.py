"""Traffic of another author, ``tests.traffic``, through the monitor: each command's record held against the generator's truth.

Monitor, generator and tracker share no code. A field of a record is right if it equals the truth, or if a doubt of the record names it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from cocotbext.nvmetap import Checker, Command, Doubt, LinkObserver, Rule

from tests.nvmetap.wbt import watch
from tests.traffic.generate import Traffic, generate
from tests.traffic.kinds import KINDS, SEVERAL, Setup, draw
from tests.traffic.truth import INSTANTS, Deed

FIELDS = (*INSTANTS, "opcode", "nsid", "status")
_ALL = frozenset(FIELDS)
_DATA = frozenset({"first_data", "last_data"})
_END = frozenset({"cqe", "interrupt", "head", "status"})
COVERS: dict[Doubt, frozenset[str]] = {
    Doubt.NO_DOORBELL: frozenset({"doorbell"}),
    Doubt.SHADOW_DOORBELL: frozenset({"doorbell", "head"}),
    Doubt.PREFETCHED: frozenset({"fetch"}),
    Doubt.FETCHED_TWICE: frozenset({"fetch"}),
    Doubt.QUEUE_MEMORY: frozenset({"fetch"}),
    Doubt.CONTROLLER_MEMORY: _DATA,
    Doubt.SQE_UNSEEN: _ALL - _END - {"doorbell"},
    Doubt.LENGTH_UNKNOWN: _DATA,
    Doubt.SHARED_BUFFER: _DATA,
    Doubt.LIST_UNSEEN: _DATA,
    Doubt.DATA_INCOMPLETE: _DATA,
    Doubt.DATA_POISONED: _DATA,
    Doubt.DATA_SPLIT_DIRECTION: _DATA,
    Doubt.INTERRUPT_GUESSED: frozenset({"interrupt"}),
    Doubt.INTERRUPT_UNKNOWN: frozenset({"interrupt"}),
    Doubt.SQID_WRONG: _END,
    Doubt.NOT_COMPLETED: _END,
    Doubt.HEAD_UNSEEN: frozenset({"interrupt", "head"}),
}
"""Fields in doubt. A doubt without a row covers all fields."""

UNSUPPORTED = {"late": "the trace has no enumeration and no enabling of the controller: all its TLPs are counted, no command is known"}
"""Kinds without a due command, with the reason."""
BROKEN = {
    "two_doorbells": {Rule.DOORBELL_REPEATED},
}
"""Rules that the traffic of a kind breaks.

``two_doorbells``: the write of 8 bytes repeats the CQ's head where only the SQ's tail is new. NVMe 1.4, 5.2, calls the value of the last
write an invalid doorbell write value.
"""


@dataclass
class Comparison:
    """Commands of traces, by outcome.

    wrong : a field differs and no doubt covers the field
    absent : without a record; lost silently
    invented : records without a command
    rules : breaches that the traffic did not commit
    """

    commands: int = 0
    right: int = 0
    doubtful: int = 0
    unsupported: int = 0
    wrong: int = 0
    absent: int = 0
    invented: int = 0
    names: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    """Seeds of the traces that are not clean."""

    @property
    def clean(self) -> bool:
        """Whether nothing is silently wrong and no rule fired falsely."""
        return not (self.wrong or self.absent or self.invented or self.rules)

    def add(self, other: Comparison) -> None:
        """Add another's counts."""
        for name in ("commands", "right", "doubtful", "unsupported", "wrong", "absent", "invented"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.names.update(other.names)
        self.rules.update(other.rules)
        self.faults += other.faults
        self.seeds += other.seeds


def observe(traffic: Traffic) -> tuple[list[Command], Checker, LinkObserver]:
    """Return the monitor's commands of a trace, its checker and its observer."""
    observer = LinkObserver()
    checker = Checker(observer, keep=20)
    return watch(traffic.trace(), observer), checker, observer


def value(command: Command, name: str) -> int | None:
    """Return a field by the generator's name of it."""
    found: int | None = getattr(command, f"{name}_ps" if name in INSTANTS else name)
    return found


def doubted(command: Command) -> frozenset[str]:
    """Return the fields that the record's doubts name."""
    return frozenset().union(*(COVERS.get(doubt, _ALL) for doubt in command.doubts))


def differences(deed: Deed, command: Command) -> list[str]:
    """Return the fields of a record that differ from the truth."""
    found = []
    for name in FIELDS:
        got, want = value(command, name), getattr(deed, name)
        if got == want or (got is None and name in deed.may_lack):
            continue
        if deed.reset is not None and (name == "status" or (name in _DATA and got in deed.strays)):
            continue  # what came behind the reset belongs to nothing
        found.append(name)
    return found


def pairs(deeds: list[Deed], commands: list[Command]) -> tuple[list[tuple[Deed, Command]], list[Deed], list[Command]]:
    """Return commands with their records, commands without one, and records without a command."""
    waiting: dict[tuple[int, int, int, str, int | None], list[Command]] = defaultdict(list)
    for command in commands:
        for name in ("cqe", "fetch", "doorbell"):
            at = value(command, name)
            if at is not None:
                waiting[command.function & 7, command.sqid, command.cid if name != "doorbell" else -1, name, at].append(command)
    taken: set[int] = set()
    found = []
    left = deeds
    for name in ("cqe", "fetch", "doorbell"):
        later = []
        for deed in left:
            cid = deed.cid if name != "doorbell" else -1
            same = waiting.get((deed.function, deed.qid, cid, name, getattr(deed, name)), ())
            one = next((c for c in same if id(c) not in taken and (name != "doorbell" or c.cid in (-1, deed.cid))), None)
            if name != "cqe" and deed.cqe is not None and deed.reset is None and "head" not in deed.may_lack:
                one = None  # a record without the CQE is none of a command with one, unless the CQE crossed a reset
            if one is None:
                later.append(deed)
            else:
                taken.add(id(one))
                found.append((deed, one))
        left = later
    return found, left, [command for command in commands if id(command) not in taken]


def compare(traffic: Traffic) -> Comparison:
    """Hold the monitor's records of a trace against the truth."""
    commands, checker, _ = observe(traffic)
    result = Comparison(len(traffic.deeds))
    found, absent, invented = pairs(traffic.deeds, commands)
    for deed, command in found:
        different = differences(deed, command)
        silent = [name for name in different if name not in doubted(command)]
        if silent:
            result.wrong += 1
            result.names.update(silent)
            result.faults.append(f"seed {traffic.setup.seed}: {', '.join(silent)}\n  {command}\n  {deed}")
        elif different or command.doubts:
            result.doubtful += 1
        else:
            result.right += 1
    if UNSUPPORTED.keys().isdisjoint(traffic.setup.kinds):
        # A command that ended before its SQE had passed has no name.
        lost = [deed for deed in absent if not deed.unnamed()]
        result.doubtful += len(absent) - len(lost)
        result.absent = len(lost)
        result.faults += [f"seed {traffic.setup.seed}: absent {deed}" for deed in lost]
    else:
        result.unsupported = len(absent)
    result.invented = len(invented)
    result.faults += [f"seed {traffic.setup.seed}: invented {command}" for command in invented]
    allowed = set().union(*(BROKEN.get(kind, set()) for kind in traffic.setup.kinds))
    result.rules.update({rule.name: count for rule, count in checker.counts.items() if rule not in allowed})
    result.faults += [f"seed {traffic.setup.seed}: {breach}" for breach in checker.violations if breach.rule not in allowed]
    if not result.clean:
        result.seeds.append(traffic.setup.seed)
    return result


def trace(seed: int, kinds: tuple[str, ...], size: int) -> Traffic:
    """Return the traffic of a seed."""
    return generate(draw(seed, kinds, size))


@dataclass
class Table:
    """Comparisons by kind."""

    rows: dict[str, Comparison] = field(default_factory=dict)

    def add(self, setup: Setup, one: Comparison) -> None:
        """Count a trace."""
        self.rows.setdefault(setup.row, Comparison()).add(one)

    @property
    def total(self) -> Comparison:
        """Sum of the rows."""
        total = Comparison()
        for row in self.rows.values():
            total.add(row)
        return total

    def lines(self) -> Iterator[str]:
        """Yield the table as Markdown."""
        heads = ("kind", "commands", "right", "doubtful", "unsupported", "wrong", "absent", "invented")
        yield f"| {' | '.join(heads)} | fields | rules | seeds |"
        yield f"|---|{'--:|' * (len(heads) - 1)}---|---|---|"
        order = [*KINDS, SEVERAL]
        rows = [*sorted(self.rows.items(), key=lambda row: order.index(row[0].split("+")[0])), ("all", self.total)]
        for name, row in rows:
            fields = " ".join(f"{what} {count}" for what, count in row.names.most_common(4))
            rules = " ".join(f"{what} {count}" for what, count in row.rules.most_common())
            counts = " | ".join(str(getattr(row, head)) for head in heads[1:])
            yield f"| {name} | {counts} | {fields} | {rules} | {' '.join(map(str, row.seeds[:4]))} |"


def run(commands: int, seed: int, kinds: tuple[str, ...] = (), size: int = 0, jobs: int = 1) -> Table:
    """Draw traces of seeds from `seed` on until they have about `commands`; each of ``jobs`` processes takes every ``jobs``-th seed."""
    if jobs == 1:
        return _every(commands, seed, 1, kinds, size)
    table = Table()
    with ProcessPoolExecutor(jobs) as pool:
        shares = [pool.submit(_every, -(-commands // jobs), seed + k, jobs, kinds, size) for k in range(jobs)]
        for share in shares:
            for name, row in share.result().rows.items():
                table.rows.setdefault(name, Comparison()).add(row)
    return table


def _every(commands: int, seed: int, step: int, kinds: tuple[str, ...], size: int) -> Table:
    table = Table()
    done = number = 0
    while done < commands:
        traffic = trace(seed + number * step, kinds, size)
        table.add(traffic.setup, compare(traffic))
        done += len(traffic.deeds)
        number += 1
    return table
