"""The one shape of a printed figure, and the error model behind its uncertainty.

A figure is ``{"value", "u", "unit", "lost", "conditions"}``. ``u`` is the expanded uncertainty with coverage factor
``K`` = 2 (about 95 %); ``None`` where no honest number can be given. ``lost`` is a lower bound of the records missing under the
figure, 0 only where nothing is known to be missing (:mod:`.loss`). ``docs/accuracy.md`` derives every term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wattbell_spec.boards import BOARDS

SCHEMA_VERSION = 2
"""Version of the JSON that ``analyze`` returns; +1 when a key changes its meaning or goes away."""

K = 2
"""Coverage factor of every ``u``."""

Figure = dict[str, Any]


def figure(
    value: float | int | None,
    unit: str,
    u: float | None = None,
    lost: int = 0,
    conditions: Mapping[str, Any] | None = None,
    **more: Any,
) -> Figure:
    """A figure. ``value`` and ``u`` in ``unit``; ``conditions`` is what must be said next to the number."""
    if value is not None and not math.isfinite(value):
        value = None
    if u is not None and not math.isfinite(u):
        u = None
    return {
        "value": value,
        "u": u if value is not None else None,
        "unit": unit,
        "lost": lost,
        "conditions": dict(conditions or {}),
        **more,
    }


def absent(unit: str, reason: str) -> Figure:
    """A figure that cannot be given, and why. Never zero."""
    return figure(None, unit, conditions={"absent": reason})


def value_of(fig: Mapping[str, Any] | None) -> float | None:
    """The value of a figure, or None."""
    if fig is None:
        return None
    value = fig.get("value")
    return None if value is None else float(value)


def ratio(top: Figure, bottom: Figure, unit: str, scale: float = 1.0, **conditions: Any) -> Figure:
    """``scale * top / bottom``; relative uncertainties add in squares (the two come from different instruments of
    the rig: the clock and the rail). None when either is missing or the divisor is not positive."""
    t, b = value_of(top), value_of(bottom)
    if t is None or b is None or b <= 0:
        return figure(None, unit, conditions={"absent": "numerator or denominator missing or not positive"})
    value = scale * t / b
    relative = 0.0
    for fig, v in ((top, t), (bottom, b)):
        if fig["u"] is not None and v:
            relative = math.hypot(relative, fig["u"] / v)
    return figure(value, unit, abs(value) * relative, int(top["lost"]) + int(bottom["lost"]), conditions)


BOARD_INSTANT_S = max(board.instant_s for board in BOARDS)
"""A capture does not say which board made it: the greatest of all."""


@dataclass(frozen=True)
class ErrorModel:
    """What the front end and the clock may be off by. All limits are read as k = 2.

    ``gain``: of the power reading (V and I gain together). ``offset_a``: current offset; times the rail voltage it is
    a power. ``timebase``: relative error of the tick. ``tick_resolution_s``: quantisation step of an instant.
    ``instant_s``: by how much an instant may be off to either side besides, as a board's link clocks follow the rig's.
    ``front_end_delay_s``: by how much the anti-alias pole makes the rail late against the bus (its time constant); the
    windows of energies are moved by it. ``front_end_delay_u_s``: its uncertainty (k = 2).
    """

    gain: float = 1e-3
    offset_a: float = 5e-6
    timebase: float = 25e-6
    tick_resolution_s: float = 1e-9
    instant_s: float = BOARD_INSTANT_S
    front_end_delay_s: float = 0.0
    front_end_delay_u_s: float = 0.0
    source: str = "assumed: front end 0.1 % + 5 uA, oscillator 25 ppm"

    def power_u(self, power_w: float, voltage_v: float) -> float:
        """k = 2 of a mean power, systematic part."""
        return math.hypot(self.gain * abs(power_w), self.offset_a * abs(voltage_v))

    def interval_u(self, seconds: float) -> float:
        """k = 2 of one interval between two instants: each is uniform in one resolution step and within `instant_s`, plus the timebase."""
        quantum = K * self.tick_resolution_s / math.sqrt(6.0)
        return math.hypot(quantum, self.clocks_u(), self.timebase * abs(seconds))

    def clocks_u(self) -> float:
        """k = 2 of the interval between instants of two clocks, each uniform within `instant_s`; of a mean too: it need not average out."""
        return K * self.instant_s * math.sqrt(2.0 / 3.0)

    def to_json(self) -> dict[str, Any]:
        """As it stands in the result, so that a reader can redo the sums."""
        return {
            "k": K,
            "gain": self.gain,
            "offset_a": self.offset_a,
            "timebase": self.timebase,
            "tick_resolution_s": self.tick_resolution_s,
            "instant_s": self.instant_s,
            "front_end_delay_s": self.front_end_delay_s,
            "front_end_delay_u_s": self.front_end_delay_u_s,
            "source": self.source,
        }


def error_model(meta: Mapping[str, Any]) -> ErrorModel:
    """The error model of a capture: ``rig.error_model`` of ``meta.json`` if the rig states one, else the default.

    A virtual rig's clock is the definition of time, and its links' too: no oscillator term, nothing that one clock follows another.
    """
    virtual = bool((meta.get("conditions") or {}).get("virtual"))
    resolution = float((meta.get("clock") or {}).get("tick_ps") or 1000) * 1e-12
    delay, delay_u = (float((meta.get("conditions") or {}).get(f"front_end_delay_{name}") or 0.0) for name in ("s", "u_s"))
    base = ErrorModel(tick_resolution_s=resolution, front_end_delay_s=delay, front_end_delay_u_s=delay_u)
    if virtual:
        base = ErrorModel(
            timebase=0.0,
            instant_s=0.0,
            front_end_delay_s=delay,
            front_end_delay_u_s=delay_u,
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
        source="stated by the rig",
    )
