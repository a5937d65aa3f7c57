"""The terminal: consoles, tables, spinners and bars, drawn by Rich. The commands use this module through :mod:`.output`.

Names of drives, tests and files come from anywhere. So nothing printed here is read as markup, and no control character reaches the
terminal. Bold or coloured text is a Rich ``Text`` (:func:`marked` for words of our own).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from ..present.terminal import WholeTable
from ..text import printable

_LOG = logging.getLogger(__name__)


class PlainConsole(Console):
    """A console that shows text unchanged: no markup, no emoji codes, no control characters in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render as Rich does, on :func:`printable` text, because Rich measures its width here."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as Rich does, with :func:`printable` text in every segment."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class _Words(ProgressColumn):
    """The task's text: a plain string, or a Text."""

    def render(self, task: Task) -> Text:
        words = task.fields["words"]
        return words if isinstance(words, Text) else Text(words)


# without a terminal (or COLUMNS) to tell its width: wide enough for every table
out = PlainConsole(width=None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else 160)
err = PlainConsole(stderr=True)


def marked(text: str) -> Text:
    """Our own words with Rich markup; never use it for text that contains data."""
    return Text.from_markup(text)


def say(text: str | Text) -> None:
    """Print a line for the user on stderr."""
    err.print(text, soft_wrap=True)


def table(*columns: str, title: str | None = None, expendable: Sequence[str] = ()) -> WholeTable:
    """Make a table in the common style.

    Columns named ``>...`` hold figures: right-aligned, shown whole or not at all. The first column is never wrapped, since its names are
    there to be copied. ``expendable``: names of columns that are dropped first in a narrow terminal.
    """
    made = WholeTable(
        expendable=expendable, title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for place, column in enumerate(columns):
        right = column.startswith(">")
        made.add_column(column.lstrip(">"), justify="right" if right else "left", no_wrap=right or place == 0)
    return made


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str | Text], None]]:
    """A live line with elapsed time on stderr (nothing when that is no terminal); call the result to change it."""
    _LOG.info("%s", text)
    columns = (SpinnerColumn(), _Words(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=None, words=text)

        def change(new: str | Text) -> None:
            _LOG.info("%s", new)
            progress.update(task, words=new)

        yield change


@contextmanager
def bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr (nothing when that is no terminal); call the result with done and total."""
    _LOG.info("%s", text)
    columns = (_Words(), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=None, words=text)
        yield lambda done, total: progress.update(task, completed=done, total=total)
