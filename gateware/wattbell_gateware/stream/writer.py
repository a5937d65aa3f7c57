"""Writer of the stream: picks a closed block, and adds header, sequence number and CRC."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.wire import HEADER_SIZE, MAGIC, VERSION, BlockContent

from .buffer import read_port
from .crc import CRC32_INIT, Crc32Word

__all__ = ["OUT_WORD", "BlockWriter"]

OUT_WORD = data.StructLayout({"data": 32, "last": 1})
"""A word of the stream; ``last`` is set on the CRC."""
HEADER_WORDS = HEADER_SIZE // 4


class BlockWriter(wiring.Component):
    """Sends closed blocks as a stream of words, one a clock while ``out.ready`` is high.

    Parameters
    ----------
    kinds : the sources, in falling priority.

    Ports
    -----
    source0, .. : read ports (:func:`.buffer.read_port`) in the order of `kinds`.
    run : identifier of the run; constant while blocks are sent.
    out : the stream, :data:`OUT_WORD`.
    sequence : number of the next block.
    idle : no block is closed, on its way, or waiting in ``out``.
    quiet : the same as ``idle``.
    """

    def __init__(self, kinds: Sequence[BlockContent]):
        self._kinds = tuple(kinds)
        super().__init__(
            {
                **{f"source{k}": In(read_port()) for k in range(len(self._kinds))},
                "run": In(32),
                "out": Out(stream.Signature(OUT_WORD)),
                "sequence": Out(32),
                "idle": Out(1),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sources = [getattr(self, f"source{k}") for k in range(len(self._kinds))]
        selected = Signal(range(len(sources)))
        chosen = Signal.like(selected)
        ready = Cat(source.ready for source in sources)
        for k in reversed(range(len(sources))):
            with m.If(sources[k].ready):
                m.d.comb += chosen.eq(k)

        words = Signal(10)
        kind = Signal(8)
        first_tick = Signal(64)
        dropped = Signal(32)
        payload = Signal(32)
        m.d.comb += payload.eq(Array(source.data for source in sources)[selected])

        header = Array(
            [
                Const(int.from_bytes(MAGIC, "little"), 32),
                Cat(Const(VERSION, 8), kind, Const(0, 2), words, Const(0, 4)),
                self.sequence,
                dropped,
                first_tick[:32],
                first_tick[32:],
                self.run,
            ]
        )
        m.submodules.crc = crc = Crc32Word()
        state = Signal(32)
        word = Signal(32)
        position = Signal(10)  # of `word`, in header or payload
        address = Signal(10)  # of the payload word wanted in the next clock
        advance = Signal()
        # The CRC takes a word when it is in `out`: reading, choosing and a CRC step in one clock would be too slow.
        uncovered = Signal()
        m.d.sync += uncovered.eq(0)
        with m.If(uncovered):
            m.d.sync += state.eq(crc.after)
        m.d.comb += [
            crc.enable.eq(uncovered),
            crc.before.eq(state),
            crc.word.eq(self.out.p.data),
            advance.eq(~self.out.valid | self.out.ready),
            *(source.address.eq(address[:9]) for source in sources),
        ]
        with m.If(self.out.ready):
            m.d.sync += self.out.valid.eq(0)

        def send(value, last=0):
            return [self.out.valid.eq(1), self.out.p.data.eq(value), self.out.p.last.eq(last)]

        idle = Signal()
        m.d.comb += [
            self.idle.eq(idle & (ready == 0) & ~self.out.valid),
            self.quiet.eq(self.idle),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                m.d.sync += selected.eq(chosen)
                with m.If(ready != 0):
                    m.next = "LOAD"
            with m.State("LOAD"):
                view = [Array(getattr(s, name) for s in sources)[selected] for name in ("words", "dropped", "first_tick")]
                m.d.sync += [
                    words.eq(Cat(view[0], view[0] == 0)),
                    dropped.eq(view[1]),
                    first_tick.eq(view[2]),
                    kind.eq(Array(Const(int(k), 8) for k in self._kinds)[selected]),
                    state.eq(CRC32_INIT),
                    position.eq(0),
                ]
                m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += word.eq(header[position[:3]])
                with m.If(advance):
                    m.d.sync += [*send(word), uncovered.eq(1), position.eq(position + 1)]
                    with m.If(position == HEADER_WORDS - 1):
                        m.d.sync += position.eq(0)
                        m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += [word.eq(payload), address.eq(Mux(advance, position + 1, position))]
                with m.If(advance):
                    m.d.sync += [*send(word), uncovered.eq(1), position.eq(position + 1)]
                    with m.If(position == words - 1):
                        m.next = "CRC"
            with m.State("CRC"):
                with m.If(advance & ~uncovered):
                    m.d.sync += [*send(~state, 1), self.sequence.eq(self.sequence + 1)]
                    for k, source in enumerate(sources):
                        with m.If(selected == k):
                            m.d.comb += source.release.eq(1)
                    m.next = "IDLE"
        return m
