"""Tables and lines in a terminal of any width. No figure is ever truncated: part of a number reads like another number."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from wattbell.present import table as data
from wattbell.text import printable

DIM = "grey58"
STYLES: dict[data.Tone, str] = {"": "", "muted": DIM, "good": "green", "bad": "bold red", "lost": "yellow"}
_NAME = 60
"""Characters of a name in the first column that are shown at most; names come from anywhere."""
TEXT_WIDTH = 14
"""Columns of text are wrapped to this width before a figure is left out."""
_WORD = 24
"""A word up to this length is not broken."""
_FIRST = 1 / 3
"""Share of the terminal for the first column, which identifies the rows and is not wrapped within this share, so that a row is one line."""
WIDEST = 10_000
"""Width of a terminal in which nothing is left out."""
_UNIT = re.compile(r"([kMGmµn]?(W|s|J|B|A|V|Hz|B/s)|%)[,.;:)]?")
_ENDS_NUMBER = tuple("0123456789)")


class WholeTable(Table):
    """A table that leaves out columns if the terminal is too narrow, names them, and says where to see them.

    Columns that may not wrap (``no_wrap``) are shown whole or not at all, the others wrap. ``expendable``: names of columns in the order in
    which they go. Then the last goes first, figures before text. The first column always stays, and wraps if it alone is too wide.
    """

    def __init__(self, *arguments: Any, expendable: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.expendable = tuple(expendable)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        order = [c for name in self.expendable for c in self.columns[1:] if str(c.header) == name]
        rest = [c for c in reversed(self.columns[1:]) if not any(c is other for other in order)]
        order += sorted(rest, key=lambda column: not column.no_wrap)
        kept, gone = list(self.columns), []
        room = options.max_width
        while order and self._width(console, options, kept, room) > room:
            gone.append(order.pop(0))
            kept = [c for c in kept if c is not gone[-1]]
        spare = max(0, room - self._width(console, options, kept, room))
        yield from Table.__rich_console__(self._of(kept, room, spare), console, options)
        if gone:
            names = ", ".join(str(c.header) for c in self.columns if any(c is other for other in gone))
            needed = room
            while (wider := self._width(console, options, self.columns, needed)) > needed:
                needed = wider
            shows = f"a terminal {needed + console.width - room} columns wide shows all, and so do --wide and --json"
            yield WholeText(Text(f"left out: {names} ({shows})", style="italic"))

    def _of(self, columns: Sequence[Column], room: int, spare: int = 0) -> WholeTable:
        """Return the table with these columns in so much room, each as narrow as possible; columns that wrap share the spare room.

        All widths are given, since Rich would make some narrower than their least width, and cut the last column for it.
        """
        made = copy.copy(self)
        made.columns = []
        for index, column in enumerate(columns):
            texts = [printable(str(cell)) for cell in (column.header, *column.cells)]  # a control character takes room there
            natural = max((cell_len(line) for text in texts for line in text.splitlines()), default=0)
            word = max((cell_len(word) for text in texts for word in text.split()), default=0)
            text = max(TEXT_WIDTH, int(room * _FIRST) if index == 0 else min(word, _WORD))
            width = natural if column.no_wrap else min(natural, text)
            whole = column.no_wrap and (index > 0 or natural < room)
            width = width if whole else min(width, max(room - 2, 1))
            more = 0 if whole else min(spare, natural - width)
            spare -= more
            width += more
            made.columns.append(replace(column, _index=index, min_width=width, max_width=width, no_wrap=whole, overflow="fold"))
        return made

    def _width(self, console: Console, options: ConsoleOptions, columns: Sequence[Column], room: int) -> int:
        wide = options.update_width(1 << 16)
        return Measurement.get(console, wide, self._of(columns, room)).maximum


class WholeText:
    """A text that is wrapped at spaces only, and not between a number and its unit. (Rich also breaks at the narrow no-break spaces
    that set thousands apart.)"""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        breaks, start, last = [], 0, 0
        plain = self.text.plain
        for match in re.finditer(" +", plain):
            word = plain[match.end() :].partition(" ")[0]
            if plain[: match.start()][-1:] in _ENDS_NUMBER and _UNIT.fullmatch(word):
                continue
            if cell_len(plain[start : match.start()]) > options.max_width and last > start:
                breaks.append(last)
                start = last
            last = match.end()
        if cell_len(plain[start:]) > options.max_width and last > start:
            breaks.append(last)
        for line in self.text.divide(breaks):
            line.rstrip()
            line.overflow = "fold"
            yield line


def words(cell: data.Cell | str) -> Text:
    """A cell as text in colours."""
    if isinstance(cell, str):
        return Text(cell)
    text = Text("  " if cell.inner else "")
    for span in cell.spans:
        text.append(span.text.replace(data.BREAK, ""), style=STYLES[span.tone])
    return text


def _short(name: Text) -> Text:
    """Return a name of any length, with an ellipsis in place of whole words or numbers."""
    if cell_len(name.plain) <= _NAME:
        return name
    name.truncate(_NAME - 1)
    while name.plain and name.plain[-1].isdigit():
        name.right_crop(1)
    return name.append("…")


def drawn(table: data.Table) -> RenderableType:
    """A table below its heading (a title of Rich's would wrap at the table's width)."""
    heading = Text(table.title, style="bold")
    if table.note:
        heading.append(f"  {table.note}", style=DIM)
    shown = [i for i, column in enumerate(table.columns) if not column.page_only]
    names = {i: table.columns[i].heading if (short := table.columns[i].short) is None else short for i in shown}
    made = WholeTable(
        expendable=[names[i] for i in sorted(shown, key=lambda i: table.columns[i].leaves) if table.columns[i].leaves],
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
        header_style=f"not bold {DIM}",
    )
    for i in shown:
        numeric = table.columns[i].numeric
        made.add_column(names[i], justify="right" if numeric else "left", no_wrap=numeric or table.columns[i].whole)
    for row in table.rows:
        first, *rest = (words(row[i]) for i in shown)
        made.add_row(_short(first), *rest)
    return Group(Text(), WholeText(heading), made) if table.title else made
