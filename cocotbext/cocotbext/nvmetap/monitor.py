"""The cocotb side of the monitor: commands, as a coroutine waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from .command import Command
from .tlp import Direction

TlpSink = Callable[[int, Direction, bytes], None]
"""Receives ``(time_ps, direction, bytes of the TLP)``."""


class TlpSource(Protocol):
    """Anything that shows TLPs of both directions: it calls the sink for each, in the order of time."""

    def subscribe(self, sink: TlpSink) -> None:
        """Call ``sink`` for each TLP from now on."""


class Monitor:
    """Passive NVMe monitor: ``command = await monitor.command()``."""

    def __init__(self, source: TlpSource) -> None:
        """Subscribe to ``source``."""
        raise NotImplementedError

    async def command(self) -> Command:
        """Wait for the next finished command."""
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[Command]:
        """Yield finished commands for ever."""
        raise NotImplementedError
