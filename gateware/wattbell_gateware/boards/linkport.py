"""Clock-domain crossing of a link's events, counters and state to the instrument, and of the host's settings back."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect
from wattbell_spec.wire import LINK_COUNTERS

from ..link.events import LINK_EVENT
from ..link.ltssm import LANES_IN_USE, State
from ..queue import CrossingQueue
from ..skid import SkidBuffer
from ..stream.linkside import LINK_SET, link_port
from .linktime import LOW_BITS, whole_tick
from .snapshot import Snapshot

__all__ = ["LinkPort"]

_EVENTS = 32
_COPIES = 3


class LinkPort(wiring.Component):
    """Connects :class:`~wattbell_gateware.link.receiver.Receiver` in the domain ``link`` to the instrument in ``sync``.

    Events wait in a queue of 32. If the queue is full, an event stays in the receiver's own queue, which counts its losses. All
    other values cross as copies (:class:`.snapshot.Snapshot`), some clocks apart. The counters cross one at a time, so each is at
    most 21 copies (2 us) old. ``pending`` stays set until three copies show no pending TLP. By then the last beats of the TLP,
    which cross on their own way, have arrived.

    Parameters
    ----------
    lanes : number of wires.

    Ports
    -----
    events : in ``link``, from the receiver.
    counters : in ``link``, from the receiver.
    state : in ``link``, from the receiver.
    lanes : in ``link``, from the receiver.
    pending : in ``link``, from the receiver.
    pending_known : in ``link``, from the receiver.
    pending_tick : in ``link``, from the receiver.
    polarity_set : in ``link``, to the receiver.
    polarity : in ``link``, to the receiver.
    lanes_set : in ``link``, to the receiver.
    lanes_to : in ``link``, to the receiver.
    rate : in ``sync``: 0, 1, 2 for 2.5, 5, 8 GT/s.
    now : in ``sync``; no tick is later.
    o : in ``sync``: :func:`~wattbell_gateware.stream.linkside.link_port` from the other side.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "events": In(stream.Signature(LINK_EVENT)),
                "counters": In(data.StructLayout(dict.fromkeys(LINK_COUNTERS, 32))),
                "state": In(State),
                "lanes": In(LANES_IN_USE),
                "pending": In(1),
                "pending_known": In(1, init=1),
                "pending_tick": In(64),
                "polarity_set": Out(1),
                "polarity": Out(lanes),
                "lanes_set": Out(1),
                "lanes_to": Out(LANES_IN_USE),
                "rate": In(2),
                "now": In(64),
                "o": In(link_port()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._events(m)
        self._side(m)
        self._counters(m)
        self._set(m)
        return m

    def _events(self, m: Module) -> None:
        narrow = data.StructLayout({"tick": LOW_BITS, "kind": LINK_EVENT.members["kind"], "argument": 32})
        m.submodules.queue = queue = CrossingQueue(narrow, _EVENTS, writes="link", reads="sync")
        into, head = queue.i.payload, Signal(narrow)
        event, out = self.events.payload, self.o.events
        m.d.comb += [
            into.tick.eq(event.tick),
            into.kind.eq(event.kind),
            into.argument.eq(event.argument),
            queue.i.valid.eq(self.events.valid),
            self.events.ready.eq(queue.i.ready),
        ]
        # The skid buffer keeps the reader's `ready` from reaching the queue in the same clock.
        m.submodules.stage = skid = SkidBuffer(narrow)
        connect(m, queue.o, skid.i)
        m.d.comb += head.eq(skid.o.payload)
        free = ~out.valid | out.ready
        m.d.comb += skid.o.ready.eq(free)
        with m.If(free):
            m.d.sync += [
                out.valid.eq(skid.o.valid),
                out.payload.tick.eq(whole_tick(m, self.now, head.tick)),
                out.payload.kind.eq(head.kind),
                out.payload.argument.eq(head.argument),
            ]

    def _side(self, m: Module) -> None:
        layout = data.StructLayout(
            {
                "state": State,
                "lanes": LANES_IN_USE,
                "pending": 1,
                "pending_known": 1,
                "pending_tick": LOW_BITS,
            }
        )
        m.submodules.side = side = Snapshot(layout, source="link", sink="sync")
        given, seen, shown = side.i, side.o, self.o.side
        m.d.comb += [getattr(given, name).eq(getattr(self, name)) for name, _ in layout]
        m.d.comb += [shown.state.eq(seen.state), shown.lanes.eq(seen.lanes), shown.rate.eq(self.rate + 1)]
        kept = data.StructLayout({"pending": 1, "tick": 64})
        copies = [Signal(kept, name=f"copy{n}") for n in range(_COPIES)]  # the youngest first
        with m.If(side.fresh):
            m.d.sync += [
                copies[0].pending.eq(seen.pending),
                copies[0].tick.eq(Mux(seen.pending_known, whole_tick(m, self.now, seen.pending_tick), 0)),
                *(older.eq(younger) for younger, older in zip(copies, copies[1:])),
            ]
        oldest = copies[0].tick
        for copy in copies[1:]:
            oldest = Mux(copy.pending, copy.tick, oldest)
        m.d.comb += [shown.pending.eq(Cat(copy.pending for copy in copies).any()), shown.pending_tick.eq(oldest)]

    def _counters(self, m: Module) -> None:
        """Copy one counter after the other into a memory of ``sync``. Side by side they would be 672 registers in each clock, and
        as many long wires.
        """
        count = len(LINK_COUNTERS)
        one = data.StructLayout({"number": range(count), "value": 32})
        m.submodules.turn = turn = Snapshot(one, source="link", sink="sync")
        m.submodules.counts = memory = Memory(shape=32, depth=count, init=[])
        write, read = memory.write_port(), memory.read_port()
        number, here, chosen = Signal(range(count)), Signal(one), Signal(one)
        words = [self.counters.as_value().word_select(k, 32) for k in range(count)]
        # Select one counter of each eight, then one of these, with a register between. A copy is taken every seven clocks or more,
        # so value and number still belong together.
        eights = Array(Signal(32, name=f"eight{k}") for k in range(0, count, 8))
        m.d.link += [eight.eq(Array(words[8 * k : 8 * k + 8])[number[:3]]) for k, eight in enumerate(eights)]
        m.d.link += [here.number.eq(number), here.value.eq(eights[number[3:]]), chosen.eq(here)]
        with m.If(turn.taken):
            m.d.link += number.eq(Mux(number == count - 1, 0, number + 1))
        m.d.comb += [
            turn.i.eq(chosen),
            write.addr.eq(turn.o.number),
            write.data.eq(turn.o.value),
            write.en.eq(1),
            read.addr.eq(self.o.counter),
            self.o.count.eq(read.data),
        ]

    def _set(self, m: Module) -> None:
        m.submodules.set = told = Snapshot(LINK_SET, source="sync", sink="link")
        polarity, lanes = Signal(), Signal()
        m.d.comb += [told.i.eq(self.o.set), self.polarity.eq(told.o.polarity), self.lanes_to.eq(told.o.lanes)]
        m.d.link += [
            polarity.eq(told.o.new_polarity),
            lanes.eq(told.o.new_lanes),
            self.polarity_set.eq(told.o.new_polarity != polarity),
            self.lanes_set.eq(told.o.new_lanes != lanes),
        ]
