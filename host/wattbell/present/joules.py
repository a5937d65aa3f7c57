"""The uses of a phase's energy: a stacked bar and the cells of a table. Both always include energy without an account."""

from __future__ import annotations

import math

from wattbell.analysis.result import EnergyShares
from wattbell.present.chart import Bar, BarPart
from wattbell.present.colours import BACKGROUND, MUTED, PALETTE, READ, WRITE
from wattbell.present.table import Cell, Column, cell, figure
from wattbell.results import Known
from wattbell.text import NOTHING, percent, si

_COLOURS = {"read": READ, "write": WRITE}


def opcode_colour(label: str) -> str:
    """Return the colour of reads, of writes, or of other and mixed classes; for a class of commands, with or without a phase before it."""
    return _COLOURS.get(_kind(label.rpartition(": ")[2]), MUTED)


def _kind(name: str) -> str:
    kinds = {(part.split() or [""])[0] for part in name.split(" + ")}
    return kind if len(kinds) == 1 and (kind := next(iter(kinds))) in _COLOURS else "other"


def _spent(shares: EnergyShares) -> dict[str, float]:
    """J of the classes, by ``read``, ``write`` and ``other``."""
    spent = {"read": 0.0, "write": 0.0, "other": 0.0}
    for name, joules in shares["classes_j"].items():
        spent[_kind(name)] += joules.known
    return spent


def stacked(label: str, shares: EnergyShares) -> Bar:
    """Return a phase's energy as a stack of its uses. ``shares`` has values. Unexplained energy is drawn whatever its sign."""
    spent = _spent(shares)
    whole, left = sum(spent.values()), shares["after_j"].known  # energy drawn behind the phase's end is not the phase's
    within = {kind: joules * (1 - left / whole) if whole > 0 else 0.0 for kind, joules in spent.items()}
    total, unexplained = shares["total_j"], shares["unexplained_j"].known
    parts = [
        BarPart("idle", BACKGROUND, shares["baseline_j"].known),
        BarPart("reads", READ, within["read"]),
        BarPart("writes", WRITE, within["write"]),
        BarPart("mixed, other", MUTED, within["other"]),
        BarPart("put off", PALETTE[3], shares["deferred_j"].known),
        BarPart("unexplained (either way)", PALETTE[4], abs(unexplained)),
    ]
    remark = f"unexplained {percent(unexplained / total.known, 1, sign=True)}" if total.known else ""
    value = Known(total.known, total.u, "J", total.lost)
    return Bar(label, BACKGROUND, value, remark=remark, parts=[part for part in parts if 0 < part.value < math.inf])


SHARE_COLUMNS = (
    Column("all", "J"),
    Column("unexplained"),
    Column("idle", leaves=7),
    Column("reads", leaves=6),
    Column("writes", leaves=5),
    Column("mixed, other", short="mixed", leaves=4),
    Column("after the end", short="after", leaves=1),
    Column("put off", leaves=2),
)
SHARES_EXPLAINED = (
    "Idle: what the drive draws at operational idle, less where it slept. Reads, writes: what their commands cost; mixed, other: "
    "classes that are not told apart, and other commands. After the end: of these, what was drawn behind the phase's end. Put off: "
    "above idle long after the last command. Unexplained: what is left."
)


def share_cells(shares: EnergyShares) -> list[Cell | str]:
    """The cells of :data:`SHARE_COLUMNS`."""
    total = shares["total_j"].known
    unexplained, baseline, after, deferred = (shares[key].known for key in ("unexplained_j", "baseline_j", "after_j", "deferred_j"))
    parts = (unexplained, baseline, *_spent(shares).values(), -after, deferred)
    return [figure(shares["total_j"]), *(cell(_part(joules, total)) for joules in parts)]


def _part(joules: float, total: float) -> str:
    """Joules and their part of all; a dash for nothing."""
    share = joules / total if total else 0.0
    return NOTHING if abs(share) < 5e-5 else f"{si(joules, 'J', 3)} ({percent(share, 0 if abs(share) >= 0.1 else 1)})"
