"""One direction of a link at 2.5 and 5 GT/s: words of the deserialisers -> TLPs, events, counters."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..layouts import tlp_beat
from ..pcs import Deskew, LaneReceiver
from ..pcs import deskew as pcs_deskew
from ..pcs import lane as pcs_lane
from .events import LINK_EVENT, EventQueue, LinkEvent, of_interest
from .framer import FAULTS, Framer
from .ltssm import LANES_IN_USE, LinkTracker, State
from .store import Fate, TlpStore
from .training import OrderedSetReader

__all__ = ["COUNTERS", "LATENCY", "Receiver"]

LATENCY = pcs_lane.LATENCY + pcs_deskew.LATENCY
"""Clocks from a word of the deserialisers to the word of the framer that ends with the same symbol (if no lane is earlier)."""

_COUNTED = ("tlps", "dllps", "duplicates", "lost", "late", "nullified", "bad_lcrc", "bad_frames", "bad_dllps", "headless", "dropped",
            "lost_events", "bad_words")  # fmt: skip
COUNTERS = data.StructLayout(dict.fromkeys(_COUNTED, 32))
"""Since power-on, modulo 2^32.

- ``tlps``: delivered. ``dllps``: with the right CRC. ``duplicates``: TLPs of replays, delivered before.
- ``lost``: numbers passed over. ``late``: delivered after they counted as lost.
- ``nullified``, ``bad_lcrc``: ended frames of TLPs. ``bad_frames``: frames given up, or shorter than any TLP.
- ``bad_dllps``. ``headless``: ends without a frame.
- ``dropped``: good, but no room: TLPs, DLLPs, and words of the framer's queue. ``lost_events``: events without room.
- ``bad_words``: words of a lane in use and in lock in which a symbol had an error.
"""


class Receiver(wiring.Component):
    """A tap on one direction. Everything in it runs on one clock, in which a word of each lane may come.

    A TLP's tick is the tick of the clock in which the word came that holds the first bit of its STP on lane 0, plus that bit's place in
    the word: the constant delay of everything here is taken off, as are lane 0's deskew delay and the place of the symbol
    boundary in the word, which change from one training to the next. Bits of a word are taken to come at equal distances from
    that tick on. Resolution: a symbol time for the place in the word, a tick (rounded down) for the boundary. Where words come with gaps
    between them the tick is that of the word as it came.

    Parameters
    ----------
    lanes : wires, 1, 2 or 4. symbols : symbols of a lane in a word, 2 or 4. ticks_per_clock : what ``now`` grows by each clock.

    Ports
    -----
    raw : words of 10 * `symbols` bits of every wire, first bit received in bit 0; ``raw_valid``.
    now : tick counter. fast : 5 GT/s, else 2.5 GT/s. down : PERST# is asserted.
    polarity_set, polarity : of every wire, see :class:`~wattbell_gateware.pcs.PolarityDetector`. lanes_set, lanes_to : see
        :class:`.ltssm.LinkTracker`. Both only for a tap that attaches to a link that is up.
    tlps : :func:`wattbell_gateware.layouts.tlp_beat`, at least 64 bits, a quad of symbols each 32; ``error`` never set.
    pending, pending_tick : see :class:`.store.TlpStore`.
    events : :data:`.events.LINK_EVENT`. counters : :data:`COUNTERS`. state, lanes : see :class:`.ltssm.LinkTracker`.
    aligned : lanes are side by side. locked, inverted : of every wire.
    """

    def __init__(self, lanes: int, symbols: int, *, ticks_per_clock: int):
        self._lanes, self._symbols, self._ticks = lanes, symbols, ticks_per_clock
        self._framer = Framer(lanes, symbols)
        beats = self._framer.tlps.payload.shape()["data"].width
        self._width = max(64, beats)
        self._beats = beats
        super().__init__({
            "raw": In(data.ArrayLayout(10 * symbols, lanes)), "raw_valid": In(1), "now": In(64), "fast": In(1), "down": In(1),
            "polarity_set": In(1), "polarity": In(lanes), "lanes_set": In(1), "lanes_to": In(LANES_IN_USE),
            "tlps": Out(stream.Signature(tlp_beat(self._width), always_ready=True)), "pending": Out(1), "pending_tick": Out(64),
            "events": Out(stream.Signature(LINK_EVENT)), "counters": Out(COUNTERS),
            "state": Out(State), "lanes": Out(LANES_IN_USE), "aligned": Out(1), "locked": Out(lanes), "inverted": Out(lanes),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.deskew = deskew = Deskew(self._lanes, self._symbols)
        m.submodules.framer = framer = self._framer
        m.submodules.store = store = TlpStore(self._beats)
        m.submodules.tracker = tracker = LinkTracker(self._lanes)
        offsets, bad = self._wires(m, deskew, tracker)
        use = tracker.lanes
        m.d.comb += [
            deskew.active.eq(use.active), deskew.reverse.eq(use.reverse), self.aligned.eq(deskew.aligned),
            framer.width.eq(use.width), framer.enable.eq(deskew.aligned), framer.fast.eq(self.fast),
            framer.tick.eq(self.now - self._late(m, deskew, use, offsets)),
            self.lanes.eq(use), self.state.eq(tracker.state),
            tracker.now.eq(self.now), tracker.down.eq(self.down), tracker.set.eq(self.lanes_set), tracker.set_to.eq(self.lanes_to),
            tracker.idle.eq(self._idle(m, deskew, use)), tracker.dllps.payload.eq(framer.dllps.payload),
            tracker.dllps.valid.eq(framer.dllps.valid), store.forget.eq(tracker.forget), store.begin.eq(self._begins(framer.dllps)),
            self.pending.eq(store.pending), self.pending_tick.eq(store.pending_tick),
        ]  # fmt: skip
        connect(m, deskew.out, framer.word)
        connect(m, framer.tlps, store.frames)
        connect(m, store.tlps, flipped(self.tlps))
        fate = store.fates
        good = fate.valid & (fate.payload.fate != Fate.BAD_LCRC) & (fate.payload.fate != Fate.BAD_FRAME)
        m.d.comb += [tracker.tlp.eq(good), tracker.intact.eq(good | framer.dllps.valid)]
        lost_events = self._events(m, tracker, framer, fate)
        self._count(m, framer, fate, lost_events, bad)
        return m

    def _wires(self, m: Module, deskew, tracker):
        """Every wire up to the deskew."""
        lanes, bad = [], []
        for n in range(self._lanes):
            m.submodules[f"lane{n}"] = lane = LaneReceiver(self._symbols)
            m.submodules[f"sets{n}"] = sets = OrderedSetReader(self._symbols)
            lanes.append(lane)
            bad.append(lane.bad & lane.locked & tracker.lanes.active[n])
            m.d.comb += [
                lane.raw.payload.eq(self.raw[n]), lane.raw.valid.eq(self.raw_valid), lane.bypass.eq(tracker.lanes.bypass),
                lane.polarity_set.eq(self.polarity_set), lane.polarity.eq(self.polarity[n]),
                sets.symbols.payload.eq(lane.out.payload), sets.symbols.valid.eq(lane.out.valid),
                tracker.found[n].eq(sets.found), tracker.values[n].eq(sets.value), tracker.eios[n].eq(sets.eios),
                tracker.fts[n].eq(sets.fts), tracker.locked[n].eq(lane.locked),
                deskew.lanes.payload[n].eq(lane.out.payload), deskew.locked[n].eq(lane.locked),
                self.locked[n].eq(lane.locked), self.inverted[n].eq(lane.inverted),
            ]  # fmt: skip
        m.d.comb += deskew.lanes.valid.eq(lanes[0].out.valid)
        return [lane.offset for lane in lanes], bad

    def _late(self, m: Module, deskew, use, offsets):
        """Ticks from the first bit of an aligned word's lane 0 to the clock in which the framer has the word."""
        last = self._lanes - 1
        offset, delay, late = Signal(4), Signal(3), Signal(16)
        m.d.comb += offset.eq(Mux(use.reverse, offsets[last], offsets[0]))
        m.d.comb += delay.eq(Mux(use.reverse, deskew.delay[last], deskew.delay[0]))
        # The aligned word began 9 - offset bits before the raw word it ended with; a bit is 2/5 or 1/5 of a tick.
        bits = Signal(3)
        with m.Switch(Cat(offset, self.fast)):
            for fast in (0, 1):
                for value in range(10):
                    with m.Case(value | fast << 4):
                        m.d.comb += bits.eq(-(-(9 - value) * (1 if fast else 2) // 5))
        m.d.sync += late.eq(LATENCY * self._ticks + bits + Mux(self.fast, delay << 1, delay << 2))
        return late

    def _idle(self, m: Module, deskew, use):
        """Eight symbol times of logical idle on all lanes in use."""
        word = deskew.out.payload
        zero = [[~s.plain & (s.as_value()[:10] == 0) for s in word[n]] for n in range(self._lanes)]
        by_width = Array(Cat(*zero[: 1 << log]).all() for log in range(3))
        run = Signal(range(8 // self._symbols + 1))
        with m.If(deskew.out.valid):
            with m.If(~deskew.aligned | ~by_width[use.width]):
                m.d.sync += run.eq(0)
            with m.Elif(run != 8 // self._symbols):
                m.d.sync += run.eq(run + 1)
        return run == 8 // self._symbols

    @staticmethod
    def _begins(dllps):
        """InitFC1 of VC 0, which is sent before the first TLP only: sequence numbers start at 0 behind it (Base 2.1, 3.2.1, 3.3)."""
        kind = dllps.payload.body[:8]
        return dllps.valid & kind.matches("01000000", "01010000", "01100000")

    def _events(self, m: Module, tracker, framer, fate):
        """Everything that is told; how many found no room."""
        m.submodules.queue = queue = EventQueue(5)
        connect(m, queue.out, flipped(self.events))
        m.d.comb += [getattr(queue, f"i{n}").payload.tick.eq(self.now) for n in (0, 3)]

        lanes_wait = Signal()
        link = queue.i0
        m.d.comb += link.valid.eq(tracker.changed | tracker.speed | lanes_wait)
        m.d.sync += lanes_wait.eq(tracker.lanes_changed | (lanes_wait & (tracker.changed | tracker.speed)))
        with m.If(tracker.changed):
            m.d.comb += link.payload.tick.eq(tracker.since)
            m.d.comb += [link.payload.kind.eq(LinkEvent.STATE), link.payload.argument.eq(tracker.state)]
        with m.Elif(tracker.speed):
            m.d.comb += [link.payload.kind.eq(LinkEvent.SPEED), link.payload.argument.eq(tracker.rates)]
        with m.Else():
            m.d.comb += [link.payload.kind.eq(LinkEvent.LANES), link.payload.argument.eq(tracker.lanes)]

        dllp, told = queue.i1, framer.dllps
        wanted = of_interest(m, told.payload.body, dllp.payload.kind, dllp.payload.argument)
        m.d.comb += [dllp.valid.eq(told.valid & wanted), dllp.payload.tick.eq(told.payload.tick)]

        tlp, what = queue.i2, fate.payload
        m.d.comb += [
            tlp.valid.eq(fate.valid & ((what.fate != Fate.DELIVERED) | (what.lost != 0))), tlp.payload.tick.eq(what.tick),
            tlp.payload.argument.eq(Cat(what.sequence, what.lost)),
        ]  # fmt: skip
        with m.Switch(what.fate):
            for of, kind in ((Fate.DELIVERED, LinkEvent.LOST), (Fate.LATE, LinkEvent.RECOVERED), (Fate.DUPLICATE, LinkEvent.DUPLICATE),
                             (Fate.NULLIFIED, LinkEvent.NULLIFIED), (Fate.BAD_LCRC, LinkEvent.BAD_LCRC),
                             (Fate.BAD_FRAME, LinkEvent.BAD_FRAME), (Fate.NO_ROOM, LinkEvent.NO_ROOM)):  # fmt: skip
                with m.Case(of):
                    m.d.comb += tlp.payload.kind.eq(kind)

        new = queue.i4
        m.d.comb += [
            new.valid.eq(fate.valid & ((what.fate == Fate.DELIVERED) | (what.fate == Fate.LATE) | (what.fate == Fate.NO_ROOM))),
            new.payload.tick.eq(what.tick), new.payload.kind.eq(LinkEvent.TLP), new.payload.argument.eq(what.sequence),
        ]  # fmt: skip

        faults = Signal(FAULTS)
        m.d.comb += [
            faults.eq(framer.faults), faults.stray.eq(0),
            queue.i3.valid.eq(faults.as_value() != 0), queue.i3.payload.kind.eq(LinkEvent.FAULTS), queue.i3.payload.argument.eq(faults),
        ]  # fmt: skip
        return queue.lost

    def _count(self, m: Module, framer, fate, lost_events, bad) -> None:
        what, faults = fate.payload.fate, framer.faults
        is_ = {of: fate.valid & (what == of) for of in Fate}
        adds = {
            "tlps": is_[Fate.DELIVERED] | is_[Fate.LATE], "dllps": framer.dllps.valid, "duplicates": is_[Fate.DUPLICATE],
            "lost": Mux(is_[Fate.DELIVERED] | is_[Fate.NO_ROOM], fate.payload.lost, 0), "late": is_[Fate.LATE],
            "nullified": is_[Fate.NULLIFIED], "bad_lcrc": is_[Fate.BAD_LCRC], "bad_frames": faults.broken + faults.short,
            "bad_dllps": faults.bad_dllp, "headless": faults.headless,
            "dropped": is_[Fate.NO_ROOM] + faults.lost_dllps + faults.overrun, "lost_events": lost_events, "bad_words": sum(bad),
        }  # fmt: skip
        m.d.sync += [self.counters[name].eq(self.counters[name] + adds[name]) for name in _COUNTED]
