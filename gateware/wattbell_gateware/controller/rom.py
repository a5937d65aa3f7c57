"""Read-only memory of the core."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Rom"]

_PORTS = 2


class Rom(wiring.Component):
    """Words of 32 bits behind two ports that read at the same time. Data is there one clock behind its address.

    Memory `low` has as many words as the largest power of two, `high` the rest. An FPGA makes the first of block RAMs that are narrow
    and deep, of which none has to be chosen by the address; were all in one memory of, say, 9 Ki words, Yosys would take blocks of
    1 Ki words, and choose one of nine for every bit of both ports: 450 LUTs and as many long wires.

    Parameters
    ----------
    image : contents from address 0. words : how many there are.
    """

    def __init__(self, image: Sequence[int], words: int):
        self._image, self._words = image, words
        address = max(1, (words - 1).bit_length())
        super().__init__({"ports": Out(wiring.Signature({"addr": In(address), "data": Out(32)})).array(_PORTS)})

    def elaborate(self, platform):
        m = Module()
        split = 1 << (self._words.bit_length() - 1)
        m.submodules.low = low = Memory(shape=32, depth=split, init=self._image[:split])
        reads = [low.read_port() for _ in self.ports]
        for port, read in zip(self.ports, reads, strict=True):
            m.d.comb += [read.addr.eq(port.addr), port.data.eq(read.data)]
        if self._words > split:
            m.submodules.high = high = Memory(shape=32, depth=self._words - split, init=self._image[split:])
            for port, read in zip(self.ports, reads, strict=True):
                above, chosen = high.read_port(), Signal()
                m.d.sync += chosen.eq(port.addr >= split)
                m.d.comb += [above.addr.eq(port.addr), port.data.eq(Mux(chosen, above.data, read.data))]
        return m
