"""Ends a command when its terminal is closed, as after Ctrl-C; further output is dropped."""

from __future__ import annotations

import errno
import io
import signal
import sys
from types import FrameType
from typing import Any, TextIO


def prepare() -> None:
    """Treat SIGHUP as SIGINT, unless it is ignored (nohup), and let a terminal that is gone take no more text instead of failing."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hung_up)
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)


def _hung_up(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the kernel and the shell may each send it; a second SIGINT would interrupt the clean end
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


class _Terminal(io.FileIO):
    """A terminal that drops output after it was closed."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(data).nbytes


def _lasting(stream: TextIO) -> TextIO:
    """The same stream; one that a closed terminal does not break if it is a terminal."""
    if stream is None or not stream.isatty():
        return stream
    stream.flush()
    raw = _Terminal(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True)
