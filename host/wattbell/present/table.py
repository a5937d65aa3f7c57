"""A table as data: what it says, not how it looks. :mod:`.terminal` and :mod:`.html` draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wattbell.analysis.text import NOTHING, concise, digits
from wattbell.present.colours import Look

BREAK = "\u200b"
"""In a text: a place at which a page may break it."""
Tone = Literal["", "muted", "good", "bad", "lost"]


@dataclass(frozen=True)
class Span:
    """Words in one tone. A line break in them is kept."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Cell:
    """Spans that follow each other. ``look``: the row's dot in the charts beside the table; ``inner``: a part of a row above."""

    spans: tuple[Span, ...]
    look: Look | None = None
    inner: bool = False

    @property
    def text(self) -> str:
        """What it says, without tones."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True)
class Column:
    """``numeric``: figures, set right and never broken; others are text, which a terminal wraps unless it is ``whole``.

    ``short``: the header in a terminal. ``leaves``: the place in which a terminal that is too narrow leaves the column out, 1 first; 0:
    after those that have one. ``page_only``: never in a terminal.
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
    """Rows of cells; a string is a cell of plain text. ``note`` stands beside the title in a terminal and as a sentence below it on the
    page, where ``page_note`` takes its place if there is one."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    note: str = ""
    page_note: str = ""

    @property
    def sentence(self) -> str:
        """The note on the page."""
        return self.page_note or (f"{self.note[0].upper()}{self.note[1:]}." if self.note else "")


def cell(*parts: str | Span | Cell, look: Look | None = None, inner: bool = False) -> Cell:
    """A cell of these parts."""
    spans: list[Span] = []
    for part in parts:
        spans += part.spans if isinstance(part, Cell) else [Span(part) if isinstance(part, str) else part]
    return Cell(tuple(spans), look, inner)


def toned(text: str, tone: Tone) -> Cell:
    """A cell in one tone."""
    return Cell((Span(text, tone),))


def muted(text: str) -> Cell:
    """What only explains: in grey."""
    return toned(text, "muted")


def figure(fig: Mapping[str, Any] | None, scale: float = 1.0, unit: str = "") -> Cell:
    """A figure times ``scale``, with its uncertainty in the last digits; ``!`` where something was lost under it."""
    head, paren, tail = concise(fig, scale).partition("(")
    return _figure(fig, [Span(head), Span(paren + tail, "muted")] if paren else [Span(head)], unit)


def rounded(fig: Mapping[str, Any] | None, unit: str = "") -> Cell:
    """A figure to four digits; ``!`` where something was lost under it."""
    if fig is None or fig.get("value") is None:
        return cell(NOTHING)
    return _figure(fig, [Span(digits(float(fig["value"]), 4))], unit)


def _figure(fig: Mapping[str, Any] | None, spans: list[Span], unit: str) -> Cell:
    if fig and fig.get("lost"):
        spans.append(Span("!", "lost"))
    return Cell((*spans, Span(f" {unit}")) if unit else tuple(spans))
