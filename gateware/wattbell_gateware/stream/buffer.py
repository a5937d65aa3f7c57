"""Ping-pong buffer of a block's payload: one bank is filled while the other waits or is sent."""

from amaranth import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import MAX_PAYLOAD

__all__ = ["PAYLOAD_WORDS", "BlockBuffer", "fill_port", "read_port"]

PAYLOAD_WORDS = MAX_PAYLOAD // 4


def fill_port() -> wiring.Signature:
    """Signature between a builder and its block buffer, as seen from the builder.

    - ``free``: a bank can be filled. It may be low from the clock after ``close`` on.
    - ``write``: while ``free``: put ``data`` at word ``address``.
    - ``address``, ``data``: see ``write``.
    - ``close``: while ``free``: hand the bank on.
    - ``words``: with ``close``: length in words, 1 .. 512. It has 9 bits: 512 is written as 0. An empty block cannot be closed.
    - ``first_tick``, ``dropped``: with ``close``: fields of the block's header.
    """
    return wiring.Signature(
        {
            "free": In(1),
            "write": Out(1),
            "address": Out(9),
            "data": Out(32),
            "close": Out(1),
            "words": Out(9),
            "first_tick": Out(64),
            "dropped": Out(32),
        }
    )


def read_port() -> wiring.Signature:
    """Signature between a block buffer and the block writer, as seen from the buffer.

    - ``ready``: a closed bank is available.
    - ``words``, ``first_tick``, ``dropped``: fields of that bank.
    - ``address``: word to read.
    - ``data``: the word at ``address``, one clock later.
    - ``release``: give the bank back.
    """
    return wiring.Signature(
        {
            "ready": Out(1),
            "words": Out(9),
            "first_tick": Out(64),
            "dropped": Out(32),
            "address": In(9),
            "data": Out(32),
            "release": In(1),
        }
    )


class BlockBuffer(wiring.Component):
    """Buffers blocks between a builder and the block writer; banks leave in the order in which they were closed.

    Ports
    -----
    fill : :func:`fill_port`, from the builder.
    read : :func:`read_port`, to the block writer.
    """

    fill: In(fill_port())
    read: Out(read_port())

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=32, depth=2 * PAYLOAD_WORDS, init=[])
        write, read = memory.write_port(), memory.read_port()
        filling = Signal()
        sending = Signal()
        closed = Array(Signal(name=f"closed{k}") for k in range(2))
        words = Array(Signal(9, name=f"words{k}") for k in range(2))
        first_tick = Array(Signal(64, name=f"first_tick{k}") for k in range(2))
        dropped = Array(Signal(32, name=f"dropped{k}") for k in range(2))

        m.d.comb += [
            self.fill.free.eq(~closed[filling]),
            write.en.eq(self.fill.write),
            write.addr.eq(Cat(self.fill.address, filling)),
            write.data.eq(self.fill.data),
            self.read.ready.eq(closed[sending]),
            self.read.words.eq(words[sending]),
            self.read.first_tick.eq(first_tick[sending]),
            self.read.dropped.eq(dropped[sending]),
            read.addr.eq(Cat(self.read.address, sending)),
            self.read.data.eq(read.data),
        ]
        with m.If(self.fill.close):
            m.d.sync += [
                closed[filling].eq(1),
                words[filling].eq(self.fill.words),
                first_tick[filling].eq(self.fill.first_tick),
                dropped[filling].eq(self.fill.dropped),
                filling.eq(~filling),
            ]
        with m.If(self.read.release):
            m.d.sync += [closed[sending].eq(0), sending.eq(~sending)]
        return m
