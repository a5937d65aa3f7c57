"""One direction of a link: from words in the link's own clock to TLPs in the instrument's clock."""

from __future__ import annotations

from amaranth import DomainRenamer, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped
from wattbell_spec.wire import LinkState

from ..layouts import tlp_beat
from ..link.ltssm import PM_AGREEMENT
from ..link.receiver import LATENCY, Receiver
from ..queue import CrossingQueue
from ..stream.linkside import SEEN_AS, link_port
from .linkport import LinkPort
from .linktime import LOW_BITS, FineTime, LinkTime, whole_tick

__all__ = ["BeatCrossing", "BeatPairs", "Direction", "link_state"]

_FIFO = 16
"""Beats in the crossing's queue; distributed RAM, because a block RAM is far from both sides.

The link's clock may be 600 ppm faster than the instrument's. TLPs still never fill the queue: framing takes a beat of each TLP, and
SKP sets take 3 beats of every 1180 symbol times. The queue only holds the beats in the crossing, and the excess of short
back-to-back TLPs with an odd number of beats, which pairing does not halve. Writes of one double word to a 64-bit address bring one
beat too many for every four TLPs. There is room for 40 of them in a row.
"""

_TOLD = ("counters", "state", "lanes", "pending", "pending_known", "pending_tick")
"""Further outputs of the receiver that cross to the instrument."""


class BeatPairs(wiring.Component):
    """Pairs beats for an instrument on a clock of half the frequency: half as many beats, of twice the width.

    Every beat but the last of a TLP must be full. Takes a beat a clock; latency 1 clock from the second beat of a pair.

    Ports
    -----
    i : beats of ``width``, see :func:`~wattbell_gateware.layouts.tlp_beat`.
    o : beats of twice that width.
    """

    def __init__(self, width: int):
        self._width = width
        super().__init__(
            {
                "i": In(stream.Signature(tlp_beat(width), always_ready=True)),
                "o": Out(stream.Signature(tlp_beat(2 * width), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        i, o = self.i.payload, self.o.payload
        half, half_first, half_lost = Signal(), Signal(), Signal()  # `o.data` already holds the lower half
        second = half & ~i.first
        m.d.sync += self.o.valid.eq(self.i.valid & (second | i.last))
        with m.If(self.i.valid):
            m.d.sync += [
                o.dws.eq(i.dws + Mux(second, self._width // 32, 0)),
                o.first.eq(Mux(second, half_first, i.first)),
                o.last.eq(i.last),
                o.error.eq(i.error),
                o.tick.eq(i.tick),
                o.data[self._width :].eq(i.data),
                half.eq(~second & ~i.last),
                half_first.eq(i.first),
                o.lost.eq(Mux(second, half_lost, i.lost)),
                half_lost.eq(i.lost),
            ]
            with m.If(~second):
                m.d.sync += o.data[: self._width].eq(i.data)
        return m


class BeatCrossing(wiring.Component):
    """Takes beats of TLPs from ``link`` to ``sync``. Ticks cross as their low bits and come out whole.

    A beat without room is dropped. The rest of its TLP is then shorter than its header says, or has no end, which the parser
    notices. The next TLP is marked ``lost``.

    Ports
    -----
    i : in ``link``: :func:`~wattbell_gateware.layouts.tlp_beat`.
    o : in ``sync``: the same.
    now : in ``sync``: no tick of a beat that comes out now is later.
    dropped : in ``link``: strobe: a beat found no room.
    lost : in ``sync``: a beat found no room since power-on.
    """

    def __init__(self, width: int):
        beats = stream.Signature(tlp_beat(width), always_ready=True)
        super().__init__({"i": In(beats), "o": Out(beats), "now": In(64), "dropped": Out(1), "lost": Out(1)})

    def elaborate(self, platform):
        m = Module()
        whole = self.i.payload.shape()
        narrow = data.StructLayout({name: (LOW_BITS if name == "tick" else field.shape) for name, field in whole})
        m.submodules.queue = queue = CrossingQueue(narrow, _FIFO, writes="link", reads="sync")
        into, out, given, missing = Signal(narrow), Signal(narrow), Signal(), Signal()
        m.d.link += [*(into[name].eq(self.i.payload[name]) for name, _ in narrow), given.eq(self.i.valid)]  # the queue is far away
        m.d.comb += [queue.i.payload.eq(into), queue.i.valid.eq(given), out.eq(queue.o.payload), queue.o.ready.eq(1)]
        lost = Signal()
        m.d.link += self.dropped.eq(0)
        with m.If(given):
            with m.If(~queue.i.ready):
                m.d.link += [self.dropped.eq(1), missing.eq(1), lost.eq(1)]
            with m.Elif(into.first):
                m.d.comb += queue.i.payload.lost.eq(into.lost | missing)
                m.d.link += missing.eq(0)
        m.submodules += FFSynchronizer(lost, self.lost)
        m.d.sync += self.o.valid.eq(queue.o.valid)
        m.d.sync += [self.o.payload[name].eq(out[name]) for name, _ in narrow if name != "tick"]
        m.d.sync += self.o.payload.tick.eq(whole_tick(m, self.now, out.tick))
        return m


class Direction(wiring.Component):
    """Joins receiver, tick counter and clock crossing of one direction. Domains: ``sync`` (instrument) and ``link`` (words).

    Parameters
    ----------
    lanes : see :class:`~wattbell_gateware.link.receiver.Receiver`.
    symbols : see :class:`~wattbell_gateware.link.receiver.Receiver`. With `lanes` it gives the width of a beat, at least 64 bits.
    ticks_per_clock : ticks of a clock of ``link`` at the higher speed; twice as many at the lower.
    blocks : receive 8 GT/s too. A clock of ``link`` is then as long as at 5 GT/s.
    half : ``sync`` has half the frequency of ``link``, ``tlps`` has twice the width, and there is a domain ``fast`` (see
        :class:`~.linktime.FineTime`).
    bytes_kept : see :class:`~wattbell_gateware.link.receiver.Receiver`.
    late_ticks : ticks from the first bit of a word at the pins to the clock of ``raw`` at 5 GT/s; twice as many at 2.5 GT/s.
    late_blocks_ticks : ticks from the first bit of a word at the pins to the clock of ``raw8``.

    Ports
    -----
    raw : in ``link``, see Receiver.
    raw_valid : in ``link``, see Receiver.
    raw8 : with `blocks`, in ``link``, see Receiver.
    raw8_valid : with `blocks`, in ``link``, see Receiver.
    rates : in ``link``, see Receiver.
    leaving : in ``link``, see Receiver.
    heard : in ``link``, see Receiver.
    agreement : in ``link``, see Receiver.
    other : ``agreement`` of the other direction, in that direction's clock.
    locked : see Receiver; asynchronous to all domains.
    aligned : see Receiver; asynchronous to all domains.
    rate : in ``sync``: 0, 1, 2 for 2.5, 5, 8 GT/s.
    down : in ``sync``: PERST# is asserted.
    now : in ``sync``: the tick counter.
    tlps : in ``sync``: TLPs for the tracker.
    state : in ``sync``: state of the direction in terms of the wire format.
    lost : in ``sync``: a beat found no room since power-on (:class:`BeatCrossing`). The receiver's counters have the number.
    link : in ``sync``: :func:`~wattbell_gateware.stream.linkside.link_port` from the other side.
    """

    def __init__(
        self,
        lanes: int,
        symbols: int,
        *,
        ticks_per_clock: int,
        late_ticks: int,
        half: bool = False,
        blocks: bool = False,
        late_blocks_ticks: int = 0,
        bytes_kept: int = 8192,
    ):
        self._lanes, self._symbols, self._ticks, self._late = lanes, symbols, ticks_per_clock, late_ticks
        self._late_blocks = late_blocks_ticks
        self._blocks, self._bytes_kept = blocks, bytes_kept
        self._half, self._beat = half, max(64, 8 * lanes * symbols)
        self._width = 2 * self._beat if half else self._beat
        ports = {"raw8": In(data.ArrayLayout(32, lanes)), "raw8_valid": In(1)} if blocks else {}
        super().__init__(
            {
                "raw": In(data.ArrayLayout(10 * symbols, lanes)),
                "raw_valid": In(1),
                **ports,
                "rate": In(2),
                "down": In(1),
                "now": In(64),
                "tlps": Out(stream.Signature(tlp_beat(self._width), always_ready=True)),
                "state": Out(LinkState),
                "lost": Out(1),
                "link": In(link_port()),
                "locked": Out(lanes),
                "aligned": Out(1),
                "rates": Out(8),
                "leaving": Out(1),
                "heard": Out(1),
                "agreement": Out(PM_AGREEMENT),
                "other": In(PM_AGREEMENT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = DomainRenamer("link")(
            Receiver(
                self._lanes,
                self._symbols,
                ticks_per_clock=self._ticks,
                blocks=self._blocks,
                tick_bits=LOW_BITS,
                bytes_kept=self._bytes_kept,
            )
        )
        if self._half:
            m.submodules.fine = fine = FineTime(ticks_per_clock=self._ticks)
            m.submodules.time = time = LinkTime(ticks_per_clock=self._ticks, behind=2 * self._ticks, core="fast")
            m.d.comb += [fine.now.eq(self.now), time.now.eq(fine.fine)]
        else:
            m.submodules.time = time = LinkTime(ticks_per_clock=self._ticks)
            m.d.comb += time.now.eq(self.now)
        slow, down, present = Signal(), Signal(), Signal()
        slow_here = Signal()
        m.d.sync += slow_here.eq(self.rate == 0)
        m.submodules += [FFSynchronizer(slow_here, slow, o_domain="link"), FFSynchronizer(self.down, down, o_domain="link")]
        late, now = Signal(16), Signal(64)
        with m.If(slow):
            # The receiver subtracts its own delay in ticks of the higher speed.
            m.d.comb += late.eq(2 * self._late + LATENCY * self._ticks)
        with m.Else():
            m.d.comb += late.eq(self._late)
        m.d.link += [now.eq(time.tick - late), present.eq(self.raw_valid)]
        raw = Signal.like(self.raw)
        m.d.link += raw.eq(self.raw)
        m.d.comb += [
            time.slow.eq(slow),
            receiver.raw.eq(raw),
            receiver.raw_valid.eq(present),
            receiver.now.eq(now),
            receiver.down.eq(down),
            self.locked.eq(receiver.locked),
            self.aligned.eq(receiver.aligned),
            self.rates.eq(receiver.rates),
            self.leaving.eq(receiver.leaving),
            self.heard.eq(receiver.heard),
            self.agreement.eq(receiver.agreement),
        ]
        # Two independent levels, in registers: no code that could be seen half changed.
        m.submodules.other = FFSynchronizer(self.other.as_value(), receiver.other.as_value(), o_domain="link")
        if self._blocks:
            rate, present8 = Signal(2), Signal()
            m.submodules += FFSynchronizer(self.rate, rate, o_domain="link")
            raw8 = Signal.like(self.raw8)
            m.d.link += [raw8.eq(self.raw8), present8.eq(self.raw8_valid)]
            m.d.comb += [receiver.rate.eq(rate), receiver.raw8.eq(raw8), receiver.raw8_valid.eq(present8)]
            with m.If(rate == 2):
                m.d.comb += late.eq(self._late_blocks)
        else:
            m.d.comb += receiver.rate.eq(~slow)
        m.submodules.crossing = crossing = BeatCrossing(self._width)
        if self._half:
            m.submodules.pairs = pairs = DomainRenamer("link")(BeatPairs(self._beat))
            connect(m, receiver.tlps, pairs.i)
            connect(m, pairs.o, crossing.i)
        else:
            connect(m, receiver.tlps, crossing.i)
        connect(m, crossing.o, flipped(self.tlps))
        m.d.comb += [crossing.now.eq(self.now), self.lost.eq(crossing.lost), receiver.lost_behind.eq(crossing.dropped)]
        m.submodules.link = link = LinkPort(self._lanes)
        connect(m, link.o, flipped(self.link))
        connect(m, receiver.events, link.events)
        m.d.comb += [
            *(getattr(link, name).eq(getattr(receiver, name)) for name in _TOLD),
            *(getattr(receiver, name).eq(getattr(link, name)) for name in ("polarity_set", "polarity", "lanes_set", "lanes_to")),
            link.rate.eq(self.rate),
            link.now.eq(self.now),
        ]
        with m.Switch(link.o.side.state):
            for of, seen_as in SEEN_AS.items():
                with m.Case(of):
                    m.d.sync += self.state.eq(seen_as)
        return m


def link_state(m: Module, host, drive) -> Value:
    """Return the one state that the instrument records, from the states of the two directions.

    Trouble goes first: a link that one side trains on is not in L0, whatever the other side still sends. L0s is the drive's state:
    the rail shows the power of the drive's transmitter.
    """
    both = Signal(LinkState)
    m.d.comb += both.eq(drive)
    for what in (LinkState.L1, LinkState.RECOVERY, LinkState.DETECT):
        with m.If((host == what) | (drive == what)):
            m.d.comb += both.eq(what)
    return both
