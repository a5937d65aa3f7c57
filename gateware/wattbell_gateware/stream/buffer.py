"""The ping-pong buffer of a block's payload: one bank is filled while the other waits or is sent."""

from amaranth import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import MAX_PAYLOAD

__all__ = ["PAYLOAD_WORDS", "BlockBuffer", "fill_port", "read_port"]

PAYLOAD_WORDS = MAX_PAYLOAD // 4


def fill_port() -> wiring.Signature:
    """What a filler drives. Flow as seen from the filler.

    ``free``: there is a bank to fill. While it is high, ``write`` puts ``data`` at word ``address``, and ``close`` hands
    the bank on with its length in ``words`` (1..512), ``first_tick`` and ``dropped``. ``free`` may be low from the next
    clock. ``words`` is 9 bit: 512 is written as 0, an empty block cannot be closed.
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
    """What the block writer reads. Flow as seen from the buffer.

    ``ready``: a closed bank stands behind ``words``, ``first_tick``, ``dropped``; ``data`` is the word at ``address`` of
    the clock before. ``release`` gives the bank back.
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
    """Ping-pong buffer between a filler and the block writer; banks leave in the order in which they were closed."""

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
