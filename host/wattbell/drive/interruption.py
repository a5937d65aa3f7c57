"""Ctrl-C and its kin while a drive's settings are changed: they end a run once, and never keep it from restoring settings.

Signals are taken by handlers that do nothing, not blocked. A mask is a thread's own: the kernel gives a blocked signal to any other thread
(numpy and Polars have some), and Python still runs its handler in the main thread. The signals are not ignored with SIG_IGN either, which
the programs that restore settings would inherit.
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
    """Lets one signal through as KeyboardInterrupt, and only while open; notes all others in ``seen``.

    The gate is shut at first, and shuts itself with the signal that it lets through. So the next signal does not end a ``finally`` entered
    by that signal.
    """

    def __init__(self) -> None:
        self.seen = False
        self._open = False
        self._told = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let a signal raise KeyboardInterrupt within the block; one that came before raises it here."""
        self._open = True
        try:
            self.check()
            yield
        finally:
            self._open = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal was seen, even if its exception was lost, in a finalizer for example."""
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
            with contextlib.suppress(OSError):  # the terminal itself may be gone
                os.write(2, _WAIT)


@contextmanager
def guarded() -> Iterator[Gate]:
    """Send SIGINT, SIGTERM and SIGHUP to a gate within the block. Then raise KeyboardInterrupt for a signal that was only noted.

    An ignored SIGHUP (nohup) stays ignored. Outside the main thread nothing is done, since Python raises only in the main thread.
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
