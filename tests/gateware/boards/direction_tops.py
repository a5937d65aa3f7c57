"""One direction of each board from its deserialisers' words on, on the board's clocks.

The simulation knows only clock edges, so it does not show metastability.
"""

from __future__ import annotations

from amaranth import ClockDomain, ClockSignal, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from wattbell_gateware.boards.direction import Direction
from wattbell_gateware.boards.ecp5.lanes import LanePair
from wattbell_gateware.boards.ecp5.transceiver import DcuTransceiver
from wattbell_gateware.boards.kintex7.transceiver import GtxTransceiver
from wattbell_gateware.boards.kintex7.words import WordGear
from wattbell_spec.boards import ECP5, KINTEX7

_BEAT = ("data", "dws", "first", "last", "error", "tick", "lost")


class _DirectionTop(wiring.Component):
    """Common ports.

    Ports
    -----
    word0, .. : words of a lane, in its clock.
    up, rate, down : in ``sync``, see Direction.
    now : the instrument's tick counter.
    core : clock of ``sync``.
    valid, dws, .. : beats of TLPs.
    told, kind, told_tick, argument : link events.
    dropped : see Direction's ``lost``.
    """

    def __init__(self, lanes: int, bits: int, *, core_ticks: int):
        self._lanes, self._core_ticks = lanes, core_ticks
        super().__init__(
            {
                **{f"word{n}": In(bits) for n in range(lanes)},
                "up": In(lanes),
                "rate": In(2, init=1),
                "down": In(1),
                "now": Out(64, init=1 << 30),
                "core": Out(1),
                "valid": Out(1),
                "data": Out(128),
                "dws": Out(3),
                "first": Out(1),
                "last": Out(1),
                "error": Out(1),
                "tick": Out(64),
                "lost": Out(1),
                "dropped": Out(1),
                "told": Out(1),
                "kind": Out(5),
                "told_tick": Out(64),
                "argument": Out(32),
            }
        )

    def _behind(self, m: Module, direction: Direction) -> None:
        m.submodules.direction = direction
        beat, events = direction.tlps.payload, direction.link.events
        m.d.sync += self.now.eq(self.now + self._core_ticks)
        m.d.comb += [
            self.core.eq(ClockSignal()),
            direction.now.eq(self.now),
            direction.rate.eq(self.rate),
            direction.down.eq(self.down),
            self.valid.eq(direction.tlps.valid),
            *(getattr(self, name).eq(beat[name]) for name in _BEAT),
            self.dropped.eq(direction.lost),
            self.told.eq(events.valid),
            events.ready.eq(1),
            self.kind.eq(events.payload.kind),
            self.told_tick.eq(events.payload.tick),
            self.argument.eq(events.payload.argument),
        ]


class Ecp5Top(_DirectionTop):
    """Two lanes. External clocks: ``words``, ``other`` (lanes 0 and 1), ``fast``. ``sync`` is half of ``fast``."""

    def __init__(self):
        super().__init__(2, 20, core_ticks=ECP5.ticks_per_clock)

    def elaborate(self, platform):
        m = Module()
        m.domains += [ClockDomain("sync", reset_less=True), ClockDomain("link", reset_less=True)]
        half = Signal()
        m.d.fast += half.eq(~half)
        m.submodules.pair = pair = LanePair()
        m.d.comb += [
            ClockSignal().eq(half),
            ClockSignal("link").eq(pair.half),
            pair.word[0].eq(self.word0),
            pair.word[1].eq(self.word1),
            pair.up.eq(self.up),
        ]
        direction = DcuTransceiver().direction()
        m.d.comb += [direction.raw.eq(pair.raw), direction.raw_valid.eq(pair.raw_valid)]
        self._behind(m, direction)
        return m


class Kintex7Top(_DirectionTop):
    """Four lanes, three rates. External clocks: ``link``, ``sync``."""

    def __init__(self):
        super().__init__(4, 32, core_ticks=KINTEX7.ticks_per_clock)

    def elaborate(self, platform):
        m = Module()
        m.submodules.gear = gear = WordGear()
        direction = GtxTransceiver().direction()
        m.d.comb += [
            *(gear.word[n].eq(getattr(self, f"word{n}")) for n in range(4)),
            gear.up.eq(self.up),
            gear.rate.eq(self.rate),
            direction.raw.eq(gear.raw),
            direction.raw_valid.eq(gear.raw_valid),
            direction.raw8.eq(gear.raw8),
            direction.raw8_valid.eq(gear.raw8_valid),
        ]
        self._behind(m, direction)
        return m
