"""The tracker's top: parsers, merge, engine and output FIFOs wired together."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..layouts import COMMAND, EVENT, tlp_beat
from .layouts import CONFIG, COUNTERS, RAW


class NvmeTracker(wiring.Component):
    """See the package's docstring for the ports.

    Parameters: `width` of the TLP streams in bits, 64 or 128; `ticks_per_clock`; `queues`, entries of the queue tables
    (power of 2, at most 64); `slots`, commands in flight (power of 2, at most 1024).
    """

    def __init__(self, width: int, ticks_per_clock: int, queues: int = 64, slots: int = 1024) -> None:
        for name, value, top in (("queues", queues, 64), ("slots", slots, 1024)):
            if value & (value - 1) or not 2 <= value <= top:
                raise ValueError(f"{name} must be a power of 2 between 2 and {top}, not {value!r}")
        if not 1 <= ticks_per_clock <= 256:
            raise ValueError(f"ticks_per_clock must be 1 .. 256, not {ticks_per_clock!r}")
        self.width = width
        self.ticks_per_clock = ticks_per_clock
        self.queues = queues
        self.slots = slots
        beat = tlp_beat(width)
        super().__init__(
            {
                "tlp_down": In(stream.Signature(beat, always_ready=True)),
                "tlp_up": In(stream.Signature(beat, always_ready=True)),
                "now": In(64),
                "perst_n": In(1),
                "run": In(1),
                "commands": Out(stream.Signature(COMMAND)),
                "events": Out(stream.Signature(EVENT)),
                "raw": Out(stream.Signature(RAW)),
                "cfg": In(stream.Signature(CONFIG)),
                "counters": Out(COUNTERS),
                "busy": Out(1),
                "deadline": Out(64),
                "skip_down": Out(1),
                "skip_up": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        raise NotImplementedError("the engine lands in the next commits")
