"""A table as data: its content, not its looks. :mod:`.terminal` and :mod:`.html` draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wattbell.measure.figure import Figure
from wattbell.present.colours import Look
from wattbell.text import NOTHING, concise, digits

BREAK = "\u200b"
"""In a text: a place at which a page may break it."""
Tone = Literal["", "muted", "good", "bad", "lost"]


@dataclass(frozen=True)
class TextSpan:
    """Words in one tone. A line break in them is kept."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Cell:
    """A sequence of spans. ``look``: how the row is drawn in the charts, shown as a dot; ``inner``: the row is part of one above."""

    spans: tuple[TextSpan, ...]
    look: Look | None = None
    inner: bool = False

    @property
    def text(self) -> str:
        """The text without tones."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True)
class Column:
    """A ``numeric`` column holds figures, right-aligned and never wrapped; the others hold text, which a terminal wraps unless it is
    ``whole``.

    ``short``: the header in a terminal. ``leaves``: the order in which columns are left out of too narrow a terminal, 1 first; those
    with 0 go last. ``page_only``: not shown in a terminal at all.
    """

    header: str
    unit: str = ""
    numeric: bool = True
    whole: bool = False
    short: str | None = None
    leaves: int = 0
    page_only: bool = False

    @property
    def heading(self) -> str:
        """The header with its unit."""
        return f"{self.header}, {self.unit}" if self.unit else self.header


def text_column(header: str = "", **options: Any) -> Column:
    """A column of text."""
    return Column(header, numeric=False, **options)


@dataclass(frozen=True)
class Table:
    """Rows of cells; a string is a cell of plain text. ``note`` is shown beside the title in a terminal, and below it as a sentence on a
    page, unless there is a ``page_note`` for that."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    note: str = ""
    page_note: str = ""

    @property
    def sentence(self) -> str:
        """The note on the page."""
        return self.page_note or (f"{self.note[0].upper()}{self.note[1:]}." if self.note else "")


def cell(*parts: str | TextSpan | Cell, look: Look | None = None, inner: bool = False) -> Cell:
    """A cell of these parts."""
    spans: list[TextSpan] = []
    for part in parts:
        spans += part.spans if isinstance(part, Cell) else [TextSpan(part) if isinstance(part, str) else part]
    return Cell(tuple(spans), look, inner)


def toned(text: str, tone: Tone) -> Cell:
    """A cell in one tone."""
    return Cell((TextSpan(text, tone),))


def muted(text: str) -> Cell:
    """A cell that only explains, in grey."""
    return toned(text, "muted")


def figure(fig: Figure | None, scale: float = 1.0, unit: str = "") -> Cell:
    """A figure times ``scale``, with its uncertainty in the last digits; ``!`` where something was lost under it."""
    head, paren, tail = concise(fig, scale).partition("(")
    return _figure(fig, [TextSpan(head), TextSpan(paren + tail, "muted")] if paren else [TextSpan(head)], unit)


def rounded(fig: Figure | None, unit: str = "") -> Cell:
    """A figure to four digits; ``!`` where something was lost under it."""
    if fig is None or fig.value is None:
        return cell(NOTHING)
    return _figure(fig, [TextSpan(digits(fig.value, 4))], unit)


def _figure(fig: Figure | None, spans: list[TextSpan], unit: str) -> Cell:
    if fig and fig.lost:
        spans.append(TextSpan("!", "lost"))
    return Cell((*spans, TextSpan(f" {unit}")) if unit else tuple(spans))
