"""Calibrating a rig: known inputs at its connector, its own stream, and what goes into its registers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..errors import CalibrationError, RigError
from ..rig import Rig
from .line import Line, Point, fit
from .readings import Mean, Stretches, clipped
from .registers import GAIN_FRACTION_BITS, OFFSET_FRACTION_BITS, ChannelRegisters, registers
from .residual import Residual, residual

__all__ = ["Applied", "Channel", "Plan", "Source", "calibrate"]

VOLTAGE_UNIT_V = 20e-6
CURRENT_UNIT_A = 500e-9
"""Units of the wire (docs/wire-format.md)."""
CURRENT_STRAIGHT = 5e-5
"""Standard deviation, relative, by which a point may be off a straight line because the shunt is warm at one and not at another: 5 ppm/K,
60 K/W in 10 mohm at 4 A (hw/afe/model.toml)."""
_SILENCE_S = 10.0
"""How long a rig may send nothing before the last stretch is over."""


@dataclass(frozen=True)
class Applied:
    """A known input at the connector, in V and A."""

    voltage: float
    current: float


@dataclass(frozen=True)
class Source:
    """Standard uncertainties (k = 1) of what was applied: relative of both, and in A of the current's zero."""

    voltage_gain: float = 1e-5
    current_gain: float = 3.33e-5
    current_offset: float = 3.3e-7


@dataclass(frozen=True)
class Plan:
    """Points, and when they are read. With ``dwell_s`` the source goes from point to point by itself, one each ``dwell_s`` from the
    beginning of the capture; without, ``apply`` is called for each point and returns once it is there."""

    points: list[Applied]
    seconds: float = 1.0
    settle_s: float = 0.01
    dwell_s: float | None = None
    source: Source = field(default_factory=Source)


@dataclass(frozen=True)
class Channel:
    """What was found of a channel."""

    points: list[Point]
    line: Line
    registers: ChannelRegisters
    residual: Residual


def calibrate(rig: Rig, plan: Plan, apply: Callable[[Applied], None], store: bool) -> tuple[Channel, Channel]:
    """Measure the points, fit a line through each channel's, write them to the rig, and keep them in its EEPROM if ``store``.

    Returns voltage and current. Raises CalibrationError where the points make no calibration (the rig then keeps the one it had) and
    RigError where the rig does not do what it is told.
    """
    if plan.dwell_s is not None and plan.dwell_s < plan.settle_s + plan.seconds:
        raise CalibrationError(f"Points of {plan.dwell_s:g} s are shorter than settling and reading ({plan.settle_s + plan.seconds:g} s).")
    before = [_registers(rig, name) for name in ("VOLT", "CURR")]
    readings = _sweep(rig, plan) if plan.dwell_s is not None else _one_by_one(rig, plan, apply)
    voltages, currents = [], []
    for applied, reading in zip(plan.points, readings.readings):
        voltage_clipped, current_clipped = clipped(reading.flags)
        voltages.append(_point(applied.voltage, reading.voltage, before[0], voltage_clipped, 0.0))
        warm_units = CURRENT_STRAIGHT * abs(applied.current) / CURRENT_UNIT_A
        currents.append(_point(applied.current, reading.current, before[1], current_clipped, warm_units))
    source = plan.source
    voltage = _channel(voltages, VOLTAGE_UNIT_V, source.voltage_gain, 0.0)
    current = _channel(currents, CURRENT_UNIT_A, source.current_gain, source.current_offset)
    for name, channel in (("VOLT", voltage), ("CURR", current)):
        rig.control.command(f"CAL:{name}:DATA {channel.registers.offset},{channel.registers.gain}")
        if _registers(rig, name) != channel.registers:
            raise RigError(f"Rig {rig.port.serial} did not take the calibration (CAL:{name}:DATA).")
    if store:
        rig.control.command("CAL:STOR")
    return voltage, current


def _registers(rig: Rig, name: str) -> ChannelRegisters:
    """What is in force: the stream's values are undone with it."""
    answer = rig.control.query(f"CAL:{name}:DATA?")
    try:
        offset, gain = (int(part) for part in answer.split(","))
    except ValueError:
        raise RigError(f"Rig {rig.port.serial} answers CAL:{name}:DATA? with {answer!r}; is its firmware older than this?") from None
    return ChannelRegisters(offset, gain)


def _point(applied: float, mean: Mean, used: ChannelRegisters, was_clipped: bool, more_units: float) -> Point:
    """A point in codes: the register file's line (docs/registers.md) the other way round. ``more_units``: uncertainty besides noise."""
    if not mean.count:
        raise CalibrationError(f"Nothing was read at {applied:g}.")
    units_a_code = used.gain / (1 << GAIN_FRACTION_BITS)
    code = mean.mean / units_a_code + used.offset / (1 << OFFSET_FRACTION_BITS)
    return Point(applied, code, math.hypot(mean.sigma, more_units) / units_a_code, was_clipped)


def _channel(points: list[Point], unit: float, gain: float, offset: float) -> Channel:
    line = fit(points)
    return Channel(points, line, registers(line, unit), residual(line, gain, offset, unit))


def _one_by_one(rig: Rig, plan: Plan, apply: Callable[[Applied], None]) -> Stretches:
    whole = Stretches([])
    for applied in plan.points:
        apply(applied)
        one = Stretches([(plan.settle_s, plan.settle_s + plan.seconds)])
        _capture(rig, one)
        whole.readings += one.readings
    return whole


def _sweep(rig: Rig, plan: Plan) -> Stretches:
    assert plan.dwell_s is not None
    begins = [n * plan.dwell_s + plan.settle_s for n in range(len(plan.points))]
    readings = Stretches([(begin, begin + plan.seconds) for begin in begins])
    _capture(rig, readings)
    return readings


def _capture(rig: Rig, readings: Stretches) -> None:
    """Starts the stream, reads it until ``readings`` is complete, stops it, and reads what was left."""
    buffer = bytearray(1 << 20)
    view = memoryview(buffer)
    rig.start()
    try:
        heard = time.monotonic()
        while not readings.complete:
            got = rig.read_into(view)
            if got:
                heard = time.monotonic()
                readings.feed(bytes(view[:got]))
            elif time.monotonic() > heard + _SILENCE_S:
                raise RigError(f"Rig {rig.port.serial} stopped sending before the last point was read.")
    finally:
        _stop(rig, view)


def _stop(rig: Rig, view: memoryview) -> None:
    """Stops the stream. Meanwhile it is read: a rig that cannot send what it has may not come to hear of it."""
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(rig.stop)
        while rig.read_into(view) or not stopped.done():
            pass
        stopped.result()
