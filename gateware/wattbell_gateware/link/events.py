"""Queue that merges the events of a link layer into one stream."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.link_events import LinkEvent

from ..queue import Queue

__all__ = ["LINK_EVENT", "EventQueue", "of_interest"]


LINK_EVENT = data.StructLayout({"tick": 64, "kind": LinkEvent, "argument": 32})
"""``tick``: tick of the frame's first symbol for an event of a frame, otherwise the tick at which the event was noticed."""

_POWER = range(0x20, 0x25)


def of_interest(m: Module, body, kind, argument) -> object:
    """Return whether the DLLP `body` (type in bits 7:0) is an event; assigns its `kind` and `argument`. UpdateFC is no event."""
    wanted = Signal(name="of_interest")
    sequence = Cat(body[24:32], body[16:20])
    m.d.comb += argument.eq(sequence)
    with m.Switch(body[:8]):
        with m.Case(0x00):
            m.d.comb += [wanted.eq(1), kind.eq(LinkEvent.ACK)]
        with m.Case(0x10):
            m.d.comb += [wanted.eq(1), kind.eq(LinkEvent.NAK)]
        with m.Case(*_POWER):
            m.d.comb += [wanted.eq(1), kind.eq(LinkEvent.POWER), argument.eq(body[:8])]
        with m.Case("-1000---", "-1010---", "-1100---"):
            m.d.comb += [wanted.eq(1), kind.eq(LinkEvent.FLOW_CONTROL_INIT), argument.eq(body)]
    return wanted


class EventQueue(wiring.Component):
    """Merges the events of `sources` sources into one stream.

    Each source may give one event a clock; up to `each` events of a source wait. Only the low `tick_bits` of a tick come out.

    Ports
    -----
    i0, .. : events of each source; always ready.
    out : all events; the lowest-numbered waiting source goes first.
    lost : number of events without room in this clock.
    """

    def __init__(self, sources: int, *, each: int = 16, tick_bits: int = 64):
        self._sources, self._each, self._tick_bits = sources, each, tick_bits
        super().__init__(
            {
                **{f"i{n}": In(stream.Signature(LINK_EVENT, always_ready=True)) for n in range(sources)},
                "out": Out(stream.Signature(LINK_EVENT)),
                "lost": Out(range(sources + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lost, taken = [], Const(0, 1)
        kept = data.StructLayout({"tick": self._tick_bits, "kind": LinkEvent, "argument": 32})
        for n in range(self._sources):
            source = getattr(self, f"i{n}")
            m.submodules[f"queue{n}"] = queue = Queue(kept, self._each)
            m.d.comb += [*(queue.i.payload[name].eq(source.payload[name]) for name, _ in kept), queue.i.valid.eq(source.valid)]
            lost.append(queue.lost)
            with m.If(queue.o.valid & ~taken):
                m.d.comb += [self.out.valid.eq(1), queue.o.ready.eq(self.out.ready)]
                m.d.comb += [self.out.payload[name].eq(queue.o.payload[name]) for name, _ in kept]
            taken = taken | queue.o.valid
        m.d.comb += self.lost.eq(sum(lost))
        return m
