"""What every command prints with: figures to stdout, progress and notes to stderr."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

# wide enough for every table where there is no terminal to tell its width
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def say(text: str) -> None:
    """A line for the reader, on stderr."""
    err.print(text, soft_wrap=True)


def hear_ctrl_c() -> None:
    """Before a question: Polars takes SIGINT up so that system calls go on behind it, and Ctrl-C would wait for Enter."""
    signal.siginterrupt(signal.SIGINT, True)


def table(*columns: str, title: str | None = None) -> Table:
    """A Rich table in the style of the house; columns that begin with ``>`` are right-aligned."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.lstrip(">"), justify="right" if right else "left")
    return made


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """A live line with elapsed time on stderr (nothing when that is no terminal); call the result to change it."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(text, total=None)
        yield lambda new: progress.update(task, description=new)


@contextmanager
def bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr (nothing when that is no terminal); call the result with done and total."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(text, total=None)
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
