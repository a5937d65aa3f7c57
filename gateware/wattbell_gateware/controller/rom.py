"""Read-only memory of the core."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["SLICE", "Rom"]

_PORTS = 2
SLICE = 2
"""Bits; a block RAM of an ECP5 (16 kbit) is then 8 Ki deep."""


class Rom(wiring.Component):
    """Holds words of 32 bits behind two ports that read at the same time. Data follows its address by one clock.

    Usually one memory, `words`, holds everything. With `sliced`, memories `slice0`.. of `SLICE` bits each hold the largest power of two of
    words, and `rest` holds the others. Narrow, deep block RAMs need no selection by address. From one memory of 9 Ki words
    Yosys makes blocks of 1 Ki, and selects one of nine for every bit of both ports: 450 LUTs and as many long wires.

    Parameters
    ----------
    image : contents from address 0.
    words : their number.
    sliced : see above.
    """

    def __init__(self, image: Sequence[int], words: int, *, sliced: bool = False):
        self._image, self._words, self._sliced = image, words, sliced
        address = max(1, (words - 1).bit_length())
        super().__init__({"ports": Out(wiring.Signature({"addr": In(address), "data": Out(32)})).array(_PORTS)})

    def elaborate(self, platform):
        m = Module()
        if not self._sliced:
            m.submodules.words = words = Memory(shape=32, depth=self._words, init=self._image)
            for port in self.ports:
                read = words.read_port()
                m.d.comb += [read.addr.eq(port.addr), port.data.eq(read.data)]
            return m
        split = 1 << (self._words.bit_length() - 1)
        slices = []
        for low in range(0, 32, SLICE):
            bits = [word >> low & ((1 << SLICE) - 1) for word in self._image[:split]]
            m.submodules[f"slice{low // SLICE}"] = part = Memory(shape=SLICE, depth=split, init=bits)
            slices.append(part)
        rest = None
        if self._words > split:
            m.submodules.rest = rest = Memory(shape=32, depth=self._words - split, init=self._image[split:])
        for port in self.ports:
            reads = [part.read_port() for part in slices]
            m.d.comb += [read.addr.eq(port.addr) for read in reads]
            m.d.comb += port.data.eq(Cat(read.data for read in reads))
            if rest is not None:
                above, chosen = rest.read_port(), Signal()
                m.d.sync += chosen.eq(port.addr >= split)
                m.d.comb += [above.addr.eq(port.addr), port.data.eq(Mux(chosen, above.data, Cat(read.data for read in reads)))]
        return m
