"""Store and forward of TLPs: takes beats with a verdict, gives the TLPs that the tracker takes."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..layouts import tlp_beat
from ..queue import Queue
from .layouts import Verdict, framed_beat
from .sequence import SequenceFilter

__all__ = ["FATE", "Fate", "TlpStore"]


class Fate(enum.Enum, shape=3):
    """Fate of a frame."""

    DELIVERED = 0
    LATE = 1
    """The TLP was delivered; it counted as lost before."""
    DUPLICATE = 2
    """The TLP belongs to a replay and was delivered before."""
    NULLIFIED = 3
    BAD_LCRC = 4
    BAD_FRAME = 5
    NO_ROOM = 6
    """The TLP was good, but the store or its list of TLPs was full, or the TLP is longer than the store.

    It counts as lost and is not asked for again.
    """


FATE = data.StructLayout({"fate": Fate, "sequence": 12, "lost": 11, "tick": 64})
"""``lost``: number of TLPs missing before this one (with DELIVERED or NO_ROOM)."""


class TlpStore(wiring.Component):
    """Stores TLPs and forwards each once, after its verdict and its sequence number were good (:class:`SequenceFilter`).

    Beats of 32 bits become beats of 64. Latency from the last beat in to the first beat out is 6 clocks; then a beat leaves each
    clock.

    Parameters
    ----------
    width : bits of a beat of ``frames``.
    bytes_kept : room for all TLPs in the store, headers included. The longest TLP has to fit.
    tlps : greatest number of TLPs in the store.
    tick_bits : low bits of the ticks that come out.

    Ports
    -----
    frames : :func:`.layouts.framed_beat` of `width` bits.
    forget : see :class:`SequenceFilter`.
    begin : see :class:`SequenceFilter`.
    tlps : :func:`wattbell_gateware.layouts.tlp_beat`; ``error`` is always 0. ``lost`` is also set before a TLP that follows a TLP
        without room, and with a late TLP, which comes after TLPs sent after it.
    fates : one :data:`FATE` for each frame, two clocks after its last beat.
    pending : a TLP is coming in or waits here.
    pending_tick : tick at which the oldest such TLP began.
    pending_known : low: the oldest TLP is on its way through the list of TLPs, and ``pending_tick`` is 0.
    """

    def __init__(self, width: int, *, bytes_kept: int = 8192, tlps: int = 64, tick_bits: int = 64):
        self._tick_bits = tick_bits
        self._width_in, self._width = width, max(width, 64)
        self._depth, self._tlps = bytes_kept * 8 // self._width, tlps
        super().__init__(
            {
                "frames": In(stream.Signature(framed_beat(width), always_ready=True)),
                "forget": In(1),
                "begin": In(1),
                "tlps": Out(stream.Signature(tlp_beat(self._width), always_ready=True)),
                "fates": Out(stream.Signature(FATE, always_ready=True)),
                "pending": Out(1),
                "pending_known": Out(1),
                "pending_tick": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = (self._depth - 1).bit_length()
        entry = data.StructLayout({"data": self._width, "dws": range(self._width // 32 + 1), "last": 1})
        m.submodules.ring = ring = Memory(shape=entry, depth=self._depth, init=[])
        tlp = data.StructLayout({"tick": self._tick_bits, "lost": 1})
        m.submodules.ticks = ticks = Queue(tlp, self._tlps)
        m.submodules.filter = order = SequenceFilter()
        write, read = ring.write_port(), ring.read_port()

        coming, comes = self._widened(m)
        beat, valid = Signal(coming.shape()), Signal()  # a clock later, after the filter's verdict
        m.d.sync += [beat.eq(coming), valid.eq(comes)]
        committed, freed = (Signal(bits + 1, name=n) for n in ("committed", "freed"))
        full, full_now = Signal(), Signal()
        after, base = Signal(bits + 1), Signal(bits + 1)
        # A first beat goes to `committed`, a later one after its predecessor. `narrow` is known a clock early, so two places stay
        # free.
        going_on, at, narrow, narrow_first, listed = Signal(bits + 1), Signal(bits + 1), Signal(), Signal(), Signal()
        good = valid & beat.last & (beat.verdict == Verdict.GOOD)
        m.d.comb += [
            at.eq(Mux(beat.first, base, going_on)),
            full_now.eq(Mux(beat.first, narrow_first | (narrow & listed), full | narrow)),
            write.addr.eq(at[:bits]),
            write.en.eq(valid & ~full_now),
            write.data.data.eq(beat.data),
            write.data.dws.eq(beat.dws),
            write.data.last.eq(beat.last),
            order.strobe.eq(comes & coming.last & (coming.verdict == Verdict.GOOD)),
            order.number.eq(coming.sequence),
            order.forget.eq(self.forget),
            order.begin.eq(self.begin),
        ]
        no_room, gap = Signal(), Signal()
        # The list is written a clock later.
        m.d.comb += no_room.eq(full_now | ~ticks.i.ready | (listed & (ticks.level >= self._tlps - 1)))
        m.d.sync += listed.eq(0)
        fate = self.fates.payload
        m.d.sync += self.fates.valid.eq(valid & beat.last)
        least = self._depth - 2
        # The decision takes a whole clock: it only sets `listed`, and `committed` follows in the next clock.
        m.d.comb += base.eq(Mux(listed, after, committed))
        m.d.sync += [after.eq(at + 1), committed.eq(base)]
        m.d.sync += [
            narrow_first.eq((base - freed)[: bits + 1] >= least),
            narrow.eq((Mux(valid, at, going_on) - freed)[: bits + 1] >= least),
        ]
        with m.If(valid):
            m.d.sync += [going_on.eq(at + 1), full.eq(full_now)]
            with m.If(beat.last):
                m.d.sync += [fate.sequence.eq(beat.sequence), fate.lost.eq(order.lost), fate.tick.eq(beat.tick)]
                with m.Switch(beat.verdict):
                    for verdict, becomes in (
                        (Verdict.NULLIFIED, Fate.NULLIFIED),
                        (Verdict.BAD_LCRC, Fate.BAD_LCRC),
                        (Verdict.BAD_FRAME, Fate.BAD_FRAME),
                    ):
                        with m.Case(verdict):
                            m.d.sync += fate.fate.eq(becomes)
                with m.If(good):
                    kept = Mux(order.late, Fate.LATE.value, Fate.DELIVERED.value)
                    m.d.sync += fate.fate.eq(Mux(order.deliver, Mux(no_room, Fate.NO_ROOM.value, kept), Fate.DUPLICATE.value))
                with m.If(order.deliver & ~no_room):
                    m.d.sync += listed.eq(1)
                # Missing TLPs had their numbers passed over, or found no room.
                with m.If(order.deliver):
                    m.d.sync += gap.eq(no_room)
        new = Signal(tlp, reset_less=True)
        m.d.sync += [new.tick.eq(beat.tick), new.lost.eq(gap | (order.lost != 0) | order.late)]
        m.d.comb += [ticks.i.payload.eq(new), ticks.i.valid.eq(listed)]

        # Output: beats of whole TLPs are read as soon as they are present, and shown two clocks later together with the tick.
        whole, reading, shown, shows = Signal(bits + 1), Signal(), Signal(entry), Signal()
        begins = Signal(init=1)
        out = self.tlps.payload
        there = whole != freed
        m.d.comb += [
            read.addr.eq(freed[:bits]),
            read.en.eq(1),
            ticks.o.ready.eq(shows & shown.last),
            self.tlps.valid.eq(shows),
            out.data.eq(shown.data),
            out.dws.eq(shown.dws),
            out.last.eq(shown.last),
            out.first.eq(begins),
            out.tick.eq(ticks.o.payload.tick),
            out.lost.eq(ticks.o.payload.lost),
        ]
        m.d.sync += [whole.eq(base), reading.eq(there), shows.eq(reading), shown.eq(read.data)]
        with m.If(there):
            m.d.sync += freed.eq(freed + 1)
        with m.If(shows):
            m.d.sync += begins.eq(shown.last)
        ready = ticks.o.valid

        open_, open_tick = Signal(), Signal(64)
        with m.If(valid):
            m.d.sync += [open_.eq(~beat.last), open_tick.eq(beat.tick)]
        waits = (ticks.level != 0) | listed
        m.d.comb += [
            self.pending.eq(open_ | waits),
            self.pending_known.eq(ready | ~waits),
            self.pending_tick.eq(Mux(ready, ticks.o.payload.tick, Mux(waits, 0, open_tick))),
        ]
        return m

    def _widened(self, m: Module):
        """Return beats of at least 64 bits, and their valid bit."""
        frames = self.frames
        if self._width_in >= 64:
            return frames.payload, frames.valid
        now, wide, valid = frames.payload, Signal(framed_beat(64)), Signal()
        low, first, half = Signal(32), Signal(), Signal()
        m.d.comb += [
            valid.eq(frames.valid & (half | now.last)),
            wide.data.eq(Mux(half, Cat(low, now.data), now.data)),
            wide.dws.eq(half + now.dws),
            wide.first.eq(Mux(half, first, now.first)),
            wide.last.eq(now.last),
            wide.verdict.eq(now.verdict),
            wide.sequence.eq(now.sequence),
            wide.tick.eq(now.tick),
        ]
        with m.If(frames.valid):
            m.d.sync += [half.eq(~half & ~now.last), low.eq(now.data), first.eq(now.first)]
        return wide, valid
