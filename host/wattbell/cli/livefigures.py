"""Show a recording in progress: the present figures in a few lines on a terminal, and a log with a line a period."""

from __future__ import annotations

import csv
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..errors import UsageError, WattbellError
from ..present.terminal import DIM
from ..text import NOTHING, count, digits, si
from . import console

if TYPE_CHECKING:
    from ..capture import CaptureWriter
    from ..capture.live import Latest, LiveReader
    from ..capture.record import Progress
    from ..capture.statistics import PeriodStatistics

_REFRESH = 4
_INDENT, _GAP = 2, 3
_BAR = 30
_PATIENCE_S = 5.0
_LOOK_S = 1.0


class Figures:
    """The figures of a moment: groups of fields, each from a new line on, as many a line as fit; none is ever broken."""

    def __init__(self, latest: Latest) -> None:
        self.latest = latest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for group in fields_of(self.latest):
            line = Text()
            for field in group:
                if line and cell_len(line.plain) + _GAP + cell_len(field.plain) > options.max_width:
                    yield line
                    line = Text()
                line.append(" " * (_GAP if line else _INDENT))
                line.append_text(field)
            yield line


def _field(value: str, name: str = "", width: int = 0, style: str = "") -> Text:
    """A value with its name before it; `width`: of the value, so that it does not dance."""
    text = Text(f"{name} ", style=DIM) if name else Text()
    return text.append(value.rjust(width), style=style)


def _unit(value: float | None, unit: str) -> str:
    return NOTHING if value is None else f"{digits(value, 4)} {unit}"


def fields_of(latest: Latest) -> list[list[Text]]:
    """Return the figures of a moment: of the load, of the rail, sums and losses."""
    load, rail, sums = [], [], []
    if latest.samples:
        rail = [_field(_unit(value, unit), width=9) for value, unit in ((latest.w, "W"), (latest.a, "A"), (latest.v, "V"))]
        rail.append(_field(si(latest.energy_j, "J"), "energy", 8))
        sums.append(_field(count(latest.samples), "samples"))
    if latest.commands:
        load = [
            _field(_unit(latest.read_mb_per_s, "MB/s"), "read", 10),
            _field(_unit(latest.write_mb_per_s, "MB/s"), "write", 10),
            _field(count(round(latest.iops)), "IOPS", 7),
            _field(digits(latest.depth, 3), "QD", 5),
            _field(NOTHING if latest.p99_s is None else si(latest.p99_s, "s", 3), "p99", 7),
        ]
        sums.append(_field(count(latest.commands), "commands"))
    if latest.missing_s > 0:
        sums.append(_field(si(latest.missing_s, "s"), "rail missing", style="yellow"))
    sums.append(_field("lost: " + ", ".join(latest.lost), style="bold red") if latest.lost else _field("nothing lost", style=DIM))
    return [group for group in (rail, load, sums) if group]


def clock(seconds: float) -> str:
    """``0:42``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Shown:
    """The lines, made anew whenever the terminal is drawn."""

    def __init__(self) -> None:
        self.state: Progress | None = None
        self._spinner = Spinner("dots")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        state = self.state
        head = Table.grid(padding=(0, 1))
        if state is None:
            head.add_row(self._spinner, "recording")
            yield head
            return
        word = Text("unplugged", style="yellow") if state.waiting else Text("recording")
        row: list[RenderableType] = [self._spinner, word, Text(clock(state.seconds))]
        latest = state.latest
        left_s = None if latest is None else latest.left_s
        if left_s is not None:
            row += [
                ProgressBar(total=max(state.seconds + left_s, 1e-9), completed=state.seconds, width=_BAR),
                Text(f"{clock(left_s)} left"),
            ]
        head.add_row(*row)
        yield head
        if latest is not None:
            yield Figures(latest)


@contextmanager
def recording(serial: str) -> Iterator[Callable[[Progress], None]]:
    """Live lines about the recording of a rig on stderr (nothing when that is no terminal); call the result with how far it is."""
    shown, told = _Shown(), False

    def show(state: Progress) -> None:
        nonlocal told
        shown.state = state
        if state.waiting and not told:
            console.say(f"Rig {serial} is gone; waiting for it to come back (Ctrl-C stops).")
        if told and not state.waiting:
            console.say("Rig is back; the recording goes on. What was missed is a gap in the capture.")
        told = state.waiting

    if not console.err.is_terminal or _following:
        yield show
        return
    with Live(shown, console=console.err, refresh_per_second=_REFRESH, transient=True):
        yield show


_following: list[Path] = []
"""Folders of recordings that are shown already."""


@contextmanager
def following(head: RenderableType, folder: Path) -> Iterator[None]:
    """Show ``head`` on stderr, which is a terminal, and below it the figures of recordings in a folder or below it."""
    _following.append(folder)
    try:
        with Live(Group(head, Looking(folder)), console=console.err, refresh_per_second=_REFRESH // 2, transient=True):
            yield
    finally:
        _following.pop()


class Looking:
    """The figures of whatever capture is being recorded in a folder or below it, as another process would see them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader: LiveReader | None = None
        self._next = 0.0

    def _latest(self) -> Latest | None:
        from ..capture.live import NAME, LiveReader

        if self._reader is not None and not self._reader.recording:
            self._reader.close()
            self._reader = None
        if self._reader is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOOK_S
            found = next((path for depth in ("", "*/", "*/*/") for path in self._folder.glob(depth + NAME)), None)
            self._reader = None if found is None else LiveReader(found.parent)
        return None if self._reader is None else self._reader.latest()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            latest = self._latest()
        except (OSError, WattbellError):  # it ended meanwhile
            return
        if latest is not None:
            yield Figures(latest)


# -- the log ---------------------------------------------------------------------------------------------------------------


class _Log:
    """Lines in a file as they come, each whole. They are written by a thread: a pager that stands still does not hold up the recording."""

    def __init__(self, file: TextIO, as_json: bool, columns: tuple[str, ...]) -> None:
        self._file, self._json, self._columns = file, as_json, columns
        self._csv = csv.writer(file, lineterminator="\n")
        self._lines: queue.SimpleQueue[PeriodStatistics | None] = queue.SimpleQueue()
        self.error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="statistics", daemon=True)
        self._thread.start()

    def write(self, line: PeriodStatistics) -> None:
        """Put a line into the log."""
        self._lines.put(line)

    def close(self) -> None:
        """Wait until all lines are written, unless nobody reads them."""
        self._lines.put(None)
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            if not self._json:
                self._csv.writerow(self._columns)
                self._file.flush()
            while (line := self._lines.get()) is not None:
                self._put(line)
        except OSError as error:  # the recording goes on without
            self.error = error

    def _put(self, line: PeriodStatistics) -> None:
        values = asdict(line)
        if self._json:
            self._file.write(json.dumps({name: _rounded(value) for name, value in values.items()}) + "\n")
        else:
            self._csv.writerow("" if value is None else f"{value:.9g}" if isinstance(value, float) else value for value in values.values())
        self._file.flush()


def _rounded(value: object) -> object:
    return float(f"{value:.9g}") if isinstance(value, float) else value


@contextmanager
def statistics(period_s: float | None, file: Path | None) -> Iterator[Callable[[CaptureWriter], None]]:
    """Log a recording in progress, with a line every `period_s` (None: no log).

    The file gets JSON lines if its name ends in ``.jsonl`` or ``.json``, else CSV with a header. Without a file, stdout gets CSV. Call the
    result with the writer, before its first data; close the capture before this ends.
    """
    if period_s is None:
        yield lambda _writer: None
        return
    from ..capture.statistics import COLUMNS, StatisticsWriter

    stream = sys.stdout
    if file is not None:
        try:
            stream = open(file, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"--statistics-out {file} cannot be written ({error.strerror}); choose another place.") from None
    log = _Log(stream, file is not None and file.suffix in (".json", ".jsonl"), COLUMNS)

    def attach(writer: CaptureWriter) -> None:
        StatisticsWriter(writer.begin_live(), period_s, log.write).utc_of = writer.utc_of

    try:
        yield attach
    finally:
        log.close()
        if log.error is not None:
            console.say(f"The statistics are not whole: they could not be written ({log.error.strerror}). The recording is.")
        with suppress(OSError):
            if file is not None:
                stream.close()
            elif log.error is not None:  # the rest in its buffer would fail again
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
