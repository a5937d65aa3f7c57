"""Parts of the PHY side by side in one model: building one is most of the time these tests take."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped
from wattbell_gateware.pcs import Decoder8b10b, LaneReceiver


class PcsTop(wiring.Component):
    """Ports ``decoder2``, ``decoder4``, ``lane2``, ``lane4``: those of the components, for words of 2 and 4 symbols."""

    def __init__(self):
        self._parts = {f"{name}{n}": kind(n) for n in (2, 4) for name, kind in (("decoder", Decoder8b10b), ("lane", LaneReceiver))}
        super().__init__({name: Out(part.signature) for name, part in self._parts.items()})

    def elaborate(self, platform):
        m = Module()
        for name, part in self._parts.items():
            m.submodules[name] = part
            connect(m, part, flipped(getattr(self, name)))
        return m
