"""The 8 GT/s receivers of every width in one model: building one is most of the time these tests take."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped
from wattbell_gateware.link.block_receiver import BlockReceiver


class Gen3Top(wiring.Component):
    """Ports ``x1``, ``x2``, ``x4``: those of :class:`BlockReceiver`."""

    def __init__(self):
        self._parts = {f"x{n}": BlockReceiver(n) for n in (1, 2, 4)}
        super().__init__({name: Out(part.signature) for name, part in self._parts.items()})

    def elaborate(self, platform):
        m = Module()
        for name, part in self._parts.items():
            m.submodules[name] = part
            connect(m, part, flipped(getattr(self, name)))
        return m
