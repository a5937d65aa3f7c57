"""Framing at 8 GT/s: packs and checks TLPs and DLLPs."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.blocks import TIME_BITS
from .crc import DLLP_CRC, LCRC, CrcStep
from .layouts import DLLP, Verdict, framed_beat
from .pair_queue import PairQueue
from .token_parser import parsed_word

__all__ = ["TokenFramer"]

_QUEUE = 32
_DLLP_QUEUE = 16


class TokenFramer(wiring.Component):
    """Packs the double words of each TLP into beats, and checks LCRCs and the CRCs of DLLPs.

    A word may need two beats, and the next word too; a queue takes 32 beats. (Over time a TLP has fewer beats than words, except
    TLPs of 4 n + 1 double words at x4.) If the queue is full, words wait in the queues before this component.

    A word may hold two DLLPs, and one DLLP leaves a clock; a queue takes 16 DLLPs. TLPs do not wait for DLLPs: a DLLP that finds
    this queue full is lost and counted in ``lost_dllps``.

    Ports
    -----
    words : :func:`parsed_word`.
    cut : end the open TLP as broken; take no words meanwhile.
    open : a TLP is open.
    tick : tick of this clock. The framer derives the ticks of packets from it and from the time of the word.
    pending : a TLP is in here.
    pending_tick : tick at which the oldest TLP in here began.
    frames : :func:`framed_beat`.
    dllps : :data:`DLLP`.
    bad_dllp : strobe: a DLLP had a wrong CRC.
    lost_dllps : number of DLLPs without room in this clock.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "words": In(stream.Signature(parsed_word(lanes))),
                "cut": In(1),
                "open": Out(1),
                "tick": In(64),
                "frames": Out(stream.Signature(framed_beat(32 * lanes), always_ready=True)),
                "dllps": Out(stream.Signature(DLLP, always_ready=True)),
                "bad_dllp": Out(1),
                "lost_dllps": Out(2),
                "pending": Out(1),
                "pending_tick": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        room, take = Signal(), Signal()
        m.d.comb += [self.words.ready.eq(room & ~self.cut), take.eq(self.words.valid & self.words.ready)]
        self._pack(m, take, room)
        self._dllps(m, take)
        return m

    def _extended(self, time):
        """Return the full tick from its low bits `time`, which lie at most 2^TIME_BITS - 1 ticks back."""
        return self.tick - (self.tick[:TIME_BITS] - time)[:TIME_BITS]

    def _pack(self, m, take, room):
        lanes = self._lanes
        word = self.words.payload
        beat = data.StructLayout(
            {
                "data": data.ArrayLayout(32, lanes),
                "dws": range(lanes + 1),
                "first": 1,
                "last": 1,
                "edb": 1,
                "broken": 1,
                "lcrc": 32,
                "sequence": 12,
                "tick": 64,
            }
        )
        # Waiting double words of the open TLP. If one was seen, at least one waits, so that the last beat is not empty.
        waiting, count = Signal(data.ArrayLayout(32, lanes)), Signal(range(lanes + 1))
        sequence, tick, begun = Signal(12), Signal(64), Signal()
        m.submodules.queue = queue = PairQueue(beat, _QUEUE)
        now, later, beats = Signal(beat), Signal(beat), Signal(2)
        m.d.comb += [queue.count.eq(beats), queue.first.eq(now), queue.second.eq(later), room.eq(queue.room)]
        out, out_valid = Signal(beat), Signal()
        m.d.sync += [out.eq(queue.out), out_valid.eq(queue.valid)]

        arrived = Signal(range(lanes + 1))
        total = Signal(range(2 * lanes + 1))
        both = [Signal(32, name=f"both{n}") for n in range(2 * lanes)]
        m.d.comb += [arrived.eq(sum(word.old_body[n] for n in range(lanes))), total.eq(count + arrived)]
        for n in range(2 * lanes):
            choices = [word.data[n - c] if 0 <= n - c < lanes else 0 for c in range(min(n, lanes) + 1)]
            if n < lanes:
                choices += [waiting[n]] * (lanes - n)
            m.d.comb += both[n].eq(Array(choices)[count])
        fresh, fresh_count, skipped = (
            [Signal(32, name=f"fresh{n}") for n in range(lanes)],
            Signal(range(lanes + 1)),
            Signal(range(lanes + 1)),
        )
        new_body = word.body & ~word.old_body
        m.d.comb += fresh_count.eq(sum(new_body[n] for n in range(lanes)))
        for n in reversed(range(lanes)):
            with m.If(new_body[n]):
                m.d.comb += skipped.eq(n)
        for n in range(lanes):
            m.d.comb += fresh[n].eq(Array(word.data[n + k] if n + k < lanes else 0 for k in range(lanes))[skipped])

        overflows = Signal()
        m.d.comb += overflows.eq(total > lanes)
        m.d.sync += beats.eq(0)
        with m.If(self.cut & room):
            m.d.sync += [
                beats.eq(self.open),
                now.dws.eq(0),
                now.first.eq(~begun),
                now.last.eq(1),
                now.broken.eq(1),
                now.sequence.eq(sequence),
                now.tick.eq(tick),
                self.open.eq(0),
                count.eq(0),
            ]
        with m.Elif(take):
            m.d.sync += [
                beats.eq(overflows + (word.ends & self.open)),
                self.open.eq(word.begins | (self.open & ~word.ends)),
                now.dws.eq(Mux(overflows, lanes, total)),
                now.first.eq(~begun),
                now.last.eq(word.ends & ~overflows),
                now.edb.eq(word.edb),
                now.broken.eq(word.broken),
                now.lcrc.eq(word.lcrc),
                now.sequence.eq(sequence),
                now.tick.eq(tick),
                *(now.data[n].eq(both[n]) for n in range(lanes)),
                later.first.eq(0),
                later.last.eq(1),
                later.dws.eq(total - lanes),
                later.edb.eq(word.edb),
                later.broken.eq(word.broken),
                later.lcrc.eq(word.lcrc),
                later.sequence.eq(sequence),
                later.tick.eq(tick),
                *(later.data[n].eq(both[lanes + n]) for n in range(lanes)),
            ]
            with m.If(word.begins):
                m.d.sync += [sequence.eq(word.sequence), tick.eq(self._extended(word.time)), begun.eq(0), count.eq(fresh_count)]
                m.d.sync += [waiting[n].eq(fresh[n]) for n in range(lanes)]
            with m.Elif(word.ends):
                m.d.sync += count.eq(0)
            with m.Elif(overflows):
                m.d.sync += [count.eq(total - lanes), begun.eq(1), *(waiting[n].eq(both[lanes + n]) for n in range(lanes))]
            with m.Else():
                m.d.sync += [count.eq(total), *(waiting[n].eq(both[n]) for n in range(lanes))]

        # Stages from the oldest: leaving, being checked, waiting, about to wait.
        stages = [
            (self.frames.valid, self.frames.payload.tick),
            (out_valid, out.tick),
            (queue.valid, queue.out.tick),
            (beats != 0, now.tick),
        ]
        m.d.comb += [self.pending.eq(Cat(self.open, *(there for there, _ in stages)).any()), self.pending_tick.eq(tick)]
        for there, since in reversed(stages):
            with m.If(there):
                m.d.comb += self.pending_tick.eq(since)

        # The double words of a beat go to the end of the CRC's word, because leading zeros leave a state of zero unchanged. The
        # previous state is XORed into the first double word. One set of parities therefore serves every number of double words.
        m.submodules.lcrc = step = CrcStep(LCRC, 4 * lanes)
        m.submodules.lcrc_start = start = CrcStep(LCRC, 2)
        state, before = Signal(32), Signal(32)
        for n in range(lanes):
            for dws in range(lanes - n, lanes + 1):
                first = before if n == lanes - dws else 0
                with m.If(out.dws == dws):
                    m.d.comb += step.data[32 * n : 32 * n + 32].eq(out.data[n - lanes + dws] ^ first)
        # The four reserved bits before the number are not sent; they count as zeros.
        m.d.comb += [
            start.before.eq(LCRC.init),
            start.data.eq(Cat(out.sequence[8:], 0, 0, 0, 0, out.sequence[:8])),
            before.eq(Mux(out.first, start.after, state)),
            step.before.eq(0),
        ]
        frame = self.frames.payload
        m.d.sync += self.frames.valid.eq(out_valid)
        with m.If(out_valid):
            m.d.sync += [
                state.eq(step.after),
                frame.data.eq(out.data),
                frame.dws.eq(out.dws),
                frame.first.eq(out.first),
                frame.last.eq(out.last),
                frame.sequence.eq(out.sequence),
                frame.tick.eq(out.tick),
                frame.verdict.eq(Verdict.BAD_LCRC),
            ]
            with m.If(out.broken):
                m.d.sync += frame.verdict.eq(Verdict.BAD_FRAME)
            with m.Elif(~out.edb & (step.after == ~out.lcrc)):
                m.d.sync += frame.verdict.eq(Verdict.GOOD)
            with m.Elif(out.edb & (step.after == out.lcrc)):
                m.d.sync += frame.verdict.eq(Verdict.NULLIFIED)

    def _dllps(self, m, take):
        lanes = self._lanes
        word = self.words.payload
        # Two in a word are at least two double words apart.
        layout = data.StructLayout({"body": 32, "crc": 16, "time": TIME_BITS})
        m.submodules.dllp_queue = queue = PairQueue(layout, _DLLP_QUEUE)
        now, valid, found = Signal(layout), Signal(), Signal(2)
        m.d.comb += [
            found.eq(Mux(take, sum(word.dllp[n] for n in range(lanes)), 0)),
            queue.count.eq(Mux(queue.room, found, 0)),
            self.lost_dllps.eq(Mux(queue.room, 0, found)),
        ]
        m.d.sync += [now.eq(queue.out), valid.eq(queue.valid)]

        def whole(n):
            half = word.half if n == 0 else word.data[n - 1][16:]
            return Cat(half, word.data[n], word.dllp_time[n])

        for n in reversed(range(lanes)):
            with m.If(word.dllp[n]):
                m.d.comb += queue.first.as_value().eq(whole(n))
        for n in range(2, lanes):
            with m.If(word.dllp[n] & word.dllp[: n - 1].any()):
                m.d.comb += queue.second.as_value().eq(whole(n))
        m.submodules.dllp_crc = step = CrcStep(DLLP_CRC, 4)
        m.d.comb += [step.before.eq(DLLP_CRC.init), step.data.eq(now.body)]
        right = step.after == ~now.crc
        m.d.sync += [
            self.dllps.valid.eq(valid & right),
            self.bad_dllp.eq(valid & ~right),
            self.dllps.payload.body.eq(now.body),
            self.dllps.payload.tick.eq(self._extended(now.time)),
        ]
