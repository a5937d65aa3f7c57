"""Sources of TLPs: the link of cocotbext-pcie, and a source that a test bench drives by hand. The rail out of signals."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import First, ValueChange
from cocotb.utils import get_sim_time

from .monitor import TlpSink
from .power import SupplyRail
from .tlp import Direction


class CallSource:
    """A source for a bus of one's own: the test bench calls :meth:`show` for each TLP that it sees."""

    def __init__(self) -> None:
        """Begin without sinks."""
        self._sinks: list[TlpSink] = []

    def subscribe(self, sink: TlpSink) -> None:
        """Call ``sink`` for each TLP from now on."""
        self._sinks.append(sink)

    def show(self, direction: Direction, data: bytes, time_ps: int | None = None) -> None:
        """Pass a TLP on; without ``time_ps`` it began now."""
        now = round(get_sim_time("ps")) if time_ps is None else time_ps
        for sink in self._sinks:
            sink(now, direction, bytes(data))


class PcieLinkSource(CallSource):
    """Both directions of a cocotbext-pcie link, unchanged: ``PcieLinkSource(device.upstream_port)``.

    It looks over the shoulder of ``handle_tx`` at both ends, where a TLP begins on the link. DLLPs are left out. A replay cannot occur:
    cocotbext-pcie 0.2 has none.
    """

    def __init__(self, upstream_port: Any) -> None:
        """Hook the port of the drive's side; it must be connected.

        Raises:
            ValueError: The port has no other end.
        """
        super().__init__()
        if getattr(upstream_port, "other", None) is None:
            raise ValueError("the port is not connected: make the link first, then the source")
        self._hook(upstream_port, Direction.UP)
        self._hook(upstream_port.other, Direction.DOWN)

    def _hook(self, port: Any, direction: Direction) -> None:
        send = port.handle_tx

        async def handle_tx(packet: Any) -> None:
            if hasattr(packet, "fmt_type"):
                self.show(direction, bytes(packet.pack()))
            await send(packet)

        port.handle_tx = handle_tx


async def watch_rail(rail: SupplyRail, volts: Any, amps: Any) -> None:
    """Follow two signals of type real, in V and A, for ever: ``cocotb.start_soon(watch_rail(rail, dut.vdd_v, dut.vdd_a))``."""
    while True:
        rail.set(round(get_sim_time("ps")), float(volts.value), float(amps.value))
        await First(ValueChange(volts), ValueChange(amps))
