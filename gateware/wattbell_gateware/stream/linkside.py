"""Reports of a lane tap on the link itself: events of the stream, and LINK blocks."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.link_events import LinkEvent
from wattbell_spec.wire import LINK, LINK_COUNTERS, LINK_SIZE, EventType, LinkState, TlpFate

from ..layouts import EVENT, from_fields
from ..link.acks import ACK_TIMES, AckTimer
from ..link.events import LINK_EVENT
from ..link.ltssm import LANES_IN_USE, State
from ..side import SideSignature, sides
from .buffer import read_port
from .events import event

__all__ = ["LINK_SET", "LINK_SIDE", "SEEN_AS", "LinkReporter", "LinkSource", "link_port", "link_set"]

SEEN_AS = {
    State.UNKNOWN: LinkState.UNKNOWN,
    State.DETECT: LinkState.DETECT,
    State.POLLING: LinkState.DETECT,
    State.CONFIG: LinkState.DETECT,
    State.L0: LinkState.L0,
    State.L0S: LinkState.L0S,
    State.L1: LinkState.L1,
    State.RECOVERY: LinkState.RECOVERY,
}
"""Wire format's state for each state of a direction."""
COUNTERS_AT = sum(field.bits for field in LINK[: [field.name for field in LINK].index(LINK_COUNTERS[0])]) // 32
"""Index of the first counter's word in a LINK record; the other counters follow."""
LINK_SIDE = data.StructLayout({"state": State, "lanes": LANES_IN_USE, "rate": 2, "pending": 1, "pending_tick": 64})
"""State of a direction at one instant.

- ``rate``: 0: unknown; 1, 2, 3: 2.5, 5, 8 GT/s.
- ``pending``, ``pending_tick``: see :class:`~wattbell_gateware.link.store.TlpStore`.
"""
LINK_SET = data.StructLayout({"polarity": 4, "lanes": LANES_IN_USE, "new_polarity": 1, "new_lanes": 1})
"""Settings from the host for a link that was up before the tap. A change of ``new_polarity`` or ``new_lanes`` applies the setting."""


def link_port() -> wiring.Signature:
    """Signature of a direction of the link, as the instrument sees it; all in the instrument's clock.

    - ``events``: :data:`..link.events.LINK_EVENT`.
    - ``side``: :data:`LINK_SIDE`.
    - ``set``: :data:`LINK_SET`.
    - ``counter``: number of a counter in LINK_COUNTERS. 21 counters side by side would be 672 wires.
    - ``count``: value of the counter that ``counter`` named in the clock before.
    """
    return wiring.Signature(
        {
            "events": In(stream.Signature(LINK_EVENT)),
            "side": In(LINK_SIDE),
            "set": Out(LINK_SET),
            "counter": Out(range(len(LINK_COUNTERS))),
            "count": In(32),
        }
    )


class LinkReporter(wiring.Component):
    """Turns link events of both directions into events of the stream, and times the Acks.

    Takes one event of each direction a clock. An event for the stream is taken when it leaves; the host's direction goes first.

    Ports
    -----
    down : the host's direction; see ``up``.
    up : the drive's direction. ``events``: its link events. ``acks``: times of the Acks of its TLPs.
    wanted : a bit for each kind of event (`wattbell_spec.link_events`).
    enable : a capture runs. While low, no event leaves.
    o_valid : an event is available.
    o_ready : the event is taken.
    o_event : the event, :data:`..layouts.EVENT`.
    """

    def __init__(self):
        side = SideSignature({"events": In(stream.Signature(LINK_EVENT)), "acks": Out(ACK_TIMES)})
        super().__init__(
            {
                **side.both(),
                "wanted": In(len(LinkEvent)),
                "enable": In(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_event": Out(EVENT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        waiting = []
        host, drive = (side.events for side in sides(self))
        for source in (host, drive):
            goes = Signal()
            m.d.comb += goes.eq(source.valid & self.enable & self.wanted.bit_select(source.payload.kind, 1))
            waiting.append(goes)
        up = ~waiting[0]
        chosen = Signal(LINK_EVENT)
        m.d.comb += [
            self.o_valid.eq(Cat(waiting).any()),
            host.ready.eq(~waiting[0] | self.o_ready),
            drive.ready.eq(~waiting[1] | (self.o_ready & up)),
            chosen.eq(drive.payload),
        ]
        with m.If(~up):
            m.d.comb += chosen.eq(host.payload)
        self._translate(m, chosen, up)
        for sent, answers, times in ((host, drive, self.down.acks), (drive, host, self.up.acks)):
            m.submodules += (timer := AckTimer())
            m.d.comb += [
                timer.sent.valid.eq(sent.valid & sent.ready),
                timer.sent.event.eq(sent.payload),
                timer.answers.valid.eq(answers.valid & answers.ready),
                timer.answers.event.eq(answers.payload),
                times.eq(timer.times),
            ]
        return m

    def _translate(self, m: Module, chosen, up) -> None:
        argument, out = chosen.argument, self.o_event

        def tell(type_: EventType, arg16=0, arg32=0):
            m.d.comb += event(out, tick=chosen.tick, type=type_, arg8=up, arg16=arg16, arg32=arg32)

        with m.Switch(chosen.kind):
            with m.Case(LinkEvent.STATE):
                seen = Signal(LinkState)
                with m.Switch(argument[:4]):
                    for state, seen_as in SEEN_AS.items():
                        with m.Case(state.value):
                            m.d.comb += seen.eq(seen_as)
                tell(EventType.LINK_STATE, seen)
            with m.Case(LinkEvent.LANES):
                tell(EventType.LINK_LANES, argument[:6])
            with m.Case(LinkEvent.SPEED):
                tell(EventType.LINK_SPEED, argument[:6] & 0x3E)
            with m.Case(LinkEvent.RATE):
                tell(EventType.LINK_RATE, argument[:2] + 1)
            with m.Case(LinkEvent.LOCK):
                tell(EventType.LINK_LOCK, argument[:5])
            with m.Case(LinkEvent.ACK):
                tell(EventType.DLLP, 0x00, argument[:12])
            with m.Case(LinkEvent.NAK):
                tell(EventType.DLLP, 0x10, argument[:12])
            with m.Case(LinkEvent.POWER):
                tell(EventType.DLLP, argument[:8])
            with m.Case(LinkEvent.FLOW_CONTROL_INIT):
                tell(EventType.DLLP, argument[:8], argument)
            for kind, fate in (
                (LinkEvent.LOST, TlpFate.GAP),
                (LinkEvent.RECOVERED, TlpFate.RECOVERED),
                (LinkEvent.DUPLICATE, TlpFate.DUPLICATE),
                (LinkEvent.NULLIFIED, TlpFate.NULLIFIED),
                (LinkEvent.BAD_LCRC, TlpFate.BAD_LCRC),
                (LinkEvent.BAD_FRAME, TlpFate.BAD_FRAME),
                (LinkEvent.NO_ROOM, TlpFate.NO_ROOM),
            ):
                with m.Case(kind):
                    tell(EventType.LINK_TLP, argument[:12] | int(fate) << 12, argument[12:23])
            with m.Case(LinkEvent.FAULTS):
                tell(EventType.LINK_FAULTS, 0, argument)
            with m.Case(LinkEvent.BLOCK_FAULTS):
                tell(EventType.BLOCK_FAULTS, 0, argument)


class LinkSource(wiring.Component):
    """Makes LINK blocks with the records of both directions.

    The times of Acks are latched at the request. The other fields are read while the block leaves; each counter is consistent in
    itself.

    Ports
    -----
    now : the tick counter.
    request : make a block.
    down : the host's direction; see ``up``.
    up : the drive's direction. ``state``: :data:`LINK_SIDE`. ``acks``: see :class:`LinkReporter`. ``count``: see :func:`link_port`.
    counter : see :func:`link_port`.
    read : to the block writer, as in :class:`.status.StatusSource`.
    quiet : no block is requested.
    """

    def __init__(self):
        side = SideSignature({"state": In(LINK_SIDE), "acks": In(ACK_TIMES), "count": In(32)})
        super().__init__(
            {
                "now": In(64),
                "request": In(1),
                **side.both(),
                "counter": Out(range(len(LINK_COUNTERS))),
                "read": Out(read_port()),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layout = from_fields(LINK)
        words = []
        counts = range(COUNTERS_AT, COUNTERS_AT + len(LINK_COUNTERS))  # words of a record
        tick, dropped, waiting = Signal(64), Signal(32), Signal()
        latch = self.request & ~waiting
        for number, (side, acks) in enumerate((side.state, side.acks) for side in sides(self)):
            record, kept, seen = Signal(layout), Signal(ACK_TIMES), Signal(LinkState)
            with m.If(latch):
                m.d.sync += kept.eq(acks)
            with m.Switch(side.state):
                for state, seen_as in SEEN_AS.items():
                    with m.Case(state):
                        m.d.comb += seen.eq(seen_as)
            m.d.comb += [
                record.direction.eq(number),
                record.state.eq(seen),
                record.rate.eq(side.rate),
                record.lanes.eq(Cat(side.lanes.active, side.lanes.reverse, side.lanes.bypass)),
                record.acks.eq(kept.acks),
                record.ack_min.eq(kept.least),
                record.ack_max.eq(kept.greatest),
                record.ack_sum.eq(kept.total),
            ]
            words += [record.as_value().word_select(k, 32) for k in range(LINK_SIZE // 4)]
        read = self.read
        address = read.address[: len(words).bit_length()]
        counted, up, word = Signal(), Signal(), Signal(32)
        with m.Switch(address):
            for number in range(2):
                for k in counts:
                    with m.Case(number * (LINK_SIZE // 4) + k):
                        m.d.comb += self.counter.eq(k - COUNTERS_AT)
                        m.d.sync += [counted.eq(1), up.eq(number)]
            with m.Default():
                m.d.sync += [counted.eq(0), word.eq(Array(words)[address])]
        m.d.comb += read.data.eq(Mux(counted, Mux(up, self.up.count, self.down.count), word))
        m.d.comb += [
            read.ready.eq(waiting),
            read.words.eq(len(words)),
            read.first_tick.eq(tick),
            read.dropped.eq(dropped),
            self.quiet.eq(~self.request),
        ]
        with m.If(read.release):
            m.d.sync += [waiting.eq(0), dropped.eq(0)]
        with m.If(self.request):
            with m.If(waiting):
                m.d.sync += dropped.eq(dropped + ~dropped.all())
            with m.Else():
                m.d.sync += [tick.eq(self.now), waiting.eq(1)]
        return m


def link_set(m: Module, register, written, target) -> None:
    """Decode a LINK_SET_* register to :data:`LINK_SET`. A write applies the settings with a set bit."""
    lanes = Signal(LANES_IN_USE)
    m.d.comb += [
        lanes.active.eq(register[4:8]),
        lanes.reverse.eq(register[8]),
        lanes.bypass.eq(register[9]),
        lanes.width.eq(register[10:12]),
        target.polarity.eq(register[:4]),
        target.lanes.eq(lanes),
    ]
    polarity, wires = Signal(), Signal()
    with m.If(written):
        m.d.sync += [polarity.eq(polarity ^ register[12]), wires.eq(wires ^ register[13])]
    m.d.comb += [target.new_polarity.eq(polarity), target.new_lanes.eq(wires)]
