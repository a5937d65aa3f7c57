"""Calibrates a rig: known inputs at its connector, its own stream, and the resulting register values."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from wattbell_spec.units import CURRENT_LSB_A, GAIN_FRACTION_BITS, OFFSET_FRACTION_BITS, VOLTAGE_LSB_V

from ...errors import CalibrationError, RigError
from .. import Rig
from ..meanwhile import command_while_reading
from .bench import standard_points
from .line import CalibrationLine, CalibrationPoint, autozero, fit
from .listen import follow
from .plan import COARSE_FROM_A, FINE_UP_TO_A, Applied, CalibrationPlan
from .readings import IntervalReading, Mean, Stretches, clipped
from .registers import ChannelRegisters, registers
from .residual import Residual, residual

__all__ = ["Calibrator", "ChannelCalibration", "calibrate"]

CURRENT_STRAIGHT = 5e-5
"""Relative standard deviation of a point from a straight line due to self-heating of the shunt.

The shunt has 5 ppm/K, 60 K/W in 10 mohm at 4 A (hw/afe/model.toml).
"""
_ZERO_GATE_S = 1.0
"""Averaging time of the firmware's autozero (firmware/src/calibrate.c)."""
_ZERO_S = 120.0
"""Timeout of autozero: one second of rig time, which passes slowly on a virtual rig."""


@dataclass(frozen=True)
class ChannelCalibration:
    """Result for one channel."""

    points: list[CalibrationPoint]
    line: CalibrationLine
    registers: ChannelRegisters
    residual: Residual


class Calibrator(Protocol):
    """The person or source that applies the points."""

    def ready(self, number: int, of: int, target: Applied) -> None:
        """Return once point ``number`` (from 1) is applied."""

    def applied(self, target: Applied, seen: Applied, fine: bool) -> Applied:
        """Return the values really applied. ``seen`` is the rig's measurement with its earlier calibration."""


def calibrate(rig: Rig, plan: CalibrationPlan, bench: Calibrator, store: bool) -> dict[str, ChannelCalibration]:
    """Measure the points, fit a line through each channel's, write them to the rig, and to its EEPROM if ``store``.

    The rig's constants change once all points are read, its EEPROM at the very end. An abort before that leaves the rig with the constants
    of its EEPROM.

    Returns the results for ``voltage``, ``current`` and, for a rig with two current paths, ``fine``. Points up to 75 mA then belong to the
    fine path, those from 105 mA to the coarse path. Raises CalibrationError if the points do not yield a calibration; the rig then keeps
    the one it had. Raises RigError if the rig does not obey.
    """
    fine = "FINE" in rig.control.query("*OPT?").strip('"').split(",")
    if plan.dwell_s is not None and plan.dwell_s < plan.settle_s + plan.seconds:
        raise CalibrationError(f"Points of {plan.dwell_s:g} s are shorter than settling and reading ({plan.settle_s + plan.seconds:g} s).")
    names = {"voltage": "VOLT", "current": "CURR"} | ({"fine": "FINE"} if fine else {})
    plan = replace(plan, points=plan.points or standard_points(fine))
    if fine:
        _check_points(plan)
        rig.control.command("SENS:CURR:RANG:AUTO ON")
    before = {channel: _registers(rig, name) for channel, name in names.items()}
    readings = _sweep(rig, plan) if plan.dwell_s is not None else _one_by_one(rig, plan, bench, fine)
    points: dict[str, list[CalibrationPoint]] = {channel: [] for channel in names}
    for applied, reading in readings:
        voltage_clipped, current_clipped = clipped(reading.flags)
        points["voltage"].append(_point(applied.voltage, reading.voltage, before["voltage"], voltage_clipped, 0.0))
        warm_units = CURRENT_STRAIGHT * abs(applied.current) / CURRENT_LSB_A
        path = "fine" if fine and abs(applied.current) <= FINE_UP_TO_A else "current"
        points[path].append(_point(applied.current, reading.current, before[path], current_clipped, warm_units))
    source = plan.source
    found = {"voltage": _channel(points["voltage"], VOLTAGE_LSB_V, source.voltage_gain, 0.0)}
    for path in list(names)[1:]:
        found[path] = _channel(points[path], CURRENT_LSB_A, source.current_gain, source.current_offset)
    with _or_as_before(rig):
        for channel, name in names.items():
            wanted = found[channel].registers
            rig.control.command(f"CAL:{name}:DATA {wanted.offset},{wanted.gain}")
            if _registers(rig, name) != wanted:
                raise RigError(f"Rig {rig.port.serial} did not take the calibration (CAL:{name}:DATA).")
        if plan.zero:
            _zero(rig, names, found, source.current_gain, plan.seconds)
        if store:
            rig.control.command("CAL:STOR")
    return found


@contextlib.contextmanager
def _or_as_before(rig: Rig) -> Iterator[None]:
    """Let the rig reload its EEPROM's constants if the block is aborted."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(RigError):  # nothing stored, or the rig is gone
            rig.control.timeout_s = _ZERO_S
            rig.control.resume()
            rig.control.command("CAL:LOAD")
        raise


def _check_points(plan: CalibrationPlan) -> None:
    between = [point.current for point in plan.points if FINE_UP_TO_A < abs(point.current) < COARSE_FROM_A]
    if between:
        raise CalibrationError(f"{between[0]:g} A is where the rig's two current paths meet: apply at most 75 mA, or 105 mA or more.")
    low = sum(abs(point.current) <= FINE_UP_TO_A for point in plan.points)
    if min(low, len(plan.points) - low) < 2:
        raise CalibrationError("The rig has two current paths: give two points of at most 75 mA (0 and 0.07 A) and two of 105 mA or more.")


def _zero(rig: Rig, names: dict[str, str], found: dict[str, ChannelCalibration], source_gain: float, point_s: float) -> None:
    """Autozero: the firmware replaces the offsets of the current paths.

    The noise of its mean comes from the least noisy point, which was read for ``point_s``, scaled by the square root of the times.
    """
    patience, rig.control.timeout_s = rig.control.timeout_s, _ZERO_S
    rig.control.command("CAL:ZERO:CURR")
    rig.control.timeout_s = patience
    for path in list(names)[1:]:
        before, now = found[path], _registers(rig, names[path])
        sigma = min(point.code_sigma for point in before.points) * math.sqrt(point_s / _ZERO_GATE_S)
        line = autozero(before.line, now.offset / (1 << OFFSET_FRACTION_BITS), sigma)
        found[path] = ChannelCalibration(before.points, line, now, residual(line, source_gain, 0.0, CURRENT_LSB_A))


def _registers(rig: Rig, name: str) -> ChannelRegisters:
    """The registers in force, used to turn the stream's values back into codes."""
    answer = rig.control.query(f"CAL:{name}:DATA?")
    try:
        offset, gain = (int(part) for part in answer.split(","))
    except ValueError:
        raise RigError(f"Rig {rig.port.serial} answers CAL:{name}:DATA? with {answer!r}; is its firmware older than this?") from None
    return ChannelRegisters(offset, gain)


def _point(applied: float, mean: Mean, used: ChannelRegisters, was_clipped: bool, more_units: float) -> CalibrationPoint:
    """Return a point in codes: the register file's line (docs/registers.md) inverted. ``more_units``: uncertainty in addition to noise."""
    if not mean.count:
        raise CalibrationError(f"Nothing was read at {applied:g}.")
    units_a_code = used.gain / (1 << GAIN_FRACTION_BITS)
    code = mean.mean / units_a_code + used.offset / (1 << OFFSET_FRACTION_BITS)
    return CalibrationPoint(applied, code, math.hypot(mean.sigma, more_units) / units_a_code, was_clipped)


def _channel(points: list[CalibrationPoint], unit: float, gain: float, offset: float) -> ChannelCalibration:
    line = fit(points)
    return ChannelCalibration(points, line, registers(line, unit), residual(line, gain, offset, unit))


def _one_by_one(rig: Rig, plan: CalibrationPlan, bench: Calibrator, fine: bool) -> list[tuple[Applied, IntervalReading]]:
    found = []
    for number, target in enumerate(plan.points, 1):
        bench.ready(number, len(plan.points), target)
        one = Stretches([(plan.settle_s, plan.settle_s + plan.seconds)])
        _capture(rig, one)
        (reading,) = one.readings
        seen = Applied(reading.voltage.mean * VOLTAGE_LSB_V, reading.current.mean * CURRENT_LSB_A)
        found.append((bench.applied(target, seen, fine), reading))
    return found


def _sweep(rig: Rig, plan: CalibrationPlan) -> list[tuple[Applied, IntervalReading]]:
    assert plan.dwell_s is not None
    begins = [n * plan.dwell_s + plan.settle_s for n in range(len(plan.points))]
    readings = Stretches([(begin, begin + plan.seconds) for begin in begins])
    _capture(rig, readings)
    return list(zip(plan.points, readings.readings, strict=True))


def _capture(rig: Rig, readings: Stretches) -> None:
    """Start the stream, read it until ``readings`` is complete, stop it, and drain the rest."""
    view = memoryview(bytearray(1 << 20))
    rig.start()
    try:
        follow(rig, view, readings.feed, lambda: readings.complete, "the last point was read")
    finally:
        command_while_reading(rig, view, rig.stop)
