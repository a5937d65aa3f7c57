"""The host's log of commands while a session runs: on disk as it comes, and on the capture's clock at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..capture import CaptureWriter
from ..capture.hostcommands import HostCommands
from ..capture.loadpattern import Pattern, to_json
from ..capture.logbook import Logbook
from ..capture.marking import Marking
from ..clocks.host import host_ns
from ..clocks.markers import SentMarker
from ..errors import WattbellError
from ..hostlog.log import CommandLog
from ..jsondata import JsonObject
from ..meters.meter import ClockPair

_PERIOD_S = 0.5
"""Period in s of writing the log to its journal; a killed session loses at most this much."""


@dataclass(frozen=True)
class Besides:
    """All data so far that is journalled beside the commands, so that they can be placed without the session.

    pairs, late_ns: of a meter's clock
    patterns: of load
    workload: of ``meta.json``
    """

    pairs: Sequence[ClockPair] = ()
    late_ns: int | None = None
    patterns: Sequence[Pattern] = ()
    workload: Mapping[str, Any] | None = None


class LogKeeper:
    """Puts the parts of a log into the journal of a capture (:mod:`..capture.logbook`), from :meth:`begin` until :meth:`end`.

    tap: whether the capture has the commands of a tap
    """

    def __init__(self, log: CommandLog, writer: CaptureWriter, marking: Marking, tap: bool) -> None:
        self.log = log
        self.error: WattbellError | None = None
        self.book = Logbook(writer.path, log.source, marking, tap)
        self.besides: Callable[[], Besides] = Besides
        """Asked once a period."""
        self._writer = writer
        self._sent: list[SentMarker] = []
        self._known = (0, 0, 0)
        """Pairs, patterns and markers that are in the journal."""
        self._added_ns = 0
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)
        self._ended = False

    def begin(self) -> None:
        """Start the log. Raises DriveError if it cannot start, CaptureError if the disk refuses its journal."""
        self._writer.command_journal = self.book.begin()
        begun_ns = host_ns()
        self.log.start()
        self._add(HostCommands(self.book.nothing(), source=self.log.source, until_ns=begun_ns))
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_PERIOD_S) and self.error is None:
            self.poll()

    def poll(self) -> None:
        """Take the new part of the log."""
        with self._guard:
            if self._ended or self.error is not None:
                return
            try:
                self._add(self.log.take())
            except WattbellError as error:
                self.error = error

    def check(self) -> None:
        """Raise the error that ended the log, if any."""
        if self.error is not None:
            raise self.error

    def _add(self, part: HostCommands) -> None:
        besides, sent = self.besides(), list(self._sent)
        pairs, patterns, markers = len(besides.pairs), len(besides.patterns), len(sent)
        told: JsonObject = {
            "about": {**self.log.about},
            "sent": [[marker.value, marker.before_ns, marker.after_ns] for marker in sent[self._known[2] :]],
            "pairs": [[pair.before_ns, pair.after_ns, pair.tick] for pair in besides.pairs[self._known[0] :] if pair.before_ns is not None],
            "patterns": [to_json(pattern) for pattern in besides.patterns[self._known[1] :]],
        }
        if besides.late_ns is not None:
            told["late_ns"] = besides.late_ns
        if besides.workload is not None and besides.workload != self.book.workload:
            told["workload"] = dict(besides.workload)
        new = len(part) or part.lost or part.notes or any(told.get(name) for name in ("sent", "pairs", "patterns", "workload"))
        if not new and host_ns() - self._added_ns < _PERIOD_S * 1e9:  # asked for a marker that is not there yet
            return
        self.book.add(part, told)
        self._known, self._added_ns = (pairs, patterns, markers), host_ns()

    def sent(self, marker: SentMarker) -> None:
        """A marker that was sent."""
        self._sent.append(marker)

    def marked_ns(self, value: int) -> int | None:
        """When a marker was, by the host's clock; None while the log has not shown it."""
        self.poll()
        return self.book.marked_ns(value)

    def end(self) -> None:
        """Stop the log. The error that ended it, if any, is in :attr:`error`."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._guard:
            if self._ended:
                return
            self._ended = True
            try:
                if self._thread.ident is not None:
                    self._add(self.log.stop())
            except WattbellError as error:
                self.error = self.error or error
            finally:
                self.log.__exit__(None, None, None)  # its changes to the system are undone, whatever happened


__all__ = ["Besides", "LogKeeper"]
