"""Places for the texts at the points of a panel. Page and picture draw the same places.

A place is computed once, in a box of :func:`box_of` units. A text is 8 units high. A picture has 1 unit in a point (1/72 inch), a page in
11/8 pixels. The place is kept as shares of the box. So it holds in every larger box, too: the middles of two texts move apart there, while
their sizes stay. A reader who zooms sees a larger box. In a smaller box, renderers shrink the texts with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from wattbell.present.chart import MANY, Curve, Panel
from wattbell.present.colours import BACKGROUND, MUTED
from wattbell.text import printable

SIZE = 8.0
"""Size of the texts' font."""
_HIGH = 10.0
"""Height of a text with its ascenders and descenders."""
_GAP = 1.0
"""Room around each text and each marker."""
_WIDTH = 300.0
"""Width of the box."""
PX = 11.0 / 8.0
"""Pixels of a page in a unit."""
_AXES_PX = 60.0
"""Height of a panel on a page that its axes take."""
_STEPS = (7.0, 12.0, 18.0, 26.0, 36.0, 48.0, 62.0, 78.0, 96.0, 118.0)
"""Distances of a text from its point that are tried, nearest first."""
_TURNS = 24
"""Directions that are tried at each distance."""
_AWAY = 0.35
"""Cost of each unit of distance."""
_LINE = 10.0
"""Cost of each line that a text lies on."""
LED = 12.0
"""A text that is this far or further from its point has a thin line to the point."""
_LEVELS = (1, 2, 4, 8, 16)
"""Magnifications of the box in which texts without room in the box itself are tried."""
_FIRST = {"top": math.pi / 2, "bottom": -math.pi / 2, "right": 0.0, "left": math.pi}
"""Directions in which the text of a point may be wanted (:attr:`.Curve.beside`)."""
Spot = tuple[float, float]


class LabelBox(NamedTuple):
    """A rectangle: left, bottom, right, top, in one unit of length."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: LabelBox) -> bool:
        """Whether the two have area in common."""
        return self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top

    def holds(self, other: LabelBox) -> bool:
        """Whether ``other`` lies within."""
        return self.left <= other.left and other.right <= self.right and self.bottom <= other.bottom and other.top <= self.top

    def crossed(self, a: Spot, b: Spot) -> bool:
        """Whether the line from ``a`` to ``b`` has a part in here (Liang and Barsky)."""
        low, high = 0.0, 1.0
        dx, dy = b[0] - a[0], b[1] - a[1]
        for slope, room in ((-dx, a[0] - self.left), (dx, self.right - a[0]), (-dy, a[1] - self.bottom), (dy, self.top - a[1])):
            if slope == 0:
                if room < 0:
                    return False
            elif slope < 0:
                low = max(low, room / slope)
            else:
                high = min(high, room / slope)
        return low < high

    @property
    def middle(self) -> Spot:
        """Centre of the box."""
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


class WantedLabel(NamedTuple):
    """A text of ``width`` x ``height`` that belongs to the point at ``x``, ``y``. ``first``: the direction to be preferred, in radians."""

    x: float
    y: float
    width: float
    height: float
    first: float


class PlacedLabel(NamedTuple):
    """A text at point ``point`` of line ``line`` of a panel.

    ``x``, ``y``: its middle as shares of the axes, from the left and from the bottom. ``width``: in units.
    ``level``: how far the box must be magnified before the text has room. 1: it always has; None: it never has.
    """

    line: int
    point: int
    text: str
    x: float
    y: float
    width: float
    level: int | None

    def box(self, width: float, height: float, gap: float = 0.0) -> LabelBox:
        """Return the box of the text in axes of ``width`` x ``height`` units, with ``gap`` around it."""
        half, high = self.width / 2 + gap, _HIGH / 2 + gap
        x, y = self.x * width, self.y * height
        return LabelBox(x - half, y - high, x + half, y + high)

    def lead(self, panel: Panel, width: float, height: float) -> tuple[Spot, Spot]:
        """The way from its point towards its middle, up to the edge of the text, in axes of ``width`` x ``height`` units."""
        x, y = _spot(panel, panel.lines[self.line], self.point)
        box = self.box(width, height)
        (ax, ay), (bx, by) = (x * width, y * height), box.middle
        inside = min((box.right - bx) / max(abs(ax - bx), 1e-9), (box.top - by) / max(abs(ay - by), 1e-9), 1.0)
        return (ax, ay), (bx + inside * (ax - bx), by + inside * (ay - by))


def _candidates(text: WantedLabel) -> Iterator[tuple[float, LabelBox]]:
    """Boxes around the point, each with its cost."""
    for step in _STEPS:
        for k in range(_TURNS):
            turn = (k + 1) // 2 * (1 if k % 2 else -1) * math.tau / _TURNS  # the preferred direction, then those beside it
            c, s = math.cos(text.first + turn), math.sin(text.first + turn)
            # the box touches a circle of radius `step` from outside, with the edge or the corner that faces the point
            left = text.x + step * c - text.width * (1 - c) / 2
            bottom = text.y + step * s - text.height * (1 - s) / 2
            yield _AWAY * (step - _STEPS[0]) + 0.3 * abs(turn), LabelBox(left, bottom, left + text.width, bottom + text.height)


def place(
    texts: Sequence[WantedLabel],
    points: Sequence[LabelBox],
    lines: Sequence[tuple[Spot, Spot]],
    room: LabelBox,
    before: Sequence[tuple[Spot, LabelBox]] = (),
) -> list[LabelBox | None]:
    """A place for each text, those first in ``texts`` served first; None if there is no room left.

    No place meets another, one of ``points`` (the markers) or the edge of ``room``. ``lines`` are avoided where that costs little. The way
    from a text's middle to its point crosses no other text. ``before``: points and places of texts that are there already.
    """
    taken = [box for _, box in before]
    leads = [(spot, box.middle) for spot, box in before]
    out: list[LabelBox | None] = []
    for text in texts:
        reach = _STEPS[-1] + text.width + text.height
        around = LabelBox(text.x - reach, text.y - reach, text.x + reach, text.y + reach)
        near = [point for point in points if around.meets(point)]
        others = [box for box in taken if around.meets(box)]
        ways = [lead for lead in leads if around.crossed(*lead)]
        drawn = [line for line in lines if around.crossed(*line)]
        best: tuple[float, LabelBox] | None = None
        for cost, box in _candidates(text):
            if best is not None and cost >= best[0]:
                continue
            if not room.holds(box) or any(map(box.meets, others)) or any(map(box.meets, near)):
                continue
            own = (text.x, text.y), box.middle
            if any(box.crossed(*lead) for lead in ways) or any(other.crossed(*own) for other in others):
                continue
            cost += _LINE * sum(box.crossed(*line) for line in drawn)
            if best is None or cost < best[0]:
                best = cost, box
        out.append(best and best[1])
        if best is not None:
            taken.append(best[1])
            leads.append(((text.x, text.y), best[1].middle))
    return out


def box_of(height_px: int) -> tuple[float, float]:
    """Width and height of the box in which the texts of a panel are placed, in units. ``height_px``: of the panel on a page."""
    return _WIDTH, (height_px - _AXES_PX) / PX


def fit(width: float, height: float, height_px: int) -> float:
    """The factor, at most 1, by which texts and markers shrink on axes of ``width`` x ``height`` units."""
    wide, high = box_of(height_px)
    return min(1.0, width / wide, height / high)


@cache
def _font() -> Any:
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    font = FT2Font(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf")
    font.set_size(100 * SIZE, 72)
    return font


@cache
def width_of(text: str) -> float:
    """Return the width of ``text`` in the font of the pictures. A page's font is narrower, or is condensed to this width."""
    font = _font()
    font.set_text(printable(text), 0.0)
    return float(font.get_width_height()[0]) / 64 / 100 + 1.0


def radius(line: Curve) -> float:
    """Radius of a line's markers."""
    return 1.0 if len(line.x) > MANY else 3.0 if len(line.x) == 1 else 2.2


def ink(line: Curve) -> str:
    """Colour of the texts at a line's points."""
    return MUTED if line.colour == BACKGROUND else line.colour


def _spot(panel: Panel, line: Curve, index: int) -> Spot:
    """A point of a line as shares of the axes."""
    return _share(line.x[index], panel.x_span, panel.x.log), _share(line.y[index], panel.y_span, panel.y.log)


def _share(value: float, span: Sequence[float], log: bool) -> float:
    low, high = span
    if log:
        return math.log(value / low) / math.log(high / low) if value > 0 else -math.inf
    return (value - low) / (high - low)


def of_panel(panel: Panel, height_px: int) -> list[PlacedLabel]:
    """Return the texts at the points of a panel. The curve drawn last is the subject of a page, and its texts are placed first."""
    if all(line.texts is None for line in panel.lines):
        return []
    wide, high = box_of(height_px)
    xs, ys = panel.x_span, panel.y_span
    spots = [
        [(_share(x, xs, panel.x.log), _share(y, ys, panel.y.log)) for x, y in zip(line.x, line.y, strict=True)] for line in panel.lines
    ]
    asked: list[tuple[PlacedLabel, float]] = []
    for i, line in enumerate(panel.lines):
        for k, text in enumerate(line.texts or ()):
            x, y = spots[i][k]
            if text and 0 <= x <= 1 and 0 <= y <= 1:
                label = PlacedLabel(i, k, text, x, y, width_of(text), None)
                asked.append((label, _FIRST.get(line.beside, 3 * math.pi / 4 if x > 0.5 else math.pi / 4)))
    asked.reverse()
    done: dict[int, PlacedLabel] = {}
    for level in _LEVELS:
        waiting = [i for i in range(len(asked)) if i not in done]
        if not waiting:
            break
        w, h = level * wide, level * high

        points, lines = [], []
        for line, its in zip(panel.lines, spots, strict=True):
            ends = [(x * w, y * h) for x, y in its if math.isfinite(x) and math.isfinite(y)]
            half = radius(line) + _GAP
            if line.mode != "lines":
                points += [LabelBox(x - half, y - half, x + half, y + half) for x, y in ends]
            if line.mode != "markers":
                lines += list(zip(ends, ends[1:]))
        wanted, before = [], []
        for i, (label, first) in enumerate(asked):
            x, y = spots[label.line][label.point]
            if i in done:
                before.append(((x * w, y * h), done[i].box(w, h, _GAP)))
            else:
                wanted.append(WantedLabel(x * w, y * h, label.width + 2 * _GAP, _HIGH + 2 * _GAP, first))
        for i, box in zip(waiting, place(wanted, points, lines, LabelBox(0, 0, w, h), before), strict=True):
            if box is not None:
                x, y = box.middle
                done[i] = asked[i][0]._replace(x=x / w, y=y / h, level=level)
    return [done.get(i, label) for i, (label, _) in enumerate(asked)]


def unplaced(found: Sequence[PlacedLabel]) -> str:
    """How many texts have no room, in words. Empty where all have."""
    missing = sum(label.level != 1 for label in found)
    return f"no room for {missing} name{'s' if missing > 1 else ''}" if missing else ""
