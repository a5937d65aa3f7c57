"""State of a link, derived from the traffic of one direction."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from .layouts import DLLP
from .training import TRAINING_SET

__all__ = ["LANES_IN_USE", "PM_AGREEMENT", "SILENCE_TICKS", "LinkTracker", "State"]

SILENCE_TICKS = 2_000_000
"""Ticks (2 ms) without a locked lane after which an unannounced silence counts as link down."""
_SILENCE_BITS = 22
_SETTLE = 16
"""Clocks from the first lane's TS2 to the last lane's: skew and differences of the aligners, with margin."""
_BEHIND = 256
"""Clocks that an intact packet, or idle, may come later than an ordered set that was sent after it.

Packets pass deskew, queues, framing and store before they are seen. For this many clocks the ticks decide the order.
"""
_LOW = 20
"""Compared bits of the ticks: 524 us to either side, more than the longest packet takes."""
_DLLPS = 28
"""Clocks that a DLLP comes later than an EIOS sent after it, and until the other direction's agreement is known here."""
_MISSED = 3
"""Training sequences with numbers of another wire, without any of a wire between them, after which that wire is no longer in use.

A bit error spoils two of them.
"""
_HEARD = 256
"""Clocks that ``heard`` stays high."""
_PM_ENTER_L1, _PM_ENTER_L23, _PM_REQUEST_L1, _PM_ACK = 0x20, 0x21, 0x23, 0x24  # PCIe Base 4.0, 3.5.1
_DISABLE_SCRAMBLING, _GOES_DOWN = 1 << 3, 0b11


class State(Enum, shape=4):
    """States of the LTSSM (PCIe Base 2.1, 4.2.5) that a listener can tell apart."""

    UNKNOWN = 0
    DETECT = 1
    POLLING = 2
    CONFIG = 3
    L0 = 4
    L0S = 5
    L1 = 6
    RECOVERY = 7


LANES_IN_USE = data.StructLayout({"active": 4, "reverse": 1, "bypass": 1, "width": 2})
"""Use of the wires.

- ``active``: a bit for each wire in use.
- ``reverse``: lane 0 is the last wire.
- ``bypass``: scrambling is disabled.
- ``width``: log2 of the number of lanes.
"""


PM_AGREEMENT = data.StructLayout({"granted": 1, "ready": 1})
"""PM DLLPs of a direction since its last TLP and its last training sequence.

- ``granted``: the direction sent PM_Request_Ack.
- ``ready``: the direction asked for L2/L3 (PM_Enter_L23).
"""


class LinkTracker(wiring.Component):
    """Follows a reduced LTSSM from training sequences, EIOS, FTS, packets and power management DLLPs of one direction.

    - Training sequences with neither number: POLLING, except that CONFIG stays.
    - Training sequences with a link number only: CONFIG.
    - Training sequences with both numbers: CONFIG after DETECT, POLLING or CONFIG; RECOVERY after any other state.
    - Logical idle or an intact packet that began after the last of these ordered sets: L0.
    - EIOS in L0: L0S, unless a direction granted a request (PM_Request_Ack) since its last TLP; then DETECT if one asked for L2/L3,
      else L1. A request alone shows nothing: the host may refuse it (PM_Active_State_Nak), and the drive's next EIOS is L0s.
    - EIOS in RECOVERY: a change of speed (``leaving``).
    - Hot reset or disable in RECOVERY, ``down``, or 2 ms without lock in a state that does not allow for it: DETECT.

    L1 sub-states need CLKREQ#, which the tracker does not see.

    The lane numbers of TS2s show which wires are in use, and whether they are reversed. TS2s in CONFIG show whether scrambling is
    disabled. Only two equal training sequences in a row count. Lane 0 must be on the first or the last wire. A tap that attaches
    later gets these facts from the host (``set``). Until then the tracker takes all wires as in use, not reversed and scrambled.

    Ports
    -----
    found : strobe of each wire, see :class:`.training.OrderedSetReader` and :class:`.block_training.BlockSetReader`.
    values : training sequence of each wire.
    eios : EIOS strobe of each wire.
    sets_tick : tick of the ordered sets in ``found`` and ``eios``.
    locked : each wire has lock.
    idle : the lanes are aligned and carried only logical idle for some symbols.
    idle_tick : tick of the last of these symbols.
    tlp : strobe: a TLP with a right LCRC came.
    tlp_tick : tick at which this TLP began.
    dllps : :data:`.layouts.DLLP`.
    down : PERST# is asserted.
    agreement : :data:`PM_AGREEMENT` of this direction.
    other : the other direction's ``agreement``.
    now : tick counter.
    set : strobe: the host sets the lanes.
    set_to : lanes from the host, :data:`LANES_IN_USE`.
    lanes : :data:`LANES_IN_USE`.
    state : :class:`State`.
    changed : strobe: ``state`` is new.
    since : with ``changed``: tick of the change.
    lanes_changed : strobe: ``lanes`` is new.
    speed : strobe: a training sequence asks for a change of speed. At most one for each stay in RECOVERY.
    rates : rates of the last training sequence (bit 1: 2.5 GT/s, 2: 5, 3: 8). Bit 7: a change of speed was asked for in this stay
        in RECOVERY.
    leaving : an EIOS came in RECOVERY, and no training sequence since: the speed is changing.
    heard : a training sequence or an intact packet, which noise cannot imitate, came in the last 256 clocks.
    forget : strobe: sequence numbers start anew.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__({
            "found": In(lanes), "values": In(data.ArrayLayout(TRAINING_SET, lanes)), "eios": In(lanes),
            "sets_tick": In(64), "locked": In(lanes), "idle": In(1), "idle_tick": In(64), "tlp": In(1), "tlp_tick": In(64),
            "dllps": In(stream.Signature(DLLP, always_ready=True)), "down": In(1), "now": In(64),
            "agreement": Out(PM_AGREEMENT), "other": In(PM_AGREEMENT),
            "set": In(1), "set_to": In(LANES_IN_USE),
            "lanes": Out(LANES_IN_USE, init={"active": (1 << lanes) - 1, "width": (lanes - 1).bit_length()}),
            "state": Out(State), "changed": Out(1), "since": Out(64), "lanes_changed": Out(1), "speed": Out(1), "rates": Out(8),
            "forget": Out(1), "leaving": Out(1), "heard": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        # The training sequence of this clock comes from the first wire that has one. Unused wires may go on polling.
        counts = Signal(self._lanes)
        seen = Signal(TRAINING_SET)
        numbered = Signal(self._lanes)
        last = self._lanes - 1
        shows, leads = Signal(self._lanes), Signal()
        missed_by = [Signal(range(_MISSED), name=f"missed{n}") for n in range(self._lanes)]
        # Lane 0 is on the first or the last wire. Its training sequences measure how long the other wires have had none.
        m.d.comb += [counts.eq(self.found), leads.eq(Mux(missed_by[0] == _MISSED - 1, shows[last], shows[0]))]
        for n, missed in reversed(list(enumerate(missed_by))):
            misses = leads if n else shows[last]
            m.d.comb += shows[n].eq(self.found[n] & ~self.values[n].link_pad & ~self.values[n].lane_pad)
            with m.If(self.found[n]):
                m.d.sync += missed.eq(0)
            with m.Elif(misses):
                m.d.sync += missed.eq(Mux(missed == _MISSED - 1, missed, missed + 1))
            # A link that becomes narrower is silent on the other wires, or noise keeps their lock for some time.
            with m.If(~self.locked[n] | (misses & (missed == _MISSED - 1))):
                m.d.sync += numbered[n].eq(0)
            with m.If(self.found[n]):
                m.d.comb += seen.eq(self.values[n])
                m.d.sync += numbered[n].eq(shows[n])
        self._states(m, counts.any(), seen)
        self._wires(m, counts, numbered)
        return m

    def _states(self, m: Module, found, seen) -> None:
        state = self.state
        agreement, asked = self.agreement, Signal(_LOW)
        granted, to_sleep = agreement.granted | self.other.granted, agreement.ready | self.other.ready
        locked_at, silence, silent = Signal(_SILENCE_BITS), Signal(_SILENCE_BITS), Signal()
        kind = self.dllps.payload.body[:8]
        # An EIOS is interpreted once the DLLPs before it have come through. The change still has the tick of the EIOS.
        ending, ending_tick = Signal(range(_DLLPS + 1)), Signal(64)
        with m.If((self.eios & self.lanes.active).any() & (ending == 0)):
            m.d.sync += [ending.eq(_DLLPS), ending_tick.eq(self.sets_tick)]
        with m.Elif(ending != 0):
            m.d.sync += ending.eq(ending - 1)
        # A packet that leaves the receiver late says nothing about the state after an ordered set that was sent later.
        last, behind = Signal(_LOW), Signal(range(_BEHIND + 1))
        with m.If(found | self.eios.any()):
            m.d.sync += [last.eq(self.sets_tick[:_LOW]), behind.eq(_BEHIND)]
        with m.Elif(behind != 0):
            m.d.sync += behind.eq(behind - 1)

        def later(tick, than):
            return (than - tick[:_LOW])[_LOW - 1]

        # Evaluated a clock later; ignored in the clock of an ordered set.
        evidence, since = Signal(), Signal(64)
        m.d.sync += evidence.eq(0)
        for strobe, tick in ((self.idle, self.idle_tick), (self.tlp, self.tlp_tick), (self.dllps.valid, self.dllps.payload.tick)):
            with m.If(strobe & ((behind == 0) | later(tick, last))):
                m.d.sync += [evidence.eq(~found & ~self.eios.any()), since.eq(tick)]
        m.d.sync += self.changed.eq(0)
        long = Signal()
        m.d.comb += silence.eq(self.now - locked_at)
        m.d.sync += long.eq(silence > SILENCE_TICKS)
        with m.If(self.locked.any()):
            m.d.sync += [locked_at.eq(self.now), silent.eq(0)]
        with m.Elif(long):  # held, because the low bits wrap around
            m.d.sync += silent.eq(1)
        with m.If((self.tlp & later(self.tlp_tick, asked)) | found):  # a TLP's verdict comes later than a DLLP's
            m.d.sync += agreement.eq(0)
        with m.If(self.dllps.valid & ((kind == _PM_ACK) | (kind == _PM_ENTER_L23))):
            m.d.sync += asked.eq(self.dllps.payload.tick[:_LOW])
            with m.If(kind == _PM_ACK):
                m.d.sync += agreement.granted.eq(1)
            with m.Else():
                m.d.sync += agreement.ready.eq(1)
        with m.If(self.dllps.valid & ((kind == _PM_ENTER_L1) | (kind == _PM_REQUEST_L1))):
            m.d.sync += agreement.ready.eq(0)

        def go(there, since=self.sets_tick):
            return [state.eq(there), self.changed.eq(state.as_value() != Value.cast(there)), self.since.eq(since)]

        configuring = (state == State.DETECT) | (state == State.POLLING) | (state == State.CONFIG)
        announced = (state == State.L0S) | (state == State.L1) | (state == State.UNKNOWN) | (state == State.DETECT)
        with m.If(self.down | (~announced & (silent | long))):
            m.d.sync += go(State.DETECT, self.now)
        with m.Elif(found):
            with m.If(seen.link_pad):
                with m.If(state != State.CONFIG):
                    m.d.sync += go(State.POLLING)
            with m.Elif(seen.lane_pad):
                m.d.sync += go(State.CONFIG)
            with m.Elif(((state == State.RECOVERY) | (state == State.DETECT)) & (seen.control & _GOES_DOWN).any()):
                m.d.sync += go(State.DETECT)
            with m.Else():
                m.d.sync += go(Mux(configuring, State.CONFIG.value, State.RECOVERY.value))
        with m.Elif(ending == 1):
            # A direction may wake from L0s for no more than PM_Request_Ack. Its DLLP shows the L0 that was too short to be seen.
            with m.If((state == State.L0) | ((state == State.L0S) & agreement.granted)):
                m.d.sync += go(Mux(granted, Mux(to_sleep, State.DETECT.value, State.L1.value), State.L0S.value), ending_tick)
        with m.Elif(evidence & ~self.eios.any() & (state != State.POLLING)):
            m.d.sync += go(State.L0, since)
            with m.If(state != State.L0):
                m.d.sync += agreement.eq(0)
        # Not in CONFIG: RECOVERY may lead there and back with the data link layer up.
        m.d.comb += self.forget.eq(self.changed & ((state == State.DETECT) | (state == State.POLLING)))

        # Training sequences ask for a change of speed; report it once for each stay in RECOVERY.
        told, rates, recovering = Signal(), Signal(7), state == State.RECOVERY
        m.d.comb += self.rates.eq(Cat(rates, told))
        m.d.sync += self.speed.eq(0)
        with m.If(found):
            m.d.sync += rates.eq(seen.rates)
        with m.If(~recovering):
            m.d.sync += told.eq(0)
        with m.Elif(found & seen.rates[7] & ~told):
            m.d.sync += [told.eq(1), self.speed.eq(1)]
        # An EIOS of the clock of a training sequence came after this sequence: both may end in one word.
        with m.If(~recovering):
            m.d.sync += self.leaving.eq(0)
        with m.Elif((self.eios & self.lanes.active).any()):
            m.d.sync += self.leaving.eq(1)
        with m.Elif(found):
            m.d.sync += self.leaving.eq(0)
        quiet = Signal(range(_HEARD + 1))
        m.d.comb += self.heard.eq(quiet != 0)
        with m.If(found | self.tlp | self.dllps.valid):
            m.d.sync += quiet.eq(_HEARD)
        with m.Elif(quiet != 0):
            m.d.sync += quiet.eq(quiet - 1)

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
        m.d.comb += [
            used.active.eq(numbered),
            used.reverse.eq(reverse),
            used.bypass.eq(bypass),
            used.width.eq(Mux(many >= 4, 2, Mux(many >= 2, 1, 0))),
        ]
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
