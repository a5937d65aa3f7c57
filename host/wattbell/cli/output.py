"""Output of every command: figures to stdout, progress and notes to stderr.

Every command imports this module, but help, completion and a mistake print nothing with it. So :mod:`.console`, where Rich draws, is
imported at the first use of one of its names.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..capture.record import Progress as Recorded
    from .console import PlainConsole as PlainConsole
    from .console import bar as bar
    from .console import err as err
    from .console import marked as marked
    from .console import out as out
    from .console import say as say
    from .console import spinner as spinner
    from .console import table as table

_OF_THE_CONSOLE = ("PlainConsole", "bar", "err", "marked", "out", "say", "spinner", "table")


def __getattr__(name: str) -> Any:  # PEP 562
    if name not in _OF_THE_CONSOLE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import console

    return getattr(console, name)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def hear_ctrl_c() -> None:
    """Call this before a prompt: Polars installs a SIGINT handler that restarts system calls, so Ctrl-C would wait for Enter."""
    signal.siginterrupt(signal.SIGINT, True)


def recording(serial: str) -> AbstractContextManager[Callable[[Recorded], None]]:
    """Live figures of the recording of a rig; call the result with how far it is."""
    from .livefigures import recording as shown

    return shown(serial)


def si(value: float, unit: str, digits: int = 3) -> str:
    """A value with an SI prefix: ``si(0.0012, 'W')`` is ``1.20 mW``."""
    if value == 0 or value != value:
        return f"{value:g} {unit}"
    steps = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
    factor, prefix = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    scaled = value / factor
    places = max(0, digits - len(str(int(abs(scaled)))))
    return f"{scaled:.{places}f} {prefix}{unit}"
