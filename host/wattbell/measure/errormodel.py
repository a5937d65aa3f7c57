"""Limits of error of a rig's front end and clock; ``docs/accuracy.md`` derives every term."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from wattbell_spec.boards import BOARDS

from ..jsondata import JsonObject
from .figure import K

BOARD_INSTANT_S = max(board.instant_s for board in BOARDS)
"""A capture does not say which board made it: the greatest of all."""


@dataclass(frozen=True)
class ErrorModel:
    """Limits of error of the front end and the clock, read as k = 2.

    gain: of the power reading (V and I gain together)
    offset_a: current offset; times the rail voltage it is a power
    timebase: relative error of the tick
    tick_resolution_s: quantisation step of an instant
    instant_s: further error of an instant to either side, as a board's link clocks follow the rig's
    front_end_delay_s: delay of the rail behind the bus by the anti-alias pole (its time constant); windows of energies are moved by it
    front_end_delay_u_s: uncertainty of that delay (k = 2)
    alignment_u_s: error of commands and events against the rail, if two clocks stamp them
    ranges: (gain, offset_a) of each range of a meter that has several and reports them. ``gain`` and ``offset_a`` then hold for readers
        that ignore the range
    """

    gain: float = 1e-3
    offset_a: float = 5e-6
    timebase: float = 25e-6
    tick_resolution_s: float = 1e-9
    instant_s: float = BOARD_INSTANT_S
    front_end_delay_s: float = 0.0
    front_end_delay_u_s: float = 0.0
    alignment_u_s: float = 0.0
    ranges: tuple[tuple[float, float], ...] = ()
    source: str = "assumed: front end 0.1 % + 5 uA, oscillator 25 ppm"

    def power_u(self, power_w: float, voltage_v: float) -> float:
        """k = 2 of a mean power, systematic part."""
        return math.hypot(self.gain * abs(power_w), self.offset_a * abs(voltage_v))

    def worst_of(self, numbers: Collection[int]) -> ErrorModel:
        """Return the model for measurements in any of these ranges."""
        if not numbers or not self.ranges or max(numbers) >= len(self.ranges):
            return self
        terms = [self.ranges[number] for number in numbers]
        return replace(self, gain=max(gain for gain, _ in terms), offset_a=max(offset for _, offset in terms))

    def interval_u(self, seconds: float) -> float:
        """k = 2 of one interval between two instants: each is uniform in one resolution step and within `instant_s`, plus the timebase."""
        quantum = K * self.tick_resolution_s / math.sqrt(6.0)
        return math.hypot(quantum, self.clocks_u(), self.timebase * abs(seconds))

    def clocks_u(self) -> float:
        """k = 2 of the interval between instants of two clocks, each uniform within `instant_s`; of a mean too: it need not average out."""
        return K * self.instant_s * math.sqrt(2.0 / 3.0)

    def to_json(self) -> JsonObject:
        """Return the model as the result shows it, so that a reader can redo the sums."""
        found = {"k": K, **asdict(self)}
        ranges = found.pop("ranges")
        return {**found, **({"ranges": [{"gain": gain, "offset_a": offset} for gain, offset in ranges]} if ranges else {})}


def error_model(meta: Mapping[str, Any]) -> ErrorModel:
    """The error model of a capture: ``rig.error_model`` of ``meta.json`` if the rig states one, else the default.

    A virtual rig's clock is the definition of time, and its links' too: no oscillator term, nothing that one clock follows another.
    """
    virtual = bool((meta.get("conditions") or {}).get("virtual"))
    resolution = float((meta.get("clock") or {}).get("tick_ps") or 1000) * 1e-12
    delay, delay_u = (float((meta.get("conditions") or {}).get(f"front_end_delay_{name}") or 0.0) for name in ("s", "u_s"))
    apart = float((meta.get("conditions") or {}).get("alignment_u_s") or 0.0)
    base = ErrorModel(tick_resolution_s=resolution, front_end_delay_s=delay, front_end_delay_u_s=delay_u, alignment_u_s=apart)
    if virtual:
        base = ErrorModel(
            timebase=0.0,
            instant_s=0.0,
            front_end_delay_s=delay,
            front_end_delay_u_s=delay_u,
            alignment_u_s=apart,
            tick_resolution_s=resolution,
            source="assumed: front end 0.1 % + 5 uA after calibration; virtual rig, its clock is exact",
        )
    stated = (meta.get("rig") or {}).get("error_model")
    if not isinstance(stated, Mapping):
        return base
    return ErrorModel(
        gain=float(stated.get("gain", base.gain)),
        offset_a=float(stated.get("offset_a", base.offset_a)),
        timebase=float(stated.get("timebase", base.timebase)),
        tick_resolution_s=float(stated.get("tick_resolution_s", base.tick_resolution_s)),
        instant_s=float(stated.get("instant_s", base.instant_s)),
        front_end_delay_s=float(stated.get("front_end_delay_s", base.front_end_delay_s)),
        front_end_delay_u_s=float(stated.get("front_end_delay_u_s", base.front_end_delay_u_s)),
        alignment_u_s=apart,
        ranges=tuple((float(one["gain"]), float(one["offset_a"])) for one in stated.get("ranges") or ()),
        source=str((meta.get("rig") or {}).get("accuracy") or "stated by the rig"),
    )
