"""One direction of a link at 2.5, 5 and 8 GT/s: from the words of the deserialisers to TLPs, events and counters."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from wattbell_spec.link_events import LinkEvent

from ..layouts import tlp_beat
from .block_receiver import BlockReceiver
from .events import LINK_EVENT, EventQueue, of_interest
from .framer import FAULTS
from .layouts import DLLP
from .ltssm import LANES_IN_USE, PM_AGREEMENT, LinkTracker, State
from .store import Fate, TlpStore
from .symbol_receiver import LATENCY, SymbolReceiver

__all__ = ["COUNTERS", "LATENCY", "Receiver"]

_COUNTED = ("tlps", "dllps", "duplicates", "lost", "late", "nullified", "bad_lcrc", "bad_frames", "bad_dllps", "headless", "dropped",
            "lost_events", "bad_words", "unlocked", "bad_headers", "corrected_tokens", "lost_tokens", "corrected_registers",
            "damaged_skips", "bad_parity", "lanes_differ")  # fmt: skip
COUNTERS = data.StructLayout(dict.fromkeys(_COUNTED, 32))
"""Counters since power-on, modulo 2^32.

At any speed:

- ``tlps``: TLPs delivered.
- ``dllps``: DLLPs with the right CRC.
- ``duplicates``: TLPs of replays that were delivered before.
- ``lost``: sequence numbers passed over.
- ``late``: TLPs delivered after they counted as lost.
- ``nullified``: nullified TLPs.
- ``bad_lcrc``: TLPs that ended with a bad LCRC.
- ``bad_frames``: frames given up, or (2.5 and 5 GT/s) shorter than any TLP.
- ``bad_dllps``: DLLPs with a wrong CRC.
- ``dropped``: good items without room: TLPs, DLLPs, words of the framer's queue, and beats of TLPs on their way to the instrument.
  At 8 GT/s also the times that the queues of the lanes were full; the stream is then lost up to the next SKP ordered set.
- ``lost_events``: events without room.
- ``unlocked``: times that a lane in use lost its symbols or blocks, or found them elsewhere. Electrical idle also counts.

At 2.5 and 5 GT/s:

- ``headless``: ends without a frame.
- ``bad_words``: words with a symbol error, on a lane in use and in lock.

At 8 GT/s, see :data:`.block_receiver.BLOCK_EVENTS`. Counts of blocks and of SKP ordered sets add up the lanes, except
``lanes_differ``.

- ``bad_headers``: blocks with a wrong sync header.
- ``corrected_tokens``: tokens with one wrong bit, which was corrected.
- ``lost_tokens``: times that a token was missing where one must be. It corresponds to ``headless`` at the other speeds.
- ``corrected_registers``: SKP ordered sets with another scrambler register than the descrambler's.
- ``damaged_skips``: SKP ordered sets with a wrong register or end.
- ``bad_parity``: SKP ordered sets with another parity than the data blocks before.
- ``lanes_differ``: blocks that the lanes disagree on.
"""
_SETTLE = 64
"""Clocks without input at a change of the rate. The old receiver empties before the new receiver can have output."""
_LOCK_EVERY = 256
"""Clocks between two LOCK events. A receiver without a signal would otherwise fill the queue with them."""


class Receiver(wiring.Component):
    """Taps one direction of a link. All of it runs on one clock, in which one word of each lane may come.

    A TLP's tick belongs to the first bit of its STP on lane 0: the tick of the clock in which the word with that bit came, plus the
    place of the bit in the word. The receiver subtracts its own constant delay. It also subtracts three delays that change from one
    training to the next: lane 0's deskew delay, waiting times in queues, and the place of the symbol or block boundary in the word.
    The bits of a word are assumed to come at equal distances from that tick on. The tick is rounded down at every speed, whatever
    the bit, skew and wires. It is early by 0 to 0.8 ns at 2.5 and 5 GT/s (a bit takes 0.4 and 0.2 ns), and by 0 to 0.875 ns at 8
    GT/s (0.125 ns). If words come with gaps between them, the tick is the word's own.

    A change of ``rate`` ends an open frame as BAD_FRAME and stops the input for 64 clocks. Sequence numbers, lanes in use and
    polarity stay.

    Parameters
    ----------
    lanes : wires: 1, 2 or 4.
    symbols : symbols of a lane in a word of 8b/10b: 2 or 4. Must be 4 with `blocks`, otherwise :class:`ValueError`.
    ticks_per_clock : increment of ``now`` a clock.
    blocks : receive 8 GT/s too, in words of four symbols. 8b/10b words may then come in any clocks (at 250 MHz, in every second
        clock at 5 GT/s, in every fourth at 2.5).
    tick_bits : bits of the ticks that come out. Synthesis removes the other bits.
    bytes_kept : bytes of TLPs that wait for their LCRC, see :class:`.store.TlpStore`.

    Ports
    -----
    raw : words of 10 * `symbols` bits of every wire, first received bit in bit 0.
    raw_valid : ``raw`` is valid in this clock.
    raw8 : with `blocks`: 32 bits of every wire at 8 GT/s, first received bit in bit 0.
    raw8_valid : with `blocks`: ``raw8`` is valid in this clock.
    now : tick counter.
    rate : 0: 2.5 GT/s; 1: 5 GT/s; 2: 8 GT/s (only with `blocks`).
    down : PERST# is asserted.
    polarity_set : strobe: set the polarity, for a tap that attaches to a link that is up. 8 GT/s does not need it.
    polarity : polarity of every wire, see :class:`~wattbell_gateware.pcs.PolarityDetector`.
    lanes_set : strobe: set the lanes, for a tap that attaches to a link that is up.
    lanes_to : lanes to set, see :class:`.ltssm.LinkTracker`.
    tlps : :func:`wattbell_gateware.layouts.tlp_beat`, at least 64 bits, 32 bits for each quad of symbols of a word. ``error`` is
        never set.
    pending : TLPs have begun and not left. TLPs that began in the last 60 clocks may be missing.
    pending_tick : no pending TLP began before this tick. It may be too early.
    pending_known : low: ``pending_tick`` is 0.
    lost_behind : strobe: a beat of ``tlps`` found no room on its way to the instrument. The receiver counts it.
    events : :data:`.events.LINK_EVENT`.
    counters : :data:`COUNTERS`.
    state : see :class:`.ltssm.LinkTracker`.
    lanes : see :class:`.ltssm.LinkTracker`.
    rates : see :class:`.ltssm.LinkTracker`; for the part that sets ``rate``.
    leaving : see :class:`.ltssm.LinkTracker`; for the part that sets ``rate``.
    heard : see :class:`.ltssm.LinkTracker`; for the part that sets ``rate``.
    agreement : see :class:`.ltssm.LinkTracker`; for the other direction's receiver.
    other : ``agreement`` of the other direction's receiver.
    aligned : the lanes are deskewed.
    locked : every wire has lock at the current rate.
    inverted : every wire has inverted polarity at the current rate.
    """

    def __init__(
        self,
        lanes: int,
        symbols: int,
        *,
        ticks_per_clock: int,
        blocks: bool = False,
        tick_bits: int = 64,
        bytes_kept: int = 8192,
    ) -> None:
        self._tick_bits, self._bytes_kept = tick_bits, bytes_kept
        if blocks and symbols != 4:
            raise ValueError(f"with 8 GT/s a word has 4 symbols of a lane, not {symbols!r}")
        self._lanes = lanes
        self.symbols = SymbolReceiver(lanes, symbols, ticks_per_clock=ticks_per_clock)
        self.blocks = BlockReceiver(lanes) if blocks else None
        self._beats = self.symbols.frames.payload.shape()["data"].width
        ports = {"raw8": In(data.ArrayLayout(32, lanes)), "raw8_valid": In(1)} if blocks else {}
        super().__init__({
            "raw": In(data.ArrayLayout(10 * symbols, lanes)), "raw_valid": In(1), **ports, "now": In(64), "rate": In(2), "down": In(1),
            "polarity_set": In(1), "polarity": In(lanes), "lanes_set": In(1), "lanes_to": In(LANES_IN_USE),
            "tlps": Out(stream.Signature(tlp_beat(max(64, self._beats)), always_ready=True)), "pending": Out(1), "pending_known": Out(1),
            "pending_tick": Out(64), "lost_behind": In(1),
            "events": Out(stream.Signature(LINK_EVENT)), "counters": Out(COUNTERS),
            "state": Out(State), "lanes": Out(LANES_IN_USE), "rates": Out(8), "leaving": Out(1), "heard": Out(1),
            "agreement": Out(PM_AGREEMENT), "other": In(PM_AGREEMENT),
            "aligned": Out(1), "locked": Out(lanes), "inverted": Out(lanes),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.symbols = symbols = self.symbols
        m.submodules.store = store = TlpStore(self._beats, bytes_kept=self._bytes_kept, tick_bits=self._tick_bits)
        m.submodules.tracker = tracker = LinkTracker(self._lanes)
        rate, enable = self._rate(m)
        at_8 = rate == 2
        use = tracker.lanes
        m.d.comb += [
            symbols.raw.eq(self.raw),
            symbols.valid.eq(self.raw_valid),
            symbols.now.eq(self.now),
            symbols.fast.eq(rate[0]),
            symbols.enable.eq(enable & ~at_8),
            symbols.lanes.eq(use),
            symbols.polarity_set.eq(self.polarity_set),
            symbols.polarity.eq(self.polarity),
            self.lanes.eq(use),
            self.state.eq(tracker.state),
            self.rates.eq(tracker.rates),
            self.leaving.eq(tracker.leaving),
            self.heard.eq(tracker.heard),
            self.agreement.eq(tracker.agreement),
            tracker.other.eq(self.other),
        ]
        # The tracker sees everything a clock later, because it is far from its sources.
        m.d.sync += [
            tracker.locked.eq(self.locked),
            tracker.now.eq(self.now),
            tracker.down.eq(self.down),
            tracker.set.eq(self.lanes_set),
            tracker.set_to.eq(self.lanes_to),
        ]
        shared = ("found", "values", "eios", "sets_tick", "idle", "idle_tick")
        frames, dllps = store.frames, stream.Signature(DLLP, always_ready=True).create()
        m.d.sync += [getattr(tracker, name).eq(getattr(symbols, name)) for name in shared]
        m.d.comb += [
            *(getattr(self, name).eq(getattr(symbols, name)) for name in ("aligned", "locked", "inverted")),
            *(getattr(self, name).eq(getattr(store, name)) for name in ("pending", "pending_known", "pending_tick")),
        ]
        for into, name in ((frames, "frames"), (dllps, "dllps")):
            source = getattr(symbols, name)
            m.d.comb += [into.valid.eq(source.valid), into.payload.eq(source.payload)]
        if self.blocks is not None:
            m.submodules.blocks = blocks = self.blocks
            m.d.comb += [
                blocks.raw.eq(self.raw8),
                blocks.valid.eq(self.raw8_valid),
                blocks.tick.eq(self.now),
                blocks.enable.eq(enable & at_8),
                blocks.width.eq(use.width),
                blocks.reverse.eq(use.reverse),
            ]
            with m.If(at_8):
                m.d.sync += [getattr(tracker, name).eq(getattr(blocks, name)) for name in shared]
                m.d.comb += [*(getattr(self, name).eq(getattr(blocks, name)) for name in ("aligned", "locked", "inverted"))]
            # After a change of the rate, one receiver empties before the other has output.
            for into, name in ((frames, "frames"), (dllps, "dllps")):
                source = getattr(blocks, name)
                with m.If(source.valid):
                    m.d.comb += [into.valid.eq(1), into.payload.eq(source.payload)]
            with m.If(blocks.pending):
                m.d.comb += self.pending.eq(1)
                with m.If(~store.pending):
                    m.d.comb += self.pending_tick.eq(blocks.pending_tick)
        connect(m, store.tlps, flipped(self.tlps))
        fate = store.fates
        good = fate.valid & (fate.payload.fate != Fate.BAD_LCRC) & (fate.payload.fate != Fate.BAD_FRAME)
        # A TLP after such an event is judged some clocks later still.
        m.d.sync += [store.forget.eq(tracker.forget), store.begin.eq(self._begins(dllps))]
        m.d.sync += [
            tracker.dllps.payload.eq(dllps.payload),
            tracker.dllps.valid.eq(dllps.valid),
            tracker.tlp.eq(good),
            tracker.tlp_tick.eq(fate.payload.tick),
        ]
        lost_events = self._events(m, tracker, dllps, fate, rate, enable)
        self._count(m, dllps, fate, lost_events, rate, enable)
        return m

    def _rate(self, m: Module):
        """Return the rate at which the current output was received, and whether input is taken."""
        wanted, rate, wait = Signal(2), Signal(2), Signal(range(_SETTLE))
        with m.If(self.rate != wanted):
            m.d.sync += [wanted.eq(self.rate), wait.eq(_SETTLE - 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 1):
                m.d.sync += rate.eq(wanted)
        enable = Signal()
        m.d.sync += enable.eq((self.rate == wanted) & (wait == 0))  # high fan-out
        return rate, enable

    @staticmethod
    def _begins(dllps):
        """Return whether the DLLP is InitFC1 of VC 0, which is sent only before the first TLP.

        Sequence numbers start at 0 after it (PCIe Base 2.1, 3.2.1, 3.3).
        """
        kind = dllps.payload.body[:8]
        return dllps.valid & kind.matches("01000000", "01010000", "01100000")

    def _events(self, m: Module, tracker, dllps, fate, rate, enable):
        """Queue all events; return how many found no room."""
        m.submodules.queue = queue = EventQueue(5, tick_bits=self._tick_bits)
        connect(m, queue.out, flipped(self.events))
        sources = [queue.i0.signature.flip().create(path=(f"event{n}",)) for n in range(5)]
        for n, source in enumerate(sources):  # signals that settle late in a clock are queued in the next
            m.d.sync += [getattr(queue, f"i{n}").valid.eq(source.valid), getattr(queue, f"i{n}").payload.eq(source.payload)]
        m.d.comb += [sources[n].payload.tick.eq(self.now) for n in (0, 3)]

        link = sources[0]
        lock, told_lock, pause = Cat(self.locked, self.aligned), Signal(self._lanes + 1), Signal(range(_LOCK_EVERY))
        told_rate = Signal(2)
        lanes_wait, lock_wait, rate_wait = Signal(), Signal(), Signal()
        m.d.comb += [lock_wait.eq((lock != told_lock) & (pause == 0)), rate_wait.eq(enable & (rate != told_rate))]
        m.d.comb += link.valid.eq(tracker.changed | tracker.speed | lanes_wait | rate_wait | lock_wait)
        m.d.sync += lanes_wait.eq(tracker.lanes_changed | (lanes_wait & (tracker.changed | tracker.speed)))
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(tracker.changed):
            m.d.comb += link.payload.tick.eq(tracker.since)
            m.d.comb += [link.payload.kind.eq(LinkEvent.STATE), link.payload.argument.eq(tracker.state)]
        with m.Elif(tracker.speed):
            m.d.comb += [link.payload.kind.eq(LinkEvent.SPEED), link.payload.argument.eq(tracker.rates)]
        with m.Elif(lanes_wait):
            m.d.comb += [link.payload.kind.eq(LinkEvent.LANES), link.payload.argument.eq(tracker.lanes)]
        with m.Elif(rate_wait):
            m.d.comb += [link.payload.kind.eq(LinkEvent.RATE), link.payload.argument.eq(rate)]
            m.d.sync += told_rate.eq(rate)
        with m.Else():
            m.d.comb += [link.payload.kind.eq(LinkEvent.LOCK), link.payload.argument.eq(Cat(self.locked | Const(0, 4), self.aligned))]
            with m.If(lock_wait):
                m.d.sync += [told_lock.eq(lock), pause.eq(_LOCK_EVERY - 1)]

        dllp, told = sources[1], dllps
        wanted = of_interest(m, told.payload.body, dllp.payload.kind, dllp.payload.argument)
        m.d.comb += [dllp.valid.eq(told.valid & wanted), dllp.payload.tick.eq(told.payload.tick)]

        tlp, what = sources[2], fate.payload
        m.d.comb += [
            tlp.valid.eq(fate.valid & ((what.fate != Fate.DELIVERED) | (what.lost != 0))),
            tlp.payload.tick.eq(what.tick),
            tlp.payload.argument.eq(Cat(what.sequence, what.lost)),
        ]
        with m.Switch(what.fate):
            for of, kind in (
                (Fate.DELIVERED, LinkEvent.LOST),
                (Fate.LATE, LinkEvent.RECOVERED),
                (Fate.DUPLICATE, LinkEvent.DUPLICATE),
                (Fate.NULLIFIED, LinkEvent.NULLIFIED),
                (Fate.BAD_LCRC, LinkEvent.BAD_LCRC),
                (Fate.BAD_FRAME, LinkEvent.BAD_FRAME),
                (Fate.NO_ROOM, LinkEvent.NO_ROOM),
            ):
                with m.Case(of):
                    m.d.comb += tlp.payload.kind.eq(kind)

        new = sources[4]
        m.d.comb += [
            new.valid.eq(fate.valid & ((what.fate == Fate.DELIVERED) | (what.fate == Fate.LATE) | (what.fate == Fate.NO_ROOM))),
            new.payload.tick.eq(what.tick),
            new.payload.kind.eq(LinkEvent.TLP),
            new.payload.argument.eq(what.sequence),
        ]

        faults, wrong = Signal(FAULTS), sources[3]
        m.d.comb += [
            faults.eq(self.symbols.faults),
            faults.stray.eq(0),
            wrong.valid.eq(faults.as_value() != 0),
            wrong.payload.kind.eq(LinkEvent.FAULTS),
            wrong.payload.argument.eq(faults),
        ]
        if self.blocks is not None:
            met = self.blocks.events.as_value()
            with m.If(met != 0):
                m.d.comb += [wrong.valid.eq(1), wrong.payload.kind.eq(LinkEvent.BLOCK_FAULTS), wrong.payload.argument.eq(met)]
        return queue.lost

    def _count(self, m: Module, dllps, fate, lost_events, rate, enable) -> None:
        what, faults, active = fate.payload.fate, Signal(FAULTS), self.lanes.active
        m.d.sync += faults.eq(self.symbols.faults)
        is_ = {of: fate.valid & (what == of) for of in Fate}
        # The wires are far apart, so another register follows.
        locked, bad, before = (Signal(self._lanes, name=name) for name in ("locked_before", "bad", "before"))
        m.d.sync += [locked.eq(self.symbols.locked), bad.eq(self.symbols.bad), before.eq(locked & active)]
        adds = {
            "tlps": is_[Fate.DELIVERED] | is_[Fate.LATE],
            "dllps": dllps.valid,
            "duplicates": is_[Fate.DUPLICATE],
            "lost": Mux(is_[Fate.DELIVERED] | is_[Fate.NO_ROOM], fate.payload.lost, 0),
            "late": is_[Fate.LATE],
            "nullified": is_[Fate.NULLIFIED],
            "bad_lcrc": is_[Fate.BAD_LCRC],
            "bad_frames": faults.broken + faults.short,
            "bad_dllps": faults.bad_dllp,
            "headless": faults.headless,
            "dropped": is_[Fate.NO_ROOM] + faults.lost_dllps + faults.overrun + self.lost_behind,
            "lost_events": lost_events,
            "bad_words": _number(bad),
            "unlocked": _number(before & ~locked & enable.replicate(self._lanes)),
        }
        if self.blocks is not None:
            met = self.blocks.events
            # At 2.5 and 5 GT/s a frame counts when it is given up, whether or not a part of it comes out.
            adds["bad_frames"] += is_[Fate.BAD_FRAME] & (rate == 2)
            adds["bad_dllps"] += met.bad_dllp
            adds["dropped"] += met.overflow + met.lost_dllps
            adds["unlocked"] += _number(met.moved)
            adds |= {
                "bad_headers": _number(met.bad_header),
                "corrected_tokens": met.corrected_token,
                "lost_tokens": met.lost_token,
                "corrected_registers": _number(met.corrected_register),
                "damaged_skips": _number(met.damaged_skp),
                "bad_parity": _number(met.parity),
                "lanes_differ": met.lanes_differ,
            }
        for name, added in adds.items():
            add = Signal(fate.payload.lost.shape().width if name == "lost" else 4, name=f"add_{name}")
            m.d.sync += [add.eq(added), self.counters[name].eq(self.counters[name] + add)]


def _number(bits):
    """Return how many of `bits` are set."""
    return sum(bits[n] for n in range(len(bits)))
