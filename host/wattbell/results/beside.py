"""Energies of two sides, each of one run or of several, side by side: differences, and whether they exceed the spread between runs.

The difference is B less A, of the means over the runs of each side. Without repeats there is no verdict. A difference would have to exceed
the instrument's error in both runs, and nobody knows by how much. With repeats (:mod:`.spread`) a row is *higher* or *lower* under two
conditions: the difference exceeds the expected spread between runs, and it exceeds the instrument's error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..measure.figure import Figure, absent
from .compared import Matched
from .energies import CommandEnergy, Energies, Passage, PhaseEnergy, StateFound

UNKNOWN = "unknown"
MEAN_LEVEL = "no interval: the mean of what was given this label"
_DEPTH = re.compile(r"(\d{1,9})(?: to (\d{1,9}))?")
OTHER_MIX = "one figure for several classes, of which each run may have had another mix"


@dataclass(frozen=True)
class PairedEnergies:
    """All figures of both sides. ``only``: figures of one side alone, in words."""

    commands: Sequence[Matched] = ()
    alone: Sequence[Matched] = ()
    states: Sequence[Matched] = ()
    only: Sequence[str] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.commands or self.alone or self.states or self.only)


def beside(a: Sequence[Energies], b: Sequence[Energies], names: tuple[str, str] = ("A", "B")) -> PairedEnergies:
    """Return both sides, of one run or of several, side by side. ``names``: their names in reasons."""
    each = [[_pair(one, other, names) for other in b] for one in a]
    commands, alone, states = (_merged([[getattr(pair, part) for pair in row] for row in each]) for part in ("commands", "alone", "states"))
    only = dict.fromkeys(line for row in each for pair in row for line in pair.only)
    return PairedEnergies(commands, alone, states, tuple(only))


def _pair(a: Energies, b: Energies, names: tuple[str, str]) -> PairedEnergies:
    """One run of each side."""
    return PairedEnergies(
        tuple(_commands(a, b, names)),
        tuple(_by_class("", a.alone, b.alone, names, ("none stood alone", "none stood alone"))),
        tuple(_states(a, b, names)),
        tuple(_only(a, b, names)),
    )


def _merged(each: Sequence[Sequence[Sequence[Matched]]]) -> tuple[Matched, ...]:
    """Merge the rows of all pairs of runs: a row for each run of A, a column for each run of B.

    A merged row has the runs that can be compared with any run of the other side, and states their number. Without such runs it has the
    reason.
    """
    keys = dict.fromkeys((one.group, one.name) for row in each for rows in row for one in rows)
    table = [[{(one.group, one.name): one for one in rows} for rows in row] for row in each]
    return tuple(_row(key, table) for key in keys)


def _row(key: tuple[str, str], table: Sequence[Sequence[Mapping[tuple[str, str], Matched]]]) -> Matched:
    """One row of all pairs of runs."""
    cells = [(i, j, rows[key]) for i, row in enumerate(table) for j, rows in enumerate(row) if key in rows]
    usable = [(i, j, one) for i, j, one in cells if one.complete or one.shown]
    if not usable:
        return cells[0][2]
    a = {i: one.a[0] for i, _, one in usable}
    b = {j: one.b[0] for _, j, one in usable}
    remarks = dict.fromkeys(one.remark for *_, one in usable if one.remark)
    short = [f"{len(found)} of {of} runs" for found, of in ((a, len(table)), (b, len(table[0]))) if len(found) < of]
    remark = "; ".join([*remarks, *(f"known in {text}" for text in short)])
    besides = max(one.besides for *_, one in usable)
    return replace(usable[0][2], a=[a[i] for i in sorted(a)], b=[b[j] for j in sorted(b)], besides=besides, remark=remark)


def numbered(phases: Sequence[PhaseEnergy]) -> dict[str, PhaseEnergy]:
    """Phases by their names; of several of one name the later ones by ``name #2``."""
    seen: Counter[str] = Counter()
    out: dict[str, PhaseEnergy] = {}
    for phase in phases:
        seen[phase.name] += 1
        out[phase.name if seen[phase.name] == 1 else f"{phase.name} #{seen[phase.name]}"] = phase
    return out


def _matched(group: str, name: str, a: Figure, b: Figure, besides: float = 0.0, refused: str = "", remark: str = "") -> Matched:
    """Match one run of each side.

    refused: why the two cannot be compared
    remark: why one has no uncertainty, or a remark that a reader of both needs
    """
    return Matched(group, name, a.unit or b.unit, [a], [b], besides, refused, remark)


# Commands.


def _commands(a: Energies, b: Energies, names: tuple[str, str]) -> Iterator[Matched]:
    mine, theirs = numbered(a.phases), numbered(b.phases)
    for name, phase in mine.items():
        if name in theirs:
            other = theirs[name]
            yield from _by_class(name, phase.classes, other.classes, names, (phase.absent, other.absent))


def _by_class(
    group: str, a: Sequence[CommandEnergy], b: Sequence[CommandEnergy], names: tuple[str, str], absents: tuple[str, str]
) -> Iterator[Matched]:
    mine, theirs = {one.name: one for one in a}, {one.name: one for one in b}
    for name in dict.fromkeys((*mine, *theirs)):
        ours, other = mine.get(name), theirs.get(name)
        if all(one is None or one.energy_j.value is None for one in (ours, other)):
            continue
        if ours is not None and other is not None:
            yield _both(group, ours, other, names)
            continue
        found, companions, missing = (ours, b, 1) if ours is not None else (other, a, 0)
        assert found is not None
        why = _lacking(found, companions, names[missing]) or absents[missing] or "no such command"
        reason = why if why.startswith(f"{names[missing]}: ") else f"{names[missing]}: {why}"
        there, nothing = found.energy_j.figure("J", found.note), absent(reason, "J")
        both = (there, nothing) if missing else (nothing, there)
        yield _matched(group, name, *both, refused=reason)


def _lacking(found: CommandEnergy, companions: Sequence[CommandEnergy], name: str) -> str:
    """Why a class that one run has is not among the other's, which has the same commands in other classes; "" if it has not."""
    kin = [one for one in companions if _commands_of(one) & _commands_of(found)]
    if not kin:
        return ""
    if len(kin) == 1 and (len(kin[0].classes) > 1 or kin[0].name in _commands_of(found)):
        return f"{name}: one figure for {kin[0].name}"
    return f"{name}: told apart, {'; '.join(one.name for one in kin)}"


def _commands_of(one: CommandEnergy) -> set[str]:
    """Classes of a run's commands, whatever their pattern."""
    return {re.sub(", (random|sequential)$", "", name) for name in one.classes}


def _both(group: str, a: CommandEnergy, b: CommandEnergy, names: tuple[str, str]) -> Matched:
    remarks = [f"depth {a.depth} in {names[0]}, {b.depth} in {names[1]}"] if _apart(a.depth, b.depth) else []
    besides = 0.0
    if len(a.classes) > 1:
        share = _mix_share(a.mix, b.mix)
        if share is None:
            first, second = a.energy_j.figure("J"), b.energy_j.figure("J")
            return _matched(group, a.name, first, second, refused=OTHER_MIX)
        besides = share * abs(b.energy_j.value or 0.0)
    lacking = [(name, one.note) for one, name in zip((a, b), names, strict=True) if one.note and one.energy_j.u is None]
    if len(lacking) == 2 and lacking[0][1] == lacking[1][1]:
        lacking = [("both", lacking[0][1])]
    remarks += [f"{name}: {note}" for name, note in lacking]
    first, second = (one.energy_j.figure("J", f"{name}: {one.note}") for one, name in ((a, names[0]), (b, names[1])))
    return _matched(group, a.name, first, second, besides, remark="; ".join(remarks))


def _apart(a: str, b: str) -> bool:
    """Whether two depths (``8``, ``7 to 8``) have none in common."""
    found = _DEPTH.fullmatch(a), _DEPTH.fullmatch(b)
    if found[0] is None or found[1] is None:
        return a != b
    (low, high), (other_low, other_high) = ((int(one[1]), int(one[2] or one[1])) for one in found if one is not None)
    return high < other_low or other_high < low


def _mix_share(a: Mapping[str, int], b: Mapping[str, int]) -> float | None:
    """Return the share by which a mean over several classes may differ since their mix differs; None if a mix is unknown.

    A class of share s costs at most 1/s of the mean. Half the sum of the differences between shares is the part of the mean that belongs to
    another class.
    """
    whole = sum(a.values()), sum(b.values())
    if a.keys() != b.keys() or not all(whole) or not all(b.values()):
        return None
    moved = sum(abs(a[name] / whole[0] - b[name] / whole[1]) for name in a) / 2
    return moved / min(count / whole[1] for count in b.values())


# Power states.


def _states(a: Energies, b: Energies, names: tuple[str, str]) -> Iterator[Matched]:
    mine, theirs = {one.label: one for one in a.states}, {one.label: one for one in b.states}
    passages = {(one.state, one.by): one for one in a.passages}, {(one.state, one.by): one for one in b.passages}
    levels = {label: max(_highest(one[label]) for one in (mine, theirs) if label in one) for label in (*mine, *theirs)}
    states = dict.fromkeys((*sorted(levels, key=lambda label: -levels[label]), *(state for one in passages for state, _ in one)))
    whys = [one.states_absent or "not found" for one in (a, b)]
    for label in states:
        if label in levels:
            yield from _state(label, mine.get(label), theirs.get(label), names, whys)
        for key in dict.fromkeys(key for one in passages for key in one if key[0] == label):
            yield from _passage(f"{label}, woken by {key[1]}", key[1], passages[0].get(key), passages[1].get(key), names)


def _highest(state: StateFound) -> float:
    return max((level.power_w.value or 0.0 for level in state.levels if state.label != UNKNOWN), default=0.0)


def _state(label: str, a: StateFound | None, b: StateFound | None, names: tuple[str, str], whys: Sequence[str]) -> Iterator[Matched]:
    levels = [{level.link: level.power_w for level in one.levels} if one else {} for one in (a, b)]
    lacking = [
        absent(f"{name}: {'never with the link in this state' if one else why}", "W")
        for one, name, why in zip((a, b), names, whys, strict=True)
    ]
    for link in dict.fromkeys((*levels[0], *levels[1])) if label != UNKNOWN else ():
        first, second = (of[link].figure("W") if link in of else none for of, none in zip(levels, lacking, strict=True))
        if first.value is not None or second.value is not None:
            remark = MEAN_LEVEL if None in (first.u, second.u) else ""
            yield _matched(label, f"power, link in {link}" if link else "power", first, second, remark=remark)
    for name, unit, values in (
        ("share of time", "%", [None if one is None else 100 * one.share for one in (a, b)]),
        ("probability", "%", [None if one is None or one.probability is None else 100 * one.probability for one in (a, b)]),
    ):
        shown = [Figure(value, None, unit) if value is not None else absent("", unit) for value in values]
        if any(value is not None for value in values):
            yield Matched(label, name, unit, [shown[0]], [shown[1]], shown=True)


def _passage(label: str, by: str, a: Passage | None, b: Passage | None, names: tuple[str, str]) -> Iterator[Matched]:
    given = [one.figures(run) if one else {} for one, run in zip((a, b), names, strict=True)]
    lacking = [absent(f"{run}: no wake-up from it by {by}") for run in names]
    for name in dict.fromkeys((*given[0], *given[1])):
        first, second = given[0].get(name, lacking[0]), given[1].get(name, lacking[1])
        if first.value is None and second.value is None:
            continue
        refused = remark = ""
        if a and b and name in Passage.NOTED:
            remark = a.note if a.note == b.note else ""
            noted = [f"{run}: {one.note}" for one, run in zip((a, b), names, strict=True) if one.note]
            refused = "; ".join(noted) if a.note != b.note else ""
        yield _matched(label, name, first, second, refused=refused, remark=remark)


def _only(a: Energies, b: Energies, names: tuple[str, str]) -> Iterator[str]:
    mine, theirs = numbered(a.phases), numbered(b.phases)
    for name, one, other in ((names[0], mine, theirs), (names[1], theirs, mine)):
        lone = [phase for phase in one if phase not in other]
        if lone:
            yield f"phases of {name} alone: {', '.join(lone)}"
