"""Errors while writing ``rail.jls``: the library writes in a thread of its own and merely logs an error."""

from __future__ import annotations

import logging
import re
import threading

_LOGGER = "pyjls.c"
_BY_ITS_THREAD = re.compile(r"thread msg .* returned ")


class _Handler(logging.Handler):
    """Counts the library's messages about failed writes and prints none, since there may be thousands."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.by_its_threads = 0
        self.by_caller: dict[int, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if _BY_ITS_THREAD.match(record.getMessage()):
            self.by_its_threads += 1
        elif record.levelno >= logging.ERROR and record.thread is not None:
            self.by_caller[record.thread] = self.by_caller.get(record.thread, 0) + 1


_handler = _Handler()
_logger = logging.getLogger(_LOGGER)
_logger.addHandler(_handler)
_logger.propagate = False


class Watch:
    """Sees errors of the library's writers that occur after it was made."""

    def __init__(self) -> None:
        self._by_its_threads, self._by_caller = _handler.by_its_threads, dict(_handler.by_caller)

    def excuse(self) -> None:
        """Forget the errors of calls from this thread so far: the call that failed is made again."""
        me = threading.get_ident()
        self._by_caller[me] = _handler.by_caller.get(me, 0)

    def seen_in_threads(self) -> bool:
        """Whether a write failed in a writer's thread."""
        return _handler.by_its_threads != self._by_its_threads

    def seen(self) -> bool:
        """Whether a write failed, in a writer's thread or in a call from this thread."""
        me = threading.get_ident()
        return self.seen_in_threads() or _handler.by_caller.get(me, 0) != self._by_caller.get(me, 0)
