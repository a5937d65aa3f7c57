"""The cocotb side of the monitor: finished commands, as a coroutine waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol

from cocotb.queue import Queue
from cocotb.utils import get_sim_time

from .command import Command
from .observer import LinkObserver
from .power import SupplyRail
from .rules import Checker, Rule
from .tlp import Direction

TlpSink = Callable[[int, Direction, bytes], None]
"""Receives ``(time_ps, direction, bytes of the TLP)``."""


class TlpSource(Protocol):
    """Anything that shows TLPs of both directions: it calls the sink for each, in the order of time."""

    def subscribe(self, sink: TlpSink) -> None:
        """Call ``sink`` for each TLP from now on."""


class Monitor:
    """Passive NVMe monitor: ``command = await monitor.command()``.

    :attr:`observer` is the core, with ``unmatched``; :attr:`checker` collects breaches of the protocol.
    """

    def __init__(self, source: TlpSource, *, disabled: Iterable[Rule] = (), rail: SupplyRail | None = None, **options: Any) -> None:
        """Subscribe to ``source``.

        Parameters:
            disabled: Rules that the checker leaves out.
            rail: Supply of the drive; it gives each command its :attr:`~Command.mean_w`.
            options: Keyword arguments of :class:`LinkObserver`: ``bar0``, ``timeout_ps``.
        """
        self._commands: Queue[Command] = Queue()
        self._rail = rail
        self.observer = LinkObserver(self._finish, **options)
        self.checker = Checker(self.observer, disabled=disabled)
        source.subscribe(self.observer.feed)

    def _finish(self, command: Command) -> None:
        if self._rail is not None and command.fetch_ps is not None and command.cqe_ps is not None:
            command.mean_w = self._rail.mean_w(command.fetch_ps, command.cqe_ps)
        self._commands.put_nowait(command)

    async def command(self) -> Command:
        """Wait for the next command that a CQ head doorbell or a reset has finished."""
        return await self._commands.get()

    def finished(self) -> list[Command]:
        """Return the finished commands that nobody has waited for, without waiting."""
        commands = []
        while not self._commands.empty():
            commands.append(self._commands.get_nowait())
        return commands

    def close(self) -> None:
        """End the observation now. Open commands finish with the instants that were seen, and late ones break ``TIMEOUT``."""
        self.observer.close(round(get_sim_time("ps")))

    def __aiter__(self) -> AsyncIterator[Command]:
        """Yield finished commands for ever."""
        return self

    async def __anext__(self) -> Command:
        """Wait for the next finished command."""
        return await self.command()
