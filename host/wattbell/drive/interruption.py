"""Ctrl-C and its kin while a drive's settings are changed: they end a run once, and never keep it from putting things back.

Signals are taken by handlers that do nothing, not blocked: a mask is a thread's own, the kernel gives a blocked signal to any other
thread (numpy and Polars have some), and Python then runs its handler in the main thread all the same. Nor are they ignored with
SIG_IGN, which the programs that put settings back would inherit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAIT = b"The drive's settings are being put back; this ends by itself.\n"


class Gate:
    """Lets one signal through as KeyboardInterrupt, and only while it is open; notes all others in ``seen``.

    It is shut at first, and shuts itself with the signal that it lets through, so that a ``finally`` entered by that signal is not
    left by the next one.
    """

    def __init__(self) -> None:
        self.seen = False
        self._open = False
        self._told = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Within the block a signal raises KeyboardInterrupt; one that came before raises it here."""
        self._open = True
        try:
            self.check()
            yield
        finally:
            self._open = False

    def check(self) -> None:
        """KeyboardInterrupt if a signal was seen: also one whose exception was lost, in a finalizer for example."""
        if self.seen:
            self._open = False
            raise KeyboardInterrupt

    def take(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of the signals."""
        self.seen = True
        if self._open:
            self._open = False
            raise KeyboardInterrupt
        if not self._told:
            self._told = True
            with contextlib.suppress(OSError):  # the terminal may be what has gone
                os.write(2, _WAIT)


@contextmanager
def guarded() -> Iterator[Gate]:
    """SIGINT, SIGTERM and SIGHUP go to a gate within the block. After it KeyboardInterrupt is raised for a signal that was only noted.

    A SIGHUP that is ignored (nohup) stays so. In a thread other than the main one there is nothing to do: Python raises in none of them.
    """
    gate = Gate()
    if threading.current_thread() is not threading.main_thread():
        yield gate
        return
    numbers = [number for number in _NUMBERS if not (number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN)]
    before = {number: signal.signal(number, gate.take) for number in numbers}
    try:
        yield gate
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    gate.check()
