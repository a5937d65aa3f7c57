"""Parts of the PHY side by side in one model, because building takes most of these tests' time."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped
from wattbell_gateware.boards.speed import SpeedSearch
from wattbell_gateware.link.receiver import Receiver
from wattbell_gateware.pcs import Decoder8b10b, Deskew, LaneReceiver


class PcsTop(wiring.Component):
    """Components side by side. Each has a port named after it: ``decoder4``, ``lane2``, ``lane4``, ``deskew2``, ``deskew4`` (the
    number of lanes).
    """

    def __init__(self):
        self._parts = {
            "decoder4": Decoder8b10b(4),
            "lane2": LaneReceiver(2),
            "lane4": LaneReceiver(4),
            "deskew2": Deskew(2, 2),
            "deskew4": Deskew(4, 4),
        }
        super().__init__({name: Out(part.signature) for name, part in self._parts.items()})

    def elaborate(self, platform):
        m = Module()
        for name, part in self._parts.items():
            m.submodules[name] = part
            connect(m, part, flipped(getattr(self, name)))
        return m


class ReceiverTop(wiring.Component):
    """The receiver of three speeds, with inner signals of its 8 GT/s part: ``frames``, ``dllps``, ``block_events``.

    ``search_rate`` is the choice of a :class:`SpeedSearch` with little patience; the receiver is both of its directions.
    """

    def __init__(self, lanes: int, *, ticks_per_clock: int):
        self._part = Receiver(lanes, 4, ticks_per_clock=ticks_per_clock, blocks=True)
        blocks = self._part.blocks.signature.members
        super().__init__(
            {
                **dict(self._part.signature.members.items()),
                "frames": blocks["frames"],
                "dllps": blocks["dllps"],
                "block_events": blocks["events"],
                "search_rate": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = self._part
        for name, member in part.signature.members.items():
            if member.is_signature:
                connect(m, getattr(part, name), flipped(getattr(self, name)))
            elif member.flow == Out:
                m.d.comb += getattr(self, name).eq(getattr(part, name))
            else:
                m.d.comb += getattr(part, name).eq(getattr(self, name))
        for name in ("frames", "dllps"):
            shown, inside = getattr(self, name), getattr(part.blocks, name)
            m.d.comb += [shown.valid.eq(inside.valid), shown.payload.eq(inside.payload)]
        m.d.comb += self.block_events.eq(part.blocks.events)
        lanes = len(part.locked)
        m.submodules.search = search = SpeedSearch(lanes, clock_hz=250_000_000, rates=(0, 1, 2), patience_s=1e-6)
        m.d.comb += [search.up.eq((1 << lanes) - 1), search.locked.eq(part.locked), self.search_rate.eq(search.rate)]
        for n in range(2):
            m.d.comb += [search.rates[n].eq(part.rates), search.leaving[n].eq(part.leaving), search.heard[n].eq(part.heard)]
        return m


class Wrapped(wiring.Component):
    """A component with only its ports visible: Verilator keeps everything visible, which makes its model larger."""

    def __init__(self, part):
        self._part = part
        super().__init__(part.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = self._part
        connect(m, self._part, flipped(self))
        return m
