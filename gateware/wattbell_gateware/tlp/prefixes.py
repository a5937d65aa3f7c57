"""Removal of TLP prefixes from one direction's beats."""

from __future__ import annotations

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..layouts import tlp_beat

__all__ = ["MOST_END_TO_END", "MOST_PREFIXES", "PrefixSkipper"]

MOST_PREFIXES, MOST_END_TO_END = 7, 4
"""Prefixes of a TLP that is not refused. The limit of end-to-end prefixes is PCIe's (Max End-End TLP Prefixes)."""
_PREFIX = 0b100
"""Fmt of a TLP prefix."""
_IDE = 0b10010
"""Type of the end-to-end prefix of Integrity and Data Encryption."""
_PASID = 0b10001
"""Type of the end-to-end prefix with a Process Address Space ID (PCIe: PASID TLP Prefix)."""


class PrefixSkipper(wiring.Component):
    """Gives the beats of each TLP from its header on: the header begins in lane 0, whatever came before it.

    A TLP may have prefixes of a double word each (PCIe Base 4.0, 2.2.10): local ones, then at most four end-to-end ones. The type of
    a prefix matters twice: the payload behind an IDE prefix is encrypted, and a PASID prefix names the address space of a request.

    Combinational, a beat a clock, without delay. Prefixes move the double words behind them, so the last ones may leave a clock late.
    A TLP that begins in that clock leaves a clock late too, and so do all that follow without a pause.

    Ports
    -----
    i : :func:`~wattbell_gateware.layouts.tlp_beat`.
    o : the same, without prefixes; ``error`` too if a beat before the last one was not full. A TLP of nothing but prefixes has one
        beat, of no double words.
    odd : with the last beat of ``o``: more than :data:`MOST_PREFIXES` or :data:`MOST_END_TO_END` prefixes, a local prefix behind an
        end-to-end one, or no header.
    encrypted : with the last beat of ``o``: there was an IDE prefix.
    pasid : with the last beat of ``o``: there was a PASID prefix.
    holds : a beat waits here.
    """

    def __init__(self, width: int) -> None:
        self._lanes = width // 32
        beats = stream.Signature(tlp_beat(width), always_ready=True)
        super().__init__({"i": In(beats), "o": Out(beats), "odd": Out(1), "encrypted": Out(1), "pasid": Out(1), "holds": Out(1)})

    def elaborate(self, _platform) -> Module:
        m = Module()
        lanes, i, o, comes = self._lanes, self.i.payload, self.o.payload, self.i.valid
        leading, here, starts, judging, judged = self._count(m)
        words = Array(i.data.word_select(n, 32) for n in range(lanes))

        # `rotated` is the beat with the double word behind the prefixes first. The header decides for the whole TLP.
        shift, rotation = Signal(range(lanes)), Signal(range(lanes))
        rotated = Signal(32 * lanes)
        m.d.comb += [
            rotation.eq(Mux(starts, here[: len(rotation)], shift)),
            *(rotated.word_select(n, 32).eq(words[(rotation + n)[: len(rotation)]]) for n in range(lanes)),
        ]

        # Double words that wait: the begin of the next beat, or a TLP's end (`ends`).
        kept, count, ends = Signal(32 * lanes), Signal(range(lanes + 1)), Signal()
        begun, lost, tick, error = Signal(), Signal(), Signal(64), Signal()
        ragged, spoilt = Signal(), Signal()  # a beat before the last one was not full
        flushes, brings, total = Signal(), Signal(range(lanes + 1)), Signal(range(2 * lanes + 1))
        more = Signal(range(lanes + 1))
        m.d.comb += [
            # What waits of another TLP goes first. A TLP that another one cuts short shows as such in the parser.
            flushes.eq(ends | (comes & i.first & (count != 0))),
            spoilt.eq(i.error | (ragged & ~i.first)),
            brings.eq(Mux(leading, i.dws - here, i.dws)),
            total.eq(count + brings),
            more.eq(total - lanes),
            *(o.data.word_select(n, 32).eq(Mux(count > n, kept.word_select(n, 32), rotated.word_select(n, 32))) for n in range(lanes)),
            o.tick.eq(Mux(flushes, tick, i.tick)),
            o.lost.eq(Mux(flushes | ~i.first, lost, i.lost)),
            self.holds.eq((count != 0) | ends),
            self.odd.eq(Mux(flushes, judged[0], judging[0])),
            self.encrypted.eq(Mux(flushes, judged[1], judging[1])),
            self.pasid.eq(Mux(flushes, judged[2], judging[2])),
        ]
        with m.If(flushes):
            m.d.comb += [self.o.valid.eq(1), o.dws.eq(count), o.last.eq(ends), o.error.eq(error), o.first.eq(~begun)]
        with m.Elif(comes):
            m.d.comb += [
                self.o.valid.eq((total >= lanes) | i.last),
                o.dws.eq(Mux(total >= lanes, lanes, total)),
                o.last.eq(i.last & (total <= lanes)),
                o.error.eq(spoilt),
                o.first.eq(i.first | ~begun),
            ]

        with m.If(flushes | comes):
            m.d.sync += [count.eq(0), ends.eq(0)]
        with m.If(comes):
            m.d.sync += [
                kept.eq(rotated),
                shift.eq(rotation),
                error.eq(spoilt),
                begun.eq(Mux(flushes, 0, self.o.valid | (begun & ~i.first))),
            ]
            m.d.sync += ragged.eq(((ragged & ~i.first) | (i.dws != lanes)) & ~i.last)
            with m.If(i.first):
                m.d.sync += [tick.eq(i.tick), lost.eq(i.lost)]
            with m.If(flushes):
                m.d.sync += [count.eq(brings), ends.eq(i.last)]
            with m.Elif(total < lanes):
                m.d.sync += count.eq(Mux(i.last, 0, total))
            with m.Else():
                m.d.sync += [count.eq(more), ends.eq(i.last & (more != 0))]
        return m

    def _count(self, m: Module) -> tuple[Value, Value, Value, tuple[Value, ...], tuple[Value, ...]]:
        """Count and judge the prefixes.

        Return whether this beat may have prefixes, how many there are, and whether the header starts in this beat. Then return ``odd``,
        ``encrypted`` and ``pasid`` twice: with this beat, and before it.
        """
        i, lanes = self.i.payload, self._lanes
        open_, number, ends, odd, secret, space = Signal(), Signal(4), Signal(3), Signal(), Signal(), Signal()
        leading, here, starts = Signal(), Signal(range(lanes + 1)), Signal()
        m.d.comb += leading.eq(i.first | open_)
        runs: Value = leading
        run: Value = Const(0)
        so_far, wrong, hidden, named = Mux(i.first, 0, ends), odd & ~i.first, secret & ~i.first, space & ~i.first
        for n in range(lanes):
            kind = i.data.word_select(n, 32)[:8]  # Fmt 7:5, Type 4:0: 1 in Type's upper bit is end-to-end
            runs = Value.cast(runs & (kind[5:8] == _PREFIX) & (i.dws > n))
            end_to_end = runs & kind[4]
            wrong = wrong | (runs & ~kind[4] & (so_far != 0)) | (end_to_end & (so_far == MOST_END_TO_END))
            hidden = hidden | (runs & (kind[:5] == _IDE))
            named = named | (runs & (kind[:5] == _PASID))
            so_far = Mux(end_to_end & (so_far != MOST_END_TO_END), so_far + 1, so_far)[:3]
            run = (run + runs)[:3]
        before, now, wrong_now, hidden_now, named_now = Signal(4), Signal(5), Signal(), Signal(), Signal()
        m.d.comb += [
            here.eq(run),
            starts.eq(leading & (here != i.dws)),
            before.eq(Mux(i.first, 0, number)),
            now.eq(Mux(leading, before + here, before)),
            wrong_now.eq(wrong | (now > MOST_PREFIXES) | (i.last & leading & ~starts)),
            hidden_now.eq(hidden),
            named_now.eq(named),
        ]
        with m.If(self.i.valid):
            m.d.sync += [
                open_.eq(leading & ~starts & ~i.last),
                number.eq(Mux(now > MOST_PREFIXES, MOST_PREFIXES + 1, now)),
                ends.eq(so_far),
                odd.eq(wrong_now),
                secret.eq(hidden_now),
                space.eq(named_now),
            ]
        return leading, here, starts, (wrong_now, hidden_now, named_now), (odd, secret, space)
