"""The two ADC fronts. They differ only in the way the 18-bit words come in; later stages see no difference."""

from amaranth import Cat, DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SERIAL_CONVERSION_TICKS", "SERIAL_HALF_SCK_TICKS", "SerialFront", "WordFront", "serial_front"]

ADC_BITS = 18
SERIAL_CONVERSION_TICKS = 320
"""CNV rise to result ready, worst case, that the serial front waits."""
SERIAL_HALF_SCK_TICKS = 8
"""Half a period of SCK: 62.5 MHz."""


class WordFront(wiring.Component):
    """Holds the words that the simulator (or a board-specific receiver) hands back for a conversion.

    ``start`` high for one clock: a conversion begins at that tick. ``valid`` with ``v`` and ``i`` any time after,
    the same clock included, but before the next ``start``. ``fine``: there is a third word, ``f``.
    """

    def __init__(self, fine: bool = False):
        self._channels = "vif" if fine else "vi"
        super().__init__(
            {
                "start": In(1),
                "valid": In(1),
                "quiet": Out(1),
                **{name: In(ADC_BITS) for name in self._channels},
                **{f"{name}_word": Out(ADC_BITS) for name in self._channels},
            }
        )

    def elaborate(self, platform):
        m = Module()
        with m.If(self.valid):
            m.d.sync += [getattr(self, f"{name}_word").eq(getattr(self, name)) for name in self._channels]
        m.d.comb += self.quiet.eq(~self.valid)
        return m


class SerialFront(wiring.Component):
    """Two simultaneously sampling serial SAR ADCs, with ``fine`` three: shared CNV and SCK, one SDO each, MSB first.

    Timing assumed (three-wire mode of 18-bit SAR converters of the 1 to 2 MSPS class):

    * CNV rises at the sample instant and stays high during the conversion, at most 320 ns;
    * CNV falls, SDO carries the MSB; each falling edge of SCK brings the next bit;
    * SCK has a period of 16 ns (clock/4 at 250 MHz, clock/2 at 125 MHz). A bit is sampled when SCK's falling edge is
      launched, so that SCK out, ADC clock-to-data, and SDO in have 16 ns together.

    Conversion and readout take 320 ns + 18 x 16 ns = 608 ns, which leaves 392 ns of acquisition at 1 MSPS.
    SDO is used without a synchroniser: the board must time it to the clock.
    """

    def __init__(self, ticks_per_clock: int, fine: bool = False):
        self._channels = "vif" if fine else "vi"
        self._wait = SERIAL_CONVERSION_TICKS // ticks_per_clock
        self._half = SERIAL_HALF_SCK_TICKS // ticks_per_clock
        assert self._half >= 1
        super().__init__(
            {
                "start": In(1),
                "quiet": Out(1),
                "cnv": Out(1),
                "sck": Out(1),
                **{f"sdo_{name}": In(1) for name in self._channels},
                **{f"{name}_word": Out(ADC_BITS) for name in self._channels},
            }
        )

    def elaborate(self, platform):
        m = Module()
        shift = {name: Signal(ADC_BITS, name=f"{name}_shift") for name in self._channels}
        wait = Signal(range(max(self._wait, self._half) + 1))
        bits = Signal(range(ADC_BITS + 1))
        converting = Signal()
        reading = Signal()

        # CNV is `start` itself in its first clock: the timer's register drives the pin, so the sample instant is exact.
        m.d.comb += self.cnv.eq(self.start | converting)
        m.d.comb += self.quiet.eq(~self.start & ~converting & ~reading)
        with m.If(self.start):
            m.d.sync += [converting.eq(1), wait.eq(self._wait - 1), reading.eq(0), self.sck.eq(0)]
        with m.Elif(converting):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 0):
                # CNV falls; the first low half of SCK gives the MSB its time.
                m.d.sync += [converting.eq(0), reading.eq(1), bits.eq(ADC_BITS), wait.eq(self._half - 1)]
        with m.Elif(reading):
            m.d.sync += wait.eq(wait - 1)
            with m.If(wait == 0):
                m.d.sync += [wait.eq(self._half - 1), self.sck.eq(~self.sck)]
                with m.If(self.sck):
                    m.d.sync += [
                        *(word.eq(Cat(getattr(self, f"sdo_{name}"), word)) for name, word in shift.items()),
                        bits.eq(bits - 1),
                    ]
                    with m.If(bits == 1):
                        m.d.sync += reading.eq(0)
        m.d.comb += [getattr(self, f"{name}_word").eq(word) for name, word in shift.items()]
        return m


def serial_front(ticks_per_clock: int, fine: bool = False):
    """Return the serial front of an instrument with this clock.

    With a clock too slow for SCK, the front is in the domain ``fast``, of 8 ticks a clock, which rises with ``sync``. ``start`` is then
    high for two clocks of ``fast``, so the front waits a clock longer for a conversion. Nothing else differs, because the words are
    ready long before anything reads them.
    """
    if ticks_per_clock <= SERIAL_HALF_SCK_TICKS:
        return SerialFront(ticks_per_clock, fine)
    return DomainRenamer("fast")(SerialFront(SERIAL_HALF_SCK_TICKS, fine))
