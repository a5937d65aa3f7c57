"""What state a link is in, from what one direction of it sends."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from .layouts import DLLP
from .training import TRAINING_SET

__all__ = ["LANES_IN_USE", "SILENCE_TICKS", "LinkTracker", "State"]

SILENCE_TICKS = 2_000_000
"""Without a lane in lock for so long (2 ms), and without having announced it, the link is down."""
_SETTLE = 16
"""Clocks from the first lane's TS2 to the last one's: skew and differences of the aligners, with room."""
_HOLD, _HOLD_IDLE = 40, 10
"""Clocks that an intact packet, and idle, come later than an ordered set that was sent after them: packets are looked at behind
deskew, framing and store. Until then they say nothing of the state behind the ordered set."""
_DLLPS = 16
"""Clocks that a DLLP comes later than the EIOS sent after it."""
_PM_ENTER_L1, _PM_ENTER_L23, _PM_REQUEST_L1, _PM_ACK = 0x20, 0x21, 0x23, 0x24
_DISABLE_SCRAMBLING, _GOES_DOWN = 1 << 3, 0b11


class State(Enum, shape=4):
    """States of the LTSSM (Base 2.1, 4.2.5) as far as a listener can tell them apart."""

    UNKNOWN = 0
    DETECT = 1
    POLLING = 2
    CONFIG = 3
    L0 = 4
    L0S = 5
    L1 = 6
    RECOVERY = 7


LANES_IN_USE = data.StructLayout({"active": 4, "reverse": 1, "bypass": 1, "width": 2})
"""``active``: wires in use. ``reverse``: lane 0 is the last wire. ``bypass``: scrambling is disabled. ``width``: log2 of their number."""


class LinkTracker(wiring.Component):
    """LTSSM-lite: follows training sequences, EIOS, FTS, packets and power management DLLPs of one direction.

    - Training sequences with neither number: POLLING; with a link number: CONFIG; with both: CONFIG if they follow on from there,
      RECOVERY from anywhere else.
    - Logical idle or an intact packet: L0. (With no idle between training and packets L0 is noticed up to 40 clocks late.)
    - EIOS in L0: L1 if the direction has asked for it or granted it (PM DLLPs) since its last TLP, DETECT if it was for L2/L3,
      else L0S. In RECOVERY it is a change of speed. L1 sub-states need CLKREQ#, which is not looked at here.
    - A hot reset or disable in RECOVERY, ``down``, or 2 ms without lock in a state that does not allow for it: DETECT.

    From the lane numbers of TS2s: which wires are in use, and whether they are reversed; from TS2s in CONFIG: whether scrambling
    is disabled. Two equal training sequences in a row count. Lane 0 must be on the first or the last wire. A tap that
    attaches later has to be told (``set``); until then all wires are in use, not reversed, scrambled.

    Ports
    -----
    found, values, eios, fts, locked : of each wire, see :class:`.training.OrderedSetReader`.
    idle : aligned, and nothing but logical idle for some symbols. intact : a packet with a right CRC came; tlp : it was a TLP.
    dllps : :data:`.layouts.DLLP`. down : PERST# is asserted.
    set, set_to : the host's word.
    lanes : :data:`LANES_IN_USE`. state : :class:`State`. changed : it is new, ``since`` then. lanes_changed : one of ``lanes`` is new.
    speed : a training sequence that asks for a change of speed; once each time. rates : its rates.
    forget : sequence numbers start anew.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__({
            "found": In(lanes), "values": In(data.ArrayLayout(TRAINING_SET, lanes)), "eios": In(lanes), "fts": In(lanes),
            "locked": In(lanes), "idle": In(1), "intact": In(1), "tlp": In(1),
            "dllps": In(stream.Signature(DLLP, always_ready=True)), "down": In(1), "now": In(64),
            "set": In(1), "set_to": In(LANES_IN_USE),
            "lanes": Out(LANES_IN_USE, init={"active": (1 << lanes) - 1, "width": (lanes - 1).bit_length()}),
            "state": Out(State), "changed": Out(1), "since": Out(64), "lanes_changed": Out(1), "speed": Out(1), "rates": Out(8),
            "forget": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        # The training sequence of this clock: of the first wire in use that has one. Unused wires may go on polling.
        counts = Signal(self._lanes)
        seen = Signal(TRAINING_SET)
        numbered = Signal(self._lanes)
        m.d.comb += counts.eq(self.found)
        for n in reversed(range(self._lanes)):
            with m.If(self.found[n]):
                m.d.comb += seen.eq(self.values[n])
                m.d.sync += numbered[n].eq(~self.values[n].link_pad & ~self.values[n].lane_pad)
        self._states(m, counts.any(), seen)
        self._wires(m, counts, numbered)
        return m

    def _states(self, m: Module, found, seen) -> None:
        state = self.state
        asked_l1, asked_l23 = Signal(), Signal()
        heard, hold = Signal(64), Signal(range(_HOLD + 1))
        kind = self.dllps.payload.body[:8]
        # What EIOS means is decided when the DLLPs before it have come through; the tick is that of the EIOS.
        ending, ending_tick = Signal(range(_DLLPS + 1)), Signal(64)
        with m.If((self.eios & self.lanes.active).any() & (ending == 0)):
            m.d.sync += [ending.eq(_DLLPS), ending_tick.eq(self.now)]
        with m.Elif(ending != 0):
            m.d.sync += ending.eq(ending - 1)
        m.d.sync += self.since.eq(Mux(ending == 1, ending_tick, self.now))
        m.d.sync += [self.changed.eq(0), hold.eq(Mux(found | self.eios.any(), _HOLD, Mux(hold == 0, 0, hold - 1)))]
        with m.If(self.locked.any()):
            m.d.sync += heard.eq(self.now)
        with m.If(self.tlp):
            m.d.sync += [asked_l1.eq(0), asked_l23.eq(0)]
        with m.Elif(self.dllps.valid):
            with m.If((kind == _PM_ENTER_L1) | (kind == _PM_REQUEST_L1) | (kind == _PM_ACK)):
                m.d.sync += asked_l1.eq(1)
            with m.If(kind == _PM_ENTER_L23):
                m.d.sync += asked_l23.eq(1)

        def go(there):
            return [state.eq(there), self.changed.eq(state.as_value() != Value.cast(there))]

        configuring = (state == State.DETECT) | (state == State.POLLING) | (state == State.CONFIG)
        announced = (state == State.L0S) | (state == State.L1) | (state == State.UNKNOWN) | (state == State.DETECT)
        with m.If(self.down | (~announced & (self.now - heard > SILENCE_TICKS))):
            m.d.sync += go(State.DETECT)
        with m.Elif(found):
            with m.If(seen.link_pad):
                with m.If(state != State.CONFIG):
                    m.d.sync += go(State.POLLING)
            with m.Elif(seen.lane_pad):
                m.d.sync += go(State.CONFIG)
            with m.Elif((state == State.RECOVERY) & (seen.control & _GOES_DOWN).any()):
                m.d.sync += go(State.DETECT)
            with m.Else():
                m.d.sync += go(Mux(configuring, State.CONFIG.value, State.RECOVERY.value))
        with m.Elif(ending == 1):
            with m.If(state == State.L0):
                m.d.sync += go(Mux(asked_l23, State.DETECT.value, Mux(asked_l1, State.L1.value, State.L0S.value)))
        with m.Elif(((self.idle & (hold <= _HOLD - _HOLD_IDLE)) | (self.intact & (hold == 0))) & (state != State.POLLING)):
            m.d.sync += go(State.L0)
            with m.If(state != State.L0):
                m.d.sync += [asked_l1.eq(0), asked_l23.eq(0)]
        # Not in CONFIG: RECOVERY may lead there and back with the data link layer up.
        m.d.comb += self.forget.eq(self.changed & ((state == State.DETECT) | (state == State.POLLING)))

        # A change of speed is asked for in training sequences; once for each stay in RECOVERY.
        told = Signal()
        m.d.sync += self.speed.eq(0)
        with m.If(state != State.RECOVERY):
            m.d.sync += told.eq(0)
        with m.Elif(found & seen.rates[7] & ~told):
            m.d.sync += [told.eq(1), self.speed.eq(1), self.rates.eq(seen.rates)]

    def _wires(self, m: Module, found, numbered) -> None:
        wait = Signal(range(_SETTLE + 1))
        last = self._lanes - 1
        used, bypass, reverse, many = Signal(LANES_IN_USE), Signal(), Signal(), Signal(3)
        second = Cat(found[n] & self.values[n].ts2 & ~self.values[n].lane_pad for n in range(self._lanes))
        numbers = [Signal(2, name=f"number{n}") for n in range(self._lanes)]
        for n in range(self._lanes):
            with m.If(second[n]):
                m.d.sync += numbers[n].eq(self.values[n].lane)
        m.d.comb += reverse.eq(numbered[last] & (numbers[last] == 0) & (last != 0))
        m.d.comb += many.eq(sum(numbered))
        m.d.comb += [used.active.eq(numbered), used.reverse.eq(reverse), used.bypass.eq(bypass),
                     used.width.eq(Mux(many >= 4, 2, Mux(many >= 2, 1, 0)))]  # fmt: skip
        m.d.sync += self.lanes_changed.eq(0)
        for n in range(self._lanes):
            with m.If(second[n] & (self.state == State.CONFIG)):
                m.d.sync += bypass.eq((self.values[n].control & _DISABLE_SCRAMBLING).any())
        with m.If(self.set):
            m.d.sync += [self.lanes.eq(self.set_to), bypass.eq(self.set_to.bypass), wait.eq(0), self.lanes_changed.eq(1)]
        with m.Elif(second.any() & (wait == 0)):
            m.d.sync += wait.eq(_SETTLE)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
            with m.If((wait == 1) & ((many == 1) | (many == 2) | (many == 4)) & (self.lanes.as_value() != used.as_value())):
                m.d.sync += [self.lanes.eq(used), self.lanes_changed.eq(1)]
