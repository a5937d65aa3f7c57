"""What every command prints with: figures to stdout, progress and notes to stderr.

Names of drives, tests and files come from anywhere, so nothing printed here is read as markup, and no control character reaches the
terminal. What is to be bold or in colour is a Rich ``Text`` (:func:`marked` for words of our own).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from ..analysis.text import printable
from ..present.terminal import WIDEST, WholeTable

if TYPE_CHECKING:
    from ..capture.record import Progress as Recorded


_LOG = logging.getLogger(__name__)


class PlainConsole(Console):
    """A console that shows text as it stands: no markup, no emoji codes, no control characters in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """As Rich does, on :func:`printable` text, because Rich measures its width here."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Rich does, with :func:`printable` text in every segment."""
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


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def _widen(wide: bool) -> bool:
    if wide:
        out.width = WIDEST
    return wide


Wide = Annotated[bool, typer.Option("--wide", callback=_widen, help="Leave no column out, however narrow the terminal is.")]
"""An option of every command that prints tables."""


def say(text: str | Text) -> None:
    """Print a line for the user on stderr."""
    err.print(text, soft_wrap=True)


def hear_ctrl_c() -> None:
    """Call this before a prompt: Polars installs a SIGINT handler that restarts system calls, so Ctrl-C would wait for Enter."""
    signal.siginterrupt(signal.SIGINT, True)


def table(*columns: str, title: str | None = None, expendable: Sequence[str] = ()) -> WholeTable:
    """A table in the common style. Columns whose name begins with ``>`` hold figures: right-aligned, shown whole or not at all. The first
    column is never wrapped either: its names are there to be copied. ``expendable``: names of columns that go first where there is little
    room."""
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


def recording(serial: str) -> AbstractContextManager[Callable[[Recorded], None]]:
    """Live figures of the recording of a rig; call the result with how far it is."""
    from .livefigures import recording as shown

    return shown(serial)


@contextmanager
def bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr (nothing when that is no terminal); call the result with done and total."""
    _LOG.info("%s", text)
    columns = (_Words(), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=None, words=text)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def si(value: float, unit: str, digits: int = 3) -> str:
    """A value with an SI prefix: ``si(0.0012, 'W')`` is ``1.20 mW``."""
    if value == 0 or value != value:
        return f"{value:g} {unit}"
    steps = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
    factor, prefix = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    scaled = value / factor
    places = max(0, digits - len(str(int(abs(scaled)))))
    return f"{scaled:.{places}f} {prefix}{unit}"
