"""Colours of all plots. What stands in one pair of axes is told apart with every kind of colour vision, or by its dashes."""

from __future__ import annotations

from dataclasses import dataclass

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#661100", "#56b4e9", "#4d4d4d", "#e69f00")
"""Okabe and Ito's colours. Their yellow cannot be read on white: a dark brown (of Paul Tol's) in its place, and grey for their black."""
READ, WRITE = PALETTE[0], PALETTE[1]
POWER, VOLTAGE, CURRENT = "#c2571a", "#8a4fa3", "#a07500"
DEPTH, LATENCY, IOPS = "#3c7d3c", "#4a5d73", "#00798c"
BACKGROUND = "#98a2ae"
"""Of drives that are shown for comparison only."""
INK, MUTED, GRID, SPINE = "#1c2530", "#66707c", "#e8ebee", "#b6bdc5"


@dataclass(frozen=True)
class Look:
    """How one of many is drawn: ``dashed`` (lines dashed, points hollow) from where the palette is used up."""

    colour: str
    dashed: bool = False


def look(place: int) -> Look:
    """The look of the ``place``-th of many; after twice the palette they come again."""
    round_, colour = divmod(place, len(PALETTE))
    return Look(PALETTE[colour], dashed=round_ % 2 == 1)


_ON_DARK = {
    "#0072b2": "#3f9fe0",
    "#d55e00": "#f07c2a",
    "#009e73": "#1fbf92",
    "#cc79a7": "#e08fbd",
    "#661100": "#c98a72",
    "#56b4e9": "#9bd5f5",
    "#4d4d4d": "#b9bdc2",
    "#e69f00": "#f2b632",
    POWER: "#f08a4b",
    VOLTAGE: "#c08be0",
    CURRENT: "#d9a520",
    DEPTH: "#6cb56c",
    LATENCY: "#9db3cc",
    IOPS: "#35b5c9",
    BACKGROUND: "#6d7785",
    MUTED: "#98a3af",
}


def on_dark(colour: str) -> str:
    """The colour that stands for ``colour`` on a dark page; itself if it is none of these."""
    return _ON_DARK.get(colour, colour)
