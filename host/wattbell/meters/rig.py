"""Use our own rig as a meter of the rail, if it has no tap or its tap does not see the link.

The stream is decoded and accounted for as in any recording, so that every loss is reported; only the tap's records are left out. Ticks are
the rig's ticks minus the tick that the rig reported before the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wattbell_spec import wire as spec

from ..capture.convert import StreamRail
from ..capture.source import RailSource
from ..clocks.host import host_ns
from ..errors import RigError
from ..rig import Rig
from ..wire.decode import StreamDecoder
from .arrivals import Arrivals, SendingMeter
from .meter import ERRORS, ClockPair, MeterAbout, meter, options

USAGE = "rig[:SERIAL or DATA,CONTROL]"
_BUFFER = 1 << 20
_ASK_NS = 1_000_000_000
_DRAINED = 100
"""Pieces of an earlier run that are thrown away at most, 50 ms each."""


@meter("our rig, of which only the rail is used", USAGE)
def open_meter(rest: str) -> RigMeter:
    """See :data:`USAGE`."""
    name, given = options(rest, USAGE, ERRORS)
    rig = Rig.open(name or None)
    try:
        return RigMeter(rig, given)
    except BaseException:
        rig.close()
        raise


@dataclass(frozen=True)
class RigDescription(MeterAbout):
    """The description of a rig: its own words for ``meta.json``. Error terms are the user's, else NaN, and figures then take the terms of
    any rig.
    """

    description: Mapping[str, object] = field(default_factory=dict)

    def rig(self) -> dict[str, object]:
        """See :class:`~.meter.MeterAbout`."""
        terms = {"gain": self.gain, "offset_a": self.offset_a, "timebase": self.timebase}
        stated = {name: value for name, value in terms.items() if math.isfinite(value)}
        return {**self.description, **({"error_model": stated, "accuracy": self.accuracy} if stated else {})}


class RigMeter(SendingMeter[bytes]):
    """An open rig. A recorder takes its stream (:meth:`take_stream`), from :attr:`origin_tick` on."""

    def __init__(self, rig: Rig, given: Mapping[str, Any]) -> None:
        super().__init__()
        self._rig = rig
        interval_ns = round(float(rig.control.query("SENS:SWE:TINT?")) * 1e9) * int(float(rig.control.query("SENS:SWE:DEC?")))
        self._about = RigDescription(
            model=rig.identity.get("model", ""),
            serial=rig.port.serial,
            firmware=rig.identity.get("firmware", ""),
            tick_ps=spec.TICK_PS,
            interval_ticks=interval_ns * 1000 // spec.TICK_PS,
            has_voltage=True,
            gain=given.get("gain", math.nan),
            offset_a=given.get("offset", math.nan),
            timebase=given.get("timebase", math.nan),
            accuracy="stated by the user",
            conditions=rig.conditions(),
            notes=("the rig was used as a meter of the rail: what its tap saw is left out",),
            description=rig.description,
        )
        self.origin_tick = 0
        self._decoder = StreamDecoder()
        self._pairs: list[ClockPair] = []
        self._ask_at_ns = 0

    @property
    def about(self) -> RigDescription:
        """See :class:`~.meter.Meter`."""
        return self._about

    def start(self) -> None:
        """See :class:`~.meter.Meter`. A rig that somebody left capturing is stopped first."""
        buffer = memoryview(bytearray(_BUFFER))

        def read() -> bytes:
            return bytes(buffer[: self._rig.read_into(buffer)])

        if self._rig.is_capturing():
            self._rig.stop()
            for _ in range(_DRAINED):
                if not read():
                    break
        self._ask()
        self.origin_tick = self._pairs[0].tick
        self._pairs = [ClockPair(pair.before_ns, pair.after_ns, 0) for pair in self._pairs]
        self._arrivals = Arrivals(f"The rig {self._rig.port.serial}", read)
        if not self._rig.start():
            raise RigError(f"Rig {self._rig.port.serial} does not stop capturing for another program; end that, or plug the rig in again.")

    def _ask(self) -> None:
        before_ns = host_ns()
        tick = int(float(self._rig.control.query("SYST:TICK?")))
        self._pairs.append(ClockPair(before_ns, host_ns(), tick - self.origin_tick))
        self._ask_at_ns = host_ns() + _ASK_NS

    def take_stream(self, timeout_s: float) -> list[bytes]:
        """Pieces of the stream that came since the last call, as :meth:`read`."""
        assert self._arrivals is not None, "start() comes first"
        found = b"".join(data for _, data in self._arrivals.take(timeout_s, ending=self._stopped))
        if not self._stopped and host_ns() >= self._ask_at_ns:
            try:
                self._ask()
            except RigError:
                self._ask_at_ns = host_ns() + _ASK_NS  # the rig is gone; the stream will show that
        return [found] if found else []  # a slow computer with a port of small pieces would be busy with each

    def read(self, timeout_s: float) -> list[RailSource]:
        """See :class:`~.meter.Meter`."""
        batches = [batch for data in self.take_stream(timeout_s) for batch in self._decoder.feed(data)]
        return [StreamRail(batch.rail, -self.origin_tick) for batch in batches if batch.rail]

    def sender(self) -> str | None:
        """See :class:`~.meter.StreamMeter`."""
        return self._rig.sender()

    def _end(self) -> None:
        if self._rig.stranger is None:
            self._rig.stop()

    def _close(self) -> None:
        self._rig.close()

    def clock_pairs(self) -> list[ClockPair]:
        """Return pairs of the rig's counter, which is asked once a second."""
        return list(self._pairs)
