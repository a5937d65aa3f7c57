"""Two gain paths become one current."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .correct import VALUE_BITS

__all__ = ["BAND_LOW", "BAND_SHIFT", "HOLD", "MERGED", "PAIR", "RISE", "Merge"]

BAND_LOW = 5 << 15
"""In units of the wire (500 nA): up to 81.92 mA the fine path counts alone ..."""
BAND_SHIFT = 15
"""... and from 2**15 units (16.384 mA) above on the coarse path alone."""
HOLD = 24
"""Conversions after an overload of the fine path in which it does not count."""
RISE = 16
"""Largest rise of the weight, in 256ths, with each conversion after that."""
_WEIGHT_BITS = 8

PAIR = data.StructLayout(
    {
        "coarse": signed(VALUE_BITS),
        "fine": signed(VALUE_BITS),
        "coarse_overload": 1,
        "fine_overload": 1,
    }
)
"""A conversion: both corrected currents, and whether each code was at an end of its scale (see :class:`.correct.Corrector`)."""
MERGED = data.StructLayout({"value": signed(VALUE_BITS), "overload": 1, "coarse_used": 1})
"""``overload``: of the coarse path, which alone makes a result wrong. ``coarse_used``: the coarse path has a share in ``value``."""


class Merge(wiring.Component):
    """Merges two currents: ``value = coarse + floor(((fine - coarse) * weight + 128) / 256)``; exact, and never outside of the two.

    The weight is 256 where ``|coarse|`` is at most BAND_LOW, and falls in a straight line to 0 over the band above. So no step occurs, and
    the level has no memory. An overload of the fine code sets the weight to 0, for that conversion and HOLD more, while the fine path's
    filter empties. Then the weight may rise by RISE a conversion. hw/README.md gives the reasons for these numbers.

    One result a conversion, in order. Latency 4 clocks, throughput one a clock; backpressure at ``o`` reaches ``i``.

    Ports
    -----
    i : stream of :data:`PAIR`.
    o : stream of :data:`MERGED`.
    quiet : nothing is in the pipeline.
    """

    i: In(stream.Signature(PAIR))
    o: Out(stream.Signature(MERGED))
    quiet: Out(1)

    def elaborate(self, platform):
        m = Module()
        full = 1 << _WEIGHT_BITS
        stages = Signal(4)  # what is valid; the last is the output's
        advance = Signal()
        m.d.comb += [
            advance.eq(~stages[3] | self.o.ready),
            self.i.ready.eq(advance),
            self.o.valid.eq(stages[3]),
            self.quiet.eq(~self.i.valid & (stages == 0)),
        ]
        with m.If(advance):
            m.d.sync += stages.eq((stages << 1) | self.i.valid)

        # 1: how far apart, and how far into the band
        pair = self.i.payload
        coarse = [Signal(signed(VALUE_BITS), name=f"coarse{n}") for n in range(3)]
        overload = [Signal(name=f"overload{n}") for n in range(3)]
        difference = Signal(signed(VALUE_BITS + 1))
        above = Signal(signed(VALUE_BITS + 2))
        fine_overload = Signal()
        with m.If(advance):
            m.d.sync += [
                coarse[0].eq(pair.coarse),
                overload[0].eq(pair.coarse_overload),
                fine_overload.eq(pair.fine_overload),
                difference.eq(pair.fine - pair.coarse),
                above.eq(BAND_LOW + (1 << BAND_SHIFT) - Mux(pair.coarse < 0, -pair.coarse, pair.coarse)),
            ]

        # 2: the weight, by level and by what is left of an overload
        by_level = Signal(range(full + 1))
        ceiling = Signal(range(full + 1), init=full)
        next_ceiling = Signal.like(ceiling)
        hold = Signal(range(HOLD + 1))
        steps = above >> (BAND_SHIFT - _WEIGHT_BITS)
        m.d.comb += [
            by_level.eq(Mux(steps < 0, 0, Mux(steps > full, full, steps))),
            next_ceiling.eq(Mux(fine_overload, 0, Mux((hold != 0) | (ceiling == full), ceiling, ceiling + RISE))),
        ]
        weight = Signal.like(ceiling)
        difference_q = Signal.like(difference)
        with m.If(advance & stages[0]):
            m.d.sync += [
                ceiling.eq(next_ceiling),
                hold.eq(Mux(fine_overload, HOLD, Mux(hold == 0, 0, hold - 1))),
                weight.eq(Mux(by_level < next_ceiling, by_level, next_ceiling)),
            ]
        with m.If(advance):
            m.d.sync += [difference_q.eq(difference), coarse[1].eq(coarse[0]), overload[1].eq(overload[0])]

        # 3: the product
        product = Signal(signed(VALUE_BITS + _WEIGHT_BITS + 3))
        coarse_used = Signal()
        with m.If(advance):
            m.d.sync += [
                product.eq(difference_q * weight),
                coarse_used.eq(weight != full),
                coarse[2].eq(coarse[1]),
                overload[2].eq(overload[1]),
            ]

        # 4: the sum
        with m.If(advance):
            m.d.sync += [
                self.o.payload.value.eq(coarse[2] + ((product + full // 2) >> _WEIGHT_BITS)),
                self.o.payload.overload.eq(overload[2]),
                self.o.payload.coarse_used.eq(coarse_used),
            ]
        assert full % RISE == 0
        return m
