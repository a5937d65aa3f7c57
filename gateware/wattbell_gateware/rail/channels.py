"""The way from the words of a conversion to its voltage and its one current."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .config import FLAGS, RAIL_CONFIG, Range
from .correct import VALUE_BITS, Corrector
from .front import ADC_BITS
from .merge import BAND_LOW, BAND_SHIFT, Merge

__all__ = ["Channels"]

_GREATEST = (1 << (VALUE_BITS - 1)) - 1
_RESULT = data.StructLayout({"value": signed(VALUE_BITS), "overload": 1, "saturated": 1})


class Channels(wiring.Component):
    """The channels go through one :class:`.correct.Corrector` in turn: voltage, current, and with ``fine`` the second current, which
    :class:`.merge.Merge` then makes one with the first.

    In a single range the merge gets the wanted path twice, and returns it unchanged. ``overload_i`` comes from the coarse path, or from the
    fine path if only that path counts. ``saturated`` is set if any channel that counts is saturated.

    The coarse path has a turn in every range; in the fine range it has the last turn. ``guard`` and ``beyond``
    (:data:`.config.CONVERSION`) therefore see currents above the fine path's scale.

    ``strobe`` with the words, at most every 16 clocks; ``config`` must stand meanwhile. Latency 5 clocks from ``strobe`` to ``valid``,
    with ``fine`` 10. Results and codes stand until the next ``valid``, or ``strobe``.
    """

    def __init__(self, fine: bool = False):
        self._fine = fine
        words = {f"{name}_word": In(ADC_BITS) for name in ("vif" if fine else "vi")}
        super().__init__(
            {
                "strobe": In(1),
                "config": In(RAIL_CONFIG),
                **words,
                "valid": Out(1),
                "voltage": Out(signed(VALUE_BITS)),
                "current": Out(signed(VALUE_BITS)),
                "flags": Out(FLAGS),
                "v_code": Out(ADC_BITS),
                "i_code": Out(ADC_BITS),
                "f_code": Out(ADC_BITS),
                "guard": Out(signed(VALUE_BITS)),
                "beyond": Out(1),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.corrector = corrector = Corrector()
        config = self.config
        count = 3 if self._fine else 2
        with m.If(self.strobe):
            m.d.sync += [self.v_code.eq(self.v_word), self.i_code.eq(self.i_word)]
            if self._fine:
                m.d.sync += self.f_code.eq(self.f_word)

        later = Signal(count - 1)  # turns after the first
        turns = Cat(self.strobe, later)
        m.d.sync += later.eq(turns)
        m.d.comb += [
            corrector.strobe.eq(turns.any()),
            corrector.twos.eq(later.any()),
            corrector.code.eq(Mux(later.any(), self.i_code, self.v_word)),
            corrector.offset.eq(Mux(later.any(), config.i_offset, config.v_offset)),
            corrector.gain.eq(Mux(later.any(), config.i_gain, config.v_gain)),
        ]
        fine_alone = config.range == Range.FINE
        if self._fine:
            with m.If((later[0] & fine_alone) | (later[1] & ~fine_alone & (config.range != Range.COARSE))):
                m.d.comb += [
                    corrector.code.eq(self.f_code),
                    corrector.offset.eq(config.f_offset),
                    corrector.gain.eq(config.f_gain),
                ]

        result = Signal(_RESULT)
        m.d.comb += [
            result.value.eq(corrector.value),
            result.overload.eq(corrector.overload),
            result.saturated.eq(corrector.saturated),
        ]
        turn = Signal(range(count))
        before = [Signal(_RESULT, name=name) for name in ("voltage_result", "current_result")[: count - 1]]
        last = Signal()
        m.d.comb += last.eq(corrector.valid & (turn == count - 1))
        with m.If(corrector.valid):
            m.d.sync += turn.eq(Mux(last, 0, turn + 1))
            for n, kept in enumerate(before):
                with m.If(turn == n):
                    m.d.sync += kept.eq(result)

        voltage = before[0]
        m.d.comb += [
            self.voltage.eq(voltage.value),
            self.flags.overload_v.eq(voltage.overload),
            self.flags.uncalibrated.eq(config.uncalibrated),
        ]
        if not self._fine:
            m.d.comb += [
                self.valid.eq(last),
                self.current.eq(corrector.value),
                self.flags.overload_i.eq(corrector.overload),
                self.flags.saturated.eq(voltage.saturated | corrector.saturated),
                self.beyond.eq(corrector.overload & ~self.i_code[-1]),
                self.guard.eq(Mux(self.beyond, _GREATEST, corrector.value)),
                self.quiet.eq(corrector.quiet & ~later.any()),
            ]
            return m
        m.submodules.merge = merge = Merge()
        first, pair = before[1], merge.i.payload
        only = config.range != Range.MERGED
        # Whether the coarse code is at its upper end, and the coarse current above the band: known long before the merge's result.
        end, above = Signal(), Signal()
        m.d.sync += [
            end.eq(Mux(fine_alone, corrector.overload, first.overload) & ~self.i_code[-1]),
            above.eq(fine_alone & (corrector.value > BAND_LOW + (1 << BAND_SHIFT))),
        ]
        m.d.comb += [
            merge.i.valid.eq(last),
            merge.o.ready.eq(1),
            pair.coarse.eq(first.value),
            pair.coarse_overload.eq(first.overload),
            pair.fine.eq(Mux(fine_alone, first.value, corrector.value)),
            pair.fine_overload.eq(Mux(fine_alone, first.overload, corrector.overload)),
            self.valid.eq(merge.o.valid),
            self.current.eq(merge.o.payload.value),
            self.flags.overload_i.eq(merge.o.payload.overload),
            self.flags.saturated.eq(voltage.saturated | first.saturated | (corrector.saturated & ~fine_alone)),
            self.flags.fine.eq(Mux(only, fine_alone, ~merge.o.payload.coarse_used)),
            self.guard.eq(Mux(end, _GREATEST, Mux(above, corrector.value, merge.o.payload.value))),
            self.beyond.eq(end | (fine_alone & ~above & merge.o.payload.overload & ~self.f_code[-1])),
            self.quiet.eq(corrector.quiet & ~later.any() & merge.quiet),
        ]
        return m
