"""Colours of all plots. With every kind of colour vision, curves in one pair of axes differ by colour or by dashes."""

from __future__ import annotations

import colorsys
import re
from dataclasses import dataclass

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#661100", "#56b4e9", "#4d4d4d", "#e69f00")
"""Okabe and Ito's colours. Their yellow cannot be read on white: a dark brown (of Paul Tol's) in its place, and grey for their black."""
READ, WRITE = PALETTE[0], PALETTE[1]
POWER, VOLTAGE, CURRENT = "#c2571a", "#8a4fa3", "#a07500"
DEPTH, LATENCY, IOPS = "#3c7d3c", "#4a5d73", "#00798c"
BACKGROUND = "#98a2ae"
"""Colour of drives that are shown for comparison only."""
INK, MUTED, GRID, SPINE = "#1c2530", "#66707c", "#e8ebee", "#b6bdc5"


@dataclass(frozen=True)
class Look:
    """How one of many is drawn: ``dashed`` (lines dashed, points hollow) in every other round of the palette."""

    colour: str
    dashed: bool = False


_SHADES = (1.0, 0.6, 1.35, 0.4)
"""Lightness of each round of the palette, as a factor."""


def colour_of(place: int) -> str:
    """The colour of the ``place``-th of many: the palette, then its darker and lighter shades, then hues far from one another. No two
    places below 300 have one colour."""
    round_, at = divmod(place, len(PALETTE))
    red, green, blue = (int(PALETTE[at][i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    if round_ < len(_SHADES):
        light = min(light * _SHADES[round_], 0.78)
    else:
        further = place - len(_SHADES) * len(PALETTE)
        hue, light, saturation = further * _GOLDEN % 1.0, 0.3 + 0.04 * (further % 9), 0.5 + 0.1 * (further % 5)
    if round_ == 0:
        return PALETTE[at]
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, light, saturation))


_GOLDEN = 0.618033988749895


def look(place: int) -> Look:
    """The look of the ``place``-th of many."""
    return Look(colour_of(place), dashed=place // len(PALETTE) % 2 == 1)


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
    """Return the counterpart of ``colour`` on a dark page; a colour without one is lightened until it is readable there."""
    if colour in _ON_DARK or not re.fullmatch("#[0-9a-f]{6}", colour):
        return _ON_DARK.get(colour, colour)
    hue, light, saturation = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    if light >= _LEAST_LIGHT:
        return colour
    lighter = _LEAST_LIGHT + 0.5 * light
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lighter, saturation))


_LEAST_LIGHT = 0.5
